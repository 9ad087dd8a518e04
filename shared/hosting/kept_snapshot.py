"""A snapshot of a vertex as its keepers hold it: the state, the positions it goes with, and stored ranges of edges.

On the state edge it travels in pieces of at most 1 MB, each an element with a number. A piece says which part of what
it is; a keeper puts them together and believes nothing before the digest of the whole is right.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.engine.snapshots import decode_state, encode_state
from shared.errors import DamagedData, PeerError
from shared.identity import EdgeId
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.spool.entry import SpooledBatch

FORMAT = 1
PIECE_BYTES = 1 << 20
SNAPSHOT_BYTES_MAX = 256 << 20
_PIECE = struct.Struct("<IIQ32s")  # index, count, bytes in all, SHA-256 of all


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    query: str
    incarnation: int
    vertex: str
    term: int
    permanent: Permanent
    state: bytes
    ranges: Mapping[str, Sequence[SpooledBatch]] = field(default_factory=dict)  # output label -> batches stored with it

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.query, self.incarnation, self.vertex

    @property
    def version(self) -> tuple[int, int]:
        """Grows: a later term is newer, and in one term what has read more. Marks tell nothing: those of another source
        may have smaller numbers, or the same."""
        return self.term, sum(self.permanent.inputs.values())

    @property
    def size(self) -> int:
        """Bytes of its state and of what was stored with it."""
        return len(self.state) + sum(len(batch.payload) for batches in self.ranges.values() for batch in batches)

    def encode(self) -> bytes:
        at = self.permanent
        mark = None if at.id is None else [at.id.number, at.id.initiator]
        ranges = {
            label: [
                [batch.edge, batch.lo, batch.hi, batch.rows, batch.schema_id, batch.applied, batch.frontier_us,
                 batch.codec, batch.payload]
                for batch in batches
            ]
            for label, batches in self.ranges.items()
        }  # fmt: skip
        return encode_state(
            [FORMAT, self.query, self.incarnation, self.vertex, self.term, mark, dict(at.inputs), dict(at.heads),
             dict(at.starts), {edge: list(span) for edge, span in at.recorded.items()}, self.state, ranges]
        )  # fmt: skip

    @staticmethod
    def decode(data: bytes) -> KeptSnapshot:
        """DamagedData where it is not whole or of a later form."""
        match decode_state(data):
            case [
                int(form), str(query), int(incarnation), str(vertex), int(term), mark, dict(inputs), dict(heads),
                dict(starts), dict(recorded), bytes(state), dict(ranges),
            ] if form == FORMAT:  # fmt: skip
                permanent = Permanent(
                    None if mark is None else MarkId(*mark), inputs, heads, starts,
                    {edge: (lo, hi) for edge, (lo, hi) in recorded.items()},
                )  # fmt: skip
                batches = {
                    label: [SpooledBatch(EdgeId(edge), *rest) for edge, *rest in parts]
                    for label, parts in ranges.items()
                }
                return KeptSnapshot(query, incarnation, vertex, term, permanent, state, batches)
        raise DamagedData("a kept snapshot of another form; it cannot be restored here", code="snapshot-kept")


def pieces(data: bytes) -> list[bytes]:
    """The snapshot as the elements of its state edge."""
    digest = hashlib.sha256(data).digest()
    count = max(1, -(-len(data) // PIECE_BYTES))
    return [
        _PIECE.pack(index, count, len(data), digest) + data[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
        for index in range(count)
    ]


class Assembly:
    """Pieces of one state edge, as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._digest = b""
        self._size = 0

    def add(self, piece: bytes) -> bytes | None:
        """The whole snapshot once its last piece is here. A piece that fits nothing begins anew, or is refused."""
        if len(piece) < _PIECE.size:
            raise PeerError("a piece of a snapshot is shorter than its own header", code="snapshot-piece")
        index, count, size, digest = _PIECE.unpack_from(piece)
        if size > SNAPSHOT_BYTES_MAX or count != max(1, -(-size // PIECE_BYTES)) or index >= count:
            raise PeerError(f"a snapshot has at most {SNAPSHOT_BYTES_MAX} bytes", code="snapshot-piece")
        if index == 0:
            self._parts, self._digest, self._size = [], digest, size
        if index != len(self._parts) or digest != self._digest or size != self._size:
            self._parts = []
            return None
        self._parts.append(piece[_PIECE.size :])
        if len(self._parts) < count:
            return None
        whole = b"".join(self._parts)
        self._parts = []
        if len(whole) != size or hashlib.sha256(whole).digest() != digest:
            raise PeerError("the pieces of a snapshot do not give its digest; it was altered", code="snapshot-piece")
        return whole
