"""How far each edge of each device has come, by hour, and the sums over all edges of a stream, kept as they change.

A page of a stream then costs the devices that were heard within the hours it shows. Of one that is silent for longer
nothing changes any more: it came to no hour that is shown, so it is one more device in each, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cloud_backend.dashboard.history.arrivals import SECOND_US

HOUR_US = 3600 * SECOND_US
HOURS_KEPT = 48

EdgeOf = tuple[str, int, int]  # device in hex, incarnation, edge number


@dataclass(slots=True)
class Hour:
    elements: int = 0
    ledgered: int = 0
    batches: int = 0
    bytes: int = 0

    def add(self, other: Hour) -> None:
        self.elements += other.elements
        self.ledgered += other.ledgered
        self.batches += other.batches
        self.bytes += other.bytes


NO_HOUR = Hour()


@dataclass(slots=True)
class EdgeHistory:
    first_us: int  # event time of the first thing heard of it
    frontier_us: int  # how far it has come
    received_us: int  # when it was last heard
    high_water: int = 0
    hours: dict[int, Hour] = field(default_factory=dict)

    def coverage(self, hour: int, now_us: int) -> float | None:
        """Which share of the hour, so far as it has passed, the frontier covers; None before its first element."""
        start = max(hour * HOUR_US, self.first_us)
        end = min((hour + 1) * HOUR_US, now_us)
        if end <= start:
            return None
        return min(max((self.frontier_us - start) / (end - start), 0.0), 1.0)

    def to_json(self) -> list[Any]:
        hours = [[hour, each.elements, each.ledgered, each.batches, each.bytes] for hour, each in self.hours.items()]
        return [self.first_us, self.frontier_us, self.received_us, self.high_water, hours]

    @staticmethod
    def from_json(value: list[Any]) -> EdgeHistory:
        first, frontier, received, high_water, hours = value
        return EdgeHistory(first, frontier, received, high_water, {hour: Hour(*sums) for hour, *sums in hours})


@dataclass(slots=True)
class StreamHistory:
    """All edges of one stream together."""

    received_us: int | None = None  # when any of them was last heard
    hours: dict[int, Hour] = field(default_factory=dict)
    edges: dict[EdgeOf, EdgeHistory] = field(default_factory=dict)  # the one heard last at the end

    def heard_since(self, start_us: int) -> Iterator[tuple[EdgeOf, EdgeHistory]]:
        """Those of which something came since then, the newest first."""
        for edge, known in reversed(self.edges.items()):
            if known.received_us < start_us:
                return
            yield edge, known

    def sums(self, hour: int) -> Hour:
        return self.hours.get(hour, NO_HOUR)


class Streams:
    """The sums of every stream, and which edges a device has."""

    def __init__(self) -> None:
        self._streams: dict[int, StreamHistory] = {}
        self._of_device: dict[str, list[EdgeOf]] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._streams)

    def of(self, number: int) -> StreamHistory:
        return self._streams.get(number) or StreamHistory()

    def edges_of(self, device: str) -> list[tuple[EdgeOf, EdgeHistory]]:
        return [(edge, self._streams[edge[2]].edges[edge]) for edge in self._of_device.get(device, ())]

    def heard(self, edge: EdgeOf, known: EdgeHistory) -> StreamHistory:
        """Something came of this edge, perhaps for the first time."""
        device, _, number = edge
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = StreamHistory()
        if stream.edges.pop(edge, None) is None:
            self._of_device.setdefault(device, []).append(edge)
        stream.edges[edge] = known
        stream.received_us = max(known.received_us, stream.received_us or known.received_us)
        return stream

    def load(self, edges: dict[EdgeOf, EdgeHistory]) -> None:
        for edge, known in sorted(edges.items(), key=lambda each: each[1].received_us):
            stream = self.heard(edge, known)
            for hour, sums in known.hours.items():
                hour_of(stream.hours, hour).add(sums)


def hour_of(hours: dict[int, Hour], number: int) -> Hour:
    """The sums of this hour, to be added to; those of hours that are long over are dropped."""
    hour = hours.get(number)
    if hour is None:
        hour = hours[number] = Hour()
        for old in [each for each in hours if each <= max(hours) - HOURS_KEPT]:
            del hours[old]
    return hour
