from __future__ import annotations

import contextlib
from collections.abc import Callable
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId
from shared.wire.frame import (
    CHECKSUM,
    HEADER,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    Frame,
    FrameType,
    decode_all,
    decode_one,
    encode,
)

DEVICE = DeviceId(bytes(range(16)))

frames = st.builds(
    Frame,
    type=st.sampled_from(FrameType),
    source=st.binary(min_size=16, max_size=16).map(DeviceId),
    payload=st.binary(max_size=200),
    incarnation=st.integers(0, 2**32 - 1),
    term=st.integers(0, 2**32 - 1),
    edge=st.integers(0, 2**64 - 1).map(EdgeId),
    seq=st.integers(0, 2**62),
    count=st.integers(0, 2**24),
    codec=st.integers(0, 255),
    flags=st.integers(0, 255),
    frontier_us=st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(frames, max_size=5))
def test_frames_come_back_as_they_were_sent(sent: list[Frame]) -> None:
    assert list(decode_all(b"".join(encode(frame) for frame in sent))) == sent


def of_version_1(frame: Frame) -> bytes:
    """As builds before version 2 wrote it: the checksum is over the payload, not over its digest."""
    header = bytearray(encode(frame)[: HEADER.size])
    header[2] = 1
    return bytes(header) + CHECKSUM.pack(crc32(frame.payload, crc32(header))) + frame.payload


@given(frames)
def test_frames_of_version_1_are_still_read(frame: Frame) -> None:
    assert decode_one(of_version_1(frame)) == (frame, HEADER_BYTES + len(frame.payload))


@pytest.mark.parametrize("written", [encode, of_version_1])
def test_every_single_bit_flip_of_a_frame_is_refused(written: Callable[[Frame], bytes]) -> None:
    whole = written(Frame(FrameType.DATA, DEVICE, b"payload of a batch", incarnation=3, seq=7, count=2))
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(PeerError):
            list(decode_all(bytes(damaged)))


def test_a_frame_cut_short_anywhere_is_refused() -> None:
    whole = encode(Frame(FrameType.DATA, DEVICE, b"abc", count=1))
    for length in range(1, len(whole)):
        with pytest.raises(PeerError, match="frame-truncated"):
            list(decode_all(whole[:length]))


def test_a_length_out_of_bounds_is_refused_before_anything_is_allocated() -> None:
    whole = bytearray(encode(Frame(FrameType.DATA, DEVICE, count=1)))
    whole[HEADER_BYTES - 16 : HEADER_BYTES - 12] = (PAYLOAD_BYTES_MAX + 1).to_bytes(4, "little")
    with pytest.raises(PeerError, match="frame-bounds"):
        decode_one(bytes(whole))


def test_a_payload_larger_than_a_frame_is_refused_when_it_is_made() -> None:
    with pytest.raises(PeerError, match="frame-too-large"):
        encode(Frame(FrameType.DATA, DEVICE, bytes(PAYLOAD_BYTES_MAX + 1)))


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_raise_peer_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        list(decode_all(data))
