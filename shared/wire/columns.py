"""The columns codec: a batch's rows as compressed columns, with numpy and zlib only; bit-exact always.

A payload is one byte of flags, the number of rows, the columns' headers in order (sequence numbers unless they
simply count up from lo, event times, then the schema's columns), then their planes in the same order. Floats
go through the integer grid behind them (`grids`), integers into byte planes (`planes`), text through a table
of distinct values. Decoding checks everything against `DECODED_BYTES_MAX` before it allocates and raises
PeerError, nothing else, on bytes it did not write. `docs/formats.md` has the byte tables.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.batch import NO_FRONTIER, Batch
from shared.errors import PeerError, UsageError
from shared.language.schema import Field, Schema, dtype
from shared.wire.grids import Floats, Grid, GridKind, OnGrid, find_grid, place_on_grid, take_from_grid
from shared.wire.planes import (
    Cursor,
    Integers,
    Packer,
    Reader,
    Shape,
    Writer,
    choose_shape,
    damaged,
    read_integers,
    write_integers,
)

CODEC_COLUMNS = 1
ROWS_MAX = 1 << 20
DECODED_BYTES_MAX = 48 << 20

_JOINT = 1  # all planes in one deflate stream
_DENSE = 2  # the rows are numbered lo, lo + 1, ... without gaps
_GROUPED = 4  # columns after the first are gathered by its values: interleaved sources become smooth again
_FLAGS = _JOINT | _DENSE | _GROUPED
_HAS_ADJUST = 1
_HAS_EXCEPTIONS = 2
_GRID_KINDS = tuple(GridKind)  # in order of their numbers, 0 to 2
_PARAMETER = struct.Struct("<d")
# What is remembered is questioned after so many batches, then half as often each time, down to the second number: to
# find it again costs what encoding 50 to 100 small batches does. A grid is also questioned when it fits this share of
# values worse than it did, and so many values more.
PATIENCE_MIN, PATIENCE_MAX = 32, 1024
MISFIT_DRIFT, MISFIT_VALUES = 0.02, 4
GROUP_ROWS_MIN = 64
GROUP_PROBE = 4096
GROUP_TRIALS = 2


@dataclass(slots=True)
class ColumnMemory:
    grid: Grid | None = None
    misfit: float = 0.0
    shapes: dict[str, Shape] = field(default_factory=dict)


@dataclass(slots=True)
class Cache:
    """What earlier batches of an edge taught: grids, shapes, strategies. One per edge; decoding never needs it."""

    columns: dict[str, ColumnMemory] = field(default_factory=dict)
    packer: Packer = field(default_factory=Packer)
    group: str | None = None
    schema: Schema | None = None  # that it was taught by
    batches: int = 0
    patience: int = PATIENCE_MIN  # batches between two questions
    question_at: int = 0

    def column(self, name: str) -> ColumnMemory:
        memory = self.columns.get(name)
        if memory is None:
            memory = self.columns[name] = ColumnMemory()
        return memory

    def take(self, other: Cache) -> None:
        self.columns, self.packer, self.group = other.columns, other.packer, other.group


def encode(batch: Batch, *, cache: Cache | None = None) -> tuple[int, bytes]:
    """(codec number, payload). A cache kept per edge makes later batches several times faster to encode."""
    rows = len(batch)
    if rows > ROWS_MAX or _decoded_bytes(batch) > DECODED_BYTES_MAX:
        raise UsageError(
            f"a batch of {rows} rows; at most {ROWS_MAX} rows and {DECODED_BYTES_MAX} bytes are encoded at once, "
            "make smaller batches",
            code="columns-large",
        )
    with np.errstate(all="ignore"):  # of floats off their grids; once, it costs as much as a column's sum
        return CODEC_COLUMNS, _cached(batch, Cache() if cache is None else cache)


def _cached(batch: Batch, cache: Cache) -> bytes:
    """Encoded by what the cache knows, which is questioned now and then."""
    if cache.schema is not batch.schema and cache.schema != batch.schema:
        cache.take(Cache())  # a grid of doubles is none of floats
        cache.schema, cache.batches, cache.question_at = batch.schema, 0, 0
    cache.batches += 1
    known: bytes | None = None
    if cache.batches > 1 and (cache.group is None or cache.group in batch.schema):
        known = _encode(batch, cache)
        if cache.batches < cache.question_at:
            return known
    tried = [Cache(group=group) for group in (None, *_group_candidates(batch))]
    payloads = [_encode(batch, fresh) for fresh in tried]
    best = min(payloads, key=len)
    if known is None or len(best) < len(known):
        cache.take(tried[payloads.index(best)])
    else:
        best = known
    cache.question_at = cache.batches + cache.patience
    cache.patience = min(2 * cache.patience, PATIENCE_MAX)
    return best


def _encode(batch: Batch, cache: Cache) -> bytes:
    rows = len(batch)
    writer = Writer()
    dense = rows == batch.hi - batch.lo and (not rows or int(batch.seq[0]) == batch.lo)  # they ascend below hi
    if not dense:
        _write_integers(writer, batch.seq.astype(np.int64) - batch.lo, cache.column("\0seq"), "seq")
    _write_scaled(writer, batch.time_us.astype(np.int64, copy=False), cache.column("\0time"))
    order: NDArray[np.intp] | None = None
    if cache.group is not None:
        writer.varint(batch.schema.names.index(cache.group))
        order = _group_order(batch.columns[cache.group])
    for column in batch.schema.fields if cache.group is None else _grouped_fields(batch.schema, cache.group):
        values = batch.columns[column.name]
        if order is not None and column.name != cache.group:
            values = values[order]
        _write_column(writer, np.ascontiguousarray(values), column.kind, cache.column(column.name))
    return _assemble(writer, rows, (_DENSE if dense else 0) | (_GROUPED if cache.group else 0), cache.packer)


def _assemble(writer: Writer, rows: int, flags: int, packer: Packer) -> bytes:
    head = Writer()
    head.varint(rows)
    head.varint(len(writer.head))
    joint_bytes, packed = packer.pack(writer.planes)
    if joint_bytes is not None:
        flags |= _JOINT
        head.varint(joint_bytes)
    return bytes((flags,)) + head.head + writer.head + packed


def _grouped_fields(schema: Schema, group: str) -> list[Field]:
    """The columns as they lie in a payload grouped by one: that one first."""
    return sorted(schema.fields, key=lambda one: one.name != group)


def _group_order(values: NDArray[Any]) -> NDArray[np.intp]:
    """Rows gathered by this column's value, each group in its old order."""
    if values.dtype.kind == "T":
        places = {text: place for place, text in enumerate(dict.fromkeys(values.tolist()))}
        values = np.array([places[text] for text in values.tolist()], np.int64)
    return np.argsort(values, kind="stable")


