"""Sheets: what rises from the bottom to ask one thing, and goes away again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kivy.graphics import Color, Rectangle
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.controls import Field, PushButton
from mobile_app.screens.widgets.surfaces import Card
from mobile_app.screens.widgets.text import Row, Space, Text


class Sheet(AnchorLayout):
    """Dims what is behind it; a touch beside it, or the back button, closes it."""

    def __init__(self, title: str, text: str = "", *children: Widget) -> None:
        left, _, right, bottom = look.insets
        super().__init__(anchor_y="bottom", padding=[left + dp(8), 0, right + dp(8), bottom + dp(8)])
        self.close: Callable[[], object] = lambda: None
        with self.canvas.before:
            Color(0, 0, 0, 0.5)
            self._shade = Rectangle()
        self.bind(pos=self._cover, size=self._cover)
        self.card = Card(Text(title, size="title", bold=True), gap=12, padding=22)
        if text:
            self.card.add_widget(Text(text, colour="soft"))
        for child in children:
            self.card.add_widget(child)
        self.add_widget(self.card)

    def dismiss(self) -> None:
        self.close()  # known only once the sheet is open

    def _cover(self, *_: object) -> None:
        self._shade.pos, self._shade.size = self.pos, self.size
        self.card.size_hint_x, self.card.width = None, min(self.width - dp(16), dp(560))

    def on_touch_down(self, touch: Any) -> bool:
        if not self.card.collide_point(*touch.pos):
            self.close()
            return True
        super().on_touch_down(touch)
        return True  # nothing behind a sheet hears a touch


def buttons(*row: Widget) -> Row:
    return Row(*row, gap=10)


class Question(Sheet):
    """One sentence, yes or no; `danger` colours the yes."""

    def __init__(self, title: str, text: str, yes: str, act: Callable[[], None], *, danger: bool = False) -> None:
        def accepted() -> None:
            self.close()
            act()

        super().__init__(
            title, text, Space(4),
            buttons(PushButton("Cancel", self.dismiss, kind="outlined"),
                    PushButton(yes, accepted, kind="danger" if danger else "filled")),
        )  # fmt: skip


class Entry(Sheet):
    """Asks for one line of text."""

    def __init__(
        self, title: str, hint: str, yes: str, act: Callable[[str], None], *, value: str = "", text: str = "",
        lines: int = 1,
    ) -> None:  # fmt: skip
        self.field = Field(hint, value, lines=lines, enter=lambda _text: self._accept())
        self._act = act
        super().__init__(
            title, text, self.field,
            buttons(PushButton("Cancel", self.dismiss, kind="outlined"), PushButton(yes, self._accept)),
        )  # fmt: skip

    def _accept(self) -> None:
        words = self.field.text.strip()
        if words:
            self.close()
            self._act(words)
