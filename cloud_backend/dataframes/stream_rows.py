"""A stream's rows as they stand in the log: every device's, in the order in which they arrived.

A slice [start, end) of the log holds the same rows whenever it is read. Rows of an earlier form of the stream have null
in the columns that came later, and their numbers grow as wide as those that are sent now.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from cloud_backend.dataframes import arrow
from cloud_backend.log.partitions import ONLY, Place, numbered, open_log
from shared.batch import Batch
from shared.errors import PeerError, UsageError
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.language.widening import widens
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
    """A part of one partition of the log that is read on its own; of a log on disk all of it is in one segment."""

    start: int
    end: int
    partition: str = ONLY


@dataclass(frozen=True, slots=True)
class StreamRows:
    """One stream of one log. Travels to Spark's workers, so it holds no open file."""

    log: Path | str
    stream: str
    columns: Mapping[str, str]  # of the stream itself
    skip_undecodable: bool = False
    device: str = ""  # of this one alone; "": of all

    @property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **ADDED}

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        edge, reader = edge_id(self.stream), open_log(self.log)
        wanted = bytes.fromhex(self.device)
        schemas: dict[int, Schema] = {}
        declared = declared_as(reader.declared_before(piece.partition, piece.start), self.stream)
        waiting: list[tuple[int, str, int, Batch]] = []
        rows = 0
        for offset, record in reader.read(piece.partition, piece.start, piece.end):
            header = frame.stored_header(record.frame)
            if header.edge != edge or (wanted and header.source != wanted):
                continue
            if header.kind == FrameType.DECLARE:
                said = _declared(bytes(record.frame)).schema
                schemas[said.id] = said
            if header.kind != FrameType.DATA:
                continue
            data = Data.of(frame.frame_of(header, bytes(record.frame[HEADER_BYTES:])))
            while data.schema_id not in schemas and (message := next(declared, None)):  # the piece itself says it not
                schemas[message.schema.id] = message.schema
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


def pieces(log: Path | str, starts: Place, ends: Place) -> list[Piece]:
    reader = open_log(log)
    return [
        Piece(*bounds, partition)
        for partition in numbered(ends)
        for bounds in reader.pieces(partition, starts[partition], ends[partition])
    ]


def stream_columns(log: Path | str, stream: str) -> dict[str, str]:
    """The columns of all forms that a stream has now, each as the widest kind that devices send. UsageError where
    nobody declared it, or where they contradict."""
    reader = open_log(log)
    frames = [each for partition, end in reader.ends().items() for each in reader.declared_now(partition, end)]
    messages = list(declared_as(frames, stream))
    if not messages:
        there = ", ".join(sorted(edge_names(frames).values())) or "none yet"
        raise UsageError(f"no device has declared a stream {stream!r} in this log ({there})", code="dataframe-stream")
    found: dict[str, str] = {}
    for column in (column for message in messages for column in message.schema):
        former = found.setdefault(column.name, column.kind)
        if widens(former, column.kind):
            found[column.name] = column.kind
        elif not widens(column.kind, former):
            raise UsageError(
                f"devices send column {column.name!r} of stream {stream!r} as {found[column.name]} and as "
                f"{column.kind}; say with .schema(...) which you want, the other will be null",
                code="dataframe-columns",
            )
    return found


def declared_as(frames: Iterable[bytes], stream: str) -> Iterator[Declare]:
    """Those of these declarations that are of a stream."""
    edge = edge_id(stream)
    return (_declared(each) for each in frames if frame.stored_header(each).edge == edge)


def edge_names(frames: Iterable[bytes]) -> dict[int, str]:
    """By number, the names of declared edges. Many devices declare the same ones: each is decoded once."""
    found = {frame.stored_header(each).edge: each for each in frames}
    return {edge: _declared(each).name for edge, each in found.items()}


def ledger_rows(log: Path | str, piece: Piece) -> Iterator[pa.RecordBatch]:
    """What devices had to give up, as their tombstones in the log say."""
    reader = open_log(log)
    names = edge_names(reader.declared_now(piece.partition, piece.end))
    values: dict[str, list[object]] = {name: [] for name in LEDGER}
    for offset, record in reader.read(piece.partition, piece.start, piece.end):
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
