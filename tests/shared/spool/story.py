"""A random life of a spool beside a plain account of it, and what any recovered spool must agree with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from random import Random

from shared.identity import DeviceId, EdgeId
from shared.spool.cipher import Cipher
from shared.spool.entry import DataEntry, Reason, SpooledBatch, Tombstone
from shared.spool.evict import Evict
from shared.spool.ring import Spool, SpoolFull

DEVICE = DeviceId(b"a device's id 16")
EDGES = (EdgeId(11), EdgeId(2**63 + 5), EdgeId(7))


def payload_for(edge: int, lo: int, hi: int, size: int) -> bytes:
    """A payload that only this batch can have."""
    seed = hashlib.blake2b(f"{edge} {lo} {hi}".encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def batch_for(spool: Spool, edge: EdgeId, count: int, size: int, **more: int) -> SpooledBatch:
    lo = spool.head(edge)
    return SpooledBatch(
        edge=edge, lo=lo, hi=lo + count, rows=count, schema_id=size, applied=1, frontier_us=lo, codec=1,
        payload=payload_for(edge, lo, lo + count, size), **more,
    )  # fmt: skip


@dataclass
class Account:
    """What a spool says it contains: numbers, live batches, everything given up."""

    head: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    batches: dict[tuple[int, int], int] = field(default_factory=dict)  # (edge, lo) -> hi
    given_up: dict[int, set[int]] = field(default_factory=dict)

    @staticmethod
    def of(spool: Spool) -> Account:
        account = Account()
        for edge in spool.edges():
            contents = spool._contents.edges[edge]
            account.head[edge] = contents.head
            account.delivered[edge] = contents.delivered
            for entry in contents.entries(contents.delivered):
                if isinstance(entry, DataEntry):
                    account.batches[edge, entry.lo] = entry.hi
            account.given_up[edge] = {n for t in spool.ledger.of(edge) for n in range(t.lo, t.hi)}
        return account


class Story:
    """Drives a spool at random. `durable` is the account at the last sync, `appended` every batch since, in order."""

    def __init__(self, disk: object, random: Random, *, capacity: int, policy: Evict, cipher: Cipher | None = None):
        self.random = random
        self.cipher = cipher
        self.spool = Spool.create(
            disk, capacity_bytes=capacity, device=DEVICE, incarnation=4, evict=policy, cipher=cipher, journal_bytes=4096,
        )  # type: ignore[arg-type]  # fmt: skip
        self.capacity = capacity
        self.durable = Account()
        self.before = Account()
        self.appended: list[tuple[EdgeId, int, int]] = []

    def act(self) -> str:
        """One step of the life; afterwards `before` is the account before it."""
        self.before = Account.of(self.spool)
        choice = self.random.random()
        edge = self.random.choice(EDGES)
        if choice < 0.6:
            return self.append(edge)
        if choice < 0.8:
            self.sync()
            return "sync"
        entries = list(self.spool.pending(edge))
        if entries and choice < 0.93:
            through = self.random.choice(entries).hi
            self.spool.sent(edge, through)
            self.spool.trim(edge, through)
            return "trim"
        if entries and choice < 0.97:
            entry = self.random.choice(entries)
            if isinstance(entry, DataEntry):
                self.spool.give_up(edge, entry.lo, entry.hi, Reason.QUARANTINED)
            return "give up"
        if entries:
            self.spool.sent(edge, entries[0].hi)
        return "sent"

    def append(self, edge: EdgeId) -> str:
        size = self.random.choice(
            [0, 1, 63, 64, 65, 200, 500, 900, self.capacity if self.random.random() < 0.1 else 300]
        )
        batch = batch_for(self.spool, edge, self.random.randint(1, 9), size, priority=self.random.randrange(3))
        # Noted first: a crash during the append may already show it.
        self.appended.append((batch.edge, batch.lo, batch.hi))
        try:
            self.spool.append(batch)
        except SpoolFull:
            self.appended.pop()
            return "full"
        return "append"

    def sync(self) -> None:
        self.spool.sync()
        self.durable = Account.of(self.spool)
        self.appended.clear()


def check_recovered(image: object, story: Story) -> Spool:
    """The recovered spool is what was durable, plus a prefix of what came after; every payload is the right one."""
    spool = Spool.open(image, story.cipher)  # type: ignore[arg-type]
    assert spool.statistics().damage == 0
    assert (spool.device, spool.incarnation) == (DEVICE, 4)
    now = Account.of(story.spool)
    account = Account.of(spool)
    attempted = {edge: max([hi for e, _, hi in story.appended if e == edge], default=0) for edge in EDGES}
    for edge in EDGES:
        head = account.head.get(edge, 0)
        assert story.durable.head.get(edge, 0) <= head <= max(now.head.get(edge, 0), attempted[edge])
        assert account.delivered.get(edge, 0) <= now.delivered.get(edge, 0)
        gone = account.given_up.get(edge, set())
        assert story.durable.given_up.get(edge, set()) <= gone, "a durable tombstone was lost"
        maybe = now.given_up.get(edge, set()) | {n for e, lo, hi in story.appended if e == edge for n in range(lo, hi)}
        assert gone <= maybe, "something was given up that nobody gave up"
    shown = [head_reaches(account, edge, hi) for edge, _, hi in story.appended]
    assert shown == sorted(shown, reverse=True), "not a prefix"
    for (edge, lo), hi in story.durable.batches.items():
        still = now.batches.get((edge, lo)) == hi
        assert not still or account.batches.get((edge, lo)) == hi, "a durable batch was lost"
    for edge in spool.edges():
        for entry in spool.pending(edge):
            if isinstance(entry, Tombstone):
                assert entry.reason is not Reason.DAMAGED
                continue
            batch = spool.read(entry)
            assert batch.payload == payload_for(edge, entry.lo, entry.hi, batch.schema_id)
    return spool


def head_reaches(account: Account, edge: EdgeId, hi: int) -> bool:
    return account.head.get(edge, 0) >= hi
