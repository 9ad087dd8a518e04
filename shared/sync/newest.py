"""The newest rows of edges that are behind: what a device shows before its backlog is through.

Only what waits in the spool of an edge that is synced, as it is synced: no column and no stream that the gateway would
not get anyway. A row is read once, and once more when a newer batch is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from shared.errors import DamagedData, PeerError
from shared.identity import EdgeId
from shared.spool.entry import DataEntry
from shared.spool.ring import Spool
from shared.sync.composer import OutgoingEdge, Outstanding
from shared.wire import codecs
from shared.wire.live import LiveReading, bounded, newest_row


class Newest:
    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._read: dict[EdgeId, tuple[int, LiveReading | None]] = {}  # where the last batch begins, and its newest row

    def of(self, edges: Iterable[OutgoingEdge], outstanding: Outstanding) -> tuple[LiveReading, ...]:
        """Of each of these edges that this exchange leaves behind; the dearest first, if not all fit."""
        behind = [each for each in edges if each.store is self._spool and _is_behind(each, outstanding)]
        behind.sort(key=lambda edge: (-edge.policy.priority, edge.name))
        found = (self._newest(edge, outstanding) for edge in behind)
        return bounded(reading for reading in found if reading is not None)

    def _newest(self, edge: OutgoingEdge, outstanding: Outstanding) -> LiveReading | None:
        lo, known = self._read.get(edge.number, (0, None))
        last = next(iter(deque(self._spool.pending(edge.number, after=lo), maxlen=1)), None)
        if not isinstance(last, DataEntry) or last.schema_id not in edge.schemas:
            return None
        if last.lo != lo or known is None:
            known = self._decoded(edge, last, outstanding)
            self._read[edge.number] = (last.lo, known)
        return known

    def _decoded(self, edge: OutgoingEdge, entry: DataEntry, outstanding: Outstanding) -> LiveReading | None:
        try:
            batch = self._spool.read(entry)
            schema = edge.schemas[batch.schema_id]
            return newest_row(edge.name, codecs.decode(batch.codec, batch.payload, schema, lo=batch.lo, hi=batch.hi))
        except DamagedData:
            outstanding.damaged = True  # a tombstone took its place
        except PeerError:  # a codec of a user that is gone; its turn will come
            pass
        return None


def _is_behind(edge: OutgoingEdge, outstanding: Outstanding) -> bool:
    """Whether something of an edge stays here: it did not fit, or the gateway has yet to say how much it has."""
    return edge.number in outstanding.left or edge.number in outstanding.asked
