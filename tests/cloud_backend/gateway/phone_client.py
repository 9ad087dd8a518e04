"""A phone for gateway tests: real keys, real sessions, batches built by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from mobile_app.home.keys import Keys
from shared.identity import DeviceId, device_id, edge_id
from shared.language.schema import Schema
from shared.sync.session import DeviceSession
from shared.wire.enrolment import EnrolmentRequest
from shared.wire.frame import Frame, FrameType, decode_all, decode_one, encode
from shared.wire.messages import Data, Declare, LostRange, Receipt

Post = Callable[[bytes], tuple[int, bytes]]

SCHEMA = Schema.of({"lat": "float64", "lon": "float64"})


class PhoneClient:
    """`post` carries one body to /v1/exchange and returns status and answer."""

    def __init__(self, gateway_key: bytes, post: Post, *, private: bytes | None = None, name: str = "phone") -> None:
        self.keys = Keys(private or os.urandom(32), gateway_key)
        self.device: DeviceId = device_id(self.keys.public_key)
        self.name = name
        self.post = post
        self.incarnation = 0
        self.session = DeviceSession(self.keys, self.device, 1)
        self.edge_name = "gps"
        self.next = 0

    @property
    def edge(self):
        return edge_id(self.edge_name)

    def enrolment(self, code: bytes) -> bytes:
        request = EnrolmentRequest(code, self.keys.public_key, self.name)
        return replace(request, signature=self.keys.sign(request.signed(self.keys.gateway_key))).encode()

    def enrolled(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.session = DeviceSession(self.keys, self.device, incarnation)

    def hello(self) -> tuple[int, bytes]:
        status, answer = self.post(self.session.hello())
        if status == 200:
            self.session.welcome(decode_one(answer)[0], 0.0)
        return status, answer

    def declare(self) -> bytes:
        return encode(Declare(self.device, self.incarnation, self.edge, self.edge_name, SCHEMA).frame())

    def batch(self, lo: int, hi: int, columns: bytes = b"columns") -> bytes:
        return encode(Data(self.device, self.incarnation, self.edge, lo, hi, hi - lo, SCHEMA.id, 0, 0, columns).frame())

    def tombstone(self, lo: int, hi: int) -> bytes:
        return encode(LostRange(self.device, self.incarnation, self.edge, lo, hi, "evicted").frame())

    def exchange(self, *frames: bytes) -> tuple[int, list[Frame]]:
        """Send frames in the open session; (status, frames of the reply)."""
        status, answer = self.post(self.session.seal(frames))
        inside = self.session.open(answer) if status != 429 and answer[:1] == b"\xe1" else answer
        return status, list(decode_all(inside))

    def send(self, count: int, columns: bytes = b"columns") -> int:
        """Send the next batch of so many elements; the mark in the receipt."""
        status, frames = self.exchange(self.declare(), self.batch(self.next, self.next + count, columns))
        assert status == 200, frames
        self.next = through(frames)
        return self.next


def through(frames: list[Frame]) -> int:
    """The mark of the one receipt in a reply."""
    (receipt,) = [Receipt.of(frame) for frame in frames if frame.type is FrameType.RECEIPT]
    return receipt.through
