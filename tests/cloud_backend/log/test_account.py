from __future__ import annotations

from cloud_backend.log.account import Conservation, DeviceReports
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


def test_a_device_never_has_more_in_the_log_than_it_numbered():
    log = Log.open(RecordingDisk())
    log.append([data(PHONE, 0, 10), tombstone(PHONE, 10, 15), data(OTHER, 0, 3)])
    log.sync()
    reported = DeviceReports()
    owner = (PHONE.device, PHONE.incarnation)

    def says(produced: int, *, elements: int = 0) -> None:
        reported.status(*owner, produced)
        reported.exchange(*owner, elements)

    says(20)
    assert reported.contradictions(log) == []
    assert reported.spooled(log) == 20 - 15 - (3 if OTHER.device == PHONE.device else 0)
    says(14)
    assert len(reported.contradictions(log)) == 1
    assert reported.contradictions(log) == []  # said once


def test_a_status_that_came_along_with_batches_may_be_older_than_they_are():
    log = Log.open(RecordingDisk())
    log.append([data(PHONE, 0, 10)])
    log.sync()
    reported = DeviceReports()
    reported.status(PHONE.device, PHONE.incarnation, 4)
    reported.exchange(PHONE.device, PHONE.incarnation, 6)
    assert reported.contradictions(log) == []
    assert reported.spooled(log) == 0
    reported.status(PHONE.device, PHONE.incarnation, 9)
    reported.exchange(PHONE.device, PHONE.incarnation, 0)
    assert len(reported.contradictions(log)) == 1
    reported.exchange(PHONE.device, PHONE.incarnation, 5)  # moved on: what was said is old
    assert reported.spooled(log) == 0
