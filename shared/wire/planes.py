"""Integers to bytes and back: differences, then byte planes, each deflated on its own.

Differences of order 0, 1 or 2 make slow signals small. Zigzag folds the sign in. The lowest 0 to 7 bits, where
they are noise, are packed as they are; what remains is cut into planes of equal significance, because deflate
models one byte at a time. Differences with few distinct values go through a table instead. All arithmetic is
modulo 2**64, so the widest integers survive it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shared.errors import PeerError

Integers: TypeAlias = NDArray[np.int64]
Bytes8: TypeAlias = NDArray[np.uint8]

SAMPLE_ROWS = 2048
TABLE_MAX = 4096
ORDER_MAX = 2
_RAW = -15  # deflate without header and checksum: frames have their own
# Small planes share one deflate stream: a Huffman table per plane would cost more than it saves.
JOINT_BYTES = 4096
_SMALL_BYTES = 4096  # one block and one window of a small deflater


class Method(IntEnum):
    STORED = 0
    DEFLATED = 1
    CONSTANT = 2


# A member of an IntEnum is looked up an order of magnitude slower than a name.
_STORED, _DEFLATED, _CONSTANT = int(Method.STORED), int(Method.DEFLATED), int(Method.CONSTANT)
_UNSIGNED = {2: "<u2", 4: "<u4", 8: "<u8"}
_STRATEGIES = (zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY)
_ONE, _ONE_UNSIGNED, _SIGN = np.int64(1), np.uint64(1), np.int64(63)


class Form(IntEnum):
    PLANES = 0
    TABLE = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """How one column's integers are best cut; remembered between batches."""

    form: Form = Form.PLANES
    order: int = 0
    low_bits: int = 0
    centred: bool = True  # order 0: relative to a middle value; not so for bits, whose fields would be torn


@dataclass(slots=True)
class Writer:
    """Headers in order, and the planes that follow them."""

    head: bytearray = field(default_factory=bytearray)
    planes: list[bytes] = field(default_factory=list)

    def varint(self, value: int) -> None:
        while value > 0x7F:
            self.head.append(value & 0x7F | 0x80)
            value >>= 7
        self.head.append(value)

    def signed(self, value: int) -> None:
        """Any integer of 64 bits, signed."""
        self.varint(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)

    def raw(self, data: bytes) -> None:
        self.head += data


class Cursor:
    """Reads bytes in order. Anything but what a Writer wrote is a PeerError."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._view = memoryview(data)
        self._at = 0
        self._end = len(self._view)

    def raw(self, length: int) -> memoryview:
        at = self._at
        end = at + length
        if end > self._end:
            raise damaged("it ends early")
        self._at = end
        return self._view[at:end]

    def byte(self) -> int:
        at = self._at
        if at >= self._end:
            raise damaged("it ends early")
        self._at = at + 1
        return self._view[at]

    def varint(self) -> int:
        value = shift = 0
        for at in range(self._at, self._end):
            byte = self._view[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise damaged("a number is too long")
        else:
            raise damaged("it ends early")
        if value >= 2**64:
            raise damaged("a number is too long")
        self._at = at + 1
        return value

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def rest(self) -> memoryview:
        return self.raw(self._end - self._at)

    def finish(self) -> None:
        if self._at != self._end:
            raise damaged("bytes are left over")


class Reader:
    """A payload's headers and planes. `spend` bounds what decoding may allocate before it does."""

    def __init__(self, head: memoryview, body: memoryview, joint_bytes: int | None, bytes_max: int) -> None:
        self.head = Cursor(head)
        self._budget = bytes_max
        self._joint = joint_bytes is not None
        if joint_bytes is not None:
            self.spend(joint_bytes)
            body = memoryview(_inflate(body, joint_bytes))
        self._body = Cursor(body)

    def spend(self, nbytes: int) -> None:
        self._budget -= nbytes
        if self._budget < 0:
            raise PeerError(
                "the batch is larger than any this side decodes; make smaller batches", code="columns-large"
            )

    def plane(self, length: int) -> Bytes8:
        """The next plane, which must have exactly this many bytes."""
        if self._joint:
            return np.frombuffer(self._body.raw(length), np.uint8)
        if length == 0:
            return np.empty(0, np.uint8)
        self.spend(length)
        body = self._body
        method = body.byte()
        if method == _DEFLATED:
            return np.frombuffer(_inflate(body.raw(body.varint()), length), np.uint8)
        if method == _CONSTANT:
            return np.full(length, body.byte(), np.uint8)
        if method != _STORED:
            raise damaged(f"unknown plane method {method}")
        return np.frombuffer(body.raw(length), np.uint8)

    def planes(self, into: NDArray[np.uint8], width: int) -> None:
        """The next planes of one column into the first bytes of each of its values."""
        if self._joint:  # they lie one behind the other
            into[:, :width] = np.frombuffer(self._body.raw(width * len(into)), np.uint8).reshape(width, -1).T
        else:
            for place in range(width):
                into[:, place] = self.plane(len(into))

    def finish(self) -> None:
        self.head.finish()
        self._body.finish()


