"""Two queries read the same edges of two phones that walk: what they gather is spooled once, and what becomes of one
query is nothing to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.hosting.coordinate import Coordinator
from shared.hosting.sharing import joining
from shared.plan.deployment import HostedQuery
from tests.claims import Claim
from tests.simulation.peers.checkers import Checker, every_checker
from tests.simulation.peers.world import PeerWorld, Settings
from tests.simulation.walks.world import (
    HUBS,
    PHONES,
    ROWS,
    Step,
    Walk,
    WalkWorld,
    beginning_alike,
    rows_of,
    undisturbed,
    walked,
)

pytestmark = pytest.mark.sim
CHANGES_AT = 2.0
LATER = 9  # the incarnation of a query that was submitted
SETTINGS = Settings(
    walked(), ROWS, rows_of, seed=3, nodes=7, sources=PHONES, row="ecoc", every=32, batch=8, every_s=0.1, within_s=40.0
)
AWAY = tuple(
    Step(at, phone, near) for phone in PHONES for at, near in ((0.4, frozenset()), (8.0, frozenset({HUBS[1]})))
)
Rows = list[tuple[Any, ...]]


class Spooled(Checker):
    """The most that phones had to keep."""

    def __init__(self) -> None:
        self.most = self.edges = 0

    def look(self, world: PeerWorld) -> str:
        held = [world.nodes[phone].spool for phone in PHONES if world.nodes[phone].up]
        self.most = max(self.most, sum(spool.used_bytes for spool in held))
        self.edges = max(self.edges, *(len(spool.statistics().edges) for spool in held))
        return ""


def of(rows: Rows, sink: str) -> Rows:
    return [row for row in rows if row[0] == sink]


def changed(
    gather: str, change: Callable[[WalkWorld, Coordinator], None] | None = None, room: int | None = None
) -> WalkWorld:
    """The world after its time, in which the queries change once."""
    walk = Walk(SETTINGS, () if change else AWAY, "dynamic", 5, other=beginning_alike(gather), room=room)
    world = WalkWorld(walk, observers=[*every_checker(), spooled := Spooled()])
    world.spooled = spooled  # type: ignore[attr-defined]

    def apply() -> None:
        coordinator = world.nodes[0].machine.coordinator
        assert coordinator is not None
        assert change is not None
        change(world, coordinator)
        world.nodes[0].drive()

    if change is not None:
        world.clock.at(CHANGES_AT, apply)
    outcome = world.run()
    assert not outcome.violation
    assert not outcome.lost
    return world


@pytest.mark.covers("NB-24")
def test_rows_that_two_queries_gather_alike_are_spooled_once(claim: Claim) -> None:
    ideal = undisturbed(False, True)
    once, twice = changed("g", room=0), changed("h", room=0)
    assert once.results()[0] == twice.results()[0] == ideal.rows
    one, two = once.spooled, twice.spooled  # type: ignore[attr-defined]
    claim(
        f"2 phones, 2 queries: {one.most} bytes spooled, {two.most} where each gathers for itself; {len(ideal.rows)} rows"
    )
    assert (one.edges, two.edges) == (1, 2)
    assert one.most <= 0.55 * two.most


def without(name: str) -> Callable[[WalkWorld, Coordinator], None]:
    def drop(_: WalkWorld, coordinator: Coordinator) -> None:
        coordinator.set_queries([query for query in coordinator.fleet.queries if query.name != name])

    return drop


@pytest.mark.parametrize(("name", "left"), [("q", "alerts"), ("p", "out")], ids=["the first", "the second"])
def test_when_one_of_them_is_dropped_the_other_goes_on_with_its_rows(name: str, left: str, claim: Claim) -> None:
    world = changed("g", without(name))
    rows, ideal = world.results()[0], undisturbed(False, True).rows
    claim(f"without {name}: {len(rows)} rows compared")
    assert {row[0] for row in rows} == {left}
    assert rows == of(ideal, left)
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    assert {placed.term for query in coordinator.fleet.queries for placed in query.placements} == {1}


def test_one_that_joins_reads_on_from_what_is_there_and_lacks_nothing_behind(claim: Claim) -> None:
    left: list[HostedQuery] = []

    def joins(_: WalkWorld, coordinator: Coordinator) -> None:
        placed = [replace(each, term=LATER) for each in left[0].placements]
        asked = replace(left[0], incarnation=LATER, submitted=True, shared=None, placements=tuple(placed))
        joined = joining(asked, coordinator.fleet.queries)
        assert joined.shared is not None
        coordinator.set_queries([*coordinator.fleet.queries, joined])

    class Later(WalkWorld):
        def _deploy(self) -> None:
            super()._deploy()
            coordinator = self.nodes[0].machine.coordinator
            assert coordinator is not None
            queries = [replace(query, place="", routes=()) for query in coordinator.fleet.queries]
            left.append(queries[1])
            coordinator.set_queries(queries[:1])
            self.clock.at(CHANGES_AT, joins, self, coordinator)

    world = Later(Walk(SETTINGS, (), "dynamic", 5, other=beginning_alike("g")), observers=every_checker())
    outcome = world.run()
    assert not outcome.violation
    assert not outcome.lost, "what the other has read before is no loss"
    rows, ideal = world.results()[0], undisturbed(False, True).rows
    assert of(rows, "out") == of(ideal, "out")
    late, whole = of(rows, "alerts"), of(ideal, "alerts")
    claim(
        f"{len(late)} of {len(whole)} results of a query that joins after {CHANGES_AT:g} s, {len(rows)} rows compared"
    )
    assert 0 < len(late) < len(whole)
    for phone in PHONES:  # from each what was left of it
        mine, all_of_it = ([row[2:] for row in rows if row[3] == world.nodes[phone].id] for rows in (late, whole))
        assert mine
        assert mine == all_of_it[-len(mine) :]
