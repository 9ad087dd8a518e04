"""Requests to wait: who may, with what, and what is no such request."""

from __future__ import annotations

import pytest

from shared.errors import PeerError
from shared.wire.waiting import NEWS, NO_NEWS, REQUEST_BYTES, claimed_session, is_news, opened, request

SESSION = b"\xe1" + bytes(range(15))
KEY = bytes(range(32))


def test_a_request_says_whose_it_is_and_through_where_its_device_has_all():
    body = request(SESSION, 1_000_000_007, KEY)
    assert len(body) == REQUEST_BYTES
    assert claimed_session(body) == SESSION
    assert opened(body, KEY) == 1_000_000_007


def test_the_bytes_are_those_of_the_first_release():
    assert request(SESSION, 7, KEY).hex() == (
        "e1000102030405060708090a0b0c0d0e0700000000000000"
        "4800c2aa9e25c6961165d04b0f8b5fc9cf3d86ffcc20494e5c3cf7c65e9fc1f0"
    )
    assert (NEWS, NO_NEWS) == (b"\x01", b"\x00")


@pytest.mark.parametrize("place", [0, 16, REQUEST_BYTES - 1])
def test_a_changed_byte_breaks_the_seal(place: int):
    body = bytearray(request(SESSION, 3, KEY))
    body[place] ^= 1
    with pytest.raises(PeerError) as refused:
        opened(bytes(body), KEY)
    assert refused.value.code == "envelope-seal"


@pytest.mark.parametrize("length", [0, 16, REQUEST_BYTES - 1, REQUEST_BYTES + 1])
def test_other_lengths_are_refused(length: int):
    with pytest.raises(PeerError) as refused:
        claimed_session(bytes(length))
    assert refused.value.code == "wait-malformed"


def test_an_answer_is_one_of_two_bytes():
    assert is_news(NEWS)
    assert not is_news(NO_NEWS)
    with pytest.raises(PeerError):
        is_news(b"<html>")
