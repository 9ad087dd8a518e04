"""How complete an hour of a stream is, from frontiers and the ledger: nothing is estimated.

A device's share of an hour is how much of it its frontier covers, times what of the elements it numbered then was
delivered and not given up. A stream's hour is the mean over the devices that are enrolled now and had begun by then.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cloud_backend.dashboard.history.edges import HOUR_US, NO_HOUR, EdgeHistory, StreamHistory

HOURS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Cell:
    hour: int
    share: float | None  # None: no device had begun
    delivered: int = 0
    ledgered: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    link: str
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> float:
        return min((cell.share for cell in self.cells if cell.share is not None), default=1.0)


def hours_until(now_us: int, count: int = HOURS_SHOWN) -> range:
    last = now_us // HOUR_US
    return range(last - count + 1, last + 1)


def cells_of(histories: Collection[tuple[bool, EdgeHistory]], hours: Iterable[int], now_us: int) -> tuple[Cell, ...]:
    """One cell per hour over these edges; of one that is not current (revoked, or an earlier incarnation) only what
    it brought counts: nothing more is awaited from it."""
    hours = list(hours)
    covering = covered_by_hour([history for current, history in histories if current], hours, now_us)
    return tuple(
        Cell(
            hour, shares / devices if devices else None,
            sum(history.hours.get(hour, NO_HOUR).elements for _, history in histories),
            sum(history.hours.get(hour, NO_HOUR).ledgered for _, history in histories),
        )
        for hour, (shares, devices) in zip(hours, covering, strict=True)
    )  # fmt: skip


def cells_of_stream(
    stream: StreamHistory, recent: Collection[EdgeHistory], quiet: int, hours: range, now_us: int
) -> tuple[Cell, ...]:
    """The same over all edges of a stream. `recent` are the current ones that came to any of these hours; the other
    current ones, which came to none, are only counted."""
    covering = covered_by_hour(recent, hours, now_us)
    return tuple(
        Cell(
            hour, shares / (devices + quiet) if devices + quiet else None, stream.sums(hour).elements,
            stream.sums(hour).ledgered,
        )
        for hour, (shares, devices) in zip(hours, covering, strict=True)
    )  # fmt: skip


def covered_by_hour(
    histories: Collection[EdgeHistory], hours: Iterable[int], now_us: int
) -> Iterator[tuple[float, int]]:
    """By hour the sum of what each of these covers of it, and how many had begun by then."""
    for hour in hours:
        shares, devices = 0.0, 0
        for history in histories:
            covered = history.coverage(hour, now_us)
            if covered is None:
                continue
            sums = history.hours.get(hour, NO_HOUR)
            numbered = sums.elements + sums.ledgered
            shares += covered * (sums.elements / numbered if sums.ledgered else 1.0)
            devices += 1
        yield shares, devices


def by_device(histories: Mapping[str, EdgeHistory], names: Mapping[str, str], now_us: int, *, count: int) -> list[Row]:
    """The rows of the `count` of these devices that are furthest behind or gave up most. Cells are made for these
    only: a fleet has thousands."""
    hours = hours_until(now_us)
    worst = heapq.nsmallest(
        count, histories.items(), key=lambda each: _concern(each[1], hours, names.get(each[0], each[0]))
    )
    rows = [
        Row(names.get(device, device[:8]), f"/devices/{device}", cells_of([(True, history)], hours, now_us))
        for device, history in worst
    ]
    return sorted(rows, key=lambda row: (row.worst, row.name))


def _concern(history: EdgeHistory, hours: range, name: str) -> tuple[int, int, str]:
    """Who is behind by whole hours, then who gave up most, then by name."""
    ledgered = sum(sums.ledgered for hour, sums in history.hours.items() if hour in hours) if history.hours else 0
    return history.frontier_us // HOUR_US, -ledgered, name
