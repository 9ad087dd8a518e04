"""Records for log tests."""

from __future__ import annotations

from cloud_backend.log.format import Record
from shared.identity import EdgeKey, device_id, edge_id
from shared.wire.frame import Frame, FrameType, encode

PHONE = EdgeKey(device_id(b"a phone"), 1, edge_id("gps"))
OTHER = EdgeKey(device_id(b"another phone"), 1, edge_id("gps"))


def data(key: EdgeKey, lo: int, hi: int, payload: bytes = b"columns", *, at_us: int = 1) -> Record:
    return _record(FrameType.DATA, key, lo, hi, payload, at_us)


def tombstone(key: EdgeKey, lo: int, hi: int, reason: str = "evicted", *, at_us: int = 1) -> Record:
    return _record(FrameType.TOMBSTONE, key, lo, hi, reason.encode(), at_us)


def declare(key: EdgeKey, payload: bytes = b"{}") -> Record:
    return _record(FrameType.DECLARE, key, 0, 0, payload, 1)


def _record(kind: FrameType, key: EdgeKey, lo: int, hi: int, payload: bytes, at_us: int) -> Record:
    frame = Frame(kind, key.device, payload, incarnation=key.incarnation, edge=key.edge, seq=lo, count=hi - lo)
    return Record(at_us, encode(frame))
