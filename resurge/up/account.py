"""The account, counted by reading the log and the spools after everything stopped.

Senders and receivers have counters of their own; none is used here. What was produced is the number each spool
would give the next element; what was delivered or ledgered is what the log's records cover; what is spooled is
what a spool holds and the log does not. So the two sides of `produced = delivered + spooled + ledgered` come from
different files, and an element that vanished, or was kept twice, makes them differ.

Devices whose spools are not here (somebody paired a phone) have no second file to compare with: what the log has of
them is counted by itself. Where the log's beginning was trimmed away, an edge's first number in it says how many came
before; which of them had been given up nobody knows any more, they count as delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from cloud_backend.log.reader import Reader
from shared.identity import EdgeKey
from shared.spool.cipher import Cipher
from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry
from shared.spool.ring import Spool
from shared.sync.ranges import RangeSet
from shared.wire.frame import FrameType, decode_one


@dataclass(frozen=True, slots=True)
class Account:
    produced: int
    delivered: int
    spooled: int
    ledgered: int
    duplicates: int
    of_others: int = 0  # elements in the log of devices whose spools were not at hand

    @property
    def adds_up(self) -> bool:
        return self.produced == self.delivered + self.spooled + self.ledgered and not self.duplicates

    def as_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(slots=True)
class _Edge:
    """What is known of one numbered edge. `decided` is everything the log holds, first writer wins."""

    decided: RangeSet
    delivered: int = 0
    ledgered: int = 0
    spooled: int = 0
    duplicates: int = 0
    produced: int | None = None  # None: its spool is not here

    @property
    def is_new(self) -> bool:
        return not self.delivered and not self.ledgered

    def log(self, lo: int, hi: int, *, given_up: bool) -> None:
        news = self.decided.add(lo, hi)
        self.duplicates += hi - lo - news
        if given_up:
            self.ledgered += news
        else:
            self.delivered += news

    def spool(self, lo: int, hi: int, *, given_up: bool) -> None:
        waiting = sum(high - low for low, high in self.decided.missing(lo, hi))
        if given_up:
            self.ledgered += waiting
        else:
            self.spooled += waiting


def count(log_directory: Path, spools: Iterable[Spool]) -> Account:
    """The account over a log and the spools of every device that ever wrote to it."""
    edges: dict[EdgeKey, _Edge] = {}
    reader = Reader(log_directory)
    for _, record in reader.read(reader.start, reader.valid_end()):
        if not record.frame:
            continue  # a seal
        frame, _ = decode_one(record.frame)
        if frame.type in (FrameType.DATA, FrameType.TOMBSTONE):
            edge = edges.setdefault(EdgeKey(frame.source, frame.incarnation, frame.edge), _Edge(RangeSet()))
            if reader.start and edge.is_new:
                edge.log(0, frame.seq, given_up=False)
            edge.log(frame.seq, frame.seq + frame.count, given_up=frame.type == FrameType.TOMBSTONE)
    for spool in spools:
        for number in spool.edges():
            edge = edges.setdefault(EdgeKey(spool.device, spool.incarnation, number), _Edge(RangeSet()))
            edge.produced = spool.head(number)
            if reader.start and edge.is_new:  # nothing of it is left in the log: what the spool let go of was there
                edge.log(0, next((entry.lo for entry in spool.pending(number)), edge.produced), given_up=False)
            for entry in spool.pending(number):
                edge.spool(entry.lo, entry.hi, given_up=not isinstance(entry, DataEntry))
    ours = [edge for edge in edges.values() if edge.produced is not None]
    others = [edge for edge in edges.values() if edge.produced is None]
    return Account(
        produced=sum(edge.produced or 0 for edge in ours),
        delivered=sum(edge.delivered for edge in ours),
        spooled=sum(edge.spooled for edge in ours),
        ledgered=sum(edge.ledgered for edge in ours),
        duplicates=sum(edge.duplicates for edge in edges.values()),
        of_others=sum(edge.delivered + edge.ledgered for edge in others),
    )


def open_spool(directory: Path, cipher: Cipher | None = None) -> Spool:
    """A stopped device's spool, to be read."""
    return Spool.open(PosixDisk(directory), cipher)
