from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PeerError, UsageError
from shared.identity import DeviceId, EdgeId, edge_id
from shared.wire.frame import Frame, FrameType, decode_one, encode, payload_digest
from shared.wire.messages import (
    JSON_BYTES_MAX,
    Data,
    Hint,
    Refusal,
    Result,
    bare_refusal,
    chain_digest,
    decode_json,
)
from tests.formats.test_wire_bytes import MESSAGES as FROZEN_MESSAGES

DEVICE = DeviceId(bytes(range(16)))
EDGE = edge_id("trips")
MESSAGES = tuple(FROZEN_MESSAGES.values())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was_said(message: object) -> None:
    frame, _ = decode_one(encode(message.frame()))  # type: ignore[attr-defined]
    assert type(message).of(frame) == message  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
@given(payload=st.binary(max_size=120), count=st.integers(0, 3))
def test_a_message_with_any_payload_is_read_or_refused(message: object, payload: bytes, count: int) -> None:
    kind = message.frame().type  # type: ignore[attr-defined]
    with contextlib.suppress(PeerError):
        type(message).of(Frame(kind, DEVICE, payload, count=count))  # type: ignore[attr-defined]


def test_a_batch_with_more_rows_than_elements_is_refused() -> None:
    with pytest.raises(PeerError, match="3 rows in a range of 2"):
        Data.of(Data(DEVICE, 1, EDGE, 0, 2, 3, 1, 0, 1, b"").frame())


@pytest.mark.parametrize(
    "payload",
    [b"[1]", b"{", b"[" * 60_000, b'{"a":' * 9000, b"1" * 5000, b"{}" + b" " * JSON_BYTES_MAX, b"\xff\xfe"],
    ids=["list", "cut", "deep list", "deep object", "huge number", "too long", "not text"],
)
def test_json_that_is_not_a_small_object_is_refused(payload: bytes) -> None:
    with pytest.raises(PeerError, match="message-json"):
        decode_json(payload)


def test_json_too_large_to_be_read_is_not_sent() -> None:
    with pytest.raises(UsageError, match="message-too-large"):
        Result(DEVICE, 1, {"text": "x" * JSON_BYTES_MAX}).frame()


@pytest.mark.parametrize(
    "body",
    [
        b'{"rates":{"gps":2}}',
        b'{"rates":[1]}',
        b'{"rates":{"gps":NaN}}',
        b'{"rates":{"a":true}}',
        b'{"moves":[["1","q","v","to",""]]}',
        b'{"moves":[["1","q","","to","",true]]}',
        b'{"moves":[["1","q","v","to","",1]]}',
        b'{"moves":{},"signature":""}',
        b'{"moves":[],"signature":"zz"}',
    ],
)
def test_a_hint_out_of_bounds_is_refused(body: bytes) -> None:
    with pytest.raises(PeerError, match=r"message-hint|message-json"):
        Hint.of(Frame(FrameType.HINT, DEVICE, body))


def test_a_bare_refusal_names_nobody_it_could_not_identify() -> None:
    refusal = Refusal.of(decode_one(bare_refusal("device-unknown", "not enrolled"))[0])
    assert (refusal.code, refusal.device) == ("device-unknown", bytes(16))


def run_of(frame: Frame) -> bytes:
    return chain_digest(bytes(32), frame, payload_digest(frame.payload))


def test_the_digest_of_a_run_changes_with_everything_but_the_term() -> None:
    frame = Data(DEVICE, 1, EDGE, 0, 2, 2, 7, 0, 1, b"columns").frame()
    same = Data(DEVICE, 1, EDGE, 0, 2, 2, 7, 0, 1, b"columns", term=9).frame()
    assert run_of(frame) == run_of(same)
    others = (
        Data(DEVICE, 1, EDGE, 0, 2, 2, 7, 0, 1, b"columnz").frame(),
        Data(DEVICE, 1, EDGE, 1, 3, 2, 7, 0, 1, b"columns").frame(),
        Data(DEVICE, 2, EDGE, 0, 2, 2, 7, 0, 1, b"columns").frame(),
        Data(DEVICE, 1, EdgeId(5), 0, 2, 2, 7, 0, 1, b"columns").frame(),
    )
    assert len({run_of(other) for other in (frame, *others)}) == 5
