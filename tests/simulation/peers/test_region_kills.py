"""Snapshots that a whole region keeps: any number of its phones may go at once, and nothing of what they did is lost."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from shared.hosting.host import Host
from shared.hosting.state_lane import StateLane
from shared.hosting.wiring import state_edge
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Commit, Home
from shared.region.tree import children
from shared.wire.broadcast import Announce, Announcement, LackedBlocks
from shared.wire.frame import Frame, FrameType
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, Outcome, PeerWorld

pytestmark = pytest.mark.sim
PHONES = 8
(OURS,) = [
    each.row.name for each in STRATEGIES.values() if each.row.home is Home.REGION and each.row.commit is Commit.READERS
]


def killed(count: int, seed: int) -> Outcome:
    """A region of eight, where so many phones but the source's stop in the same moment and do not come back."""
    rng = Random(f"kills {count} {seed}")
    at = rng.uniform(0.4, 1.4)
    gone = rng.sample(range(2, PHONES), count)
    faults = tuple(Fault(at, node, "crash", 400.0) for node in gone)
    world = PeerWorld(
        settings(
            "wide", row=OURS, seed=seed, nodes=PHONES, heard=rng.choice((0.01, 0.1, 0.4)), faults=faults,
            within_s=300.0, every_s=0.1,
        ),
        observers=every_checker(),
    )  # fmt: skip
    world._last_fault = lambda: at  # type: ignore[method-assign]
    return world.run(undisturbed("wide").elements)


@pytest.mark.parametrize(
    ("counts", "seeds"), [((6,), 1), pytest.param(range(1, 7), 12, marks=pytest.mark.soak)], ids=["most", "any"]
)
def test_any_number_of_phones_may_go(counts: range, seeds: int, claim: Claim) -> None:
    ideal = undisturbed("wide")
    for count in counts:
        outcomes = [killed(count, seed) for seed in range(seeds)]
        wrong = [
            f"seed {seed}: {one.violation or f'{one.lost} lost'}"
            for seed, one in enumerate(outcomes)
            if one.violation or one.lost or one.digest != ideal.digest
        ]
        assert not wrong, f"{count} of {PHONES}: " + "; ".join(wrong)
        assert all(one.crashes == count and one.broadcast_bytes for one in outcomes)
        claim(
            f"{count} of {PHONES} phones gone at once, {seeds} times: {sum(one.recoveries for one in outcomes)} recoveries, "
            f"{sum(one.elements for one in outcomes)} rows compared, digests {outcomes[-1].digest} = {ideal.digest}"
        )


def trees(host: Host) -> dict[str, tuple[str, ...]]:
    """By vertex, the order of the tree for its snapshots, as a node has it."""
    query = None if host.deployed is None else next(iter(host.deployed.queries), None)
    placements = () if query is None else query.placements
    edges = {placed.vertex: state_edge(query, placed) for placed in placements if query is not None}
    return {vertex: tuple(each for each in edge.readers if each not in edge.carriers) for vertex, edge in edges.items()}


@pytest.mark.covers("MS-22")
def test_the_tree_is_the_coordinators_and_changes_only_when_somebody_enters_fails_or_leaves(claim: Claim) -> None:
    """One phone is there from 4 s on, one fails at 8 s, one walks away at 12 s."""
    walks = [regions.Walk(0.1, (6,)), regions.Walk(4.0, (6,), away=False), regions.Walk(12.0, (5,))]
    world = regions.RegionsWorld(1, 6, 3, walks, faults=[Fault(8.0, 4, "crash", 400.0)], rows=400, row=OURS)
    seen: list[tuple[float, dict[str, tuple[str, ...]]]] = []
    versions: dict[int, dict[str, tuple[str, ...]]] = {}
    while world.clock.run_one(18.0):
        for node in (each for each in world.nodes if each.up):
            found = versions.setdefault(node.host.version, trees(node.host))
            assert found == trees(node.host), "all who follow a deployment know the same tree"
        now = trees(world.nodes[0].host)
        if now and (not seen or seen[-1][1] != now):
            seen.append((world.clock.now, now))
    for _, found in seen:
        for order in found.values():
            reached = [*children(order, "whoever runs the vertex")]
            for each in reached:
                reached += children(order, each)
            assert sorted(reached) == sorted(order), "it reaches every keeper once"
    at = [each for each, _ in seen]
    assert len(at) < 10
    assert not [each for each in at if 6.5 < each < 8.0 or each > 16.0], "nobody came or went"
    keepers = [{node for order in found.values() for node in order} for _, found in seen]
    came, failed, left = (world.nodes[number].id for number in (6, 4, 5))
    assert came not in keepers[0]
    assert came in keepers[-1]
    assert {failed, left} <= keepers[0]
    assert not {failed, left} & keepers[-1]
    claim(f"{len(versions)} deployments, {len(seen)} trees, at {[round(each, 1) for each in at]} s")


class Fed:
    """Blocks that came in exchanges, by who sent them: whoever runs the vertex, or a node above the one that took them."""

    def __init__(self) -> None:
        self._announced: dict[bytes, Announcement] = {}
        self.blocks: Counter[str] = Counter()
        self.roots: set[str] = set()

    def heard(self, lane: StateLane, frame: Frame) -> None:
        if frame.type is FrameType.ANNOUNCE:
            said = Announce.of(frame).announcement
            self._announced[said.id] = said
            return
        sent = LackedBlocks.of(frame)
        announcement, parent = self._announced[sent.id], sent.device.hex()
        spec = lane._keeper.reads(announcement.key)
        assert spec is not None
        order = [node for node in spec.edge.readers if node not in spec.edge.carriers]
        below = children(order, parent)
        if announcement.sender.hex() == parent:
            self.blocks["the sender to the root" if lane._node in below else "the sender to others, later"] += len(
                sent.blocks
            )
            self.roots.add(order[0])
        else:
            self.blocks["a parent to its child" if lane._node in below else "somebody else"] += len(sent.blocks)


@pytest.mark.covers("MS-22")
def test_what_broadcasting_leaves_over_goes_from_the_sender_to_the_root_and_from_there_to_the_leaves(
    monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    """Four of ten datagrams are not heard, so that all of a snapshot comes to hardly anybody by broadcast."""
    fed, hear = Fed(), StateLane.hear

    def heard(lane: StateLane, frame: Frame, now: float) -> list[bytes]:
        fed.heard(lane, frame)
        return hear(lane, frame, now)

    monkeypatch.setattr(StateLane, "hear", heard)
    setting = settings("wide", row=OURS, seed=1, nodes=PHONES, heard=0.4, within_s=300.0, every_s=0.1)
    outcome = PeerWorld(setting, observers=every_checker()).run(undisturbed("wide").elements)
    assert not outcome.violation
    claim(f"{outcome.broadcast_bytes} bytes broadcast; blocks in exchanges: {dict(sorted(fed.blocks.items()))}")
    assert fed.blocks["the sender to the root"]
    assert fed.blocks["a parent to its child"] > fed.blocks["the sender to the root"]
    assert not fed.blocks["somebody else"]
    assert not fed.blocks["the sender to others, later"], "the tree reaches all in its time"
