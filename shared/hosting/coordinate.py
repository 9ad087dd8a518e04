"""Who runs what: a fleet of nodes, the queries they share, and what to do when a node is silent or a vertex fails.

The coordinator is never in the data's way. It hears every node's STATUS, judges silence, and answers with whole
deployments: what a node should do, not what it should change. All it decides is one new fleet, stored before anybody is
told of it. So a coordinator that is killed midway says the same again, and a node that missed a deployment gets the
newest one.

    running --FAILED or LOST in a STATUS, or its host silent--> the strategy's recovery plan --> new placements, terms
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared.errors import DamagedData, PeerError, UsageError
from shared.hosting.wiring import wire
from shared.identity import DeviceId
from shared.moves import Move
from shared.plan.cuts import region_vertices
from shared.plan.deployment import (
    MOVES_MAX,
    Deployment,
    HostedQuery,
    Peer,
    Placement,
    decode_deployment,
    encode_deployment,
)
from shared.plan.wellformed import operator_references
from shared.recovery.delays import SILENCE_S, SILENCE_S_MIN, RecoveryTimes, delay_left_s, silence_allowed_s
from shared.recovery.executor import carry_out
from shared.recovery.failures import RESTARTS_MAX, Failure, HostsFailed, OperatorFailed, StreamFailed, View
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include
from shared.sync.step import Step
from shared.wire.messages import Hint, PlanMessage
from shared.wire.status import DeviceStatus, InstanceStatus, clean_text

START_S = 30.0  # so much later if it has not spoken since the coordinator started: it may be starting, too
PATIENCE_S = 60.0  # that a failed vertex waits for a silent node which has its newest snapshot
# So much longer two live nodes may not reach each other, unless a promise says otherwise: losses look like that, and
# moving costs more.
LINK_SILENCES = 3
RESTART_S, RESTART_S_MAX = 1.0, 60.0  # between two starts of a vertex that fails again and again
FORGIVEN_S = 120.0  # that it must run to count as never failed
STARTING, RUNNING, FAILED, BEHIND = "starting", "running", "failed", "behind"
MOVES_SENT = 16  # of the moves it remembers, so many go to every node: enough for somebody who looks there


@dataclass(frozen=True, slots=True)
class StoreFleet:
    """Replace what the coordinator remembers."""

    data: bytes


class Recovered(NamedTuple):
    """Vertices were given new places or terms, and why."""

    at: float
    query: str
    moves: Mapping[str, str]  # vertex -> node
    why: str


class Waits(NamedTuple):
    """How long a query's vertices stay on a silent node, and what that follows from."""

    query: str
    silence_s: float
    delay_s: float | None  # that its contract leaves for the way through the region; None: it promises none
    recovery_s: float  # that a recovery takes here


class Unplaced(NamedTuple):
    """No node can run these: they wait."""

    query: str
    vertices: tuple[str, ...]
    why: str


@dataclass(slots=True)
class _Heard:
    at: float
    status: DeviceStatus


@dataclass(slots=True)
class _Tried:
    """How often a failing vertex was started again, and when it may be once more."""

    at: float
    count: int = 0
    term: int = 0
    next_at: float = 0.0