def _group_candidates(batch: Batch) -> list[str]:
    """Columns that may tell interleaved sources apart: whole numbers or text with few distinct values."""
    if len(batch) < GROUP_ROWS_MIN:
        return []
    candidates = [
        (distinct, column.name)
        for column in batch.schema
        if not column.kind.startswith("float") and len(batch.schema.fields) > 1
        and 2 <= (distinct := len(set(batch.columns[column.name][:GROUP_PROBE].tolist()))) <= len(batch) // 8
        and distinct < GROUP_PROBE // 4
    ]  # fmt: skip
    return [name for _, name in sorted(candidates)[-GROUP_TRIALS:]]


def decode(
    codec: int,
    payload: bytes | memoryview,
    schema: Schema,
    *,
    lo: int,
    hi: int,
    frontier_us: int = NO_FRONTIER,
    applied: int = 0,
) -> Batch:
    """The batch again. Raises PeerError (columns-codec, columns-damaged, columns-large) on anything else."""
    if codec != CODEC_COLUMNS:
        raise PeerError(f"codec {codec}; this side reads {CODEC_COLUMNS}, upgrade it", code="columns-codec")
    opened = open_payload(payload, lo=lo, hi=hi)
    with np.errstate(all="ignore"):  # of floats that a grid gives; once, it costs as much as reading a plane
        columns = _read_columns(opened.reader, opened.rows, schema, grouped=opened.grouped)
    opened.reader.finish()
    return Batch(
        schema=schema, columns=columns, time_us=opened.time_us, seq=opened.seq, lo=lo, hi=hi, frontier_us=frontier_us,
        applied=applied,
    )  # fmt: skip


class Opened(NamedTuple):
    """A payload read up to its columns."""

    reader: Reader
    rows: int
    grouped: bool
    seq: NDArray[np.int64]
    time_us: NDArray[np.int64]


def open_payload(payload: bytes | memoryview, *, lo: int, hi: int) -> Opened:
    """Its numbers and event times, and where its columns begin: the times alone cost a few percent of wide rows."""
    outer = Cursor(payload)
    flags = outer.byte()
    rows = outer.varint()
    if flags & ~_FLAGS or hi < lo or rows > min(hi - lo, ROWS_MAX) or (flags & _DENSE and rows != hi - lo):
        raise damaged("its rows do not fit its range")
    head_bytes = outer.varint()
    joint_bytes = outer.varint() if flags & _JOINT else None
    reader = Reader(outer.raw(head_bytes), outer.rest(), joint_bytes, DECODED_BYTES_MAX)
    reader.spend(16 * rows)
    if flags & _DENSE:
        seq = np.arange(lo, hi, dtype=np.int64)
    else:
        seq = read_integers(reader, rows) + np.int64(lo)
        if rows and (int(seq[0]) < lo or int(seq[-1]) >= hi or bool((seq[1:] <= seq[:-1]).any())):
            raise damaged("its sequence numbers do not ascend within its range")
    return Opened(reader, rows, bool(flags & _GROUPED), seq, _read_scaled(reader, rows))


