from __future__ import annotations

from pathlib import Path

from cloud_backend.log.log import Log
from cloud_backend.log.reader import Reader
from shared.spool.disk import PosixDisk, PosixFile
from tests.cloud_backend.log.builders import PHONE, data, declare


def test_a_reader_follows_a_log_that_is_written_over_several_segments(tmp_path: Path):
    reader = Reader(tmp_path)
    assert reader.valid_end() == 0
    assert list(reader.read(0, 0)) == []
    log = Log.open(PosixDisk(tmp_path), segment_bytes=600)
    assert reader.valid_end() == log.durable_end
    position = 0
    seen = []
    for number in range(30):
        log.append([data(PHONE, number, number + 1, bytes([number]) * 90)])
        log.sync()
        if number % 3 == 0:
            end = reader.valid_end()
            assert end == log.durable_end
            seen += [record for _, record in reader.read(position, end)]
            position = end
    seen += [record for _, record in reader.read(position, reader.valid_end())]
    assert seen == [data(PHONE, number, number + 1, bytes([number]) * 90) for number in range(30)]


def test_a_reader_stops_before_a_record_that_is_still_being_written(tmp_path: Path):
    log = Log.open(PosixDisk(tmp_path))
    log.append([data(PHONE, 0, 1)])
    log.sync()
    reader = Reader(tmp_path)
    end = reader.valid_end()
    log.append([data(PHONE, 1, 2, b"half of this is there")])
    log.sync()
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    for length in (end + 1, end + 40, len(whole) - 1):
        segment.write_bytes(whole[:length])
        assert reader.valid_end() == end
    segment.write_bytes(whole)
    assert reader.valid_end() == log.durable_end


def test_reserved_zeros_are_no_records(tmp_path: Path):
    log = Log.open(PosixDisk(tmp_path))
    log.append([data(PHONE, 0, 1)])
    log.sync()
    log.reserve(100_000)
    assert Reader(tmp_path).valid_end() == log.durable_end


def test_declarations_outlive_the_segment_they_came_in(tmp_path: Path):
    log = Log.open(PosixDisk(tmp_path), segment_bytes=400)
    log.append([declare(PHONE, b'{"edge":"gps"}')])
    for number in range(10):
        log.append([data(PHONE, number, number + 1, bytes(100))])
        log.sync()
    log.trim(log.durable_end)
    assert list(Reader(tmp_path).declarations()) == [declare(PHONE, b'{"edge":"gps"}').frame]


def test_a_large_record_is_read_whole(tmp_path: Path):
    log = Log.open(PosixDisk(tmp_path))
    big = data(PHONE, 0, 1, bytes(3 << 20))
    log.append([big, data(PHONE, 1, 2)])
    log.sync()
    reader = Reader(tmp_path)
    assert [record for _, record in reader.read(0, reader.valid_end())] == [big, data(PHONE, 1, 2)]


def test_the_disk_is_flushed_for_an_end_that_was_not_named_before(tmp_path: Path, monkeypatch):
    synced: list[PosixFile] = []

    def sync(file: PosixFile) -> None:
        synced.append(file)

    monkeypatch.setattr(PosixFile, "sync", sync)
    log = Log.open(PosixDisk(tmp_path), segment_bytes=400)
    reader = Reader(tmp_path)
    for number in range(6):
        log.append([data(PHONE, number, number + 1, bytes(100))])
        log.sync()
        synced.clear()
        assert [reader.valid_end() for _ in range(3)] == [log.durable_end] * 3
        assert len(synced) == 1
