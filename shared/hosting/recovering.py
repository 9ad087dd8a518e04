"""What has failed in a fleet, and where it goes on: each failure is one question to the query's strategy.

running --FAILED or LOST in a STATUS, or its host silent--> the strategy's recovery plan --> new placements, terms
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared.hosting.fleet_events import Unplaced
from shared.hosting.instance import BEHIND, FAILED, RUNNING, STARTING
from shared.hosting.kept_fleet import KeptFleet
from shared.hosting.planned_moves import hosting
from shared.hosting.presence import Presence
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Placement
from shared.plan.graph import Plan
from shared.plan.topology import Topology
from shared.plan.wellformed import operator_references
from shared.recovery.delays import RecoveryTimes, delay_left_s, silence_allowed_s
from shared.recovery.executor import carry_out
from shared.recovery.failures import RESTARTS_MAX, Failure, HostsFailed, OperatorFailed, StreamFailed, View
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include
from shared.region.controller import RegionController
from shared.wire.status import InstanceStatus

# So much longer two live nodes may not reach each other, unless a promise says otherwise: losses look like that, and
# moving costs more.
LINK_SILENCES = 3
RESTART_S, RESTART_S_MAX = 1.0, 60.0  # between two starts of a vertex that fails again and again
FORGIVEN_S = 120.0  # that it must run to count as never failed


class Waits(NamedTuple):
    """How long a query's vertices stay on a silent node, and what that follows from."""

    query: str
    silence_s: float
    delay_s: float | None  # that its contract leaves for the way through the region; None: it promises none
    recovery_s: float  # that a recovery takes here


@dataclass(slots=True)
class _Tried:
    """How often a failing vertex was started again, and when it may be once more."""

    at: float
    count: int = 0
    term: int = 0
    next_at: float = 0.0


