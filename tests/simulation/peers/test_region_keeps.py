"""What each node of a region is, what it keeps and until when, and what a region that goes back begins with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Recovered
from shared.hosting.keeper import cut_of
from shared.plan.deployment import HostedQuery
from shared.region.member import Place
from shared.wire.frame import FrameType
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.checkers import Checker
from tests.simulation.peers.world import PeerWorld, SimulatedNode

pytestmark = pytest.mark.sim
PHONES = 6


class During(Checker):
    """Calls this with every look, until it says something."""

    def __init__(self, looks: Callable[[regions.RegionsWorld], str]) -> None:
        self._looks = looks

    def look(self, world: PeerWorld) -> str:
        return self._looks(world)  # type: ignore[arg-type]


def coordinator_of(world: PeerWorld) -> Coordinator:
    found = world.nodes[0].machine.coordinator
    assert found is not None
    return found


def query_of(world: PeerWorld) -> HostedQuery:
    queries = coordinator_of(world).fleet.queries
    return queries[0] if queries else HostedQuery("none", 0, regions.plan_of(0), "token", 0, (), "", ())


def until(world: regions.RegionsWorld, is_so: Callable[[], bool], within_s: float = 30.0) -> None:
    while not is_so():
        assert world.clock.now < within_s, "it never is"
        assert world.clock.run_one(within_s)


def parts(node: SimulatedNode, number: int) -> set[str]:
    return {part.vertex for part in node.host.here.keeper.cuts() if cut_of(part) == number}


@pytest.mark.covers("MS-1", "MS-16")
def test_every_member_has_the_newest_cut_and_the_rows_behind_it_whether_it_computes_or_is_idle(claim: Claim) -> None:
    world = regions.RegionsWorld(1, PHONES, PHONES, rows=300)
    until(world, lambda: query_of(world).cuts.complete >= 2)
    later = world.clock.now + 1.2  # a camera gives rows twice a second
    until(world, lambda: world.clock.now >= later)
    query, coordinator = query_of(world), coordinator_of(world)
    cut, vertices = query.cuts.complete, {placed.vertex for placed in query.placements}
    hosts = {host for placed in query.placements for host in placed.hosts}
    camera, sink = world.nodes[1].id, world.nodes[0].id
    assert (query.sources, query.sink) == ((camera,), sink)
    assert {*query.members} == {node.id for node in world.nodes[1:]}
    idle = {*query.members} - hosts - {camera}
    assert hosts, "some compute"
    assert len(idle) >= 2, "and some are idle"
    places = {node: coordinator.regions.place("place0", node) for node in query.members}
    assert {node for node, place in places.items() if place is Place.HOSTING} == hosts
    assert {node for node, place in places.items() if place is Place.IDLE} == {*query.members} - hosts
    rows = {}
    for node in world.nodes[1:]:
        assert parts(node, cut) == vertices, f"{node.name} has no part of all that computes"
        (copy,) = {copy.spec.edge.label: copy for copy in node.host.here.copies.values()}.values()
        marks = [each.seq for each in copy.frames() if each.type is FrameType.MARK and each.frontier_us == cut]
        assert marks, f"{node.name} does not know where the cut is in what came"
        rows[node.name] = copy.taken - marks[0]
    assert all(rows.values())
    claim(
        f"{len(hosts)} compute, {len(idle)} are idle, 1 feeds: all {len(rows)} have cut {cut} and so many rows since {rows}"
    )


@pytest.mark.covers("MS-15")
@pytest.mark.parametrize("row", ["token", "ecoc-region"])
def test_only_what_enters_the_region_is_kept_and_until_the_next_cut_is_complete(row: str, claim: Claim) -> None:
    """Under the other row, where every edge keeps what its readers may ask for, the same look finds rows."""
    most: dict[str, int] = {}
    late: list[str] = []

    def look(world: regions.RegionsWorld) -> str:
        cuts = query_of(world).cuts
        for node in world.nodes[1:]:
            for instance in node.host.instances():
                for edge in instance.spec.outputs.values():
                    readings = [node.host.outbox.reading(reader).taken.get(edge.key.edge, 0) for reader in edge.readers]
                    kept = min(readings, default=0) - node.host.outbox.first(edge.key.edge)
                    most[instance.vertex] = max(most.get(instance.vertex, 0), kept)
            for copy in node.host.here.copies.values():
                marks = {each.frontier_us: each.seq for each in copy.frames() if each.type is FrameType.MARK}
                if cuts.complete in marks and copy.first > marks[cuts.complete]:
                    late.append(f"{node.name} gave up rows behind cut {cuts.complete}, which a region may go back to")
        return late[0] if late else ""

    world = regions.RegionsWorld(1, PHONES, PHONES, row=row, within_s=12.0)
    world.observers = [*world.observers, During(look)]
    assert not world.run().violation
    assert most
    if row == "token":
        assert query_of(world).cuts.complete >= 2
        assert not any(most.values()), f"rows that their readers have are kept: {most}"
        firsts = {copy.first for node in world.nodes[1:] for copy in node.host.here.copies.values()}
        assert min(firsts) > 0, "and what came before the newest cut is gone"
    else:
        assert any(most.values()), "its edges keep what readers have"
    claim(f"{row}: at most so many rows that a reader has were kept on an edge between vertices: {most}")


class GoingBack(Checker):
    """What the region began with when it went back, and what was under way then."""

    def __init__(self) -> None:
        self.complete = self.begun = 0
        self.idle: set[str] = set()
        self.terms: dict[str, int] = {}
        self.hosts: dict[str, str] = {}
        self.had: dict[str, set[str]] = {}
        self.moves: dict[str, str] = {}
        self.began: dict[str, int] = {}
        self.versions: set[int] = set()

    def before(self, world: regions.RegionsWorld) -> None:
        query = query_of(world)
        self.complete, self.begun = query.cuts.complete, query.cuts.begun
        hosts = {host for placed in query.placements for host in placed.hosts}
        self.idle = {*query.members} - hosts
        self.hosts = {placed.vertex: placed.hosts[0] for placed in query.placements}
        self.terms = {placed.vertex: placed.term for placed in query.placements}
        self.had = {node.id: parts(node, self.complete) for node in world.nodes if node.up}

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, Recovered) and event.moves and not self.moves:
            self.moves = {vertex: to for vertex, to in event.moves.items() if to != self.hosts[vertex]}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            for instance in node.host.instances() if node.up and self.moves else ():
                if instance.term > self.terms[instance.vertex] and instance.vertex not in self.began:
                    permanent = instance.checkpoints.permanent.id
                    self.began[instance.vertex] = 0 if permanent is None else permanent.number
                    self.versions.add(node.host.version)
        return ""


@pytest.mark.covers("MS-17", "MS-26")
def test_who_fails_while_a_cut_is_under_way_makes_all_go_back_to_the_one_before_and_idle_nodes_take_over(
    claim: Claim,
) -> None:
    back = GoingBack()
    world = regions.RegionsWorld(1, PHONES, 3, rows=150, within_s=60.0)
    world.observers = [*world.observers, back]

    def lacking() -> list[SimulatedNode]:
        """Of a cut of which a vertex has stored its part: nodes with a vertex that has not."""
        cuts = query_of(world).cuts
        if not cuts.complete or cuts.begun == cuts.complete:
            return []
        stored = {
            node: one.checkpoints.stored_cut >= cuts.begun for node in world.nodes for one in node.host.instances()
        }
        return [node for node, has in stored.items() if not has and node.number > 1] if any(stored.values()) else []

    until(world, lambda: bool(lacking()))
    back.before(world)
    victim = lacking()[0]
    held_new = [node.name for node in world.nodes[1:] if parts(node, back.begun)]
    victim.crash(400.0)
    world._last_fault = lambda: 0.0  # type: ignore[method-assign]
    expected, ideal = regions.undisturbed(1, PHONES, 150)
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    assert back.moves, "somebody took over"
    vertices = {placed.vertex for placed in query_of(world).placements}
    assert back.began == dict.fromkeys(vertices, back.complete), "all of them, with the cut before"
    assert back.complete < back.begun
    assert len(back.versions) == 1, "by one deployment: none waits for another"
    assert {*back.moves.values()} <= back.idle, "idle ones first"
    assert all(back.had[node] == vertices for node in back.moves.values()), "from what they had on their own disks"
    claim(
        f"cut {back.begun} was under way and on {len(held_new)} disks in part: {len(vertices)} vertices began again with cut "
        f"{back.complete}, {len(back.moves)} of them on idle nodes; digests {world.digests()} = {ideal}"
    )
