"""A batch's rows as they are, column after column: what `deflate`, `none` and registered codecs work on.

    flags u8 (1: numbered lo, lo + 1, ... without gaps) | rows varint | [seq - lo, int64 each] | time_us, int64 each |
    the schema's columns in order: numbers little-endian, a bool a byte, a text its length in bytes (varint) and UTF-8

Decoding checks everything before it allocates and raises PeerError, nothing else, on bytes it did not write.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.batch import NO_FRONTIER, Batch
from shared.language.schema import Schema, dtype
from shared.wire.planes import Cursor, Writer, damaged

_DENSE = 1
PLAIN_BYTES_MAX = 48 << 20
ROWS_MAX = 1 << 20


def write_rows(batch: Batch) -> bytes:
    rows = len(batch)
    dense = rows == batch.hi - batch.lo and bool((batch.seq == np.arange(batch.lo, batch.hi)).all())
    writer = Writer()
    writer.raw(bytes((_DENSE if dense else 0,)))
    writer.varint(rows)
    if not dense:
        writer.raw((batch.seq.astype("<i8") - batch.lo).tobytes())
    writer.raw(batch.time_us.astype("<i8", copy=False).tobytes())
    for column in batch.schema:
        values = batch.columns[column.name]
        if column.kind == "str":
            for text in values.tolist():
                encoded = text.encode()
                writer.varint(len(encoded))
                writer.raw(encoded)
        else:
            writer.raw(np.ascontiguousarray(values).astype(dtype(column.kind).newbyteorder("<"), copy=False).tobytes())
    return bytes(writer.head)


def read_rows(
    data: bytes | memoryview, schema: Schema, *, lo: int, hi: int, frontier_us: int = NO_FRONTIER, applied: int = 0
) -> Batch:
    cursor, seq, time_us = _open(data, lo=lo, hi=hi)
    rows = len(seq)
    columns = {
        column.name: _texts(cursor, rows) if column.kind == "str" else _numbers(cursor, rows, dtype(column.kind))
        for column in schema
    }
    cursor.finish()
    return Batch(
        schema=schema, columns=columns, time_us=time_us, seq=seq, lo=lo, hi=hi, frontier_us=frontier_us, applied=applied
    )


def read_times(data: bytes | memoryview, *, lo: int, hi: int) -> NDArray[np.int64]:
    """The event times of the rows and nothing else of them."""
    return _open(data, lo=lo, hi=hi)[2]


def _open(data: bytes | memoryview, *, lo: int, hi: int) -> tuple[Cursor, NDArray[np.int64], NDArray[np.int64]]:
    """(what follows, numbers, times) of rows."""
    cursor = Cursor(data)
    flags, rows = cursor.byte(), cursor.varint()
    if flags & ~_DENSE or hi < lo or rows > min(hi - lo, ROWS_MAX) or (flags & _DENSE and rows != hi - lo):
        raise damaged("its rows do not fit its range")
    if flags & _DENSE:
        seq = np.arange(lo, hi, dtype=np.int64)
    else:
        seq = _numbers(cursor, rows, np.dtype(np.int64)) + np.int64(lo)
        if rows and (int(seq[0]) < lo or int(seq[-1]) >= hi or bool((seq[1:] <= seq[:-1]).any())):
            raise damaged("its sequence numbers do not ascend within its range")
    return cursor, seq, _numbers(cursor, rows, np.dtype(np.int64))


def _numbers(cursor: Cursor, rows: int, kind: np.dtype[Any]) -> NDArray[Any]:
    stored = np.frombuffer(cursor.raw(rows * kind.itemsize), kind.newbyteorder("<"))
    if kind.kind == "b" and bool((stored.view(np.uint8) > 1).any()):
        raise damaged("a bool is neither true nor false")
    return stored.astype(kind)


def _texts(cursor: Cursor, rows: int) -> NDArray[Any]:
    try:
        values = [bytes(cursor.raw(cursor.varint())).decode() for _ in range(rows)]
    except UnicodeDecodeError:
        raise damaged("a text is not UTF-8") from None
    return np.array(values, dtype=dtype("str"))
