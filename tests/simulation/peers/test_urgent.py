"""Phones that walk out of their region lose its Wi-Fi at once: they go on over the urgent lane, and hand over."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from shared.hosting.lanes import KNOCK_S
from shared.hosting.passed_by_gateway import GatewayPassing
from shared.region.member import REBUILD_S
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.governed_regions import GovernedRegions
from tests.simulation.peers.world import FOR_GOOD_S, Fault

pytestmark = pytest.mark.sim
BREAKS_AT, SAYS_AT = 4.0, 8.0
ROWS = 120
WORLDS = range(int(os.environ.get("SIM_SEEDS", "120")))


def world_of(
    gone: Sequence[int], *, away: bool = True, wifi_s: float = FOR_GOOD_S, within_s: float = 60.0
) -> regions.RegionsWorld:
    """One region of six. The Wi-Fi of these phones breaks; some seconds later they say that they are elsewhere."""
    faults = [Fault(BREAKS_AT, node, "wifi", wifi_s) for node in gone]
    walks = [regions.Walk(SAYS_AT, tuple(gone))] if away else []
    world = regions.RegionsWorld(1, 6, 3, walks, faults=faults, rows=ROWS, within_s=within_s)
    world._last_fault = lambda: BREAKS_AT  # type: ignore[method-assign] # for good
    world.observers = [*world.observers, regions.Strays()]
    return world


@pytest.mark.covers("MS-31", "MS-33")
@pytest.mark.parametrize("gone", [(4,), (6,), (3, 4, 6)])
def test_phones_that_lose_the_wifi_go_on_and_hand_over_without_going_back(gone: Sequence[int], claim: Claim) -> None:
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    world = world_of(gone)
    had: list[int] = []
    for at in (BREAKS_AT + 0.1, SAYS_AT):
        world.clock.at(at, lambda: had.append(world._reached()))
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    assert had[1] > had[0] + 5, "results came over the urgent lane, before anybody took over"
    assert outcome.moved == len({4, 6} & {*gone}), "each vertex was handed over"
    assert not {world.nodes[number].id for number in gone} & {*world._hosted("place0").members}
    assert outcome.pause_s < 4.0
    claim(
        f"{len(gone)} of 6 phones without Wi-Fi, faults {dict(outcome.kinds)}: {had[1] - had[0]} results before the "
        f"hand-over, {outcome.passed} messages passed on, {outcome.moved} vertices handed over, the longest pause "
        f"{outcome.pause_s:.1f} s, digests {world.digests()} = {ideal}"
    )


@pytest.mark.covers("MS-31")
def test_who_is_inside_is_waited_for_and_returns_to_the_usual_lane(claim: Claim) -> None:
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    world = world_of((4,), away=False, wifi_s=7.0)
    passed: list[int] = []
    world.clock.at(BREAKS_AT + 7.0 + KNOCK_S + 0.5, lambda: passed.append(world.outcome.passed))
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    assert outcome.moved == 0
    assert passed
    assert outcome.passed == passed[0] > 0, "nothing goes by way of the coordinator any more"
    assert not [node.host.status().urgent for node in world.nodes if node.host.status().urgent]
    claim(f"7 s without Wi-Fi inside: {outcome.passed} messages passed on, nothing moved, digests as undisturbed")


@pytest.mark.covers("MS-31")
def test_who_is_inside_and_stays_on_the_urgent_lane_hands_over_after_a_while(claim: Claim) -> None:
    world = world_of((4,), away=False, within_s=BREAKS_AT + REBUILD_S + 10.0)
    moved: list[int] = []
    world.clock.at(BREAKS_AT + REBUILD_S, lambda: moved.append(world.outcome.moved))
    outcome = world.run()
    assert not outcome.violation
    assert (moved, outcome.moved) == ([0], 1)
    assert world.digests() == regions.undisturbed(1, 6, ROWS)[1]
    claim(f"handed over after {REBUILD_S:.0f} s, not before, and no other member with it")


@pytest.mark.covers("MS-33")
@pytest.mark.parametrize("seeds", [range(2, 4), pytest.param(WORLDS, marks=pytest.mark.soak)])
def test_whoever_loses_the_wifi_and_whenever_nobody_goes_back(seeds: range, claim: Claim) -> None:
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    worlds = [regions.without_wifi(seed, ROWS) for seed in seeds]
    outcomes = [world.run(expected) for world in worlds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, "; ".join(broken)
    assert {str(world.digests()) for world in worlds} == {str(ideal)}
    moved, passed = (sum(getattr(one, name) for one in outcomes) for name in ("moved", "passed"))
    assert moved
    assert passed
    claim(
        f"{len(worlds)} worlds, {sum(one.fired for one in outcomes)} phones lost the Wi-Fi: {passed} messages passed on, "
        f"{moved} vertices handed over, none went back, the longest pause {max(one.pause_s for one in outcomes):.1f} s, "
        f"digests {ideal}"
    )


LATER = 4.0  # a gateway hears of everything a little later, so does its region begin


def governed(gone: Sequence[int], *, away: bool = True, wifi_s: float = FOR_GOOD_S, seed: int = 0) -> GovernedRegions:
    """The same region, where a gateway coordinates: who has lost the Wi-Fi reaches nothing else."""
    faults = [Fault(BREAKS_AT + LATER, node, "wifi", wifi_s) for node in gone]
    walks = [regions.Walk(SAYS_AT + LATER, tuple(gone))] if away else []
    world = GovernedRegions(6, 3, walks, faults=faults, rows=ROWS, seed=seed)
    world._last_fault = lambda: BREAKS_AT + LATER  # type: ignore[method-assign]
    return world


@pytest.mark.covers("MS-31", "MS-33")
@pytest.mark.parametrize(
    ("gone", "seeds"),
    [((4,), range(1)), ((3, 4, 6), range(1)), pytest.param((3, 4, 6), WORLDS, marks=pytest.mark.soak)],
)
def test_under_a_gateway_phones_that_lose_the_wifi_go_on_by_way_of_it_and_hand_over(
    gone: Sequence[int], seeds: range, claim: Claim
) -> None:
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    came = passed = moved = 0
    pause_s = 0.0
    for seed in seeds:
        world = governed(gone, seed=seed)
        had: list[int] = []
        for at in (BREAKS_AT + LATER + 0.1, SAYS_AT + LATER):
            world.clock.at(at, lambda world=world, had=had: had.append(world._reached()))
        outcome = world.run(expected)
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
        assert not world.gone_back, f"seed {seed}"
        assert world.digests() == ideal, f"seed {seed}"
        assert had[1] > had[0] + 5, "results came by way of the gateway, before anybody took over"
        assert outcome.moved
        assert not {world.nodes[number].id for number in gone} & {*world._hosted("place0").members}
        assert not world.ruling.unpassed
        came, passed, moved = came + had[1] - had[0], passed + outcome.passed, moved + outcome.moved
        pause_s = max(pause_s, outcome.pause_s)
    claim(
        f"{len(seeds)} worlds, {len(gone)} of 6 phones on cellular alone: {came} results before the hand-over, {passed} "
        f"messages passed on by the gateway, {moved} vertices handed over, nobody went back, the longest pause "
        f"{pause_s:.1f} s, {expected} rows compared in each, digests {world.digests()} = {ideal}"
    )


@pytest.mark.covers("MS-31")
def test_under_a_gateway_who_is_inside_returns_to_the_usual_lane(claim: Claim) -> None:
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    world = governed((4,), away=False, wifi_s=5.0)
    passed: list[int] = []
    world.clock.at(BREAKS_AT + LATER + 5.0 + KNOCK_S + 0.5, lambda: passed.append(world.outcome.passed))
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    assert outcome.moved == 0
    assert outcome.passed == passed[0] > 0, "nothing goes by way of the gateway any more"
    claim(f"5 s without Wi-Fi inside: {outcome.passed} messages passed on by the gateway, nothing moved")


def test_a_gateway_that_does_not_say_so_passes_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier one would refuse whole exchanges with what it does not know."""
    monkeypatch.setattr(GatewayPassing, "offered", lambda *_: None)
    expected, ideal = regions.undisturbed(1, 6, ROWS)
    world = governed((4,))
    outcome = world.run(expected)
    assert outcome.passed == world.ruling.unpassed == 0
    assert world.digests() == ideal
