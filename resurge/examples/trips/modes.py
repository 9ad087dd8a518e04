"""Whether and how one moves: a stay is a place, a mode a hidden Markov model over speed, stops, pull and shaking.

Whoever has not got 50 m away in two minutes is at a place, however a receiver wanders there and whatever the
model believes: a halted bus is a bus. Five minutes at a place end a trip, and what moves after them is another one;
a shorter stop is part of the trip.

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
from resurge.examples.trips.fixes import east_north, metres_between

MODES = ("still", "walk", "bike", "bus", "car", "train")
FEATURES = ("speed", "top_speed", "stops", "acceleration", "shake", "gait")
MOVING = range(1, len(MODES))
SECOND = 1_000_000
GAP_S = 300.0  # as long at one place, or without a fix that is worth keeping, ends a trip
UNRECORDED_M_MIN = 200.0  # less is a receiver that wanders
HALT_M, NOTICE_S = 50.0, 120.0  # a place, and how far back one looks to see whether it was left
NEAR_S, FAR_S = 60.0, 300.0  # how far back speed, and stops and top speed, look
STRETCH_S = 5.0
BLOCK_S = 20.0  # what stops and top speed are told from
SLOW = 0.5  # m/s: standing, with the wander of a receiver
ACCELERATION_STEP_S_MAX = 12.0
EVIDENCE_S = 20.0
FLOOR = math.log(0.002)  # of a feature's density relative to its own peak


Point = tuple[int, float, float, float, float]  # time, seconds, metres east, metres north, odometer


class Lookback:
    """Where the phone was over the last FAR_S seconds, from where it began.

    Speeds are how far one got, not how far the receiver wandered on the way, and are taken over twenty seconds and
    more, since the wander of fixes five seconds apart alone looks like a walk. Fixes closer than STRETCH_S are joined,
    so that there are at most a few dozen, and a fix a second looks like one every five.
    """

    def __init__(self) -> None:
        self.points: deque[Point] = deque()

    def add(
        self, time: int, seconds: float, east: float, north: float, *, odometer: float = 0.0, walked: float = 0.0
    ) -> None:
        """One got this far in these seconds, and `walked` by the odometer, which now says `odometer`."""
        if not self.points:
            self.points.append((time - round(seconds * SECOND), 0.0, 0.0, 0.0, odometer - walked))
        _, _, x, y, _ = self.points[-1]
        x, y = x + east, y + north
        if len(self.points) > 1 and self.points[-1][1] + seconds <= STRETCH_S:
            seconds += self.points.pop()[1]
        self.points.append((time, seconds, x, y, odometer))
        while len(self.points) > 2 and self.points[1][0] <= time - FAR_S * SECOND:
            self.points.popleft()

    def arrived(self) -> int | None:
        """Since when the phone has been at this place; None while it is under way. A single fix that is far off is
        neither a departure nor an arrival: two in a row are."""
        for end in range(len(self.points) - 1, max(-1, len(self.points) - 3), -1):
            since = self._there_since(end)
            if since == self.points[0][0] or self.points[end][0] - since >= NOTICE_S * SECOND:
                return since
        return None

    def _there_since(self, end: int) -> int:
        """When what lies before a point came to its place."""
        points = self.points
        since, _, x, y, _ = points[end]
        far = 0
        for place in range(end - 1, -1, -1):
            if math.hypot(x - points[place][2], y - points[place][3]) < HALT_M:
                since, far = points[place][0], 0
            else:
                far += 1
                if far > 1:
                    break
        return since

    def left(self) -> tuple[int, float]:
        """When, and at which odometer, the place of a while ago was left."""
        points = self.points
        at = next((place for place in range(len(points) - 1, -1, -1)
                   if points[place][0] <= points[-1][0] - NOTICE_S * SECOND), 0)  # fmt: skip
        _, _, x, y, _ = points[at]
        near = [point for point in list(points)[at:-1] if math.hypot(x - point[2], y - point[3]) < HALT_M / 2]
        return near[-1][0], near[-1][4]

    def features(self, shake: float, gait: float) -> tuple[float, ...]:
        """One number per FEATURES; NaN where it cannot be known."""
        points = self.points
        end, last_s, end_x, end_y, _ = points[-1]
        near_s = 0.0
        block_end, block_x, block_y = end, end_x, end_y
        blocks_s = stopped_s = top = 0.0
        changes = changed_s = 0.0
        later, later_s, later_x, later_y = -1.0, last_s, end_x, end_y
        for place in range(len(points) - 2, -1, -1):
            time, seconds, x, y, _ = points[place]
            if near_s < NEAR_S:
                near_s = (end - time) / SECOND
                speed = math.hypot(end_x - x, end_y - y) / near_s
            block_s = (block_end - time) / SECOND
            if block_s >= BLOCK_S or place == 0:
                pace = math.hypot(block_x - x, block_y - y) / block_s
                if block_s >= BLOCK_S:
                    top = max(top, pace)
                blocks_s += block_s
                stopped_s += block_s if pace < SLOW else 0.0
                block_end, block_x, block_y = time, x, y
            here = math.hypot(later_x - x, later_y - y) / later_s
            if later >= 0 and later_s <= ACCELERATION_STEP_S_MAX:
                changes += abs(later - here)
                changed_s += later_s
            later, later_s, later_x, later_y = here, seconds, x, y
        return (
            math.log(0.3 + speed),
            math.log(0.3 + max(top, speed)),
            stopped_s / blocks_s,
            math.log(0.02 + changes / changed_s) if changed_s >= 20.0 else math.nan,
            math.log(0.02 + shake),  # NaN stays NaN
            gait,
        )


Densities = Sequence[Sequence[tuple[float, float]]]  # of each mode, for each feature: mean, deviation


def by_feature(densities: Densities) -> tuple[tuple[tuple[float, float, float], ...], ...]:
    """The same turned round, for looking up all modes of one feature: mean, 1 / deviation, log of deviation."""
    return tuple(
        tuple((mean, 1.0 / deviation, math.log(deviation)) for mean, deviation in (mode[place] for mode in densities))
        for place in range(len(FEATURES))
    )


class Believer:
    """What the model believes, given everything so far. Log probabilities, normalised."""

    TABLE = by_feature(model.DENSITIES)

    def __init__(self, densities: Densities | None = None) -> None:
        self.belief = list(model.PRIOR)
        self._table = self.TABLE if densities is None else by_feature(densities)

    def observe(self, features: Sequence[float], seconds: float) -> None:
        moved = [1e-300] * len(MODES)
        for state, value in enumerate(self.belief):
            probability = math.exp(value)
            stay = math.exp(-seconds / model.DWELL_S[state])
            moved[state] += probability * stay
            leave = probability * (1.0 - stay)
            for other, share in enumerate(model.CHANGE[state]):
                moved[other] += leave * share
        weight = min(1.0, seconds / EVIDENCE_S)
        likelihoods = self.log_likelihoods(features)
        scores = [math.log(moved[state]) + weight * likelihoods[state] for state in range(len(MODES))]
        most = max(scores)
        total = most + math.log(math.fsum(math.exp(score - most) for score in scores))
        self.belief = [score - total for score in scores]

    def log_likelihoods(self, features: Sequence[float]) -> list[float]:
        """Of the features in each mode, up to what is the same for all; unknown features say nothing."""
        totals = [0.0] * len(MODES)
        for value, table in zip(features, self._table, strict=True):
            if math.isnan(value):
                continue
            for state, (mean, inverse, log_deviation) in enumerate(table):
                off = (value - mean) * inverse
                density = -0.5 * off * off
                totals[state] += (density if density > FLOOR else FLOOR) - log_deviation
        return totals


class TransportMode:
    """The machine: kept fixes in; each out again with the mode it was reached in and the metres since the last.

    What is still gives rows as well: a place one stays at counts for what is near it, not for a trip. Metres and
    seconds of a short stop come with the next row that moves. After a stay of GAP_S rows stay "still" until that long
    has passed since the last one that moved, which was told before anyone could know of the stay: so the two trips
    are apart for whoever sees only their rows, and the first row that moves brings all since the place was left.

    After GAP_S without a fix one may be elsewhere. How far that is from the last fix, as the crow flies, is in no trip:
    a row of its own says it, at once, because nobody knows whether another one will come.

    Each row brings the seconds indoors and outdoors since the row before it, a trip's or not. Where there was no fix
    for GAP_S they were spent where the last one was, so a row there brings them: a night is told in the morning.
    """

    def __init__(self, densities: Densities | None = None) -> None:
        self.last: tuple[int, float, float, float] | None = None  # time, odometer and place of the last row
        self.moved: int | None = None  # when the last row that was not still came
        self.since = (0, 0.0)  # time and odometer up to which rows that moved have told
        self.arrived: int | None = None  # at the place where the phone is now
        self.apart = False  # whether what moves now is another trip
        self.clocks = (0.0, 0.0)  # seconds indoors and outdoors that rows have told
        self.back = Lookback()
        self.believer = Believer(densities)
        self._densities = densities

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, object]]:
        time, odometer, lat, lon = int(row["time"]), row["odometer"], row["lat"], row["lon"]
        last, self.last = self.last, (time, odometer, lat, lon)
        seconds = 0.0 if last is None else (time - last[0]) / SECOND
        if last is None or seconds >= GAP_S:
            away = 0.0 if last is None else metres_between(last[2], last[3], lat, lon)
            there = _still(lat, lon) if last is None else _still(last[2], last[3])
            stayed = there | self._clocked(row)
            if stayed["indoors_s"] or stayed["outdoors_s"]:
                yield stayed
            if away >= UNRECORDED_M_MIN:
                yield _still(lat, lon) | {"unrecorded_m": round(away, 1)}
            self.back, self.believer = Lookback(), Believer(self._densities)
            self.since, self.arrived, self.apart = (time, odometer), time, True
            return
        if seconds <= 0.0:
            self.last = last
            return
        walked = max(0.0, odometer - last[1])
        self.back.add(time, seconds, *east_north(last[2], last[3], lat, lon), odometer=odometer, walked=walked)
        self.believer.observe(self.back.features(row["shake"], row["gait"]), seconds)
        metres, took = self._moved(time, odometer)
        mode = MODES[0] if took is None else MODES[max(MOVING, key=self.believer.belief.__getitem__)]
        yield {
            "lat": lat, "lon": lon, "mode": mode, "metres": round(metres, 1),
            "seconds": round(seconds if took is None else took, 1), "unrecorded_m": 0.0, **self._clocked(row),
        }  # fmt: skip

    def _clocked(self, row: Mapping[str, float]) -> dict[str, float]:
        """What the clocks of `indoors.py` went on since the last row that told."""
        told, self.clocks = self.clocks, (row["indoors_s"], row["outdoors_s"])
        return {"indoors_s": round(self.clocks[0] - told[0], 1), "outdoors_s": round(self.clocks[1] - told[1], 1)}

    def _moved(self, time: int, odometer: float) -> tuple[float, float | None]:
        """Metres and seconds that this row tells of; no seconds while the phone is at a place."""
        arrived = self.back.arrived()
        if arrived is not None:
            self.arrived = arrived if self.arrived is None else self.arrived
            return 0.0, None
        if self.arrived is not None:
            left = self.back.left()
            self.apart = self.apart or left[0] - self.arrived >= GAP_S * SECOND
            if self.apart and left[0] - self.arrived >= NOTICE_S * SECOND:
                self.since = left
            self.arrived = None
        rested = self.moved is None or time - self.moved >= GAP_S * SECOND
        if self.apart and not rested:
            return 0.0, None
        self.since, since, self.moved, self.apart = (time, odometer), self.since, time, False
        return max(0.0, odometer - since[1]), (time - since[0]) / SECOND

    def snapshot(self) -> bytes:
        state = [self.last, self.moved, self.since, self.arrived, self.apart, list(self.back.points)]
        return json.dumps([*state, self.believer.belief, self.clocks]).encode()

    def restore(self, state: bytes) -> None:
        last, self.moved, since, self.arrived, self.apart, points, belief, clocks = json.loads(state)
        self.believer.belief = belief
        self.clocks = (clocks[0], clocks[1])
        self.since = (since[0], since[1])
        self.last = None if last is None else (last[0], last[1], last[2], last[3])
        self.back.points = deque((time, seconds, x, y, odometer) for time, seconds, x, y, odometer in points)


def _still(lat: float, lon: float) -> dict[str, object]:
    """A row that says of a place only that one was there."""
    return {
        "lat": lat, "lon": lon, "mode": MODES[0], "metres": 0.0, "seconds": 0.0, "unrecorded_m": 0.0, "indoors_s": 0.0,
        "outdoors_s": 0.0,
    }  # fmt: skip
