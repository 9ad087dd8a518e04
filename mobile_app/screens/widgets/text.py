"""Text and the two ways to lay things out: down a column, along a row."""

from __future__ import annotations

from typing import Any

from kivy.metrics import dp
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.label import Label
from kivy.uix.layout import Layout
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look, text_size

MONO = "RobotoMono-Regular"


class Text(Label):
    """A paragraph as wide as its place and as high as it needs; with `fit`, one line as wide as it needs."""

    def __init__(
        self, text: str = "", *, size: str = "body", colour: str = "ink", bold: bool = False, mono: bool = False,
        align: str = "left", fit: bool = False, one_line: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        if mono:
            more["font_name"] = MONO
        super().__init__(
            text=text, font_size=text_size(size), color=look.colour(colour), bold=bold, halign=align,
            valign="middle", line_height=1.15 if size in ("body", "label", "caption") else 1.0,
            size_hint=(None if fit else 1, None), **more,
        )  # fmt: skip
        self._fit = fit
        if one_line:
            self.shorten, self.shorten_from = True, "right"
        self.bind(texture_size=self._take_size)
        if not fit:
            self.bind(width=self._wrap)
        self.texture_update()
        self._take_size(self, self.texture_size)

    def _wrap(self, _label: Widget, width: float) -> None:
        self.text_size = (width, None)

    def _take_size(self, _label: Widget, size: Any) -> None:
        self.height = size[1]
        if self._fit:
            self.width = size[0]

    def recolour(self, part: str) -> None:
        self.color = look.colour(part)


class Column(BoxLayout):
    """Things below each other; as high as they are together."""

    def __init__(self, *children: Widget, gap: float = 0, padding: Any = 0, **more: Any) -> None:
        super().__init__(
            orientation="vertical", spacing=dp(gap), padding=_padding(padding), size_hint_y=None, **more
        )  # fmt: skip
        self.bind(minimum_height=self.setter("height"))
        self.height = self.minimum_height
        for child in children:
            self.add_widget(child)


class Row(BoxLayout):
    """Things beside each other, centred; as high as the highest."""

    def __init__(self, *children: Widget, gap: float = 8, padding: Any = 0, height_min: float = 0, **more: Any) -> None:
        super().__init__(
            orientation="horizontal", spacing=dp(gap), padding=_padding(padding), size_hint_y=None, **more
        )  # fmt: skip
        self._height_min = dp(height_min)
        self.bind(minimum_height=self._take_height)
        self._take_height(self, self.minimum_height)
        for child in children:
            self.add_widget(child)

    def add_widget(self, widget: Widget, *more: Any, **named: Any) -> None:
        widget.pos_hint = {"center_y": 0.5}
        super().add_widget(widget, *more, **named)

    def _take_height(self, _row: Widget, height: float) -> None:
        self.height = max(height, self._height_min)


class Wrap(Layout):
    """Small things one after the other, in as many lines as they need."""

    def __init__(self, *children: Widget, gap: float = 8, centred: bool = False) -> None:
        super().__init__(size_hint_y=None, height=0)
        self._gap, self._centred = dp(gap), centred
        self.bind(pos=self._trigger_layout, size=self._trigger_layout, children=self._trigger_layout)
        for child in children:
            self.add_widget(child)

    def add_widget(self, widget: Widget, *more: Any, **named: Any) -> None:
        widget.fbind("size", self._trigger_layout)
        super().add_widget(widget, *more, **named)

    def remove_widget(self, widget: Widget, *more: Any, **named: Any) -> None:
        widget.funbind("size", self._trigger_layout)
        super().remove_widget(widget, *more, **named)

    def do_layout(self, *_: object) -> None:
        lines: list[list[Widget]] = [[]]
        used = 0.0
        for child in reversed(self.children):
            if lines[-1] and used + child.width > self.width:
                lines.append([])
                used = 0.0
            lines[-1].append(child)
            used += child.width + self._gap
        heights = [max((child.height for child in line), default=0) for line in lines]
        self.height = sum(heights) + self._gap * (len(lines) - 1)
        top = self.y + self.height
        for line, height in zip(lines, heights, strict=True):
            wide = sum(child.width for child in line) + self._gap * (len(line) - 1)
            x = self.x + ((self.width - wide) / 2 if self._centred else 0)
            for child in line:
                child.pos = (x, top - height / 2 - child.height / 2)
                x += child.width + self._gap
            top -= height + self._gap


class Space(Widget):
    """Room between: a fixed height, or, without one, all that is left in a row."""

    def __init__(self, height: float | None = None) -> None:
        super().__init__(size_hint=(1, None), height=dp(height or 0))


def _padding(given: Any) -> Any:
    return [dp(part) for part in given] if isinstance(given, (list, tuple)) else dp(given)


def replace(box: BoxLayout, *children: Widget) -> None:
    """Let the box hold these and nothing else."""
    box.clear_widgets()
    for child in children:
        box.add_widget(child)