class Coordinator:
    """Keeps one fleet. A `Downlink` for the nodes that call: it gives each its deployment."""

    def __init__(
        self,
        node: str,
        sign: Callable[[bytes], bytes],
        *,
        stored: bytes = b"",
        lease: int = 1,
        silence_s: float = SILENCE_S,
        silence_s_min: float = SILENCE_S_MIN,
        patience_s: float = PATIENCE_S,
        now: float = 0.0,
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        """`stored` is what StoreFleet stored; every start takes a higher lease than all before it. `silence_s` is for
        queries that promise no delay. `clock_us` is the time that people read in the history of moves; without it they
        read `now`."""
        self._node = node
        self._sign = sign
        self._silence_s, self._silence_s_min, self._patience_s = silence_s, silence_s_min, patience_s
        self._clock_us = clock_us
        self._times = RecoveryTimes()
        self._left_s: dict[str, float | None] = {}  # by query, what its contract leaves
        self._lacking: dict[tuple[str, str], float] = {}  # since when a vertex waits for a node that has its snapshot
        self._too_old: dict[tuple[str, str], tuple[int, int]] = {}  # the newest snapshot that was not new enough
        self._said_waiting: tuple[str, tuple[str, ...]] | None = None
        self._tried: dict[tuple[str, str], _Tried] = {}
        self._apart: dict[tuple[str, str], float] = {}  # (node, node it does not reach) -> since when
        self._judged_at = now
        self._fleet = Deployment(node, 0, lease, (), ())
        if stored:
            self._fleet = _decoded(stored)
            self._fleet = replace(self._fleet, lease=self._fleet.lease + 1)
        self._heard: dict[str, _Heard] = {}
        self._since = now  # nobody is silent before there was time to speak
        self._persist: list[StoreFleet] = []
        self._events: list[object] = []
        self._messages: dict[tuple[str, int], PlanMessage] = {}
        if stored:
            self._store()

    @property
    def fleet(self) -> Deployment:
        return self._fleet

    def set_fleet(self, peers: Sequence[Peer], queries: Sequence[HostedQuery]) -> None:
        """These nodes and queries from now on. UsageError, and nothing changes, where they contradict each other.

        Placements of a query that runs already are the coordinator's own affair: they stay."""
        running = {(query.name, query.incarnation): query for query in self._fleet.queries}
        merged = []
        for query in queries:
            before = running.get((query.name, query.incarnation))
            same = before is not None and {one.vertex for one in before.placements} == {
                one.vertex for one in query.placements
            }
            merged.append(replace(query, placements=before.placements) if before is not None and same else query)
        fleet = replace(self._fleet, peers=tuple(peers), queries=tuple(merged))
        if self._fleet.version and (fleet.peers, fleet.queries) == (self._fleet.peers, self._fleet.queries):
            return
        fleet = replace(fleet, version=fleet.version + 1)
        wire(decode_deployment(encode_deployment(fleet)))
        self._fleet = fleet
        self._left_s.clear()
        self._store()

    def heard(self, device: DeviceId, now: float, status: DeviceStatus | None = None) -> None:
        """A node has spoken, and perhaps said how it is."""
        node = device.hex()
        before = self._heard.get(node)
        self._heard[node] = _Heard(now, status or (DeviceStatus() if before is None else before.status))
        if status is not None:
            self._judge(now)

    def wake(self, now: float) -> None:
        self._judge(now)

    def next_wake(self) -> float | None:
        """When the next node or link would be silent for too long, or a vertex has waited long enough."""
        times = [since + self._patience_s for since in self._lacking.values()]
        times += [tried.next_at for tried in self._tried.values()]
        if self._has_unheard():
            times.append(self._since + self._silence_s)
        silences = {self._silence_s, *(waits.silence_s for waits in self.waits())}
        links = {LINK_SILENCES * self._silence_s, *silences}
        times += [since + link_s for since in self._apart.values() for link_s in links]
        last = [self._last_heard(peer.node) for peer in self._fleet.peers if peer.node != self._node]
        times += [heard_at + silence_s for heard_at in last for silence_s in silences]
        return min((time for time in times if time > self._judged_at), default=None)

    def step(self) -> Step[StoreFleet, object]:
        persist, self._persist = tuple(self._persist[-1:]), []
        return Step(persist)

    def events(self) -> list[object]:
        events, self._events = self._events, []
        return events

    def deployment(self, node: str) -> tuple[Deployment, bytes]:
        """What this node should do."""
        deployment = replace(self._fleet, node=node, moves=self._fleet.moves[-MOVES_SENT:])
        return deployment, encode_deployment(deployment)

    def waits(self) -> list[Waits]:
        """For each query, how long a node may say nothing."""
        found, recovery_s = [], self._times.average_s
        for query in self._fleet.queries:
            if query.name not in self._left_s:
                self._left_s[query.name] = delay_left_s(query.plan)
            left_s = self._left_s[query.name]
            silence_s = silence_allowed_s(left_s, recovery_s, usual_s=self._silence_s, least_s=self._silence_s_min)
            found.append(Waits(query.name, silence_s, left_s, recovery_s))
        return found

    def alive(self, now: float, silence_s: float | None = None) -> frozenset[str]:
        """The nodes that were heard of within this time; without one, the usual."""
        within_s = self._silence_s if silence_s is None else silence_s
        return frozenset(
            peer.node
            for peer in self._fleet.peers
            if peer.node == self._node or now - self._last_heard(peer.node) < within_s
        )

    def status(self, node: str) -> DeviceStatus | None:
        heard = self._heard.get(node)
        return None if heard is None else heard.status

    def heard_at(self, node: str) -> float | None:
        """When a node spoke last; None when it did not since the coordinator started."""
        heard = self._heard.get(node)
        return None if heard is None else heard.at

    def lacks_snapshot(self, query: str, vertex: str) -> bool:
        """Whether a vertex waits for a node that has a new enough snapshot of it."""
        return (query, vertex) in self._lacking

    # --- as a downlink ---------------------------------------------------------------------------------------

    def plan(self, device: DeviceId, newer_than: int, operators: frozenset[str] | None) -> PlanMessage | None:  # noqa: ARG002
        node = device.hex()
        if self._fleet.version <= newer_than or all(peer.node != node for peer in self._fleet.peers):
            return None
        key = (node, self._fleet.version)
        message = self._messages.get(key)
        if message is None:
            _, encoded = self.deployment(node)
            signed = PlanMessage.signed(self._fleet.version, encoded)
            message = self._messages[key] = PlanMessage(device, self._fleet.version, encoded, self._sign(signed))
        return message

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:  # noqa: ARG002
        return ()

    def hint(self, device: DeviceId) -> Hint | None:  # noqa: ARG002
        return None

    # --- failures --------------------------------------------------------------------------------------------

    def _has_unheard(self) -> bool:
        """Whether a node has not spoken since this coordinator started."""
        return any(peer.node not in self._heard for peer in self._fleet.peers if peer.node != self._node)

    def _last_heard(self, node: str) -> float:
        heard = self._heard.get(node)
        return self._since + START_S if heard is None else heard.at

    def _judge(self, now: float) -> None:
        self._judged_at = now
        self._note_apart(self.alive(now), now)
        queries = list(self._fleet.queries)
        moved: list[Move] = []
        for place, (query, waits) in enumerate(zip(queries, self.waits(), strict=True)):
            found, why = self._recovered(query, queries, waits, now)
            if found == query.placements:
                continue
            queries[place] = replace(query, placements=found)
            before = {one.vertex: one for one in query.placements}
            moves = {one.vertex: one.hosts[0] for one in found if one.term > before[one.vertex].term}
            for one in found:
                if one.vertex in moves:
                    self._times.began(query.name, one.vertex, one.term, now)
            reason = "; ".join(sorted(set(why)))
            self._events.append(Recovered(now, query.name, moves, reason))
            at_us = round(now * 1e6) if self._clock_us is None else self._clock_us()
            moved += [
                Move(at_us, query.name, one.vertex, one.term, self._names(before[one.vertex].hosts),
                     self._names(one.hosts), clean_text(reason) or "no reason was given")
                for one in found if one.vertex in moves
            ]  # fmt: skip
        if queries != list(self._fleet.queries):
            self._fleet = replace(
                self._fleet, version=self._fleet.version + 1, queries=tuple(queries),
                moves=(*self._fleet.moves, *moved)[-MOVES_MAX:],
            )  # fmt: skip
            self._store()

    def _recovered(
        self, query: HostedQuery, queries: Sequence[HostedQuery], waits: Waits, now: float
    ) -> tuple[tuple[Placement, ...], list[str]]:
        """The placements after one failure after the other was recovered from, and what failed."""
        not_lost = self.alive(now, waits.silence_s)
        alive = not_lost & self.alive(now)  # nobody is sent to a node that is only not given up yet
        strategy = STRATEGIES[query.row]
        why: list[str] = []
        waiting: set[str] = set()
        placements = query.placements
        for failure, reason in self._failures(query, waits, not_lost, now):
            current = replace(query, placements=placements)
            view, short = self._view(current, queries, alive, failure, now)
            waiting |= short
            plan = strategy.recover(failure, view)
            after = {placed.vertex: placed for placed in carry_out(plan, placements)}
            found = []
            for before in placements:
                placed = after.get(before.vertex, before)
                goes = before.vertex not in short and alive & {*placed.hosts}
                found.append(placed if goes else before)
            if tuple(found) != placements:
                placements = tuple(found)
                why.append(reason)
        if waiting and (query.name, tuple(sorted(waiting))) != self._said_waiting:
            self._said_waiting = (query.name, tuple(sorted(waiting)))
            self._events.append(Unplaced(*self._said_waiting, "only silent nodes have its snapshot"))
        return placements, why

    def _failures(
        self, query: HostedQuery, waits: Waits, alive: frozenset[str], now: float
    ) -> list[tuple[Failure, str]]:
        """What is not as it was placed, and why: nodes first, then vertices, then links."""
        found: list[tuple[Failure, str]] = []
        silent = {node for placed in query.placements for node in (*placed.hosts, *placed.keepers)} - alive
        row, others = STRATEGIES[query.row].row, len(alive) - 1
        wanted = {Home.PEERS: min(row.copies, others), Home.REGION: others}.get(row.home, 0)
        if silent or any(len(placed.keepers) < wanted for placed in query.placements):
            names = ", ".join(sorted(map(self._name, silent)))
            why = f"{names} is silent for {waits.silence_s:.3g} s" if silent else "too few keepers"
            found.append((HostsFailed(frozenset(silent)), why))
        for placed in query.placements:
            for host in placed.hosts:
                one = self._instance(query.name, placed, host) if host in alive else None
                if one is None:
                    continue
                if one.state == RUNNING:
                    self._worked(query.name, placed, now)
                elif one.state != STARTING and (restarts := self._restarts(query.name, one, now)) is not None:
                    why = f"{placed.vertex!r} {one.state} on {self._name(host)}: {one.why}"
                    found.append((OperatorFailed(placed.vertex, restarts, host), why))
        link_s = waits.silence_s if waits.delay_s is not None else LINK_SILENCES * self._silence_s
        for (writer, reader), since in sorted(self._apart.items()):
            if now - since >= link_s:
                why = f"{self._name(writer)} does not reach {self._name(reader)}"
                found.append((StreamFailed(writer, reader), why))
        return found

    def _instance(self, query: str, placed: Placement, host: str) -> InstanceStatus | None:
        status = self.status(host)
        for one in () if status is None else status.instances:
            if (one.query, one.vertex, one.term) == (query, placed.vertex, placed.term):
                return one
        return None

    def _worked(self, query: str, placed: Placement, now: float) -> None:
        """It runs: after a while it counts as never failed."""
        name = (query, placed.vertex)
        self._times.runs(*name, placed.term, now)
        self._lacking.pop(name, None)
        self._too_old.pop(name, None)
        tried = self._tried.get(name)
        if tried is not None and now - tried.at > FORGIVEN_S:
            del self._tried[name]

    def _restarts(self, query: str, one: InstanceStatus, now: float) -> int | None:
        """How often a failing vertex was started again; None while it is too early for the next time. What its node
        lost in a restart, or began with too old a snapshot, is not the vertex's fault."""
        if one.state != FAILED:
            return 0
        name = (query, one.vertex)
        tried = self._tried.setdefault(name, _Tried(now))
        if now < tried.next_at:
            return None
        if tried.term != one.term:
            tried.term, tried.at = one.term, now
            tried.count += 1
            tried.next_at = now + min(RESTART_S_MAX, RESTART_S * 2.0 ** (tried.count - 1))
        return tried.count - 1

    def _note_apart(self, alive: frozenset[str], now: float) -> None:
        """Since when which live nodes do not reach each other, as they say. Who is heard here reaches this node."""
        said = {
            (node, other)
            for node in alive
            if (status := self.status(node)) is not None
            for other in status.unreachable
            if other in alive and other != self._node
        }
        self._apart = {pair: self._apart.get(pair, now) for pair in said}

    def _view(
        self, query: HostedQuery, queries: Sequence[HostedQuery], alive: frozenset[str], failure: Failure, now: float
    ) -> tuple[View, set[str]]:
        """What a strategy needs to know of a query, and the vertices that must wait."""
        hosting = Counter(host for each in queries for placed in each.placements for host in placed.hosts)
        vertices = region_vertices(query.plan)
        maker = {output.name: vertex.name for vertex in vertices for output in vertex.fragment.outputs}
        inputs = {
            vertex.name: tuple(dict.fromkeys(maker[name] for name in vertex.inputs if name in maker))
            for vertex in vertices
        }
        ends = {
            vertex.name: frozenset(
                [node for node in query.sources if any(name not in maker for name in vertex.inputs)]
                + [query.sink for output in vertex.fragment.outputs if output.kind == "subscribe"]
            )
            for vertex in vertices
        }
        needed = {
            vertex.name: {reference for node in vertex.operators for reference in operator_references(node)}
            for vertex in vertices
        }
        able = {
            name: frozenset(peer.node for peer in self._fleet.peers if types <= {*peer.operators})
            for name, types in needed.items()
        }
        having: dict[str, frozenset[str]] = {}
        too_old: set[str] = set()
        waiting: set[str] = set()
        if STRATEGIES[query.row].row.include is not Include.NOTHING:
            for placed in query.placements:
                if not self._concerns(failure, placed):
                    continue
                again = isinstance(failure, OperatorFailed) and failure.restarts >= RESTARTS_MAX
                elsewhere = alive - {*placed.hosts} if again else alive
                nodes, old = self._having(query.name, placed, elsewhere or alive, now)
                having[placed.vertex] = frozenset(nodes)
                if old:
                    too_old.add(placed.vertex)
                if not nodes:
                    waiting.add(placed.vertex)
        view = View(
            {placed.vertex: placed for placed in query.placements}, inputs, alive, hosting,
            {peer.node: peer.capacity for peer in self._fleet.peers}, having, frozenset(too_old), able,
            fed_by={vertex.name: frozenset(query.sources) for vertex in vertices}, ends=ends,
            apart=frozenset((min(pair), max(pair)) for pair in self._apart), relays=False,
        )  # fmt: skip
        return view, waiting

    @staticmethod
    def _concerns(failure: Failure, placed: Placement) -> bool:
        """Whether a failure may take this vertex from where it is."""
        match failure:
            case HostsFailed(nodes):
                return nodes >= {*placed.hosts}
            case StreamFailed(writer, reader):
                return bool({writer, reader} & {*placed.hosts})
            case _:
                return failure.vertex == placed.vertex

    def _having(
        self, query: str, placed: Placement, alive: frozenset[str], now: float
    ) -> tuple[list[str], bool]:  # fmt: skip
        """The nodes to begin a vertex on again: those with its newest snapshot. A node that begins with one that is too
        old finds out, and says so, before it has changed anything. While no other node is known to have a newer one,
        the vertex waits for one that is silent; after a while it begins with what there is, and with a loss that is
        said."""
        if self._has_unheard() and now < self._since + self._silence_s:
            return [], False  # who has not spoken yet may have a newer one
        versions = {node: self._version(node, query, placed.vertex) for node in alive}
        name = (query, placed.vertex)
        for host in placed.hosts:
            one = self._instance(query, placed, host)
            if one is not None and one.state == BEHIND:
                self._too_old[name] = max(self._too_old.get(name, (0, 0)), self._version(host, query, placed.vertex))
                self._lacking.setdefault(name, now)
        too_old = self._too_old.get(name)
        better = {node: version for node, version in versions.items() if too_old is None or version > too_old}
        if not better and now - self._lacking.get(name, now) < self._patience_s:
            return [], False
        anew = not better
        if anew:
            del self._too_old[name], self._lacking[name]
        best = max((better or versions).values(), default=(0, 0))
        having = [node for node, version in (better or versions).items() if version == best]
        listed = [node for node in having if node in (*placed.keepers, *placed.hosts)]
        return sorted(listed or having), anew

    def _version(self, node: str, query: str, vertex: str) -> tuple[int, int]:
        """Of the snapshot that a node has of a vertex; (0, 0) when it has none."""
        heard = self._heard.get(node)
        kept = () if heard is None else heard.status.kept
        found = [(one.term, one.number) for one in kept if (one.query, one.vertex) == (query, vertex)]
        return max(found, default=(0, 0))

    def _name(self, node: str) -> str:
        return next((peer.name for peer in self._fleet.peers if peer.node == node), node[:8])

    def _names(self, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._name, nodes))

    def _store(self) -> None:
        self._messages.clear()
        self._persist.append(StoreFleet(encode_deployment(self._fleet)))


def _decoded(stored: bytes) -> Deployment:
    try:
        return decode_deployment(stored)
    except (PeerError, UsageError) as error:
        raise DamagedData(f"what the coordinator remembers cannot be read: {error}", code="fleet-stored") from None
