"""Rows of several edges in one order that does not depend on when they came.

A vertex that is restored reads its inputs again, and they arrive in another interleaving, in other batches. Its output
must have the same rows under the same numbers. So a row is let through when no earlier one can follow on any edge, and
rows go by (time, edge, number). How far time has come is one number for all inputs: what comes out then depends on the
rows alone, not on the steps in which time moved.

A feedback edge would hold itself back for ever: it brings nothing before the vertex has put something out. So its rows
and its frontier count as `delay_us` later than their time says. The first rows go through alone, and each round of the
cycle lets the next `delay_us` through. When all other edges have ended and nothing came round for `REST_US`, time
stands still: it would go round for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.snapshots import Value
from shared.errors import BrokenInvariant

REST_US = 10_000_000
LARGE_ROWS = 8192


@dataclass(frozen=True, slots=True)
class OrderedEdge:
    """One edge into a vertex. Several edges may stand for one input: a gather has one from every device."""

    input: str  # the name under which its rows are pushed
    delay_us: int = 0  # of a feedback edge; 0 for every other


class OrderedInput:
    """Holds rows until they may go, by edge."""

    def __init__(self, edges: Mapping[str, OrderedEdge], *, interleaved: bool = True) -> None:
        """`interleaved`: rows of different inputs take turns. Where it does not matter whose come first as long as time
        has not moved, the rows of an input stay together, in far fewer runs."""
        self._interleaved = interleaved
        self._edges = dict(sorted(edges.items()))
        self._frontiers = dict.fromkeys(self._edges, NO_FRONTIER)
        self._held: dict[str, list[Batch]] = {name: [] for name in self._edges}
        self._next = {edge.input: 0 for edge in self._edges.values()}  # number of the next row pushed
        self._floor_us = NO_FRONTIER
        self._last_us = NO_FRONTIER  # of the latest row that went through
        self.held_bytes = 0

    def take(self, edge: str, batch: Batch) -> None:
        """Rows of an edge, and the frontier they carry."""
        delay_us = self._edges[edge].delay_us
        if delay_us:
            batch = replace(batch, time_us=batch.time_us + delay_us)
        if len(batch):
            self._held[edge].append(batch)
            self.held_bytes += _size(batch)
        self.advance(edge, batch.frontier_us)

    def advance(self, edge: str, frontier_us: int) -> None:
        """No earlier row follows on this edge."""
        if frontier_us not in (NO_FRONTIER, END_OF_TIME):
            frontier_us += self._edges[edge].delay_us
        self._frontiers[edge] = max(self._frontiers[edge], frontier_us)

    def release(self) -> tuple[list[tuple[str, Batch]], int]:
        """The rows that may go, in order, by input; and the frontier that holds for all inputs after them."""
        floor_us = self._floor()
        if floor_us <= self._floor_us or self._rests():
            return [], self._floor_us
        self._floor_us = floor_us
        return self._rows_before(floor_us), floor_us

    def ahead(self, edge: str) -> bool:
        """Whether another edge is what holds its rows back."""
        return self._frontiers[edge] > min(self._frontiers.values())

    def _rests(self) -> bool:
        """Whether only time itself is still going round."""
        forward = [self._frontiers[name] for name, edge in self._edges.items() if not edge.delay_us]
        if len(forward) == len(self._edges) or not all(at == END_OF_TIME for at in forward):
            return False
        return not any(self._held.values()) and self._floor_us > max(self._last_us, 0) + REST_US

    def inputs(self) -> tuple[str, ...]:
        return tuple(self._next)

    def _floor(self) -> int:
        least = NO_FRONTIER
        forward = [name for name, edge in self._edges.items() if not edge.delay_us]
        if forward:
            least = min(self._frontiers[name] for name in forward)
        if len(forward) == len(self._edges):
            return least
        # Nothing is on the cycle yet: no row of it can be earlier than this, a round later.
        first = min((int(batch.time_us.min()) for name in forward for batch in self._held[name]), default=END_OF_TIME)
        start = min(least, first)
        for name, edge in self._edges.items():
            if edge.delay_us:
                bound = start if self._floor_us == NO_FRONTIER and start > NO_FRONTIER else NO_FRONTIER
                reached = max(self._frontiers[name], bound + edge.delay_us if bound < END_OF_TIME else END_OF_TIME)
                least = min(least, reached)
        return least

    def _rows_before(self, floor_us: int) -> list[tuple[str, Batch]]:
        parts: list[tuple[int, str, Batch]] = []  # place of the edge, its input, rows
        for place, (name, edge) in enumerate(self._edges.items()):
            kept: list[Batch] = []
            for batch in self._held[name]:
                free = batch.time_us < floor_us
                if free.all():
                    parts.append((place, edge.input, batch))
                    continue
                if free.any():
                    parts.append((place, edge.input, batch.take(_index(np.flatnonzero(free)))))
                kept.append(batch.take(_index(np.flatnonzero(~free))) if free.any() else batch)
            self._held[name] = kept
        self.held_bytes = sum(_size(batch) for batches in self._held.values() for batch in batches)
        return self._runs(parts)

    def _runs(self, parts: Sequence[tuple[int, str, Batch]]) -> list[tuple[str, Batch]]:
        """Rows by (time, edge, number), cut where the input changes."""
        if not parts:
            return []
        if len({place for place, _, _ in parts}) == 1:
            batches = [batch for _, _, batch in parts]
            if _in_order(batches):
                self._last_us = max(self._last_us, int(batches[-1].time_us[-1]))
                # To push a large batch by itself costs less than to copy it behind the rows that were held back.
                apart = max(map(len, batches)) >= LARGE_ROWS
                pushes = [[batch] for batch in batches] if apart else [batches]
                return [(parts[0][1], self._numbered(parts[0][1], run)) for run in pushes]
        time = np.concatenate([batch.time_us for _, _, batch in parts])
        self._last_us = max(self._last_us, int(time.max()))
        seq = np.concatenate([batch.seq for _, _, batch in parts])
        edge = np.concatenate([np.full(len(batch), place) for place, _, batch in parts])
        order = np.lexsort((seq, edge, time))
        names = sorted(self._next)
        inputs = np.concatenate([np.full(len(batch), names.index(name)) for _, name, batch in parts])[order]
        if not self._interleaved:
            together = np.argsort(inputs, kind="stable")
            order, inputs = order[together], inputs[together]
        joined = {name: _joined([batch for _, input_, batch in parts if input_ == name]) for name in names}
        # The rows of one input, in its own joined batch, in the order in which they go.
        places = {name: _places(inputs == number, order, parts, name) for number, name in enumerate(names)}
        runs: list[tuple[str, Batch]] = []
        cuts = [0, *(np.flatnonzero(np.diff(inputs)) + 1).tolist(), len(inputs)]
        used = dict.fromkeys(names, 0)
        for start, stop in itertools.pairwise(cuts):
            name = names[int(inputs[start])]
            count = stop - start
            whole = joined[name]
            if whole is None:
                raise BrokenInvariant(f"rows of input {name!r} went missing", code="hosting-order")
            at = places[name][used[name] : used[name] + count]
            used[name] += count
            runs.append((name, self._numbered(name, [whole.take(_index(at))])))
        return runs

    def _numbered(self, name: str, rows: Sequence[Batch]) -> Batch:
        """Rows as they are pushed: by the numbers of their input."""
        numbered = Batch.renumbered(rows, self._next[name])
        self._next[name] = numbered.hi
        return replace(numbered, frontier_us=NO_FRONTIER)

    def dump(self) -> Value:
        held = {
            name: [[dict(batch.columns), batch.time_us, batch.seq, batch.lo, batch.hi] for batch in batches]
            for name, batches in self._held.items()
            if batches
        }
        return [dict(self._frontiers), held, dict(self._next), self._floor_us, self._last_us]

    def load(self, state: Value, schemas: Mapping[str, Batch]) -> None:
        """`schemas` has an empty batch of each edge, as its rows come."""
        frontiers, held, following, self._floor_us, self._last_us = state
        self._frontiers.update({name: at for name, at in frontiers.items() if name in self._edges})
        self._next.update(following)
        for name, batches in held.items():
            if name not in self._edges:
                continue
            self._held[name] = [
                Batch(schemas[name].schema, columns, time_us, seq, lo, hi) for columns, time_us, seq, lo, hi in batches
            ]
        self.held_bytes = sum(_size(batch) for batches in self._held.values() for batch in batches)


def _in_order(batches: Sequence[Batch]) -> bool:
    """Whether the rows of batches, one after the other, are in order of time."""
    following = all(one.time_us[-1] <= other.time_us[0] for one, other in itertools.pairwise(batches))
    return following and all(bool((each.time_us[1:] >= each.time_us[:-1]).all()) for each in batches)


def _joined(batches: list[Batch]) -> Batch | None:
    return Batch.joined(batches) if batches else None


def _places(
    mine: np.ndarray, order: np.ndarray, parts: Sequence[tuple[int, str, Batch]], input_name: str
) -> np.ndarray:
    """Where the rows of one input stand in its joined batch, in the order of release."""
    offsets = np.zeros(int(sum(len(batch) for _, _, batch in parts)), np.int64)
    total, at = 0, 0
    for _, name, batch in parts:
        if name == input_name:
            offsets[total : total + len(batch)] = np.arange(at, at + len(batch))
            at += len(batch)
        total += len(batch)
    places: np.ndarray = offsets[order[mine]]
    return places


def _index(places: np.ndarray) -> np.ndarray | slice:
    """Ascending places, as a slice where none is left out: texts are slow to copy one by one."""
    first, stop = int(places[0]), int(places[-1]) + 1
    if stop - first == len(places) and bool((places[1:] > places[:-1]).all()):
        return slice(first, stop)
    return places


def _size(batch: Batch) -> int:
    return int(batch.time_us.nbytes + sum(column.nbytes for column in batch.columns.values()))
