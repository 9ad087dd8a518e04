"""Bytes of the log that every later version must read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from tests.cloud_backend.log.builders import OTHER, PHONE, data, declare, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk

FROZEN = Path(__file__).parent / "log_v1.json"
WRITTEN = [
    [declare(PHONE, b'{"edge":"gps"}'), data(PHONE, 0, 10, b"columns", at_us=1_700_000_000_000_000)],
    [tombstone(PHONE, 10, 15), data(OTHER, 0, 3, b"")],
    [data(PHONE, 15, 40, bytes(range(256)))],
    [data(OTHER, 3, 4, b"the last")],
]


def written() -> dict[str, str]:
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=500)
    for group in WRITTEN:
        log.append(group)
        log.sync()
    log.close()
    return {name: base64.b64encode(content).decode() for name, content in disk.contents().items()}


def test_this_version_writes_the_bytes_it_always_wrote():
    assert written() == json.loads(FROZEN.read_text())


def test_a_log_of_version_1_is_read_whole():
    disk = RecordingDisk({name: base64.b64decode(text) for name, text in json.loads(FROZEN.read_text()).items()})
    log = Log.open(disk)
    assert [record for _, record in log.read(0, log.end)] == [record for group in WRITTEN for record in group]
    assert (log.high_water(PHONE), log.high_water(OTHER)) == (40, 4)
    assert verify(disk).ledgered == 5
