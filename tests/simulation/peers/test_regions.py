"""Regions of 8 to 16 simulated nodes that go back together: half of them stop for good in every phase of a cut, the
coordinator is killed, vertices move. Results are lossless, in order, and each number comes once."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.region.controller import State
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.programs import PROGRAMS, undisturbed
from tests.simulation.peers.worlds import outcome_of

pytestmark = pytest.mark.sim
CASES = [
    (name, world) for world in ("halved", "disturbed", "moving") for name in PROGRAMS if name not in ("sp1", "to_cloud")
]
CASES += [("wide", "large")]
OTHER_ROWS = ("local", "dist-1", "ecoc")
FORMED = [(1, 8), (2, 6), (4, 8)]  # regions in a line, phones in each
WORLDS = range(4000, 4000 + int(os.environ.get("SIM_SEEDS", "120")) // len(FORMED))
MANY = range(3000, 3000 + int(os.environ.get("SIM_SEEDS", "500")) // len(CASES) + 1)


@pytest.mark.covers("MS-11", "MS-13", "MS-14", "MS-15", "MS-16", "MS-17", "MS-26", "MS-27", "T3")
@pytest.mark.parametrize(
    ("name", "world", "seeds"),
    [
        ("chain", "halved", range(5, 6)),
        ("wide", "large", range(1)),
        *(pytest.param(name, world, MANY, marks=pytest.mark.soak) for name, world in CASES),
    ],
)
def test_whatever_part_of_a_region_stops_its_results_are_the_same(
    name: str, world: str, seeds: range, claim: Claim
) -> None:
    ideal = undisturbed(name)
    outcomes = [outcome_of(name, "token", seed, world=world) for seed in seeds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, f"{name}, {world}: " + "; ".join(broken)
    kinds, fired = sum((one.kinds for one in outcomes), Counter()), sum(one.fired for one in outcomes)
    claim(
        f"{name}, {world}: {len(outcomes)} worlds, {fired} faults {dict(sorted(kinds.items()))}, "
        f"{sum(one.crashes for one in outcomes)} crashes, {sum(one.cuts for one in outcomes)} cuts, "
        f"{sum(one.elements for one in outcomes)} rows compared, digests {outcomes[-1].digest} = {ideal.digest}"
    )
    assert fired
    assert sum(one.cuts for one in outcomes)


@pytest.mark.covers("MS-1", "MS-6", "MS-25")
@pytest.mark.parametrize(
    ("row", "count", "phones", "seeds"),
    [
        ("token", 1, 6, range(2, 3)),
        ("ecoc-region", 1, 6, range(4, 5)),
        *(
            pytest.param(row, count, phones, WORLDS, marks=pytest.mark.soak)
            for row in ("token", "ecoc-region")
            for count, phones in FORMED
        ),
    ],
)
def test_phones_come_fail_and_walk_away_and_each_region_gives_the_same_results(
    row: str, count: int, phones: int, seeds: range, claim: Claim
) -> None:
    expected, ideal = regions.undisturbed(count, phones)
    assert expected
    crashes = moved = walked = 0
    for seed in seeds:
        world = regions.disturbed(count, phones, seed, row=row)
        outcome = world.run(expected)
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
        assert world.digests() == ideal, f"seed {seed}"
        crashes, moved, walked = crashes + outcome.crashes, moved + outcome.moved, walked + len(world._away)
    claim(
        f"{row}, {count} regions of {phones}, {len(seeds)} worlds: {crashes} crashes, {walked} away at the end, "
        f"{moved} vertices handed over, {expected} rows compared, digests {world.digests()} = {ideal}"
    )
    assert crashes + moved


@pytest.mark.covers("MS-35")
@pytest.mark.parametrize(
    "row", ["token", "none", "rep-2", "ecoc-region", *(pytest.param(row, marks=pytest.mark.soak) for row in OTHER_ROWS)]
)
def test_half_of_a_region_walks_away_at_once_and_hands_over_under_every_row(row: str, claim: Claim) -> None:
    """No phone has failed, so nothing is lost under rows that keep nothing, either."""
    expected, ideal = regions.undisturbed(1, 6)
    world = regions.RegionsWorld(1, 6, 3, [regions.Walk(4.0, (2, 3, 4))], row=row, within_s=60.0)
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    (query,) = coordinator.fleet.queries
    gone = {world.nodes[number].id for number in (2, 3, 4)}
    assert not gone & {*query.members}, "who has left runs and keeps nothing"
    copies = STRATEGIES[row].row.home is Home.NOWHERE and STRATEGIES[row].row.copies > 1
    assert copies or outcome.moved, "where a copy runs elsewhere nothing has to be handed over"
    assert copies or {one.term for one in query.placements} > {query.incarnation}, "who stays does not go back"
    claim(f"{row}: {outcome.moved} vertices handed over, {expected} rows as without departures")


@pytest.mark.covers("MS-7", "MS-30", "MS-34")
@pytest.mark.parametrize(
    "row", ["token", "ecoc-region", *(pytest.param(row, marks=pytest.mark.soak) for row in OTHER_ROWS)]
)
def test_a_region_with_too_few_phones_is_bypassed_until_they_are_back(row: str, claim: Claim) -> None:
    """The one behind it begins again, with rows of the first one that the other one has read."""
    places = (4, 5, 6)
    walks = [regions.Walk(4.0, places[1:]), regions.Walk(10.0, places[1:], away=False)]
    world = regions.RegionsWorld(3, 3, 2, walks, rows=200, within_s=9.0, row=row)
    outcome = world.run()
    assert not outcome.violation
    assert not outcome.lost, "what the one that was bypassed has read is no loss of the one behind it"
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    running = {query.name: query for query in coordinator.fleet.queries}
    assert running.keys() == {"place0", "place2"}
    assert world.state(1) is State.BYPASSED
    assert [feed.query for feed in running["place2"].feeds] == ["place0"]
    fed = world.taken()["place2"]
    assert fed > 0, "what the first region puts out goes to the third"
    for number in places[1:]:
        names = world.nodes[number].disk.names()
        assert not [name for name in names if name.startswith(("copy-", "kept-"))], "a leaver's copies are gone"
    while world.clock.run_one(13.0):
        pass
    running = {query.name: query for query in coordinator.fleet.queries}
    assert world.state(1) in (State.RUNNING, State.CHECKPOINTING)
    assert [feed.query for feed in running["place2"].feeds] == ["place1"]
    order = [state for _, name, state in world.states if name == "place1" and state is not State.CHECKPOINTING]
    claim(f"{row}: {fed} rows past the bypassed region; its states: {[state.value for state in dict.fromkeys(order)]}")


@pytest.mark.soak
@pytest.mark.covers("MS-8")
def test_four_regions_start_in_the_time_of_one(claim: Claim) -> None:
    def started(count: int) -> float:
        world = regions.RegionsWorld(count, 4, 4, within_s=4.0)
        assert not world.run().violation
        first = {name: at for at, name, state in reversed(world.states) if state is State.RUNNING}
        assert len(first) == count
        return max(first.values())

    one, four = started(1), started(4)
    claim(f"one region runs after {one:.2f} s, the last of four after {four:.2f} s")
    assert four < 2 * one
