"""How one moves: a hidden Markov model over speed, stops, acceleration and shaking, one fix at a time.

States are the modes. At each fix the model looks back over the last minutes, makes a few numbers that mean something
physically (FEATURES), asks for each mode how likely they are, and mixes that with what it believed before. All of
it is made to mean the same at one fix a second as at one a minute:

* time, not fixes, is counted: a stretch between two fixes weighs as long as it took;
* evidence is worth at most its time: fixes a second apart say nearly the same thing, so a fix's likelihood counts
  with the power dt / EVIDENCE_S, at most 1;
* the chance to change mode grows with the time passed, 1 - exp(-dt / dwell), and one changes between vehicles on
  foot or standing;
* a feature that cannot be known (no accelerometer, fixes too far apart to see acceleration) is left out, which is
  what its likelihood being the same for every mode means.

A density has a floor, so that a single absurd number cannot decide. After a gap the model starts from its prior.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from resurge.examples.trips import model
from resurge.examples.trips.fixes import metres_between

MODES = ("still", "walk", "bike", "bus", "car", "train")
FEATURES = ("speed", "top_speed", "stops", "acceleration", "shake", "gait")
SECOND = 1_000_000
GAP_S = 300.0  # as long without a fix that is worth keeping ends a trip
NEAR_S, FAR_S = 60.0, 300.0  # how far back speed, and stops and top speed, look
STRETCH_S = 5.0
SLOW = 0.4  # m/s: standing, with the wander of a receiver
ACCELERATION_STEP_S_MAX = 12.0
EVIDENCE_S = 20.0
FLOOR = math.log(0.002)  # of a feature's density relative to its own peak


class Lookback:
    """The stretches of the last FAR_S seconds: (end, seconds, metres). Short ones are joined up to STRETCH_S, so
    that there are at most a few dozen and a fix a second looks like one every five."""

    def __init__(self) -> None:
        self.stretches: deque[tuple[int, float, float]] = deque()

    def add(self, end: int, seconds: float, metres: float) -> None:
        if self.stretches and self.stretches[-1][1] + seconds <= STRETCH_S:
            _, before_s, before_m = self.stretches.pop()
            seconds, metres = seconds + before_s, metres + before_m
        self.stretches.append((end, seconds, metres))
        while self.stretches and self.stretches[0][0] <= end - FAR_S * SECOND:
            self.stretches.popleft()

    def features(self, shake: float, gait: float) -> tuple[float, ...]:
        """One number per FEATURES; NaN where it cannot be known."""
        near_s = near_m = far_s = stopped_s = top = 0.0
        changes = changed_s = 0.0
        end = self.stretches[-1][0]
        later = -1.0
        window_s = window_m = 0.0
        for stretch_end, seconds, metres in reversed(self.stretches):
            speed = metres / seconds
            far_s += seconds
            if stretch_end > end - NEAR_S * SECOND:
                near_s += seconds
                near_m += metres
            if speed < SLOW:
                stopped_s += seconds
            # Top speed over at least 15 s, so that one fix that lies off does not make it.
            window_s += seconds
            window_m += metres
            if window_s >= 15.0:
                top = max(top, window_m / window_s)
                window_s = window_m = 0.0
            if later >= 0 and seconds <= ACCELERATION_STEP_S_MAX:
                changes += abs(later - speed)
                changed_s += seconds
            later = speed
        speed = near_m / near_s
        return (
            math.log(0.3 + speed),
            math.log(0.3 + max(top, speed)),
            stopped_s / far_s,
            math.log(0.02 + changes / changed_s) if changed_s >= 20.0 else math.nan,
            math.log(0.02 + shake),  # NaN stays NaN
            gait,
        )


class Believer:
    """What the model believes, given everything so far. Log probabilities, normalised."""

    def __init__(self) -> None:
        self.belief = list(model.PRIOR)

    def observe(self, features: Sequence[float], seconds: float) -> None:
        moved = [0.0] * len(MODES)
        probabilities = [math.exp(value) for value in self.belief]
        for state, probability in enumerate(probabilities):
            stay = math.exp(-seconds / model.DWELL_S[state])
            moved[state] += probability * stay
            for other, share in enumerate(model.CHANGE[state]):
                moved[other] += probability * (1.0 - stay) * share
        weight = min(1.0, seconds / EVIDENCE_S)
        scores = [
            math.log(max(moved[state], 1e-300)) + weight * log_likelihood(state, features)
            for state in range(len(MODES))
        ]
        most = max(scores)
        total = most + math.log(sum(math.exp(score - most) for score in scores))
        self.belief = [score - total for score in scores]


def log_likelihood(state: int, features: Sequence[float]) -> float:
    """Of the features in this mode, up to what is the same for all; unknown features say nothing."""
    total = 0.0
    for value, (mean, deviation) in zip(features, model.DENSITIES[state], strict=True):
        if not math.isnan(value):
            off = (value - mean) / deviation
            total += max(-0.5 * off * off, FLOOR) - math.log(deviation)
    return total


class TransportMode:
    """The machine: kept fixes in; each out again with the mode it was reached in and the metres since the last.

    What is still gives rows as well: a place one stays at counts for what is near it, not for a trip.
    """

    def __init__(self) -> None:
        self.last: tuple[int, float, float, float] | None = None  # time, odometer and place of the last row
        self.moved: int | None = None  # when the last row that was not still came
        self.pending = (0.0, 0.0)  # metres and seconds since then
        self.back = Lookback()
        self.believer = Believer()

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, object]]:
        time, odometer, lat, lon = int(row["time"]), row["odometer"], row["lat"], row["lon"]
        last, self.last = self.last, (time, odometer, lat, lon)
        seconds = 0.0 if last is None else (time - last[0]) / SECOND
        if last is None or seconds >= GAP_S:
            self.back, self.believer = Lookback(), Believer()
            self.pending = (0.0, 0.0)
            return
        if seconds <= 0.0:
            self.last = last
            return
        # Speed is how far one got, not how far the receiver wandered on the way; the distance is the odometer's.
        self.back.add(time, seconds, metres_between(last[2], last[3], lat, lon))
        self.believer.observe(self.back.features(row["shake"], row["gait"]), seconds)
        belief = self.believer.belief
        best = max(range(len(MODES)), key=belief.__getitem__)
        metres, seconds = self._since_moving(MODES[best], time, max(0.0, odometer - last[1]), seconds)
        yield {
            "lat": lat, "lon": lon, "mode": MODES[best], "sure": round(math.exp(belief[best]), 2),
            "metres": round(metres, 1), "seconds": round(seconds, 1),
        }  # fmt: skip

    def _since_moving(self, mode: str, time: int, metres: float, seconds: float) -> tuple[float, float]:
        """A short stop belongs to the trip: the next row that moves brings its metres and seconds along."""
        if mode == MODES[0]:
            self.pending = (self.pending[0] + metres, self.pending[1] + seconds)
            return 0.0, seconds
        if self.moved is not None and time - self.moved < GAP_S * SECOND:
            metres, seconds = metres + self.pending[0], seconds + self.pending[1]
        self.moved, self.pending = time, (0.0, 0.0)
        return metres, seconds

    def snapshot(self) -> bytes:
        return json.dumps(
            [self.last, self.moved, self.pending, list(self.back.stretches), self.believer.belief]
        ).encode()

    def restore(self, state: bytes) -> None:
        last, self.moved, pending, stretches, self.believer.belief = json.loads(state)
        self.pending = (pending[0], pending[1])
        self.last = None if last is None else (last[0], last[1], last[2], last[3])
        self.back.stretches = deque((end, seconds, metres) for end, seconds, metres in stretches)
