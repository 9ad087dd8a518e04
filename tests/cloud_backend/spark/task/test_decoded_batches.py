"""What a worker keeps of the log for the next query, and that nobody reads from it what the log does not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.task import decoded_batches
from cloud_backend.spark.task.decoded_batches import DecodedBatches
from cloud_backend.spark.task.log_input import EdgeArrivals, read_edges
from cloud_backend.spark.task.specification import Slice
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.wire import codecs
from shared.wire.frame import decode_one, encode
from shared.wire.messages import Data, Declare

SCHEMA = Schema.of({"x": "float64", "word": "str"})
DEVICE = device_id(b"a phone")


def frame(lo: int, x: float = 1.0, schema: Schema = SCHEMA) -> Record:
    columns = {"x": [x] * 20, "word": ["w"] * 20}
    batch = Batch.of(schema, {name: columns[name] for name in schema.names}, list(range(lo, lo + 20)), lo=lo)
    number, payload = codecs.encode(batch)
    data = Data(DEVICE, 1, edge_id("up"), lo, lo + 20, 20, schema.id, 0, number, payload, lo)
    return Record(1_000_000, encode(data.frame()))


@pytest.fixture
def log(tmp_path):
    log = Log.open(PosixDisk(tmp_path))
    yield log
    log.close()


def read(log: Log, tmp_path, kept: DecodedBatches | None, wanted: Schema = SCHEMA, **options) -> EdgeArrivals:
    log.sync()
    slice_ = Slice("0", log.start, log.durable_end)
    return read_edges(tmp_path, [slice_], {"up": wanted}, WHOLE, kept=kept, **options)[0]["up"]


def values(arrivals: EdgeArrivals) -> list[object]:
    return [
        (unit.ordinal, unit.batch.frontier_us, unit.batch.seq.tolist(), unit.batch.time_us.tolist(),
         {name: column.tolist() for name, column in unit.batch.columns.items()})
        for unit in arrivals.units
    ]  # fmt: skip


def test_what_was_decoded_once_is_not_decoded_for_the_next_reader(log, tmp_path):
    log.append([frame(lo) for lo in range(0, 200, 20)])
    kept = DecodedBatches()
    alone, first, second = (read(log, tmp_path, each) for each in (None, kept, kept))
    assert alone.decoded_bytes == first.decoded_bytes > 0
    assert second.decoded_bytes == 0
    assert values(alone) == values(first) == values(second)
    log.append([frame(200)])
    third = read(log, tmp_path, kept)
    assert 0 < third.decoded_bytes < first.decoded_bytes
    assert values(third) == values(read(log, tmp_path, None))


def test_readers_that_want_other_columns_of_an_edge_share_nothing(log, tmp_path):
    older, wider = Schema.of({"x": "float32"}), Schema.of({"x": "float64", "n": "int64"})
    log.append([Record(1, encode(Declare(DEVICE, 1, edge_id("up"), "up", older).frame())), frame(0, 1.5, older)])
    kept = DecodedBatches()
    for wanted, stated in ((older, {}), (wider, {"n": 1}), (wider, {"n": 2}), (wider, {"n": 2})):
        missing = {"up": stated}
        shared, alone = (read(log, tmp_path, each, wanted, missing=missing) for each in (kept, None))
        assert values(shared) == values(alone)
        assert shared.refused == []
    assert shared.decoded_bytes == 0


def test_two_devices_that_say_the_same_are_told_apart(log, tmp_path):
    """Frames of one payload: who says it, and under which numbers, stands in their headers."""
    same = frame(0)
    data = Data.of(decode_one(same.frame)[0])
    others = [replace(data, device=device_id(b"another")), replace(data, incarnation=2)]
    log.append([same, *(Record(same.received_us, encode(each.frame())) for each in others)])
    kept = DecodedBatches()
    for _ in range(2):
        shared, alone = (read(log, tmp_path, each) for each in (kept, None))
        assert values(shared) == values(alone)
        assert len({(unit.device, unit.incarnation) for unit in shared.units}) == 3


@pytest.mark.parametrize("other", ["log", "edge", "schema", "missing", "met", "header", "payload", "frontier"])
def test_a_batch_is_found_again_only_where_all_that_decides_about_it_is_the_same(other):
    kept = DecodedBatches()
    given = {"log": "log", "edge": "up", "schema": SCHEMA, "missing": {}, "met": False}
    batch = Batch.of(SCHEMA, {"x": [1.0], "word": ["w"]}, [0], lo=0)

    def reading(**changed):
        form = given | changed
        return kept.of(form["log"], form["edge"], form["schema"], form["missing"], met=form["met"])

    header, payload = b"h" * 200, b"p" * 32
    reading().keep(header, payload, 5, batch)
    assert reading().find(header, payload, 5) is batch
    forms = {
        "log": {"log": "other"}, "edge": {"edge": "other"}, "schema": {"schema": Schema.of({"x": "float64"})},
        "missing": {"missing": {"x": 1.0}}, "met": {"met": True},
    }  # fmt: skip
    found = reading(**forms.get(other, {})).find(
        b"H" * 200 if other == "header" else header, b"P" * 32 if other == "payload" else payload,
        6 if other == "frontier" else 5,
    )  # fmt: skip
    assert found is None


def test_what_was_used_last_stays_longest():
    batch = Batch.of(SCHEMA, {"x": [1.0], "word": ["w"]}, [0], lo=0)
    kept = DecodedBatches(bytes_max=4 * 1700)

    def reading():
        return kept.of("log", "up", SCHEMA, {}, met=False)

    for number in range(4):
        reading().keep(b"h" * 200, bytes([number]), 0, batch)
    assert reading().find(b"h" * 200, bytes([0]), 0) is batch
    reading().keep(b"h" * 200, bytes([9]), 0, batch)
    assert [reading().find(b"h" * 200, bytes([number]), 0) is batch for number in (0, 1, 9)] == [True, False, True]


def test_what_stands_in_for_a_column_is_told_apart_to_the_bit_and_a_missing_number_is_shared(log, tmp_path):
    older, wider = Schema.of({"x": "float32"}), Schema.of({"x": "float64", "y": "float64"})
    log.append([Record(1, encode(Declare(DEVICE, 1, edge_id("up"), "up", older).frame())), frame(0, 1.5, older)])
    kept = DecodedBatches()
    decoded = []
    for value in ("0.0", "-0.0", "nan", "nan"):
        missing = {"up": {"y": float(value)}}  # each query has its plan's own
        shared, alone = (read(log, tmp_path, each, wider, missing=missing) for each in (kept, None))
        assert repr(values(shared)) == repr(values(alone))
        decoded.append(shared.decoded_bytes > 0)
    assert decoded == [True, True, True, False]


def test_queries_that_come_and_go_leave_nothing_behind(log, tmp_path, monkeypatch):
    monkeypatch.setattr(decoded_batches, "FORMS_MAX", 3)
    log.append([frame(0, 1.0), frame(20, 2.0)])
    kept = DecodedBatches()
    for number in range(8):
        wanted = Schema.of({**{name: SCHEMA.kind(name) for name in SCHEMA.names}, f"more{number}": "int64"})
        assert len(read(log, tmp_path, kept, wanted).refused) == 2
        assert len(kept._forms) <= 3
        assert values(read(log, tmp_path, kept)) == values(read(log, tmp_path, None))


def test_what_a_device_had_erased_is_not_read_from_what_was_kept(log, tmp_path):
    log.append([frame(0)])
    kept = DecodedBatches()
    assert len(read(log, tmp_path, kept).units) == 1
    for base in prepare(log):
        erase(log, base, DEVICE, through_incarnation=1, done=ErasureCounts())
    after = read(log, tmp_path, kept)
    assert (after.units, after.frontiers) == ([], {DEVICE.hex(): 0})


def test_a_slice_larger_than_the_room_keeps_its_first_part_for_the_next(log, tmp_path):
    log.append([frame(lo) for lo in range(0, 400, 20)])
    small = DecodedBatches(bytes_max=10 * 2500)
    first = read(log, tmp_path, small)
    again = read(log, tmp_path, small)
    assert 0.2 < again.decoded_bytes / first.decoded_bytes < 0.8
    assert values(again) == values(first)
    assert read(log, tmp_path, small).decoded_bytes == again.decoded_bytes  # and for the one after it
    log.append([frame(lo, x=2.0) for lo in range(400, 600, 20)])  # what nobody uses any more makes room
    begin = log.start
    log.sync()
    newest = Slice("0", [at for at, _ in log.read(begin, log.durable_end)][20], log.durable_end)
    for _ in range(2):
        last = read_edges(tmp_path, [newest], {"up": SCHEMA}, WHOLE, kept=small)[0]["up"]
    assert last.decoded_bytes < first.decoded_bytes / 4
