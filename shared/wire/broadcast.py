"""What passes between nodes when a snapshot is broadcast: its announcement, its blocks, and who has which of them.

An announcement, a bitmap and blocks that are sent once more travel in exchanges. Blocks that everybody may hear are
datagrams of their own, with a header of 16 bytes: a frame's would be as much as a tenth of a loss in a hundred costs.

    "RB" | version u8 | 0 | id of the announcement 8 B | number of the block u32 | at most 1 KB
    "RB" | version u8 | 1 | an announcement, as an ANNOUNCE carries it

The second kind comes before blocks that nobody was asked about: rows that enter a region do not wait for that. A node
that does not know the kind takes it for a block that nobody announced, and is told in an exchange.

A datagram has no checksum and no sender that could be believed. Its bytes count once their hash is that of the list
which the announcement, signed by its sender, names.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import NamedTuple

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.wire.frame import COUNT_MAX, SEQ_MAX, Frame, FrameType

BLOCK_BYTES = 1024
ID_BYTES = 8
ANNOUNCED_BYTES_MAX = 256 << 20
PIECES_MAX = 1 << 16
_ANNOUNCEMENT = struct.Struct("<16s16sIQIQIQ32s64s")
_DATAGRAM = struct.Struct("<2sBB8sI")
DATAGRAM_BYTES = _DATAGRAM.size  # of its header
_MAGIC, _VERSION = b"RB", 1
_ANNOUNCED = _MAGIC + bytes((_VERSION, 1))
_ENTRY = struct.Struct("<IH")  # number of a block, its bytes
FEED = 1  # in an ANNOUNCE's flags


@dataclass(frozen=True, slots=True)
class Announcement:
    """What will be broadcast: the elements [n, n + pieces) of an edge as one run of bytes.

    Of a snapshot `key` names region, vertex and term: its origin is the query that the region runs, its edge is that
    term's state edge. Of rows that enter a region it is the edge on which they do. `root` is the digest of the hash
    list. The sender signs it, so that others may pass it on.
    """

    key: EdgeKey
    sender: DeviceId  # the node that runs the vertex
    term: int
    n: int
    pieces: int
    length: int
    root: bytes
    signature: bytes = bytes(64)

    def signed(self) -> bytes:
        return b"resurge-broadcast-1" + self._packed(b"")

    def _packed(self, signature: bytes) -> bytes:
        key = self.key
        return _ANNOUNCEMENT.pack(
            key.device, self.sender, key.incarnation, key.edge, self.term, self.n, self.pieces, self.length,
            self.root, signature,
        )  # fmt: skip

    @property
    def id(self) -> bytes:
        """Names it in blocks and bitmaps."""
        return hashlib.blake2b(self.signed(), digest_size=ID_BYTES).digest()

    def packed(self) -> bytes:
        return self._packed(self.signature)

    def datagram(self) -> bytes:
        return _ANNOUNCED + self.packed()

    @staticmethod
    def of_datagram(datagram: bytes | memoryview) -> Announcement | None:
        """The announcement that a datagram is; None where it is none."""
        if bytes(datagram[: len(_ANNOUNCED)]) != _ANNOUNCED:
            return None
        return Announcement.unpacked(datagram[len(_ANNOUNCED) :])

    @staticmethod
    def unpacked(payload: bytes | memoryview) -> Announcement:
        if len(payload) != _ANNOUNCEMENT.size:
            raise PeerError(f"an ANNOUNCE carries {_ANNOUNCEMENT.size} bytes", code="message-broadcast")
        origin, sender, incarnation, edge, term, n, pieces, length, root, signature = _ANNOUNCEMENT.unpack(payload)
        if not 0 < length <= ANNOUNCED_BYTES_MAX or not 0 < pieces <= PIECES_MAX or n > SEQ_MAX:
            raise PeerError(f"at most {ANNOUNCED_BYTES_MAX} bytes are broadcast at once", code="message-broadcast")
        key = EdgeKey(DeviceId(origin), incarnation, EdgeId(edge))
        return Announcement(key, DeviceId(sender), term, n, pieces, length, root, signature)


@dataclass(frozen=True, slots=True)
class Announce:
    """An announcement as a node says it, who need not be its sender; and the question what the other one has of it.
    `feed`: once it has all of it, it shall feed those below it in the tree."""

    device: DeviceId
    announcement: Announcement
    feed: bool = False

    def frame(self) -> Frame:
        return Frame(FrameType.ANNOUNCE, self.device, self.announcement.packed(), flags=FEED if self.feed else 0)

    @staticmethod
    def of(frame: Frame) -> Announce:
        return Announce(frame.source, Announcement.unpacked(frame.payload), bool(frame.flags & FEED))


@dataclass(frozen=True, slots=True)
class Bitmap:
    """The answer to an ANNOUNCE: which of its blocks are here. Block i is bit i of `bits`."""

    device: DeviceId
    id: bytes
    bits: int
    blocks: int

    def frame(self) -> Frame:
        payload = self.id + self.bits.to_bytes(-(-self.blocks // 8), "little")
        return Frame(FrameType.BITMAP, self.device, payload, count=self.blocks)

    @staticmethod
    def of(frame: Frame) -> Bitmap:
        bits = int.from_bytes(frame.payload[ID_BYTES:], "little")
        if len(frame.payload) != ID_BYTES + -(-frame.count // 8) or bits.bit_length() > frame.count:
            raise PeerError("a BITMAP has one bit for each of its blocks", code="message-broadcast")
        return Bitmap(frame.source, frame.payload[:ID_BYTES], bits, frame.count)


class Block(NamedTuple):
    """One block of an announced snapshot, believed only by its hash."""

    id: bytes
    number: int
    data: bytes

    def datagram(self) -> bytes:
        return _DATAGRAM.pack(_MAGIC, _VERSION, 0, self.id, self.number) + self.data

    @staticmethod
    def of(datagram: bytes | memoryview) -> Block:
        if not DATAGRAM_BYTES < len(datagram) <= DATAGRAM_BYTES + BLOCK_BYTES:
            raise PeerError("a datagram carries one block of at most 1 KB", code="message-broadcast")
        magic, version, _, id, index = _DATAGRAM.unpack_from(datagram)
        if (magic, version) != (_MAGIC, _VERSION) or index > COUNT_MAX:
            raise PeerError("no block starts here", code="message-broadcast")
        return Block(id, index, bytes(datagram[DATAGRAM_BYTES:]))


@dataclass(frozen=True, slots=True)
class LackedBlocks:
    """Blocks of one announced snapshot that a node lacks, for an exchange with it."""

    device: DeviceId
    id: bytes
    blocks: tuple[Block, ...]

    def frame(self) -> Frame:
        entries = (_ENTRY.pack(block.number, len(block.data)) + block.data for block in self.blocks)
        return Frame(FrameType.BLOCK, self.device, self.id + b"".join(entries))

    @staticmethod
    def of(frame: Frame) -> LackedBlocks:
        payload = memoryview(frame.payload)
        if len(payload) < ID_BYTES:
            raise PeerError("a BLOCK frame names its announcement", code="message-broadcast")
        id, at = bytes(payload[:ID_BYTES]), ID_BYTES
        found: list[Block] = []
        while at < len(payload):
            if len(payload) - at < _ENTRY.size:
                raise PeerError("a BLOCK frame ends within a block", code="message-broadcast")
            number, size = _ENTRY.unpack_from(payload, at)
            at += _ENTRY.size
            if not 0 < size <= min(BLOCK_BYTES, len(payload) - at) or number > COUNT_MAX:
                raise PeerError("a BLOCK frame carries blocks of at most 1 KB, each whole", code="message-broadcast")
            found.append(Block(id, number, bytes(payload[at : at + size])))
            at += size
        return LackedBlocks(frame.source, id, tuple(found))
