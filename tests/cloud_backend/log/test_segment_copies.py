from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from cloud_backend.log.format import segment_name
from cloud_backend.log.log import Log
from cloud_backend.log.segment_copies import CopiedDisk, open_disk, repair
from cloud_backend.log.verify import verify
from shared.errors import DamagedData, DiskFailed
from tests.cloud_backend.log.builders import PHONE, data, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk


def filled(disk, count: int = 20) -> Log:
    log = Log.open(disk, segment_bytes=800)
    for number in range(count):
        log.append([data(PHONE, number, number + 1, bytes([number]) * 80)])
        log.sync()
    return log


@pytest.mark.covers("SO-21")
def test_every_segment_is_on_every_copy_before_it_is_acknowledged(tmp_path: Path):
    directories = [tmp_path / name for name in ("first", "second", "third")]
    filled(open_disk(directories[0], directories[1:]))
    contents = [{path.name: path.read_bytes() for path in directory.iterdir()} for directory in directories]
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) > 3


@pytest.mark.covers("SO-21")
@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "empty"])
def test_any_one_harmed_copy_is_made_whole_from_another(harm):
    disks = [RecordingDisk() for _ in range(3)]
    filled(CopiedDisk(disks))
    sound = disks[1].contents()
    random = Random(3)
    repaired = 0
    for name in sorted(sound):
        victim = random.randrange(3)
        content = bytearray(sound[name])
        if harm == "flip":
            content[random.randrange(len(content))] ^= 1
        elif harm == "cut":
            del content[random.randrange(1, len(content)) :]
        elif harm == "empty":
            content = bytearray()
        if harm == "remove":
            disks[victim].remove(name)
        else:
            disks[victim].replace(name, bytes(content))
        done = repair(disks)
        assert [item.segment for item in done] == [name]
        assert [item.copy for item in done] == [victim]
        repaired += 1
        assert disks[0].contents() == disks[1].contents() == disks[2].contents() == sound
    assert repaired == len(sound)
    assert verify(disks[0]).delivered == 20


def test_nothing_is_repaired_when_nothing_is_harmed():
    disks = [RecordingDisk() for _ in range(2)]
    filled(CopiedDisk(disks))
    assert repair(disks) == []


def test_repair_says_so_when_no_copy_is_sound():
    disks = [RecordingDisk() for _ in range(2)]
    filled(CopiedDisk(disks))
    name = segment_name(0)
    for disk in disks:
        content = bytearray(disk.contents()[name])
        content[70] ^= 1
        disk.replace(name, bytes(content))
    with pytest.raises(DamagedData, match="log-no-copy"):
        repair(disks)


def test_an_acknowledgement_promises_all_copies(monkeypatch):
    disks = [RecordingDisk() for _ in range(2)]
    log = filled(CopiedDisk(disks), 3)

    def refuse(*_):
        raise OSError(errno.EIO, "input/output error")

    log.append([data(PHONE, 3, 4)])
    monkeypatch.setattr(log._file._files[1], "sync", refuse)
    with pytest.raises(DiskFailed):
        log.sync()


def test_verify_counts_the_account_from_the_records_alone():
    disk = RecordingDisk()
    log = filled(disk, 10)
    log.append([tombstone(PHONE, 10, 14), data(PHONE, 14, 20)])
    log.sync()
    found = verify(disk)
    assert (found.delivered, found.ledgered, found.duplicates, found.gaps) == (16, 4, 0, 0)
    assert found.segments == len(disk.names())
    log.trim(log.durable_end)
    assert verify(disk).edges[PHONE].start > 0


def test_verify_notices_a_segment_that_was_swapped_for_another_log_s():
    disk, other = RecordingDisk(), RecordingDisk()
    filled(disk)
    log = Log.open(other, segment_bytes=800)
    for number in range(20):
        log.append([data(PHONE, number, number + 1, bytes([255 - number]) * 80)])
        log.sync()
    assert disk.names() == other.names()
    contents = disk.contents()
    swapped = sorted(contents)[1]
    contents[swapped] = other.contents()[swapped]
    with pytest.raises(DamagedData, match="log-chain"):
        verify(RecordingDisk(contents))
