"""What a finger can do: buttons, switches, fields. Nothing here is lower than 48 density-independent pixels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kivy.graphics import Color, SmoothEllipse, SmoothRoundedRectangle
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.textinput import TextInput
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look, text_size
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import paint
from mobile_app.screens.widgets.text import Column, Row, Text
from mobile_app.screens.widgets.theme import TOUCH

Act = Callable[[], object]
# kind -> surface, ink, border
KINDS = {
    "filled": ("accent", "on_accent", ""),
    "tonal": ("tint", "on_tint", ""),
    "outlined": ("card", "accent", "line"),
    "plain": ("card", "accent", ""),
    "danger": ("bad_tint", "bad", ""),
}


class Pressed(ButtonBehavior, Row):
    """A row that can be pressed; it dims while the finger is down."""

    def __init__(self, *children: Widget, act: Act | None = None, height_min: float = TOUCH, **more: Any) -> None:
        super().__init__(height_min=height_min, **more)
        for child in children:
            self.add_widget(child)
        self.act = act

    def on_state(self, _row: Widget, state: str) -> None:
        self.opacity = 0.55 if state == "down" else 0.38 if self.disabled else 1.0

    def on_disabled(self, _row: Widget, disabled: bool) -> None:
        self.opacity = 0.38 if disabled else 1.0

    def on_release(self) -> None:
        if self.act is not None:
            self.act()


class PushButton(Pressed):  # Kivy styles every class named Button
    """A word, perhaps an icon before it; as wide as its place, or as wide as it needs with `fit`."""

    def __init__(
        self, text: str, act: Act | None = None, *, kind: str = "filled", icon: str = "", fit: bool = False
    ) -> None:
        fill, ink, border = KINDS[kind]
        self.words = Text(text, size="body", colour=ink, bold=True, fit=True)
        parts: list[Widget] = [Icon(icon, side=20, colour=ink, stroke=2.2)] if icon else []
        inner = Row(*parts, self.words, gap=8, size_hint_x=None)
        inner.bind(minimum_width=inner.setter("width"))
        super().__init__(Widget(size_hint_y=None, height=0), inner, Widget(size_hint_y=None, height=0), act=act,
                         padding=(18, 10, 18, 10), gap=0)  # fmt: skip
        if fit:
            self.size_hint_x = None
            inner.bind(width=lambda _inner, width: setattr(self, "width", width + dp(36)))
            self.width = inner.width + dp(36)
        self.surface, _ = paint(self, fill, corner=TOUCH / 2, border=border)

    @property
    def text(self) -> str:
        return str(self.words.text)


class IconButton(ButtonBehavior, AnchorLayout):
    """An icon alone, with room for a finger around it."""

    def __init__(self, icon: str, act: Act, *, label: str, colour: str = "soft", side: float = 24) -> None:
        super().__init__(size_hint=(None, None), size=(dp(TOUCH), dp(TOUCH)))
        self.act, self.label = act, label  # the label is for tests and for readers of the screen
        self.add_widget(Icon(icon, side=side, colour=colour))

    def on_state(self, _button: Widget, state: str) -> None:
        self.opacity = 0.5 if state == "down" else 1.0

    def on_release(self) -> None:
        self.act()


class OnOff(ButtonBehavior, Widget):
    """On or off; `change` hears what the person wants, `show` says what is so."""

    def __init__(self, change: Callable[[bool], None], *, on: bool = False) -> None:
        super().__init__(size_hint=(None, None), size=(dp(56), dp(TOUCH)))
        self.on, self._change = on, change
        with self.canvas:
            self._track_colour = Color()
            self._track = SmoothRoundedRectangle(size=(dp(50), dp(30)), radius=[dp(15)])
            self._knob_colour = Color()
            self._knob = SmoothEllipse()
        self.bind(pos=self._draw, size=self._draw)
        self._draw()

    def show(self, on: bool) -> None:
        if on != self.on:
            self.on = on
            self._draw()

    def on_release(self) -> None:
        self.show(not self.on)
        self._change(self.on)

    def _draw(self, *_: object) -> None:
        left, bottom = self.right - dp(50), self.center_y - dp(15)
        self._track.pos = (left, bottom)
        self._track_colour.rgba = look.colour("accent") if self.on else look.blend("faint", "card", 0.45)
        side = dp(22)
        self._knob.size = (side, side)
        self._knob.pos = (left + (dp(24) if self.on else dp(4)), bottom + dp(4))
        off = "card" if look.palette.name == "light" else "soft"
        self._knob_colour.rgba = look.colour("on_accent" if self.on else off)


class SwitchRow(Pressed):
    """A sentence and a switch; the whole row can be touched."""

    def __init__(
        self, title: str, text: str, change: Callable[[bool], None], *, on: bool = False, icon: str = ""
    ) -> None:
        self.switch = OnOff(change, on=on)
        words = Column(Text(title), gap=1)
        self.detail = Text(text, size="label", colour="soft")
        if text:
            words.add_widget(self.detail)
        parts: list[Widget] = [Icon(icon, side=22, colour="soft")] if icon else []
        super().__init__(
            *parts, words, self.switch, act=self.switch.on_release, gap=14, height_min=60, padding=(0, 6, 0, 6)
        )

    def show(self, on: bool) -> None:
        self.switch.show(on)


class Choices(Row):
    """One of a few words; the chosen one is filled."""

    def __init__(self, words: dict[str, str], chosen: str, choose: Callable[[str], None]) -> None:
        super().__init__(gap=0, padding=3)
        paint(self, "raised", corner=TOUCH / 2 + 3)
        self._choose = choose
        self.chosen = chosen
        self._parts: dict[str, tuple[Pressed, Any, Text]] = {}
        for key, word in words.items():
            text = Text(word, size="label", bold=True, align="center", one_line=True)
            part = Pressed(text, act=partial(self._take, key), padding=(4, 0, 4, 0))
            colour, _ = paint(part, "card", corner=TOUCH / 2)
            self._parts[key] = (part, colour, text)
            self.add_widget(part)
        self._draw()

    def show(self, chosen: str) -> None:
        self.chosen = chosen
        self._draw()

    def _take(self, key: str) -> None:
        self.show(key)
        self._choose(key)

    def _draw(self) -> None:
        for key, (_, colour, text) in self._parts.items():
            colour.rgba = look.colour("card" if key == self.chosen else "raised")
            text.recolour("ink" if key == self.chosen else "soft")


class Field(TextInput):
    """One line of text (or a few, with `lines`), on its own surface."""

    def __init__(
        self, hint: str, text: str = "", *, lines: int = 1, enter: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(
            text=text, hint_text=hint, multiline=lines > 1, font_size=text_size("body"), size_hint_y=None,
            background_color=(0, 0, 0, 0), foreground_color=look.colour("ink"), cursor_color=look.colour("accent"),
            hint_text_color=look.colour("faint"), padding=(dp(16), dp(14), dp(16), dp(12)), write_tab=False,
            selection_color=look.colour("accent", 0.3), use_bubble=False, use_handles=False,
        )  # fmt: skip
        self.height = max(dp(TOUCH), self.line_height * lines + dp(28))
        paint(self, "raised", corner=12)
        if enter is not None:
            self.bind(on_text_validate=lambda _field: enter(self.text))
