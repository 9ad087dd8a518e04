"""What a log in Kafka still says of forms that its index has replaced, without brokers."""

from __future__ import annotations

import pytest

from cloud_backend.log.declared_forms import DeclaredForms
from cloud_backend.log.format import Record
from cloud_backend.log.kafka.entries import decode_record
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.reader import KafkaReader
from cloud_backend.log.kafka.shard import Shard
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.language.schema import Schema
from shared.wire import codecs
from shared.wire.frame import FrameType, decode_one, encode
from shared.wire.messages import Data, Declare

LOCATION = parse("kafka://nobody:9092/walks")
OLDER, NEWER = Schema.of({"x": "float32"}), Schema.of({"x": "float64", "n": "int64"})
DEVICE, EDGE = device_id(b"a phone"), edge_id("up")


def declared(schema: Schema, term: int = 0) -> bytes:
    return encode(Declare(DEVICE, 1, EDGE, "up", schema, term).frame())


def rows(lo: int) -> Data:
    number, payload = codecs.encode(Batch.of(OLDER, {"x": [1.5]}, [10], lo=lo))
    return Data(DEVICE, 1, EDGE, lo, lo + 1, 1, OLDER.id, 0, number, payload, 30)


class Trimmed(KafkaReader):
    """The records of a shard from one of them on, and its index."""

    def __init__(self, shard: Shard, records: list[Record], first: int) -> None:
        self._shard, self._records, self._first = shard, records, first

    def starts(self):
        return {"0": self._first}

    def ends(self):
        return {"0": len(self._records)}

    def read(self, partition, start, end):
        assert start >= self._first
        return iter(list(enumerate(self._records))[start:end])

    def declared_now(self, partition, before):
        return (state.declaration for _, state in self._shard.edges())


@pytest.fixture
def written():
    shard = Shard(LOCATION, 0, 1)
    frames = [declared(OLDER), encode(rows(0).frame()), encode(rows(1).frame()), declared(OLDER, 2), declared(NEWER)]
    shard.append([Record(1, each) for each in frames])
    group = shard.take()
    assert group is not None
    return shard, [decode_record(value, "here")[2] for value in group.values]


def test_a_form_that_is_replaced_is_said_once_more_and_its_repetition_is_not(written):
    _, records = written
    said = [decode_one(record.frame)[0] for record in records]
    forms = [Declare.of(each).schema if each.type == FrameType.DECLARE else None for each in said]
    assert forms == [OLDER, None, None, OLDER, OLDER, NEWER]


def test_batches_of_a_form_whose_declaration_was_trimmed_are_still_read(written):
    forms = DeclaredForms("kafka://nobody:9092/trimmed", Trimmed(*written, first=2), [int(EDGE)])
    assert forms.schema(rows(1), "0", 2) == OLDER
