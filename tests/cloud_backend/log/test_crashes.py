"""Every moment at which a crash could leave something new behind, and what recovery makes of it."""

from __future__ import annotations

import errno
from random import Random

import pytest

from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from shared.errors import BrokenInvariant, DamagedData, DiskFailed
from tests.cloud_backend.log.builders import OTHER, PHONE, data, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk


@pytest.mark.covers("SO-22")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("least", [10_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_crash_at_any_write_or_sync_keeps_everything_acknowledged_and_leaves_a_prefix(least, claim):
    images = lost_tails = seed = 0
    while images < least:
        made, cut = _one_history(Random(least + seed))
        images += made
        lost_tails += cut
        seed += 1
    claim(f"{images} crash images from {seed} histories, {lost_tails} with a torn tail")
    assert lost_tails > images // 100


def _one_history(random: Random) -> tuple[int, int]:
    """Append, sync, roll and trim at random; try crash images at every moment of it."""
    disk = RecordingDisk()
    appended: list[Record] = []
    state = {"acknowledged": 0, "trimmed": 0, "images": 0, "cut": 0}

    def crash_here() -> None:
        state["images"] += 1
        recovered = _recover(disk.image(random), random)
        state["cut"] += recovered.cut_bytes > 0
        kept = [record for _, record in recovered.read(0, recovered.end)]
        first = len(appended) - len(_from(appended, kept)) if kept else state["trimmed"]
        assert kept == appended[first : first + len(kept)], "recovered something that was never appended"
        assert first <= state["trimmed"], "an untrimmed record is gone from the front"
        if kept:
            assert first + len(kept) >= state["acknowledged"], "an acknowledged record is gone"
        for key in (PHONE, OTHER):
            mark = recovered.high_water(key)
            assert mark >= marks_acknowledged[key], "a high-water mark moved back below an acknowledgement"
            recovered.append([data(key, mark, mark + 1, b"after the crash")])
        recovered.sync()

    marks_acknowledged = {PHONE: 0, OTHER: 0}
    log = Log.open(disk, segment_bytes=random.choice([400, 900, 5000]))
    disk.on_moment = crash_here
    marks = dict(marks_acknowledged)
    for _ in range(random.randrange(4, 12)):
        for _ in range(random.randrange(1, 4)):
            key = random.choice([PHONE, OTHER])
            count = random.randrange(1, 5)
            make = tombstone if random.random() < 0.2 else data
            body = {"payload": random.randbytes(random.randrange(200))} if make is data else {}
            record = make(key, marks[key], marks[key] + count, at_us=len(appended), **body)
            marks[key] += count
            appended.append(record)
            log.append([record])
        if random.random() < 0.2:
            disk.on_moment = lambda: None
            log.sync()
            log.reserve(random.randrange(600))
            disk.on_moment = crash_here
        log.sync()
        state["acknowledged"] = len(appended)
        marks_acknowledged.update(marks)
        if random.random() < 0.15:
            state["trimmed"] = state["acknowledged"]
            log.trim(log.durable_end)
    return state["images"], state["cut"]


def _recover(image: dict[str, bytes], random: Random) -> Log:
    return Log.open(RecordingDisk(image), segment_bytes=random.choice([400, 5000]))


def _from(appended: list[Record], kept: list[Record]) -> list[Record]:
    return appended[appended.index(kept[0]) :]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_every_bit_flip_of_a_segment_is_detected(closed, step, claim):
    disk = RecordingDisk()
    log = Log.open(disk)
    written: list[Record] = []
    while log.end < 4096:
        record = data(PHONE, len(written), len(written) + 1, bytes([len(written)]) * 90)
        written.append(record)
        log.append([record])
        log.sync()
    if closed:
        log.close()
    (name,) = disk.names()
    sound = disk.contents()[name]
    refused = cut = 0
    flips = range(0, len(sound) * 8, step)
    for flip in flips:
        position, bit = divmod(flip, 8)
        flipped = bytearray(sound)
        flipped[position] ^= 1 << bit
        try:
            recovered = Log.open(RecordingDisk({name: bytes(flipped)}))
        except DamagedData:
            refused += 1
            continue
        # Not refused: then the flip sits in the last group, and opening says that it cut something off.
        assert recovered.cut_bytes > 0
        cut += 1
        kept = [record for _, record in recovered.read(0, recovered.end)]
        assert kept == (written if closed else written[:-1])
    claim(f"{refused + cut} flips: {refused} refused, {cut} cut off at the tail")
    assert refused
    assert cut
    assert refused + cut == len(flips)


def test_truncation_at_every_byte_keeps_a_prefix():
    disk = RecordingDisk()
    log = Log.open(disk)
    written = [data(PHONE, i, i + 1, bytes([i]) * 30) for i in range(8)]
    for record in written:
        log.append([record])
        log.sync()
    (name,) = disk.names()
    sound = disk.contents()[name]
    for length in range(len(sound)):
        recovered = Log.open(RecordingDisk({name: sound[:length]}))
        kept = [record for _, record in recovered.read(0, recovered.end)]
        assert kept == written[: len(kept)]


class RefusingDisk(RecordingDisk):
    """Fails one operation, the nth, as a full or broken disk does; what a failed write did is up to chance."""

    def __init__(self, fail_at: int, error: int) -> None:
        super().__init__()
        self.operations = 0
        self.fired = False
        self._fail_at, self._error = fail_at, error

    def moment(self) -> None:
        self.operations += 1
        if self.operations == self._fail_at:
            self.fired = True
            raise OSError(self._error, "the disk refuses")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_whatever_the_disk_refuses_nothing_acknowledged_is_lost_and_the_log_goes_on(error, claim):
    fired = 0
    for fail_at in range(10, 110):
        disk = RefusingDisk(fail_at, error)
        log = Log.open(disk, segment_bytes=700)
        acknowledged = mark = 0
        for _ in range(40):
            log.append([data(PHONE, mark, mark + 1, bytes(60))])
            try:
                log.sync()
            except DiskFailed:
                with pytest.raises(BrokenInvariant, match="log-stopped"):
                    log.append([data(PHONE, mark + 1, mark + 2)])
                break
            acknowledged = mark = mark + 1
        fired += disk.fired
        image = RecordingDisk(disk.image(Random(fail_at)))
        reopened = Log.open(image, segment_bytes=700)
        assert reopened.high_water(PHONE) >= acknowledged
        again = reopened.high_water(PHONE)
        reopened.append([data(PHONE, again, again + 1)])
        reopened.sync()
        assert len(list(reopened.read(0, reopened.end))) == again + 1
    claim(f"{fired} refusals fired")
    assert fired == 100
