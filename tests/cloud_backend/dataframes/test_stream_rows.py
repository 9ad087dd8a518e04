"""A stream of the log as Arrow batches, without Spark."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cloud_backend.dataframes import arrow, stream_rows
from cloud_backend.dataframes.stream_rows import ADDED, LEDGER, StreamRows, ledger_rows, pieces, stream_columns
from cloud_backend.log.log import Log, Record
from cloud_backend.log.partitions import ONLY, open_log
from cloud_backend.log.reader import Reader
from shared.batch import Batch
from shared.errors import UsageError
from shared.identity import device_id, edge_id
from shared.language.schema import KINDS, Schema
from shared.spool.disk import PosixDisk
from shared.wire import columns, frame
from shared.wire.messages import Data, Declare, LostRange

ANN, BOB = device_id(b"ann"), device_id(b"bob")
SMALL = 2_000  # bytes in a segment, so that a few batches are several of them


class Writer:
    """A log of two devices' own making."""

    def __init__(self, directory: Path, **options: int) -> None:
        self.path = directory / "log"
        self.log = Log.open(PosixDisk(self.path), **options)
        self.next: dict[tuple[bytes, str], int] = {}
        self.sent: list[tuple[str, Batch]] = []

    def declare(self, device: bytes, name: str, schema: Schema) -> None:
        self._append(Declare(device, 1, edge_id(name), name, schema).frame())

    def send(self, device: bytes, name: str, schema: Schema, **values: object) -> None:
        rows = len(next(iter(values.values())))  # type: ignore[arg-type]
        lo = self.next.get((device, name), 0)
        batch = Batch.of(schema, values, np.arange(lo, lo + rows) * 1_000_000, lo=lo)
        self.next[device, name] = lo + rows
        codec, payload = columns.encode(batch)
        self._append(
            Data(
                device, 1, edge_id(name), lo, lo + rows, rows, schema.id, 0, codec, payload, (lo + rows) * 1_000_000
            ).frame()
        )
        self.sent.append((device.hex(), batch))

    def lose(self, device: bytes, name: str, count: int) -> None:
        lo = self.next.get((device, name), 0)
        self.next[device, name] = lo + count
        self._append(LostRange(device, 1, edge_id(name), lo, lo + count, "evicted").frame())

    def _append(self, message: frame.Frame) -> None:
        self.log.append([Record(1_700_000_000_000_000, frame.encode(message))])
        self.log.sync()

    def rows(self, stream: str, **options: object) -> pa.Table:
        found = StreamRows(self.path, stream, stream_columns(self.path, stream))
        found = replace(found, **options)  # type: ignore[arg-type]
        reader = open_log(self.path)
        batches = [each for piece in pieces(self.path, reader.starts(), reader.ends()) for each in found.read(piece)]
        return pa.Table.from_batches(batches, pa.schema([(k, arrow.TYPES[v][0]) for k, v in found.all_columns.items()]))


EVERY_KIND = Schema.of({kind: kind for kind in KINDS})


def every_kind(rows: int, seed: int) -> dict[str, object]:
    random = np.random.default_rng(seed)
    found: dict[str, object] = {}
    for kind in KINDS:
        if kind == "str":
            found[kind] = [f"ü{number}" for number in range(rows)]
        elif kind == "bool":
            found[kind] = random.random(rows) < 0.5
        elif kind.startswith("float"):
            found[kind] = random.normal(size=rows)
        else:
            bounds = np.iinfo(kind)
            found[kind] = random.integers(bounds.min, bounds.max, rows, dtype=kind, endpoint=True)
    return found


def test_every_row_comes_once_with_every_bit_from_any_segment(tmp_path, claim):
    writer = Writer(tmp_path, segment_bytes=SMALL)
    for device in (ANN, BOB):
        writer.declare(device, "all", EVERY_KIND)
        writer.declare(device, "other", Schema.of({"v": "float64"}))
    for seed in range(40):
        writer.send((ANN, BOB)[seed % 2], "all", EVERY_KIND, **every_kind(7, seed))
        writer.send(ANN, "other", Schema.of({"v": "float64"}), v=[1.0])
    assert len(pieces(writer.path, {ONLY: 0}, open_log(writer.path).ends())) > 5
    table = writer.rows("all")
    wanted = [(device, batch) for device, batch in writer.sent if "uint64" in batch.schema]
    assert table.column("_device").to_pylist() == [device for device, batch in wanted for _ in range(len(batch))]
    assert table.column("_seq").to_pylist() == [int(number) for _, batch in wanted for number in batch.seq]
    for kind in KINDS:
        values = np.concatenate([batch.columns[kind] for _, batch in wanted])
        found = [int(each) if kind == "uint64" else each for each in table.column(kind).to_pylist()]
        assert _digest(found) == _digest(values.tolist()), kind
    claim(f"{table.num_rows} rows of {len(KINDS)} kinds compared")
    assert table.num_rows == 280


def _digest(values: list[object]) -> str:
    return hashlib.sha256("\n".join(map(repr, values)).encode()).hexdigest()


