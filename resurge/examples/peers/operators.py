"""The operator type of the examples with feedback, registered by name (`resurge.toml`: modules =
["resurge.examples.peers.operators"]).

A sensor has no inputs, so what comes back to it is taken by a vertex behind it: `attenuate`. Which answer counts for
which reading is decided by their numbers, never by when they arrived: block j of the readings waits for answer j - 4.
So the rows are the same on every network and after every failure, as long as none is lost. Four blocks are one more
than the way round is long (100 readings in each of two sliding windows and in the block that answers). Between nodes an
answer counts a second later, so readings wait: they go out with their own times, and time waits with them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping

import resurge as rs

BLOCK = 100
LAG = 4


@rs.operator("attenuate", takes={"answer": "bool", "v": "float64"}, gives={"v": "float64"})
class Attenuate:
    """Readings, those of a block multiplied by `factor` where the answer to an earlier block is above `threshold`."""

    def __init__(self, *, threshold: float = 150.0, factor: float = 0.5) -> None:
        self.threshold = threshold
        self.factor = factor
        self._given = 0  # readings that went out
        self._gains: deque[float] = deque([1.0] * LAG)  # of the block that goes out and those after it
        self._waiting: deque[tuple[int, float]] = deque()

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        if row["answer"]:
            self._gains.append(self.factor if row["v"] > self.threshold else 1.0)
        else:
            self._waiting.append((int(row["time"]), row["v"]))
        while self._waiting and self._gains:
            time, value = self._waiting.popleft()
            yield {"time": time, "v": value * self._gains[0]}
            self._given += 1
            if self._given % BLOCK == 0:
                self._gains.popleft()

    def holds_since(self) -> int | None:
        return min((time for time, _ in self._waiting), default=None)

    def snapshot(self) -> bytes:
        return json.dumps([self._given, list(self._gains), list(self._waiting)]).encode()

    def restore(self, state: bytes) -> None:
        self._given, gains, waiting = json.loads(state)
        self._gains = deque(gains)
        self._waiting = deque((time, value) for time, value in waiting)
