"""A vertex moves because a person wants it to, while it runs.

    asked --> `to` in its placement: its host takes a snapshot now, for its keepers and for the node it goes to
          --> that node has it: hosts and term change in one step. It begins there, and reads again what came since
          --> or that node is silent, the vertex failed meanwhile, or it took too long: `to` goes, nothing has changed

All of it is in the placement, which the coordinator stores before anybody hears of it. So one that was killed midway
goes on, and nobody ever begins with a snapshot that its inputs could not go on from: until the placement says otherwise
the host keeps what came behind the snapshot.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shared.errors import UsageError
from shared.moves import GIVEN_UP, MOVED, PREVIEW, UNDER_WAY, MoveAnswer, MovePreview, MoveRequest
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Deployment, HostedQuery, Peer, Placement
from shared.plan.fragments import Vertex
from shared.plan.placement import device_fragment
from shared.plan.wellformed import operator_references
from shared.recovery.delays import RecoveryTimes
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.wire.status import DeviceStatus, InstanceStatus

ASKED = "asked by a person"
WITHIN_S = 60.0  # a move that is not ready by then is given up: its inputs are kept for it meanwhile
ANSWERS_MAX = 8  # that are remembered
RUNNING = "running"


class MoveEnded(NamedTuple):
    """A move that a person asked for is over."""

    query: str
    vertex: str
    node: str
    why: str  # it was given up; empty: the vertex runs there


@dataclass(frozen=True, slots=True)
class Now:
    """What a coordinator knows at a moment."""

    fleet: Deployment
    status: Callable[[str], DeviceStatus | None]
    alive: frozenset[str]
    apart: frozenset[tuple[str, str]]
    times: RecoveryTimes
    at: float


@dataclass(slots=True)
class Outcome:
    placements: tuple[Placement, ...]
    moved: list[Placement] = field(default_factory=list)
    ended: list[MoveEnded] = field(default_factory=list)


class PlannedMoves:
    """Those under way, and what became of the last ones."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._answers: deque[MoveAnswer] = deque(maxlen=ANSWERS_MAX)

    def answers(self) -> tuple[MoveAnswer, ...]:
        return tuple(self._answers)

    def answered(self, id: str) -> MoveAnswer | None:
        return next((one for one in self._answers if one.request.id == id), None)

    def remember(self, answer: MoveAnswer) -> MoveAnswer:
        self._answers.append(answer)
        return answer

    def next_wake(self) -> float | None:
        return min((since + WITHIN_S for since in self._since.values()), default=None)

    # --- asking ----------------------------------------------------------------------------------------------------

    def ask(self, request: MoveRequest, now: Now) -> tuple[MoveAnswer, Placement | None]:
        """The answer, and the placement that begins the move. UsageError where it cannot be."""
        query = _query(now.fleet, request)
        placed = _placement(query, request)
        to = _node(now.fleet, request.to)
        if placed.to == to.node and not request.dry_run:  # asked twice
            return self.remember(MoveAnswer(request, UNDER_WAY)), None
        placed = _leaving_first(placed, now.fleet, request)
        vertex = next(each for each in region_vertices(query.plan) if each.name == placed.vertex)
        _check(query, vertex, placed, to, now)
        preview = _preview(query, vertex, placed, to, now)
        if request.dry_run:
            return self.remember(MoveAnswer(request, PREVIEW, preview=preview)), None
        self._since[query.name, placed.vertex] = now.at
        return self.remember(MoveAnswer(request, UNDER_WAY, preview=preview)), replace(placed, to=to.node)

    # --- going on --------------------------------------------------------------------------------------------------

    def go_on(self, query: HostedQuery, before: Sequence[Placement], why: str, now: Now) -> Outcome:
        """The placements of a query after its moves have come as far as they can. `before` is what they were before
        failures, which `why` names, were recovered from: that ends a move."""
        outcome = Outcome(query.placements)
        found: list[Placement] = []
        for placed, was in zip(query.placements, before, strict=True):
            after = placed
            if was.to and not placed.to:
                self._end(outcome, query, was, f"the vertex was recovered meanwhile: {why}")
            elif placed.to:
                number = _handed(query, placed, now)
                hopeless = self._hopeless(query, placed, now)
                if hopeless:
                    after = replace(placed, to="")
                    self._end(outcome, query, placed, hopeless)
                elif number is not None:
                    after = _moved(query, placed, number)
                    outcome.moved.append(after)
                    self._end(outcome, query, placed, "")
            found.append(after)
        outcome.placements = tuple(found)
        return outcome

    def _hopeless(self, query: HostedQuery, placed: Placement, now: Now) -> str:
        name = (query.name, placed.vertex)
        since = self._since.setdefault(name, now.at)  # a coordinator that was restarted counts anew
        gone = sorted(set(placed.next_hosts) - now.alive)
        if gone:
            return f"{_name(now.fleet, gone[0])} is silent"
        if now.at - since >= WITHIN_S:
            return f"it was not ready within {WITHIN_S:g} s"
        if _hosting(now.fleet)[placed.to] > _node(now.fleet, placed.to).capacity:
            return f"{_name(now.fleet, placed.to)} has no room any more"
        return ""

    def _end(self, outcome: Outcome, query: HostedQuery, placed: Placement, why: str) -> None:
        self._since.pop((query.name, placed.vertex), None)
        outcome.ended.append(MoveEnded(query.name, placed.vertex, placed.to, why))
        for at, answer in enumerate(self._answers):
            same = (answer.request.query, answer.request.vertex) == (query.name, placed.vertex)
            if same and answer.state == UNDER_WAY:
                self._answers[at] = replace(answer, state=GIVEN_UP if why else MOVED, why=why)


