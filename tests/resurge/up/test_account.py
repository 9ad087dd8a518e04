"""The account is the difference between files, not what anybody remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.log.reader import Reader
from resurge.up.account import Account, count, open_spool
from shared.batch import NO_FRONTIER
from shared.identity import device_id, edge_id
from shared.spool.disk import PosixDisk
from shared.spool.entry import Reason, SpooledBatch
from shared.spool.ring import Spool
from shared.wire.frame import Frame, FrameType, encode

DEVICE = device_id(b"phone")
EDGE = edge_id("gps")


@pytest.fixture
def spool(tmp_path: Path):
    """Five batches of ten elements each; nothing delivered yet."""
    spool = Spool.create(PosixDisk(tmp_path / "spool"), capacity_bytes=1 << 16, device=DEVICE, incarnation=1)
    for lo in range(0, 50, 10):
        spool.append(SpooledBatch(EDGE, lo, lo + 10, 10, 1, 0, NO_FRONTIER, 0, bytes(40)))
    spool.sync()
    yield spool
    spool.close()


def logged(tmp_path: Path, *ranges: tuple[FrameType, int, int]) -> Path:
    log = Log.open(PosixDisk(tmp_path / "log"))
    for kind, lo, hi in ranges:
        log.append([Record(1, encode(Frame(kind, DEVICE, incarnation=1, edge=EDGE, seq=lo, count=hi - lo)))])
    log.close()
    return tmp_path / "log"


def test_what_no_log_has_is_spooled(tmp_path, spool):
    account = count(logged(tmp_path), [spool])
    assert account == Account(produced=50, delivered=0, spooled=50, ledgered=0, duplicates=0)
    assert account.adds_up


def test_a_batch_in_both_counts_once_as_delivered(tmp_path, spool):
    # The receipt for 10..20 was lost: the spool still holds what the log has.
    log = logged(tmp_path, (FrameType.DATA, 0, 10), (FrameType.DATA, 10, 20))
    spool.trim(EDGE, 10)
    account = count(log, [spool])
    assert account == Account(produced=50, delivered=20, spooled=30, ledgered=0, duplicates=0)
    assert account.adds_up


def test_a_tombstone_counts_as_ledgered_wherever_it_is(tmp_path, spool):
    spool.give_up(EDGE, 20, 30, Reason.EXPIRED)
    spool.sync()
    log = logged(tmp_path, (FrameType.TOMBSTONE, 0, 10), (FrameType.DATA, 10, 20))
    account = count(log, [spool])
    assert account == Account(produced=50, delivered=10, spooled=20, ledgered=20, duplicates=0)
    assert account.adds_up


def test_an_element_that_vanished_makes_the_account_wrong(tmp_path, spool):
    spool.trim(EDGE, 20)
    account = count(logged(tmp_path, (FrameType.DATA, 0, 10)), [spool])
    assert not account.adds_up
    assert account.produced - account.delivered - account.spooled - account.ledgered == 10


def test_the_log_itself_refuses_what_would_be_a_duplicate(tmp_path, spool):
    with pytest.raises(Exception, match="log-not-contiguous"):
        logged(tmp_path, (FrameType.DATA, 0, 10), (FrameType.DATA, 0, 10))


def test_a_spool_is_read_from_its_directory(tmp_path, spool):
    spool.close()
    again = open_spool(tmp_path / "spool")
    assert count(logged(tmp_path), [again]).produced == 50


def test_a_device_whose_spool_is_elsewhere_is_counted_by_itself(tmp_path, spool):
    log = Log.open(PosixDisk(tmp_path / "log"))
    paired = Frame(FrameType.DATA, device_id(b"paired"), incarnation=1, edge=EDGE, seq=0, count=7)
    log.append([Record(1, encode(paired))])
    log.close()
    account = count(tmp_path / "log", [spool])
    assert account == Account(produced=50, delivered=0, spooled=50, ledgered=0, duplicates=0, of_others=7)
    assert account.adds_up


@pytest.mark.parametrize("left", [True, False])
def test_a_log_whose_beginning_was_trimmed_still_adds_up(tmp_path, spool, left):
    log = Log.open(PosixDisk(tmp_path / "log"), segment_bytes=100)  # a record each
    for lo in range(0, 30, 10):
        if lo == 20 and left:
            log.trim(log.durable_end)
        log.append([Record(1, encode(Frame(FrameType.DATA, DEVICE, incarnation=1, edge=EDGE, seq=lo, count=10)))])
        log.sync()
    if not left:
        log.trim(log.durable_end)
    log.close()
    reader = Reader(tmp_path / "log")
    assert reader.start > 0
    assert len(list(reader.read(reader.start, reader.valid_end()))) == left
    spool.trim(EDGE, 30)
    account = count(tmp_path / "log", [spool])
    assert account == Account(produced=50, delivered=30, spooled=20, ledgered=0, duplicates=0)
    assert account.adds_up
