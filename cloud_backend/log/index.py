"""The index: how far each edge of each device has come, and how its schema was declared.

Per (device, incarnation, edge) it keeps a contiguous high-water mark that data and tombstones both move, so a
range is decided once, by whichever came first. Nothing here expires: a phone may be silent for weeks, and
forgetting its mark would let old batches in twice. So it grows with the fleet, and it is never written whole: a segment
opens with the entries that changed in the one before it, and what trimmed segments changed is in files of marks
(`trimmed_index.py`).

An entry of the index, in a segment's header or in a file of marks: key, high-water mark, ledgered elements, and the
declaration if it changed too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from shared.errors import BrokenInvariant, DamagedData
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.wire.frame import HEADER, HEADER_BYTES, FrameType

KEY = struct.Struct("<I16sQ")  # incarnation, device, edge: contiguous in a frame's header, in this order
_OWNER = struct.Struct("<I16s")  # the first two of them
_EDGE = struct.Struct("<Q")  # the last
_KEY_START = 12  # magic 2, version, type, codec, flags, reserved 2, term 4
_KEY_END = _KEY_START + KEY.size
_RANGE = struct.Struct("<QI")  # seq, count
_ENTRY = struct.Struct("<QQI")  # high-water mark, ledgered elements, bytes of the declaration
_TYPE = 3  # position of the frame type

# Plain integers: a member of an IntEnum compares an order of magnitude slower, and every record is looked at.
_DATA, _TOMBSTONE, _DECLARE, _CHAIN = (
    int(kind) for kind in (FrameType.DATA, FrameType.TOMBSTONE, FrameType.DECLARE, FrameType.CHAIN)
)
NUMBERED = frozenset({_DATA, _TOMBSTONE})
LOGGED = NUMBERED | {int(FrameType.FRONTIER), _DECLARE, _CHAIN}


@dataclass(slots=True)
class EdgeState:
    high_water: int = 0
    ledgered: int = 0  # elements below the mark that a tombstone covers
    declaration: bytes = b""  # the DECLARE frame that counts from here on


def pack_key(key: EdgeKey) -> bytes:
    return KEY.pack(key.incarnation, key.device, key.edge)


def unpack_key(packed: bytes) -> EdgeKey:
    incarnation, device, edge = KEY.unpack(packed)
    return EdgeKey(DeviceId(device), incarnation, EdgeId(edge))


def frame_type(frame: bytes | memoryview) -> int:
    """The type of an encoded frame, without decoding it."""
    return frame[_TYPE]


class Index:
    def __init__(self) -> None:
        self._edges: dict[bytes, EdgeState] = {}
        self._of_device: dict[bytes, list[bytes]] = {}  # the keys of one installation
        self._sums: dict[bytes, list[int]] = {}  # by packed edge, over all devices: decided, and ledgered of them
        self._changed: dict[bytes, bytes] = {}  # since `start_changes`: key -> the new declaration, if there is one

    def high_water(self, key: EdgeKey) -> int:
        """The number that must come next on this edge; everything below it is decided."""
        state = self._edges.get(pack_key(key))
        return 0 if state is None else state.high_water

    def apply(self, frame: bytes | memoryview) -> None:
        """Take a frame into account. Raises BrokenInvariant for one that would leave a gap or decide a range twice."""
        kind = frame[_TYPE]
        if len(frame) < HEADER.size or kind not in LOGGED:
            raise BrokenInvariant("a frame of a kind that is never logged was handed to the log", code="log-frame-kind")
        if kind == _CHAIN:
            return  # a signature over batches already numbered
        key = bytes(frame[_KEY_START:_KEY_END])
        state = self._edges.get(key)
        if state is None:
            state = self._add(key, EdgeState())
        self._changed.setdefault(key, b"")
        if kind in NUMBERED:
            seq, count = _RANGE.unpack_from(frame, _KEY_END)
            if seq != state.high_water or not count:
                raise BrokenInvariant(
                    f"range [{seq}, {seq + count}) does not start at the high-water mark {state.high_water}; "
                    "the receiver must answer duplicates and gaps without logging them",
                    code="log-not-contiguous",
                )
            state.high_water = seq + count
            sums = self._sums[key[_OWNER.size :]]
            sums[0] += count
            if kind == _TOMBSTONE:
                state.ledgered += count
                sums[1] += count
        elif kind == _DECLARE:
            state.declaration = self._changed[key] = bytes(frame)

    def former_form(self, frame: bytes | memoryview) -> bytes:
        """The declaration that a DECLARE frame takes the place of, where that said another form; else nothing."""
        if frame[_TYPE] != _DECLARE:
            return b""
        state = self._edges.get(bytes(frame[_KEY_START:_KEY_END]))
        if state is None or state.declaration[HEADER_BYTES:] == bytes(frame[HEADER_BYTES:]):
            return b""
        return state.declaration

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        """The edges of one installation, each with the bytes of its declaration."""
        keys = self._of_device.get(_OWNER.pack(incarnation, device), ())
        return {EdgeId(KEY.unpack(key)[2]): len(self._edges[key].declaration) for key in keys}

    def totals_of(self, device: DeviceId, incarnation: int) -> tuple[int, int]:
        """Elements of one installation that are decided, and those of them that a tombstone covers."""
        states = [self._edges[key] for key in self._of_device.get(_OWNER.pack(incarnation, device), ())]
        return sum(state.high_water for state in states), sum(state.ledgered for state in states)

    def sums(self) -> dict[EdgeId, tuple[int, int]]:
        """The same by edge, over all devices there ever were; kept, so it costs the edges and not the devices."""
        return {EdgeId(_EDGE.unpack(edge)[0]): (decided, ledgered) for edge, (decided, ledgered) in self._sums.items()}

    def _add(self, key: bytes, state: EdgeState) -> EdgeState:
        self._edges[key] = state
        sums = self._sums.setdefault(key[_OWNER.size :], [0, 0])
        sums[0] += state.high_water
        sums[1] += state.ledgered
        self._of_device.setdefault(key[: _OWNER.size], []).append(key)
        return state

    def edges(self) -> Iterator[tuple[EdgeKey, EdgeState]]:
        """Every edge ever seen, in the order of its key."""
        for packed in sorted(self._edges):
            yield unpack_key(packed), self._edges[packed]

    def marks(self) -> dict[bytes, tuple[int, int]]:
        """High-water mark and ledgered elements of every edge, by its packed key: a copy that costs little."""
        return {packed: (state.high_water, state.ledgered) for packed, state in self._edges.items()}

    def declarations(self) -> dict[bytes, bytes]:
        """The declaration that counts now of every edge that has one, by its packed key."""
        return {packed: state.declaration for packed, state in self._edges.items() if state.declaration}

    def encode(self) -> bytes:
        """Every entry, in the order of the keys."""
        return self._encode({key: state.declaration for key, state in self._edges.items()})

    def encode_changes(self) -> bytes:
        """The entries that changed since `start_changes`."""
        return self._encode(self._changed)

    def start_changes(self) -> None:
        self._changed = {}

    def changes(self) -> list[tuple[bytes, EdgeState, bytes]]:
        """Packed key, state and new declaration, if there is one, of what changed since `start_changes`."""
        return [(key, self._edges[key], self._changed[key]) for key in sorted(self._changed)]

    def put(self, key: bytes, state: EdgeState) -> None:
        """Take an edge as it was stored, by its packed key."""
        self._add(key, state)

    def _encode(self, entries: dict[bytes, bytes]) -> bytes:
        parts: list[bytes] = []
        for key in sorted(entries):
            state, declaration = self._edges[key], entries[key]
            parts += (key, _ENTRY.pack(state.high_water, state.ledgered, len(declaration)), declaration)
        return b"".join(parts)

    @staticmethod
    def decode(data: bytes) -> Index:
        index = Index()
        index.add_entries(data)
        return index

    def add_entries(self, data: bytes) -> None:
        """Take entries that were written later than all that is here. Raises DamagedData for what cannot follow."""
        position, before = 0, b""
        while position < len(data):
            if len(data) - position < KEY.size + _ENTRY.size:
                raise DamagedData("an index entry ends early", code="log-index")
            key = data[position : position + KEY.size]
            high_water, ledgered, length = _ENTRY.unpack_from(data, position + KEY.size)
            position += KEY.size + _ENTRY.size + length
            state = self._edges.get(key) or self._add(key, EdgeState())
            if (
                position > len(data)
                or not before < key
                or ledgered > high_water
                or high_water < state.high_water
                or ledgered < state.ledgered
            ):
                raise DamagedData("an index entry is out of bounds", code="log-index")
            sums = self._sums[key[_OWNER.size :]]
            sums[0] += high_water - state.high_water
            sums[1] += ledgered - state.ledgered
            state.high_water, state.ledgered, before = high_water, ledgered, key
            if length:
                state.declaration = data[position - length : position]
