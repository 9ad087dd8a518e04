"""An exchange of two nodes that their gateway passes on, in one of the gateway's own: a PASS frame.

    up      source: who speaks       seq: number   payload: who is asked, or zeros in an answer | body
    down    source: who shall hear   seq: number   payload: who asks, or zeros in an answer     | body

The body is an exchange, or the answer to one, sealed by its two ends; whoever passes it on does not read or change it.
One down to nobody, without a body, says that this gateway passes on: no node sends a PASS before it had one.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import PeerError
from shared.identity import DEVICE_ID_BYTES, DeviceId
from shared.wire.frame import PAYLOAD_BYTES_MAX, Frame, FrameType

NOBODY = DeviceId(bytes(DEVICE_ID_BYTES))
PASSED_BYTES_MAX = PAYLOAD_BYTES_MAX - DEVICE_ID_BYTES


@dataclass(frozen=True, slots=True)
class PassMessage:
    device: DeviceId  # who says it to the gateway, or is told it
    number: int  # of the question, as this end knows it
    other: DeviceId  # the other end of a question; of an answer NOBODY
    body: bytes

    @property
    def is_answer(self) -> bool:
        return self.other == NOBODY

    def frame(self) -> Frame:
        return Frame(FrameType.PASS, self.device, b"".join((self.other, self.body)), seq=self.number)

    @staticmethod
    def of(frame: Frame) -> PassMessage:
        if len(frame.payload) < DEVICE_ID_BYTES:
            raise PeerError("a PASS begins with a node's id", code="message-pass")
        other, body = frame.payload[:DEVICE_ID_BYTES], bytes(frame.payload[DEVICE_ID_BYTES:])
        return PassMessage(frame.source, frame.seq, DeviceId(bytes(other)), body)