def _decoded_bytes(batch: Batch) -> int:
    """At least what decoding will account for: the columns, and at most nine bytes of planes a value."""
    rows = len(batch)
    size = 16 * rows + 18 * rows
    for column in batch.schema:
        values = batch.columns[column.name]
        if column.kind == "str":
            size += sum(4 * len(text) for text in values.tolist()) + 26 * rows
        else:
            size += (values.dtype.itemsize + 11) * rows
    return size


def _write_integers(writer: Writer, integers: Integers, memory: ColumnMemory, part: str) -> None:
    shape = memory.shapes.get(part)
    if shape is None:
        shape = memory.shapes[part] = choose_shape(integers) if len(integers) else Shape()
    write_integers(writer, integers, shape)


def _write_column(writer: Writer, values: NDArray[Any], kind: str, memory: ColumnMemory) -> None:
    if kind == "str":
        _write_text(writer, values.tolist(), memory)
    elif kind == "bool":
        writer.planes.append(np.packbits(values).tobytes())
    elif kind.startswith("float"):
        _write_floats(writer, values, memory)
    else:
        _write_scaled(writer, values.astype(np.int64, copy=False), memory)


def _read_columns(reader: Reader, rows: int, schema: Schema, *, grouped: bool) -> dict[str, NDArray[Any]]:
    group: str | None = None
    order: NDArray[np.intp] | None = None
    if grouped:
        place = reader.head.varint()
        if place >= len(schema.fields):
            raise damaged("grouped by a column that is not there")
        group = schema.fields[place].name
    read: dict[str, NDArray[Any]] = {}
    for column in schema.fields if group is None else _grouped_fields(schema, group):
        values = _read_column(reader, rows, column.kind)
        if order is not None:
            scattered = np.empty_like(values)
            scattered[order] = values
            values = scattered
        elif column.name == group:
            order = _group_order(values)
        read[column.name] = values
    return read if group is None else {column.name: read[column.name] for column in schema.fields}


