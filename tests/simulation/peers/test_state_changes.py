"""Snapshots as what changed since the last one: few bytes, the same results, and whole ones for who takes no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from shared.hosting import instance, keeper, taking
from shared.hosting.kept_snapshot import Assembly, KeptSnapshot
from shared.plan.deployment import Placement
from shared.spool.entry import SpooledBatch
from tests.claims import Claim
from tests.simulation.peers.checkers import Checker, every_checker
from tests.simulation.peers.programs import MANY_FEW, MANY_KEYS, settings, undisturbed
from tests.simulation.peers.world import Outcome, PeerWorld, Settings, SimulatedNode
from tests.simulation.peers.worlds import eager, older

pytestmark = pytest.mark.sim


class Sent(Checker):
    """The snapshots that leave for keepers, in order, and their bytes."""

    def __init__(self) -> None:
        self.snapshots: list[tuple[KeptSnapshot, int]] = []

    def started(self, node: SimulatedNode) -> None:
        snapshots = node.host.snapshots
        snapshots._send = partial(self._note, snapshots._send)

    def _note(self, send: Callable[[str, SpooledBatch], None], to: str, piece: SpooledBatch) -> None:
        whole = Assembly().add(piece.payload)
        assert whole is not None, "it is small enough for one piece"
        self.snapshots.append((KeptSnapshot.decode(whole), len(piece.payload)))
        send(to, piece)

    def bytes(self, *, changes: bool, read: range = range(1 << 20)) -> list[int]:
        """Of those that are changes, or are not, and have read so many elements."""
        return [size for kept, size in self.snapshots if bool(kept.after) is changes and kept.version[1] in read]


def ran(world: Settings) -> tuple[Outcome, Sent, PeerWorld]:
    sent = Sent()
    one = PeerWorld(world, observers=(sent, *every_checker()))
    ideal = undisturbed("many")
    outcome = one.run(ideal.elements)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    return outcome, sent, one


def _placed(world: PeerWorld) -> Placement:
    """The one vertex that keeps state, as it is deployed."""
    deployed = next((node.host.deployed for node in world.nodes if node.up and node.host.deployed is not None), None)
    query = world._first_query() if deployed is None else deployed.queries[0]
    (placed,) = query.placements
    return placed


@pytest.mark.covers("EC-3")
def test_of_much_state_of_which_little_changes_little_is_sent(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    world = settings("many", row="ecoc", every=60, settle_s=30.0)
    outcome, sent, _ = ran(world)
    monkeypatch.setattr(taking, "TAKES_CHANGES", 0)  # keepers of an earlier version
    _, before, _ = ran(world)
    assert not before.bytes(changes=True), "who does not say that it takes changes gets none"
    settled = range(MANY_KEYS + 60, MANY_FEW)  # only five keys change
    small, large = sent.bytes(changes=True, read=settled), before.bytes(changes=False, read=settled)
    assert len(small) >= 3
    assert max(small) < min(large) / 12
    total, total_before = sum(size for _, size in sent.snapshots), sum(size for _, size in before.snapshots)
    assert total < total_before / 3
    claim(
        f"{outcome.elements} rows compared; while 5 of 450 keys change {len(small)} snapshots of at most {max(small)} "
        f"bytes, whole ones have {min(large)} at least; in all {total} bytes and {total_before}"
    )


def test_a_whole_one_follows_when_changes_outweigh_the_last(claim: Claim) -> None:
    """While keys are new, changes grow beyond what they are changes of. What a vertex begins with stays bounded."""
    _, sent, _ = ran(settings("many", row="uncoordinated", every=30, settle_s=30.0))
    (vertex,) = {kept.vertex for kept, _ in sent.snapshots}
    whole = [place for place, (kept, _) in enumerate(sent.snapshots) if not kept.after]
    assert len(whole) > 2
    for first, second in itertools.pairwise(whole):
        changes = sum(sum(map(len, kept.states)) for kept, _ in sent.snapshots[first + 1 : second - 1])
        assert changes <= len(sent.snapshots[first][0].state)
    claim(f"{len(whole)} whole snapshots of {vertex} among {len(sent.snapshots)}")


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 20), marks=pytest.mark.soak)])
def test_a_keeper_that_lost_changes_refuses_the_next_and_gets_a_whole_one(seeds: range, claim: Claim) -> None:
    """Unless the next is a whole one anyway. What has the vertex then is what it would have been."""
    refused = gone = rows = 0
    for seed in seeds:
        outcome, _, one = ran(older("many", "ecoc", seed))
        gone += outcome.kinds["gone"]
        refused += sum(node.host.refused["snapshot-base"] for node in one.nodes)
        rows += outcome.elements
        assert outcome.recoveries
    assert gone > 0.8 * len(seeds), "its newest may be a whole one just then"
    assert refused > gone / 2
    claim(f"{gone} files of changes lost, {refused} snapshots refused, {gone} hosts killed then; {rows} rows compared")


@pytest.mark.parametrize("row", ["ecoc", "extended-ecoc", "uncoordinated"])
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 30), marks=pytest.mark.soak)])
def test_what_was_passed_over_is_in_the_changes_that_go(row: str, seeds: range, claim: Claim) -> None:
    """And in what a vertex begins with whose host was killed."""
    passed = restored = rows = 0
    for seed in seeds:
        outcome, sent, _ = ran(eager("many", row, seed))
        passed += sum(bool(kept.after and kept.onto) for kept, _ in sent.snapshots)
        restored += outcome.recoveries
        rows += outcome.elements
    assert restored
    assert passed or row != "uncoordinated", "others take a mark only when it comes"
    claim(f"{row}: {len(seeds)} worlds, {passed} snapshots with others before them, {restored} recoveries, {rows} rows")


def test_where_one_of_two_keepers_takes_no_changes_both_get_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = taking.Taking.receipt
    monkeypatch.setattr(
        taking.Taking,
        "receipt",
        lambda self, key: replace(receipt(self, key), load=0) if self._here.node == earlier else receipt(self, key),
    )
    world = settings("many", row="ecoc", every=60, settle_s=30.0, copies=2)
    (placed,) = PeerWorld(world)._first_query().placements
    earlier = placed.keepers[1]
    _, sent, _ = ran(world)
    assert sent.snapshots
    assert not sent.bytes(changes=True)


def test_a_snapshot_is_restored_from_no_more_states_than_a_keeper_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (instance, keeper):
        monkeypatch.setattr(module, "STATES_MAX", 4)
    _, sent, one = ran(settings("many", row="ecoc", every=30, settle_s=30.0))
    whole = [place for place, (kept, _) in enumerate(sent.snapshots) if not kept.after]
    assert max(second - first for first, second in itertools.pairwise(whole)) == 4
    assert not sum(node.host.refused["snapshot-chain"] for node in one.nodes)


def test_a_node_that_has_lost_what_it_keeps_of_its_own_keeps_a_whole_one_next() -> None:
    sent = Sent()
    world = PeerWorld(
        settings("many", row="local", every=60, every_s=0.3, settle_s=30.0), observers=(sent, *every_checker())
    )
    host = world.by_id[_placed(world).hosts[0]].host
    while world.clock.run_one(3.0):
        pass
    kept_here = host.here.keeper
    before = kept_here.held()[0]
    assert before.onto, "the last one was stored as changes"
    gone = kept_here.keep_for([], set())
    assert len(gone) == 1 + len(before.onto)
    outcome = world.run(undisturbed("many").elements)
    assert (outcome.violation, outcome.failed, outcome.recoveries) == ("", 0, 0)
    assert outcome.digest == undisturbed("many").digest
    (kept,) = kept_here.held()
    assert kept.version > before.version
