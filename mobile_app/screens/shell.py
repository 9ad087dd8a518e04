"""The frame around the screens: the bar that changes between them, sheets above, a line that says what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kivy.clock import Clock
from kivy.graphics import Color, Rectangle
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.floatlayout import FloatLayout
from kivy.uix.widget import Widget

from mobile_app.screens.page import Page
from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.sheets import Sheet
from mobile_app.screens.widgets.surfaces import Card, paint
from mobile_app.screens.widgets.text import Column, Text, replace

NOTICE_S = 4.0
TAB_TEXT_MAX = 13.5  # six names fit beside each other; the icons say it too
BAR = 72  # height of the bar below, width of the one at the side


class Tab(ButtonBehavior, AnchorLayout):
    """A screen's icon and name in the bar."""

    def __init__(self, page: type[Page], act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act
        self.title = page.title
        self._icon = Icon(page.icon, side=24, colour="soft")
        self._pill = AnchorLayout(size_hint=(None, None), size=(dp(52), dp(32)), pos_hint={"center_x": 0.5})
        self._pill.add_widget(self._icon)
        self._fill, _ = paint(self._pill, "card", corner=16)
        self._words = Text(page.title, size="caption", colour="soft", align="center", one_line=True)
        self._words.font_size = min(self._words.font_size, dp(TAB_TEXT_MAX))
        self.add_widget(Column(self._pill, self._words, gap=3))

    def choose(self, chosen: bool) -> None:
        self._fill.rgba = look.colour("tint" if chosen else "card")
        self._icon.show(self._icon.name, "on_tint" if chosen else "soft")
        self._words.recolour("ink" if chosen else "soft")
        self._words.bold = chosen

    def on_release(self) -> None:
        self._act()


class Shell(FloatLayout):
    """Holds the screens, one of them visible. In landscape the bar stands at the side."""

    def __init__(
        self, kinds: Sequence[type[Page]], make: Callable[[type[Page]], Page], on_page: Callable[[Page], None]
    ) -> None:
        """`make` builds a screen when it is first gone to: the app is there before all of it is."""
        super().__init__()
        self._on_page, self._make = on_page, make
        self._kinds = {kind.name: kind for kind in kinds}
        self._pages: dict[str, Page] = {}
        self.current = self._page(kinds[0].name)
        with self.canvas.before:
            Color(*look.colour("page"))
            self._ground = Rectangle()
        self._stage = BoxLayout()
        self._bar = BoxLayout()
        with self._bar.canvas.before:
            Color(*look.colour("line"))
            self._bar_edge = Rectangle()
            Color(*look.colour("card"))
            self._bar_ground = Rectangle()
        self.tabs = {kind.name: Tab(kind, partial(self.go, kind.name)) for kind in kinds}
        for tab in self.tabs.values():
            self._bar.add_widget(tab)
        self._frame = BoxLayout()
        self.add_widget(self._frame)
        self._sheet: Sheet | None = None
        self._message: Widget | None = None
        self._lies_wide: bool | None = None
        self.bind(size=self.rearrange, pos=self.rearrange)
        self._bar.bind(size=self._place_bar, pos=self._place_bar)
        self._stage.add_widget(self.current)
        self.tabs[self.current.name].choose(True)

    def rearrange(self, *_: object) -> None:
        self._ground.pos, self._ground.size = self.pos, self.size
        wide = self.width > self.height and self.height < dp(560)
        left, top, right, bottom = look.insets
        if wide != self._lies_wide:
            self._lies_wide = wide
            self._frame.orientation = "horizontal" if wide else "vertical"
            self._bar.orientation = "vertical" if wide else "horizontal"
            replace(self._frame, *((self._bar, self._stage) if wide else (self._stage, self._bar)))
        if wide:
            self._bar.size_hint, self._bar.width = (None, 1), dp(BAR) + left
            self._bar.padding = [left, top + dp(4), 0, bottom + dp(4)]
            self._stage.padding = [0, top, right, bottom]
        else:
            self._bar.size_hint, self._bar.height = (1, None), dp(BAR) + bottom
            self._bar.padding = [left + dp(4), 0, right + dp(4), bottom]
            self._stage.padding = [left, top, right, 0]

    def _place_bar(self, *_: object) -> None:
        (x, y), (width, height) = self._bar.pos, self._bar.size
        thick = max(1, round(dp(1)))
        self._bar_edge.pos, self._bar_edge.size = (x, y), (width, height)
        if self._lies_wide:
            self._bar_ground.pos, self._bar_ground.size = (x, y), (width - thick, height)
        else:
            self._bar_ground.pos, self._bar_ground.size = (x, y), (width, height - thick)

    def _page(self, name: str) -> Page:
        if name not in self._pages:
            self._pages[name] = self._make(self._kinds[name])
        return self._pages[name]

    def go(self, name: str) -> None:
        page = self._page(name)
        self.close_sheet()
        if page is not self.current:
            self.tabs[self.current.name].choose(False)
            self.current = page
            self.tabs[name].choose(True)
            replace(self._stage, page)
        self._on_page(page)

    def open_sheet(self, sheet: Sheet) -> None:
        self.close_sheet()
        sheet.close = self.close_sheet
        self._sheet = sheet
        self.add_widget(sheet)

    def close_sheet(self) -> bool:
        """True when there was one."""
        if self._sheet is None:
            return False
        self.remove_widget(self._sheet)
        self._sheet = None
        return True

    @property
    def sheet(self) -> Sheet | None:
        return self._sheet

    def say(self, text: str) -> None:
        """A line above the bar for a few seconds."""
        self._hush()
        _, _, _, bottom = look.insets
        card = Card(Text(text, size="label", colour="page"), fill="ink", border="", padding=(18, 14, 18, 14))
        holder = AnchorLayout(anchor_y="bottom", padding=[dp(12), 0, dp(12), bottom + dp(BAR + 10)])
        card.size_hint_x, card.width = None, min(self.width - dp(24), dp(520))
        holder.add_widget(card)
        self._message = holder
        self.add_widget(holder)
        Clock.schedule_once(lambda _dt: self._hush(holder), NOTICE_S)

    def _hush(self, only: Widget | None = None) -> None:
        if self._message is not None and only in (None, self._message):
            self.remove_widget(self._message)
            self._message = None

    def back(self) -> bool:
        """Close a sheet, leave a part of a screen, go to the first screen; False when there is no way back."""
        if self.close_sheet() or self.current.leave():
            return True
        first = next(iter(self._kinds))
        if self.current.name != first:
            self.go(first)
            return True
        return False
