"""What is in the topics of a log in Kafka, byte for byte, as version 1 wrote it."""

from __future__ import annotations

import hashlib

import pytest

from cloud_backend.log.format import encode_record
from cloud_backend.log.index import EdgeState, Index
from cloud_backend.log.kafka.entries import Head, decode_record, index_entries, take_entry
from shared.errors import DamagedData
from tests.cloud_backend.log.builders import PHONE, data, declare, tombstone

HEAD = "01040007000000000000002301000000000000" + bytes(range(32)).hex()


def test_a_head() -> None:
    head = Head(4, 7, 291, bytes(range(32)))
    assert head.encode().hex() == HEAD
    assert Head.decode(bytes.fromhex(HEAD)) == head


def test_entries_of_the_index() -> None:
    index = Index()
    for record in (declare(PHONE), data(PHONE, 0, 10), tombstone(PHONE, 10, 12)):
        index.apply(record.frame)
    (mark_key, mark), (declaration_key, declaration) = index_entries(index)
    assert (mark_key[:1], declaration_key[:1], mark_key[1:]) == (b"m", b"d", declaration_key[1:])
    assert len(mark_key) == 29
    assert mark.hex() == "010c000000000000000200000000000000"
    assert declaration == b"\x01" + declare(PHONE).frame
    states: dict[bytes, EdgeState] = {}
    take_entry(states, mark_key, mark)
    take_entry(states, declaration_key, declaration)
    assert states == {mark_key[1:]: EdgeState(12, 2, declare(PHONE).frame)}


def test_a_record_is_that_of_a_segment_with_its_number() -> None:
    record = data(PHONE, 0, 10, at_us=5)
    header, chain = encode_record(record, 3, bytes(32), 0)
    value = header + record.frame
    assert hashlib.sha256(value).hexdigest() == RECORD
    number, found, back = decode_record(value, "here")
    assert (number, found.chain, back) == (3, chain, record)


@pytest.mark.parametrize("harm", [b"", b"short", None])
def test_what_no_gateway_wrote_is_refused(harm: bytes | None) -> None:
    record = data(PHONE, 0, 10)
    value = encode_record(record, 3, bytes(32), 0)[0] + record.frame
    with pytest.raises(DamagedData, match="somebody else writes"):
        decode_record(value[:-1] if harm is None else harm, "here")
    for key, entry in ((b"x", b"\x01"), (b"m" + bytes(28), b"\x01"), (b"m" + bytes(28), b"\x02" + bytes(16))):
        with pytest.raises(DamagedData):
            take_entry({}, key, entry)
    with pytest.raises(DamagedData):
        Head.decode(b"\x02" + bytes(50))
    with pytest.raises(DamagedData):
        Head.decode(b"")


RECORD = "308a6e3046e75a459af22910326b2cc0be2e51cc82821ae9073174ed926943a2"