def test_a_stream_that_gained_a_column_is_one_table_with_null_where_it_was_not_yet(tmp_path):
    old, new = Schema.of({"v": "float64"}), Schema.of({"v": "float64", "unit": "str"})
    writer = Writer(tmp_path, segment_bytes=SMALL)
    writer.declare(ANN, "s", old)
    for _ in range(60):
        writer.send(ANN, "s", old, v=[1.0])
    writer.declare(ANN, "s", new)
    for _ in range(60):
        writer.send(ANN, "s", new, v=[2.0], unit=["dB"])
    table = writer.rows("s")
    assert list(stream_columns(writer.path, "s")) == ["v", "unit"]
    assert table.column("unit").to_pylist() == [None] * 60 + ["dB"] * 60
    assert table.column("v").to_pylist() == [1.0] * 60 + [2.0] * 60


def test_a_column_that_became_wider_is_one_column_of_the_wide_kind(tmp_path):
    old, new = Schema.of({"v": "float32", "n": "int32"}), Schema.of({"v": "float64", "n": "int64"})
    writer = Writer(tmp_path)
    for device, schema, v, n in ((ANN, old, 1.5, 7), (BOB, new, 0.1, 2**40)):
        writer.declare(device, "s", schema)
        writer.send(device, "s", schema, v=[v], n=[n])
    assert stream_columns(writer.path, "s") == {"v": "float64", "n": "int64"}
    table = writer.rows("s")
    assert table.column("v").to_pylist() == [1.5, 0.1]
    assert table.column("n").to_pylist() == [7, 2**40]


def test_columns_that_contradict_each_other_are_refused_until_a_schema_says_which(tmp_path):
    writer = Writer(tmp_path)
    writer.declare(ANN, "s", Schema.of({"v": "float64"}))
    writer.declare(BOB, "s", Schema.of({"v": "int64"}))
    with pytest.raises(UsageError, match=r"'v' of stream 's' as .* say with .schema"):
        stream_columns(writer.path, "s")
    writer.send(ANN, "s", Schema.of({"v": "float64"}), v=[1.5])
    writer.send(BOB, "s", Schema.of({"v": "int64"}), v=[2])
    rows = StreamRows(writer.path, "s", {"v": "int64"})
    (batch,) = rows.read(stream_rows.Piece(0, Reader(writer.path).valid_end()))
    assert batch.column("v").to_pylist() == [None, 2]


def test_an_unknown_stream_is_refused_with_those_that_are(tmp_path):
    writer = Writer(tmp_path)
    with pytest.raises(UsageError, match="none yet"):
        stream_columns(writer.path, "gps")
    writer.declare(ANN, "noise", Schema.of({"v": "float64"}))
    with pytest.raises(UsageError, match=r"'gps' in this log \(noise\)"):
        stream_columns(writer.path, "gps")


def test_a_batch_that_cannot_be_decoded_ends_the_reading_or_is_left_out(tmp_path):
    schema = Schema.of({"v": "float64"})
    writer = Writer(tmp_path)
    writer.declare(ANN, "s", schema)
    writer.send(ANN, "s", schema, v=[1.0])
    writer._append(Data(ANN, 1, edge_id("s"), 1, 2, 1, schema.id, 0, 1, b"nonsense").frame())
    writer.next[ANN, "s"] = 2
    writer.send(ANN, "s", schema, v=[3.0])
    with pytest.raises(UsageError, match="DROPMALFORMED") as refused:
        writer.rows("s")
    assert refused.value.code == "dataframe-undecodable"
    assert writer.rows("s", skip_undecodable=True).column("v").to_pylist() == [1.0, 3.0]


def test_one_device_is_read_alone(tmp_path):
    schema = Schema.of({"v": "float64"})
    writer = Writer(tmp_path)
    for device in (ANN, BOB):
        writer.declare(device, "s", schema)
        writer.send(device, "s", schema, v=[float(len(writer.sent))])
    assert writer.rows("s", device=BOB.hex()).column("v").to_pylist() == [1.0]


def test_the_ledger_has_what_was_given_up_and_why(tmp_path):
    schema = Schema.of({"v": "float64"})
    writer = Writer(tmp_path)
    writer.declare(ANN, "s", schema)
    writer.send(ANN, "s", schema, v=[1.0])
    writer.lose(ANN, "s", 20)
    (batch,) = ledger_rows(writer.path, stream_rows.Piece(0, Reader(writer.path).valid_end()))
    (row,) = batch.to_pylist()
    assert (row["device"], row["edge"], row["lo"], row["hi"], row["elements"], row["reason"]) == (
        ANN.hex(), "s", 1, 21, 20, "evicted",
    )  # fmt: skip
    assert list(row) == list(LEDGER)


def test_a_slice_read_twice_is_the_same(tmp_path):
    schema = Schema.of({"v": "float64"})
    writer = Writer(tmp_path, segment_bytes=SMALL)
    writer.declare(ANN, "s", schema)
    for _ in range(50):
        writer.send(ANN, "s", schema, v=[1.0, 2.0])
    end = Reader(writer.path).valid_end()
    first = [
        each
        for piece in pieces(writer.path, {ONLY: 0}, {ONLY: end})
        for each in StreamRows(writer.path, "s", {"v": "float64"}).read(piece)
    ]
    writer.send(ANN, "s", schema, v=[9.0])
    again = [
        each
        for piece in pieces(writer.path, {ONLY: 0}, {ONLY: end})
        for each in StreamRows(writer.path, "s", {"v": "float64"}).read(piece)
    ]
    assert first == again
    assert sum(each.num_rows for each in first) == 100
    assert list(first[0].schema.names) == ["v", *ADDED]