class Packer:
    """Deflates planes, remembering what won for each place so that later batches try only that."""

    def __init__(self) -> None:
        self.strategies: list[int | None] = []
        self.small: tuple[bool, int] | None = None  # of small planes: in one stream? by which strategy?

    def pack(self, planes: list[bytes]) -> tuple[int | None, bytes]:
        """The planes' bytes: small ones in one stream (then its length comes first) or each on its own, whichever is
        shorter; large ones always on their own."""
        size = sum(map(len, planes))
        if size > JOINT_BYTES:
            return None, self.separate(planes)
        if self.small is not None:
            one_stream, strategy = self.small
            return (size, _deflate(b"".join(planes), strategy)) if one_stream else (None, self.separate(planes))
        joined = b"".join(planes)
        tried = [(_deflate(joined, strategy), strategy) for strategy in _STRATEGIES]
        best, strategy = min(tried, key=lambda one: len(one[0]))
        separate = self.separate(planes)
        self.small = len(best) + 2 <= len(separate), strategy  # its length takes two bytes, or one
        return (size, best) if self.small[0] else (None, separate)

    def separate(self, planes: list[bytes]) -> bytes:
        if len(self.strategies) != len(planes):
            self.strategies = [None] * len(planes)
        return b"".join(self._pack(place, plane) for place, plane in enumerate(planes))

    def _pack(self, place: int, plane: bytes) -> bytes:
        if not plane:
            return b""
        if plane.count(plane[0]) == len(plane):
            return bytes((Method.CONSTANT, plane[0]))
        known = self.strategies[place]
        tried = [_deflate(plane, strategy) for strategy in (_STRATEGIES if known is None else (known,))]
        best = min(tried, key=len)
        if known is None:
            self.strategies[place] = _STRATEGIES[tried.index(best)]
        head = Writer()
        head.raw(bytes((Method.DEFLATED,)))
        head.varint(len(best))
        if len(head.head) + len(best) >= 1 + len(plane):
            return bytes((Method.STORED,)) + plane
        return bytes(head.head) + best


