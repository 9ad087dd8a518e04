"""Deployments that say only what differs, between whole nodes and their coordinator: where the base is not the node's,
and where one of the two is of before there were any, all end with the whole deployment and nothing is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from shared.errors import PeerError
from shared.hosting.coordinate import Coordinator
from shared.identity import DeviceId
from shared.sync.sender import Sender
from shared.wire.frame import Frame
from shared.wire.packed_deployment import NO_BASE, PACKED, PackedDeployment
from shared.wire.status import DeviceStatus
from tests.claims import Claim
from tests.simulation.disk import SimulatedDisk
from tests.simulation.peers import governed, programs
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.governed import GovernedNode, GovernedWorld, outcome_of

pytestmark = pytest.mark.sim
KIND, SEED = "gateway", 1
came: Counter[str] = Counter()  # deployments, by how they came; of the test that runs


class Counting(Sender):
    def _deployment(self, frame: Frame) -> None:
        if frame.payload:
            whole = frame.codec == PACKED and PackedDeployment.of(frame).base == NO_BASE
            came["compressed" if whole else "packed" if frame.codec == PACKED else "as ever"] += 1
        before = len(self._events)
        super()._deployment(frame)
        came.update(getattr(event, "code", "") for event in self._events[before:])


class Older(Counting):
    """Says no base, and cannot read what is packed."""

    def status(self, status: DeviceStatus, follows: bytes = b"") -> None:
        super().status(replace(status, base=""))

    def _deployment(self, frame: Frame) -> None:
        if frame.codec:
            raise PeerError("an older node was sent a packed deployment", code="message-deployment")
        super()._deployment(frame)


class EveryOther(Older):
    def status(self, status: DeviceStatus, follows: bytes = b"") -> None:
        if self._session.device[0] % 2:
            super().status(status)
        else:
            Counting.status(self, status, follows)

    def _deployment(self, frame: Frame) -> None:
        if self._session.device[0] % 2:
            super()._deployment(frame)
        else:
            Counting._deployment(self, frame)


class Forgetful(Counting):
    """Has another deployment than the one that it said it follows."""

    def status(self, status: DeviceStatus, follows: bytes = b"") -> None:
        super().status(status, follows and follows[:-1])


class OlderCoordinator(Coordinator):
    """Does not know `base`."""

    def heard(self, device: DeviceId, now: float, status: DeviceStatus | None = None) -> None:
        super().heard(device, now, status and replace(status, base=""))


def run(monkeypatch: pytest.MonkeyPatch, claim: Claim, sender: type[Sender], coordinator: type[Coordinator]) -> None:
    came.clear()
    monkeypatch.setattr(governed, "Sender", sender)
    monkeypatch.setattr(governed, "Coordinator", coordinator)
    outcome, world = outcome_of(KIND, SEED)
    claim(f"{sender.__name__} nodes of a {coordinator.__name__}: {dict(sorted(came.items()))}")
    assert not outcome.violation
    assert outcome.fired
    assert outcome.recoveries, "there was something to deploy again"
    fleet = world.ruling.coordinator.fleet
    assert all(node.host.follows == (fleet.lease, fleet.version) for node in world.nodes if node.up)


def test_nodes_that_follow_something_get_what_differs(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    run(monkeypatch, claim, Counting, Coordinator)
    assert came["packed"]
    assert not came["message-deployment-base"]


def test_a_node_whose_base_is_another_refuses_and_gets_the_whole(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    run(monkeypatch, claim, Forgetful, Coordinator)
    assert came["message-deployment-base"] == came["packed"] > 0
    assert came["compressed"] >= 2, "what was refused twice came whole"


def test_older_nodes_get_whole_ones_of_a_newer_coordinator(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    run(monkeypatch, claim, Older, Coordinator)
    assert came["as ever"]
    assert not came["packed"] + came["compressed"]


def test_older_and_newer_nodes_are_of_one_fleet(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    run(monkeypatch, claim, EveryOther, Coordinator)
    assert came["as ever"]
    assert came["packed"]


def test_newer_nodes_follow_an_older_coordinator(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    run(monkeypatch, claim, Counting, OlderCoordinator)
    assert came["as ever"]
    assert not came["packed"] + came["compressed"]


def test_a_node_that_lost_all_that_it_stored_gets_the_whole(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    """It hosts nothing then: what it would have to bring back is another promise."""
    came.clear()
    monkeypatch.setattr(governed, "Sender", Counting)
    world = GovernedWorld(programs.settings("chain", row="ecoc", seed=SEED, settle_s=30.0), observers=every_checker())
    while world.clock.run_one(3.0):
        pass
    (query,) = world.ruling.coordinator.fleet.queries
    used = {query.sink, *query.sources, *(each for one in query.placements for each in (*one.hosts, *one.keepers))}
    node = next(each for each in world.nodes if each.id not in used)
    assert isinstance(node, GovernedNode)
    node.crash(0.5)
    node.disk = SimulatedDisk(world.rng)
    came.clear()
    outcome = world.run(programs.undisturbed("chain").elements)
    claim(f"{node.name} lost its disk: {dict(came)}")
    assert not outcome.violation
    assert came["compressed"] == 1
    fleet = world.ruling.coordinator.fleet
    assert node.host.follows == (fleet.lease, fleet.version)
    assert outcome.digest == programs.undisturbed("chain").digest
