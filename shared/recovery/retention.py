"""What may be forgotten, and what a rollback could still need.

Every epoch can be returned to for a while (`every_s`). Before that only *points* are kept, epochs after which every
vertex has a snapshot: they get rarer with age, the log says what came after each, and a rollback to one runs the log
again from there. Points reach back `hours`, or as far as `bytes_max` allows for what they keep alive: their own files,
and the log after the oldest of them. A savepoint is a point that stays until somebody drops it.

Thinning: time is divided into buckets whose width is a power of two of seconds, at most an eighth of their age, and
each keeps its oldest epoch. Buckets of one width are made of two of the width below, so what is kept later is among
what is kept now, however often anybody looks; and from any moment the point before it is at most an eighth of its age
away.

Within the newest epochs each edge is trimmed by its readers: a vertex's oldest snapshot there is where a rollback may
restart it, so each input must still hold the records after that epoch, unless everything goes back to a point and makes
them again. The log is an edge too, and the oldest point its slowest reader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

THINNING = 8  # a point stands for at most this part of its age
HOUR_S = 3600.0


@dataclass(frozen=True)  # without slots: the defaults are read off the class
class Retention:
    """How far back a rollback can go."""

    keep: int = 2  # newest epochs that are kept whatever their age
    every_s: float = 600.0  # every epoch is kept this long
    hours: float = 24.0  # points are kept this long; 0: there are none
    bytes_max: int = 8_000_000_000  # that points may keep alive


@dataclass(frozen=True, slots=True)
class Point:
    """An epoch that a rollback could return to."""

    at_s: float  # when it was cut
    file_bytes: int = 0  # of the files that nothing newer needs
    log_bytes: int = 0  # from it to the end of the log


@dataclass(frozen=True, slots=True)
class Trims:
    records: Mapping[str, int]  # vertex -> records of epochs <= this may go
    log: int  # log records of epochs <= this may go


def first_of_every(times: Mapping[int, float], retention: Retention, now_s: float) -> int:
    """The oldest of the newest epochs that are all kept; 0 without any."""
    ordered = sorted(times)
    young = [epoch for epoch in ordered if now_s - times[epoch] <= retention.every_s]
    return min([*young, *ordered[-retention.keep :]], default=0)


def thinned(times: Mapping[int, float], retention: Retention, now_s: float) -> list[int]:
    """The epochs to keep as points, by their age alone, ascending."""
    oldest: dict[tuple[int, int], int] = {}
    for epoch in sorted(times, reverse=True) if retention.hours else ():  # no hours: nothing, not this second's either
        age_s = now_s - times[epoch]
        if age_s <= retention.every_s:
            continue
        width = _width_s(times[epoch], now_s)
        bucket = int(times[epoch] // width)
        if now_s - (bucket + 1) * width <= retention.hours * HOUR_S:  # some of what it stands for is within
            oldest[width, bucket] = epoch
    return sorted(oldest.values())


def _width_s(at_s: float, now_s: float) -> int:
    """Of the bucket that a time falls into: the widest whose youngest moment is old enough for it, so that all of a
    bucket agree."""
    width = 1
    while now_s - (at_s // (2 * width) + 1) * 2 * width >= 2 * width * THINNING:
        width *= 2
    return width


def within_bytes(points: Mapping[int, Point], savepoints: Collection[int], retention: Retention) -> list[int]:
    """The points that fit into `bytes_max`, ascending: the oldest go first. Savepoints stay, and count."""
    left = sorted(points)
    while spare := [epoch for epoch in left if epoch not in savepoints]:
        held = sum(points[epoch].file_bytes for epoch in left) + points[left[0]].log_bytes
        if held <= retention.bytes_max:
            break
        left.remove(spare[0])
    return left


def trims(inputs: Mapping[str, Collection[str]], kept: Mapping[str, Collection[int]], points: Collection[int]) -> Trims:
    """What to collect when each vertex keeps these of its newest snapshots, and all of them the points. A vertex that
    keeps none may still restart from nothing, so all its input stays."""
    oldest = {vertex: min(kept[vertex], default=0) for vertex in inputs}
    consumers: dict[str, list[str]] = {vertex: [] for vertex in inputs}
    for vertex, sources in inputs.items():
        for source in sources:
            consumers[source].append(vertex)
    readers_of_log = [vertex for vertex, sources in inputs.items() if not sources]
    return Trims(
        # A vertex nobody reads feeds results; its records serve corrections back to its own oldest snapshot.
        records={
            vertex: min((oldest[reader] for reader in readers), default=oldest[vertex])
            for vertex, readers in consumers.items()
        },
        log=min([*(oldest[vertex] for vertex in readers_of_log), *points], default=0),
    )