def _read_column(reader: Reader, rows: int, kind: str) -> NDArray[Any]:
    if kind == "str":
        return _read_text(reader, rows)
    reader.spend(rows * dtype(kind).itemsize)
    if kind == "bool":
        packed = reader.plane(-(-rows // 8))
        return np.unpackbits(packed, count=rows).astype(np.bool_)
    if kind.startswith("float"):
        return _read_floats(reader, rows, dtype(kind))
    return _read_scaled(reader, rows).astype(dtype(kind))


def _write_scaled(writer: Writer, integers: Integers, memory: ColumnMemory) -> None:
    """Integers that are all multiples of something from a start, such as times in whole milliseconds."""
    divisor = _common_divisor(integers)
    writer.varint(divisor)
    if divisor > 1:
        start = int(integers[0])
        writer.signed(start)
        integers = (integers - np.int64(start)) // np.int64(divisor)
    _write_integers(writer, integers, memory, "values")


def _read_scaled(reader: Reader, rows: int) -> Integers:
    divisor = reader.head.varint()
    if not 0 < divisor < 2**62:
        raise damaged("an impossible divisor")
    start = reader.head.signed() if divisor > 1 else 0
    integers = read_integers(reader, rows)
    return integers * np.int64(divisor) + np.int64(start) if divisor > 1 else integers


def _common_divisor(integers: Integers) -> int:
    if len(integers) < 8:
        return 1
    probe = int(np.gcd.reduce(integers[:64] - integers[0]))
    if probe in (0, 1, -1) or int(integers.max()) - int(integers.min()) >= 2**62:
        return 1
    return max(1, abs(int(np.gcd.reduce(integers - integers[0]))))


def _write_floats(writer: Writer, values: Floats, memory: ColumnMemory) -> None:
    grid, on = _on_grid(values, memory)
    flags = (on.adjust is not None) * _HAS_ADJUST | (on.exceptions is not None) * _HAS_EXCEPTIONS
    writer.raw(bytes((grid.kind | grid.narrow << 2 | flags << 3,)))
    if grid.kind is GridKind.BITS:
        writer.raw(bytes((grid.shift,)))
    else:
        writer.raw(_PARAMETER.pack(grid.first))
    if grid.kind is GridKind.STEP:
        writer.raw(_PARAMETER.pack(grid.offset))
    _write_integers(writer, on.integers, memory, "integers")
    if on.adjust is not None:
        _write_integers(writer, on.adjust, memory, "adjust")
    if on.exceptions is not None:
        writer.planes.append(np.packbits(on.exceptions).tobytes())
        kept = values[on.exceptions].view(np.int32 if values.dtype.itemsize == 4 else np.int64)
        writer.varint(len(kept))
        _write_integers(writer, kept.astype(np.int64), memory, "exceptions")


def _read_floats(reader: Reader, rows: int, kind: np.dtype) -> Floats:
    packed = reader.head.byte()
    if packed & 3 > GridKind.STEP or packed >> 5 or (packed & 4 and kind.itemsize == 4):
        raise damaged("an unknown grid")
    shift, first, offset = 0, 0.0, 0.0
    if packed & 3 == GridKind.BITS:
        shift = reader.head.byte()
        if shift >= 8 * kind.itemsize:
            raise damaged("an impossible shift")
    else:
        (first,) = _PARAMETER.unpack(reader.head.raw(_PARAMETER.size))
    if packed & 3 == GridKind.STEP:
        (offset,) = _PARAMETER.unpack(reader.head.raw(_PARAMETER.size))
    grid = Grid(_GRID_KINDS[packed & 3], bool(packed & 4), shift, first, offset)
    integers = read_integers(reader, rows)
    adjust = read_integers(reader, rows) if packed >> 3 & _HAS_ADJUST else None
    values = take_from_grid(OnGrid(integers, adjust, None), grid, kind)
    if packed >> 3 & _HAS_EXCEPTIONS:
        where = np.unpackbits(reader.plane(-(-rows // 8)), count=rows).astype(np.bool_)
        if reader.head.varint() != int(where.sum()):
            raise damaged("as many exceptions as marked were expected")
        kept = read_integers(reader, int(where.sum()))
        bits = kept.astype(np.int32 if kind.itemsize == 4 else np.int64)
        values[where] = bits.view(kind)
    return values


def _on_grid(values: Floats, memory: ColumnMemory) -> tuple[Grid, OnGrid]:
    """On the remembered grid while it still fits, else on a new one."""
    if not len(values):
        grid = Grid(GridKind.BITS)
        return grid, place_on_grid(values, grid)
    if memory.grid is not None:
        on = place_on_grid(values, memory.grid)
        if _misfit(on) <= memory.misfit + MISFIT_DRIFT + MISFIT_VALUES / len(values):
            return memory.grid, on
    memory.grid = find_grid(values)
    on = place_on_grid(values, memory.grid)
    memory.misfit = _misfit(on)
    memory.shapes.clear()
    return memory.grid, on


def _misfit(on: OnGrid) -> float:
    """The share of values that the grid does not give back by itself."""
    if on.adjust is None and on.exceptions is None:
        return 0.0
    corrected = 0 if on.adjust is None else int(np.count_nonzero(on.adjust))
    excepted = 0 if on.exceptions is None else int(np.count_nonzero(on.exceptions))
    return (corrected + excepted) / len(on.integers)


def _write_text(writer: Writer, texts: list[str], memory: ColumnMemory) -> None:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    table = [text.encode() for text in places]
    writer.varint(len(table))
    _write_integers(writer, np.array([len(text) for text in table], np.int64), memory, "lengths")
    _write_integers(writer, np.array([places[text] for text in texts], np.int64), memory, "places")
    writer.planes.append(b"".join(table))


def _read_text(reader: Reader, rows: int) -> NDArray[Any]:
    size = reader.head.varint()
    if size > rows or (rows and not size):
        raise damaged("a table of impossible size")
    reader.spend(24 * rows)  # numpy's text columns take 16 bytes a value beside the text, the places 8
    lengths = read_integers(reader, size)
    places = read_integers(reader, rows)
    if size and (int(lengths.min()) < 0 or int(lengths.max()) > DECODED_BYTES_MAX):
        raise damaged("an impossible text length")
    if rows and (int(places.min()) < 0 or int(places.max()) >= size):
        raise damaged("a text beyond its table")
    reader.spend(int(lengths[places].sum()) if rows else 0)
    total = int(lengths.sum())
    data = reader.plane(total).tobytes()
    ends = np.cumsum(lengths).tolist()
    try:
        table = [data[end - length : end].decode() for end, length in zip(ends, lengths.tolist(), strict=True)]
    except UnicodeDecodeError:
        raise damaged("text that is not UTF-8") from None
    return np.array([table[place] for place in places.tolist()], dtype=dtype("str"))
