"""(device, incarnation, edge, seq) names an element forever.

A device's id is the hash of its public key, so nobody can claim another's. An edge's id is the hash of
its name. Sequence numbers start at 0 for an incarnation and are never reset.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NewType

DeviceId = NewType("DeviceId", bytes)  # 16 bytes
EdgeId = NewType("EdgeId", int)  # unsigned 64 bit

DEVICE_ID_BYTES = 16


def device_id(public_key: bytes) -> DeviceId:
    """The id of the device that holds the private half of this Ed25519 key."""
    return DeviceId(hashlib.blake2b(public_key, digest_size=DEVICE_ID_BYTES, person=b"resurge-device").digest())


def edge_id(name: str) -> EdgeId:
    """The number that stands for an edge's name in frames and indexes."""
    return EdgeId(
        int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"resurge-edge").digest(), "little")
    )


_FIELD = 2**255 - 19
_OF_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _OF_ORDER_8, _FIELD - _OF_ORDER_8})  # y of the eight such points


def is_small_order(public_key: bytes) -> bool:
    """Whether an Ed25519 key is one of the few points for which anybody can make a signature, of any message."""
    y = int.from_bytes(public_key, "little") & ((1 << 255) - 1)  # without the sign of x
    return y % _FIELD in _SMALL_ORDER


@dataclass(frozen=True, slots=True, order=True)
class EdgeKey:
    """One numbered edge of one installation of one device."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
