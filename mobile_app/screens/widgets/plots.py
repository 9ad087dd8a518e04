"""Plots: lines over time, bars, and the trace of a way. Meshes that are filled anew, never rebuilt."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from kivy.core.text import Label as CoreLabel
from kivy.graphics import Color, InstructionGroup, Mesh, Rectangle, SmoothEllipse, SmoothRoundedRectangle
from kivy.graphics.texture import Texture
from kivy.metrics import dp
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look, text_size
from mobile_app.screens.widgets.plotting import (
    Floats,
    axis,
    band,
    envelope,
    metres,
    ribbon,
    round_step,
    tick_text,
    triangles,
)

COLUMN = 2  # density-independent pixels: narrower triangles cost more than they show
PROFILE_PIXELS = 32
Breaks = np.ndarray | None  # between which points the line is left out


def soft_edge(half_width: float) -> Texture:
    """A line's profile across: solid, with one pixel of slope on either side."""
    across = (np.arange(PROFILE_PIXELS) + 0.5) / PROFILE_PIXELS * 2 - 1
    alpha = np.clip((1 - np.abs(across)) * (half_width + 1), 0, 1)
    pixels = np.full((PROFILE_PIXELS, 4), 255, np.uint8)
    pixels[:, 3] = np.round(alpha * 255)
    texture = Texture.create(size=(1, PROFILE_PIXELS), colorfmt="rgba")
    texture.blit_buffer(pixels.tobytes(), colorfmt="rgba", bufferfmt="ubyte")
    texture.wrap = "clamp_to_edge"
    texture.min_filter = texture.mag_filter = "nearest"
    return texture


class Ribbon:
    """One line of a plot."""

    def __init__(self, group: InstructionGroup, colour: str, width: float) -> None:
        self._half = dp(width) / 2
        group.add(Color(*look.colour(colour)))
        self._mesh = Mesh(mode="triangles", texture=soft_edge(self._half))
        group.add(self._mesh)

    def show(self, x: Floats, y: Floats, breaks: Breaks = None) -> None:
        self._mesh.vertices = ribbon(x, y, self._half + 1)
        self._mesh.indices = triangles(len(x), breaks)

    def show_band(self, x: Floats, low: Floats, high: Floats, breaks: Breaks = None) -> None:
        self._mesh.vertices = band(x, low - self._half, high + self._half)
        self._mesh.indices = triangles(len(x), breaks, vertices=2)


class Area:
    """The surface between a line and the bottom of the plot."""

    def __init__(self, group: InstructionGroup, colour: str) -> None:
        group.add(Color(*look.colour(colour, 0.12)))
        self._mesh = Mesh(mode="triangles")
        group.add(self._mesh)

    def show(self, x: Floats, y: Floats, bottom: float, breaks: Breaks = None) -> None:
        self._mesh.vertices = band(x, bottom, y)
        self._mesh.indices = triangles(len(x), breaks, vertices=2)


