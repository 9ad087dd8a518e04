"""Waiting for news: what a device says to hear at once when something comes for it, and what it is told.

    session id 16 B | results through u64 | HMAC-SHA256 32 B      ->      one byte: 1 there is something, 0 there is not

Nothing travels in it. Whoever hears "there is something" makes an ordinary exchange, which brings it, sealed and
numbered as ever: so an answer that somebody on the way invents costs one exchange, and an old request said again tells
its sender nothing but that something came. The MAC is under the session's key with a prefix that no envelope has.
"""

from __future__ import annotations

import hmac
import struct

from shared.errors import PeerError
from shared.wire.envelope import MAC_BYTES, SESSION_ID_BYTES

_REQUEST = struct.Struct("<16sQ")
REQUEST_BYTES = _REQUEST.size + MAC_BYTES
_PREFIX = b"resurge-wait\x01"
NEWS, NO_NEWS = b"\x01", b"\x00"


def request(session: bytes, through: int, key: bytes) -> bytes:
    """The device has every result up to `through`; tell it when there is a later one."""
    said = _REQUEST.pack(session, through)
    return said + hmac.digest(key, _PREFIX + said, "sha256")


def claimed_session(body: bytes) -> bytes:
    """Of whom a request claims to be; PeerError when it is none."""
    if len(body) != REQUEST_BYTES:
        raise PeerError(f"to wait takes {REQUEST_BYTES} bytes", code="wait-malformed")
    return body[:SESSION_ID_BYTES]


def opened(body: bytes, key: bytes) -> int:
    """Through which result its device has all; PeerError unless it is the session's own."""
    said, mac = body[: _REQUEST.size], body[_REQUEST.size :]
    if not hmac.compare_digest(mac, hmac.digest(key, _PREFIX + said, "sha256")):
        raise PeerError("the seal of this request to wait is wrong", code="envelope-seal")
    _, through = _REQUEST.unpack(said)
    return int(through)


def is_news(answer: bytes) -> bool:
    """PeerError for what no gateway answers."""
    if answer not in (NEWS, NO_NEWS):
        raise PeerError("this is no answer to who waits", code="wait-malformed")
    return answer == NEWS
