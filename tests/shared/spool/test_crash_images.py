"""A crash at any write or sync, with every unsynced write kept, dropped, cut or garbled, leaves what was durable."""

from __future__ import annotations

import errno
from random import Random

import pytest

from shared.errors import DiskFailed
from shared.spool.entry import DataEntry
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from tests.claims import Claim
from tests.shared.spool.crash_disk import CrashDisk
from tests.shared.spool.story import DEVICE, EDGES, Account, Story, batch_for, check_recovered

IMAGES = 10_000
SOAK_IMAGES = 100_000
POLICIES = [
    Evict.QUERY_AWARE,
    Evict.OLDEST,
    Evict.PRIORITY,
    Evict.BLOCK,
    Evict.QUERY_AWARE_BYTES,
]


class Crasher:
    """Takes crash images after every event of a story and checks each."""

    def __init__(self, disk: CrashDisk, random: Random, per_event: int) -> None:
        self.disk = disk
        self.random = random
        self.per_event = per_event
        self.images = self.unsynced = self.batches = self.busy = 0
        self.story: Story | None = None

    def crash_now(self) -> None:
        if self.story is None or self.busy:
            return
        self.busy = 1
        for turn in range(self.per_event):
            fates = ("D", "K", "KDTG", "KD", "KT", "KDTG")[turn % 6]
            spool = check_recovered(self.disk.image(self.random, fates), self.story)
            self.images += 1
            self.unsynced += spool.head(11) != self.story.durable.head.get(11, 0)
            self.batches += spool.statistics().batches
        self.busy = 0

    def said(self) -> str:
        return f"{self.images} crash images, {self.unsynced} beyond the last sync, {self.batches} batches compared"


def crash_through(policy: Evict, seed: int, images: int) -> Crasher:
    random = Random(seed)
    disk = CrashDisk()
    crasher = Crasher(disk, random, per_event=6)
    story = Story(disk, random, capacity=4096, policy=policy)
    crasher.story = story
    disk.after_event = crasher.crash_now
    while crasher.images < images:
        story.act()
    return crasher


@pytest.mark.covers("NB-5")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.word)
def test_every_crash_image_recovers_what_was_durable_and_a_prefix_of_the_rest(policy: Evict, claim: Claim) -> None:
    crasher = crash_through(policy, seed=20, images=IMAGES // len(POLICIES))
    claim(f"{policy.name.lower()}: {crasher.said()}")
    assert crasher.images >= IMAGES // len(POLICIES)
    assert crasher.unsynced > 100  # images that held something beyond the last sync
    assert crasher.batches > crasher.images


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.word)
def test_a_hundred_thousand_crash_images(policy: Evict, claim: Claim) -> None:
    per_seed = SOAK_IMAGES // len(POLICIES) // 10
    crashers = [crash_through(policy, seed=seed, images=per_seed) for seed in range(10)]
    images = sum(crasher.images for crasher in crashers)
    claim(f"{policy.name.lower()}: {images} crash images, the first seed: {crashers[0].said()}")
    assert images >= SOAK_IMAGES // len(POLICIES)
    assert all(crasher.batches for crasher in crashers)


def test_a_crash_and_a_life_after_it_again_and_again() -> None:
    random = Random(5)
    disk = CrashDisk()
    story = Story(disk, random, capacity=4096, policy=Evict.QUERY_AWARE)
    for _life in range(150):
        for _ in range(random.randrange(1, 25)):
            story.act()
        image = disk.image(random)
        story.spool = check_recovered(image, story)
        again = CrashDisk()
        for name, file in image.files.items():
            again.replace(name, bytes(file.content))
        disk = again
        story.spool = type(story.spool).open(disk)
        story.sync()
    assert story.spool.head(11) > 100


def test_a_list_of_what_was_given_up_counts_in_one_life_only() -> None:
    disk = CrashDisk()
    spool = Spool.create(disk, capacity_bytes=4096, device=DEVICE, incarnation=4, journal_bytes=4096)
    for _ in range(9):
        spool.append(batch_for(spool, EDGES[0], 5, 300))
    spool.close()
    spool = Spool.open(disk)
    while "spool.given-up" not in disk.names():
        spool.append(batch_for(spool, EDGES[0], 5, 300))
    # The crash takes every record of this generation and leaves the list: it alone says what the next life is built on.
    image = CrashDisk()
    for name, file in disk.image(Random(1), "D").files.items():
        image.replace(name, bytes(file.content))
    spool = Spool.open(image)
    given_up = spool.ledger.of(EDGES[0])
    assert given_up
    for _ in range(9):  # into the units that the list made free, and past the journal offset it names
        spool.append(batch_for(spool, EDGES[0], 5, 300))
        spool.sync()
        again = Spool.open(image.image(Random(1), "D"))
        assert again.statistics().damage == 0
        assert Account.of(again) == Account.of(spool)


def live_until_it_fails(story: Story) -> None:
    while True:
        story.act()


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC])
def test_after_a_disk_error_nothing_is_acknowledged_and_reopening_gives_a_clear_state(
    failure: int, claim: Claim
) -> None:
    failures = 0
    for point in range(1, 200):
        random = Random(point)
        disk = CrashDisk()
        story = Story(disk, random, capacity=4096, policy=Evict.QUERY_AWARE)
        disk.events, disk.fail_at, disk.failure = 0, point, failure
        with pytest.raises(DiskFailed, match="spool-disk"):
            live_until_it_fails(story)
        disk.fail_at = None
        with pytest.raises(DiskFailed):  # a disk that is well again does not make this spool trusted again
            story.sync()
        failures += 1
        spool = check_recovered(disk.image(random), story)
        assert all(
            isinstance(e, DataEntry) or e.hi <= spool.head(edge) for edge in spool.edges() for e in spool.pending(edge)
        )
    claim(f"{failures} refusals by the disk ({errno.errorcode[failure]})")
    assert failures == 199
