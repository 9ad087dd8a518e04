"""Regions in a line, each with a Wi-Fi of its own: from one to the next there is cellular alone, and the coordinator."""

from __future__ import annotations

import functools
import itertools

import pytest

from shared.region.member import REBUILD_S
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.governed_regions import GovernedRegions

pytestmark = pytest.mark.sim
REGIONS, PHONES, THRESHOLD = 2, 2, 2
ROWS = 250  # they take longer than a phone may be without its Wi-Fi
WITHIN_S = 40.0


def world_of(*, apart: bool, gateway: bool = False) -> regions.Places:
    kind = GovernedRegions(PHONES, THRESHOLD, rows=ROWS, within_s=WITHIN_S, regions=REGIONS) if gateway else None
    world = kind or regions.RegionsWorld(REGIONS, PHONES, THRESHOLD, rows=ROWS, within_s=WITHIN_S)
    for one, other in itertools.combinations(range(1, 1 + REGIONS * PHONES), 2):
        if apart and (one - 1) // PHONES != (other - 1) // PHONES:
            world._parted[frozenset({one, other})] = 1
    return world


@functools.cache
def undisturbed() -> tuple[int, dict[str, tuple[int, int, str]]]:
    world = world_of(apart=False)
    assert not world.run().violation
    return world._reached(), world.digests()


@pytest.mark.covers("MS-6")
@pytest.mark.parametrize("gateway", [False, True], ids=["by a node", "by a gateway"])
def test_what_one_region_sends_the_next_goes_over_cellular_and_nobody_has_left_for_it(
    gateway: bool, claim: Claim
) -> None:
    expected, ideal = undisturbed()
    world = world_of(apart=True, gateway=gateway)
    outcome = world.run(expected)
    assert not outcome.violation
    claim(
        f"{REGIONS} regions of {PHONES}, {outcome.seconds:.0f} s: {outcome.passed} messages passed on, "
        f"{outcome.moved} vertices handed over, {expected} rows compared, digests {world.digests()} = {ideal}"
    )
    assert outcome.seconds > REBUILD_S + 5.0
    assert world.digests() == ideal
    assert outcome.passed > 0
    assert outcome.moved == 0
    for region in range(REGIONS):
        first = 1 + region * PHONES
        phones = {node.id for node in world.nodes[first : first + PHONES]}
        assert {*world._hosted(f"place{region}").members} == phones, "they are all where they were"
