"""How many people were at a place on a day, told to those who were there, in steps that give nobody away.

Nothing is said below `at_least` people. From there on the number is told in steps (1, 2, 4, 10, 20, 40, 100 ... times
as many), so one person more or less hardly ever shows, and a place that thousands pass tells each of them a few times,
not at every newcomer. What each person is told in the end follows from who was there, not from the order in which
their phones came back online; a late one makes corrections for that day only, because days have states of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

STEPS = (1, 2, 4)


class Neighbours:
    """The machine of one place and day: visits in, for each visitor how many were there."""

    def __init__(self, *, at_least: int = 5) -> None:
        self.at_least = at_least
        self.visits: dict[str, int] = {}  # device -> metres there

    def process(self, _port: str, row: Mapping[str, object]) -> Iterator[dict[str, object]]:
        before = public_count(len(self.visits), self.at_least)
        device = str(row["device"])
        self.visits[device] = int(row["metres"])  # type: ignore[call-overload]
        now = public_count(len(self.visits), self.at_least)
        if now:
            for one in sorted(self.visits) if now != before else [device]:
                yield {
                    "device": one, "people": now, "metres": self.visits[one],
                    "window_start": row["window_start"], "window_end": row["window_end"],
                }  # fmt: skip

    def snapshot(self) -> bytes:
        return json.dumps(self.visits).encode()

    def restore(self, state: bytes) -> None:
        self.visits = json.loads(state)


def public_count(people: int, at_least: int) -> int:
    """The greatest step that is not above this many people; 0 below the first."""
    step, power = 0, 1
    while at_least * power <= people:
        for factor in STEPS:
            if at_least * factor * power <= people:
                step = at_least * factor * power
        power *= 10
    return step
