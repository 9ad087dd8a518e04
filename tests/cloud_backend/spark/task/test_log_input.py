"""What a task sees of the log: every codec of every edge, and by name what it cannot read."""

from __future__ import annotations

import pytest

from cloud_backend.log import declared_forms
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.spark.slots import SLOTS, Range
from cloud_backend.spark.task.log_input import read_edges
from cloud_backend.spark.task.specification import Slice
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.language import codecs as registry
from shared.language.codecs import register_codec
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.sync.sender import EdgePolicy
from shared.wire import codecs
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare
from tests.shared.sync.builders import pair

SCHEMA = Schema.of({"x": "float64", "word": "str"})
DEVICE = device_id(b"a phone")


def written(tmp_path, *frames) -> tuple[int, int]:
    log = Log.open(PosixDisk(tmp_path))
    start = log.end
    log.append([Record(1_000 + place, encode(frame)) for place, frame in enumerate(frames)])
    log.sync()
    end = log.durable_end
    log.close()
    return start, end


def data(edge: str, codec: str) -> tuple[Batch, Data]:
    batch = Batch.of(SCHEMA, {"x": [1.5, 2.5, -0.0], "word": ["a", "", "ü"]}, [10, 20, 30])
    number, payload = codecs.encode(batch, codec)
    return batch, Data(DEVICE, 1, edge_id(edge), 0, 3, 3, SCHEMA.id, 0, number, payload, 30)


@pytest.mark.covers("SO-12")
def test_a_task_reads_batches_of_every_codec(tmp_path):
    register_codec("turned", pack=lambda rows: rows[::-1], unpack=lambda packed, _: packed[::-1])
    names = ("auto", "columns", "deflate", "none", "turned")
    try:
        sent = {f"{name}_edge": data(f"{name}_edge", name) for name in names}
        start, end = written(tmp_path, *(message.frame() for _, message in sent.values()))
        found, _ = read_edges(tmp_path, [Slice("0", start, end)], dict.fromkeys(sent, SCHEMA), Range(0, SLOTS))
    finally:
        registry._codecs.clear()
    for edge, (batch, _) in sent.items():
        [arrival] = found[edge].units
        assert arrival.batch.columns["x"].tobytes() == batch.columns["x"].tobytes()
        assert arrival.batch.columns["word"].tolist() == ["a", "", "ü"]
        assert found[edge].refused == []


def test_a_batch_packed_with_a_codec_that_is_not_here_is_left_out_by_its_code(tmp_path):
    register_codec("elsewhere", pack=bytes, unpack=lambda packed, _: packed)
    _, message = data("up", "elsewhere")
    registry._codecs.clear()
    start, end = written(tmp_path, message.frame())
    found, _ = read_edges(tmp_path, [Slice("0", start, end)], {"up": SCHEMA}, Range(0, SLOTS))
    assert [(each.code, each.lo, each.hi) for each in found["up"].refused] == [("codec-unknown", 0, 3)]


# -- other forms of a stream -------------------------------------------------------------------------------------------

OLDER = Schema.of({"x": "float32", "n": "int32"})
NEWER = Schema.of({"x": "float64", "n": "int64", "steps": "int64", "word": "str"})
STATED = {"up": {"steps": -1, "word": "none"}}


def declared(schema: Schema, device: bytes = DEVICE):
    return Declare(device, 1, edge_id("up"), "up", schema).frame()


def rows(schema: Schema, lo: int, device: bytes = DEVICE, **columns: list[object]):
    batch = Batch.of(schema, columns, [10 + lo], lo=lo)
    number, payload = codecs.encode(batch)
    return Data(device, 1, edge_id("up"), lo, lo + 1, 1, schema.id, 0, number, payload, 30).frame()


def read_up(tmp_path, slice_: Slice, schema: Schema = NEWER, missing=STATED):
    found, _ = read_edges(tmp_path, [slice_], {"up": schema}, Range(0, SLOTS), missing=missing)
    units, refused = found["up"].units, found["up"].refused
    values = [{name: column.tolist()[0] for name, column in unit.batch.columns.items()} for unit in units]
    for each in values:
        del each["device"]
    return values, [each.reason for each in refused]


def test_batches_of_an_old_and_a_new_phone_are_read_side_by_side(tmp_path):
    other = device_id(b"a newer phone")
    start, end = written(
        tmp_path,
        declared(OLDER), rows(OLDER, 0, x=[1.5], n=[7]),
        declared(NEWER, other), rows(NEWER, 0, other, x=[2.5], n=[2**40], steps=[3], word=["w"]),
        rows(OLDER, 1, x=[3.5], n=[8]),
    )  # fmt: skip
    values, refused = read_up(tmp_path, Slice("0", start, end))
    assert refused == []
    assert values == [
        {"x": 1.5, "n": 7, "steps": -1, "word": "none"},
        {"x": 2.5, "n": 2**40, "steps": 3, "word": "w"},
        {"x": 3.5, "n": 8, "steps": -1, "word": "none"},
    ]


