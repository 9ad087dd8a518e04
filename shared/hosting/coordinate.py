"""Who runs what: a fleet of nodes, the queries they share, and what to do when a node is silent or a vertex fails.

The coordinator is never in the data's way. It hears every node's STATUS, judges silence, and answers with whole
deployments: what a node should do, not what it should change. All it decides is one new fleet, stored before anybody is
told of it. So a coordinator that is killed midway says the same again, and a node that missed a deployment gets the
newest one.

    running --FAILED or LOST in a STATUS, or its host silent--> the strategy's recovery plan --> new placements, terms
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared.errors import DamagedData, PeerError, UsageError
from shared.hosting.edits import check_edit, edited, without_retired
from shared.hosting.leaving import Left, without
from shared.hosting.planned_moves import ASKED, Now, PlannedMoves, hosting, without_strangers
from shared.hosting.reign import Reign
from shared.hosting.routing import LINK_S, Reach, Routing, connected
from shared.hosting.shares import share
from shared.hosting.wiring import cloud_carriers, wire
from shared.identity import DeviceId, EdgeKey
from shared.moves import REFUSED, Move, MoveAnswer, MoveRequest
from shared.plan.cuts import region_vertices, synced_outputs
from shared.plan.deployment import (
    MOVES_MAX,
    Deployment,
    HostedQuery,
    Link,
    NamedArea,
    Peer,
    Placement,
    Region,
    Route,
    decode_deployment,
    encode_deployment,
)
from shared.plan.graph import Plan
from shared.plan.topology import Topology
from shared.plan.wellformed import operator_references
from shared.recovery.delays import SILENCE_S, SILENCE_S_MIN, RecoveryTimes, delay_left_s, silence_allowed_s
from shared.recovery.executor import carry_out
from shared.recovery.failures import RESTARTS_MAX, Failure, HostsFailed, OperatorFailed, StreamFailed, View
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include
from shared.region.controller import Nodes, RegionController, State
from shared.region.cuts import PERIOD_S, RegionCuts, held_by
from shared.sync.exchange import NOT_READ
from shared.sync.step import Step
from shared.wire.fleet_status import BYPASS, CHECKPOINT, DEPARTURE, FAILURE, START, RegionEvent
from shared.wire.messages import CutOrder, DeploymentMessage, Hint, PlanMessage
from shared.wire.status import DeviceStatus, InstanceStatus, clean_text

# A phone of a region that was silent for so long is asked whether it is there, and given up if it does not answer.
PING_S, PING_TIMEOUT_S = 30.0, 10.0
CONFIRM_S = 3.0  # so soon it is if one that sends to it misses it: it is asked at once, and that is the answer's time
START_S = 30.0  # so much later if it has not spoken since the coordinator started: it may be starting, too
PATIENCE_S = 60.0  # that a failed vertex waits for a silent node which has its newest snapshot
# So much longer two live nodes may not reach each other, unless a promise says otherwise: losses look like that, and
# moving costs more.
LINK_SILENCES = 3
RESTART_S, RESTART_S_MAX = 1.0, 60.0  # between two starts of a vertex that fails again and again
FORGIVEN_S = 120.0  # that it must run to count as never failed
STARTING, RUNNING, FAILED, BEHIND = "starting", "running", "failed", "behind"
OFFERS, OFFER_S = 4, 10.0  # so often a deployment is sent with every answer, then so far apart
HISTORY_MAX = 200  # events of regions that it remembers
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


class CutComplete(NamedTuple):
    """All of a region have their part of this cut."""

    query: str
    cut: int


class Waits(NamedTuple):
    """How long a query's vertices stay on a silent node, and what that follows from."""

    query: str
    silence_s: float
    delay_s: float | None  # that its contract leaves for the way through the region; None: it promises none
    recovery_s: float  # that a recovery takes here


class Learned(NamedTuple):
    """A node follows what this coordinator had forgotten; it goes on above that."""

    node: str
    lease: int
    version: int