class Plot(Widget):
    """The frame of a plot: room for labels, grid, and a range on either axis."""

    def __init__(self, height: float) -> None:
        super().__init__(size_hint=(1, None), height=dp(height))
        self._behind, self._grid, self._drawn = InstructionGroup(), InstructionGroup(), InstructionGroup()
        for group in (self._behind, self._grid, self._drawn):
            self.canvas.add(group)
        self._framed: object = None
        self.texts: list[str] = []  # what is written beside the axes, for tests
        self.bind(pos=lambda *_: self._again(), size=lambda *_: self._again())

    def _again(self) -> None:
        """Draw what was shown last, in the new place."""

    def _inside(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of where data is drawn."""
        left, below, above = dp(38), dp(20), dp(8)
        return self.x + left, self.y + below, max(1.0, self.width - left), max(1.0, self.height - below - above)

    def _frame(self, bottom: float, top: float, ticks: Sequence[float], below: Sequence[tuple[float, str]]) -> None:
        """Grid lines and labels; `below` has (0..1 along the axis, text)."""
        state = (bottom, top, tuple(ticks), tuple(below), *self.pos, *self.size)
        if state == self._framed:
            return
        self._framed = state
        self._grid.clear()
        self.texts = []
        left, base, width, height = self._inside()
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
        for tick in ticks:
            y = base + (tick - bottom) / (top - bottom) * height
            self._grid.add(Color(*look.colour("grid")))
            self._grid.add(Rectangle(pos=(left, round(y)), size=(width, max(1, round(dp(1))))))
            self._write(tick_text(tick, step), left - dp(8), y, anchor=1.0)
        for at, text in below:
            self._write(text, left + at * width, base - dp(11), anchor=at)

    def _write(self, text: str, x: float, y: float, *, anchor: float, colour: str = "faint") -> None:
        label = CoreLabel(text=text, font_size=text_size("caption") * 0.92)
        label.refresh()
        wide, high = label.texture.size
        self._grid.add(Color(*look.colour(colour)))
        self._grid.add(
            Rectangle(texture=label.texture, pos=(round(x - wide * anchor), round(y - high / 2)), size=(wide, high))
        )
        self.texts.append(text)


class LinePlot(Plot):
    """Up to six series over the same times."""

    def __init__(self, colours: Sequence[str] = ("series-0",), *, height: float = 150, width: float = 1.8) -> None:
        super().__init__(height)
        self._areas = [Area(self._drawn, colours[0])] if len(colours) == 1 else []
        self._ribbons = [Ribbon(self._drawn, colour, width) for colour in colours]
        self._data: tuple[Floats, Sequence[Floats], tuple[float, float], list[tuple[float, str]], float] | None = None

    def show(
        self, times: Floats, series: Sequence[Floats], span: tuple[float, float], below: list[tuple[float, str]],
        *, gap: float = math.inf,
    ) -> None:  # fmt: skip
        """Times and span in seconds; where two readings are more than `gap` apart, the line is broken."""
        self._data = (times, series, span, below, gap)
        self._draw()

    def _again(self) -> None:
        if self._data is not None:
            self._draw()

    def _draw(self) -> None:
        if self._data is None or self.width < dp(60):
            return
        times, series, span, below, gap = self._data
        low = min((float(np.nanmin(values)) for values in series if len(values)), default=0.0)
        high = max((float(np.nanmax(values)) for values in series if len(values)), default=1.0)
        bottom, top, ticks = axis(low, high)
        self._frame(bottom, top, ticks, below)
        left, base, width, height = self._inside()
        scale_x, scale_y = width / max(span[1] - span[0], 1e-9), height / (top - bottom)
        columns = max(1, int(width / dp(COLUMN)))
        # A gap narrower than a few columns cannot be seen, and must not tear the line.
        gap = max(gap, 3 * (span[1] - span[0]) / columns)
        x = times
        for index, values in enumerate(series[: len(self._ribbons)]):
            if len(times) > 2 * columns:
                x, lows, highs = envelope(times, values, columns)
            else:
                lows = highs = values
            breaks = np.diff(x) > gap if math.isfinite(gap) else None
            across, top_line = left + (x - span[0]) * scale_x, base + (highs - bottom) * scale_y
            if lows is highs:
                self._ribbons[index].show(across, top_line, breaks)
            else:
                self._ribbons[index].show_band(across, base + (lows - bottom) * scale_y, top_line, breaks)
            if self._areas and index == 0:
                self._areas[0].show(across, top_line, base, breaks)


class BarPlot(Plot):
    """One bar per window; those that lack a part are drawn lighter."""

    def __init__(self, colour: str = "series-0", *, height: float = 170) -> None:
        super().__init__(height)
        self._colour = colour
        self._data: tuple[list[float], list[bool], list[tuple[float, str]]] | None = None

    def show(self, values: list[float], complete: list[bool], below: list[tuple[float, str]]) -> None:
        self._data = (values, complete, below)
        self._again()

    def _again(self) -> None:
        if self._data is None or self.width < dp(60):
            return
        values, complete, below = self._data
        finite = [value for value in values if math.isfinite(value)]
        bottom, top, ticks = axis(min([0.0, *finite]), max([0.0, *finite]))
        self._frame(bottom, top, ticks, below)
        left, base, width, height = self._inside()
        self._drawn.clear()
        pitch = width / max(len(values), 1)
        thick = min(max(dp(2), pitch * 0.68), dp(28))
        zero = base + (0 - bottom) / (top - bottom) * height
        for index, value in enumerate(values):
            if not math.isfinite(value):
                continue
            tall = abs(value) / (top - bottom) * height
            self._drawn.add(Color(*look.colour(self._colour, 1.0 if complete[index] else 0.45)))
            self._drawn.add(
                SmoothRoundedRectangle(
                    pos=(left + pitch * (index + 0.5) - thick / 2, zero if value >= 0 else zero - tall),
                    size=(thick, max(tall, dp(1))), radius=[min(thick / 2, dp(4), max(tall, 1) / 2)],
                )
            )  # fmt: skip


class TracePlot(Plot):
    """A way seen from above, north up, both axes to the same scale."""

    def __init__(self, colour: str = "series-0", *, height: float = 260) -> None:
        super().__init__(height)
        self._colour = colour
        self._data: tuple[Floats, Floats] | None = None

    def show(self, latitude: Floats, longitude: Floats) -> None:
        self._data = metres(latitude, longitude)
        self._again()

    def _again(self) -> None:
        if self._data is None or self.width < dp(60) or not len(self._data[0]):
            return
        east, north = self._data
        margin = dp(22)
        wide, high = self.width - 2 * margin, self.height - 2 * margin
        scale = min(wide / max(np.ptp(east), 10.0), high / max(np.ptp(north), 10.0))
        x = self.center_x + (east - (east.min() + east.max()) / 2) * scale
        y = self.center_y + (north - (north.min() + north.max()) / 2) * scale
        self._ground(scale)
        self._drawn.clear()
        line = Ribbon(self._drawn, self._colour, 3)
        line.show(x, y)
        for at, fill in ((0, "card"), (-1, self._colour)):
            self._dot(x[at], y[at], dp(7), self._colour)
            self._dot(x[at], y[at], dp(4.5), fill)

    def _dot(self, x: float, y: float, radius: float, colour: str) -> None:
        self._drawn.add(Color(*look.colour(colour)))
        self._drawn.add(SmoothEllipse(pos=(x - radius, y - radius), size=(2 * radius, 2 * radius)))

    def _ground(self, scale: float) -> None:
        """A grid of round metres, and a bar that says how many."""
        self._behind.clear()
        self._grid.clear()
        self.texts = []
        self._behind.add(Color(*look.colour("raised", 0.55)))
        self._behind.add(SmoothRoundedRectangle(pos=self.pos, size=self.size, radius=[dp(12)]))
        step = round_step(self.width / scale, 5)
        self._behind.add(Color(*look.colour("grid")))
        thick = max(1, round(dp(1)))
        for column in np.arange(self.x + step * scale, self.right - dp(2), step * scale):
            self._behind.add(Rectangle(pos=(round(column), self.y + dp(1)), size=(thick, self.height - dp(2))))
        for line in np.arange(self.top - step * scale, self.y + dp(2), -step * scale):
            self._behind.add(Rectangle(pos=(self.x + dp(1), round(line)), size=(self.width - dp(2), thick)))
        text = f"{step:.0f} m" if step < 1000 else f"{step / 1000:.0f} km"
        left, low = self.x + dp(12), self.y + dp(12)
        self._grid.add(Color(*look.colour("soft")))
        self._grid.add(Rectangle(pos=(left, low), size=(step * scale, dp(2))))
        self._write(text, left + step * scale / 2, low + dp(10), anchor=0.5, colour="soft")
