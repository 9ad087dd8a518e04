"""Ids of sessions that say where their device is looked after."""

from __future__ import annotations

import os

from cloud_backend.gateway.keys import Keys
from cloud_backend.gateway.session_ids import SessionIds
from cloud_backend.log.partitions import device_slot
from shared.identity import DeviceId
from shared.wire.envelope import SESSION_ID_BYTES, SESSION_ID_FIRST_BYTE

KEY = bytes(range(32))
DEVICE = DeviceId(bytes(range(16)))


def test_every_gateway_with_the_key_reads_the_slot_of_the_device() -> None:
    made = SessionIds(Keys(KEY)).make(DEVICE)
    assert (len(made), made[0]) == (SESSION_ID_BYTES, SESSION_ID_FIRST_BYTE)
    assert SessionIds(Keys(KEY)).slot(made) == device_slot(DEVICE)
    assert made != SessionIds(Keys(KEY)).make(DEVICE)


def test_an_id_that_was_made_up_changed_or_cut_is_nobodys() -> None:
    ids = SessionIds(Keys(KEY))
    made = ids.make(DEVICE)
    assert SessionIds(Keys(os.urandom(32))).slot(made) is None
    assert ids.slot(made[:-1]) is None
    assert ids.slot(b"") is None
    for at in range(SESSION_ID_BYTES):
        assert ids.slot(made[:at] + bytes([made[at] ^ 1]) + made[at + 1 :]) is None
