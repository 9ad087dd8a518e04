"""A node that runs two vertices which one reader joins: what one of them has made and nobody takes yet keeps no room from
the other, for which the reader waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.hosting import here, instance, taking
from shared.hosting.wiring import EdgeSpec
from shared.plan.deployment import HostedQuery
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.world import PeerWorld, Settings, SimulatedNode

pytestmark = pytest.mark.sim
ROWS = 1_000
LATE_S = 2.0  # that the second sensor says nothing


def joined() -> Plan:
    """Each sensor has a vertex of its own; a third one takes the rows of both in order of time."""
    early, late = (
        rs.sensor(name, every="1ms", columns={"n": "int64"}).gather(name).sliding(count=1).aggregate(n=rs.max("n"))
        for name in ("early", "late")
    )
    return rs.plan_of(early.union(late).where(col.n >= 0).sliding(count=2).aggregate(n=rs.max("n")).subscribe("out"))


def rows_of(_: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    numbers = np.arange(lo, hi)
    return {"n": numbers}, numbers * 1_000 + 1


class Late(SimulatedNode):
    def sense(self) -> None:
        gathers = self.host.gathers
        self.host.gathers = lambda: tuple(  # type: ignore[method-assign]
            spec for spec in gathers() if spec.name != "late" or self.now > LATE_S
        )
        super().sense()
        self.host.gathers = gathers  # type: ignore[method-assign]


class Hub(PeerWorld):
    """Node 3 runs both vertices, node 4 the one that reads them."""

    def _make_node(self, number: int, keys: object) -> SimulatedNode:
        return Late(number, self, keys)  # type: ignore[arg-type]

    def _first_query(self) -> HostedQuery:
        query = super()._first_query()
        hub, reader, keeper = (self.nodes[number].id for number in (3, 4, 2))
        return replace(
            query,
            placements=tuple(
                replace(
                    each,
                    hosts=(hub if each.vertex.startswith("window") else reader,),
                    keepers=each.keepers and (keeper,),
                )
                for each in query.placements
            ),
        )


@pytest.mark.parametrize("row", ["none", "ecoc"])
def test_what_one_vertex_made_keeps_no_room_from_another(
    row: str, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "MADE_BYTES", 256 << 10)
    for module in (here, taking):
        monkeypatch.setattr(module, "CREDIT_BYTES", 16 << 10)
    monkeypatch.setattr(instance, "HELD_BYTES_MAX", 8 << 10)
    world = Hub(
        Settings(joined(), ROWS, rows_of, row=row, every=100, batch=50, every_s=0.05, settle_s=20.0, within_s=120.0),
        observers=every_checker(),
    )
    outcome = world.run(2 * ROWS - 1)
    claim(f"{row}: {outcome.elements} rows in {outcome.seconds:.1f} s")
    assert (outcome.violation, outcome.lost, outcome.failed) == ("", 0, 0)
