"""Sensors that compute what a phone on a made-up day would read: `synthetic:SEED`.

Readings fall on a fixed grid of event time, so they do not depend on when or how often the node asks. Noise is
a hash of (seed, event time) for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mobile_app.sensors.itinerary import METRES_PER_DEGREE, MICROSECONDS, MODES, STILL, Itinerary, Leg
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource

READ_SAMPLES_MAX = 20_000  # a node that slept catches up in steps, with bounded memory
GRAVITY = 9.81

Compute = Callable[[Itinerary, int, np.ndarray], dict[str, np.ndarray]]


class Synthetic(SoftwareSource):
    """One computed sensor, from origin_us (where the made-up day begins) on; the first read starts at from_us."""

    def __init__(self, sensor: str, *, seed: int, every_us: int, origin_us: int, from_us: int | None = None) -> None:
        if sensor not in SENSORS:
            raise SensorMissing(
                f"no synthetic sensor {sensor!r} (there are: {', '.join(sorted(SENSORS))}); use a recording for others",
                code="sensor-synthetic",
            )
        self._compute = SENSORS[sensor]
        self._seed = seed
        self._itinerary = Itinerary(seed)
        self._origin_us = origin_us
        self._every_us = every_us or MICROSECONDS  # 0: read on request only, the grid does not matter
        self._next_us = origin_us
        if from_us is not None and from_us > origin_us:
            self._next_us = self._on_grid(from_us)

    def _on_grid(self, time_us: int) -> int:
        """The first grid time that is not before time_us."""
        steps = -((self._origin_us - time_us) // self._every_us)
        return self._origin_us + steps * self._every_us

    def read(self, until_us: int) -> Samples:
        until_us = min(until_us, self._next_us + READ_SAMPLES_MAX * self._every_us)
        times = np.arange(self._next_us, max(until_us, self._next_us), self._every_us, dtype=np.int64)
        if len(times):
            self._next_us = int(times[-1]) + self._every_us
        columns = self._compute(self._itinerary, self._seed, times - self._origin_us)
        return Samples(times, columns, min(until_us, self._next_us))

    def at(self, time_us: np.ndarray) -> Samples:
        columns = self._compute(self._itinerary, self._seed, time_us - self._origin_us)
        return Samples(time_us, columns, int(time_us[-1]))

    def sample_every(self, period_us: int) -> None:
        last_us = self._next_us
        self._every_us = period_us
        self._next_us = self._on_grid(last_us)


def _per_leg(itinerary: Itinerary, seconds: np.ndarray) -> list[tuple[Leg, np.ndarray]]:
    """The legs these seconds fall into, each with its own seconds; both ascending."""
    parts = []
    start = 0
    while start < len(seconds):
        leg = itinerary.leg_at(float(seconds[start]))
        end = int(np.searchsorted(seconds, leg.end_s, side="left"))
        parts.append((leg, seconds[start:end]))
        start = end
    return parts


def _white(seed: int, salt: int, index: np.ndarray) -> np.ndarray:
    """Nearly normal noise of unit spread that depends on (seed, salt, index) alone: a hash, four parts of it added."""
    with np.errstate(over="ignore"):
        mixed = index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 1_000_003 + salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    parts = [((mixed >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float64) for shift in (0, 16, 32, 48)]
    return np.asarray((sum(parts) / 65535.0 - 2.0) * np.sqrt(3.0))


def _drift(seed: int, salt: int, seconds: np.ndarray) -> np.ndarray:
    """Noise as a receiver's error is: it wanders over seconds, it does not jump between two readings."""
    whole = np.floor(seconds).astype(np.int64)

    def at(second: np.ndarray) -> np.ndarray:
        return 0.8 * _white(seed, salt, second // 8) + 0.6 * _white(seed, salt + 1, second)

    share = seconds - whole
    return np.asarray(at(whole) * (1.0 - share) + at(whole + 1) * share)


def gps(itinerary: Itinerary, seed: int, offset_us: np.ndarray) -> dict[str, np.ndarray]:
    """Fixes with an error as large as the reported accuracy says: about two thirds of them within that radius."""
    seconds = offset_us / MICROSECONDS
    names = ("lat", "lon", "altitude", "speed", "bearing", "accuracy")
    columns = {name: np.empty(len(seconds)) for name in names}
    done = 0
    for leg, part in _per_leg(itinerary, seconds):
        grid = np.arange(leg.start_s, leg.end_s + 1)
        for name in ("lat", "lon", "altitude", "speed"):
            columns[name][done : done + len(part)] = np.interp(part, grid, getattr(leg, name))
        for name in ("bearing", "accuracy"):  # angles and steps: the value of the second, not between two
            columns[name][done : done + len(part)] = getattr(leg, name)[(part - leg.start_s).astype(int)]
        done += len(part)
    north, east, up, pace = (_drift(seed, salt, seconds) for salt in (1, 3, 5, 7))
    sigma_m = columns["accuracy"] / 1.5
    columns["lat"] += north * sigma_m / METRES_PER_DEGREE
    columns["lon"] += east * sigma_m / (METRES_PER_DEGREE * np.cos(np.radians(columns["lat"])))
    columns["altitude"] += up * 1.5 * sigma_m
    columns["speed"] = np.maximum(0.0, columns["speed"] + 0.15 * pace)
    # Receivers report about a centimetre and a tenth of a metre; digits beyond are not information.
    decimals = {"lat": 7, "lon": 7, "altitude": 1, "speed": 2, "bearing": 1, "accuracy": 1}
    return {name: np.round(values, decimals[name]) for name, values in columns.items()}


def accelerometer(itinerary: Itinerary, seed: int, offset_us: np.ndarray) -> dict[str, np.ndarray]:
    """Gravity along z, the gait or engine of the mode on top, and the noise of the part itself."""
    seconds = offset_us / MICROSECONDS
    shake = np.zeros(len(seconds))
    done = 0
    for leg, part in _per_leg(itinerary, seconds):
        *_, amplitude, hertz = MODES.get(leg.mode, STILL)
        shake[done : done + len(part)] = amplitude * np.sin(2 * np.pi * hertz * part)
        done += len(part)
    tilt_x, tilt_y = (0.05 * GRAVITY * _drift(seed, salt, seconds) for salt in (11, 13))
    grain_x, grain_y, grain_z = (0.02 * _white(seed, salt, offset_us) for salt in (15, 16, 17))
    return {
        "x": np.round(tilt_x + 0.3 * shake + grain_x, 4),
        "y": np.round(tilt_y + 0.5 * shake + grain_y, 4),
        "z": np.round(GRAVITY + shake + grain_z, 4),
    }


def battery(_itinerary: Itinerary, _seed: int, offset_us: np.ndarray) -> dict[str, np.ndarray]:
    """Eleven hours down from 100 to 12 percent, one hour back up on the charger."""
    hours = (offset_us / 3.6e9) % 12.0
    charging = hours >= 11.0
    level = np.where(charging, 12.0 + 88.0 * (hours - 11.0), 100.0 - 8.0 * hours)
    return {"level": np.floor(level) / 100.0, "charging": charging}


SENSORS: dict[str, Compute] = {"gps": gps, "accelerometer": accelerometer, "battery": battery}