def without_strangers(placements: Sequence[Placement], peers: Sequence[Peer]) -> tuple[Placement, ...]:
    """The same, where a move to a node that has left the fleet is over."""
    known = {peer.node for peer in peers}
    return tuple(replace(each, to="") if each.to not in known else each for each in placements)


def _handed(query: HostedQuery, placed: Placement, now: Now) -> int | None:
    """The snapshot that all who shall run the vertex have, and with which they can go on; None while there is none.

    Its host must have said so while it follows the newest deployment: what it offered before may have been taken
    back."""
    status = now.status(placed.hosts[0])
    if status is None:
        return None
    follows = (
        status.plan if status.deployment is None else status.deployment[1]
    )  # a gateway's nodes have a plan as well
    if follows != now.fleet.version:
        return None
    name = (query.name, placed.vertex, placed.term)
    offered = next((one.number for one in status.offered if (one.query, one.vertex, one.term) == name), None)
    if offered is None:
        return None
    for node in placed.next_hosts:
        heard = now.status(node)
        kept = () if heard is None else heard.kept
        numbers = [one.number for one in kept if (one.query, one.vertex, one.term) == name]
        if not any(number >= offered for number in numbers):
            return None
    return offered


def _moved(query: HostedQuery, placed: Placement, number: int) -> Placement:
    """It runs there from now on. Who kept its snapshots and runs it now no longer keeps them; who ran it does."""
    keepers = tuple(placed.hosts[0] if node == placed.to else node for node in placed.keepers)
    row = STRATEGIES[query.row].row
    kept = row.include is not Include.NOTHING and not row.of_region  # else it begins with this one, or not at all
    return replace(
        placed, hosts=placed.next_hosts, keepers=keepers, term=placed.term + 1, anew=False, to="",
        handed=None if kept else number,
    )  # fmt: skip


# --- what is refused -------------------------------------------------------------------------------------------------


def _query(fleet: Deployment, request: MoveRequest) -> HostedQuery:
    for query in fleet.queries:
        if query.name == request.query:
            return query
    names = ", ".join(query.name for query in fleet.queries) or "none"
    raise UsageError(f"the fleet has no query {request.query!r}; it has: {names}", code="move-query")


def _placement(query: HostedQuery, request: MoveRequest) -> Placement:
    for placed in query.placements:
        if placed.vertex == request.vertex:
            return placed
    device = device_fragment(query.plan)
    begins = {each.name for each in device.outputs} | {each.name for each in device.inputs}
    if request.vertex in begins:
        raise UsageError(
            f"{request.vertex!r} begins on the device whose sensors feed it, and never moves", code="move-source"
        )
    names = ", ".join(placed.vertex for placed in query.placements)
    raise UsageError(f"query {query.name!r} has no vertex {request.vertex!r}; it has: {names}", code="move-vertex")


def _node(fleet: Deployment, name: str) -> Peer:
    for peer in fleet.peers:
        if name in (peer.name, peer.node):
            return peer
    names = ", ".join(peer.name for peer in fleet.peers)
    raise UsageError(f"the fleet has no node {name!r}; it has: {names}", code="move-node")


def _leaving_first(placed: Placement, fleet: Deployment, request: MoveRequest) -> Placement:
    """Of several copies, the one that goes."""
    if not request.leaving:
        return placed
    leaving = _node(fleet, request.leaving)
    if leaving.node not in placed.hosts:
        where = ", ".join(_name(fleet, host) for host in placed.hosts)
        raise UsageError(f"{placed.vertex!r} does not run on {leaving.name}; it runs on {where}", code="move-node")
    return replace(placed, hosts=(leaving.node, *(host for host in placed.hosts if host != leaving.node)))


