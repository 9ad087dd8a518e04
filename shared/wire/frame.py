"""One frame format over HTTP, ZeroMQ, UDP, and in the log.

A frame is a fixed header and a payload. The checksum covers both, so a frame read from anywhere is whole
or refused. Lengths are bounded before anything is allocated. `docs/formats.md` has the byte table.

Whoever checks or authenticates a frame (its own checksum, the seal of an exchange, the signature over a run of
batches, the log's chain) covers its header and the *digest* of its payload. So each side goes over a payload once,
whoever asks for it. In frames of version 1 the checksum is over the payload itself; they are still read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.identity import DEVICE_ID_BYTES, DeviceId, EdgeId

MAGIC = b"RS"
VERSION = 2
_CHECKSUM_OVER_PAYLOAD = 1  # the version before: its checksum needs a pass of its own
HEADER = struct.Struct("<2sBBBBHII16sQQIIq")  # everything but the checksum
CHECKSUM = struct.Struct("<I")
HEADER_BYTES = HEADER.size + CHECKSUM.size
_CHECKED = HEADER.size
LENGTH = struct.Struct("<I")
LENGTH_START = 52  # of the payload's length in the header
_SOURCE_START = 16
PAYLOAD_BYTES_MAX = 4 * 1024 * 1024
COUNT_MAX = 1 << 24
SEQ_MAX = 1 << 62
NO_EDGE = EdgeId(0)


class FrameType(IntEnum):
    HELLO = 1  # device -> gateway: who I am, signed
    WELCOME = 2  # gateway -> device: the session
    DECLARE = 3  # an edge's name, schema
    DATA = 4  # a batch
    TOMBSTONE = 5  # a range given up, with its reason
    FRONTIER = 6  # nothing earlier follows, when there is no batch to say it
    STATUS = 7  # the device's state: battery, lane, spool
    RECEIPT = 8  # gateway -> device: durable up to here
    RESULT = 9  # gateway -> device
    RESULT_RECEIPT = 10  # device -> gateway: results durable up to here
    PLAN = 11  # gateway -> device
    HINT = 12  # gateway -> device: sampling rates
    REFUSAL = 14  # a stable error code; 13 was a preview that no released phone sent
    CHAIN = 15  # device -> gateway: a signature over a run of batches
    WITHHELD = 16  # gateway -> device: there is a newer plan, and what it needs is not on the device
    MARK = 17  # between nodes, in its place among the batches: take a snapshot here
    EXTEND = 18  # in the answer to a MARK: no snapshot of mine will follow yours, keep more of this edge
    DEPLOYMENT = 19  # coordinator -> node: what to run, or empty: show me what you follow; node -> coordinator: this
    ANNOUNCE = 20  # between nodes: a snapshot is broadcast; and the question how much of it is there
    BITMAP = 21  # in the answer to an ANNOUNCE: these blocks are here
    BLOCK = 22  # between nodes: blocks that the other one lacks
    PASS = 23  # an exchange between two nodes that their gateway passes on


@dataclass(frozen=True, slots=True)
class Frame:
    type: FrameType
    source: DeviceId
    payload: bytes = b""
    incarnation: int = 0
    term: int = 0
    edge: EdgeId = NO_EDGE
    seq: int = 0  # lo of the covered range
    count: int = 0  # hi - lo
    codec: int = 0
    flags: int = 0
    frontier_us: int = NO_FRONTIER


class FrameHeader(NamedTuple):
    """A frame's header by name, in the order of its bytes.

    A named tuple and not a dataclass: the gateway reads one for every frame, and a frozen dataclass costs four times
    as much to make.
    """

    magic: bytes
    version: int
    kind: int  # a FrameType; a member of an IntEnum compares an order of magnitude slower than an int
    codec: int
    flags: int
    reserved: int
    term: int
    incarnation: int
    source: DeviceId
    edge: EdgeId
    seq: int  # lo of the covered range
    elements: int  # hi - lo
    payload_bytes: int
    frontier_us: int

    @property
    def hi(self) -> int:
        return self.seq + self.elements


class Parts(NamedTuple):
    """An encoded frame in its two pieces, not yet joined, and what stands for the second where frames are hashed."""

    header: bytes  # with the checksum
    payload: bytes | memoryview
    digest: bytes


def payload_digest(payload: bytes | memoryview) -> bytes:
    """SHA-256 of a payload; of none, nothing: the header says that there is none."""
    return hashlib.sha256(payload).digest() if payload else b""


def encode(frame: Frame) -> bytes:
    header, payload, _ = encode_parts(frame)
    return header + payload


def encode_parts(frame: Frame) -> Parts:
    """The same without copying the payload, for a frame that goes into an exchange."""
    if len(frame.payload) > PAYLOAD_BYTES_MAX:
        raise PeerError(
            f"payload of {len(frame.payload)} bytes; at most {PAYLOAD_BYTES_MAX} fit a frame, make smaller batches",
            code="frame-too-large",
        )
    header = HEADER.pack(
        MAGIC, VERSION, frame.type, frame.codec, frame.flags, 0, frame.term, frame.incarnation, frame.source,
        frame.edge, frame.seq, frame.count, len(frame.payload), frame.frontier_us,
    )  # fmt: skip
    digest = payload_digest(frame.payload)
    return Parts(header + CHECKSUM.pack(crc32(digest, crc32(header))), frame.payload, digest)


def claimed_source(data: bytes | memoryview) -> bytes:
    """Who a frame says it is from, before anything of it is checked: good for rate limits, nothing else."""
    return bytes(data[_SOURCE_START : _SOURCE_START + DEVICE_ID_BYTES])


def stored_header(data: bytes | bytearray | memoryview, offset: int = 0) -> FrameHeader:
    """The header of a frame that the log has checked already; nothing is checked again."""
    return FrameHeader._make(HEADER.unpack_from(data, offset))


def read_header(view: memoryview, offset: int, digest: bytes | None = None) -> FrameHeader:
    """The header of the frame at offset. Raises PeerError unless the whole frame is there, within bounds, undamaged.

    `digest` is its payload's, for whoever has computed it. Nothing is copied: this is what the gateway runs for every
    frame, the payload starts HEADER_BYTES further on.
    """
    start = offset + HEADER_BYTES
    left = len(view) - start
    if left < 0:
        raise PeerError(f"{left + HEADER_BYTES} bytes left, a frame header has {HEADER_BYTES}", code="frame-truncated")
    header = FrameHeader._make(HEADER.unpack_from(view, offset))
    magic, version, _, _, _, reserved, _, _, _, _, seq, elements, length, _ = header
    if magic != MAGIC:
        raise PeerError("no frame starts here", code="frame-magic")
    if version not in (VERSION, _CHECKSUM_OVER_PAYLOAD):
        raise PeerError(f"frame version {version}; this side reads {VERSION}, upgrade it", code="frame-version")
    if length > PAYLOAD_BYTES_MAX or elements > COUNT_MAX or seq > SEQ_MAX or reserved:
        raise PeerError("a length or number in the frame header is out of bounds", code="frame-bounds")
    if left < length:
        raise PeerError(f"payload ends {length - left} bytes early", code="frame-truncated")
    covered: bytes | memoryview
    if version == _CHECKSUM_OVER_PAYLOAD:
        covered = view[start : start + length]
    else:
        covered = payload_digest(view[start : start + length]) if digest is None else digest
    checksum = crc32(covered, crc32(view[offset : offset + _CHECKED]))
    if checksum != CHECKSUM.unpack_from(view, offset + _CHECKED)[0]:
        raise PeerError("checksum does not match", code="frame-checksum")
    return header


def decode_one(data: bytes | memoryview, offset: int = 0, digest: bytes | None = None) -> tuple[Frame, int]:
    """The frame that starts at offset, and where the next one starts. Raises PeerError on anything not whole.
    `digest` is its payload's, for whoever has computed it."""
    view = memoryview(data)
    header = read_header(view, offset, digest)
    start = offset + HEADER_BYTES
    end = start + header.payload_bytes
    return frame_of(header, bytes(view[start:end])), end


def frame_of(header: FrameHeader, payload: bytes) -> Frame:
    try:
        frame_type = FrameType(header.kind)
    except ValueError:
        raise PeerError(f"unknown frame type {header.kind}", code="frame-type") from None
    return Frame(
        type=frame_type, source=header.source, payload=payload, incarnation=header.incarnation, term=header.term,
        edge=header.edge, seq=header.seq, count=header.elements, codec=header.codec, flags=header.flags,
        frontier_us=header.frontier_us,
    )  # fmt: skip


def decode_all(data: bytes | memoryview) -> Iterator[Frame]:
    """Every frame of a body, in order; the body must hold frames and nothing else."""
    offset = 0
    while offset < len(data):
        frame, offset = decode_one(data, offset)
        yield frame