class Recovering:
    def __init__(
        self,
        kept: KeptFleet,
        presence: Presence,
        regions: RegionController,
        *,
        silence_s_min: float,
        patience_s: float,
    ) -> None:
        """`patience_s`: that a failed vertex waits for a silent node which has its newest snapshot."""
        self._kept, self._presence, self._regions = kept, presence, regions
        self._silence_s_min, self._patience_s = silence_s_min, patience_s
        self.times = RecoveryTimes()
        self._left_s: dict[str, tuple[Plan, float | None]] = {}  # by query, what the contract of its plan leaves
        self._lacking: dict[tuple[str, str], float] = {}  # since when a vertex waits for a node that has its snapshot
        self._too_old: dict[tuple[str, str], tuple[int, int]] = {}  # the newest snapshot that was not new enough
        self._said_waiting: tuple[str, tuple[str, ...]] | None = None
        self._tried: dict[tuple[str, str], _Tried] = {}

    def forget(self, queries: Collection[str]) -> None:
        """These are no more, also as another of the same name."""
        for remembered in (self._lacking, self._too_old, self._tried):
            for key in [key for key in remembered if key[0] in queries]:
                del remembered[key]

    def wakes(self) -> list[float]:
        """When a vertex has waited long enough."""
        times = [since + self._patience_s for since in self._lacking.values()]
        return times + [tried.next_at for tried in self._tried.values()]

    def waits(self) -> list[Waits]:
        """For each query, how long a node may say nothing."""
        found, recovery_s = [], self.times.average_s
        for query in self._kept.fleet.queries:
            plan, left_s = self._left_s.get(query.name, (None, None))
            if plan is not query.plan:
                left_s = delay_left_s(query.plan)
                self._left_s[query.name] = query.plan, left_s
            silence_s = silence_allowed_s(
                left_s, recovery_s, usual_s=self._presence.silence_s, least_s=self._silence_s_min
            )
            if query.absent_s:
                silence_s = max(self._silence_s_min, query.absent_s)
            found.append(Waits(query.name, silence_s, left_s, recovery_s))
        return found

    def lacks_snapshot(self, query: str, vertex: str) -> bool:
        """Whether a vertex waits for a node that has a new enough snapshot of it."""
        return (query, vertex) in self._lacking

    def recovered(
        self, query: HostedQuery, queries: Sequence[HostedQuery], waits: Waits, now: float
    ) -> tuple[tuple[Placement, ...], list[str]]:
        """The placements after one failure after the other was recovered from, and what failed."""
        region = next((each for each in self._kept.fleet.regions if each.name == query.name), None)
        not_lost = self._presence.alive(now, waits.silence_s)
        if region is not None:
            not_lost = self._presence.present(now) & {*region.members} - self._regions.dropped(query)
        alive = not_lost & self._presence.alive(now)  # nobody is sent to a node that is only not given up yet
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
                if strategy.row.of_region:
                    break  # all of it begins again: what else has failed is heard of under its new terms
        if waiting and (query.name, tuple(sorted(waiting))) != self._said_waiting:
            self._said_waiting = (query.name, tuple(sorted(waiting)))
            self._kept.events.append(Unplaced(*self._said_waiting, "only silent nodes have its snapshot"))
        return placements, why

    def _failures(
        self, query: HostedQuery, waits: Waits, alive: frozenset[str], now: float
    ) -> list[tuple[Failure, str]]:
        """What is not as it was placed, and why: nodes first, then vertices, then links."""
        found: list[tuple[Failure, str]] = []
        silent = {node for placed in query.placements for node in (*placed.hosts, *placed.keepers)} - alive
        row, others = STRATEGIES[query.row].row, len(self._presence.called(alive)) - 1
        wanted = {Home.PEERS: min(row.copies, others), Home.REGION: others}.get(row.home, 0)
        if silent or any(len(placed.keepers) < wanted for placed in query.placements):
            why = self._absence(silent, waits) if silent else "too few keepers"
            formed = any(region.name == query.name for region in self._kept.fleet.regions)
            if formed and silent and silent <= self._presence.alive(now):
                why = f"{', '.join(sorted(map(self._kept.name, silent)))} has left the region"
            found.append((HostsFailed(frozenset(silent)), why))
        for placed in query.placements:
            for host in placed.hosts:
                one = self._instance(query.name, placed, host) if host in alive else None
                if one is None:
                    continue
                if one.state == RUNNING:
                    self._worked(query.name, placed, now)
                elif one.state != STARTING and (restarts := self._restarts(query.name, one, now)) is not None:
                    why = f"{placed.vertex!r} {one.state} on {self._kept.name(host)}: {one.why}"
                    found.append((OperatorFailed(placed.vertex, restarts, host), why))
        link_s = waits.silence_s if waits.delay_s is not None else LINK_SILENCES * self._presence.silence_s
        for (writer, reader), since in sorted(self._presence.apart.items()):
            if now - since >= link_s:
                why = f"{self._kept.name(writer)} does not reach {self._kept.name(reader)}"
                found.append((StreamFailed(writer, reader), why))
        return found

    def _absence(self, nodes: Iterable[str], waits: Waits) -> str:
        gone = ", ".join(sorted(self._kept.name(node) for node in nodes if node in self._presence.gone))
        silent = ", ".join(sorted(self._kept.name(node) for node in nodes if node not in self._presence.gone))
        said = [f"{gone} was revoked"] if gone else []
        return "; ".join([*said, *([f"{silent} is silent for {waits.silence_s:.3g} s"] if silent else [])])

    def _instance(self, query: str, placed: Placement, host: str) -> InstanceStatus | None:
        status = self._presence.status(host)
        for one in () if status is None else status.instances:
            if (one.query, one.vertex, one.term) == (query, placed.vertex, placed.term):
                return one
        return None

    def _worked(self, query: str, placed: Placement, now: float) -> None:
        """It runs: after a while it counts as never failed."""
        name = (query, placed.vertex)
        self.times.runs(*name, placed.term, now)
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

    def _view(
        self, query: HostedQuery, queries: Sequence[HostedQuery], alive: frozenset[str], failure: Failure, now: float
    ) -> tuple[View, set[str]]:
        """What a strategy needs to know of a query, and the vertices that must wait."""
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
            name: frozenset(peer.node for peer in self._kept.fleet.peers if types <= {*peer.operators})
            for name, types in needed.items()
        }
        having: dict[str, frozenset[str]] = {}
        too_old: set[str] = set()
        waiting: set[str] = set()
        if STRATEGIES[query.row].row.of_region:
            holders = self._holding_cut(query, alive, now)
            having = dict.fromkeys((placed.vertex for placed in query.placements), holders)
            waiting = set() if holders else {placed.vertex for placed in query.placements}
        elif STRATEGIES[query.row].row.include is not Include.NOTHING:
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
            {placed.vertex: placed for placed in query.placements}, inputs, self._presence.called(alive),
            hosting(queries), {peer.node: peer.capacity for peer in self._kept.fleet.peers},
            having, frozenset(too_old), able,
            fed_by={} if query.feeds else {vertex.name: frozenset(query.sources) for vertex in vertices}, ends=ends,
            apart=frozenset((min(pair), max(pair)) for pair in self._presence.apart),
            gone=self._presence.gone, cost=self._costs(query, alive), relays=False,
        )  # fmt: skip
        return view, waiting

    def _holding_cut(self, query: HostedQuery, alive: frozenset[str], now: float) -> frozenset[str]:
        """The nodes that a region can go back on: all that have its newest complete cut, and what came since."""
        if self._presence.awaits_first_words(now):
            return frozenset()  # who has not spoken yet since this coordinator began may be gone
        holders = alive & {*query.cuts.holders} & self._presence.spoken()
        lacks = {
            host
            for placed in query.placements
            for host in placed.hosts
            if (one := self._instance(query.name, placed, host)) is not None and one.state == BEHIND
        }
        return holders - lacks

    def _costs(self, query: HostedQuery, alive: frozenset[str]) -> Callable[[str, str], int]:
        """Of ways between nodes, as placing has them. A query that is to be spread is spread again where nothing is
        said of the network: there only who is less loaded counts."""
        fleet = self._kept.fleet
        if not query.place and not fleet.links and len({peer.lane for peer in fleet.peers}) <= 1:
            return lambda _one, _other: 0
        absent = [peer.node for peer in fleet.peers if peer.node not in alive]
        return Topology(fleet.peers, fleet.links, absent=absent, apart=tuple(self._presence.apart)).cost

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
        if self._presence.awaits_first_words(now):
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
        status = self._presence.status(node)
        kept = () if status is None else status.kept
        found = [(one.term, one.number) for one in kept if (one.query, one.vertex) == (query, vertex)]
        return max(found, default=(0, 0))
