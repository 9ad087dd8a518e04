"""The account of what the log covers, counted from its records alone, and the check that nothing is missing in it.

produced = delivered + spooled + ledgered. The log knows two of the four; what a device reports of the others is older
than its last batch. So what is checked here, whenever nothing is moving: the records say what the index says, no range
is covered twice and none is skipped. Anything else would be a bug.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backend.log.index import NUMBERED
from cloud_backend.log.log import Log
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.wire.frame import HEADER, FrameType

CHECK_BYTES_MAX = 4 * 1024 * 1024  # per look: an exchange that comes meanwhile waits for it


@dataclass(slots=True)
class EdgeAccount:
    """What the log covers of one edge. `start` is above 0 when older segments were trimmed."""

    start: int
    through: int
    delivered: int = 0
    ledgered: int = 0
    duplicates: int = 0
    gaps: int = 0


def count(edges: dict[EdgeKey, EdgeAccount], data: bytes) -> None:
    """Take one record's frame into the account; reading the log has already checked it."""
    (_, _, kind, _, _, _, _, incarnation, source, number, lo, elements, _, _) = HEADER.unpack_from(data)
    if kind not in NUMBERED:
        return
    key = EdgeKey(DeviceId(source), incarnation, EdgeId(number))
    edge = edges.get(key)
    if edge is None:
        edge = edges[key] = EdgeAccount(0, 0)
    hi = lo + elements
    fresh = max(0, hi - max(lo, edge.through))
    edge.duplicates += hi - lo - fresh
    edge.gaps += max(0, lo - edge.through)
    if kind == FrameType.DATA:
        edge.delivered += fresh
    else:
        edge.ledgered += fresh
    edge.through = max(edge.through, hi)


class Conservation:
    """Recounts what was appended since it was made, and compares. Reads the log: use a thread while nothing commits."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begin()

    def _begin(self) -> None:
        self._position = self._log.durable_end
        self._edges = {key: EdgeAccount(state.high_water, state.high_water) for key, state in self._log.edges()}
        self._ledgered = {key: state.ledgered for key, state in self._log.edges()}

    @property
    def is_done(self) -> bool:
        return self._position == self._log.durable_end

    def check(self) -> list[str]:
        """What does not add up, in words; empty when all does."""
        if self._log.end != self._log.durable_end or self.is_done:
            return []
        if self._position < self._log.start:
            self._begin()  # trimmed before there was a quiet moment to count it: go on from here
            return []
        end = self._log.durable_end
        for offset, record in self._log.read(self._position, end):
            if offset - self._position > CHECK_BYTES_MAX:
                self._position = offset
                return []  # the rest at the next look
            count(self._edges, record.frame)
        self._position = end
        return self._contradictions()

    def _contradictions(self) -> list[str]:
        found: list[str] = []
        for key, state in self._log.edges():
            edge = self._edges.get(key, EdgeAccount(0, 0))
            ledgered = edge.ledgered + self._ledgered.get(key, 0)
            if (edge.through, ledgered) != (state.high_water, state.ledgered) or edge.duplicates or edge.gaps:
                found.append(
                    f"edge {key.edge:016x} of device {key.device.hex()}: records reach {edge.through} with {ledgered} "
                    f"ledgered, the index says {state.high_water} with {state.ledgered}; {edge.duplicates} twice, "
                    f"{edge.gaps} skipped"
                )
        return found
