"""Regions in a line, each with a Wi-Fi of its own: from one to the next there is cellular alone, and the coordinator."""

from __future__ import annotations

import itertools

import pytest

from shared.region.member import REBUILD_S
from tests.claims import Claim
from tests.simulation.peers import regions

pytestmark = pytest.mark.sim
REGIONS, PHONES, THRESHOLD = 2, 3, 2
ROWS = 250  # they take longer than a phone may be without its Wi-Fi


def world_of(*, apart: bool) -> regions.RegionsWorld:
    world = regions.RegionsWorld(REGIONS, PHONES, THRESHOLD, rows=ROWS, within_s=30.0)
    for one, other in itertools.combinations(range(1, 1 + REGIONS * PHONES), 2):
        if apart and (one - 1) // PHONES != (other - 1) // PHONES:
            world._parted[frozenset({one, other})] = 1
    return world


@pytest.mark.covers("MS-6")
def test_what_one_region_sends_the_next_goes_over_cellular_and_nobody_has_left_for_it(claim: Claim) -> None:
    ideal = world_of(apart=False)
    assert not ideal.run().violation
    expected = ideal._reached()
    world = world_of(apart=True)
    outcome = world.run(expected)
    assert not outcome.violation
    claim(
        f"{REGIONS} regions of {PHONES}, {outcome.seconds:.0f} s: {outcome.passed} messages passed on, "
        f"{outcome.moved} vertices handed over, {expected} rows compared, digests {world.digests()} = {ideal.digests()}"
    )
    assert outcome.seconds > REBUILD_S + 5.0
    assert world.digests() == ideal.digests()
    assert outcome.passed > 0
    assert outcome.moved == 0
    for region in range(REGIONS):
        first = 1 + region * PHONES
        phones = {node.id for node in world.nodes[first : first + PHONES]}
        assert {*world._hosted(f"place{region}").members} == phones, "they are all where they were"
