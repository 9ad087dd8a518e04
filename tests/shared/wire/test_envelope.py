from __future__ import annotations

import pytest

from shared.errors import PeerError
from shared.wire.envelope import envelope_session, is_envelope, open_envelope, seal
from shared.wire.frame import MAGIC

SESSION = b"\xe1" + bytes(15)
KEY = b"k" * 32


def test_a_sealed_exchange_opens_with_its_key_only() -> None:
    body = seal(SESSION, 7, [b"one", b"two"], KEY)
    assert envelope_session(body) == (SESSION, 7)
    assert bytes(open_envelope(body, KEY)) == b"onetwo"
    with pytest.raises(PeerError, match="envelope-seal"):
        open_envelope(body, b"x" * 32)


def test_every_altered_byte_breaks_the_seal() -> None:
    body = seal(SESSION, 7, [b"frames"], KEY)
    for at in range(1, len(body)):
        altered = bytearray(body)
        altered[at] ^= 1
        with pytest.raises(PeerError, match="envelope-seal"):
            open_envelope(bytes(altered), KEY)


def test_a_frame_is_never_taken_for_an_envelope() -> None:
    assert not is_envelope(MAGIC + bytes(100))
    assert not is_envelope(seal(SESSION, 1, [], KEY)[:-1])
