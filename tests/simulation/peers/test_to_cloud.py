"""Rows that a fleet computed go to the gateway's log, whoever carries them: exactly once, whatever fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cloud_backend.log.signed_runs import SignedRuns
from shared.hosting.sink import sink_rows
from shared.identity import DeviceId
from shared.wire.frame import FrameType, decode_one, encode
from tests.claims import Claim
from tests.simulation.peers import programs
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.governed import FollowsNothingOlder, GovernedWorld, disturbed
from tests.simulation.peers.world import Outcome

pytestmark = pytest.mark.sim
SOAK_SEEDS = int(os.environ.get("TO_CLOUD_SEEDS", "50"))


class CloudWorld(GovernedWorld):
    """It has come to an end when the log has what the sink has, not before."""

    def _drained(self) -> bool:
        sunk = sum(sink.taken for sink in self.nodes[0].host.sinks()) if self.nodes[0].up else -1
        return super()._drained() and sum(map(len, self.log.rows.values())) == sunk


def run(kind: str, seed: int) -> tuple[Outcome, GovernedWorld]:
    ideal = programs.undisturbed("chain")
    world = CloudWorld(disturbed(kind, seed, "to_cloud"), observers=[*every_checker(), FollowsNothingOlder()])
    return world.run(ideal.elements), world


def sunk(world: GovernedWorld) -> list[tuple[object, ...]]:
    """What the sink node's file has, as the log should have it: number, time and columns."""
    query = world.ruling.coordinator.fleet.queries[0]
    rows, lost = sink_rows(world.nodes[0].disk, query, "out")
    assert not lost
    return [
        (row["number"], row["time_us"], *(row[name] for name in sorted(row.keys() - {"number", "time_us"})))
        for row in rows
    ]


def check(kind: str, seeds: range, claim: Claim) -> None:
    ideal = programs.undisturbed("chain")
    fired = recovered = compared = terms = 0
    for seed in seeds:
        outcome, world = run(kind, seed)
        assert not outcome.violation, f"{kind} {seed}: {outcome.violation}"
        ((key, logged),) = world.log.rows.items()
        assert not world.log.lost, f"{kind} {seed}"
        assert logged == sunk(world), f"{kind} {seed}: the log has something else than the sink"
        assert len(logged) == ideal.elements
        batches = sum(decode_one(frame)[0].type is FrameType.DATA for frame in world.log.frames)
        assert 5 * batches <= len(logged), f"{kind} {seed}: rows that one batch has room for came in {batches}"
        fired, recovered, compared = fired + outcome.fired, recovered + outcome.recoveries, compared + len(logged)
        terms += len(world.log.carriers[key])
    claim(
        f"{kind}: {len(seeds)} seeds, {fired} faults, {recovered} recoveries, {compared} rows in the log equal to the "
        f"sink's, under {terms} terms"
    )
    assert recovered
    if kind == "gateway" or len(seeds) == SOAK_SEEDS:  # where a link is cut, the vertex that syncs seldom moves
        assert terms > len(seeds), "in some world the edge went on elsewhere"


@pytest.mark.parametrize("kind", ["gateway", "cut"])
def test_rows_for_the_cloud_are_logged_once_whoever_carries_them(kind: str, claim: Claim) -> None:
    check(kind, range(1, 3), claim)


def signed_runs(world: GovernedWorld, frames: Sequence[bytes]) -> SignedRuns:
    keys = {DeviceId(bytes.fromhex(peer.node)): peer.public_key for peer in world.ruling.coordinator.fleet.peers}
    signed = SignedRuns(lambda device, message, by: world.gateway_keys.verify(keys[device], message, by))
    for frame in frames:
        signed.take(frame)
    return signed


def test_rows_for_the_cloud_are_signed_by_the_node_that_made_them(
    monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    monkeypatch.setattr("shared.sync.signed_runs.BATCHES_PER_SIGNATURE", 2)
    runs, signers = 0, set()
    for seed in (2, 3):
        outcome, world = run("gateway", seed)
        assert not outcome.violation, f"{seed}: {outcome.violation}"
        signed = signed_runs(world, world.log.frames)
        assert not signed.wrong, f"{seed}: {signed.wrong}"
        assert not signed.unchecked
        runs, signers = runs + signed.runs, signers | {(seed, signer) for signer in signed.signers}
    assert runs
    at = next(place for place, data in enumerate(world.log.frames) if decode_one(data)[0].type is FrameType.DATA)
    altered = replace(decode_one(world.log.frames[at])[0], frontier_us=1)
    (text, *_) = signed_runs(world, [*world.log.frames[:at], encode(altered), *world.log.frames[at + 1 :]]).wrong
    assert any(signer.hex() in text for _, signer in signers)
    assert "is over other batches than these" in text
    claim(f"{runs} runs in {len(signers)} worlds, all over what is in the log; an altered batch is found out")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["gateway", "restore", "cut"])
def test_the_same_over_many_seeds(kind: str, claim: Claim) -> None:
    check(kind, range(SOAK_SEEDS), claim)
