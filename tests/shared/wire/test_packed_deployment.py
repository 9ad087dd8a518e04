"""A deployment that says only what differs: put together it is the same bytes, and for another base it is refused."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from shared.errors import PeerError
from shared.identity import DeviceId
from shared.wire.frame import PAYLOAD_BYTES_MAX, decode_one, encode
from shared.wire.messages import DeploymentMessage
from shared.wire.packed_deployment import _STEP, PackedDeployment, base_digest

DEVICE = DeviceId(bytes(range(16)))
BASE = b'{"queries":[' + b",".join(b'{"name":"q%d","plan":"%s"}' % (n, bytes([97 + n]) * 90) for n in range(8)) + b"]}"
NEXT = BASE.replace(b'"q3"', b'"q3","term":2')
MESSAGE = DeploymentMessage(DEVICE, 3, 7, NEXT, bytes(range(64)))


@pytest.mark.parametrize("base", [b"", BASE, NEXT, b"something else"], ids=["none", "base", "same", "other"])
def test_what_is_put_together_is_what_was_meant(base: bytes) -> None:
    packed = PackedDeployment.of(decode_one(encode(PackedDeployment.pack(MESSAGE, base).frame()))[0])
    assert packed.whole(base) == MESSAGE


def test_only_the_changed_query_is_sent_and_the_rest_comes_from_the_base() -> None:
    packed = PackedDeployment.pack(MESSAGE, BASE)
    steps = zlib.decompress(packed.packed)
    assert b'"term":2' in steps
    assert not any(b'"q%d"' % query in steps for query in range(8))
    assert len(packed.frame().payload) * 6 < len(NEXT)


def test_steps_take_little_more_than_what_they_make_where_all_is_in_another_order() -> None:
    words = [b"%d" % number for number in range(5000)]
    base, text = b",".join(words), b",".join(reversed(words))
    packed = PackedDeployment.pack(replace(MESSAGE, deployment=text), base)
    assert len(zlib.decompress(packed.packed)) <= 1.5 * len(text)
    assert packed.whole(base).deployment == text


@pytest.mark.parametrize("other", [NEXT, BASE.replace(b"q5", b"q9"), b""], ids=["longer", "as long", "none"])
def test_another_base_is_refused_in_one_line(other: bytes) -> None:
    """One that is as long would make a deployment that can be read, and is another."""
    with pytest.raises(PeerError) as refused:
        PackedDeployment.pack(MESSAGE, BASE).whole(other)
    assert refused.value.code == "message-deployment-base"


def test_the_bytes_never_change() -> None:
    frame = PackedDeployment.pack(MESSAGE, BASE).frame()
    assert (frame.codec, frame.term, frame.seq) == (1, 3, 7)
    assert frame.payload[:72] == MESSAGE.signature + base_digest(BASE)
    assert base_digest(b"").hex() == "e3b0c44298fc1c14"
    at = BASE.index(b'"q3",') + len(b'"q3",')  # a piece ends behind a comma
    wanted = _STEP.pack(0, at, 9) + b'"term":2,' + _STEP.pack(at, len(BASE) - at, 0)
    assert zlib.decompress(frame.payload[72:]) == wanted
    with pytest.raises(PeerError, match="DEPLOYMENT"):  # who reads it as an unpacked one
        DeploymentMessage.of(frame)


@pytest.mark.parametrize(
    "steps",
    [b"", b"short", _STEP.pack(len(BASE), 1, 0), _STEP.pack(0, 1, 5) + b"1234", _STEP.pack(0, len(BASE), 0) * 9000],
    ids=["empty", "cut", "beyond the base", "beyond the end", "too much"],
)
def test_steps_that_make_no_sense_are_refused(steps: bytes) -> None:
    assert len(BASE) * 9000 > PAYLOAD_BYTES_MAX
    good = PackedDeployment.pack(MESSAGE, BASE)
    for packed in (zlib.compress(steps), steps or b"x", zlib.compress(bytes(3 * PAYLOAD_BYTES_MAX))):
        with pytest.raises(PeerError) as refused:
            replace(good, packed=packed).whole(BASE)
        assert refused.value.code == "message-deployment"
