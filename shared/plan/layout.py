"""Where the operators of a plan stand in a picture, so that no arrow runs under a box.

Columns go by depth: everything on the device before the cut, then the region, then the cloud, then what came back to
the device. Each operator stands as far right as its readers allow. A vertex has rows of its own. An arrow across
several columns gets a free row in each of those between, its *waypoints*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.plan import operators as op
from shared.plan.cuts import region_vertices
from shared.plan.graph import Plan
from shared.plan.placement import ON_CLOUD, ON_DEVICE, ON_REGION, sides
from shared.plan.vertices import vertices

Cell = tuple[int, int]  # column, row


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one operator to another; `asks` where it is a request for a reading instead of rows."""

    source: int
    target: int
    waypoints: tuple[Cell, ...]
    asks: bool


@dataclass(frozen=True, slots=True)
class Layout:
    cells: dict[int, Cell]  # node -> where it stands
    arrows: tuple[Arrow, ...]
    cuts: tuple[tuple[int, str, str], ...]  # the column right of each cut, the sides left and right of it
    rows: int


def layout(plan: Plan) -> Layout:
    return _Layout(plan).layout()


class _Layout:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sides = sides(plan)
        self.asked = _asked(plan)
        self.reads = {node.id: (*node.inputs, *self.asked.get(node.id, ())) for node in plan.nodes}
        self.order = list(_inputs_first(self.reads))
        self.readers: dict[int, list[int]] = {number: [] for number in self.order}
        for number, sources in self.reads.items():
            for source in sources:
                self.readers[source].append(number)
        self.cuts: list[tuple[int, str, str]] = []
        self.columns = self._columns()
        self.taken: set[Cell] = set()
        self.cells: dict[int, Cell] = {}

    def layout(self) -> Layout:
        for members in self._bands():
            self._place(members)
        arrows = tuple(
            self._arrow(source, number) for number in self.order for source in dict.fromkeys(self.reads[number])
        )
        return Layout(self.cells, arrows, tuple(self.cuts), 1 + max((row for _, row in self.taken), default=0))

    def _columns(self) -> dict[int, int]:
        returned = self._returned()
        zone = {number: ON_CLOUD if number in returned else self.sides[number] for number in self.order}
        columns: dict[int, int] = {}
        last = {}  # of each zone
        before: str | None = None
        for side in (ON_DEVICE, ON_REGION, ON_CLOUD):  # a side's columns begin after all of those before it
            least = 1 + max(columns.values(), default=-1)
            for number in (number for number in self.order if zone[number] == side):
                columns[number] = max(least, *(columns[source] + 1 for source in self.reads[number]), 0)
            last[side] = max(columns.values(), default=-1)
            if last[side] >= least:
                self.cuts += [(least, before, side)] if before is not None else []
                before = side
        for number in reversed(self.order):
            right = min((columns[reader] for reader in self.readers[number]), default=columns[number] + 1) - 1
            columns[number] = right if zone[number] == ON_CLOUD else min(right, last[zone[number]])
        return columns

    def _returned(self) -> set[int]:
        """What reads results that came back: it stands right of the cloud."""
        found: set[int] = set()
        for number in self.order:
            for source in self.reads[number]:
                if source in found or isinstance(self.plan.node(source).operator, op.SyncBack):
                    found.add(number)
        return {number for number in found if self.sides[number] == ON_DEVICE}

    def _bands(self) -> list[list[int]]:
        """Operators that share rows: each vertex with its sinks; then everything else, which is the device's."""
        bands: list[list[int]] = []
        banded: set[int] = set()
        for vertex in (*region_vertices(self.plan), *vertices(self.plan)):
            inside = {node.id for node in vertex.operators}
            ends = {reader for number in inside for reader in self.readers[number] if not self.readers[reader]}
            bands.append([number for number in self.order if number in inside | ends and number not in banded])
            banded.update(bands[-1])
        return [[number for number in self.order if number not in banded], *bands]

    def _place(self, members: list[int]) -> None:
        by_column: dict[int, list[int]] = {}
        for number in members:
            by_column.setdefault(self.columns[number], []).append(number)
        if not by_column:
            return
        span = range(min(by_column), max(by_column) + 1)
        top = 1 + max((row for column, row in self.taken if column in span), default=-1)
        for column in sorted(by_column):
            for row, number in enumerate(sorted(by_column[column], key=self._near), start=top):
                self.cells[number] = (column, row)
                self.taken.add((column, row))

    def _near(self, number: int) -> tuple[float, int]:
        rows = [self.cells[source][1] for source in self.reads[number] if source in self.cells]
        return (sum(rows) / len(rows) if rows else number, number)

    def _arrow(self, source: int, target: int) -> Arrow:
        (start, row), (end, _) = self.cells[source], self.cells[target]
        waypoints = []
        for column in range(start + 1, end):
            used = {each for at, each in self.taken if at == column}
            free = [each for each in range(row + len(used) + 1) if each not in used]
            _, row = min((abs(each - row), each) for each in free)
            self.taken.add((column, row))
            waypoints.append((column, row))
        return Arrow(source, target, tuple(waypoints), source in self.asked.get(target, ()))


def _asked(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Sensors that are read on request -> the requests, unless those depend on the readings themselves."""
    found = {}
    for node in plan.nodes:
        if isinstance(node.operator, op.Sensor) and not node.operator.every_us:
            requests = [
                other
                for other in plan.nodes
                if isinstance(other.operator, op.Request) and other.operator.sensor == node.operator.name
            ]
            found[node.id] = tuple(each.id for each in requests if node.id not in _upstream(plan, each.id))
    return found


def _upstream(plan: Plan, number: int) -> set[int]:
    found = {number}
    waiting = [number]
    while waiting:
        for source in plan.node(waiting.pop()).inputs:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _inputs_first(reads: dict[int, tuple[int, ...]]) -> Iterator[int]:
    done: set[int] = set()

    def visit(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            if number not in done:
                yield from visit(reads[number])
                done.add(number)
                yield number

    yield from visit(reads)
