from __future__ import annotations

import errno
import hashlib
import os
import zlib
from itertools import pairwise

import pytest

from cloud_backend.log.format import (
    CHECKSUM,
    GENESIS,
    Record,
    encode_record,
    header_length,
    segment_base,
    segment_name,
)
from cloud_backend.log.log import Log
from shared.errors import BrokenInvariant, DamagedData, DiskFailed
from shared.spool.disk import PARTS_MAX, PosixDisk
from shared.wire.frame import HEADER_BYTES
from tests.cloud_backend.log.builders import OTHER, PHONE, data, declare, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk


def records_of(log: Log) -> list:
    return [record for _, record in log.read(0, log.end)]


def test_what_was_synced_is_read_back_in_order_after_reopening():
    disk = RecordingDisk()
    log = Log.open(disk)
    written = [declare(PHONE), data(PHONE, 0, 10), tombstone(PHONE, 10, 15), data(OTHER, 0, 3, at_us=7)]
    offsets = log.append(written)
    log.sync()
    log.append([data(PHONE, 15, 20)])
    log.close()
    again = Log.open(disk)
    assert records_of(again) == [*written, data(PHONE, 15, 20)]
    assert [offset for offset, _ in again.read(0, again.end)][:4] == offsets
    assert again.cut_bytes == 0


def test_the_high_water_mark_passes_tombstones_and_survives_reopening():
    disk = RecordingDisk()
    log = Log.open(disk)
    log.append([data(PHONE, 0, 10), tombstone(PHONE, 10, 15), data(PHONE, 15, 16)])
    log.sync()
    for opened in (log, Log.open(disk)):
        assert opened.high_water(PHONE) == 16
        assert opened.high_water(OTHER) == 0
        assert [(key, state.high_water, state.ledgered) for key, state in opened.edges()] == [(PHONE, 16, 5)]


@pytest.mark.parametrize(
    "record", [data(PHONE, 5, 10), data(PHONE, 12, 13), tombstone(PHONE, 9, 11), data(PHONE, 0, 10)]
)
def test_the_log_refuses_a_gap_an_overlap_and_a_duplicate(record):
    log = Log.open(RecordingDisk())
    log.append([data(PHONE, 0, 10)])
    with pytest.raises(BrokenInvariant, match="log-not-contiguous"):
        log.append([record])


def test_every_segment_opens_with_what_changed_and_continues_the_offsets():
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=600)
    written = [declare(PHONE, b'{"edge":"gps"}')]
    log.append(written)
    for i in range(20):
        record = data(PHONE, i * 5, i * 5 + 5, bytes(100))
        written.append(record)
        log.append([record])
        log.sync()
    names = disk.names()
    assert len(names) > 3
    sizes = {segment_base(name): len(content) for name, content in disk.contents().items()}
    assert all(base + sizes[base] == following for base, following in pairwise(sorted(sizes)))
    assert records_of(log) == written
    log.trim(log.durable_end)
    assert [name[-8:] for name in disk.names()] == ["16.marks", ".segment"]
    reopened = Log.open(disk)
    assert reopened.high_water(PHONE) == 100
    assert next(state.declaration for _, state in reopened.edges()) == written[0].frame
    assert reopened.start > 0


def test_a_range_can_be_read_from_the_middle():
    log = Log.open(RecordingDisk(), segment_bytes=500)
    offsets = []
    for i in range(12):
        offsets += log.append([data(PHONE, i, i + 1, bytes([i]) * 60)])
        log.sync()
    assert [offset for offset, _ in log.read(offsets[4], offsets[9])] == offsets[4:9]


def test_records_appended_while_a_group_commits_go_to_the_next_group():
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=300)
    log.append([data(PHONE, 0, 1, bytes(400))])
    group = log.take()  # fills the segment: the next one's index is as of here
    log.append([data(PHONE, 1, 2, b"later")])
    log.commit(group)
    assert [r for _, r in log.read(0, log.end)] == [data(PHONE, 0, 1, bytes(400))]
    log.sync()
    assert records_of(Log.open(disk)) == [data(PHONE, 0, 1, bytes(400)), data(PHONE, 1, 2, b"later")]


def test_a_torn_tail_is_cut_off_and_the_log_goes_on():
    disk = RecordingDisk()
    log = Log.open(disk)
    log.append([data(PHONE, 0, 10)])
    log.sync()
    log.append([data(PHONE, 10, 20)])
    log.sync()
    (name,) = disk.names()
    torn = RecordingDisk({name: disk.contents()[name][:-3]})
    recovered = Log.open(torn)
    assert recovered.cut_bytes > 0
    assert recovered.high_water(PHONE) == 10
    recovered.append([data(PHONE, 10, 20, b"again")])
    recovered.sync()
    assert records_of(Log.open(torn)) == [data(PHONE, 0, 10), data(PHONE, 10, 20, b"again")]


def test_damage_before_acknowledged_records_is_named_not_cut_off():
    disk = RecordingDisk()
    log = Log.open(disk)
    for i in range(4):
        log.append([data(PHONE, i, i + 1, b"x" * 50)])
        log.sync()
    (name,) = disk.names()
    content = bytearray(disk.contents()[name])
    content[content.index(b"x" * 50) + 7] ^= 1
    with pytest.raises(DamagedData, match=r"repair.*log-damaged"):
        Log.open(RecordingDisk({name: bytes(content)}))


