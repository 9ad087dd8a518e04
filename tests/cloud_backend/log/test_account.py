from __future__ import annotations

from cloud_backend.log.account import Conservation
from cloud_backend.log.log import Log
from tests.cloud_backend.log.builders import OTHER, PHONE, data, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk


def test_an_account_that_adds_up_is_not_complained_about():
    log = Log.open(RecordingDisk())
    log.append([data(PHONE, 0, 10), tombstone(PHONE, 10, 12)])
    log.sync()
    conservation = Conservation(log)
    log.append([data(PHONE, 12, 20), data(OTHER, 0, 5), tombstone(OTHER, 5, 6)])
    log.sync()
    assert conservation.check() == []


def test_an_index_that_ran_away_from_the_records_is_named():
    log = Log.open(RecordingDisk())
    conservation = Conservation(log)
    log.append([data(PHONE, 0, 10)])
    log.sync()
    next(state for _, state in log.edges()).high_water = 11
    (text,) = conservation.check()
    assert "records reach 10 with 0 ledgered, the index says 11" in text


def test_what_was_trimmed_before_it_was_counted_is_left_out():
    log = Log.open(RecordingDisk(), segment_bytes=200)
    conservation = Conservation(log)
    for lo in range(0, 50, 10):
        log.append([data(PHONE, lo, lo + 10)])
        log.sync()
    assert log.trim(log.durable_end)
    assert conservation.check() == []
    log.append([data(PHONE, 50, 60)])
    log.sync()
    next(state for _, state in log.edges()).high_water = 61
    assert len(conservation.check()) == 1
