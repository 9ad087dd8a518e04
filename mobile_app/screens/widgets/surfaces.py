"""Surfaces: what text and controls lie on, and small marks made of a surface and a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kivy.graphics import Color, InstructionGroup, Rectangle, SmoothRoundedRectangle
from kivy.metrics import Metrics, dp
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.text import Column, Row, Text
from mobile_app.screens.widgets.theme import CORNER, INSET

FOUR = 4
LARGE = 1.1  # times the usual size of text


def paint(
    widget: Widget, fill: str, *, corner: float = CORNER, border: str = "", share: float = 1.0
) -> tuple[Color, Color | None]:
    """Lay a rounded surface behind a widget; it follows the widget. Returns its colours, to be changed later."""
    group = InstructionGroup()
    edge_colour = None
    if border:
        edge_colour = Color(*look.colour(border))
        edge = SmoothRoundedRectangle(radius=[dp(corner)])
        group.add(edge_colour)
        group.add(edge)
    fill_colour = Color(*look.blend(fill, "page", share))
    inside = SmoothRoundedRectangle(radius=[dp(corner) - (dp(1) if border else 0)])
    group.add(fill_colour)
    group.add(inside)
    widget.canvas.before.insert(0, group)  # first, because a text field leaves the colour of its text behind it

    def follow(*_: object) -> None:
        thick = dp(1) if border else 0
        if border:
            edge.pos, edge.size = widget.pos, widget.size
        inside.pos = (widget.x + thick, widget.y + thick)
        inside.size = (max(0, widget.width - 2 * thick), max(0, widget.height - 2 * thick))

    widget.bind(pos=follow, size=follow)
    follow()
    return fill_colour, edge_colour


class Card(Column):
    """What belongs together, on one surface."""

    def __init__(
        self, *children: Widget, fill: str = "card", border: str = "line", gap: float = 10, padding: Any = INSET,
    ) -> None:  # fmt: skip
        super().__init__(*children, gap=gap, padding=padding)
        paint(self, fill, border=border)


class Divider(Widget):
    def __init__(self) -> None:
        super().__init__(size_hint=(1, None), height=dp(1))
        with self.canvas:
            Color(*look.colour("line"))
            line = Rectangle()
        self.bind(pos=lambda *_: setattr(line, "pos", self.pos), size=lambda *_: setattr(line, "size", self.size))


class Chip(Row):
    """A word on its own small surface."""

    def __init__(self, text: str, *, fill: str = "raised", colour: str = "soft", icon: str = "") -> None:
        self.words = Text(text, size="caption", colour=colour, bold=True, fit=True)
        parts: list[Widget] = [Icon(icon, side=14, colour=colour, stroke=2.4)] if icon else []
        super().__init__(*parts, self.words, gap=5, padding=(10, 5, 10, 5), size_hint_x=None)
        self.bind(minimum_width=self.setter("width"))
        self.fill, _ = paint(self, fill, corner=13)

    def show(self, text: str, *, fill: str, colour: str) -> None:
        self.words.text = text
        self.words.recolour(colour)
        self.fill.rgba = look.colour(fill)


class Notice(Row):
    """Something to know now, in its own colour: why it matters, and what follows from it."""

    FILLS = {"info": ("tint", "on_tint"), "warn": ("warn_tint", "warn"), "bad": ("bad_tint", "bad")}  # noqa: RUF012
    MARKS = {"info": "info", "warn": "alert", "bad": "alert"}  # noqa: RUF012

    def __init__(self, kind: str, title: str, text: str = "", *, icon: str = "") -> None:
        fill, colour = self.FILLS[kind]
        words = Column(Text(title, size="label", colour=colour, bold=True), gap=2)
        if text:
            words.add_widget(Text(text, size="label", colour="ink"))
        super().__init__(
            Icon(icon or self.MARKS[kind], side=22, colour=colour), words, gap=12, padding=(16, 12, 16, 12)
        )
        paint(self, fill, corner=14)


class Figure(Column):
    """One number, large, and what it counts."""

    def __init__(self, name: str, value: str = "", *, size: str = "headline", swatch: str = "") -> None:
        self.value = Text(value, size=size, bold=True, one_line=True)
        label = Text(name, size="caption", colour="soft")
        super().__init__(self.value, Row(Swatch(swatch), label, gap=6) if swatch else label, gap=1)


def figures(shown: Sequence[Figure]) -> Column:
    """Three beside each other, or two where there are four or the text is large; none is cut off."""
    per_line = 2 if len(shown) == FOUR or Metrics.fontscale > LARGE else 3
    rows = Column(gap=12)
    for first in range(0, len(shown), per_line):
        part = shown[first : first + per_line]
        rest = [Widget(size_hint_y=None, height=0)] * (len(shown) > per_line and per_line - len(part))
        rows.add_widget(Row(*part, *rest, gap=10))
    return rows


class Swatch(Widget):
    """The colour that a word stands for in the drawing beside it."""

    def __init__(self, colour: str) -> None:
        super().__init__(size_hint=(None, None), size=(dp(9), dp(9)))
        paint(self, colour, corner=3)


class Meter(Widget):
    """A bar of parts: how much of the whole each takes."""

    def __init__(self, height: float = 12) -> None:
        super().__init__(size_hint=(1, None), height=dp(height))
        self._parts: tuple[tuple[str, float], ...] = ()
        self.bind(pos=self._draw, size=self._draw)
        self._draw()

    def show(self, *parts: tuple[str, float]) -> None:
        """(colour, share) from the left; what is left over is empty track."""
        if parts != self._parts:
            self._parts = parts
            self._draw()

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        radius = self.height / 2
        with self.canvas:
            Color(*look.colour("raised"))
            SmoothRoundedRectangle(pos=self.pos, size=self.size, radius=[radius])
            shown = [(colour, min(1.0, share)) for colour, share in self._parts if share > 0]
            ends, total = [], 0.0
            for colour, share in shown:
                total = min(1.0, total + share)
                ends.append((colour, total))
            for colour, end in reversed(ends):  # each lies on the one to its right, so that all ends are round
                Color(*look.colour(colour))
                SmoothRoundedRectangle(
                    pos=self.pos, size=(max(self.height, self.width * end), self.height), radius=[radius]
                )
