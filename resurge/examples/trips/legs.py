"""A trip's legs: the modes that fixes were told, tidied by what a whole trip shows and a single fix cannot.

The model on the phone tells each fix when it comes, so it is late at every change, and a bus in traffic looks like
a bicycle for a minute. Over a whole trip three things are known: nobody changes for less than a minute and a half, so a
shorter leg belongs to its longer neighbour; nobody changes vehicles without a step, so a ride from walk to walk is
in one; and which one shows in where and how often it stopped (`rides.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resurge.examples.trips.fixes import SECOND, metres_between
from resurge.examples.trips.impact import MOVING
from resurge.examples.trips.rides import SLOW, Kinds, measures, most_likely_modes, scores

LEG_S_MIN = 90.0
STAY_S = 120.0
WALK_MAX = 2.8  # m/s over a whole leg: 10 km/h
NEVER = -1e9

Leg = tuple[str, int, float]  # mode, rows, seconds


def legs_of(modes: Sequence[str], seconds: Sequence[float]) -> list[Leg]:
    """The runs of one mode."""
    return _joined([(mode, 1, lasted) for mode, lasted in zip(modes, seconds, strict=True)])


def tidy_modes(
    modes: Sequence[str], time: np.ndarray, lat: np.ndarray, lon: np.ndarray, kinds: Kinds | None = None
) -> list[str]:
    """A mode for each row of a trip. A pure function of its rows."""
    seconds = np.diff(time, prepend=time[:1]) / SECOND
    rides: list[tuple[dict[str, float], bool]] = []
    lengths: list[int] = []
    before = "walk"
    for start, end in _parts(seconds, lat, lon):
        walks = smooth_modes(
            ["walk" if mode == "walk" else "ride" for mode in modes[start:end]], seconds[start:end].tolist()
        )
        for kind, rows, _ in legs_of(walks, [0.0] * len(walks)):
            at = sum(lengths)
            votes = dict.fromkeys(MOVING, 0.0)
            for mode, lasted in zip(modes[at : at + rows], seconds[at : at + rows].tolist(), strict=True):
                votes[mode] += max(lasted, 0.001)  # a leg's only row has its word, too
            here = slice(max(start, at - 1), at + rows)
            likely = scores(measures(time[here], lat[here], lon[here]), votes, kinds)
            if _speed(time[here], lat[here], lon[here]) > WALK_MAX:
                likely = likely | {"walk": NEVER}
            rides.append((likely, kind == before == "ride"))
            lengths.append(rows)
            before = kind
    return [mode for mode, rows in zip(most_likely_modes(rides), lengths, strict=True) for _ in range(rows)]


def _parts(seconds: np.ndarray, lat: np.ndarray, lon: np.ndarray) -> list[tuple[int, int]]:
    """Rows between halts of STAY_S, where one may have got off; as long without a fix and far from the last is a
    tunnel."""
    cuts = [0]
    for place in np.flatnonzero(seconds >= STAY_S).tolist():
        if metres_between(lat[place - 1], lon[place - 1], lat[place], lon[place]) < SLOW * seconds[place]:
            cuts.append(place)
    return [part for part in zip(cuts, [*cuts[1:], len(seconds)], strict=True) if part[0] < part[1]]


def _speed(time: np.ndarray, lat: np.ndarray, lon: np.ndarray) -> float:
    """Metres a second over all of it."""
    if len(time) < 2:
        return 0.0
    steps = zip(lat[:-1], lon[:-1], lat[1:], lon[1:], strict=True)
    return sum(metres_between(*map(float, step)) for step in steps) * SECOND / float(time[-1] - time[0])


def smooth_modes(modes: Sequence[str], seconds: Sequence[float]) -> list[str]:
    """Legs shorter than a change takes become part of their longer neighbour, the shortest first."""
    legs = legs_of(modes, seconds)
    while len(legs) > 1:
        shortest = min(range(len(legs)), key=lambda place: (legs[place][2], place))
        if legs[shortest][2] >= LEG_S_MIN:
            break
        sides = [place for place in (shortest - 1, shortest + 1) if 0 <= place < len(legs)]
        into = max(sides, key=lambda place: (legs[place][2], -place))
        legs[shortest] = (legs[into][0], *legs[shortest][1:])
        legs = _joined(legs)
    return [mode for mode, rows, _ in legs for _ in range(rows)]


def _joined(legs: Sequence[Leg]) -> list[Leg]:
    joined: list[Leg] = []
    for mode, rows, lasted in legs:
        if joined and joined[-1][0] == mode:
            joined[-1] = (mode, joined[-1][1] + rows, joined[-1][2] + lasted)
        else:
            joined.append((mode, rows, lasted))
    return joined