def test_a_missing_segment_between_two_is_damage():
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=200)
    for i in range(6):
        log.append([data(PHONE, i, i + 1, bytes(100))])
        log.sync()
    contents = disk.contents()
    del contents[sorted(contents)[2]]
    with pytest.raises(DamagedData, match="log-segment-length"):
        Log.open(RecordingDisk(contents))


def test_a_segment_of_a_newer_format_is_refused_and_kept():
    disk = RecordingDisk()
    Log.open(disk).close()
    content = bytearray(disk.contents()[segment_name(0)])
    content[4] = 9
    end = header_length(0) - CHECKSUM.size
    CHECKSUM.pack_into(content, end, zlib.crc32(content[:end]))
    newer = RecordingDisk({segment_name(0): bytes(content)})
    with pytest.raises(DamagedData, match="log-segment-version"):
        Log.open(newer)
    assert newer.contents()[segment_name(0)] == bytes(content)


def test_a_torn_segment_header_is_no_newer_format():
    """The version's place may hold anything after a torn write; only a whole header can say what it is."""
    disk = RecordingDisk()
    log = Log.open(disk, segment_bytes=200)
    log.append([data(PHONE, 0, 10, bytes(300))])
    log.sync()
    contents = disk.contents()
    name = sorted(contents)[-1]
    torn = bytearray(contents[name])
    torn[4] = 250
    again = Log.open(RecordingDisk(contents | {name: bytes(torn)}))
    assert again.high_water(PHONE) == 10


def test_reserved_zeros_are_not_taken_for_damage():
    disk = RecordingDisk()
    log = Log.open(disk)
    log.append([data(PHONE, 0, 1)])
    log.sync()
    log.reserve(5000)
    log.append([data(PHONE, 1, 2)])
    log.sync()
    reopened = Log.open(disk)
    assert reopened.cut_bytes == 0
    assert reopened.high_water(PHONE) == 2
    reopened.append([data(PHONE, 2, 3)])
    reopened.sync()
    assert Log.open(disk).high_water(PHONE) == 3


@pytest.mark.parametrize("failing", ["write", "sync"])
def test_after_a_failed_write_or_sync_nothing_is_accepted_until_the_log_is_opened_anew(failing, monkeypatch):
    disk = RecordingDisk()
    log = Log.open(disk)
    log.append([data(PHONE, 0, 1)])
    log.sync()

    def refuse(*_):
        raise OSError(errno.EIO, "input/output error")

    log.append([data(PHONE, 1, 2)])
    with monkeypatch.context() as patch:
        patch.setattr(log._file, failing, refuse)
        with pytest.raises(DiskFailed, match="log-disk-failed"):
            log.sync()
    with pytest.raises(BrokenInvariant, match="log-stopped"):
        log.append([data(PHONE, 2, 3)])
    with pytest.raises(BrokenInvariant, match="log-stopped"):
        log.sync()
    # A failed sync may still have written: the mark is then 2. A failed write has not.
    log.reopen()
    assert log.high_water(PHONE) == (2 if failing == "sync" else 1)
    log.append([data(PHONE, log.high_water(PHONE), 9)])
    log.sync()
    assert Log.open(disk).high_water(PHONE) == 9


def test_a_large_group_of_many_pieces_reads_back_as_it_was(tmp_path):
    """More pieces than one system call takes, and some large ones."""
    log = Log.open(PosixDisk(tmp_path))
    records = [data(PHONE, lo, lo + 1, payload=bytes([lo % 251]) * (100_000 if lo < 9 else 10)) for lo in range(1500)]
    offsets = log.append(records)
    assert 2 * len(records) > 2 * PARTS_MAX
    log.sync()
    log.close()
    assert list(Log.open(PosixDisk(tmp_path)).read(0, log.durable_end)) == list(zip(offsets, records, strict=True))


def test_a_write_that_stops_in_the_middle_is_continued(tmp_path, monkeypatch):
    log = Log.open(PosixDisk(tmp_path))
    real = os.pwritev
    monkeypatch.setattr("shared.spool.disk._pwritev", lambda fd, parts, offset: real(fd, [parts[0][:7]], offset))
    log.append([data(PHONE, 0, 3, payload=b"x" * 5000), data(PHONE, 3, 4)])
    log.sync()
    log.close()
    assert records_of(Log.open(PosixDisk(tmp_path))) == [data(PHONE, 0, 3, payload=b"x" * 5000), data(PHONE, 3, 4)]


def test_a_digest_that_is_handed_in_is_the_one_that_is_computed(tmp_path):
    """The gateway hands in the digest its seal was checked with; the bytes must not depend on who computed it."""
    frame = data(PHONE, 0, 3, payload=b"columns").frame
    known = Record(0, frame, hashlib.sha256(frame[HEADER_BYTES:]).digest())
    assert encode_record(known, 7, GENESIS, 0) == encode_record(Record(0, frame), 7, GENESIS, 0)
