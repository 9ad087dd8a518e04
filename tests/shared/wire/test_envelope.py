from __future__ import annotations

import hashlib

import pytest

from shared.errors import PeerError
from shared.identity import DeviceId
from shared.wire.envelope import ENVELOPE_BYTES, MAC_BYTES, envelope_session, is_envelope, open_envelope, seal
from shared.wire.frame import MAGIC, Frame, FrameType, encode, encode_parts

SESSION = b"\xe1" + bytes(15)
KEY = b"k" * 32
DEVICE = DeviceId(bytes(16))
FRAMES = [encode(Frame(FrameType.DATA, DEVICE, b"columns", count=3)), encode(Frame(FrameType.FRONTIER, DEVICE))]


def test_a_sealed_exchange_opens_with_its_key_only() -> None:
    body = seal(SESSION, 7, FRAMES, KEY)
    assert envelope_session(body) == (SESSION, 7)
    frames, digests = open_envelope(body, KEY)
    assert bytes(frames) == b"".join(FRAMES)
    assert digests == [hashlib.sha256(b"columns").digest(), b""]
    with pytest.raises(PeerError, match="envelope-seal"):
        open_envelope(body, b"x" * 32)


def test_every_altered_byte_breaks_the_seal() -> None:
    body = seal(SESSION, 7, FRAMES, KEY)
    for at in range(1, len(body)):
        for bit in range(8):
            altered = bytearray(body)
            altered[at] ^= 1 << bit
            with pytest.raises(PeerError, match="envelope-seal"):
                open_envelope(bytes(altered), KEY)


def test_a_body_that_lost_its_end_is_not_under_its_seal() -> None:
    body = seal(SESSION, 7, FRAMES, KEY)
    for length in range(ENVELOPE_BYTES, len(body)):
        with pytest.raises(PeerError, match="envelope-seal"):
            open_envelope(body[:length], KEY)


def test_payload_bytes_cannot_move_from_one_frame_to_the_next() -> None:
    """Headers are under the seal, so the same bytes cut elsewhere are another exchange."""
    two = [encode(Frame(FrameType.DATA, DEVICE, payload)) for payload in (b"ab", b"c")]
    other = [encode(Frame(FrameType.DATA, DEVICE, payload)) for payload in (b"a", b"bc")]
    mac = seal(SESSION, 7, two, KEY)[-MAC_BYTES:]
    with pytest.raises(PeerError, match="envelope-seal"):
        open_envelope(seal(SESSION, 7, other, KEY)[:-MAC_BYTES] + mac, KEY)


def test_a_frame_in_its_pieces_is_sealed_like_the_whole_one() -> None:
    frame = Frame(FrameType.DATA, DEVICE, b"columns", seq=3, count=2)
    assert seal(SESSION, 7, [encode_parts(frame)], KEY) == seal(SESSION, 7, [encode(frame)], KEY)


def test_a_frame_is_never_taken_for_an_envelope() -> None:
    assert not is_envelope(MAGIC + bytes(100))
    assert not is_envelope(seal(SESSION, 1, [], KEY)[:-1])
