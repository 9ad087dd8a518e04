"""The arithmetic of plots: numpy in, vertices out. Knows nothing of windows, so it is tested without one.

GL's own lines are one pixel wide on phones, so a line is made of triangles, with a soft edge. A plot must cost the same
whether a sensor gives ten readings or ten thousand: where there are more than two points to a pixel column, the band
between the lowest and the highest of each column is drawn instead. No spike is lost, and every pixel is filled once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
OVERLAP = 0.35  # how far a piece of a line reaches into its neighbours, in half line widths


def envelope(x: Floats, y: Floats, columns: int) -> tuple[Floats, Floats, Floats]:
    """Middle, lowest and highest of every pixel column that holds a point; x ascends.

    A column reaches to where the one before it ended, as the line between them does.
    """
    width = (x[-1] - x[0]) / columns or 1.0
    column = ((x - x[0]) / width).astype(np.int64)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    before = y[starts[1:] - 1]
    low[1:], high[1:] = np.minimum(low[1:], before), np.maximum(high[1:], before)
    return x[0] + (column[starts] + 0.5) * width, low, high


def ribbon(x: Floats, y: Floats, half_width: float) -> NDArray[np.float32]:
    """Four vertices (x, y, u, v) per piece from one point to the next; v runs 0 to 1 across the line.

    Every piece is a rectangle of its own, a little longer than it need be. Mitred corners, which share vertices, make
    a line vanish where it turns back on itself, and readings of a moving phone do little else.
    """
    pieces = max(len(x) - 1, 0)
    vertices = np.zeros((pieces, 4, 4), np.float32)
    if not pieces:
        return vertices.reshape(-1)
    along_x, along_y = np.diff(x), np.diff(y)
    scale = half_width / np.maximum(np.hypot(along_x, along_y), 1e-9)
    along_x, along_y = along_x * scale, along_y * scale
    reach_x, reach_y = OVERLAP * along_x, OVERLAP * along_y
    start_x, start_y, end_x, end_y = x[:-1] - reach_x, y[:-1] - reach_y, x[1:] + reach_x, y[1:] + reach_y
    vertices[:, 0, 0], vertices[:, 0, 1] = start_x - along_y, start_y + along_x
    vertices[:, 1, 0], vertices[:, 1, 1] = start_x + along_y, start_y - along_x
    vertices[:, 2, 0], vertices[:, 2, 1] = end_x - along_y, end_y + along_x
    vertices[:, 3, 0], vertices[:, 3, 1] = end_x + along_y, end_y - along_x
    vertices[:, 1, 3] = vertices[:, 3, 3] = 1.0
    return vertices.reshape(-1)


def band(x: Floats, low: Floats | float, high: Floats) -> NDArray[np.float32]:
    """Two vertices per point, above and below; v in the middle of the line's profile, where it is solid."""
    vertices = np.empty((len(x), 2, 4), np.float32)
    vertices[:, :, 0] = x[:, None]
    vertices[:, 0, 1], vertices[:, 1, 1] = high, low
    vertices[:, :, 2:] = (0.0, 0.5)
    return vertices.reshape(-1)


def triangles(points: int, breaks: NDArray[np.bool_] | None = None, *, vertices: int = 4) -> NDArray[np.uint16]:
    """Indices of the triangles between points: `vertices` apart, 4 for a ribbon and 2 for a band.

    `breaks[i]` leaves out the piece from point i to i + 1.
    """
    first = np.arange(0, vertices * max(points - 1, 0), vertices, dtype=np.uint16)
    if breaks is not None:
        first = first[~breaks]
    return (first[:, None] + np.array([0, 1, 2, 1, 2, 3], np.uint16)).reshape(-1)


def round_step(span: float, pieces: int) -> float:
    """The least of 1, 2, 5 times a power of ten that cuts the span into at most this many pieces."""
    if not span > 0 or not math.isfinite(span):
        return 1.0
    raw = span / pieces
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= raw * 0.999)


def axis(low: float, high: float, pieces: int = 3) -> tuple[float, float, list[float]]:
    """A range that holds low and high, and round numbers to write beside it."""
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = 0.0, 1.0
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    step = round_step(high - low, pieces)
    bottom, top = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return bottom, top, [bottom + step * index for index in range(round((top - bottom) / step) + 1)]


def tick_text(value: float, step: float) -> str:
    """As many digits as tell two ticks apart."""
    if abs(value) >= 1e5 or (step and step < 1e-4):
        return f"{value:.3g}"
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    text = f"{value:.{digits}f}"
    return text.replace("-", "\u2212") if float(text) else text.removeprefix("-")


def metres(latitude: Floats, longitude: Floats) -> tuple[Floats, Floats]:
    """East and north of the first place; good to a per mille over a city."""
    if not len(latitude):
        return latitude, longitude
    scale = 111_320.0
    east = (longitude - longitude[0]) * scale * math.cos(math.radians(float(latitude.mean())))
    return east, (latitude - latitude[0]) * scale
