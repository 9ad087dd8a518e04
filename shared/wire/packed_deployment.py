"""A deployment on its way to a node that follows another one: only what differs, compressed.

What is meant stays whole: the node puts the new deployment together from the one it follows and checks the signature
over all of it. `base` names what it needs for that by its digest, which the node itself has told; where
the coordinator has no such base, the deployment goes whole, compressed. Nodes that tell no digest are older, and get a
DEPLOYMENT as ever.

Deployments are canonical JSON, in which a change of one query leaves the text of all others as it was. So they are
compared piece by piece, from comma to comma: what is sent of a query with another way are the nodes of that way, and
not its plan. No search within pieces.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_left
from dataclasses import dataclass
from typing import TypeAlias

from shared.errors import PeerError
from shared.identity import DeviceId
from shared.wire.frame import PAYLOAD_BYTES_MAX, Frame, FrameType
from shared.wire.messages import SIGNATURE_BYTES, DeploymentMessage

PACKED = 1  # in the codec of a DEPLOYMENT frame; 0: as it is
DIGEST_BYTES = 8  # the signature proves what comes out; this only tells which base is meant
_STEP = struct.Struct("<III")  # copy from here in the base, so many bytes; then so many bytes that follow
_BETWEEN = b","
COPIED_MIN = 2 * _STEP.size  # what is shorter is sent: so steps never take much more than what they make


def base_digest(deployment: bytes) -> bytes:
    """How a node names what it follows; of nothing too."""
    return hashlib.sha256(deployment).digest()[:DIGEST_BYTES]


NO_BASE = base_digest(b"")


@dataclass(frozen=True, slots=True)
class PackedDeployment:
    device: DeviceId
    lease: int
    version: int
    signature: bytes  # over the whole deployment
    base: bytes
    packed: bytes

    @staticmethod
    def pack(message: DeploymentMessage, base: bytes = b"") -> PackedDeployment:
        packed = zlib.compress(_steps(base, message.deployment), 9)
        return PackedDeployment(
            message.device, message.lease, message.version, message.signature, base_digest(base), packed
        )

    def whole(self, base: bytes) -> DeploymentMessage:
        """PeerError where it was made for another base than this one."""
        if self.base == NO_BASE:
            base = b""
        if self.base != base_digest(base):
            raise PeerError(
                "a deployment was shortened for one that this node does not follow", code="message-deployment-base"
            )
        deployment = _followed(base, _unpacked(self.packed))
        return DeploymentMessage(self.device, self.lease, self.version, deployment, self.signature)

    def frame(self) -> Frame:
        payload = self.signature + self.base + self.packed
        return Frame(FrameType.DEPLOYMENT, self.device, payload, term=self.lease, seq=self.version, codec=PACKED)

    @staticmethod
    def of(frame: Frame) -> PackedDeployment:
        payload, start = bytes(frame.payload), SIGNATURE_BYTES + DIGEST_BYTES
        if frame.codec != PACKED or len(payload) <= start:
            raise _damaged()
        return PackedDeployment(
            frame.source, frame.term, frame.seq, payload[:SIGNATURE_BYTES], payload[SIGNATURE_BYTES:start],
            payload[start:],
        )  # fmt: skip


NextDeployment: TypeAlias = DeploymentMessage | PackedDeployment


def _pieces(text: bytes) -> list[bytes]:
    *most, last = text.split(_BETWEEN)
    return [*(piece + _BETWEEN for piece in most), last]


def _steps(base: bytes, text: bytes) -> bytes:
    places: dict[bytes, list[int]] = {}
    at = 0
    for piece in _pieces(base) if base else ():
        places.setdefault(piece, []).append(at)
        at += len(piece)
    copies: list[tuple[int, int, bytearray]] = [(0, 0, bytearray())]
    for piece in _pieces(text):
        start, length, new = copies[-1]
        if not new and base.startswith(piece, start + length):  # goes on where the last copy ended
            copies[-1] = start, length + len(piece), new
        elif piece in places:  # the next such place: what was changed stands between
            known = places[piece]
            copies.append((known[min(bisect_left(known, start + length), len(known) - 1)], len(piece), bytearray()))
        else:
            new += piece
    steps = [(0, 0, bytearray())]
    for start, length, new in copies:
        if length < COPIED_MIN:
            steps[-1][2].extend(base[start : start + length] + new)
        else:
            steps.append((start, length, new))
    return b"".join(_STEP.pack(start, length, len(new)) + new for start, length, new in steps if length or new)


def _followed(base: bytes, steps: bytes) -> bytes:
    """The deployment that these steps make of the base."""
    made, size, at = list[bytes](), 0, 0
    while at < len(steps):
        if at + _STEP.size > len(steps):
            raise _damaged()
        start, length, new = _STEP.unpack_from(steps, at)
        at += _STEP.size
        size += length + new
        if start + length > len(base) or at + new > len(steps) or size > PAYLOAD_BYTES_MAX:
            raise _damaged()
        made += (base[start : start + length], steps[at : at + new])
        at += new
    if not size:
        raise _damaged()
    return b"".join(made)


def _unpacked(packed: bytes) -> bytes:
    try:
        reading = zlib.decompressobj()
        steps = reading.decompress(packed, 2 * PAYLOAD_BYTES_MAX)
    except zlib.error:
        raise _damaged() from None
    if not reading.eof or reading.unused_data:
        raise _damaged()
    return steps


def _damaged() -> PeerError:
    return PeerError("a packed DEPLOYMENT frame cannot be read", code="message-deployment")
