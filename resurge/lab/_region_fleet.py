"""A region of eight phones in virtual time: as `_virtual_fleet`, with a medium on which everybody hears a datagram.

One phone reads its sensors, three compute, one has the results, three are idle. Datagrams are lost at each phone by
itself; what travels in exchanges arrives, and what the network below sends again for that is not counted.
"""

from __future__ import annotations

import functools
import gc
from pathlib import Path
from random import Random

import numpy as np

import resurge as rs
from resurge import col
from resurge.lab._virtual_fleet import PHONE, SINK, Ran, VirtualFleet, _homes, _Node
from shared.batch import END_OF_TIME, Batch
from shared.language.codecs import NONE
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Placement
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.spool.entry import SpooledBatch
from shared.wire import codecs

PHONES = 8
COLUMNS = tuple(f"c{number}" for number in range(16))
COMPUTING = 3
BATCH, EVERY_S = 200, 0.5
SETTLE_S_MIN = 6.0


def query_plan(window: int) -> Plan:
    """Three vertices one behind the other, each with a window of so many rows of 16 numbers as its state."""
    rows = rs.sensor("camera", every="2500us", columns=dict.fromkeys(COLUMNS, "float64")).gather("camera")
    for _ in range(COMPUTING - 1):
        rows = rows.sliding(count=window).aggregate(**{name: rs.mean(name) for name in COLUMNS}).where(col.c0 > -9)
    return rs.plan_of(rows.sliding(count=window).aggregate(**{name: rs.max(name) for name in COLUMNS}).subscribe("out"))


class RegionFleet(VirtualFleet):
    """One region under one strategy; `loss` is the share of datagrams that a phone does not hear."""

    def __init__(self, row: str, *, window: int, every: int, loss: float) -> None:
        self.now, self.ran = 0.0, Ran()
        self._heap, self._count = [], 0
        self._row_ids = set()
        self._random, self._loss = Random(2), loss
        self.cut_s = every * EVERY_S / BATCH
        self.providers = [f"computes {number}" for number in range(COMPUTING)]
        names = [SINK, PHONE, *self.providers]
        names += [f"idle {number}" for number in range(PHONES - len(names))]
        homes = Path(_homes().name)
        self.nodes = {name: _Node(name, homes / name.replace(" ", "-"), self, Random(1)) for name in names}
        self._by_id = {node.id: node for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(self.nodes[SINK].peer.public_key)
            node.host.lane.is_open = True
        self._begin(row, query_plan(window), every)

    def _begin(self, row: str, plan: Plan, every: int) -> None:
        nodes, placements = self.nodes, []
        wanted = STRATEGIES[row].row
        for name, vertex in zip(self.providers, region_vertices(plan), strict=True):
            others = [node.id for node in [*nodes.values()][::-1] if node.name != name]  # idle ones first
            copies = len(others) if wanted.home is Home.REGION else wanted.copies
            placements.append(Placement(vertex.name, (nodes[name].id,), tuple(others[:copies]), 1))
        query = HostedQuery("q", 1, plan, row, every, (nodes[PHONE].id,), nodes[SINK].id, tuple(placements))
        self.run_query(query)

    def play(self, elements: int) -> Ran:
        """So many rows of the camera, and some time until every snapshot is permanent."""
        turns = range(0, elements, BATCH)
        for turn, lo in enumerate(turns):
            self.at((turn + 1) * EVERY_S, functools.partial(self._look, lo))
            self.at((turn + 1.5) * EVERY_S, self._sample)
        end = (len(turns) + 1) * EVERY_S
        self.at(end, self._end)
        self.advance(end + max(SETTLE_S_MIN, 2 * self.cut_s))
        return self.finish()

    def _look(self, lo: int) -> None:
        phone = self.nodes[PHONE]
        (spec,) = phone.host.gathers()
        numbers = np.arange(lo, lo + BATCH)
        columns = {name: np.sin(numbers * 0.37 + at) * 43.7 % 1.0 for at, name in enumerate(COLUMNS)}
        time_us = numbers * 2_500 + 1
        batch = Batch.of(spec.schema, columns, time_us, lo=lo, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        made = SpooledBatch(spec.key.edge, lo, lo + BATCH, BATCH, spec.schema.id, 0, batch.frontier_us, codec, payload)
        phone.host.offer(spec.key, made, self.now)
        phone.drive()

    def _end(self) -> None:
        phone = self.nodes[PHONE]
        for spec in phone.host.gathers():
            phone.host.frontier(spec.key, END_OF_TIME, self.now)
        phone.drive()


def ran(row: str, *, window: int, every: int, elements: int, loss: float = 0.0) -> Ran:
    gc.collect()  # the spools of the fleet before: 16 MB on every node
    return RegionFleet(row, window=window, every=every, loss=loss).play(elements)
