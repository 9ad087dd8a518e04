"""A snapshot of a vertex as its keepers hold it: the state, the positions it goes with, and stored ranges of edges.

A snapshot stands by itself, or is what changed since the one before it. Then it names that one by its digest, and only
who has exactly that can go on with it. What it builds on is kept beside it (`onto`): a whole state and then changes, in
the order in which they were taken.

On the state edge it travels in pieces of at most 1 MB, each an element with a number. A piece says which part of what
it is; a keeper puts them together and believes nothing before the digest of the whole is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.engine.snapshots import Value, decode_state, encode_state
from shared.errors import BrokenInvariant, DamagedData, PeerError
from shared.identity import EdgeId
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.spool.entry import SpooledBatch

FORMAT = 1
CHANGES_FORMAT = 2  # of one that says what changed since another
TAKES_CHANGES = 1  # as its keepers' receipts of the state edge say in `load`; those of earlier versions say 0
PIECE_BYTES = 1 << 20
SNAPSHOT_BYTES_MAX = 256 << 20
STATES_MAX = 64  # that one is restored from: a whole one and changes. Each is a file of every keeper
_PIECE = struct.Struct("<IIQ32s")  # index, count, bytes in all, SHA-256 of all


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    query: str
    incarnation: int
    vertex: str
    term: int
    permanent: Permanent
    state: bytes  # all of it; where it builds on others, what changed since the last of them
    ranges: Mapping[str, Sequence[SpooledBatch]] = field(default_factory=dict)  # output label -> batches stored with it
    onto: tuple[bytes, ...] = ()  # the states that it builds on: all of one, then changes
    after: bytes = b""  # on its way: the digest of the snapshot that its keepers have, and `onto` is since that one

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
        state = len(self.state) + sum(map(len, self.onto))
        return state + sum(len(batch.payload) for batches in self.ranges.values() for batch in batches)

    @property
    def states(self) -> tuple[bytes, ...]:
        """What it is restored from, in order."""
        return (*self.onto, self.state)

    def since(self, after: bytes, known: int) -> KeptSnapshot:
        """For those who have what `after` is the digest of, which is its first so many states."""
        return replace(self, onto=self.onto[known:], after=after)

    def joined(self, before: KeptSnapshot) -> KeptSnapshot:
        """Of what changed since `before`: that with the changes."""
        return replace(self, onto=(*before.states, *self.onto), after=b"")

    def encode(self) -> bytes:
        if self.onto and not self.after:
            raise BrokenInvariant("a snapshot that builds on others is sent as what changed", code="snapshot-onto")
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
        where = [
            self.query, self.incarnation, self.vertex, self.term, mark, dict(at.inputs), dict(at.heads),
            dict(at.starts), {edge: list(span) for edge, span in at.recorded.items()},
        ]  # fmt: skip
        if self.after:
            return encode_state([CHANGES_FORMAT, *where, list(self.states), ranges, self.after])
        return encode_state([FORMAT, *where, self.state, ranges])

    @staticmethod
    def decode(data: bytes) -> KeptSnapshot:
        """DamagedData where it is not whole or of a later form."""
        with contextlib.suppress(TypeError, ValueError):  # of lists that are longer or shorter than they should be
            if (found := _decoded(decode_state(data))) is not None:
                return found
        raise DamagedData("a kept snapshot of another form; it cannot be restored here", code="snapshot-kept")


def _decoded(found: Value) -> KeptSnapshot | None:
    states, after = [], b""
    match found:
        case [int(form), *_, bytes(state), dict()] if form == FORMAT:
            states = [state]
        case [int(form), *_, list(changes), dict(), bytes(after)] if form == CHANGES_FORMAT and after:
            states, found = changes, found[:-1]
    match found:
        case [
            int(), str(query), int(incarnation), str(vertex), int(term), mark, dict(inputs), dict(heads),
            dict(starts), dict(recorded), _, dict(ranges),
        ] if states and all(isinstance(state, bytes) for state in states):  # fmt: skip
            permanent = Permanent(
                _mark(mark), _positions(inputs), _positions(heads), _positions(starts),
                {edge: (lo, hi) for edge, (lo, hi) in recorded.items()},
            )  # fmt: skip
            batches = {
                label: [SpooledBatch(EdgeId(edge), *rest) for edge, *rest in parts] for label, parts in ranges.items()
            }
            *onto, state = states
            return KeptSnapshot(query, incarnation, vertex, term, permanent, state, batches, tuple(onto), after)
    return None


def _mark(found: Value) -> MarkId | None:
    match found:
        case None:
            return None
        case [int(number), str(initiator)]:
            return MarkId(number, initiator)
    raise ValueError("a mark is a number and who began it")


def _positions(found: Mapping[str, Value]) -> Mapping[str, int]:
    if not all(isinstance(label, str) and isinstance(at, int) for label, at in found.items()):
        raise ValueError("a position is a number of an edge's")
    return found


def digest_of(data: bytes) -> bytes:
    """What names a snapshot, as it was sent."""
    return hashlib.sha256(data).digest()


def pieces(data: bytes) -> list[bytes]:
    """The snapshot as the elements of its state edge."""
    digest = digest_of(data)
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
        if len(whole) != size or digest_of(whole) != digest:
            raise PeerError("the pieces of a snapshot do not give its digest; it was altered", code="snapshot-piece")
        return whole
