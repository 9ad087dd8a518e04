"""Regions in a line in one process, as `_virtual_fleet` has fleets: production hosts and coordinator, virtual time.

Each region is a place with so many phones, the first of which has the camera. What a region's sink gives goes to the
next region; the first one also has what stands for the bus, or the crossing, before it.

With a `Model` the phones are the paper's: pictures as large, and Wi-Fi, 3G and processors as slow; those are
*modelled*. A camera then takes the next picture when fewer than so many are under way.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from resurge.examples.regions import pictures
from resurge.lab._medium import Medium
from resurge.lab._phones import Model
from resurge.lab._virtual_fleet import PACING, SINK, SOURCES_BYTES, Ran, VirtualFleet, _homes, _Node
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
PICTURES = 380  # then they come again: as many as ten turns of a light, and whole turns of a bus stop
LOOKED_AT = {"bus_capacity": "union", "traffic_signal": "light_motion"}  # reads one row for each picture looked at


@cache
def plan_of(program: str) -> Plan:
    return load_program(EXAMPLES / f"{program}.py")


@cache
def picture(program: str, number: int) -> str:
    return pictures.of_bus_stop(number) if program == "bus_capacity" else pictures.of_crossing(number)


LOOK_S = 0.25  # between two looks of a camera whether it shall take a picture


@dataclass(frozen=True, slots=True)
class Took:
    at: float
    region: str
    lo: int
    hi: int


class VirtualRegions(VirtualFleet):
    def __init__(
        self,
        program: str,
        regions: int,
        phones: int,
        threshold: int,
        cut_s: float = 60.0,
        *,
        model: Model | None = None,
        loss: float = 0.0,
    ) -> None:
        """`loss` is the share of datagrams that a phone does not hear."""
        self.now = 0.0
        self.cut_s = cut_s
        self._random, self._loss = Random(2), loss
        self._model, self._gone = model, set[str]()
        self._looked: dict[str, int] = {}
        self._taken_at: dict[str, list[float]] = {}  # by source node, when its pictures were taken
        if model is not None:
            self.pacing = replace(PACING, timeout_s=model.timeout_s, exchange_bytes_max=model.exchange_bytes)
            self.silence_s = model.silence_s
            self.spends = model.seconds(program)
            self.medium = Medium(self.at, lambda: self.now, model.rates, self.region_of, SINK)
        self.ran, self.took = Ran(), list[Took]()
        self._heap, self._count = [], 0
        self._row_ids = set()
        self._state_edges, self._sink_edges = set(), set()
        self._program, self.phones = program, phones
        plan_of(program)
        names = [SINK, *(self.phone(region, each) for region in range(regions) for each in range(phones))]
        homes = Path(_homes().name)
        self.nodes = {name: _Node(name, homes / name, self, Random(1)) for name in names}
        self._by_id = {node.id: node for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(self.nodes[SINK].peer.public_key, SOURCES_BYTES if model is None else model.spool_bytes)
            node.host.lane.is_open = node.name != SINK
        for region in range(regions):
            for each in range(phones):
                self.nodes[self.phone(region, each)].host.here.position = (region * APART, 0.0)
        self._begin([self._region(region, threshold) for region in range(regions)])

    @staticmethod
    def phone(region: int, number: int) -> str:
        return f"phone-{region}-{number}"

    def region_of(self, name: str) -> int | None:
        """Where a node is: in the Wi-Fi of a region, or in none."""
        return None if name == SINK or name in self._gone else int(name.split("-")[1])

    def hears(self, sender: _Node, node: _Node) -> bool:
        return self.region_of(sender.name) == self.region_of(node.name) is not None

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

    def look(self, until: float, *, start: float) -> None:
        """Every camera takes pictures from then on until then, as many as the phones can look at."""
        if self._model is None:
            raise RuntimeError("without a model of the phones there is no end to what they can do")
        at = start
        while at < until:
            self.at(at, self._take_pictures)
            at += LOOK_S

    def _take_pictures(self) -> None:
        model = self._model
        for name, node in self.nodes.items():
            specs = node.host.gathers() if node.is_up and model is not None else ()
            taken = self._taken_at.setdefault(name, [])
            looked_at = self._looked_at(name) if specs else 0
            if model is None or not specs or len(taken) - looked_at >= model.under_way(self._program):
                continue
            for spec in specs:
                node.host.offer(spec.key, self._row(spec, node.host.head(spec.key), len(taken)), self.now)
            taken.append(self.now)
            node.drive()

    def _looked_at(self, camera: str) -> int:
        """Of a camera's pictures, how many have been looked at; as many as before where nobody looks."""
        region, counts = int(camera.split("-")[1]), LOOKED_AT[self._program]
        found = [
            sum(one.taken.values())
            for each in range(self.phones)
            for one in self.nodes[self.phone(region, each)].host.instances()
            if one.vertex == counts and self.nodes[self.phone(region, each)].is_up
        ]
        found += [sum(one.taken.values()) for one in self.nodes[SINK].host.instances() if one.vertex == counts]
        self._looked[camera] = max(found, default=self._looked.get(camera, 0))
        return self._looked[camera]

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
        drawn = picture(self._program, number % PICTURES)
        columns: dict[str, object] = {
            "picture": [
                drawn if self._model is None else pictures.enlarged(drawn, self._model.characters(self._program))
            ]
        }
        if spec.name == "previous":
            bus = self._program == "bus_capacity"
            columns = (
                {"bus": [number], "passengers": [30.0 + number % 17]} if bus else {"light": [1], "seconds": [20.0]}
            )
        time_us = np.array([number * 1_000_000 + 1 if self._model is None else round(self.now * 1e6)])
        batch = Batch.of(spec.schema, columns, time_us, lo=head, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        return SpooledBatch(spec.key.edge, head, head + 1, 1, spec.schema.id, 0, batch.frontier_us, codec, payload)

    def result_came(self, event: SinkTook) -> None:
        self.took.append(Took(self.now, event.query, event.lo, event.hi))

    # --- what happens to phones --------------------------------------------------------------------------------------

    def stop(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name].is_up = False
            if self.medium is not None:
                self.medium.stop(name)

    def walk_away(self, names: list[str]) -> None:
        for name in names:
            if self.medium is not None:
                self._gone.add(name)
            self.nodes[name].host.here.position = AWAY
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

    def answers(self, region: int, start: float, end: float) -> tuple[float, float]:
        """Pictures answered in a second between these times, and how long that took on average.

        A row for a moment says that all pictures up to then were looked at; both programs give one for each."""
        rows, _ = sink_rows(self.nodes[SINK].disk, self._query(region), PROGRAMS[self._program])
        came = {
            number: took.at
            for took in self.took
            if took.region == f"place{region}"
            for number in range(took.lo, took.hi)
        }
        waited: dict[int, float] = {}
        for row in rows:
            number, time_us = int(str(row["number"])), int(str(row["time_us"]))
            if start <= came[number] < end:
                waited.setdefault(time_us, came[number] - time_us / 1e6)
        return len(waited) / (end - start), sum(waited.values()) / max(1, len(waited))

    def wifi_bytes(self) -> int:
        return 0 if self.medium is None else self.medium.sent("wifi")

    def kept_bytes(self, copies: str) -> int:
        """Rows that phones keep for replays: of their vertices, of their own devices, and in files named so."""
        found = 0
        for node in self.nodes.values():
            if node.name != SINK:
                found += node.host.held().rows + node.spool.statistics().used_bytes
                found += sum(node.disk.files[name].size() for name in node.disk.names() if name.startswith(copies))
        return found

    def results(self, region: int) -> tuple[int, int, str]:
        """Rows, numbers that were lost, and a digest of the rows."""
        rows, lost = sink_rows(self.nodes[SINK].disk, self._query(region), PROGRAMS[self._program])
        text = "\n".join(repr(sorted(row.items())) for row in rows)
        return len(rows), lost, hashlib.sha256(text.encode()).hexdigest()[:16]
