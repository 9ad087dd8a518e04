"""The envelope: what makes a body of frames one exchange of one session.

An exchange is one request and one reply, the same bytes over HTTP and ZeroMQ:

    session id 16 B | counter u64 | frames ... | HMAC-SHA256 32 B

The seal covers the session id, the counter, and of each frame its header and the SHA-256 of its payload. It is over
digests and not over the bytes because the log's chain and the signed runs need the same digests: a payload is hashed
once. Where a frame ends is read before the seal is known to be good, and nothing else is; a length that leads beyond
the body cannot be under a good seal.

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
from shared.wire.frame import HEADER_BYTES, LENGTH, LENGTH_START, Parts, payload_digest

SESSION_ID_BYTES = 16
SESSION_ID_FIRST_BYTE = 0xE1  # not the first byte of frame.MAGIC
MAC_BYTES = 32
EXCHANGE_BYTES_MAX = 6 * 1024 * 1024  # one largest frame and its company; bodies are capped here before parsing

ENVELOPE = struct.Struct("<16sQ")
ENVELOPE_BYTES = ENVELOPE.size + MAC_BYTES


def seal(session: bytes, counter: int, frames: Iterable[bytes | Parts], key: bytes) -> bytes:
    """An exchange body: these frames under this session, counter and key."""
    body: list[bytes | memoryview] = [ENVELOPE.pack(session, counter)]
    inner, outer = _keyed(key)
    inner = inner.copy()
    inner.update(body[0])
    for frame in frames:
        if isinstance(frame, Parts):
            body += (frame.header, frame.payload)
            inner.update(frame.header)
            inner.update(frame.digest)
            continue
        body.append(frame)
        if len(frame) <= HEADER_BYTES:  # no payload, as a receipt
            inner.update(frame)
            continue
        inner.update(frame[:HEADER_BYTES])
        inner.update(payload_digest(memoryview(frame)[HEADER_BYTES:]))
    body.append(_finish(inner, outer))
    return b"".join(body)


# HMAC-SHA256 (RFC 2104) in its two halves, fed as the frames are walked. `hmac.digest` would set the key up anew each
# time, half the cost of a small exchange.


@lru_cache(maxsize=8192)
def _keyed(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """The two halves of an HMAC after its padded key, to be copied; keys are 32 bytes, shorter than a block."""
    padded = key.ljust(64, b"\0")
    return hashlib.sha256(bytes(b ^ 0x36 for b in padded)), hashlib.sha256(bytes(b ^ 0x5C for b in padded))


def _finish(inner: hashlib._Hash, outer: hashlib._Hash) -> bytes:
    outer = outer.copy()
    outer.update(inner.digest())
    return outer.digest()


def is_envelope(body: bytes | memoryview) -> bool:
    """Whether this looks sealed; a body that does not must be a bare frame."""
    return len(body) >= ENVELOPE_BYTES and body[0] == SESSION_ID_FIRST_BYTE


def envelope_session(body: bytes | memoryview) -> tuple[bytes, int]:
    """(session id, counter) as claimed: believe neither before `open_envelope` has checked the seal."""
    if not is_envelope(body):
        raise PeerError("the body is neither a frame nor a sealed exchange", code="envelope-malformed")
    session, counter = ENVELOPE.unpack_from(body)
    return session, counter


def open_envelope(body: bytes | memoryview, key: bytes) -> tuple[memoryview, list[bytes]]:
    """The frames inside and the digest of each one's payload, once the seal is known to be the other side's."""
    view = memoryview(body)
    if not ENVELOPE_BYTES <= len(view) <= EXCHANGE_BYTES_MAX:
        raise PeerError("the body is not a sealed exchange of allowed size", code="envelope-malformed")
    inner, outer = _keyed(key)
    inner = inner.copy()
    end = len(view) - MAC_BYTES
    covered = 0  # the envelope's start goes with the first frame's header
    at = ENVELOPE.size
    digests: list[bytes] = []
    while at < end:
        payload = at + HEADER_BYTES
        following = payload + LENGTH.unpack_from(view, at + LENGTH_START)[0] if payload <= end else end + 1
        if following > end:
            break
        digest = payload_digest(view[payload:following])
        inner.update(view[covered:payload])
        inner.update(digest)
        digests.append(digest)
        at = covered = following
    if not digests:
        inner.update(view[:at])
    if at != end or not hmac.compare_digest(_finish(inner, outer), view[end:]):
        raise PeerError("the seal of the exchange does not match; it was forged or altered", code="envelope-seal")
    return view[ENVELOPE.size : end], digests
