"""A segment costs what changed, however many devices there are, and trimming forgets nobody."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random

import pytest

from cloud_backend.log.format import segment_base, segment_name
from cloud_backend.log.log import Log
from cloud_backend.log.segment_copies import repair
from cloud_backend.log.segments import bases, read_segment_header
from cloud_backend.log.trimmed_index import (
    TrimmedIndex,
    add_trimmed_index,
    decode_trimmed_index,
    encode_trimmed_index,
    read_trimmed_index,
    trimmed_index_end,
    trimmed_index_name,
)
from cloud_backend.log.verify import verify
from shared.errors import DamagedData
from shared.identity import EdgeKey, device_id, edge_id
from tests.cloud_backend.log.builders import OTHER, PHONE, data, declare, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk


def keys(count: int) -> list[EdgeKey]:
    return [EdgeKey(device_id(b"device %d" % number), 1, edge_id("gps")) for number in range(count)]


def log_of(devices: int, schema: bytes = b"{}") -> tuple[RecordingDisk, Log]:
    """A log that has heard once of so many devices."""
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=100_000)
    for key in keys(devices):
        log.append([declare(key, schema), data(key, 0, 1)])
        log.sync()
    log.commit(log.take(roll=True))
    return disk, log


def rolled(disk: RecordingDisk, log: Log, times: int = 20) -> list[int]:
    """Bytes written beyond the records, for so many segments in which one device sends one batch."""
    written = []
    for _ in range(times):
        mark = log.high_water(PHONE)
        log.append([data(PHONE, mark, mark + 1)])
        log.commit(log.take(roll=True))
        written.append(read_segment_header(disk, bases(disk)[-1]).length)
    return written


def test_a_new_segment_costs_the_same_for_ten_devices_and_for_two_thousand():
    few, many = log_of(10), log_of(2000)
    assert rolled(*few) == rolled(*many)


def test_schemas_as_large_as_a_device_may_declare_are_written_once():
    disk, log = log_of(4, schema=b"{" + b" " * 60_000 + b"}")
    assert max(rolled(disk, log)) < 200


def test_trimming_costs_the_same_too():
    def trimmed(devices: int) -> list[int]:
        disk, log = log_of(devices)
        log.trim(log.durable_end)
        sizes = []
        for _ in range(20):
            rolled(disk, log, 1)
            log.trim(log.durable_end)
            sizes.append(len(disk.contents()[trimmed_index_name(read_trimmed_index(disk)[-1].end)]))
        return sizes

    assert trimmed(100) == trimmed(2000)


def test_marks_survive_trimming_reopening_and_many_merges():
    random = Random(4)
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=2000)
    everybody = keys(40)
    expected: dict[EdgeKey, tuple[int, int, bytes]] = {}
    most_files = 0
    for step in range(300):
        for key in random.sample(everybody, 3):
            mark, ledgered, declaration = expected.get(key, (0, 0, b""))
            if random.random() < 0.1:
                record = declare(key, b'{"at":%d}' % step)
                log.append([record])
                declaration = record.frame
            make = tombstone if random.random() < 0.2 else data
            log.append([make(key, mark, mark + 2)])
            expected[key] = (mark + 2, ledgered + 2 * (make is tombstone), declaration)
        log.sync()
        if random.random() < 0.2:
            log.trim(random.choice([log.durable_end, (log.start + log.durable_end) // 2]))
            most_files = max(most_files, sum(trimmed_index_end(name) is not None for name in disk.names()))
        if random.random() < 0.1:
            log.close()
            log = Log.open(disk, segment_bytes=2000)
        assert {key: (state.high_water, state.ledgered, state.declaration) for key, state in log.edges()} == expected
    log.close()
    verify(disk)
    assert 1 < most_files <= 8


def test_what_a_device_declared_before_everything_was_trimmed_is_still_told_to_readers(tmp_path: Path):
    from cloud_backend.log.reader import Reader
    from shared.spool.disk import PosixDisk

    log = Log.open(PosixDisk(tmp_path))
    wanted = declare(PHONE, b'{"edge":"gps"}')
    log.append([wanted, data(PHONE, 0, 5)])
    log.commit(log.take(roll=True))
    log.append([data(OTHER, 0, 5)])
    log.commit(log.take(roll=True))
    log.trim(log.durable_end)
    assert list(Reader(tmp_path).declarations()) == [wanted.frame]


def test_a_trim_that_a_crash_cut_short_is_finished_by_opening():
    disk, log = log_of(5)
    rolled(disk, log, 3)
    log.keep_trimmed_index(log.durable_end)  # and no segment removed yet
    found = Log.open(disk)
    assert len(bases(disk)) == 1
    assert found.high_water(PHONE) == 3
    verify(disk)


def test_a_log_of_the_version_before_keeps_its_marks_when_it_is_trimmed():
    frozen = json.loads((Path(__file__).parents[2] / "formats" / "log_v2.json").read_text())
    disk = RecordingDisk({name: base64.b64decode(text) for name, text in frozen.items()})
    log = Log.open(disk, segment_bytes=500)
    before = {key: (state.high_water, state.ledgered, state.declaration) for key, state in log.edges()}
    for _ in range(3):
        rolled(disk, log, 2)
        log.trim(log.durable_end)
        verify(disk)
        log.close()
        log = Log.open(disk, segment_bytes=500)
    after = {key: (state.high_water, state.ledgered, state.declaration) for key, state in log.edges()}
    assert after[OTHER] == before[OTHER]
    assert after[PHONE] == (before[PHONE][0] + 6, *before[PHONE][1:])


def trimmed_log() -> RecordingDisk:
    disk, log = log_of(5)
    rolled(disk, log, 3)
    log.trim(log.durable_end)
    log.close()
    return disk


def test_damaged_or_missing_marks_are_found_and_restored_from_a_copy():
    disk = trimmed_log()
    (name,) = [name for name in disk.names() if trimmed_index_end(name) is not None]
    sound = disk.contents()
    for at in range(0, len(sound[name]), 7):
        flipped = bytearray(sound[name])
        flipped[at] ^= 4
        with pytest.raises(DamagedData, match="log-marks"):
            Log.open(RecordingDisk(sound | {name: bytes(flipped)}))
    for broken in (sound | {name: sound[name][:-1]}, {other: sound[other] for other in sound if other != name}):
        damaged, copy = RecordingDisk(broken), RecordingDisk(sound)
        with pytest.raises(DamagedData, match="log-marks"):
            verify(damaged)
        assert [(item.copy, item.segment) for item in repair([damaged, copy])] == [(0, name)]
        assert damaged.contents() == sound


def test_a_missing_file_of_marks_in_the_middle_is_found():
    disk = RecordingDisk()
    add_trimmed_index(disk, TrimmedIndex(0, 100, bytes(0)))
    disk.replace(trimmed_index_name(300), encode_trimmed_index(TrimmedIndex(200, 300, b"")))
    with pytest.raises(DamagedData, match="log-marks"):
        read_trimmed_index(disk)


def test_only_its_own_files_are_read_as_marks():
    assert trimmed_index_end(trimmed_index_name(5)) == 5
    assert trimmed_index_end(segment_name(5)) is None
    assert segment_base(trimmed_index_name(5)) is None
    assert trimmed_index_end("x.marks") is None
    with pytest.raises(DamagedData):
        decode_trimmed_index(encode_trimmed_index(TrimmedIndex(0, 5, b"")), trimmed_index_name(6))
