"""Phones that walk out of their region lose its Wi-Fi at once: they go on over the urgent lane, and hand over."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from shared.hosting.lanes import KNOCK_S
from shared.region.member import REBUILD_S
from tests.claims import Claim
from tests.simulation.peers import regions
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
