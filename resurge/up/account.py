"""The account, counted by reading the log and the spools after everything stopped.

Senders and receivers have counters of their own; none is used here. What was produced is the number each spool
would give the next element; what was delivered or ledgered is what the log's records cover; what is spooled is
what a spool holds and the log does not. So the two sides of `produced = delivered + spooled + ledgered` come from
different files, and an element that vanished, or was kept twice, makes them differ.
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
    produced: int = 0

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
            edge.log(frame.seq, frame.seq + frame.count, given_up=frame.type == FrameType.TOMBSTONE)
    for spool in spools:
        for number in spool.edges():
            edge = edges.setdefault(EdgeKey(spool.device, spool.incarnation, number), _Edge(RangeSet()))
            edge.produced = spool.head(number)
            for entry in spool.pending(number):
                edge.spool(entry.lo, entry.hi, given_up=not isinstance(entry, DataEntry))
    return Account(
        produced=sum(edge.produced for edge in edges.values()),
        delivered=sum(edge.delivered for edge in edges.values()),
        spooled=sum(edge.spooled for edge in edges.values()),
        ledgered=sum(edge.ledgered for edge in edges.values()),
        duplicates=sum(edge.duplicates for edge in edges.values()),
    )


def open_spool(directory: Path, cipher: Cipher | None = None) -> Spool:
    """A stopped device's spool, to be read."""
    return Spool.open(PosixDisk(directory), cipher)
