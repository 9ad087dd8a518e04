"""How soon a region notices that a phone is gone: pings of the silent, a word of those who send to it, one question back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mobile_app.node import hosting
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Recovered
from shared.identity import DeviceId
from shared.region.controller import State
from tests.claims import Claim
from tests.simulation.peers import regions, world
from tests.simulation.peers.checkers import Checker
from tests.simulation.peers.world import Fault, SimulatedNode

pytestmark = pytest.mark.sim
PHONES = 6


def running(phones: int = PHONES) -> tuple[regions.RegionsWorld, Coordinator, float]:
    """A region that runs, its coordinator, and what time it is."""
    found = regions.RegionsWorld(1, phones, 3, within_s=5.0)
    assert not found.run().violation
    coordinator = found.nodes[0].machine.coordinator
    assert coordinator is not None
    assert found.state(0) in (State.RUNNING, State.CHECKPOINTING)
    return found, coordinator, found.clock.now


def speak(
    world: regions.RegionsWorld, coordinator: Coordinator, numbers: set[int], at: float, missing: str = ""
) -> None:
    for number in numbers:
        node = world.nodes[number]
        status = replace(node.host.status(), unreachable=(missing,) if missing else ())
        coordinator.heard(DeviceId(bytes.fromhex(node.id)), at, status)


@pytest.mark.covers("MS-23")
def test_a_silent_source_is_asked_after_30_seconds_and_given_up_after_10_more() -> None:
    world, coordinator, now = running()
    camera, others = world.nodes[1].id, {*range(2, PHONES + 1)}
    last = coordinator.heard_at(camera)
    assert last is not None
    for at in range(1, 29):
        speak(world, coordinator, others, now + at)
        assert not coordinator.pings(now + at)
    speak(world, coordinator, others, last + 30.5)
    assert coordinator.pings(last + 30.5) == {camera}
    assert camera in coordinator.fleet.regions[0].members
    coordinator.heard(DeviceId(bytes.fromhex(camera)), last + 31.0)
    assert not coordinator.pings(last + 31.5), "it has answered"
    for at in range(32, 61):
        speak(world, coordinator, others, last + at)
    for at in range(61, 71):
        speak(world, coordinator, others, last + at)
        assert coordinator.pings(last + at) == {camera}
        assert camera in coordinator.fleet.regions[0].members
    speak(world, coordinator, others, last + 71.5)
    assert camera not in coordinator.fleet.regions[0].members


@pytest.mark.covers("MS-24")
def test_a_word_of_a_neighbour_counts_after_one_question_and_a_liar_s_does_not() -> None:
    world, coordinator, now = running()
    missed, others = world.nodes[3].id, {1, 2, 4, 5, 6}
    speak(world, coordinator, {2}, now + 0.1, missing=missed)
    assert coordinator.pings(now + 0.1) >= {missed}, "it is asked at once, and those beside it"
    coordinator.heard(DeviceId(bytes.fromhex(missed)), now + 0.2)
    speak(world, coordinator, others - {2}, now + 2.9)
    speak(world, coordinator, {2}, now + 2.9, missing=missed)
    assert not coordinator.pings(now + 2.9)
    coordinator.wake(now + 3.2)
    assert missed in coordinator.fleet.regions[0].members, "it has answered, whatever the other says"
    speak(world, coordinator, {1}, now + 3.3, missing=missed)
    speak(world, coordinator, {2, 4, 5, 6}, now + 5.0)
    speak(world, coordinator, {1}, now + 5.0, missing=missed)
    assert missed in coordinator.fleet.regions[0].members
    coordinator.wake(now + 6.3)
    assert missed not in coordinator.fleet.regions[0].members, "nobody hears it"
    speak(world, coordinator, others, now + 7.0)
    coordinator.wake(now + 9.0)
    assert missed not in coordinator.fleet.regions[0].members, "nor does it count again because nobody sends to it"


@pytest.mark.covers("MS-27")
def test_a_region_goes_back_once_for_two_that_are_missed_one_after_the_other() -> None:
    world, coordinator, now = running()
    hosts = [host for placed in coordinator.fleet.queries[0].placements for host in placed.hosts]
    first, second = [node for node in world.nodes[2:] if node.id in hosts][:2]
    others = {*range(1, PHONES + 1)} - {first.number, second.number}
    coordinator.events()
    speak(world, coordinator, others, now + 0.1, missing=first.id)
    speak(world, coordinator, others | {second.number}, now + 1.0)
    speak(world, coordinator, others, now + 2.0, missing=second.id)
    for at in (3.2, 4.0, 4.9):
        speak(world, coordinator, others, now + at)
        coordinator.wake(now + at)
        assert first.id in coordinator.fleet.regions[0].members, "the other one has not been asked long enough"
    coordinator.wake(now + 5.1)
    assert not {first.id, second.id} & {*coordinator.fleet.regions[0].members}
    went_back = [each for each in coordinator.events() if isinstance(each, Recovered) and each.moves]
    assert len(went_back) == 1
    for at in (6.0, 9.0, 12.0):
        speak(world, coordinator, others, now + at)
    assert not [each for each in coordinator.events() if isinstance(each, Recovered) and each.moves]


class Mended(Checker):
    """When vertices were given other places, and when all of them ran again."""

    def __init__(self) -> None:
        self.decided: float | None = None

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, Recovered) and event.moves and self.decided is None:
            self.decided = node.now


@pytest.mark.covers("MS-24")
@pytest.mark.parametrize("row", ["token", pytest.param("ecoc-region", marks=pytest.mark.soak)])
def test_a_region_goes_on_within_ten_seconds_of_a_failure(
    row: str, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    """With the times that nodes have: from the moment in which a phone stops until results come again."""
    monkeypatch.setattr(world, "PACING", replace(hosting.PACING, window=world.PACING.window))
    first = regions.RegionsWorld(1, PHONES, 3, row=row, rows=300, within_s=5.0)
    assert not first.run().violation
    coordinator = first.nodes[0].machine.coordinator
    assert coordinator is not None
    hosts = {host for placed in coordinator.fleet.queries[0].placements for host in placed.hosts}
    stops = [number for number in range(2, PHONES + 1) if first.nodes[number].id in hosts]
    assert stops, "a phone that is not the camera runs something"
    mended = Mended()
    faults = [Fault(5.0, number, "crash", 400.0) for number in stops]
    found = regions.RegionsWorld(1, PHONES, 3 if len(stops) < 3 else 2, row=row, rows=300, within_s=25.0, faults=faults)
    found.observers = [*found.observers, mended]
    outcome = found.run()
    assert not outcome.violation
    assert outcome.crashes == len(stops)
    assert mended.decided is not None
    claim(
        f"{row}: {len(stops)} of {PHONES} phones stop; decided after {mended.decided - 5.0:.2f} s, "
        f"the longest time without results {outcome.pause_s:.2f} s"
    )
    assert outcome.pause_s <= 10.0