def test_a_form_that_was_declared_before_the_slice_is_found_also_when_the_slice_is_read_again(tmp_path):
    log = Log.open(PosixDisk(tmp_path))
    log.append([Record(1, encode(declared(OLDER))), Record(2, encode(rows(OLDER, 0, x=[1.5], n=[7])))])
    middle = log.end
    log.append([Record(3, encode(rows(OLDER, 1, x=[3.5], n=[8])))])
    end = log.end
    log.append([Record(4, encode(declared(NEWER)))])  # the phone took the new program later
    log.sync()
    log.close()
    for again in range(2):
        if again:
            declared_forms._kept[0].forms.clear()
        assert read_up(tmp_path, Slice("0", middle, end))[0] == [{"x": 3.5, "n": 8, "steps": -1, "word": "none"}]


def test_more_forms_than_a_process_keeps_are_all_found_within_a_slice(tmp_path, monkeypatch):
    monkeypatch.setattr(declared_forms, "FORMS_MAX", 2)
    phones = [device_id(b"%d" % number) for number in range(5)]
    log = Log.open(PosixDisk(tmp_path))
    log.append([Record(1, encode(declared(OLDER, phone))) for phone in phones])
    middle = log.end
    for lo in range(2):  # the second time the first phones' forms have been passed already
        log.append([Record(2, encode(rows(OLDER, lo, phone, x=[1.5], n=[7]))) for phone in phones])
    log.sync()
    end = log.durable_end
    log.close()
    for _ in range(2):
        values, refused = read_up(tmp_path, Slice("0", middle, end))
        assert (len(values), refused) == (10, [])


def test_what_another_device_declared_under_the_same_number_is_not_believed(tmp_path):
    start, end = written(tmp_path, declared(OLDER, device_id(b"another")), rows(OLDER, 0, x=[1.5], n=[7]))
    values, [reason] = read_up(tmp_path, Slice("0", start, end))
    assert values == []
    assert reason == f"schema {OLDER.id:08x}, the plan's is {NEWER.id:08x}"


def test_a_newer_form_is_read_by_a_query_that_wants_less_and_refused_where_it_wants_narrower(tmp_path):
    start, end = written(tmp_path, declared(NEWER), rows(NEWER, 0, x=[2.5], n=[4], steps=[3], word=["w"]))
    less = Schema.of({"word": "str", "x": "float64"})
    assert read_up(tmp_path, Slice("0", start, end), less, {}) == ([{"word": "w", "x": 2.5}], [])
    values, [reason] = read_up(tmp_path, Slice("0", start, end), OLDER, {})
    assert values == []
    assert "column 'n' was written as int64 and is wanted as int32" in reason


def test_a_missing_column_without_a_stated_value_puts_the_batch_into_quarantine(tmp_path):
    start, end = written(tmp_path, declared(OLDER), rows(OLDER, 0, x=[1.5], n=[7]))
    assert "column 'steps' is not in it" in read_up(tmp_path, Slice("0", start, end), NEWER, {})[1][0]


def test_a_device_that_goes_back_to_an_older_form_is_read_when_the_log_has_gone_on(tmp_path):
    """The log keeps the newest declaration of an edge: that of the form between would leave the rest in quarantine."""
    node = pair(policies={"up": EdgePolicy(rows=1)})
    log = Log.open(PosixDisk(tmp_path), segment_bytes=400)
    starts = []
    for lo, (schema, columns) in enumerate(
        [(OLDER, {"x": [1.5], "n": [7]}), (NEWER, {"x": [2.5], "n": [8], "steps": [3], "word": ["w"]})] + 9 * [
            (OLDER, {"x": [3.5], "n": [9]})
        ]
    ):  # fmt: skip
        node.sender.declare("up", schema)
        batch = Batch.of(schema, columns, [10 + lo], lo=lo)
        node.append("up", elements=1, payload=codecs.encode(batch)[1], schema=schema)
        before = len(node.gateway.log)
        node.talk()
        assert len(node.gateway.log) > before
        starts.append(log.end)
        for record in node.gateway.log[before:]:
            log.append([Record(1_000, record.frame)])
            log.sync()
    assert log.closed_segments()
    declared_forms._kept[0].forms.clear()
    values, refused = read_up(tmp_path, Slice("0", starts[-1], log.durable_end))
    log.close()
    assert refused == []
    assert values == [{"x": 3.5, "n": 9, "steps": -1, "word": "none"}]
