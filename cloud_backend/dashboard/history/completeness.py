"""How complete an hour of a stream is, from frontiers and the ledger: nothing is estimated.

A device's share of an hour is how much of it its frontier covers, times what of the elements it numbered then was
delivered and not given up. A stream's hour is the mean over the devices that are enrolled now and had begun by then.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cloud_backend.dashboard.history.history import HOUR_US, EdgeHistory, EdgeOf, Hour

HOURS_SHOWN = 24
_NONE = Hour()


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
    cells = []
    for hour in hours:
        shares = devices = 0.0
        delivered = ledgered = 0
        for current, history in histories:
            sums = history.hours.get(hour, _NONE)
            delivered += sums.elements
            ledgered += sums.ledgered
            covered = history.coverage(hour, now_us) if current else None
            if covered is None:
                continue
            numbered = sums.elements + sums.ledgered
            shares += covered * (sums.elements / numbered if sums.ledgered else 1.0)
            devices += 1
        cells.append(Cell(hour, shares / devices if devices else None, delivered, ledgered))
    return tuple(cells)


def by_device(
    edges: Mapping[EdgeOf, EdgeHistory],
    edge: int,
    current: Mapping[str, int],
    names: Mapping[str, str],
    now_us: int,
    *,
    count: int,
) -> list[Row]:
    """The rows of the `count` enrolled devices of this stream that are furthest behind or gave up most. Cells are made
    for these only: a fleet has thousands."""
    hours = hours_until(now_us)
    mine = [
        (device, history)
        for (device, incarnation, number), history in edges.items()
        if number == edge and current.get(device) == incarnation
    ]
    worst = heapq.nsmallest(count, mine, key=lambda each: _concern(each[1], hours, names.get(each[0], each[0])))
    rows = [
        Row(names.get(device, device[:8]), f"/devices/{device}", cells_of([(True, history)], hours, now_us))
        for device, history in worst
    ]
    return sorted(rows, key=lambda row: (row.worst, row.name))


def _concern(history: EdgeHistory, hours: range, name: str) -> tuple[int, int, str]:
    """Who is behind by whole hours, then who gave up most, then by name."""
    ledgered = sum(sums.ledgered for hour, sums in history.hours.items() if hour in hours) if history.hours else 0
    return history.frontier_us // HOUR_US, -ledgered, name
