"""What is drawn beside readings themselves: a vector's magnitude, and a spectrum. Knows nothing of windows.

A spectrum is of the newest stretch without a gap. Phones jitter, so readings are put on a regular grid first, by a
cubic: straight lines between readings would take a fifth off a swing with four of them to a turn. Then the trend goes
(gravity would hide everything else), and a Hann window keeps the ends of the stretch from looking like a vibration.
Amplitudes are those of the swing itself: 2 * sin(...) shows 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mobile_app.screens.widgets.plotting import Floats

LEAST_READINGS = 16
LEAST_S = 10.0  # a spectrum is of so much time, and of WISHED_READINGS where that is longer
WISHED_READINGS = 64
MOST_S = 600.0
GAP = 8  # times the usual spacing: a cubic through less than that invents nothing that would be seen
JITTER = 3  # times the usual spacing; where more than one in ten readings comes later, nothing about them is regular
PADDING = 4  # points of the curve for each one that was measured: the top of a peak is never far from one
STILL = 1e-9  # share of the readings' own size below which a swing is arithmetic, not motion


def magnitude(parts: Sequence[Floats]) -> Floats:
    """The length of a vector, reading by reading; NaN where a part is."""
    length: Floats = np.sqrt(np.sum(np.square(np.asarray(parts, float)), axis=0))
    return length


def span_s(asked_hz: float) -> float:
    """Of how many seconds a sensor of this rate gets its spectrum."""
    return LEAST_S if asked_hz <= 0 else min(MOST_S, max(LEAST_S, WISHED_READINGS / asked_hz))


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Amplitudes over frequencies, from 0 Hz to half the rate; or `why` there is none."""

    hz: Floats
    amplitude: Floats
    why: str = ""
    seconds: float = 0.0
    strongest_hz: float | None = None  # None: nothing swings
    strongest: float = 0.0

    @property
    def resolution_hz(self) -> float:
        """Two swings that are closer than this look like one: as wide as a Hann window is at half its height."""
        return 2 / self.seconds if self.seconds else math.inf


def _none(why: str) -> Spectrum:
    return Spectrum(np.empty(0), np.empty(0), why)


def spectrum(time_s: Floats, values: Floats) -> Spectrum:
    """Of readings at these times, which ascend. What is NaN counts as not read."""
    kept = np.isfinite(values)
    kept[1:] &= np.diff(time_s) > 0
    time_s, values = np.asarray(time_s, float)[kept], np.asarray(values, float)[kept]
    if len(values) < LEAST_READINGS:
        return _none(f"A spectrum needs {LEAST_READINGS} readings; there are {len(values)}.")
    steps = np.diff(time_s)
    usual = float(np.median(steps))
    if float(np.quantile(steps, 0.9)) > JITTER * usual:
        return _none("These readings come when something changes, not regularly: they have no spectrum.")
    gaps = np.flatnonzero(steps > GAP * usual)
    if len(gaps):
        time_s, values = time_s[gaps[-1] + 1 :], values[gaps[-1] + 1 :]
        if len(values) < LEAST_READINGS:
            return _none(
                f"A spectrum needs {LEAST_READINGS} readings without a gap; there are {len(values)} since the last."
            )
    return _transform(_on_grid(time_s, values), float(time_s[-1] - time_s[0]))


def _on_grid(time_s: Floats, values: Floats) -> Floats:
    """As many values as there were, evenly spaced. A cubic cuts the tops of fast swings, so what it lost, seen from the
    readings' own times, is added once: what has five readings to a turn is right to 3 %, not to 6."""
    grid = np.linspace(time_s[0], time_s[-1], len(time_s))
    found = _cubic(time_s, values, grid)
    return found + _cubic(time_s, values - _cubic(grid, found, time_s), grid)


def _cubic(time_s: Floats, values: Floats, at_s: Floats) -> Floats:
    """The values at other times, on the cubic with the slopes that neighbours give."""
    left = np.clip(np.searchsorted(time_s, at_s, side="right") - 1, 0, len(time_s) - 2)
    slopes = np.gradient(values, time_s)
    step = time_s[left + 1] - time_s[left]
    at = (at_s - time_s[left]) / step
    rest = 1 - at
    found: Floats = (
        rest * rest * (1 + 2 * at) * values[left]
        + at * at * (3 - 2 * at) * values[left + 1]
        + at * rest * step * (rest * slopes[left] - at * slopes[left + 1])
    )
    return found


def _transform(values: Floats, seconds: float) -> Spectrum:
    count = len(values)
    place = np.linspace(-1.0, 1.0, count)
    swing = values - values.mean()
    swing -= place * float(swing @ place / (place @ place))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(count) + 0.5) / count)
    points = 1 << (PADDING * count - 1).bit_length()
    amplitude = np.abs(np.fft.rfft(swing * window, points)) * (2 / window.sum())
    hz: Floats = np.fft.rfftfreq(points, seconds / (count - 1)).astype(np.float64)
    found = Spectrum(hz, amplitude, seconds=seconds)
    first = int(np.searchsorted(hz, found.resolution_hz))  # what is slower than that is what was left of the trend
    top = first + int(np.argmax(amplitude[first:])) if first < len(hz) else 0
    if not top or amplitude[top] <= STILL * float(np.abs(values).max()):
        return found
    at_hz, height = _summit(hz, amplitude, top)
    return Spectrum(hz, amplitude, "", seconds, at_hz, height)


def _summit(hz: Floats, amplitude: Floats, top: int) -> tuple[float, float]:
    """Between its points a peak is a parabola, near enough."""
    if not 0 < top < len(hz) - 1:
        return float(hz[top]), float(amplitude[top])
    before, here, after = (float(each) for each in amplitude[top - 1 : top + 2])
    bend = before - 2 * here + after
    shift = 0.0 if bend >= 0 else (before - after) / (2 * bend)
    return float(hz[top] + shift * (hz[1] - hz[0])), here - (before - after) * shift / 4
