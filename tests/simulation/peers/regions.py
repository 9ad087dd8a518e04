"""Simulated phones at several places, which production code makes into regions: they come, stay, fail and walk away.

Node 0 coordinates and is where results end. Each region has a camera, which is one of its phones, and every region but
the first also reads what the one before it puts out. A row is a function of its number, as in all worlds of peers.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

import resurge as rs
from resurge import col
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import CutComplete, Recovered
from shared.hosting.keeper import cut_of
from shared.hosting.sink import sink_rows
from shared.hosting.wiring import EdgeSpec
from shared.plan.area import Area
from shared.plan.deployment import Feed, HostedQuery, Region
from shared.plan.graph import Plan
from shared.region.controller import RegionChanged, State
from shared.region.member import REBUILD_S
from tests.simulation.peers.checkers import Checker, Durable, Numbers, Promises, Terms
from tests.simulation.peers.world import Fault, Observer, Outcome, PeerWorld, Settings, SimulatedNode

APART = 0.01  # degrees between two regions
AWAY = (0.0, 10.0)
EVERY = 10  # elements between two snapshots, where a row counts them


@functools.cache
def plan_of(region: int) -> Plan:
    """Pictures of this place and what comes from the one before, both smoothed together."""
    camera = rs.sensor(f"camera{region}", every="100ms", columns={"s": "float64"}).gather(f"camera{region}")
    seen = camera.key_by().sliding(count=5).aggregate(s=rs.mean("s")).select(s=col.s)
    if region:
        before = rs.sensor("before", every="100ms", columns={"s": "float64"}).gather("before").key_by()
        seen = seen.union(before.select(s=col.s))
    return rs.plan_of(seen.sliding(count=4).aggregate(s=rs.sum("s")).select(s=col.s).subscribe("out"))


def rows_of(spec: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    numbers = np.arange(lo, hi)
    place = int(spec.name.removeprefix("camera")) if spec.name.startswith("camera") else -1  # where no region feeds it
    return {"s": np.sin(numbers * 0.1) + place}, numbers * 100_000 + 1


@dataclass(frozen=True, slots=True)
class Walk:
    """At a time phones are elsewhere: in their region again, or away."""

    at: float
    nodes: tuple[int, ...]
    away: bool = True
    says: bool = False  # they stay where they are and say that they leave: their batteries are low


class Positions(Checker):
    def started(self, node: SimulatedNode) -> None:
        node.host.here.position = node.world.position(node.number)  # type: ignore[attr-defined]
        node.host.here.leaving = "battery-floor" if node.number in node.world._low else ""  # type: ignore[attr-defined]

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, RegionChanged):
            node.world.states.append((round(node.now, 2), event.region, event.state))  # type: ignore[attr-defined]


class Left(Checker):
    """WhatLeftHasArrived: when a cut through a region is complete, the next region has all that came out before it: a
    region that goes back to the cut never makes it again. One that has just begun begins with what there is."""

    def __init__(self) -> None:
        self._found = ""

    def noticed(self, node: SimulatedNode, event: object) -> None:
        coordinator = node.machine.coordinator
        if not isinstance(event, CutComplete) or coordinator is None:
            return
        holders = {query.name: query.cuts.holders for query in coordinator.fleet.queries}
        hosts = [each.host for each in node.world.nodes if each.up]
        parts = [part for host in hosts for part in host.here.keeper.cuts() if part.query == event.query]
        heads = {
            label: head
            for part in parts
            if cut_of(part) == event.cut
            for label, head in part.permanent.heads.items()
            if label.startswith(f"{event.query}/out@")
        }
        for host in hosts:
            for copy in host.here.copies.values():
                made = heads.get(copy.spec.edge.label, 0)
                if 0 < copy.taken < made and host.node in holders.get(copy.spec.query, ()):
                    self._found = (
                        f"WhatLeftHasArrived: {event.query} made {made} before its cut, {copy.taken} are there"
                    )

    def look(self, _world: PeerWorld) -> str:
        return self._found


class Strays(Checker):
    """NobodyGoesBack: where phones lose the Wi-Fi or walk away, and none fails, nothing is recovered.
    OnlyStraysHandOver: what went elsewhere ran on one of those."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, str], str] = {}
        self._found = ""

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, Recovered) and event.moves:
            self._found = f"NobodyGoesBack: {sorted(event.moves)} of {event.query}, as {event.why}"

    def look(self, world: PeerWorld) -> str:
        strays = {world.nodes[fault.node].id for fault in world.settings.faults}
        for query in world.coordinator().fleet.queries if isinstance(world, Places) else ():
            for placed in query.placements:
                host = placed.hosts[0]
                before = self._hosts.setdefault((query.name, placed.vertex), host)
                if before != host and before not in strays:
                    self._found = f"OnlyStraysHandOver: {placed.vertex} left {world.by_id[before].name}"
                self._hosts[query.name, placed.vertex] = host
        return self._found


