"""Session ids of gateways that share a log: any of them sees in one which partition its device is in.

    0xE1 | slot u16 | random 7 B | MAC 6 B          16 bytes, as every session id

Only the owner of the partition has the session. Whoever else gets an exchange of it sends it there, which needs no
table of sessions that all would have to write. The MAC is under a key that all gateways of a log have: a stranger
cannot make up an id, so what comes under one is worth being held and sent on. It proves nothing else: an exchange
counts by its seal.
"""

from __future__ import annotations

import hmac
import struct

from cloud_backend.gateway.keys import Keys
from cloud_backend.log.partitions import SLOTS, device_slot
from shared.identity import DeviceId
from shared.wire.envelope import SESSION_ID_BYTES, SESSION_ID_FIRST_BYTE

_HEAD = struct.Struct("<BH7s")
_MAC_BYTES = SESSION_ID_BYTES - _HEAD.size


class SessionIds:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._secret = keys.secret_for(b"session ids")

    def make(self, device: DeviceId) -> bytes:
        head = _HEAD.pack(SESSION_ID_FIRST_BYTE, device_slot(device), self._keys.random(7))
        return head + self._mac(head)

    def slot(self, session: bytes) -> int | None:
        """The slot of the device whose session this is; None for an id that no gateway of this log made."""
        head, mac = session[: _HEAD.size], session[_HEAD.size : SESSION_ID_BYTES]
        if len(mac) != _MAC_BYTES or not hmac.compare_digest(mac, self._mac(head)):
            return None
        _, slot, _ = _HEAD.unpack(head)
        return slot if slot < SLOTS else None

    def _mac(self, head: bytes) -> bytes:
        return hmac.digest(self._secret, head, "sha256")[:_MAC_BYTES]
