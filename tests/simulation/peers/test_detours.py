"""Two nodes that run neighbouring vertices do not reach each other, and nobody coordinates: they speak by way of another
node, and no row waits for the gateway."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from shared.hosting.lanes import Lanes
from tests.claims import Claim
from tests.simulation.keys import ToyKeys
from tests.simulation.peers import programs
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.governed import FollowsNothingOlder, GovernedWorld
from tests.simulation.peers.world import Fault, SimulatedNode

pytestmark = pytest.mark.sim
GONE_AT, PARTED_AT, MENDED_AT, BACK_AT = 5.0, 6.5, 22.0, 24.0
MANY = range(int(os.environ.get("DETOUR_SEEDS", "60")))


class DetouredWorld(GovernedWorld):
    """The gateway is gone for a while; meanwhile links between neighbouring vertices are."""

    def __init__(self, seed: int, row: str = "ecoc", *, mended_at: float = MENDED_AT, loss: float = 0.0) -> None:
        faults = (Fault(GONE_AT, 0, "gateway", BACK_AT - GONE_AT),)
        settings = programs.settings(
            "chain", row=row, seed=seed, nodes=6, faults=faults, settle_s=20.0, every_s=0.5, loss=loss
        )
        super().__init__(settings, observers=[*every_checker(), FollowsNothingOlder()])
        self.taken: list[int] = []
        self.mended_at = mended_at
        self.clock.at(PARTED_AT, self._part)
        for at in (PARTED_AT, MENDED_AT - 0.5):
            self.clock.at(at, lambda: self.taken.append(self._reached()))

    def _make_node(self, number: int, keys: ToyKeys) -> SimulatedNode:
        node = super()._make_node(number, keys)
        node.peer = replace(node.peer, addresses=("tcp://192.0.2.1:7301",))
        return node

    def _part(self) -> None:
        hosts = [placed.hosts[0] for placed in self.ruling.coordinator.fleet.queries[0].placements]
        numbers = [self.by_id[host].number for host in hosts]
        for one, other in itertools.pairwise(numbers):
            if one != other:
                pair = frozenset({one, other})
                self._parted[pair] = self._parted.get(pair, 0) + 1
                self.clock.at(self.mended_at, self._mend, self._parted, pair)

    def _last_fault(self) -> float:
        return max(BACK_AT, self.mended_at) + 1.0


@pytest.mark.parametrize(
    ("row", "seeds"),
    [
        ("ecoc", range(1)),
        *(pytest.param(row, MANY, marks=pytest.mark.soak) for row in ("ecoc", "none", "extended-ecoc")),
    ],
)
def test_vertices_that_do_not_reach_each_other_speak_by_way_of_another_node(
    row: str, seeds: range, claim: Claim
) -> None:
    ideal = programs.undisturbed("chain")
    kinds: Counter[str] = Counter()
    passed = came = compared = 0
    for seed in seeds:
        loss = Random(seed).choice((0.0, 0.02)) if seed else 0.0
        world = DetouredWorld(seed, row, loss=loss)
        outcome = world.run(ideal.elements)
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
        assert outcome.digest == ideal.digest, f"seed {seed}"
        assert outcome.passed, f"seed {seed}"
        assert world.taken[1] > world.taken[0], f"seed {seed}: rows wait for the gateway"
        detours = [node.host.calling.lanes.detours() for node in world.nodes]
        assert loss or not any(detours), "the usual lane is used again"
        kinds += outcome.kinds
        passed, came = passed + outcome.passed, came + world.taken[1] - world.taken[0]
        compared += outcome.elements
    claim(
        f"{row}: {len(seeds)} worlds, links between vertices and the gateway gone {dict(kinds)}: {passed} messages by way "
        f"of another node, {came} results meanwhile, {compared} rows compared, digests {outcome.digest} = {ideal.digest}"
    )


def test_without_detours_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "detour", lambda *_: False)
    ideal = programs.undisturbed("chain")
    world = DetouredWorld(0)
    outcome = world.run(ideal.elements)
    assert not outcome.violation
    assert outcome.passed == 0
    assert world.taken[1] - world.taken[0] < 20, "what was on its way"


def test_the_gateway_still_hears_that_they_do_not_reach_each_other_and_moves_one(claim: Claim) -> None:
    ideal = programs.undisturbed("chain")
    world = DetouredWorld(0, mended_at=60.0)
    outcome = world.run(ideal.elements)
    assert not outcome.violation
    assert outcome.digest == ideal.digest
    assert outcome.recoveries
    claim(f"the link stays broken: {outcome.passed} messages by way of another node, {outcome.recoveries} recoveries")