class Places(PeerWorld):
    """Regions in a line, and phones in them that walk."""

    regions: int
    phones: int
    threshold: int
    states: list[tuple[float, str, State]]
    _away: set[int]
    _low: set[int]

    @staticmethod
    def settings_of(
        regions: int, phones: int, rows: int, row: str, *, faults: Sequence[Fault] = (), seed: int = 0,
        within_s: float = 120.0, loss: float = 0.0,
    ) -> Settings:  # fmt: skip
        sources = tuple(1 + region * phones for region in range(regions))
        return Settings(
            plan_of(0), rows, rows_of, seed=seed, nodes=1 + regions * phones, sources=sources, row=row, every_s=0.5,
            batch=5, faults=tuple(faults), within_s=within_s, loss=loss, cut_s=2.0,
        )  # fmt: skip

    def coordinator(self) -> Coordinator:
        coordinator = self.nodes[0].machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        return coordinator

    def position(self, number: int) -> tuple[float, float] | None:
        if not number:
            return None
        return AWAY if number in self._away else ((number - 1) // self.phones * APART, 0.0)

    def _walk(self, walk: Walk) -> None:
        gone = self._low if walk.says else self._away
        gone.difference_update(walk.nodes)
        gone.update(walk.nodes if walk.away else ())
        self.tell("phones", "walk", f"{walk.nodes} {'away' if walk.away else 'back'}")
        for number in walk.nodes:
            node = self.nodes[number]
            if node.up:
                node.host.here.position = self.position(number)
                node.host.here.leaving = "battery-floor" if number in self._low else ""
                node.drive()

    def region(self, number: int) -> Region:
        feeds = (Feed("before", f"place{number - 1}", "out"),) if number else ()
        row = self.settings.row
        task = HostedQuery(
            f"place{number}", 1, plan_of(number), row, 0 if row == "token" else EVERY, (self.nodes[1 + number * self.phones].id,),
            self.nodes[0].id, (), feeds=feeds,
        )  # fmt: skip
        return Region(Area(((number * APART, 0.0),), 50.0), 1.0, self.threshold, task)

    def taken(self) -> Counter[str]:
        return Counter({sink.query: sink.taken for sink in self.nodes[0].host.sinks()} if self.nodes[0].up else {})

    def _reached(self) -> int:
        return sum(self.taken().values())

    def digests(self) -> dict[str, tuple[int, int, str]]:
        """By region: rows, numbers that were lost, and a digest of the rows."""
        found = {}
        for sink in self.nodes[0].host.sinks():
            rows, lost = sink_rows(self.nodes[0].disk, self._hosted(sink.query), sink.sink)
            text = "\n".join(repr(sorted(row.items())) for row in rows)
            found[sink.query] = (len(rows), lost, hashlib.sha256(text.encode()).hexdigest()[:16])
        return found

    def results(self) -> tuple[list[tuple[object, ...]], int]:
        rows: list[tuple[object, ...]] = [(name, *values) for name, values in sorted(self.digests().items())]
        return rows, sum(lost for _, lost, _ in self.digests().values())

    def state(self, region: int) -> State:
        return self.coordinator().regions.state(f"place{region}")


class RegionsWorld(Places):
    def __init__(
        self, regions: int, phones: int, threshold: int, walks: Sequence[Walk] = (), *, faults: Sequence[Fault] = (),
        rows: int = 60, seed: int = 0, within_s: float = 120.0, keep: bool = False, loss: float = 0.0,
        row: str = "token",
    ) -> None:  # fmt: skip
        self.regions, self.phones, self.threshold = regions, phones, threshold
        self._away: set[int] = set()
        self._low: set[int] = set()
        self.states: list[tuple[float, str, State]] = []
        observers: list[Observer] = [Positions(), Left(), Promises(), Terms(), Durable()]
        if regions == 1:
            observers.append(Numbers())  # which knows sinks by their own names only
        super().__init__(
            self.settings_of(
                regions, phones, rows, row, faults=faults, seed=seed, within_s=within_s, loss=loss,
            ),
            keep=keep, observers=observers,
        )  # fmt: skip
        for walk in walks:
            self.clock.at(walk.at, self._walk, walk)

    def _deploy(self) -> None:
        coordinator = self.coordinator()
        regions = [self.region(number) for number in range(self.regions)]
        coordinator.set_fleet([node.peer for node in self.nodes], [], regions=regions)
        for node in self.nodes[1:]:
            node.host.deploy(*coordinator.deployment(node.id), 0.0)
            node.drive()
        self.nodes[0].drive()


def disturbed(regions: int, phones: int, seed: int, rows: int = 60, row: str = "token") -> RegionsWorld:
    """Phones fail and walk away at once, come back or not, and the controller is killed; each region keeps three."""
    rng = Random(f"regions {regions} {phones} {seed}")
    faults, walks = [], []
    for region in range(regions):
        first = 1 + region * phones
        gone = rng.sample(range(first + 1, first + phones), phones - 4)  # the camera stays, and so do three more
        at = rng.uniform(3.0, 9.0)
        cut = rng.randint(0, len(gone))
        faults += [Fault(at + rng.uniform(0.0, 0.3), node, "crash", rng.uniform(8.0, 30.0)) for node in gone[:cut]]
        says = rng.random() < 0.3
        walks.append(Walk(at + rng.uniform(0.0, 3.0), tuple(gone[cut:]), says=says))
        if rng.random() < 0.5:
            walks.append(Walk(at + rng.uniform(4.0, 8.0), tuple(gone[cut:]), away=False, says=says))
    if rng.random() < 0.5:
        faults.append(Fault(rng.uniform(3.0, 12.0), 0, "crash", rng.uniform(0.2, 3.0)))
    return RegionsWorld(regions, phones, 3, walks, faults=faults, rows=rows, seed=seed, within_s=200.0, row=row)


def violation_of(seed: int) -> str:
    """What is wrong with two regions whose messages are often lost, and where phones are cut off for a moment."""
    rng = Random(f"left {seed}")
    faults = [Fault(rng.uniform(2.0, 9.0), rng.randint(5, 6), "cut", rng.uniform(1.0, 3.0)) for _ in range(3)]
    return RegionsWorld(2, 3, 3, seed=seed, within_s=12.0, loss=0.05, faults=faults).run().violation


def without_wifi(seed: int, rows: int = 120) -> RegionsWorld:
    """One to three phones of a region lose the Wi-Fi: some walk on, the others have it again before they count as gone."""
    rng = Random(f"wifi {seed}")
    lose = rng.sample(range(2, 7), rng.randint(1, 3))
    walks, faults = [], []
    for node in lose:
        at, away = rng.uniform(3.0, 9.0), rng.random() < 0.5
        faults.append(Fault(at, node, "wifi", 60.0 if away else rng.uniform(1.0, REBUILD_S - 3.0)))
        if away:
            walks.append(Walk(at + rng.uniform(0.0, 5.0), (node,)))
    world = RegionsWorld(1, 6, 3, walks, faults=faults, rows=rows, seed=seed, within_s=100.0)
    world.observers = [*world.observers, Strays()]
    return world


@functools.cache
def undisturbed(regions: int, phones: int, rows: int = 60) -> tuple[int, dict[str, tuple[int, int, str]]]:
    """What the sinks hold when nobody leaves: so many elements in all, and by region."""
    world = RegionsWorld(regions, phones, phones, rows=rows, within_s=20.0)
    outcome: Outcome = world.run()
    if outcome.violation:
        raise AssertionError(outcome.violation)
    return world._reached(), world.digests()
