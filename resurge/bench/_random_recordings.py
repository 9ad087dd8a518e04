"""Recordings nobody tuned the codec on: sensors whose grid, noise, rate and offset are drawn at random.

Each is what a kind of sensor gives: an analogue signal, sampled with jitter, put on the sensor's own steps (a power of
two of its range, decimal digits, a conversion to other units, a calibration offset) and handed over as the number type
phones use. The generator knows nothing of the codec. The last one is noise in full precision, on which nobody can win.
"""

from __future__ import annotations

import numpy as np

from resurge.bench._recordings import Columns

ROWS = 4000
FULL_PRECISION = "full precision"
FIRST_SEED = 7_000  # none of these was looked at while the codec was made


def held_out(recordings: int) -> dict[str, Columns]:
    """So many recordings of every kind, by name."""
    made: dict[str, Columns] = {}
    for number in range(recordings):
        for kind, make in _KINDS.items():
            rng = np.random.default_rng([FIRST_SEED + number, len(kind)])
            made[f"{kind} {number}"] = {"time": _times(rng), **make(rng)}
    return made


def _times(rng: np.random.Generator) -> np.ndarray:
    """Microseconds at a nominal rate, with the jitter of a phone's scheduler."""
    period = int(rng.choice([2_500, 5_000, 10_000, 20_000, 100_000, 1_000_000]))
    jitter = rng.normal(0, period * rng.choice([0.0, 0.002, 0.02]), ROWS)
    return 1_700_000_000_000_000 + np.arange(ROWS) * period + jitter.astype(np.int64)


def _signal(rng: np.random.Generator, scale: float) -> np.ndarray:
    """A slow movement, some oscillation, and noise."""
    at = np.arange(ROWS)
    walk = np.cumsum(rng.normal(0, scale * 10 ** rng.uniform(-4, -1.5), ROWS))
    wave = scale * rng.uniform(0, 0.5) * np.sin(at / rng.uniform(5, 400) + rng.uniform(0, 6))
    return walk + wave + rng.normal(0, scale * 10 ** rng.uniform(-4, -1), ROWS)


def _inertial(rng: np.random.Generator) -> Columns:
    """Three axes of a 16-bit sensor: steps of a binary fraction of its range, in SI units, as float32."""
    turns = rng.random() < 0.5
    reach = float(rng.choice([250, 500, 2000])) * np.pi / 180 if turns else float(rng.choice([2, 4, 8, 16])) * 9.80665
    step = reach / 32768
    return {axis: (np.rint(_signal(rng, reach / 8) / step) * step).astype(np.float32) for axis in "xyz"}


def _calibrated(rng: np.random.Generator) -> Columns:
    """The same with a calibration offset and gain per axis: no step starts at zero."""
    step = float(rng.choice([0.0625, 0.15, 0.3])) * rng.uniform(0.97, 1.03)
    return {
        axis: (np.rint(_signal(rng, 40.0) / step) * step + rng.uniform(-30, 30)).astype(np.float32) for axis in "xyz"
    }


def _decimal(rng: np.random.Generator) -> Columns:
    """A weather station, a heart-rate strap: decimal digits."""
    return {
        "pressure": np.round(1000 + _signal(rng, 5.0), int(rng.integers(1, 5))),
        "temperature": np.round(20 + _signal(rng, 3.0), int(rng.integers(1, 3))),
        "rate": np.rint(80 + _signal(rng, 20.0)).astype(np.int64),
    }


def _position(rng: np.random.Generator) -> Columns:
    """A receiver on a walk or a drive."""
    speed = rng.choice([1.4, 12.0])
    heading = np.cumsum(rng.normal(0, 0.05, ROWS))
    digits = int(rng.integers(6, 9))
    return {
        "lat": np.round(rng.uniform(-60, 60) + np.cumsum(np.cos(heading)) * speed / 111_000, digits),
        "lon": np.round(rng.uniform(-179, 179) + np.cumsum(np.sin(heading)) * speed / 80_000, digits),
        "altitude": np.round(rng.uniform(0, 800) + _signal(rng, 10.0), int(rng.integers(1, 4))),
        "accuracy": np.round(np.abs(rng.normal(5, 2, ROWS)), 1).astype(np.float32),
    }


def _noise(rng: np.random.Generator) -> Columns:
    return {"fusion": _signal(rng, 1.0)}


_KINDS = {
    "inertial": _inertial, "calibrated": _calibrated, "decimal": _decimal, "position": _position,
    FULL_PRECISION: _noise,
}  # fmt: skip
