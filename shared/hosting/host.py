"""Several vertices on one node, and the edges between them and other nodes' vertices: one machine.

Theory of operation. Every node is a gateway to the nodes upstream of it. What arrives on an edge goes to an instance, a
keeper or a sink; what those make goes to the outbox, from where one sender per reading node takes it.

    arrivals -> PeerReceiver -> Taking -> Vertices (instances) -> outbox -> Calling (senders) -> the next node
                                       -> keeper  -> disk
                                       -> sink    -> disk
                                       -> copy    -> disk, instance (`copies.py`)
    what is broadcast -> StateLane (snapshots) -> keeper; RowsLane (rows that enter a region) -> copy
                                       -> carrier -> outbox -> Calling -> the next node (`carrier.py`)
    what is synced to the cloud -> outbox -> the node's own Sender to its gateway, whose receipt is durable
    receipts -> senders -> Hearing -> outbox (trim), checkpoints (what may become permanent)
    deployments -> Following -> Beginning (what runs here) -> Serving (which edges go out) -> Calling (to whom)

All parts share one record of what is on this node, `Here`. `Host` makes them and has the five calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from shared.hosting.alternates import Alternates
from shared.hosting.beginning import Beginning
from shared.hosting.calling import Calling, PeerKeys
from shared.hosting.cutting import Cutting
from shared.hosting.following import Following
from shared.hosting.hearing import Hearing
from shared.hosting.here import Here
from shared.hosting.instance import Instance
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.lanes import KNOCK
from shared.hosting.messages import Answer, Ask, Datagram, HostMessage, Unreachable
from shared.hosting.peer_receiver import NoDownlink, PeerReceiver, Roster
from shared.hosting.reporting import Reporting
from shared.hosting.returning import Returning
from shared.hosting.rows_lane import RowsLane
from shared.hosting.serving import Serving
from shared.hosting.showing import Held, Showing
from shared.hosting.sink import Sink
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.state_lane import StateLane
from shared.hosting.store import HostPersist
from shared.hosting.taking import Taking
from shared.hosting.vertices import Vertices
from shared.hosting.watching import Unwatched, Watch
from shared.hosting.wiring import EdgeSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.language.codecs import COLUMNS, NONE
from shared.plan.deployment import Deployment, HostedQuery, Peer, decode_deployment
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.region.broadcast import Broadcast
from shared.spool.disk import Disk
from shared.spool.entry import Entry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.receiver import Arrival, Downlink, Reply
from shared.sync.sender import Sender
from shared.sync.session import GatewaySessions
from shared.sync.step import Step
from shared.wire.columns import CODEC_COLUMNS, Cache
from shared.wire.messages import CutOrder, DeploymentMessage, PeerReceipt
from shared.wire.status import DeviceStatus


class Host:
    """Everything a node runs and keeps for queries that span several nodes."""

    def __init__(
        self,
        node: DeviceId,
        incarnation: int,
        keys: PeerKeys,
        *,
        disk: Disk,
        sources: Spool,
        random: Random,
        pacing: Pacing,
        coordinator: bytes = b"",
        downlink: Downlink | None = None,
        watch: Watch | None = None,
        gateway: Sender | None = None,
        report_s: float | None = None,
        now: float = 0.0,
    ) -> None:
        """Reads what is on the disk; what is to be written there is in steps. `sources` is the spool of this node's own
        device. `coordinator` is the public key of who may deploy here; none: only `deploy` does. `gateway` is this
        device's own end towards the gateway that coordinates; whoever drives it says in `gateway_said` what came.
        `watch` runs users' code. `report_s`: how often it speaks to its coordinator at least; else as often as to
        other nodes."""
        self.here = here = Here(node, incarnation, disk=disk, sources=sources, coordinator=coordinator, now=now)
        self.node, self.device, self.outbox, self.refused = here.node, here.device, here.outbox, here.refused
        self._knocked: list[Reply] = []
        self._packing: dict[EdgeId, Cache] = {}  # of what its own device filters
        self.calling = calling = Calling(
            here, incarnation, keys, random=random, pacing=pacing, report_s=report_s, gateway=gateway, fed=self._fed
        )
        self.snapshots = snapshots = SnapshotsUnderWay(
            here.node, here.keeper, here.outbox, here.made, send=calling.appended, broadcast=self._broadcast,
            store=here.persist.extend, say=here.events.append, whole=self._whole,
        )  # fmt: skip
        self.lane = lane = StateLane(
            node, keys.answering(), here.keeper, here.outbox, here.peers, say=calling.tell, reached=calling.answers_us,
            store=here.persist.extend, taken=self._forget_edges, released=calling.release, receipt=self._receipt,
        )  # fmt: skip
        self.rows = rows = RowsLane(
            node, keys.answering(), here.outbox, here.peers, say=calling.tell, takes=calling.takes,
            answered_at=calling.answered_at, marks=calling.marks, copy_of=here.copy_of, take=self._take_rows,
            receipt=self._receipt,
        )  # fmt: skip
        forget = self._forget_edges
        self.vertices = vertices = Vertices(here, calling, snapshots, watch or Unwatched(), forget_edges=forget)
        self.taking = taking = Taking(here, calling, vertices, lane, rows, forget_edges=forget)
        self._cutting = cutting = Cutting(here, calling, snapshots)
        serving = Serving(here, calling, lane, rows, random)
        self._alternates = alternates = Alternates()
        self.returning = returning = Returning(here, calling, alternates, pacing)
        sessions = GatewaySessions(keys.answering(), Roster(here.peers))
        beginning = Beginning(
            here, calling, serving=serving, vertices=vertices, taking=taking, cutting=cutting, snapshots=snapshots,
            alternates=alternates, sessions=sessions, random=random, forget_edges=forget,
        )  # fmt: skip
        self.following = following = Following(here, calling, beginning, alternates)
        self._hearing = Hearing(
            here, calling, serving=serving, taking=taking, cutting=cutting, returning=returning, beginning=beginning,
            following=following, snapshots=snapshots, lane=lane, rows=rows, forget_edges=forget,
        )  # fmt: skip
        self._showing = Showing(
            here, calling, cutting=cutting, returning=returning, alternates=alternates, snapshots=snapshots
        )
        self.reporting = Reporting(self.status, self._showing.pressing)
        self.receiver = PeerReceiver(taking, sessions, downlink or NoDownlink(), keys.answering())
        if here.memory.deployment:
            beginning.apply(decode_deployment(here.memory.deployment), now, restarted=True)

    # Parts that are made before those they ask.

    def _forget_edges(self) -> None:
        """Where an edge goes on is not what the receiver believes: it asks again."""
        self.receiver.forget_edges()

    def _fed(self) -> set[str]:
        return self.lane.calls()

    def _receipt(self, key: EdgeKey) -> PeerReceipt:
        return self.taking.receipt(key)

    def _take_rows(self, key: EdgeKey, data: bytes) -> None:
        self.taking.take_rows(key, data)

    def _whole(self, instance: Instance, kept: KeptSnapshot) -> KeptSnapshot | None:
        return self.vertices.whole(instance, kept)

    def _broadcast(self, instance: Instance, state: EdgeSpec, first: int, data: bytes) -> bool:
        """Send a snapshot to all who keep it at once, where its row keeps it in the whole region."""
        if STRATEGIES[instance.spec.query.row].row.home is not Home.REGION:
            return False
        return self.lane.begin(state, (first, self.here.made.head(state.key.edge)), data, self.here.now)

    # --- deployments -----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self.here.version

    @property
    def follows(self) -> tuple[int, int]:
        """Lease and version of the deployment that it runs."""
        return self.here.follows

    @property
    def deployed(self) -> Deployment | None:
        """What it was told last."""
        return self.here.deployed

    def deploy(self, deployment: Deployment, encoded: bytes, now: float, signature: bytes = b"") -> None:
        """Run what this says from now on. An older one than the last, or one of a deposed coordinator, is refused."""
        self.following.deploy(deployment, encoded, now, signature)

    def deploy_from(self, message: DeploymentMessage, now: float) -> None:
        """As the coordinator says it, whose signature was checked. What cannot be run changes nothing."""
        self.following.deploy_from(message, now)

    def followed(self) -> DeploymentMessage:
        """What it follows, to show the coordinator."""
        return self.following.followed()

    def meet(self, peers: Sequence[Peer], now: float) -> None:
        """Whom a node knows before its first deployment: it asks the coordinator among them for one."""
        self.calling.meet(peers, now)

    def order(self, orders: Sequence[CutOrder], now: float) -> None:
        """The coordinator's word on cuts: begin one here, or forget what is before one that is complete."""
        self._cutting.order(orders, now)

    @property
    def news(self) -> int:
        """The newest deployment that a peer has spoken of."""
        return self.calling.news

    def call(self, behind: frozenset[str], now: float) -> None:
        """These nodes run an older deployment than this one, where the coordinator is."""
        self.calling.call(behind, now)

    def ping(self, nodes: frozenset[str], now: float) -> None:
        """Ask these nodes whether they are there, where the coordinator is. Who answers is told of as `Heard`."""
        self.calling.ping(nodes, now)

    @property
    def moves_under_way(self) -> bool:
        """Whether a vertex of its fleet is on its way to another node."""
        return self.calling.moves_under_way

    @property
    def broadcasts(self) -> bool:
        """Whether a query of its fleet keeps snapshots in the whole region."""
        queries = () if self.deployed is None else self.deployed.queries
        return any(STRATEGIES[query.row].row.home is Home.REGION for query in queries)

    # --- what the node's own device makes --------------------------------------------------------------------

    def queries(self) -> tuple[HostedQuery, ...]:
        """Those that this node's own device feeds."""
        return self.here.queries()

    def gathers(self) -> tuple[EdgeSpec, ...]:
        """The edges that this node's own device feeds."""
        return self.here.gathers()

    def offer(self, key: EdgeKey, batch: SpooledBatch, now: float, evict: Evict | None = None) -> Entry:
        """A batch of this node's own device, numbered from its spool's head. Sent once it is durable. SpoolFull while
        readers have not made room, unless `evict` or else the spool says to give something up."""
        flow = self.here.wiring.flows[key]
        codec = COLUMNS if batch.codec == CODEC_COLUMNS else NONE  # it waits in the spool as small as it came
        cache = self._packing.setdefault(key.edge, Cache())
        batch = flow.runs.forward(batch, flow.upto, flow.device, codec, cache)
        entry = self.here.sources_spool.append(batch, evict)
        source, spec = self.here.sources[key], self.here.makers[key.edge][1]
        for node in spec.readers:
            self.calling.senders[node].appended(batch, now)
        for mark in source.elements(batch.hi - batch.lo, batch.hi):
            self.calling.send_mark(spec, 0, mark, now)
        return entry

    def frontier(self, key: EdgeKey, frontier_us: int, now: float) -> None:
        """No earlier element follows on an edge of this node's own device."""
        self.here.sources[key].advance(frontier_us)
        for node in self.here.makers[key.edge][1].readers:
            self.calling.senders[node].frontier(key.edge, frontier_us, now)

    def head(self, key: EdgeKey) -> int:
        return self.here.head(key)

    # --- the five calls --------------------------------------------------------------------------------------

    def receive(self, message: HostMessage, now: float) -> None:
        self.here.now = now
        match message:
            case Arrival(handle, body) if not body:
                self._knocked.append(Reply(handle, KNOCK))
            case Arrival():
                self.receiver.receive(message, now)
            case Answer(node, body, urgent):
                self.calling.answer(node, body, now, urgent=urgent)
            case Datagram(body):
                if not self.rows.datagram(body):
                    self.lane.datagram(body, now)
                return  # what follows from it follows with the next step: there are hundreds of them
            case Unreachable(node):
                if (sender := self.calling.senders.get(node)) is not None:
                    sender.fail(now)
        self._notice(now)

    def wake(self, now: float) -> None:
        self.here.now = now
        self.receiver.wake(now)
        self.vertices.catch_up()
        self.calling.wake(now)
        self.returning.wake(now)
        for sender in self.calling.senders.values():
            sender.wake(now)
        self._notice(now)

    def next_wake(self) -> float | None:
        times = [sender.next_wake() for sender in self.calling.senders.values()]
        others = (
            self.calling.ask_at, self.returning.looks_until, self.lane.next_wake(), self.rows.next_wake(),
            self._alternates.next_wake(), self.calling.lanes.next_wake(),
            self.here.now if self.vertices.catches_up else None,
        )  # fmt: skip
        times += [at for at in others if at is not None]
        return min(times, default=None)

    def step(self, now: float) -> Step[HostPersist, Ask | Reply | Broadcast]:
        here = self.here
        here.now = now
        here.made.sync()
        self.vertices.synced()
        self.snapshots.go_on()
        fed = self.lane.calls()
        send: list[Ask | Reply | Broadcast] = [*self.lane.step(now)]
        self.calling.let_go(fed - self.lane.calls())
        if here.sources_spool.dirty:
            here.persist.append(SyncSpool())
        else:
            self.rows.is_open = self.lane.is_open
            send += self.rows.step(now)
            for node, sender in list(self.calling.senders.items()):
                if here.coordinates(node):
                    self._report(sender, now)
                while step := sender.step(now):
                    send += [self.calling.lanes.ask(node, body, follows=sender.under_way > 1) for body in step.send]
            self._notice(now)
        send += self.calling.lanes.knocks(self.calling.senders.keys(), now)
        send += self._knocked
        self._knocked.clear()
        replies = self.receiver.step(now).send
        self.refused.update(reply.refused for reply in replies if reply.refused is not None)
        send += replies
        persist = tuple(here.persist)
        here.persist.clear()
        return Step(persist, tuple(send))

    def _notice(self, now: float) -> None:
        self._hearing.notice(self.receiver.events(), now)

    def _report(self, sender: Sender, now: float) -> None:
        said = self.reporting.look(now, due=sender.next_wake() <= now)
        if said is not None:
            status, presses = said
            sender.status(status, self.here.memory.deployment)
            if presses:
                sender.hurry(now)

    def events(self) -> list[object]:
        events = list(self.here.events)
        self.here.events.clear()
        return events

    # --- what its driver hears -------------------------------------------------------------------------------

    def gateway_said(self, event: object, now: float) -> None:
        """What this node's own sender to the gateway tells: how far the log has what is synced from here."""
        self._hearing.gateway_said(event, now)

    def hear_governor(self, now: float, *, answers: bool) -> None:
        """Whether its coordinator answers, where that is none of the fleet."""
        self.returning.hear_governor(now, answers=answers)

    def network_changed(self, now: float) -> None:
        """This node's network is another one: who did not answer is asked at once."""
        for sender in self.calling.senders.values():
            sender.chase(now)
        self._notice(now)

    # --- what it shows ---------------------------------------------------------------------------------------

    def status(self) -> DeviceStatus:
        """What a coordinator must know."""
        return self._showing.status()

    @property
    def is_cut_off(self) -> bool:
        """Whether somebody whom it should reach does not answer."""
        return self.calling.is_cut_off

    def unanswering(self) -> tuple[str, ...]:
        """Nodes that it calls and that do not answer."""
        return self.calling.unanswering()

    def neighbours(self) -> tuple[tuple[str, int], ...]:
        """The nodes that it sends to and reaches, each with what that costs."""
        return self.calling.neighbours()

    def peers(self) -> tuple[Peer, ...]:
        return tuple(self.here.peers.values())

    def instances(self) -> tuple[Instance, ...]:
        return tuple(self.here.instances.values())

    def sinks(self) -> tuple[Sink, ...]:
        return tuple(self.here.sinks.values())

    def kept_bytes(self, query: str) -> int:
        """On this node's disk for others: rows that came into a region, snapshots of vertices that run elsewhere."""
        return self._showing.kept_bytes(query)

    def held(self) -> Held:
        """What recovery costs here in memory."""
        return self._showing.held()
