"""Regions in a line in one process, as `_virtual_fleet` has fleets: production hosts and coordinator, virtual time.

Each region is a place with so many phones, the first of which has the camera. What a region's sink gives goes to the
next region; the first one also has what stands for the bus, or the crossing, before it.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from resurge.examples.regions import pictures
from resurge.lab._virtual_fleet import SINK, Ran, VirtualFleet, _homes, _Node
from shared.batch import END_OF_TIME, Batch
from shared.hosting.messages import SinkTook
from shared.hosting.sink import sink_rows
from shared.hosting.wiring import EdgeSpec
from shared.language.codecs import NONE
from shared.plan.area import Area
from shared.plan.deployment import Feed, HostedQuery, Region
from shared.plan.graph import Plan
from shared.recovery.strategies import OF_REGION
from shared.region.controller import State
from shared.spool.entry import SpooledBatch
from shared.stream.program import load_program
from shared.wire import codecs

PROGRAMS = {"bus_capacity": "capacity", "traffic_signal": "signal"}  # and their sinks
EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "regions"
APART, AWAY = 0.01, (0.0, 10.0)
DWELL_S = 30.0


@cache
def plan_of(program: str) -> Plan:
    return load_program(EXAMPLES / f"{program}.py")


@cache
def picture(program: str, number: int) -> str:
    return pictures.of_bus_stop(number) if program == "bus_capacity" else pictures.of_crossing(number)


@dataclass(frozen=True, slots=True)
class Took:
    at: float
    region: str
    lo: int
    hi: int


class VirtualRegions(VirtualFleet):
    def __init__(self, program: str, regions: int, phones: int, threshold: int, cut_s: float = 60.0) -> None:
        self.now = 0.0
        self.cut_s = cut_s
        self._random, self._loss = Random(2), 0.0
        self.ran, self.took = Ran(), list[Took]()
        self._heap, self._count = [], 0
        self._state_edges, self._sink_edges = set(), set()
        self._program, self.phones = program, phones
        plan_of(program)
        names = [SINK, *(self.phone(region, each) for region in range(regions) for each in range(phones))]
        homes = Path(_homes().name)
        self.nodes = {name: _Node(name, homes / name, self, Random(1)) for name in names}
        self._by_id = {node.id: node for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(self.nodes[SINK].peer.public_key)
        for region in range(regions):
            for each in range(phones):
                self.nodes[self.phone(region, each)].host.position = (region * APART, 0.0)
        self._begin([self._region(region, threshold) for region in range(regions)])

    @staticmethod
    def phone(region: int, number: int) -> str:
        return f"phone-{region}-{number}"

    def _region(self, number: int, threshold: int) -> Region:
        sink = PROGRAMS[self._program]
        feeds = (Feed("previous", f"place{number - 1}", sink),) if number else ()
        camera = self.nodes[self.phone(number, 0)].id
        task = HostedQuery(
            f"place{number}", 1, plan_of(self._program), OF_REGION, 0, (camera,), self.nodes[SINK].id, (), feeds=feeds
        )
        return Region(Area(((number * APART, 0.0),), 50.0), DWELL_S, threshold, task)

    def _begin(self, regions: list[Region]) -> None:
        coordinator = self.nodes[SINK].machine.coordinator
        if coordinator is None:
            raise RuntimeError("the sink's node coordinates")
        coordinator.set_fleet([node.peer for node in self.nodes.values()], [], regions=regions)
        for node in self.nodes.values():
            if node.name != SINK:
                node.host.deploy(*coordinator.deployment(node.id), 0.0)
                node.drive()
        self.nodes[SINK].drive()

    def feed_rows(self, rows: int, *, start: float = 1.0) -> float:
        """Every camera makes so many pictures, one a second, and the first place hears as often of the one before."""
        for number in range(rows + 1):
            self.at(start + number, functools.partial(self._second, number, rows))
        return start + rows

    def _second(self, number: int, rows: int) -> None:
        for node in self.nodes.values():
            for spec in node.host.gathers() if node.is_up else ():
                head = node.host.head(spec.key)
                if number < rows:
                    node.host.offer(spec.key, self._row(spec, head, number), self.now)
                else:
                    node.host.frontier(spec.key, END_OF_TIME, self.now)
            node.drive()

    def _row(self, spec: EdgeSpec, head: int, number: int) -> SpooledBatch:
        columns: dict[str, object] = {"picture": [picture(self._program, number)]}
        if spec.name == "previous":
            bus = self._program == "bus_capacity"
            columns = (
                {"bus": [number], "passengers": [30.0 + number % 17]} if bus else {"light": [1], "seconds": [20.0]}
            )
        time_us = np.array([number * 1_000_000 + 1])
        batch = Batch.of(spec.schema, columns, time_us, lo=head, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        return SpooledBatch(spec.key.edge, head, head + 1, 1, spec.schema.id, 0, batch.frontier_us, codec, payload)

    def result_came(self, event: SinkTook) -> None:
        self.took.append(Took(self.now, event.query, event.lo, event.hi))

    # --- what happens to phones --------------------------------------------------------------------------------------

    def stop(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name].is_up = False

    def walk_away(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name].host.position = AWAY
            self.nodes[name].drive()

    # --- what is seen -------------------------------------------------------------------------------------------------

    def hosting(self, region: int) -> list[str]:
        """Phones that run vertices of a region, but for its camera; those that run most first."""
        query = self._query(region)
        hosts = [self._by_id[host].name for placed in query.placements for host in placed.hosts]
        others = {name for name in hosts if name != self.phone(region, 0)}
        return sorted(others, key=lambda name: (-hosts.count(name), name))

    def _query(self, region: int) -> HostedQuery:
        coordinator = self.nodes[SINK].machine.coordinator
        if coordinator is None:
            raise RuntimeError("the sink's node coordinates")
        return next(each for each in coordinator.fleet.queries if each.name == f"place{region}")

    def cut(self, region: int) -> int:
        return self._query(region).cuts.complete

    def state(self, region: int) -> State:
        coordinator = self.nodes[SINK].machine.coordinator
        if coordinator is None:
            raise RuntimeError("the sink's node coordinates")
        return coordinator.regions.state(f"place{region}")

    def results(self, region: int) -> tuple[int, int, str]:
        """Rows, numbers that were lost, and a digest of the rows."""
        rows, lost = sink_rows(self.nodes[SINK].disk, self._query(region), PROGRAMS[self._program])
        text = "\n".join(repr(sorted(row.items())) for row in rows)
        return len(rows), lost, hashlib.sha256(text.encode()).hexdigest()[:16]
