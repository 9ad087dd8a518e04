"""Erasing a device's readings from an append-only, chained log: they are gone, and everything else still verifies."""

from __future__ import annotations

import pytest

from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.format import Record, segment_name
from cloud_backend.log.log import Log
from cloud_backend.log.reader import Reader
from cloud_backend.log.verify import verify
from shared.errors import BrokenInvariant, DamagedData
from shared.identity import device_id, edge_id
from shared.spool.disk import PosixDisk
from shared.wire.frame import Frame, FrameType, decode_one, encode

GONE, STAYS = device_id(b"gone"), device_id(b"stays")
EDGE = edge_id("gps")
SECRET = b"47.376887,8.541694"


def batch(device, lo: int, *, incarnation: int = 1, payload: bytes = SECRET * 4, frontier_us: int = 5) -> Record:
    frame = Frame(
        FrameType.DATA, device, payload, incarnation=incarnation, edge=EDGE, seq=lo, count=2, frontier_us=frontier_us
    )
    return Record(1000 + lo, encode(frame))


@pytest.fixture
def disk(tmp_path):
    return PosixDisk(tmp_path)


@pytest.fixture
def log(disk):
    """Three segments: both devices in each, and the open one."""
    made = Log.open(disk, segment_bytes=1500)
    for lo in range(0, 16, 2):
        made.append([batch(GONE, lo), batch(STAYS, lo)])
        made.sync()
    assert len(made.segment_starts()) >= 3
    return made


def erase_all(log: Log, *, through: int = 1) -> ErasureCounts:
    done = ErasureCounts()
    for base in prepare(log):
        erase(log, base, GONE, through_incarnation=through, done=done)
    return done


def contents(tmp_path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.segment")))


def test_the_readings_are_gone_from_the_disk_and_the_other_devices_stay(log, tmp_path):
    assert contents(tmp_path).count(SECRET) == 64
    done = erase_all(log)
    assert (done.batches, done.elements) == (8, 16)
    assert contents(tmp_path).count(SECRET) == 32


def test_the_chain_the_account_and_every_offset_are_as_before(log, disk):
    before = verify(disk)
    offsets = [
        offset for offset, record in log.read(log.start, log.durable_end) if decode_one(record.frame)[0].source == STAYS
    ]
    index = {key: (state.high_water, state.ledgered) for key, state in log.edges()}
    erase_all(log)
    after = verify(disk)
    assert (after.records, after.delivered, after.ledgered) == (before.records, before.delivered, before.ledgered)
    assert (after.duplicates, after.gaps) == (0, 0)
    read = [(offset, decode_one(record.frame)[0]) for offset, record in log.read(log.start, log.durable_end)]
    assert [offset for offset, frame in read if frame.source == STAYS] == offsets
    assert {key: (state.high_water, state.ledgered) for key, state in log.edges()} == index
    log.close()
    again = Log.open(disk)
    assert {key: (state.high_water, state.ledgered) for key, state in again.edges()} == index


def test_a_reader_gets_the_frontier_of_an_erased_batch_and_no_rows(log, tmp_path):
    erase_all(log)
    reader = Reader(tmp_path)
    frames = [decode_one(record.frame)[0] for _, record in reader.read(reader.start, reader.valid_end())]
    gone = [frame for frame in frames if frame.source == GONE]
    assert {frame.type for frame in gone} == {FrameType.FRONTIER}
    assert [frame.frontier_us for frame in gone] == [5] * 8


def test_the_log_goes_on_afterwards_and_a_second_time_finds_nothing(log, disk):
    erase_all(log)
    log.append([batch(STAYS, 16)])
    log.sync()
    assert erase_all(log).batches == 0
    assert verify(disk).gaps == 0


def test_the_account_still_adds_up_at_quiescence(log):
    from cloud_backend.log.account import Conservation

    conservation = Conservation(log)
    log.append([batch(GONE, 16), batch(STAYS, 16)])
    log.sync()
    erase_all(log)
    assert conservation.check() == []


def test_a_later_incarnation_is_not_touched(log):
    log.append([batch(GONE, 0, incarnation=2)])
    log.sync()
    assert erase_all(log, through=1).batches == 8
    assert erase_all(log, through=2).batches == 1


def test_a_payload_shorter_than_a_digest_goes_too(disk, tmp_path):
    log = Log.open(disk)
    log.append([batch(GONE, 0, payload=b"1234567890ab"), batch(STAYS, 0)])
    log.sync()
    assert erase_all(log).bytes == 12
    assert b"1234567890ab" not in contents(tmp_path)
    assert verify(disk).records == 2


def test_somebody_who_changes_an_erased_record_is_found(log, disk, tmp_path):
    erase_all(log)
    base = log.segment_starts()[0]
    path = tmp_path / segment_name(base)
    data = bytearray(path.read_bytes())
    place = data.find(bytes(30))  # inside the zeros of an erased payload
    data[place + 10] = 1
    path.write_bytes(data)
    with pytest.raises(DamagedData):
        verify(disk)


def test_only_closed_segments_are_replaced_and_never_by_longer_ones(log):
    [*_, open_base] = log.segment_starts()
    with pytest.raises(BrokenInvariant):
        log.replace_closed(open_base, b"")
    closed = log.closed_segments()[0]
    with pytest.raises(BrokenInvariant):
        log.replace_closed(closed, log.closed_segment(closed) + b"x")
