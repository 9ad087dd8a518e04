"""The account of what the log covers, counted from its records alone, and the check that nothing is missing in it.

produced = delivered + spooled + ledgered. The log knows two of the four. What is checked here, whenever nothing is
moving: the records say what the index says, no range is covered twice and none is skipped; and the log holds no more of
a device than the device says it has numbered. What it holds less is still in that device's spool. Anything else would
be a bug, or a spool that lost its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cloud_backend.log.index import NUMBERED, EdgeState, pack_key, unpack_key
from cloud_backend.log.log import Log
from shared.identity import DeviceId, EdgeKey
from shared.wire.frame import FrameType, stored_header

CHECK_BYTES_MAX = 4 * 1024 * 1024  # per look: an exchange that comes meanwhile waits for it


@dataclass(slots=True)
class EdgeAccount:
    """What the log covers of one edge. `start` is above 0 when older segments were trimmed."""

    start: int
    through: int
    delivered: int = 0
    ledgered: int = 0
    duplicates: int = 0
    gaps: int = 0


@dataclass(slots=True)
class Account:
    """What a log covers of all its edges."""

    edges: dict[EdgeKey, EdgeAccount] = field(default_factory=dict)

    @property
    def delivered(self) -> int:
        return sum(edge.delivered for edge in self.edges.values())

    @property
    def ledgered(self) -> int:
        return sum(edge.ledgered for edge in self.edges.values())

    @property
    def duplicates(self) -> int:
        return sum(edge.duplicates for edge in self.edges.values())

    @property
    def gaps(self) -> int:
        return sum(edge.gaps for edge in self.edges.values())


def count(edges: dict[EdgeKey, EdgeAccount], data: bytes | memoryview) -> None:
    """Take one record's frame into the account; reading the log has already checked it."""
    header = stored_header(data)
    if header.kind not in NUMBERED:
        return
    key = EdgeKey(header.source, header.incarnation, header.edge)
    edge = edges.get(key)
    if edge is None:
        edge = edges[key] = EdgeAccount(0, 0)
    lo, hi = header.seq, header.hi
    fresh = max(0, hi - max(lo, edge.through))
    edge.duplicates += hi - lo - fresh
    edge.gaps += max(0, lo - edge.through)
    if header.kind == FrameType.DATA:
        edge.delivered += fresh
    else:
        edge.ledgered += fresh
    edge.through = max(edge.through, hi)


class Conservation:
    """Recounts what was appended since it was made, and compares. Reads the log: use a thread while nothing commits."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begin()

    def _begin(self) -> None:
        self._position = self._log.durable_end
        self._before = self._log.marks()
        self._edges: dict[EdgeKey, EdgeAccount] = {}  # of which records came since

    @property
    def is_done(self) -> bool:
        return self._position == self._log.durable_end

    def check(self) -> list[str]:
        """What does not add up, in words; empty when all does."""
        if self._log.end != self._log.durable_end or self.is_done:
            return []
        if self._position < self._log.start:
            self._begin()  # trimmed before there was a quiet moment to count it: go on from here
            return []
        end = self._log.durable_end
        for offset, record in self._log.read(self._position, end, erased=True):
            if offset - self._position > CHECK_BYTES_MAX:
                self._position = offset
                return []  # the rest at the next look
            self._count(record.frame)
        self._position = end
        return self._contradictions()

    def _count(self, data: bytes | memoryview) -> None:
        header = stored_header(data)
        key = EdgeKey(header.source, header.incarnation, header.edge)
        if key not in self._edges:
            through, ledgered = self._before.get(pack_key(key), (0, 0))
            self._edges[key] = EdgeAccount(through, through, ledgered=ledgered)
        count(self._edges, data)

    def _contradictions(self) -> list[str]:
        now = self._log.marks()
        counted = {pack_key(key): (edge.through, edge.ledgered) for key, edge in self._edges.items()}
        wrong = {key for key, edge in self._edges.items() if edge.duplicates or edge.gaps}
        wrong |= {
            unpack_key(key) for key, mark in now.items() if counted.get(key, self._before.get(key, (0, 0))) != mark
        }
        found: list[str] = []
        for key in sorted(wrong, key=pack_key):
            through, ledgered = now.get(pack_key(key), (0, 0))
            edge = self._edges.get(key) or EdgeAccount(0, *self._before.get(pack_key(key), (0, 0)))
            found.append(
                f"edge {key.edge:016x} of device {key.device.hex()}: records reach {edge.through} with {edge.ledgered} "
                f"ledgered, the index says {through} with {ledgered}; {edge.duplicates} twice, {edge.gaps} skipped"
            )
        return found


class Edges(Protocol):
    def edges(self) -> Iterator[tuple[EdgeKey, EdgeState]]: ...


class DeviceReports:
    """What devices say they have numbered in all, held against the log.

    A status is sent with the first exchange after it was known. So one that comes in an exchange which brings nothing
    new was taken after everything the log has of this device; one that comes along with batches may be older than
    they are, and says nothing until the next.
    """

    def __init__(self) -> None:
        self._coming: dict[tuple[DeviceId, int], int] = {}
        self._produced: dict[tuple[DeviceId, int], int] = {}
        self._contradicted: set[tuple[DeviceId, int, int]] = set()
        self.news = False  # something was said since it was last held against the log

    def status(self, device: DeviceId, incarnation: int, produced: int) -> None:
        """A status, which an exchange brings; `exchange` says next what else it brought."""
        self._coming[device, incarnation] = produced

    def exchange(self, device: DeviceId, incarnation: int, elements: int) -> None:
        produced = self._coming.pop((device, incarnation), None) if self._coming else None
        if elements:
            self._produced.pop((device, incarnation), None)
        elif produced is not None:
            self._produced[device, incarnation] = produced
            self.news = True

    def spooled(self, log: Edges) -> int:
        """Elements that wait in the spools of the devices whose number is known."""
        high_waters = self._high_waters(log)
        return sum(max(0, produced - high_waters.get(owner, 0)) for owner, produced in self._produced.items())

    def contradictions(self, log: Edges) -> list[str]:
        """Devices of which the log holds more than there can be, in words, each such number once."""
        self.news = False
        found: list[str] = []
        high_waters = self._high_waters(log)
        for (device, incarnation), produced in self._produced.items():
            through = high_waters.get((device, incarnation), 0)
            if through > produced and (device, incarnation, through) not in self._contradicted:
                self._contradicted.add((device, incarnation, through))
                found.append(
                    f"device {device.hex()}: the log covers {through} elements, the device has numbered {produced}"
                )
        return found

    def _high_waters(self, log: Edges) -> dict[tuple[DeviceId, int], int]:
        high_waters: dict[tuple[DeviceId, int], int] = {}
        for key, state in log.edges():
            owner = (key.device, key.incarnation)
            high_waters[owner] = high_waters.get(owner, 0) + state.high_water
        return high_waters
