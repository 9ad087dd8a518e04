"""Who runs what: a fleet of nodes, the queries they share, and what to do when a node is silent or a vertex fails.

The coordinator is never in the data's way. It hears every node's STATUS, judges silence, and answers with whole
deployments: what a node should do, not what it should change. All it decides is one new fleet, stored before anybody is
told of it. So a coordinator that is killed midway says the same again, and a node that missed a deployment gets the
newest one.

    STATUS -> Presence (who is there) -> Recovering, FleetRegions, Rerouting, PlannedMoves -> KeptFleet (one new fleet)
    KeptFleet -> stored -> FleetDownlink -> deployments and hints; Reign says whether its word counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from shared.errors import UsageError
from shared.hosting.edits import check_edit, edited
from shared.hosting.fleet_check import check_fleet
from shared.hosting.fleet_downlink import FleetDownlink
from shared.hosting.fleet_events import Deposed, Learned, Recovered, StoreFleet
from shared.hosting.fleet_regions import FleetRegions
from shared.hosting.kept_fleet import KeptFleet, decoded
from shared.hosting.leaving import Left, needed_by, without
from shared.hosting.planned_moves import ASKED, Now, PlannedMoves, without_strangers
from shared.hosting.presence import Presence
from shared.hosting.recovering import LINK_SILENCES, Recovering, Waits
from shared.hosting.reign import Reign
from shared.hosting.rerouting import Rerouting
from shared.hosting.routing import LINK_S
from shared.hosting.wiring import cloud_carriers
from shared.identity import DeviceId, EdgeKey
from shared.moves import MOVED_AWAY, REFUSED, RESTARTED, ROLLED_BACK, Move, MoveAnswer, MoveRequest, Recovery
from shared.plan.deployment import MOVES_MAX, Deployment, HostedQuery, Link, Peer, Region
from shared.plan.graph import Plan
from shared.plan.topology import Topology
from shared.recovery.delays import SILENCE_S, SILENCE_S_MIN
from shared.recovery.strategies import STRATEGIES
from shared.region.controller import RegionController
from shared.region.cuts import PERIOD_S, held_by
from shared.sync.exchange import NOT_READ
from shared.sync.step import Step
from shared.wire.fleet_status import DEPARTURE, FAILURE, RegionEvent
from shared.wire.messages import CutOrder, DeploymentMessage, Hint, PlanMessage
from shared.wire.packed_deployment import NextDeployment
from shared.wire.status import DeviceStatus, clean_text

CONFIRM_S = 3.0  # so soon a node is given up that one which sends to it misses: it is asked at once
PATIENCE_S = 60.0  # that a failed vertex waits for a silent node which has its newest snapshot
JUDGE_S = 0.1  # between two looks at the fleet while nobody says anything and nothing is due


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
        fleet = decoded(stored) if stored else Deployment(node, 0, lease, (), ())
        self._reign = Reign(sign, (fleet.lease, fleet.version) if stored else (0, 0))
        if stored:
            fleet = replace(fleet, lease=fleet.lease + lease_step)
        self._kept = kept = KeptFleet(node, fleet, now, clock_us)
        self._presence = presence = Presence(kept, silence_s, confirm_s, now)
        self._regions = FleetRegions(kept, presence, cut_s)
        self._recovering = Recovering(
            kept, presence, self._regions.controller, silence_s_min=silence_s_min, patience_s=patience_s
        )
        self._rerouting = Rerouting(kept, presence)
        self._planned = PlannedMoves()
        self._downlink = FleetDownlink(kept, presence, self._reign, self._regions.cuts, sign)
        self._unjudged = True  # something was heard or asked for since
        self._judge_at: float | None = None
        # Of which fleet, its nodes, and who carries what goes to the cloud.
        self._carriers: tuple[Deployment, frozenset[str], Mapping[EdgeKey, Mapping[str, int]]]
        self._carriers = fleet, frozenset(), {}
        if stored:
            kept.store()

    @property
    def fleet(self) -> Deployment:
        return self._kept.fleet

    def set_fleet(
        self,
        peers: Sequence[Peer],
        queries: Sequence[HostedQuery],
        links: Sequence[Link] = (),
        regions: Sequence[Region] = (),
    ) -> None:
        """These nodes and queries from now on. UsageError, and nothing changes, where they contradict each other.

        Placements of a query that runs already are the coordinator's own affair: they stay. So do queries that were
        submitted while the fleet ran, unless one of these has the name of one. A node that is listed no more and still
        has something of them is parted with: it stays until that is elsewhere."""
        running = {(query.name, query.incarnation): query for query in self._kept.fleet.queries}
        merged = []
        for query in queries:
            before = running.get((query.name, query.incarnation))
            same = before is not None and {one.vertex for one in before.placements} == {
                one.vertex for one in query.placements
            }
            if before is not None and same:
                stayed = replace(before, placements=without_strangers(before.placements, peers))
                query = edited(stayed, query, [peer.node for peer in peers], self._kept.share)  # noqa: PLW2901
            merged.append(query)
        names = {query.name for query in queries}
        merged += [query for query in self._kept.fleet.queries if query.submitted and query.name not in names]
        known = {peer.node for peer in peers}
        earlier = {region.name: region for region in self._kept.fleet.regions}
        going_on = {region.name for region in regions if earlier.get(region.name, region).task == region.task}
        merged += [query for query in self._kept.fleet.queries if query.name in going_on - names]
        members = {name: tuple(node for node in region.members if node in known) for name, region in earlier.items()}
        added = [each for each in self._kept.fleet.regions if each.task.submitted and each.name not in going_on | names]
        wanted = [*regions, *(each for each in added if each.name not in {region.name for region in regions})]
        kept = tuple(replace(region, members=members.get(region.name, ())) for region in wanted)
        needed = needed_by(merged) - known
        leaving = [peer for peer in self._kept.fleet.peers if peer.node in needed]
        self._change(
            replace(self._kept.fleet, peers=(*peers, *leaving), queries=tuple(merged), links=tuple(links), regions=kept)
        )
        self._presence.gone = (self._presence.gone - known) | {peer.node for peer in leaving}
        self._regions.controller.follow(kept)

    def set_regions(self, regions: Sequence[Region]) -> None:
        """Exactly these regions from now on. UsageError, and nothing changes, where they contradict each other. The
        query of one that is no more ends."""
        fleet = self._kept.fleet
        names = {region.name for region in regions}
        dropped = {region.name for region in fleet.regions} - names
        queries = tuple(query for query in fleet.queries if query.name not in dropped)
        self._change(replace(fleet, regions=tuple(regions), queries=queries))
        self._regions.controller.follow(self._kept.fleet.regions)

    def check_regions(self, regions: Sequence[Region]) -> None:
        """UsageError where these regions contradict each other."""
        check_fleet(
            replace(self._kept.fleet, version=self._kept.fleet.version + 1, regions=tuple(regions)), self._kept.node
        )

    def set_queries(self, queries: Sequence[HostedQuery]) -> None:
        """Exactly these queries from now on. UsageError, and nothing changes, where a node could not run its share."""
        self._change(replace(self._kept.fleet, queries=tuple(queries)))

    def as_edited(self, name: str, plan: Plan) -> HostedQuery:
        """A query with other filters and projections behind its gathers, as it would go on. UsageError where it
        cannot."""
        fleet = self._kept.fleet
        before = next(query for query in fleet.queries if query.name == name)
        check_edit(before, plan)
        after = edited(before, replace(before, plan=plan), [peer.node for peer in fleet.peers], self._kept.share)
        self.check([after if query is before else query for query in fleet.queries])
        return after

    def _change(self, fleet: Deployment) -> None:
        fleet = self._kept.routing.listed(fleet)
        if self._kept.fleet.version and fleet == self._kept.fleet:
            return
        fleet = replace(fleet, node=self._kept.node or fleet.peers[0].node, version=fleet.version + 1)
        check_fleet(fleet, self._kept.node)
        same = {(query.name, query.incarnation) for query in fleet.queries}
        gone = {query.name for query in self._kept.fleet.queries if (query.name, query.incarnation) not in same}
        self._recovering.forget(gone)
        self._unjudged = True
        self._kept.fleet = fleet
        self._kept.store()

    def check(self, queries: Sequence[HostedQuery]) -> None:
        """UsageError where these queries contradict each other, or a node could not run its share."""
        if not self._kept.fleet.peers:
            raise UsageError("no node offers to host anything yet", code="deployment-peer")
        check_fleet(replace(self._kept.fleet, version=1, queries=tuple(queries)), self._kept.node)

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """The term under which a node may send an edge of a query to the cloud; NOT_READ where another one should by
        now. None: it is no node of this fleet."""
        fleet, nodes, carriers = self._carriers
        if fleet is not self._kept.fleet:
            fleet = self._kept.fleet
            nodes, carriers = frozenset(peer.node for peer in fleet.peers), cloud_carriers(fleet.queries)
            self._carriers = fleet, nodes, carriers
        node = carrier.hex()
        return carriers.get(key, {}).get(node, NOT_READ) if node in nodes else None

    def heard(self, device: DeviceId, now: float, status: DeviceStatus | None = None) -> None:
        """A node has spoken, and perhaps said how it is."""
        node = device.hex()
        self._unjudged = True
        self._presence.hear(node, now, status)
        if status is not None:
            self._reign.heard(node, status.deployment, self._kept.fleet, now)
            self._judge(now)

    def shown(self, device: DeviceId, message: DeploymentMessage, now: float) -> None:
        """A node shows the deployment that it follows. What this coordinator did not sign is not believed."""
        self._unjudged = True
        if not self._reign.is_own(message):
            return
        learned = self._reign.learn(decoded(message.deployment), self._kept.fleet)
        if learned is not None:
            self._kept.fleet = replace(learned, regions=self._kept.fleet.regions, areas=())
            self._kept.events.append(Learned(self._kept.name(device.hex()), message.lease, message.version))
            self._kept.store()
        elif self._reign.deposed:
            self.depose(self._reign.deposed)
        self._kept.judged_at = now

    @property
    def deposed(self) -> str:
        """Why it has stopped; empty while it has not."""
        return self._reign.deposed

    def depose(self, why: str) -> None:
        """Another one rules: say nothing more."""
        self._reign.deposed = why
        self._kept.persist.clear()
        self._kept.events.append(Deposed(why))

    def wake(self, now: float) -> None:
        """Judges when somebody spoke, something was asked for, or it is time. A node at work is woken for every batch,
        which changes nothing here."""
        due = self._judge_at is not None and now >= self._judge_at
        if due or self._unjudged or now >= self._kept.judged_at + JUDGE_S:
            self._judge(now)

    def part_with(self, nodes: Iterable[str]) -> None:
        """These are out of the fleet from the next `wake` on, whatever they say."""
        self._unjudged = True
        self._presence.gone = frozenset(nodes)

    def move(self, request: MoveRequest, now: float) -> MoveAnswer:
        """Begin to move a vertex while it runs, or say what that would do. UsageError, and nothing changes, where it
        cannot be. What becomes of it is in `answers` and in the events."""
        self._unjudged = True
        answer, begun = self._planned.ask(request, self._now(now))
        if begun is not None:
            queries = tuple(
                replace(
                    query, placements=tuple(begun if one.vertex == begun.vertex else one for one in query.placements)
                )
                if query.name == request.query
                else query
                for query in self._kept.fleet.queries
            )
            self._kept.fleet = replace(self._kept.fleet, version=self._kept.fleet.version + 1, queries=queries)
            self._kept.store()
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

    def recoveries(self) -> tuple[Recovery, ...]:
        """The last moves that are remembered, the oldest first, of queries that run."""
        together = {query.name: STRATEGIES[query.row].row.of_region for query in self._kept.fleet.queries}
        stayed = {name: ROLLED_BACK if of_region else RESTARTED for name, of_region in together.items()}
        return tuple(
            Recovery(
                move, stayed[move.query] if move.before == move.after else MOVED_AWAY,
                self._recovering.times.took_s(move.query, move.vertex, move.term),
            )
            for move in self._kept.fleet.moves if move.query in together
        )  # fmt: skip

    def _now(self, now: float) -> Now:
        return Now(
            self._kept.fleet,
            self._presence.status,
            self._presence.alive(now),
            frozenset(self._presence.apart),
            self._recovering.times,
            now,
        )

    def next_wake(self) -> float | None:
        """When the next node or link would be silent for too long, or a vertex has waited long enough."""
        silence_s = self._presence.silence_s
        silences = {silence_s, *(waits.silence_s for waits in self._recovering.waits())}
        links = {LINK_S, LINK_SILENCES * silence_s, *silences}
        times = [*self._recovering.wakes(), *self._presence.wakes(silences)]
        times += [since + link_s for since in self._presence.apart.values() for link_s in links]
        others = (
            self._planned.next_wake(), self._regions.cuts.next_wake(), self._regions.controller.next_wake(),
            self._reign.next_wake(),
        )  # fmt: skip
        times += [at for at in others if at is not None]
        return min((time for time in times if time > self._kept.judged_at), default=None)

    def step(self) -> Step[StoreFleet, object]:
        persist, self._kept.persist = tuple(self._kept.persist[-1:]), []
        return Step(persist)

    def events(self) -> list[object]:
        events, self._kept.events = self._kept.events, []
        return events

    def region_events(self) -> tuple[RegionEvent, ...]:
        """What happened in the regions since this coordinator started, the newest last."""
        return tuple(self._kept.history)

    def _judge(self, now: float) -> None:
        self._kept.judged_at, self._unjudged = now, False
        if not self._reign.waits(now):
            self._look(now)
        self._judge_at = self.next_wake()

    def _look(self, now: float) -> None:
        self._part()
        self._presence.note_apart(self._presence.alive(now), now)
        self._presence.note_doubts(now)
        self._regions.look(now)
        queries = list(self._kept.fleet.queries)
        moved: list[Move] = []
        for place, (query, waits) in enumerate(zip(queries, self._recovering.waits(), strict=True)):
            found, why = self._recovering.recovered(query, queries, waits, now)
            reason = "; ".join(sorted(set(why)))
            planned = self._planned.go_on(replace(query, placements=found), query.placements, reason, self._now(now))
            self._kept.events += planned.ended
            asked, found = {one.vertex for one in planned.moved}, planned.placements
            if found == query.placements:
                continue
            queries[place] = replace(query, placements=found)
            if STRATEGIES[query.row].row.of_region:
                self._regions.cuts.give_up(query.name, now)
                queries[place] = replace(queries[place], cuts=held_by(queries[place]))
            before = {one.vertex: one for one in query.placements}
            moves = {one.vertex: one.hosts[0] for one in found if one.term > before[one.vertex].term}
            for one in found:
                if one.vertex in moves:
                    self._recovering.times.began(query.name, one.vertex, one.term, now)
            if why:
                recovered = {vertex: node for vertex, node in moves.items() if vertex not in asked}
                self._kept.events.append(Recovered(now, query.name, recovered, reason))
                if recovered:
                    self._kept.remember(query.name, FAILURE, f"{reason}: {', '.join(recovered)} begin again", now)
            at_us = self._kept.at_us(now)
            failed = clean_text(reason) or "no reason was given"
            wanted = {vertex: self._regions.departing.pop((query.name, vertex), ASKED) for vertex in asked}
            for vertex, wish in wanted.items():
                if wish != ASKED and vertex in moves:
                    text = f"{wish}: {vertex} goes on at {self._kept.name(moves[vertex])}"
                    self._kept.remember(query.name, DEPARTURE, text, now)
            moved += [
                Move(at_us, query.name, one.vertex, one.term, self._kept.names(before[one.vertex].hosts),
                     self._kept.names(one.hosts), wanted.get(one.vertex, failed))
                for one in found if one.vertex in moves
            ]  # fmt: skip
        queries = self._rerouting.rerouted(queries, now)
        if queries != list(self._kept.fleet.queries):
            self._kept.fleet = replace(
                self._kept.fleet, version=self._kept.fleet.version + 1, queries=tuple(queries),
                moves=(*self._kept.fleet.moves, *moved)[-MOVES_MAX:],
            )  # fmt: skip
            self._kept.store()
            self._part()
        self._regions.look_at_cuts(now)
        self._regions.move_departing(self.move, now)

    # --- who is there ----------------------------------------------------------------------------------------

    def status(self, node: str) -> DeviceStatus | None:
        return self._presence.status(node)

    def heard_at(self, node: str) -> float | None:
        """When a node spoke last; None when it did not since the coordinator started."""
        return self._presence.heard_at(node)

    def alive(self, now: float, silence_s: float | None = None) -> frozenset[str]:
        """The nodes that were heard of within this time; without one, the usual."""
        return self._presence.alive(now, silence_s)

    def behind(self, now: float) -> frozenset[str]:
        """The live nodes that have said that they run an older deployment than the newest."""
        return self._presence.behind(now)

    def pings(self, now: float) -> frozenset[str]:
        """The nodes to ask whether they are there. A coordinator that cannot call hears of them soon enough."""
        return frozenset() if self._reign.deposed else self._presence.pings(now)

    def topology(self, now: float) -> Topology:
        """The nodes that are heard, and their links but for those that nodes say do not work."""
        return self._presence.topology(now)

    @property
    def cloud(self) -> str:
        """The node that runs beside it: the one it runs on, else one that said so and is there. Empty: none does."""
        return self._presence.cloud

    def waits(self) -> list[Waits]:
        """For each query, how long a node may say nothing."""
        return self._recovering.waits()

    def lacks_snapshot(self, query: str, vertex: str) -> bool:
        """Whether a vertex waits for a node that has a new enough snapshot of it."""
        return self._recovering.lacks_snapshot(query, vertex)

    # --- as a downlink ---------------------------------------------------------------------------------------

    def deployment(self, node: str) -> tuple[Deployment, bytes]:
        """What this node should do."""
        return self._downlink.deployment(node)

    def plan(self, device: DeviceId, newer_than: int, operators: frozenset[str] | None) -> PlanMessage | None:
        return self._downlink.plan(device, newer_than, operators)

    @property
    def deployment_bytes(self) -> int:
        """Of deployments that went to other nodes since this start."""
        return self._downlink.deployment_bytes

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> NextDeployment | None:
        return self._downlink.next_deployment(device, follows)

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        return self._downlink.results(device, after, limit)

    def hint(self, device: DeviceId) -> Hint | None:
        return self._downlink.hint(device)

    def orders(self, node: str) -> tuple[CutOrder, ...]:
        """What a node has not heard of cuts through the regions that it is in."""
        return self._downlink.orders(node)

    # --- what changes by itself ------------------------------------------------------------------------------

    @property
    def regions(self) -> RegionController:
        return self._regions.controller

    def _part(self) -> None:
        """Let go of nodes that are out of the fleet, as far as nothing is on them any more."""
        fleet = without(self._kept.fleet, self._presence.gone) if self._presence.gone else self._kept.fleet
        if fleet == self._kept.fleet:
            return
        tasks, stay = {task.name for task in _tasks(fleet)}, {peer.node for peer in fleet.peers}
        nodes = tuple(peer.name for peer in self._kept.fleet.peers if peer.node not in stay)
        ended = tuple(dict.fromkeys(task.name for task in _tasks(self._kept.fleet) if task.name not in tasks))
        if nodes or ended:
            self._kept.events.append(Left(nodes, ended))
        self._change(fleet)
        self._regions.controller.follow(self._kept.fleet.regions)


def _tasks(fleet: Deployment) -> list[HostedQuery]:
    """Its queries, and those of regions, which need not run."""
    return [*fleet.queries, *(region.task for region in fleet.regions)]
