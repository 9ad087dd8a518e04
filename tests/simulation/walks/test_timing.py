"""How soon things go on, in virtual time and with the pacing of real nodes: a phone that is back where it was, and a query
that is deployed again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mobile_app.node import hosting
from shared.sync.receiver import Arrival
from tests.claims import Claim
from tests.simulation.peers import world as peers_world
from tests.simulation.peers.programs import settings
from tests.simulation.peers.world import PeerWorld, Settings, SimulatedNode
from tests.simulation.walks.world import HUBS, PHONES, Step, Walk, WalkWorld, rows_of, walked

pytestmark = pytest.mark.sim
FIRST_BYTE_S = DEPLOYED_S = 1.0
WORKERS = 8


class Returning(WalkWorld):
    """One phone is out of reach for a while; when it first sends rows again is noted."""

    def __init__(self, seed: int, away_s: float) -> None:
        rng = Random(f"returning {seed}")
        self.back_at = round(rng.uniform(1.0, 3.0), 3) + away_s
        self.first_at: float | None = None
        made = Settings(
            walked(), 1_000, rows_of, seed=seed, nodes=7, sources=PHONES, row="ecoc", every=32, batch=8, every_s=0.2
        )
        alone = Step(self.back_at - away_s, 1, frozenset())
        super().__init__(Walk(made, (alone, Step(self.back_at, 1, frozenset(HUBS))), "dynamic", seed))

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        super().carry(sender, to, message, boot)
        with_rows = isinstance(message, Arrival) and not message.handle[2]  # type: ignore[index]
        if sender.number == 1 and to is not sender and with_rows and self.clock.now >= self.back_at:
            self.first_at = self.first_at or self.clock.now

    def first_byte_s(self) -> float:
        """Until rows are on their way again, since the phone is back."""
        while self.first_at is None and self.clock.run_one(self.back_at + 60.0):
            pass
        assert self.first_at is not None, "no rows came"
        return self.first_at - self.back_at


@pytest.mark.covers("NB-10")
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.soak)])
def test_what_a_phone_has_spooled_goes_on_within_a_second_of_its_link(
    seeds: range, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_world, "PACING", hosting.PACING)
    lengths = [Random(f"away {seed}").choice((0.7, 2.0, 5.0, 20.0, 90.0)) + seed % 7 / 7 for seed in seeds]
    took = [Returning(seed, away_s).first_byte_s() for seed, away_s in zip(seeds, lengths, strict=True)]
    claim(
        f"{len(took)} phones back after {min(lengths):.1f} to {max(lengths):.1f} s out of reach: first spooled row sent after "
        f"at most {max(took):.3f} s, half of them {sorted(took)[len(took) // 2]:.3f} s (virtual time, production pacing)"
    )
    assert max(took) < FIRST_BYTE_S


@pytest.mark.covers("NB-11")
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.soak)])
def test_a_query_that_is_deployed_again_is_known_to_eight_nodes_within_a_second(
    seeds: range, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_world, "PACING", hosting.PACING)
    took = []
    for seed in seeds:
        world = PeerWorld(replace(settings("chain", nodes=1 + WORKERS, row="ecoc"), seed=seed, sources=(4,)))
        while world.clock.run_one(3.0 + seed / 20):
            pass
        coordinator = world.nodes[0].machine.coordinator
        assert coordinator is not None
        (query,) = coordinator.fleet.queries
        placed = tuple(replace(one, term=one.term + 1) for one in query.placements)
        coordinator.set_queries([replace(query, placements=placed)])
        decided_at, version = world.clock.now, coordinator.fleet.version
        world.nodes[0].drive()
        while any(node.host.version < version for node in world.nodes) and world.clock.run_one(decided_at + 30):
            pass
        took.append(world.clock.now - decided_at)
        running = [one for node in world.nodes for one in node.host.instances() if one.term == 2]
        assert len(running) == len(placed), "it was deployed again"
    claim(
        f"{len(took)} fleets of {WORKERS} nodes and a coordinator: all have the new deployment after at most "
        f"{max(took):.3f} s (virtual time, production pacing)"
    )
    assert max(took) < DEPLOYED_S