class Deposed(NamedTuple):
    """Another coordinator rules; this one says nothing more to nodes."""

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
        lease_step: int = 1,
        silence_s: float = SILENCE_S,
        silence_s_min: float = SILENCE_S_MIN,
        patience_s: float = PATIENCE_S,
        now: float = 0.0,
        clock_us: Callable[[], int] | None = None,
        cut_s: float = PERIOD_S,
        confirm_s: float = CONFIRM_S,
    ) -> None:
        """`node` is the one it runs on, empty where that is none of the fleet. `stored` is what StoreFleet stored.
        Every start takes a higher lease than all before it, by `lease_step`: draw that where a copy of the store may
        start as well. `silence_s` is for queries that promise no delay. `clock_us` is the time that people read in the
        history of moves; without it they read `now`.
        `cut_s` is the time between two cuts through a region that goes back together. `confirm_s` is the time within
        which a live node is heard once it was asked."""
        self._node = node
        self._routing = Routing(self._share)
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
        self._confirm_s = confirm_s
        self._reported: frozenset[tuple[str, str]] = frozenset()  # (node, node that it misses), as last seen
        self._doubted: dict[str, float] = {}  # members of regions that others miss: since when they are asked
        self._gone: frozenset[str] = frozenset()  # nodes that are out of the fleet for good
        self._judged_at = now
        self._fleet = Deployment(node, 0, lease, (), ())
        if stored:
            self._fleet = _decoded(stored)
        self._carriers: tuple[Deployment, frozenset[str], Mapping[EdgeKey, Mapping[str, int]]] = (
            self._fleet,
            frozenset(),
            {},
        )  # of which fleet, its nodes, and who carries what goes to the cloud
        self._reign = Reign(sign, (self._fleet.lease, self._fleet.version) if stored else (0, 0))
        if stored:
            self._fleet = replace(self._fleet, lease=self._fleet.lease + lease_step)
        self._heard: dict[str, _Heard] = {}
        self._since = now  # nobody is silent before there was time to speak
        self._persist: list[StoreFleet] = []
        self._events: list[object] = []
        self._history: deque[RegionEvent] = deque(maxlen=HISTORY_MAX)
        self._messages: dict[str, PlanMessage] = {}
        self._deployments: dict[str, DeploymentMessage] = {}
        self._offered: dict[str, tuple[int, float]] = {}  # how often a node was sent the newest deployment, and when
        self._planned = PlannedMoves()
        self._cuts = RegionCuts(cut_s)
        self._regions = RegionController(self._fleet.regions)
        self._departing: dict[tuple[str, str], str] = {}  # vertices that are moved because their node goes, and why
        if stored:
            self._store()

    @property
    def fleet(self) -> Deployment:
        return self._fleet

    def set_fleet(
        self,
        peers: Sequence[Peer],
        queries: Sequence[HostedQuery],
        links: Sequence[Link] = (),
        regions: Sequence[Region] = (),
    ) -> None:
        """These nodes and queries from now on. UsageError, and nothing changes, where they contradict each other.

        Placements of a query that runs already are the coordinator's own affair: they stay. So do queries that were
        submitted while the fleet ran, unless one of these has the name of one."""
        running = {(query.name, query.incarnation): query for query in self._fleet.queries}
        merged = []
        for query in queries:
            before = running.get((query.name, query.incarnation))
            same = before is not None and {one.vertex for one in before.placements} == {
                one.vertex for one in query.placements
            }
            if before is not None and same:
                stayed = replace(before, placements=without_strangers(before.placements, peers))
                query = edited(stayed, query, [peer.node for peer in peers], self._share)  # noqa: PLW2901
            merged.append(query)
        names = {query.name for query in queries}
        merged += [query for query in self._fleet.queries if query.submitted and query.name not in names]
        known = {peer.node for peer in peers}
        earlier = {region.name: region for region in self._fleet.regions}
        going_on = {region.name for region in regions if earlier.get(region.name, region).task == region.task}
        merged += [query for query in self._fleet.queries if query.name in going_on - names]
        members = {name: tuple(node for node in region.members if node in known) for name, region in earlier.items()}
        added = [each for each in self._fleet.regions if each.task.submitted and each.name not in going_on | names]
        wanted = [*regions, *(each for each in added if each.name not in {region.name for region in regions})]
        kept = tuple(replace(region, members=members.get(region.name, ())) for region in wanted)
        self._change(replace(self._fleet, peers=tuple(peers), queries=tuple(merged), links=tuple(links), regions=kept))
        self._regions.follow(kept)

    def set_regions(self, regions: Sequence[Region]) -> None:
        """Exactly these regions from now on. UsageError, and nothing changes, where they contradict each other. The
        query of one that is no more ends."""
        names = {region.name for region in regions}
        dropped = {region.name for region in self._fleet.regions} - names
        queries = tuple(query for query in self._fleet.queries if query.name not in dropped)
        self._change(replace(self._fleet, regions=tuple(regions), queries=queries))
        self._regions.follow(self._fleet.regions)

    def check_regions(self, regions: Sequence[Region]) -> None:
        """UsageError where these regions contradict each other."""
        self._check(replace(self._fleet, version=self._fleet.version + 1, regions=tuple(regions)))

    def set_queries(self, queries: Sequence[HostedQuery]) -> None:
        """Exactly these queries from now on. UsageError, and nothing changes, where a node could not run its share."""
        self._change(replace(self._fleet, queries=tuple(queries)))

    def as_edited(self, name: str, plan: Plan) -> HostedQuery:
        """A query with other filters and projections behind its gathers, as it would go on. UsageError where it
        cannot."""
        before = next(query for query in self._fleet.queries if query.name == name)
        check_edit(before, plan)
        after = edited(before, replace(before, plan=plan), [peer.node for peer in self._fleet.peers], self._share)
        self.check([after if query is before else query for query in self._fleet.queries])
        return after

    def _change(self, fleet: Deployment) -> None:
        fleet = self._routing.listed(fleet)
        if self._fleet.version and fleet == self._fleet:
            return
        fleet = replace(fleet, node=self._node or fleet.peers[0].node, version=fleet.version + 1)
        self._check(fleet)
        same = {(query.name, query.incarnation) for query in fleet.queries}
        gone = {query.name for query in self._fleet.queries if (query.name, query.incarnation) not in same}
        for remembered in (self._lacking, self._too_old, self._tried):  # of a query that is no more, also as another
            for key in [key for key in remembered if key[0] in gone]:
                del remembered[key]
        self._fleet = fleet
        self._left_s.clear()
        self._store()

    def check(self, queries: Sequence[HostedQuery]) -> None:
        """UsageError where these queries contradict each other, or a node could not run its share."""
        if not self._fleet.peers:
            raise UsageError("no node offers to host anything yet", code="deployment-peer")
        self._check(replace(self._fleet, version=1, queries=tuple(queries)))

    def _check(self, fleet: Deployment) -> None:
        self._check_synced([*fleet.queries, *(region.task for region in fleet.regions)])
        checked = decode_deployment(encode_deployment(fleet))
        feeding = {source for query in fleet.queries for source in query.sources}
        for node in sorted({fleet.node, *feeding}):  # two queries may want the same of one device
            wire(replace(checked, node=node))

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """The term under which a node may send an edge of a query to the cloud; NOT_READ where another one should by
        now. None: it is no node of this fleet."""
        fleet, nodes, carriers = self._carriers
        if fleet is not self._fleet:
            fleet = self._fleet
            nodes, carriers = frozenset(peer.node for peer in fleet.peers), cloud_carriers(fleet.queries)
            self._carriers = fleet, nodes, carriers
        node = carrier.hex()
        return carriers.get(key, {}).get(node, NOT_READ) if node in nodes else None

    def _check_synced(self, queries: Sequence[HostedQuery]) -> None:
        """What goes to the cloud goes to the gateway that coordinates: it knows who may send it. There its name says
        which stream it is."""
        names: dict[str, str] = {}
        for query in queries:
            for output in synced_outputs(query.plan):
                if self._node:
                    raise UsageError(
                        f"query {query.name!r} syncs {output.name!r} to the cloud, which only nodes do that a gateway "
                        "coordinates (resurge node run --host); end it with .subscribe(), whose rows stay on the "
                        "query's sink node",
                        code="deployment-sync",
                    )
                if names.setdefault(output.name, query.name) != query.name:
                    raise UsageError(
                        f"queries {names[output.name]!r} and {query.name!r} both sync {output.name!r} to the cloud; "
                        "give one of them another name",
                        code="deployment-sync",
                    )

    def heard(self, device: DeviceId, now: float, status: DeviceStatus | None = None) -> None:
        """A node has spoken, and perhaps said how it is."""
        node = device.hex()
        before = self._heard.get(node)
        self._heard[node] = _Heard(now, status or (DeviceStatus() if before is None else before.status))
        if status is not None:
            self._reign.heard(node, status.deployment, self._fleet, now)
            self._judge(now)

    def shown(self, device: DeviceId, message: DeploymentMessage, now: float) -> None:
        """A node shows the deployment that it follows. What this coordinator did not sign is not believed."""
        if not self._reign.is_own(message):
            return
        learned = self._reign.learn(_decoded(message.deployment), self._fleet)
        if learned is not None:
            self._fleet = replace(learned, regions=self._fleet.regions, areas=())
            self._left_s.clear()
            self._events.append(Learned(self._name(device.hex()), message.lease, message.version))
            self._store()
        elif self._reign.deposed:
            self.depose(self._reign.deposed)
        self._judged_at = now

    @property
    def deposed(self) -> str:
        """Why it has stopped; empty while it has not."""
        return self._reign.deposed

    def depose(self, why: str) -> None:
        """Another one rules: say nothing more."""
        self._reign.deposed = why
        self._persist.clear()
        self._events.append(Deposed(why))

    def wake(self, now: float) -> None:
        self._judge(now)

    def part_with(self, nodes: Iterable[str]) -> None:
        """These are out of the fleet from the next `wake` on, whatever they say."""
        self._gone = frozenset(nodes)

    def move(self, request: MoveRequest, now: float) -> MoveAnswer:
        """Begin to move a vertex while it runs, or say what that would do. UsageError, and nothing changes, where it
        cannot be. What becomes of it is in `answers` and in the events."""
        answer, begun = self._planned.ask(request, self._now(now))
        if begun is not None:
            queries = tuple(
                replace(
                    query, placements=tuple(begun if one.vertex == begun.vertex else one for one in query.placements)
                )
                if query.name == request.query
                else query
                for query in self._fleet.queries
            )
            self._fleet = replace(self._fleet, version=self._fleet.version + 1, queries=queries)
            self._store()
        return answer

    def asked(self, requests: Sequence[MoveRequest], now: float) -> None:
        """Requests that came another way, perhaps again: each is done once, and a refusal is an answer, too."""
        for request in requests:
            if self._planned.answered(request.id) is None:
                try:
                    self.move(request, now)
                except UsageError as error:
                    self._planned.remember(MoveAnswer(request, REFUSED, error.message, error.code))

    def answers(self) -> tuple[MoveAnswer, ...]:
        """What became of the last moves that were asked for."""
        return self._planned.answers()

    def _now(self, now: float) -> Now:
        return Now(self._fleet, self.status, self.alive(now), frozenset(self._apart), self._times, now)

    def next_wake(self) -> float | None:
        """When the next node or link would be silent for too long, or a vertex has waited long enough."""
        times = [since + self._patience_s for since in self._lacking.values()]
        times += [tried.next_at for tried in self._tried.values()]
        times += [] if (ends := self._planned.next_wake()) is None else [ends]
        times += [] if (cut_at := self._cuts.next_wake()) is None else [cut_at]
        times += [] if (dwelt_at := self._regions.next_wake()) is None else [dwelt_at]
        if (proof := self._reign.next_wake()) is not None:
            times.append(proof)
        if self._has_unheard():
            times.append(self._since + self._silence_s)
        times += [since + self._confirm_s for since in self._doubted.values()]
        if self._fleet.regions:
            pinged = (PING_S, PING_S + PING_TIMEOUT_S)
            last = [self._last_heard(peer.node) for peer in self._fleet.peers if peer.node != self._node]
            times += [heard_at + silence_s for heard_at in last for silence_s in pinged]
        silences = {self._silence_s, *(waits.silence_s for waits in self.waits())}
        links = {LINK_S, LINK_SILENCES * self._silence_s, *silences}
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

    def region_events(self) -> tuple[RegionEvent, ...]:
        """What happened in the regions since this coordinator started, the newest last."""
        return tuple(self._history)

    def _remember(self, region: str, kind: str, text: str, now: float) -> None:
        if any(each.name == region for each in self._fleet.regions):
            at_us = round(now * 1e6) if self._clock_us is None else self._clock_us()
            self._history.append(RegionEvent(at_us, region, kind, clean_text(text)))

    def deployment(self, node: str) -> tuple[Deployment, bytes]:
        """What this node should do."""
        areas = tuple(NamedArea(each.name, each.area, each.dwell_s, each.threshold) for each in self._fleet.regions)
        moves = self._fleet.moves[-MOVES_SENT:]
        deployment = replace(self._fleet, node=node, moves=moves, regions=(), areas=areas)
        return deployment, encode_deployment(deployment)

    def waits(self) -> list[Waits]:
        """For each query, how long a node may say nothing."""
        found, recovery_s = [], self._times.average_s
        for query in self._fleet.queries:
            if query.name not in self._left_s:
                self._left_s[query.name] = delay_left_s(query.plan)
            left_s = self._left_s[query.name]
            silence_s = silence_allowed_s(left_s, recovery_s, usual_s=self._silence_s, least_s=self._silence_s_min)
            if query.absent_s:
                silence_s = max(self._silence_s_min, query.absent_s)
            found.append(Waits(query.name, silence_s, left_s, recovery_s))
        return found

    def alive(self, now: float, silence_s: float | None = None) -> frozenset[str]:
        """The nodes that were heard of within this time; without one, the usual."""
        within_s = self._silence_s if silence_s is None else silence_s
        return frozenset(
            peer.node
            for peer in self._fleet.peers
            if peer.node not in self._gone and (peer.node == self._node or now - self._last_heard(peer.node) < within_s)
        )

    def topology(self, now: float) -> Topology:
        """The nodes that are heard, and their links but for those that nodes say do not work."""
        alive = self.alive(now)
        absent = [peer.node for peer in self._fleet.peers if peer.node not in alive]
        said = {node: heard.status for node, heard in self._heard.items() if node in alive}
        measured = {(node, other): cost for node, status in said.items() for other, cost in status.neighbours}
        peers = [
            replace(peer, position=said[peer.node].position)
            if peer.node in said and said[peer.node].position is not None
            else peer
            for peer in self._fleet.peers
        ]
        return Topology(
            peers, self._fleet.links, cloud=self.cloud, absent=absent, apart=tuple(self._apart), measured=measured
        )

    @property
    def cloud(self) -> str:
        """The node that runs beside it: the one it runs on, else one that said so and is there. Empty: none does."""
        beside = [
            node for node, heard in self._heard.items() if heard.status.offer is not None and heard.status.offer.cloud
        ]
        return self._node or next((peer.node for peer in self._fleet.peers if peer.node in beside), "")

    def status(self, node: str) -> DeviceStatus | None:
        heard = self._heard.get(node)
        return None if heard is None else heard.status

    def behind(self, now: float) -> frozenset[str]:
        """The live nodes that have said that they run an older deployment than the newest."""
        version = self._fleet.version
        found = [node for node, heard in self._heard.items() if heard.status.plan < version and node != self._node]
        return frozenset(found) & self.alive(now) if found else frozenset()

    def heard_at(self, node: str) -> float | None:
        """When a node spoke last; None when it did not since the coordinator started."""
        heard = self._heard.get(node)
        return None if heard is None else heard.at

    def lacks_snapshot(self, query: str, vertex: str) -> bool:
        """Whether a vertex waits for a node that has a new enough snapshot of it."""
        return (query, vertex) in self._lacking

    # --- as a downlink ---------------------------------------------------------------------------------------

    def plan(self, device: DeviceId, newer_than: int, operators: frozenset[str] | None) -> PlanMessage | None:  # noqa: ARG002
        """For nodes that do not say which lease they follow: they take a deployment as a plan."""
        node, status = device.hex(), self.status(device.hex())
        newer = self._fleet.version > newer_than and self._reaches(node)
        if not newer or self._reign.deposed or (status is not None and status.deployment is not None):
            return None
        message = self._messages.get(node)
        if message is None:
            _, encoded = self.deployment(node)
            signed = PlanMessage.signed(self._fleet.version, encoded)
            message = self._messages[node] = PlanMessage(device, self._fleet.version, encoded, self._sign(signed))
        return message

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> DeploymentMessage | None:
        """What a node should run instead of what it follows; without a deployment, the question what that is."""
        node, fleet = device.hex(), self._fleet
        if not self._reign.knows(follows, fleet):
            return DeploymentMessage(device) if self._reign.asks(node, self._judged_at) else None
        if self._reign.deposed or follows == (fleet.lease, fleet.version) or not self._reaches(node):
            return None
        if not self._is_due(node):
            return None
        message = self._deployments.get(node)
        if message is None:
            _, encoded = self.deployment(node)
            signature = self._sign(DeploymentMessage.signed(fleet.lease, fleet.version, encoded))
            message = DeploymentMessage(device, fleet.lease, fleet.version, encoded, signature)
            self._deployments[node] = message
        return message

    def _is_due(self, node: str) -> bool:
        """A node that refuses a deployment is not sent it with every answer."""
        count, at = self._offered.get(node, (0, 0.0))
        if count >= OFFERS and self._judged_at < at + OFFER_S:
            return False
        self._offered[node] = (count + 1, self._judged_at)
        return True

    def _reaches(self, node: str) -> bool:
        return bool(self._fleet.version) and any(peer.node == node for peer in self._fleet.peers)

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:  # noqa: ARG002
        return ()

    def hint(self, device: DeviceId) -> Hint | None:
        """What a node has not heard of cuts through the regions that it is in."""
        orders = self.orders(device.hex())
        return Hint(device, {}, cuts=orders) if orders else None

    def orders(self, node: str) -> tuple[CutOrder, ...]:
        status = self.status(node)
        if status is None or not status.cuts or self._reign.deposed:
            return ()
        said = {each.query: each for each in status.cuts}
        asked = [(query, said[query.name]) for query in self._fleet.queries if query.name in said]
        orders = [self._cuts.order(query, each) for query, each in asked if STRATEGIES[query.row].row.of_region]
        return tuple(each for each in orders if each is not None)

    # --- failures --------------------------------------------------------------------------------------------

    def _has_unheard(self) -> bool:
        """Whether a node has not spoken since this coordinator started."""
        known = {self._node, *self._gone}
        return any(peer.node not in self._heard for peer in self._fleet.peers if peer.node not in known)

    def _last_heard(self, node: str) -> float:
        heard = self._heard.get(node)
        return self._since + START_S if heard is None else heard.at

    def _judge(self, now: float) -> None:
        self._judged_at = now
        if self._reign.waits(now):
            return
        self._part()
        self._note_apart(self.alive(now), now)
        self._note_doubts(now)
        self._look_at_regions(now)
        queries = list(self._fleet.queries)
        moved: list[Move] = []
        for place, (query, waits) in enumerate(zip(queries, self.waits(), strict=True)):
            found, why = self._recovered(query, queries, waits, now)
            reason = "; ".join(sorted(set(why)))
            planned = self._planned.go_on(replace(query, placements=found), query.placements, reason, self._now(now))
            self._events += planned.ended
            asked, found = {one.vertex for one in planned.moved}, planned.placements
            if found == query.placements:
                continue
            queries[place] = replace(query, placements=found)
            if STRATEGIES[query.row].row.of_region:
                self._cuts.give_up(query.name, now)
                queries[place] = replace(queries[place], cuts=held_by(queries[place]))
            before = {one.vertex: one for one in query.placements}
            moves = {one.vertex: one.hosts[0] for one in found if one.term > before[one.vertex].term}
            for one in found:
                if one.vertex in moves:
                    self._times.began(query.name, one.vertex, one.term, now)
            if why:
                recovered = {vertex: node for vertex, node in moves.items() if vertex not in asked}
                self._events.append(Recovered(now, query.name, recovered, reason))
                if recovered:
                    self._remember(query.name, FAILURE, f"{reason}: {', '.join(recovered)} begin again", now)
            at_us = round(now * 1e6) if self._clock_us is None else self._clock_us()
            failed = clean_text(reason) or "no reason was given"
            wanted = {vertex: self._departing.pop((query.name, vertex), ASKED) for vertex in asked}
            for vertex, wish in wanted.items():
                if wish != ASKED and vertex in moves:
                    text = f"{wish}: {vertex} goes on at {self._name(moves[vertex])}"
                    self._remember(query.name, DEPARTURE, text, now)
            moved += [
                Move(at_us, query.name, one.vertex, one.term, self._names(before[one.vertex].hosts),
                     self._names(one.hosts), wanted.get(one.vertex, failed))
                for one in found if one.vertex in moves
            ]  # fmt: skip
        queries = self._rerouted(queries, now)
        if queries != list(self._fleet.queries):
            self._fleet = replace(
                self._fleet, version=self._fleet.version + 1, queries=tuple(queries),
                moves=(*self._fleet.moves, *moved)[-MOVES_MAX:],
            )  # fmt: skip
            self._store()
            self._part()
        self._look_at_cuts(now)
        self._move_departing(now)

    # --- regions ---------------------------------------------------------------------------------------------

    @property
    def regions(self) -> RegionController:
        return self._regions

    def _look_at_regions(self, now: float) -> None:
        """Who is in which region, and which of them run."""
        if not self._fleet.regions:
            return
        regions, queries = self._regions.look(self._fleet.regions, self._fleet.queries, self._nodes(now), now)
        changed = self._regions.events()
        self._events += changed
        for each in changed:
            if each.state is State.STARTING:
                self._remember(each.region, START, f"begins with {each.members} members", now)
            elif each.state is State.BYPASSED:
                self._remember(each.region, BYPASS, f"stops: too few members are left ({each.members})", now)
        present = self._present(now)
        for before, after in zip(self._fleet.regions, regions, strict=True):
            for node in sorted({*before.members} - {*after.members}):
                kind, text = (DEPARTURE, "has left") if node in present else (FAILURE, "does not answer any more")
                self._remember(before.name, kind, f"{self._name(node)} {text}", now)
        if queries != self._fleet.queries:
            fleet = replace(self._fleet, version=self._fleet.version + 1, regions=regions, queries=queries)
            try:
                self._check(fleet)
            except UsageError as error:  # the nodes that are there cannot run it: it waits for others
                self._events.append(Unplaced(regions[0].name, (), error.message))
                return
            for query in self._fleet.queries:
                if query not in queries:
                    self._cuts.give_up(query.name, now)
            self._fleet = fleet
            self._left_s.clear()
            self._store()
        elif regions != self._fleet.regions:
            self._fleet = replace(self._fleet, regions=regions)
            self._persist.append(StoreFleet(encode_deployment(self._fleet)))

    def _nodes(self, now: float) -> Nodes:
        peers = self._fleet.peers
        others = self._called(frozenset(peer.node for peer in peers if peer.node != self._node))
        return Nodes(
            self.status, self._present(now),
            {peer.node: peer.position for peer in peers if peer.position is not None},
            {peer.node: peer.capacity for peer in peers if peer.capacity and peer.node in others},
            {peer.node: frozenset(peer.operators) for peer in peers},
            frozenset(other for _, other in self._apart), self._cuts.under_way, self._fleet.version,
        )  # fmt: skip

    def _present(self, now: float) -> frozenset[str]:
        """The nodes that are there, where phones come and go: silent for less than a ping and its answer, not missed
        by one that sends to it after they were asked, too."""
        lost = {node for node, since in self._doubted.items() if now - since >= self._confirm_s}
        return self.alive(now, max(PING_S + PING_TIMEOUT_S, self._silence_s)) - lost

    def pings(self, now: float) -> frozenset[str]:
        """The nodes to ask whether they are there. A coordinator that cannot call hears of them soon enough."""
        if not self._fleet.regions or self._reign.deposed:
            return frozenset()
        quiet = self.alive(now, PING_S + PING_TIMEOUT_S) - self.alive(now, PING_S)
        asked = [node for node, since in self._doubted.items() if now - since < self._confirm_s]
        return frozenset((*quiet, *asked)) - {self._node}

    def _note_doubts(self, now: float) -> None:
        """Who is missed by a node that sends to it is asked, with all of its region. Who is heard then is there."""
        if not self._fleet.regions:
            return
        known = {peer.node for peer in self._fleet.peers}
        reported = frozenset(
            (node, other)
            for node in self.alive(now)
            if (status := self.status(node)) is not None
            for other in status.unreachable
            if other in known and other != self._node
        )
        # Who has not answered is gone until it speaks: nobody sends to it any more, so nobody misses it.
        self._doubted = {node: since for node, since in self._doubted.items() if self._last_heard(node) <= since}
        for pair in sorted(reported):
            node = pair[1]
            if node in self._doubted or (pair in self._reported and now - self._last_heard(node) < self._confirm_s):
                continue
            # Phones often go together, and who reads only from one that has gone is missed by nobody.
            beside = [{*region.members} for region in self._fleet.regions if node in region.members]
            for each in {node}.union(*beside) - {self._node}:
                self._doubted.setdefault(each, now)
        self._reported = reported

    def _move_departing(self, now: float) -> None:
        """Hand over what runs on members that go, without anybody going back."""
        departures = self._regions.departures(self._fleet.regions, self._fleet.queries, self._nodes(now))
        for each in departures if self._fleet.regions else ():
            try:
                self.move(MoveRequest(each.query, each.vertex, each.to), now)
            except UsageError:  # it does not run just now: asked again when something is heard
                continue
            self._departing[each.query, each.vertex] = f"{self._name(each.leaving)} leaves the region"

    def _look_at_cuts(self, now: float) -> None:
        """Begin or complete cuts. That is no other deployment: nodes are told in a HINT, which is small."""
        alive = self.alive(now)
        queries = tuple(
            replace(query, cuts=self._cuts.look(query, self.status, alive, now))
            if STRATEGIES[query.row].row.of_region
            else query
            for query in self._fleet.queries
        )
        for before, after in zip(self._fleet.queries, queries, strict=True):
            if after.cuts.complete > before.cuts.complete:
                self._events.append(CutComplete(after.name, after.cuts.complete))
                self._remember(after.name, CHECKPOINT, f"cut {after.cuts.complete} is complete", now)
        if queries != self._fleet.queries:
            self._fleet = replace(self._fleet, queries=queries)
            self._persist.append(StoreFleet(encode_deployment(self._fleet)))

    def _part(self) -> None:
        """Let go of nodes that are out of the fleet, as far as nothing is on them any more."""
        fleet = without(self._fleet, self._gone) if self._gone else self._fleet
        if fleet == self._fleet:
            return
        names, stay = {query.name for query in fleet.queries}, {peer.node for peer in fleet.peers}
        nodes = tuple(peer.name for peer in self._fleet.peers if peer.node not in stay)
        ended = tuple(query.name for query in self._fleet.queries if query.name not in names)
        if nodes or ended:
            self._events.append(Left(nodes, ended))
        self._change(fleet)

    def _rerouted(self, queries: Sequence[HostedQuery], now: float) -> list[HostedQuery]:
        """The queries with other ways for devices that are back elsewhere, and without what nobody needs any more."""
        alive = self.alive(now)
        said = {node: status for node in alive if (status := self.status(node)) is not None}
        # What a device reaches that is back, it says itself, and that changes as it walks.
        apart = frozenset(
            link for link, since in self._apart.items() if now >= since + LINK_S and said[link[0]].back is None
        )
        reach = Reach(
            self._called(frozenset(peer.node for peer in self._fleet.peers if peer.capacity and peer.node in alive)),
            alive, apart, self._routing.failed(apart, now),
            {node: frozenset((*status.back.neighbours, node)) for node, status in said.items() if status.back},
            frozenset(node for node, status in said.items() if status.back),
            connected(self._fleet),
        )  # fmt: skip
        found = []
        for query in queries:
            if STRATEGIES[query.row].row.of_region:  # each member has to have its rows, and none passes them on
                found.append(query)
                continue
            adopted = query
            for node in query.sources:
                status = said.get(node)
                # What it took under an older deployment is over when it hears of this one.
                if status is not None and status.deployment is not None and status.deployment[1] == self._fleet.version:
                    adopted, events = self._routing.adopted(adopted, node, status.took, now)
                    self._events += events
            routed, events = self._routing.rerouted(adopted, reach, now)
            self._events += events
            found.append(without_retired(routed, self._fleet.version, said))
        return found

    def _share(self, query: HostedQuery, route: Route, path: Sequence[str]) -> tuple[int, ...]:
        """Who applies what on a new way of a device's rows."""
        return share(query, route, path, self._fleet.peers, self._fleet.queries)

    def _recovered(
        self, query: HostedQuery, queries: Sequence[HostedQuery], waits: Waits, now: float
    ) -> tuple[tuple[Placement, ...], list[str]]:
        """The placements after one failure after the other was recovered from, and what failed."""
        region = next((each for each in self._fleet.regions if each.name == query.name), None)
        not_lost = self.alive(now, waits.silence_s)
        if region is not None:
            not_lost = self._present(now) & {*region.members} - self._regions.dropped(query)
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
                if strategy.row.of_region:
                    break  # all of it begins again: what else has failed is heard of under its new terms
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
        row, others = STRATEGIES[query.row].row, len(self._called(alive)) - 1
        wanted = {Home.PEERS: min(row.copies, others), Home.REGION: others}.get(row.home, 0)
        if silent or any(len(placed.keepers) < wanted for placed in query.placements):
            why = self._absence(silent, waits) if silent else "too few keepers"
            formed = any(region.name == query.name for region in self._fleet.regions)
            if formed and silent and silent <= self.alive(now):
                why = f"{', '.join(sorted(map(self._name, silent)))} has left the region"
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

    def _absence(self, nodes: Iterable[str], waits: Waits) -> str:
        gone = ", ".join(sorted(self._name(node) for node in nodes if node in self._gone))
        silent = ", ".join(sorted(self._name(node) for node in nodes if node not in self._gone))
        said = [f"{gone} was revoked"] if gone else []
        return "; ".join([*said, *([f"{silent} is silent for {waits.silence_s:.3g} s"] if silent else [])])

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
            {placed.vertex: placed for placed in query.placements}, inputs, self._called(alive), hosting(queries),
            {peer.node: peer.capacity for peer in self._fleet.peers}, having, frozenset(too_old), able,
            fed_by={} if query.feeds else {vertex.name: frozenset(query.sources) for vertex in vertices}, ends=ends,
            apart=frozenset((min(pair), max(pair)) for pair in self._apart),
            gone=self._gone, cost=self._costs(query, alive), relays=False,
        )  # fmt: skip
        return view, waiting

    def _holding_cut(self, query: HostedQuery, alive: frozenset[str], now: float) -> frozenset[str]:
        """The nodes that a region can go back on: all that have its newest complete cut, and what came since."""
        if self._has_unheard() and now < self._since + self._silence_s:
            return frozenset()  # who has not spoken yet since this coordinator began may be gone
        holders = alive & {*query.cuts.holders} & {self._node, *self._heard}
        lacks = {
            host
            for placed in query.placements
            for host in placed.hosts
            if (one := self._instance(query.name, placed, host)) is not None and one.state == BEHIND
        }
        return holders - lacks

    def _called(self, nodes: frozenset[str]) -> frozenset[str]:
        """Those that others can send to. Where nobody has an address, they reach each other in some other way."""
        addressed = frozenset(peer.node for peer in self._fleet.peers if peer.addresses)
        return nodes & addressed if addressed else nodes

    def _costs(self, query: HostedQuery, alive: frozenset[str]) -> Callable[[str, str], int]:
        """Of ways between nodes, as placing has them. A query that is to be spread is spread again where nothing is
        said of the network: there only who is less loaded counts."""
        fleet = self._fleet
        if not query.place and not fleet.links and len({peer.lane for peer in fleet.peers}) <= 1:
            return lambda _one, _other: 0
        absent = [peer.node for peer in fleet.peers if peer.node not in alive]
        return Topology(fleet.peers, fleet.links, absent=absent, apart=tuple(self._apart)).cost

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
        self._fleet = self._routing.listed(self._fleet)
        self._messages.clear()
        self._deployments.clear()
        self._offered.clear()
        self._persist.append(StoreFleet(encode_deployment(self._fleet)))


def _decoded(stored: bytes) -> Deployment:
    try:
        return decode_deployment(stored)
    except (PeerError, UsageError) as error:
        raise DamagedData(f"what the coordinator remembers cannot be read: {error}", code="fleet-stored") from None
