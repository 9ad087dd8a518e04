"""A trip's legs: the modes that fixes were told, tidied by what a whole trip shows and a single fix cannot.

The model on the phone tells each fix when it comes, so it is late at every change, and a bus in traffic looks like
a bicycle for a minute. Over a whole trip two things are known: nobody changes for less than a minute and a half, so a
shorter leg belongs to its longer neighbour; and a vehicle that is halted is not left, so "still" between two legs of
one mode is part of them.
"""

from __future__ import annotations

from collections.abc import Sequence

LEG_S_MIN = 90.0
STAY_S = 120.0
VEHICLES = frozenset(("bus", "car", "train"))


Leg = tuple[str, int, float]  # mode, rows, seconds


def legs_of(modes: Sequence[str], seconds: Sequence[float]) -> list[Leg]:
    """The runs of one mode."""
    return _joined([(mode, 1, lasted) for mode, lasted in zip(modes, seconds, strict=True)])


def smoothed(modes: Sequence[str], seconds: Sequence[float]) -> list[str]:
    """A mode for each row, short legs joined to what they belong to. A pure function of a whole trip."""
    found: list[str] = []
    start = 0
    for place in range(1, len(modes) + 1):
        # Whoever stays at one place for two minutes may have got off: what comes after is judged by itself.
        if place == len(modes) or seconds[place] >= STAY_S:
            found += _tidied(modes[start:place], seconds[start:place])
            start = place
    return found


def _tidied(modes: Sequence[str], seconds: Sequence[float]) -> list[str]:
    legs = _one_vehicle(legs_of(modes, seconds))
    while len(legs) > 1:
        shortest = min(range(len(legs)), key=lambda place: (legs[place][2], place))
        if legs[shortest][2] >= LEG_S_MIN:
            break
        sides = [place for place in (shortest - 1, shortest + 1) if 0 <= place < len(legs)]
        into = max(sides, key=lambda place: (legs[place][2], -place))
        legs[shortest] = (legs[into][0], *legs[shortest][1:])
        legs = _joined(legs)
    return [mode for mode, rows, _ in _one_vehicle(legs) for _ in range(rows)]


def _joined(legs: Sequence[Leg]) -> list[Leg]:
    joined: list[Leg] = []
    for mode, rows, lasted in legs:
        if joined and joined[-1][0] == mode:
            joined[-1] = (mode, joined[-1][1] + rows, joined[-1][2] + lasted)
        else:
            joined.append((mode, rows, lasted))
    return joined


def _one_vehicle(legs: Sequence[Leg]) -> list[Leg]:
    """Vehicles that follow each other without a walk between them are one, named after the one that took longest."""
    found: list[Leg] = []
    place = 0
    while place < len(legs):
        end = place
        while end < len(legs) and legs[end][0] in VEHICLES:
            end += 1
        if end == place:
            found.append(legs[place])
            place += 1
            continue
        lasted: dict[str, float] = {}
        for mode, _, seconds in legs[place:end]:
            lasted[mode] = lasted.get(mode, 0.0) + seconds
        longest = max(sorted(lasted), key=lasted.__getitem__)
        found.append((longest, sum(leg[1] for leg in legs[place:end]), sum(leg[2] for leg in legs[place:end])))
        place = end
    return _joined(found)
