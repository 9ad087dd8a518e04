"""A stream's rows as they stand in the log: every device's, in the order in which they arrived.

A slice [start, end) of the log holds the same rows whenever it is read. Rows of an earlier form of the stream have null
in the columns that came later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from cloud_backend.dataframes import arrow
from cloud_backend.log.reader import Reader
from shared.batch import Batch
from shared.errors import PeerError, UsageError
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.wire import codecs, frame
from shared.wire.frame import HEADER_BYTES, FrameType
from shared.wire.messages import Data, Declare, LostRange

# Beside the stream's own columns, and in this order.
ADDED = {
    "_device": "str", "_incarnation": "int64", "_edge": "str", "_seq": "int64", "_time": arrow.TIME, "_offset": "int64",
}  # fmt: skip
LEDGER = {
    "device": "str", "incarnation": "int64", "edge": "str", "lo": "int64", "hi": "int64", "elements": "int64",
    "reason": "str", "received": arrow.TIME, "offset": "int64",
}  # fmt: skip
ROWS = 10_000  # in one Arrow batch, about: phones' own batches are much smaller


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the log that is read on its own: all of it is in one segment."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamRows:
    """One stream of one log. Travels to Spark's workers, so it holds no open file."""

    log: Path
    stream: str
    columns: Mapping[str, str]  # of the stream itself
    skip_undecodable: bool = False
    device: str = ""  # of this one alone; "": of all

    @property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **ADDED}

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        edge, reader = edge_id(self.stream), Reader(self.log)
        wanted = bytes.fromhex(self.device)
        schemas: dict[int, Schema] = {}
        asked = False
        waiting: list[tuple[int, str, int, Batch]] = []
        rows = 0
        for offset, record in reader.read(piece.start, piece.end):
            header = frame.stored_header(record.frame)
            if header.edge != edge or (wanted and header.source != wanted):
                continue
            if header.kind == FrameType.DECLARE:
                declared = _declared(bytes(record.frame)).schema
                schemas[declared.id] = declared
            if header.kind != FrameType.DATA:
                continue
            data = Data.of(frame.frame_of(header, bytes(record.frame[HEADER_BYTES:])))
            if data.schema_id not in schemas and not asked:  # the piece itself does not say it
                asked = True
                schemas |= {each.schema.id: each.schema for each in declared_as(reader, piece.start, self.stream)}
            try:
                found = codecs.decode_data(data, schemas[data.schema_id])
            except (PeerError, KeyError) as error:
                if self.skip_undecodable:
                    continue
                raise _undecodable(offset, header.source.hex(), error) from None
            waiting.append((offset, header.source.hex(), data.incarnation, found))
            rows += len(found)
            if rows >= ROWS:
                yield self._batch(waiting)
                waiting, rows = [], 0
        if waiting:
            yield self._batch(waiting)

    def _batch(self, parts: list[tuple[int, str, int, Batch]]) -> pa.RecordBatch:
        counts = [len(batch) for _, _, _, batch in parts]
        values = {name: self._column(name, kind, parts) for name, kind in self.columns.items()}
        offsets, devices, incarnations, batches = zip(*parts, strict=True)
        values |= {
            "_device": arrow.repeated(devices, counts, "str"),
            "_incarnation": arrow.repeated(incarnations, counts, "int64"),
            "_edge": arrow.repeated([self.stream], [sum(counts)], "str"),
            "_seq": arrow.array("int64", np.concatenate([batch.seq for batch in batches])),
            "_time": arrow.array(arrow.TIME, np.concatenate([batch.time_us for batch in batches])),
            "_offset": arrow.repeated(offsets, counts, "int64"),
        }
        return arrow.batch(self.all_columns, values)

    def _column(self, name: str, kind: str, parts: list[tuple[int, str, int, Batch]]) -> pa.Array:
        """Neighbours of one form at once: mostly that is all of them."""
        arrays = []
        for schema, group in itertools.groupby((batch for _, _, _, batch in parts), key=lambda batch: batch.schema):
            run = list(group)
            arrays.append(arrow.column(kind, schema, name, [batch.columns for batch in run], sum(map(len, run))))
        return pa.concat_arrays(arrays)


def pieces(log: Path, start: int, end: int) -> list[Piece]:
    return [Piece(*bounds) for bounds in Reader(log).pieces(start, end)]


def stream_columns(log: Path, stream: str) -> dict[str, str]:
    """The columns of all forms that a stream has now. UsageError where nobody declared it, or where they contradict."""
    reader = Reader(log)
    end = reader.valid_end()
    messages = list(declared_as(reader, end, stream))
    if not messages:
        there = ", ".join(sorted(edge_names(reader, end).values())) or "none yet"
        raise UsageError(f"no device has declared a stream {stream!r} in this log ({there})", code="dataframe-stream")
    found: dict[str, str] = {}
    for column in (column for message in messages for column in message.schema):
        if found.setdefault(column.name, column.kind) != column.kind:
            raise UsageError(
                f"devices send column {column.name!r} of stream {stream!r} as {found[column.name]} and as "
                f"{column.kind}; say with .schema(...) which you want, the other will be null",
                code="dataframe-columns",
            )
    return found


def declared_as(reader: Reader, before: int, stream: str) -> Iterator[Declare]:
    """What devices had declared of a stream before an offset."""
    edge = edge_id(stream)
    return (_declared(each) for each in reader.declared_before(before) if frame.stored_header(each).edge == edge)


def edge_names(reader: Reader, before: int) -> dict[int, str]:
    """By number, the names of all edges. Many devices declare the same ones: each is decoded once."""
    found = {frame.stored_header(each).edge: each for each in reader.declared_before(before)}
    return {edge: _declared(each).name for edge, each in found.items()}


def ledger_rows(log: Path, piece: Piece) -> Iterator[pa.RecordBatch]:
    """What devices had to give up, as their tombstones in the log say."""
    reader = Reader(log)
    names = edge_names(reader, piece.end)
    values: dict[str, list[object]] = {name: [] for name in LEDGER}
    for offset, record in reader.read(piece.start, piece.end):
        header = frame.stored_header(record.frame)
        if header.kind != FrameType.TOMBSTONE:
            continue
        lost = LostRange.of(frame.frame_of(header, bytes(record.frame[HEADER_BYTES:])))
        row = (
            lost.device.hex(), lost.incarnation, names.get(lost.edge, f"{lost.edge:016x}"), lost.lo, lost.hi,
            lost.hi - lost.lo, lost.reason, record.received_us, offset,
        )  # fmt: skip
        for name, value in zip(LEDGER, row, strict=True):
            values[name].append(value)
    yield arrow.batch(LEDGER, {name: arrow.array(kind, values[name]) for name, kind in LEDGER.items()})


def _declared(data: bytes) -> Declare:
    return Declare.of(frame.frame_of(frame.stored_header(data), data[HEADER_BYTES:]))


def _undecodable(offset: int, device: str, error: Exception) -> UsageError:
    why = error.message if isinstance(error, PeerError) else "its schema was never declared"
    return UsageError(
        f"the batch at offset {offset} of device {device} cannot be decoded ({why}); "
        'option("mode", "DROPMALFORMED") leaves such batches out',
        code="dataframe-undecodable",
    )