def choose_shape(integers: Integers) -> Shape:
    """The cheapest cut by the entropies of a sample's planes."""
    sample = _sample(integers)
    best, best_bits = Shape(), np.inf
    for order in range(ORDER_MAX + 1):
        differences, _ = _difference(sample, order)
        differences = differences[order:] if len(differences) > order else differences
        if order == 0:
            bits = _plane_bits(_zigzag(differences))
            if bits < best_bits - 0.01:
                best, best_bits = Shape(centred=False), bits
            differences = differences - differences[len(differences) // 2]
        folded = _zigzag(differences)
        for low_bits in range(8):
            bits = low_bits + _plane_bits(folded >> np.uint64(low_bits))
            if bits < best_bits - 0.01:
                best, best_bits = Shape(Form.PLANES, order, low_bits), bits
        _, counts = np.unique(folded, return_counts=True)
        share = counts / len(folded)
        # A table of values seen once saves nothing, and there will be more of them outside the sample.
        tabled = float(-(share * np.log2(share)).sum()) + 2 * len(counts) / len(folded) * _plane_bits(folded)
        if tabled < 0.9 * best_bits:
            best, best_bits = Shape(Form.TABLE, order), tabled
    return best


def write_integers(writer: Writer, integers: Integers, shape: Shape) -> None:
    if not len(integers):
        shape = Shape()
    differences, heads = _difference(integers, shape.order)
    base = int(differences[len(differences) // 2]) if shape.order == 0 and shape.centred and len(differences) else 0
    if base:
        differences = differences - np.int64(base)
    folded = _zigzag(differences)
    if shape.form is Form.TABLE:
        table, index = np.unique(folded, return_inverse=True)
        if len(table) <= TABLE_MAX:
            _write_head(writer, shape, heads, base)
            writer.varint(len(table))
            _write_planes(writer, np.diff(table, prepend=np.uint64(0)), 0)
            _write_planes(writer, index.astype(np.uint64), 0)
            return
        shape = Shape(Form.PLANES, shape.order, 0)
    _write_head(writer, shape, heads, base)
    _write_planes(writer, folded, shape.low_bits)


def read_integers(reader: Reader, rows: int) -> Integers:
    packed = reader.head.byte()
    order, low_bits, form = packed & 3, packed >> 2 & 7, packed >> 5
    if order > ORDER_MAX or form > Form.TABLE or (form == Form.TABLE and low_bits):
        raise damaged("an unknown shape")
    heads = [reader.head.signed() for _ in range(order)]
    base = reader.head.signed() if order == 0 else 0
    if form == Form.TABLE:
        size = reader.head.varint()
        if not 0 < size <= min(TABLE_MAX, rows):
            raise damaged("a table of impossible size")
        table = np.cumsum(_read_planes(reader, size, 0), dtype=np.uint64)
        index = _read_planes(reader, rows, 0)
        if int(index.max()) >= size:
            raise damaged("an index beyond its table")
        folded = table[index.astype(np.intp)]
    else:
        folded = _read_planes(reader, rows, low_bits)
    return _integrate(_unzigzag(folded), order, heads, base)


def damaged(what: str) -> PeerError:
    return PeerError(f"the columns do not decode: {what}", code="columns-damaged")


def _write_head(writer: Writer, shape: Shape, heads: list[int], base: int) -> None:
    writer.raw(bytes((shape.order | shape.low_bits << 2 | shape.form << 5,)))
    for head in heads:
        writer.signed(head)
    if shape.order == 0:
        writer.signed(base)


def _write_planes(writer: Writer, folded: NDArray[np.uint64], low_bits: int) -> None:
    largest = int(folded.max()) >> low_bits if len(folded) else 0
    width = -(-largest.bit_length() // 8)
    writer.head.append(width)
    if low_bits:
        bits = np.unpackbits(folded.astype(np.uint8)).reshape(-1, 8)[:, 8 - low_bits :]
        writer.planes.append(np.packbits(bits).tobytes())
    if not width:
        return
    if low_bits:
        folded = folded >> np.uint64(low_bits)
    if width == 1:
        writer.planes.append(folded.astype(np.uint8).tobytes())
        return
    octets = folded.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    writer.planes.extend(octets[:, place].tobytes() for place in range(width))


def _read_planes(reader: Reader, rows: int, low_bits: int) -> NDArray[np.uint64]:
    width = reader.head.byte()
    if width > 8:
        raise damaged("too many planes")
    low: Bytes8 | None = None
    if low_bits:
        bits = np.unpackbits(reader.plane(-(-rows * low_bits // 8)), count=rows * low_bits)
        spread = np.zeros((rows, 8), np.uint8)
        spread[:, 8 - low_bits :] = bits.reshape(rows, low_bits)
        low = np.packbits(spread)  # without an axis, which is many times slower
    if width <= 1:
        octets = reader.plane(rows) if width else np.zeros(rows, np.uint8)
        folded: NDArray[np.uint64] = octets.astype(np.uint64)
    else:
        held = 2 if width == 2 else 4 if width <= 4 else 8
        octets = np.zeros((rows, held), np.uint8) if width != held else np.empty((rows, held), np.uint8)
        reader.planes(octets, width)
        folded = octets.reshape(-1).view(_UNSIGNED[held]).astype(np.uint64, copy=False)  # which is little-endian
    return folded if low is None else (folded << np.uint64(low_bits)) | low


def _difference(integers: Integers, order: int) -> tuple[Integers, list[int]]:
    """Differences of this order, as many as integers: the places before the first are 0 and travel as heads."""
    heads: list[int] = []
    for place in range(order):
        if len(integers) <= place:
            heads.append(0)
            continue
        heads.append(int(integers[place]))
        following = np.zeros_like(integers)
        np.subtract(integers[place + 1 :], integers[place:-1], out=following[place + 1 :])
        integers = following
    return integers, heads


def _integrate(differences: Integers, order: int, heads: list[int], base: int) -> Integers:
    if order == 0:
        return differences + np.int64(base)
    for place in range(order - 1, -1, -1):
        if len(differences) > place:
            differences[place] = np.int64(heads[place])
            following = differences[place:]
            np.add.accumulate(following, out=following)
    return differences


def _zigzag(signed: Integers) -> NDArray[np.uint64]:
    signs = signed >> _SIGN
    signs ^= signed << _ONE
    return signs.view(np.uint64)


def _unzigzag(folded: NDArray[np.uint64]) -> Integers:
    """Changes `folded`: it is ours, and a batch's columns are small enough for the copies to count."""
    signs = folded.view(np.int64) & _ONE
    np.negative(signs, out=signs)
    folded >>= _ONE_UNSIGNED
    signs ^= folded.view(np.int64)
    return signs


def _plane_bits(folded: NDArray[np.uint64]) -> float:
    """Entropy of all byte planes joined, in bits a value."""
    width = -(-int(folded.max()).bit_length() // 8) if len(folded) else 0
    octets = folded.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    bits = 0.0
    for place in range(width):
        share = np.bincount(octets[:, place]) / len(folded)
        share = share[share > 0]
        # A small sample looks more orderly than it is; the usual first correction for that.
        unseen = (len(share) - 1) / (2 * len(folded) * np.log(2))
        bits += min(8.0, float(-(share * np.log2(share)).sum()) + float(unseen))
    return bits


def _sample(integers: Integers) -> Integers:
    if len(integers) <= SAMPLE_ROWS:
        return integers
    middle = (len(integers) - SAMPLE_ROWS) // 2
    return integers[middle : middle + SAMPLE_ROWS]


def _deflate(data: bytes, strategy: int) -> bytes:
    # Setting up a window and tables for large data costs more than deflating little: 15 us against 5.
    bits, memory = (12, 6) if len(data) <= _SMALL_BYTES else (15, 9)
    packer = zlib.compressobj(6, zlib.DEFLATED, -bits, memory, strategy)
    return packer.compress(data) + packer.flush()


def _inflate(data: memoryview, length: int) -> bytes:
    unpacker = zlib.decompressobj(_RAW)
    try:
        plain = unpacker.decompress(data, length + 1)
    except zlib.error:
        raise damaged("a plane does not inflate") from None
    if len(plain) != length or not unpacker.eof or unpacker.unused_data:
        raise damaged("a plane has the wrong length")
    return plain
