"""Who runs what: a fleet of nodes, the queries they share, and what to do when a node is silent or a vertex fails.

The coordinator is never in the data's way. It hears every node's STATUS, judges silence, and answers with whole
deployments: what a node should do, not what it should change. All it decides is one new fleet, stored before anybody is
told of it. So a coordinator that is killed midway says the same again, and a node that missed a deployment gets the
newest one.

    running --FAILED or LOST in a STATUS, or its host silent--> the strategy's recovery plan --> new placements, terms
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared.errors import DamagedData, PeerError, UsageError
from shared.hosting.wiring import wire
from shared.identity import DeviceId
from shared.plan.deployment import Deployment, HostedQuery, Peer, Placement, decode_deployment, encode_deployment
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.sync.step import Step
from shared.wire.messages import Hint, PlanMessage
from shared.wire.status import DeviceStatus

SILENCE_S = 5.0  # without a STATUS so long a node is taken for lost
PATIENCE_S = 60.0  # that a failed vertex waits for a silent node which has its newest snapshot
RUNNING, BEHIND = "running", "behind"


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


class Unplaced(NamedTuple):
    """No node can run these: they wait."""

    query: str
    vertices: tuple[str, ...]
    why: str


@dataclass(slots=True)
class _Heard:
    at: float
    status: DeviceStatus


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
        patience_s: float = PATIENCE_S,
        now: float = 0.0,
    ) -> None:
        """`stored` is what StoreFleet stored; every start takes a higher lease than all before it."""
        self._node = node
        self._sign = sign
        self._silence_s, self._patience_s = silence_s, patience_s
        self._lacking: dict[tuple[str, str], float] = {}  # since when a vertex waits for a node that has its snapshot
        self._too_old: dict[tuple[str, str], tuple[int, int]] = {}  # the newest snapshot that was not new enough
        self._said_waiting: tuple[str, tuple[str, ...]] | None = None
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
        """When the next node would be silent for too long, or a vertex has waited long enough."""
        times = [since + self._patience_s for since in self._lacking.values()]
        times += [
            self._last_heard(peer.node) + self._silence_s for peer in self._fleet.peers if peer.node != self._node
        ]
        return min(times, default=None)

    def step(self) -> Step[StoreFleet, object]:
        persist, self._persist = tuple(self._persist[-1:]), []
        return Step(persist)

    def events(self) -> list[object]:
        events, self._events = self._events, []
        return events

    def deployment(self, node: str) -> tuple[Deployment, bytes]:
        """What this node should do."""
        deployment = replace(self._fleet, node=node)
        return deployment, encode_deployment(deployment)

    def alive(self, now: float) -> frozenset[str]:
        """The nodes that are heard of."""
        return frozenset(
            peer.node
            for peer in self._fleet.peers
            if peer.node == self._node or now - self._last_heard(peer.node) < self._silence_s
        )

    def status(self, node: str) -> DeviceStatus | None:
        heard = self._heard.get(node)
        return None if heard is None else heard.status

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

    def _last_heard(self, node: str) -> float:
        heard = self._heard.get(node)
        return self._since if heard is None else heard.at

    def _judge(self, now: float) -> None:
        alive = self.alive(now)
        queries = list(self._fleet.queries)
        changed = False
        for place, query in enumerate(queries):
            failures = self._failures(query, alive)
            if not failures:
                continue
            placements, moves, waiting = self._recovered(query, failures, alive, now)
            if waiting and (query.name, tuple(waiting)) != self._said_waiting:
                self._said_waiting = (query.name, tuple(waiting))
                self._events.append(Unplaced(query.name, tuple(waiting), "only silent nodes have its snapshot"))
            if placements != query.placements:
                queries[place] = replace(query, placements=placements)
                changed = True
                why = "; ".join(sorted(set(failures.values())))
                self._events.append(Recovered(now, query.name, moves, why))
        if changed:
            self._fleet = replace(self._fleet, version=self._fleet.version + 1, queries=tuple(queries))
            self._store()

    def _failures(self, query: HostedQuery, alive: frozenset[str]) -> dict[str, str]:
        """{vertex: why} of what does not run where it is placed."""
        found: dict[str, str] = {}
        for placed in query.placements:
            for host in placed.hosts:
                if host not in alive:
                    found[placed.vertex] = f"{self._name(host)} is silent"
                elif (why := self._instance_failure(query.name, placed, host)) is not None:
                    found[placed.vertex] = why
        return found

    def _instance_failure(self, query: str, placed: Placement, host: str) -> str | None:
        status = self.status(host)
        for one in () if status is None else status.instances:
            if (one.query, one.vertex, one.term) == (query, placed.vertex, placed.term) and one.state != RUNNING:
                return f"{placed.vertex!r} {one.state} on {self._name(host)}: {one.why}"
        return None

    def _instance_state(self, query: str, placed: Placement, host: str) -> str:
        status = self.status(host)
        for one in () if status is None else status.instances:
            if (one.query, one.vertex, one.term) == (query, placed.vertex, placed.term):
                return one.state
        return ""

    def _recovered(
        self, query: HostedQuery, failures: Mapping[str, str], alive: frozenset[str], now: float
    ) -> tuple[tuple[Placement, ...], dict[str, str], list[str]]:
        """New placements, who moved where, and what nobody can run."""
        hosting: dict[str, int] = {}
        for each in self._fleet.queries:
            for placed in each.placements:
                for host in placed.hosts:
                    hosting[host] = hosting.get(host, 0) + 1
        room = {peer.node: peer.capacity for peer in self._fleet.peers}
        keeps_state = STRATEGIES[query.row].row.include is not Include.NOTHING
        found: list[Placement] = []
        moves: dict[str, str] = {}
        waiting: list[str] = []
        for placed in query.placements:
            if placed.vertex not in failures:
                found.append(placed)
                continue
            left = [host for host in placed.hosts if host in alive and not self._failed(query.name, placed, host)]
            if left:  # a copy runs on: nothing goes back
                found.append(replace(placed, hosts=tuple(left)))
                continue
            near, anew = sorted(alive), True
            if keeps_state:
                near, anew = self._having(query.name, placed, alive, now)
            if not near:
                waiting.append(placed.vertex)
                found.append(placed)
                continue
            host = min(near, key=lambda node: (hosting.get(node, 0) >= room[node], hosting.get(node, 0), node))
            hosting[host] = hosting.get(host, 0) + 1
            others = sorted(
                alive - {host}, key=lambda node: (node not in placed.keepers, hosting.get(node, 0), node)
            )  # fmt: skip
            moves[placed.vertex] = host
            found.append(Placement(placed.vertex, (host,), tuple(others[: len(placed.keepers)]), placed.term + 1, anew))
        return tuple(found), moves, waiting

    def _having(
        self, query: str, placed: Placement, alive: frozenset[str], now: float
    ) -> tuple[list[str], bool]:  # fmt: skip
        """The nodes to begin a vertex on again: those with its newest snapshot. A node that begins with one that is too
        old finds out, and says so, before it has changed anything. While no other node is known to have a newer one,
        the vertex waits for one that is silent; after a while it begins with what there is, and with a loss that is
        said."""
        versions = {node: self._version(node, query, placed.vertex) for node in alive}
        name = (query, placed.vertex)
        for host in placed.hosts:
            if self._instance_state(query, placed, host) == BEHIND:
                self._too_old[name] = max(self._too_old.get(name, (0, 0)), self._version(host, query, placed.vertex))
                self._lacking.setdefault(name, now)
        too_old = self._too_old.get(name)
        better = {node: version for node, version in versions.items() if too_old is None or version > too_old}
        if not better and now - self._lacking[name] < self._patience_s:
            return [], False
        anew = not better
        if anew:
            del self._too_old[name], self._lacking[name]
        best = max((better or versions).values(), default=(0, 0))
        having = [node for node, version in (better or versions).items() if version == best]
        listed = [node for node in having if node in placed.keepers]  # they may have more than they could say
        return sorted(listed or having), anew

    def _version(self, node: str, query: str, vertex: str) -> tuple[int, int]:
        """Of the snapshot that a node has of a vertex; (0, 0) when it has none."""
        heard = self._heard.get(node)
        kept = () if heard is None else heard.status.kept
        found = [(one.term, one.number) for one in kept if (one.query, one.vertex) == (query, vertex)]
        return max(found, default=(0, 0))

    def _failed(self, query: str, placed: Placement, host: str) -> bool:
        return self._instance_failure(query, placed, host) is not None

    def _name(self, node: str) -> str:
        return next((peer.name for peer in self._fleet.peers if peer.node == node), node[:8])

    def _store(self) -> None:
        self._messages.clear()
        self._persist.append(StoreFleet(encode_deployment(self._fleet)))


def _decoded(stored: bytes) -> Deployment:
    try:
        return decode_deployment(stored)
    except (PeerError, UsageError) as error:
        raise DamagedData(f"what the coordinator remembers cannot be read: {error}", code="fleet-stored") from None
