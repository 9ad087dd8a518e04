"""The phone that runs a region's entry or exit fails or walks away: another one takes its place, and the regions before
and behind it go on with that one. What had come through counts once, whoever carried it."""

from __future__ import annotations

import functools
import itertools

import pytest

import resurge as rs
from resurge import col
from shared.hosting.wiring import EdgeSpec
from shared.plan.area import Area
from shared.plan.deployment import Feed, HostedQuery, Placement, Region
from shared.plan.graph import Plan
from shared.wire.frame import FrameType
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.checkers import Checker
from tests.simulation.peers.world import FOR_GOOD_S, PeerWorld

pytestmark = pytest.mark.sim
PHONES, MIDDLE, ROWS, AT = 3, "place1", 60, 5.0


class AcrossRegions(Checker):
    """OncePerRegion: of what one region makes for the next, every copy there has each number once and in order, under
    whatever term it came. What a copy has never becomes less while its region runs."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str, int], int] = {}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            if not node.up:
                continue
            for copy in node.host.here.copies.values():
                numbers = [frame for frame in copy.frames() if frame.type is not FrameType.MARK]
                for before, after in itertools.pairwise(numbers):
                    if before.seq + before.count != after.seq:
                        return f"OncePerRegion: {node.name} has {after.seq} behind {before.seq + before.count}"
                name = (node.id, copy.spec.edge.label, node.boot)
                if copy.taken < self._taken.get(name, 0):
                    return f"OncePerRegion: {node.name} had {self._taken[name]} and has {copy.taken}"
                self._taken[name] = copy.taken
        return ""


@functools.cache
def passing_on() -> Plan:
    """A region between two others that keeps no state: its one vertex is its entry and its exit."""
    before = rs.sensor("before", every="100ms", columns={"s": "float64"}).gather("before").key_by()
    return rs.plan_of(before.select(s=col.s * 2).subscribe("out"))


class Line(regions.RegionsWorld):
    """Three regions; the one in the middle keeps no state where `stateless` says so."""

    stateless = False
    struck = 0  # the node that something happened to
    first: dict[str, tuple[str, ...]]  # by vertex of the region in the middle, who ran it then

    def strike(self, vertex: str, *, walks: bool) -> None:
        """Whoever runs a vertex of the region in the middle walks away, or stops for good."""
        self.struck = self.by_id[self.placed(MIDDLE, vertex).hosts[0]].number
        (query,) = [each for each in self.coordinator().fleet.queries if each.name == MIDDLE]
        self.first = {placed.vertex: placed.hosts for placed in query.placements}
        if walks:
            self._walk(regions.Walk(AT, (self.struck,)))
        else:
            self.nodes[self.struck].crash(FOR_GOOD_S)

    def region(self, number: int) -> Region:
        found = super().region(number)
        if number != 1 or not self.stateless:
            return found
        row = self.settings.row
        task = HostedQuery(
            MIDDLE, 1, passing_on(), row, 0 if row == "token" else regions.EVERY, found.task.sources,
            found.task.sink, (), feeds=(Feed("before", "place0", "out"),),
        )  # fmt: skip
        return Region(Area(((regions.APART, 0.0),), 50.0), 1.0, self.threshold, task)

    def placed(self, region: str, vertex: str) -> Placement:
        (query,) = [each for each in self.coordinator().fleet.queries if each.name == region]
        return next(each for each in query.placements if each.vertex == vertex)

    def hops(self) -> list[tuple[EdgeSpec, str]]:
        """The edges between regions, each with the node that really makes it."""
        return [
            (spec, node.name)
            for node in self.nodes
            if node.up
            for one in node.host.instances()
            for spec in one.spec.outputs.values()
            if spec.name.endswith("/out") and one.term == self.placed(one.query, one.vertex).term
        ]


class Stateless(Line):
    stateless = True


@functools.cache
def undisturbed(kind: type[Line], row: str) -> tuple[int, dict[str, tuple[int, int, str]]]:
    world = kind(3, PHONES, 2, rows=ROWS, within_s=14.0, row=row)
    assert not world.run().violation
    return world._reached(), world.digests()


CASES = [(Stateless, "ecoc-region", "out", False)]
MORE = [
    (kind, row, vertex, walks)
    for kind, vertices in ((Line, ("union", "out")), (Stateless, ("out",)))
    for row in ("token", "ecoc-region")
    for vertex in vertices
    for walks in (False, True)
]


@pytest.mark.covers("MS-3", "MS-29")
@pytest.mark.parametrize(
    ("kind", "row", "vertex", "walks"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.soak) for case in MORE if case not in CASES)],
)
def test_an_entry_or_exit_is_replaced_and_both_neighbours_go_on_with_the_new_one(
    kind: type[Line], row: str, vertex: str, walks: bool, claim: Claim
) -> None:
    expected, ideal = undisturbed(kind, row)
    world = kind(3, PHONES, 2, rows=ROWS, within_s=90.0, row=row)
    world.clock.at(AT, functools.partial(world.strike, vertex, walks=walks))
    world.observers = [*world.observers, AcrossRegions()]
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    gone, after = world.nodes[world.struck], world.placed(MIDDLE, vertex)
    assert gone.id not in after.hosts
    queries = {each.name: each for each in world.coordinator().fleet.queries}
    for each in (queries["place0"], queries["place2"]):
        assert {placed.term for placed in each.placements} == {each.incarnation}, "no other region goes back"
    middle = queries[MIDDLE]
    if row == "ecoc-region":
        stayed = {placed.term for placed in middle.placements if placed.hosts == world.first[placed.vertex]}
        assert stayed <= {middle.incarnation}, "nor does what runs elsewhere in this one"
    made = {spec.name: (spec, who) for spec, who in world.hops()}
    entered, left = made["place0/out"][0], made[f"{MIDDLE}/out"]
    assert gone.id not in entered.readers, "the region before sends to the new one"
    assert left[1] != gone.name, "the region behind reads the new one"
    claim(
        f"{row}, {vertex}{'' if kind is Line else ' without state'} {'walks away' if walks else 'fails'}: "
        f"{gone.name} -> {world.by_id[after.hosts[0]].name}, {outcome.crashes} crashes, {outcome.moved} handed over, "
        f"{expected} rows compared, digests {world.digests()} = {ideal}"
    )
    assert bool(outcome.crashes) is not walks
    assert bool(outcome.moved) is walks
