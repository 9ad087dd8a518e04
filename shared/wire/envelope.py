"""The envelope: what makes a body of frames one exchange of one session.

An exchange is one request and one reply, the same bytes over HTTP and ZeroMQ:

    session id 16 B | counter u64 | frames ... | HMAC-SHA256 32 B over everything before it

The device numbers its requests; a reply repeats the number it answers. Each direction has its own key, so
neither side's words can be reflected back at it and a relay can neither forge nor alter. It can read: an envelope
authenticates, it does not encrypt; that is left to TLS, which ends at a relay. Two bodies travel
outside an envelope because there is no key yet or any more: HELLO with its WELCOME, and a bare REFUSAL. A
session id never starts with the first byte of a frame, so one look tells an envelope from a frame.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable
from functools import lru_cache

from shared.errors import PeerError

SESSION_ID_BYTES = 16
SESSION_ID_FIRST_BYTE = 0xE1  # not the first byte of frame.MAGIC
MAC_BYTES = 32
EXCHANGE_BYTES_MAX = 6 * 1024 * 1024  # one largest frame and its company; bodies are capped here before parsing

ENVELOPE = struct.Struct("<16sQ")
ENVELOPE_BYTES = ENVELOPE.size + MAC_BYTES


def seal(session: bytes, counter: int, body: Iterable[bytes | memoryview], key: bytes) -> bytes:
    """An exchange body: the frames of `body` under this session, counter and key."""
    sealed = b"".join((ENVELOPE.pack(session, counter), *body))
    return sealed + _mac(key, sealed)


def _mac(key: bytes, data: bytes | memoryview) -> bytes:
    """HMAC-SHA256 (RFC 2104). `hmac.digest` sets the key up anew each time, half the cost of a small exchange."""
    inner, outer = _keyed(key)
    inner = inner.copy()
    inner.update(data)
    outer = outer.copy()
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=8192)
def _keyed(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """The two halves of an HMAC after its padded key; keys are 32 bytes, shorter than a block."""
    padded = key.ljust(64, b"\0")
    return hashlib.sha256(bytes(b ^ 0x36 for b in padded)), hashlib.sha256(bytes(b ^ 0x5C for b in padded))


def is_envelope(body: bytes | memoryview) -> bool:
    """Whether this looks sealed; a body that does not must be a bare frame."""
    return len(body) >= ENVELOPE_BYTES and body[0] == SESSION_ID_FIRST_BYTE


def envelope_session(body: bytes | memoryview) -> tuple[bytes, int]:
    """(session id, counter) as claimed: believe neither before `open_envelope` has checked the seal."""
    if not is_envelope(body):
        raise PeerError("the body is neither a frame nor a sealed exchange", code="envelope-malformed")
    session, counter = ENVELOPE.unpack_from(body)
    return session, counter


def open_envelope(body: bytes | memoryview, key: bytes) -> memoryview:
    """The frames inside, once the seal is known to be the other side's."""
    view = memoryview(body)
    if len(view) > EXCHANGE_BYTES_MAX or not is_envelope(view):
        raise PeerError("the body is not a sealed exchange of allowed size", code="envelope-malformed")
    if not hmac.compare_digest(_mac(key, view[:-MAC_BYTES]), view[-MAC_BYTES:]):
        raise PeerError("the seal of the exchange does not match; it was forged or altered", code="envelope-seal")
    return view[ENVELOPE.size : -MAC_BYTES]
