"""Bytes of the log that every later version must read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cloud_backend.log.format import VERSION
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from shared.wire.frame import decode_one
from tests.cloud_backend.log.builders import OTHER, PHONE, data, declare, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk

FROZEN = {version: Path(__file__).parent / f"log_v{version}.json" for version in (1, 2, 3)}
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
    assert written() == json.loads(FROZEN[VERSION].read_text())


@pytest.mark.parametrize("version", FROZEN)
def test_a_log_of_every_version_is_read_whole_and_goes_on(version):
    content = {name: base64.b64decode(text) for name, text in json.loads(FROZEN[version].read_text()).items()}
    disk = RecordingDisk(content)
    log = Log.open(disk)
    read = [record for _, record in log.read(0, log.end)]
    assert [(record.received_us, decode_one(record.frame)[0]) for record in read] == [
        (record.received_us, decode_one(record.frame)[0]) for group in WRITTEN for record in group
    ]
    assert all(record.frame[2] == min(version, 2) for record in read)
    assert (log.high_water(PHONE), log.high_water(OTHER)) == (40, 4)
    assert verify(disk).ledgered == 5
    log.append([data(PHONE, 40, 50, b"of today")])
    log.close()
    assert verify(disk).delivered == 10 + 25 + 4 + 10
