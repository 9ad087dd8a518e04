"""What a task sees of the log: every codec of every edge, and by name what it cannot read."""

from __future__ import annotations

import pytest

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
from shared.wire import codecs
from shared.wire.frame import encode
from shared.wire.messages import Data

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