def _check(query: HostedQuery, vertex: Vertex, placed: Placement, to: Peer, now: Now) -> None:
    if to.node in placed.hosts:
        raise UsageError(f"{placed.vertex!r} runs on {to.name} already", code="move-already-there")
    if placed.to:
        raise UsageError(
            f"{placed.vertex!r} is on its way to {_name(now.fleet, placed.to)}; wait until it is there",
            code="move-under-way",
        )
    for node in (to.node, *placed.hosts):
        if node not in now.alive:
            raise UsageError(f"{_name(now.fleet, node)} is silent; nothing was moved", code="move-silent")
    one = _instance(query, placed, placed.hosts[0], now)
    if one is None or one.state != RUNNING:
        state = "has not said that it runs" if one is None else f"is {one.state}"
        raise UsageError(f"{placed.vertex!r} {state}; it can be moved once it runs", code="move-not-running")
    lacking = sorted(_needed(vertex) - {*to.operators})
    if lacking:
        raise UsageError(
            f"{to.name} lacks the operator type {lacking[0]}, which {placed.vertex!r} needs; install its package there",
            code="move-operator",
        )
    if _hosting(now.fleet)[to.node] >= to.capacity:
        raise UsageError(
            f"{to.name} runs {_hosting(now.fleet)[to.node]} vertices and has room for {to.capacity}; move one of them "
            "first",
            code="move-capacity",
        )
    for node in sorted(_beside(query, vertex)):
        if (to.node, node) in now.apart or (node, to.node) in now.apart:
            raise UsageError(
                f"{to.name} and {_name(now.fleet, node)} do not reach each other; {placed.vertex!r} needs both",
                code="move-unreachable",
            )
    if not to.addresses and any(peer.addresses for peer in now.fleet.peers):
        raise UsageError(f"{to.name} has no address: nobody can send rows there", code="move-unreachable")


def _preview(query: HostedQuery, vertex: Vertex, placed: Placement, to: Peer, now: Now) -> MovePreview:
    planned = replace(placed, to=to.node)
    one = _instance(query, placed, placed.hosts[0], now)
    hosting, leaving = _hosting(now.fleet), _node(now.fleet, placed.hosts[0])
    return MovePreview(
        tuple(_name(now.fleet, node) for node in placed.hosts),
        tuple(_name(now.fleet, node) for node in planned.next_hosts),
        tuple(output.name for output in vertex.fragment.outputs),
        round(now.times.average_s, 1),
        None if one is None else one.snapshot_bytes,
        len(set(planned.state_readers) - {placed.hosts[0]}),
        now.times.measured,
        hosting[to.node] + 1,
        to.capacity,
        hosting[leaving.node] - 1,
        leaving.capacity,
    )


def _instance(query: HostedQuery, placed: Placement, host: str, now: Now) -> InstanceStatus | None:
    status = now.status(host)
    for one in () if status is None else status.instances:
        if (one.query, one.vertex, one.term) == (query.name, placed.vertex, placed.term):
            return one
    return None


def _needed(vertex: Vertex) -> set[str]:
    return {reference for node in vertex.operators for reference in operator_references(node)}


def hosting(queries: Sequence[HostedQuery]) -> Counter[str]:
    """How many vertices each node runs, with those that are on their way to it."""
    placed = [each for query in queries for each in query.placements]
    return Counter([*(host for each in placed for host in each.hosts), *(each.to for each in placed if each.to)])


def _hosting(fleet: Deployment) -> Mapping[str, int]:
    return hosting(fleet.queries)


def _beside(query: HostedQuery, vertex: Vertex) -> set[str]:
    """Nodes that it exchanges elements with."""
    vertices = region_vertices(query.plan)
    made = {output.name for output in vertex.fragment.outputs}
    maker = {output.name: other.name for other in vertices for output in other.fragment.outputs}
    others = {maker[name] for name in vertex.inputs if name in maker}
    others |= {other.name for other in vertices if made & {*other.inputs}}
    found = {host for placed in query.placements if placed.vertex in others - {vertex.name} for host in placed.hosts}
    if any(name not in maker for name in vertex.inputs):
        found |= {*query.sources}
    if any(output.kind == "subscribe" for output in vertex.fragment.outputs):
        found.add(query.sink)
    return found


def _name(fleet: Deployment, node: str) -> str:
    return next((peer.name for peer in fleet.peers if peer.node == node), node[:8])
