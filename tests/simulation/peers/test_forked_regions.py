"""A region that feeds two others, each with another part of what it makes."""

from __future__ import annotations

import functools

import pytest

import resurge as rs
from resurge import col
from shared.hosting.sink import sink_rows
from shared.plan.area import Area
from shared.plan.deployment import Feed, HostedQuery, Region
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.simulation.peers.regions import APART, RegionsWorld
from tests.simulation.peers.world import Fault

pytestmark = pytest.mark.sim
PHONES, ROWS = 4, 60
PARTS = {1: "high", 2: "low"}  # what each of the others reads


@functools.cache
def plan_of(region: int) -> Plan:
    if region:
        before = rs.sensor("before", every="100ms", columns={"s": "float64"}).gather("before").key_by()
        return rs.plan_of(before.sliding(count=1).aggregate(s=rs.sum("s")).select(s=col.s).subscribe("out"))
    camera = rs.sensor("camera0", every="100ms", columns={"s": "float64"}).gather("camera0")
    seen = camera.key_by().sliding(count=5).aggregate(s=rs.mean("s")).select(s=col.s)
    return rs.plan_of(seen.where(col.s > 0).subscribe("high"), seen.where(col.s <= 0).subscribe("low"))


class Forked(RegionsWorld):
    def region(self, number: int) -> Region:
        feeds = (Feed("before", "place0", PARTS[number]),) if number else ()
        camera = self.nodes[1 + number * self.phones].id
        task = HostedQuery(
            f"place{number}", 1, plan_of(number), self.settings.row, 0, (camera,), self.nodes[0].id, (), feeds=feeds
        )
        return Region(Area(((number * APART, 0.0),), 50.0), 1.0, self.threshold, task)

    def rows(self, region: int, sink: str) -> list[tuple[int, float]]:
        found, lost = sink_rows(self.nodes[0].disk, self._hosted(f"place{region}"), sink)
        assert not lost
        return [(int(str(row["number"])), float(str(row["s"]))) for row in found]

    def _reached(self) -> int:
        return sum(sink.taken for sink in self.nodes[0].host.sinks()) if self.nodes[0].up else 0


@pytest.mark.covers("MS-1", "MS-2")
def test_a_region_sends_each_of_two_others_its_own_part(claim: Claim) -> None:
    """A phone of each region that runs something stops meanwhile."""
    faults = [Fault(5.0 + region, 2 + region * PHONES, "crash", 60.0) for region in range(3)]
    expected = 2 * (ROWS - 4)
    world = Forked(3, PHONES, 2, faults=faults, rows=ROWS, within_s=60.0)
    outcome = world.run(expected)
    assert not outcome.violation
    parts = {name: world.rows(0, name) for name in ("high", "low")}
    assert all(parts.values())
    assert all(value > 0 for _, value in parts["high"])
    assert all(value <= 0 for _, value in parts["low"])
    for region, name in PARTS.items():
        assert world.rows(region, "out") == parts[name], f"region {region} has what it is fed, and nothing else"
    claim(
        f"{len(parts['high'])} rows to one region and {len(parts['low'])} to the other, {outcome.crashes} phones stop, "
        f"{outcome.recoveries} recoveries"
    )
