"""Several vertices on one node, and the edges between them and other nodes' vertices: one machine.

Theory of operation. Every node is a gateway to the nodes upstream of it. What arrives on an edge goes to an instance, a
keeper or a sink; what those make goes to the outbox, from where one sender per reading node takes it. The answer to an
arrival is a receipt with two positions: `taken`, which is where to go on, and `through`, below which nothing will be
asked for again. `through` rises when a snapshot is permanent, and not before.

    arrivals -> PeerReceiver -> instance -> outbox -> Sender -> the next node
                             -> keeper  -> disk
                             -> sink    -> disk
                             -> copy    -> disk, instance (`copies.py`)
                             -> carrier -> outbox -> Sender -> the next node (`carrier.py`)
    what is synced to the cloud -> outbox -> the node's own Sender to its gateway, whose receipt is durable
    receipts -> Sender -> outbox (trim), checkpoints (what may become permanent)

A deployment is whole: `deploy` compares it with what runs and changes the difference. A vertex that runs under the
term it is deployed with goes on undisturbed; any other begins from what this node's keeper has of it. Nothing is told
in steps, so a deployment that is repeated, or whose answer is lost, changes nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple, Protocol

from shared.batch import NO_FRONTIER
from shared.errors import BrokenInvariant, PeerError, ResurgeError, UsageError
from shared.hosting.alternates import Alternates
from shared.hosting.carrier import EPOCHS, Carrier
from shared.hosting.copies import Copy, name_of, strangers
from shared.hosting.initiators import cut_initiator, number_of, text_of
from shared.hosting.instance import Gone, Instance, Item, Made, Rows, Time
from shared.hosting.keeper import Keeper
from shared.hosting.messages import (
    Answer,
    Ask,
    Connected,
    Datagram,
    Heard,
    HostMessage,
    InstanceFailed,
    PeerBack,
    PeerLost,
    SinkTook,
    Unreachable,
)
from shared.hosting.peer_receiver import NoDownlink, PeerReceiver, Roster
from shared.hosting.reporting import Reporting
from shared.hosting.sink import Sink
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.source import Source
from shared.hosting.state_lane import StateLane
from shared.hosting.store import HostPersist, Memory, StoreMemory
from shared.hosting.watching import Result, Unwatched, Watch
from shared.hosting.wiring import (
    GATEWAY,
    PASSED_ON,
    STATE,
    CarrierSpec,
    EdgeSpec,
    Flow,
    KeptSpec,
    VertexSpec,
    Wiring,
    state_edge,
    wire,
)
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.language.codecs import COLUMNS, NONE
from shared.language.schema import Schema
from shared.plan.deployment import Deployment, HostedQuery, Peer, decode_deployment
from shared.plan.topology import measured_cost
from shared.recovery.consistency import EdgeCut, inconsistencies
from shared.recovery.marks import Extend, Freeze, Mark, MarkId
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include
from shared.region.broadcast import Broadcast
from shared.spool.disk import Disk
from shared.spool.entry import DataEntry, Entry, Reason, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.events import (
    BitmapArrived,
    DeploymentArrived,
    Disconnected,
    Extended,
    HintArrived,
    PlanArrived,
    ReaderRestored,
    ReceiptReceived,
    Reconnected,
    Refused,
)
from shared.sync.exchange import NOT_READ, DeploymentShown, LogRecord, StatusReceived
from shared.sync.outbox import Outbox, cut
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.receiver import Arrival, Downlink, ExchangeApplied, Reply
from shared.sync.sender import Sender
from shared.sync.session import DeviceKeys, DeviceSession, GatewayKeys, GatewaySession, GatewaySessions
from shared.sync.step import Step
from shared.wire import codecs
from shared.wire import messages as wire_messages
from shared.wire.columns import CODEC_COLUMNS, Cache
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import (
    DATA_PREFIX,
    FORGOTTEN,
    CutOrder,
    Data,
    DeploymentMessage,
    LostRange,
    MarkMessage,
    PeerReceipt,
)
from shared.wire.status import (
    NEIGHBOURS_MAX,
    TEXT_CHARACTERS,
    BackStatus,
    CutStatus,
    DeviceStatus,
    InstanceStatus,
    KeptStatus,
)

# A keeper has answered for a snapshot when it has it: one that gets nothing else need not be asked often how far it is.
KEEPER_POLLS = 5
WITHIN_S = 0.02  # that rows wait for company before they go to the next node
MADE_BYTES = 16 << 20  # what the vertices here have made and nobody has a receipt for
# Frames that are taken only where an edge goes on from what was taken. Declarations and marks come as well from a node
# that has not heard yet that its reader began again with less.
GO_ON = frozenset(map(int, (FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER)))
CREDIT_BYTES = MADE_BYTES // 2  # beyond it no more is taken, but for rows that go round a cycle
SPENT = "hello-spent"  # a greeting that came twice is refused once, which says nothing of the link
LOOK_S = 0.5  # that a device which is back looks around before it says whom it reaches
ASK_S = 0.25  # between two questions to the coordinator while a vertex moves: who hears of it late, pauses longer
COPIES = 1 << 31  # the term of a copy that nothing here reads begins behind all terms of vertices
STARTING, RUNNING, FAILED, LOST, BEHIND = "starting", "running", "failed", "lost", "behind"


class PeerKeys(Protocol):
    """A node's long-term key, towards any of its peers."""

    def calling(self, peer: bytes) -> DeviceKeys:
        """To call the node that has this public key."""
        ...

    def answering(self) -> GatewayKeys: ...


class Held(NamedTuple):
    """Bytes that the vertices here keep in memory."""

    rows: int  # that readers may ask for again
    snapshots: int  # frozen and not permanent, on their way to keepers, and the newest of each


class Host:
    """Everything a node runs and keeps for queries that span several nodes."""

    takes_marks = True

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
        self.node = node.hex()
        self.device, self._incarnation, self._keys = node, incarnation, keys
        self._disk = disk
        self._memory = memory = Memory.read(disk)
        memory.boot += 1
        if coordinator and memory.coordinator not in (b"", coordinator):  # its leases and versions are another's
            memory.deployment, memory.version, memory.lease, memory.signature = b"", 0, 0, b""
        self._now = now
        self._ask_at: float | None = None  # while a vertex moves
        self._keeper = Keeper(disk)
        self._sources_spool = sources
        self._random = random
        self._pacing = pacing
        self._reports = pacing if report_s is None else replace(pacing, poll_s=report_s)
        self._for_keepers = replace(pacing, poll_s=KEEPER_POLLS * pacing.poll_s)
        self._coordinator = coordinator
        self._watch = watch or Unwatched()
        self._gateway = gateway
        self._made = Spool.create(
            MemoryDisk(), capacity_bytes=MADE_BYTES, device=node, incarnation=incarnation, evict=Evict.BLOCK
        )
        self.outbox = Outbox()
        self._wiring = Wiring()
        self.deployed: Deployment | None = None  # what it was told last
        self._peers: dict[str, Peer] = {}
        self._instances: dict[tuple[str, int, str], Instance] = {}
        self._not_begun: dict[tuple[str, int, str], InstanceStatus] = {}  # vertices that should run here, and why not
        self._sources: dict[EdgeKey, Source] = {}
        self._packing: dict[EdgeId, Cache] = {}  # of what its own device filters
        self._sinks: dict[EdgeKey, Sink] = {}
        self._readers_of: dict[EdgeKey, list[tuple[Instance, str]]] = {}
        self._makers: dict[EdgeId, tuple[Instance | Source, EdgeSpec]] = {}
        self._epochs = itertools.count(memory.boot * EPOCHS)  # of carriers
        self._carriers: dict[EdgeId, Carrier] = {}  # by the edge that each makes
        self._carrier_of: dict[EdgeKey, Carrier] = {}  # by the edge that it reads
        self._copies: dict[EdgeKey, Copy] = {}  # by each edge on which it comes
        self._cuts: dict[str, CutStatus] = {}  # by query, what is known of the cuts through its region
        self._returning: set[EdgeId] = set()  # edges of its own device that were cut off, and what was spooled since
        self._stuck: set[EdgeId] = set()  # of those, what did not go on though whoever reads it answers
        self._carried: Mapping[str, Sequence[tuple[EdgeSpec, int]]] = {}
        self._again_at = float("-inf")  # when a node that was lost answered again
        self._looks_until: float | None = None  # who was lost is asked again, and has not all answered
        self._probed: frozenset[str] = frozenset()  # nodes that are called only to know who can be reached
        self._legs: dict[EdgeKey, frozenset[EdgeKey]] = {}  # of an edge whose input may come on others as well, all
        self._live_legs: set[EdgeKey] = set()  # those of them on which something came
        self._alternates = Alternates()
        self._ungoverned = False  # its coordinator, which is none of the fleet, does not answer
        self._standby: dict[EdgeKey, CarrierSpec] = {}  # by the edge that it would read, what it may be asked to carry
        self._roused: set[EdgeKey] = set()  # of those, what it was asked for
        self._state_edges: dict[EdgeId, Instance] = {}
        self._loads: dict[tuple[EdgeId, str], int] = {}
        self._senders: dict[str, Sender] = {}
        self._behind: frozenset[str] = frozenset()  # nodes that are called to tell them of a newer deployment
        self._pinged: dict[str, float] = {}  # nodes that a coordinator here asks if they are there: since when
        self._told_of = 0  # the newest deployment that a peer has spoken of
        self._persist: list[HostPersist] = [StoreMemory(memory.encode())]
        self._events: list[object] = []
        self._snapshots = SnapshotsUnderWay(
            self.node, self._keeper, self.outbox, self._made, send=self._appended, broadcast=self._broadcast,
            store=self._persist.append, say=self._events.append,
        )  # fmt: skip
        self.lane = StateLane(
            node, keys.answering(), self._keeper, self.outbox, self._peers, say=self._tell, reached=self._answers_us,
            store=self._persist.append, taken=self._took_whole, released=self._release,
            receipt=self.receipt,
        )  # fmt: skip
        self._answers: list[bytes] = []  # to marks of the exchange that is being taken
        self.position: tuple[float, float] | None = None  # in degrees; told at once when whoever drives it changes it
        self.accuracy_m: float | None = None  # of the position
        self.leaving = ""  # why it should run nothing more, as whoever drives it knows
        self.refused: Counter[str] = Counter()  # by code, what others sent and nothing was kept of
        self._sessions = GatewaySessions(keys.answering(), Roster(self._peers))
        self.reporting = Reporting(self.status, self.urgent)
        self.receiver = PeerReceiver(self, self._sessions, downlink or NoDownlink(), keys.answering())
        if memory.deployment:
            self._apply(decode_deployment(memory.deployment), now, restarted=True)

    # --- deployments -----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._memory.version

    @property
    def follows(self) -> tuple[int, int]:
        """Lease and version of the deployment that it runs."""
        return self._memory.lease, self._memory.version

    def deploy(self, deployment: Deployment, encoded: bytes, now: float, signature: bytes = b"") -> None:
        """Run what this says from now on. An older one than the last, or one of a deposed coordinator, is refused."""
        if deployment.node != self.node:
            raise UsageError("this deployment is for another node", code="deployment-node")
        memory = self._memory
        if deployment.lease < memory.lease:
            raise PeerError(
                f"a deployment of lease {deployment.lease}; this node has followed {memory.lease}",
                code="deployment-stale",
            )
        if (deployment.version, deployment.lease) == (memory.version, memory.lease):
            return
        if deployment.version < memory.version:
            raise PeerError(
                f"deployment {deployment.version} after {memory.version}; an older one changes nothing",
                code="deployment-stale",
            )
        self._alternates.forget()
        self._apply(deployment, now)
        memory.deployment, memory.version, memory.lease = encoded, deployment.version, deployment.lease
        memory.signature, memory.coordinator = signature, self._coordinator
        self._persist.append(StoreMemory(memory.encode()))
        for sender in self._senders.values():
            sender.runs(memory.version)

    def deploy_from(self, message: DeploymentMessage, now: float) -> None:
        """As the coordinator says it, whose signature was checked. What cannot be run changes nothing."""
        self._try_deploy(message.deployment, now, message.signature)

    def followed(self) -> DeploymentMessage:
        """What it follows, to show the coordinator."""
        memory = self._memory
        return DeploymentMessage(self.device, memory.lease, memory.version, memory.deployment, memory.signature)

    def meet(self, peers: Sequence[Peer], now: float) -> None:
        """Whom a node knows before its first deployment: it asks the coordinator among them for one."""
        if not self._memory.version:
            self._peers.update((peer.node, peer) for peer in peers)
            self._carry({}, now)

    @property
    def news(self) -> int:
        """The newest deployment that a peer has spoken of."""
        return self._told_of

    def call(self, behind: frozenset[str], now: float) -> None:
        """These nodes run an older deployment than this one, where the coordinator is. They are called, and a node that
        hears of a newer one asks for it at once, not only at its next poll."""
        if behind == self._behind:
            return
        new, self._behind = (behind - self._behind) & self._peers.keys(), behind
        for node in self._senders.keys() - self._called():
            del self._senders[node]
        for node in sorted(new):
            self._sender(node, now).hurry(now)

    def ping(self, nodes: frozenset[str], now: float) -> None:
        """Ask these nodes whether they are there, where the coordinator is. Who answers is told of as `Heard`."""
        if nodes == self._pinged.keys():
            return
        new = (nodes - self._pinged.keys()) & self._peers.keys() - {self.node}
        self._pinged = {node: self._pinged.get(node, now) for node in sorted(nodes & self._peers.keys() - {self.node})}
        for node in self._senders.keys() - self._called():
            del self._senders[node]
        for node in sorted(new):
            self._sender(node, now).hurry(now)

    @property
    def moves_under_way(self) -> bool:
        """Whether a vertex of its fleet is on its way to another node."""
        return self._ask_at is not None

    def peers(self) -> tuple[Peer, ...]:
        return tuple(self._peers.values())

    def queries(self) -> tuple[HostedQuery, ...]:
        """Those that this node's own device feeds."""
        return tuple({query.name: query for query, _ in self._wiring.sources}.values())

    @property
    def broadcasts(self) -> bool:
        """Whether a query of its fleet keeps snapshots in the whole region."""
        queries = () if self.deployed is None else self.deployed.queries
        return any(STRATEGIES[query.row].row.home is Home.REGION for query in queries)

    def _apply(self, deployment: Deployment, now: float, *, restarted: bool = False) -> None:
        wiring = wire(self._alternates.applied(deployment))  # raises before anything has changed
        self._now = now
        self._wiring, self.deployed = wiring, deployment
        holding = [carrier for carrier in self._carriers.values() if carrier.taken > carrier.through]
        self._roused &= {carrier.spec.reads.key for carrier in holding}  # others are roused again if they are needed
        for node in self._peers.keys() - {peer.node for peer in deployment.peers}:
            self._sessions.revoke(DeviceId(bytes.fromhex(node)))  # it is a stranger from now on
        self._peers.clear()
        self._peers.update((peer.node, peer) for peer in deployment.peers)
        keepers = {identity: one.spec.placement.keepers for identity, one in self._instances.items()}
        before = {*self._instances.values()}
        self._begin_cuts(wiring)
        self._begin_vertices(wiring, restarted=restarted)
        regions = {(query.name, query.incarnation) for query in wiring.members.values() if self.node in query.members}
        self._persist += self._keeper.keep_for(wiring.kept, wiring.known, wiring.passed, regions)
        self._begin_sinks(wiring)
        self._begin_copies(wiring)
        self._serve(wiring, now)
        self.receiver.forget_edges()
        self._receivers()
        for instance in self._instances.values():
            if instance not in before and not instance.failed:
                self._guard(instance, functools.partial(self._catch_up, instance))
        for identity, instance in self._instances.items():
            if not instance.failed:
                self._snapshots.rewired(instance, keepers.get(identity, ()))
                self._guard(instance, functools.partial(self._hand_over, instance))
        moves = any(placed.to for query in deployment.queries for placed in query.placements)
        self._ask_at = now + ASK_S if moves else None

    def _hand_over(self, instance: Instance) -> None:
        """A vertex that shall go on elsewhere is snapshotted now, once for each node that it should go to."""
        placed = instance.spec.placement
        to = placed.to if placed.hosts[0] == self.node else ""
        if to == instance.offered_to:
            return
        instance.offered_to, instance.offered = to, None
        if to:
            freeze = instance.checkpoints.hand_over()
            instance.offered = sum(instance.taken.values())
            self._leave(instance, [freeze])
        else:
            instance.checkpoints.keep_on()

    def _begin_vertices(self, wiring: Wiring, *, restarted: bool) -> None:
        wanted = {spec.identity: spec for spec in wiring.vertices}
        for identity in [identity for identity in self._instances if identity not in wanted]:
            del self._instances[identity]
            self._snapshots.forget(identity)
        self._not_begun = {identity: why for identity, why in self._not_begun.items() if identity in wanted}
        for identity, spec in wanted.items():
            running = self._instances.get(identity)
            if running is not None and running.term == spec.placement.term:
                running.rewire(spec)
                continue
            name = "/".join(map(str, identity))
            if self._memory.begun.get(name, 0) >= spec.placement.term:
                if restarted or identity not in self._not_begun:
                    self._cannot_begin(spec, LOST, "the node was restarted")
                continue
            if why := self._cannot_sync(spec):
                self._instances.pop(identity, None)
                self._cannot_begin(spec, FAILED, why)
                continue
            self._not_begun.pop(identity, None)
            self._memory.begun[name] = spec.placement.term
            self._begin(identity, spec)

    def _cannot_sync(self, spec: VertexSpec) -> str:
        """Why a vertex cannot send its rows to the cloud from here; empty where it can, or has none."""
        synced = [edge for edge in spec.outputs.values() if GATEWAY in edge.readers]
        if synced and self._gateway is None:
            return "this node is not paired with the gateway that coordinates"
        for edge in synced:
            if self._gateway is not None and self._gateway.owns(edge.name):
                return f"the device of this node has a stream {edge.name!r} of its own; rename one of them"
        return ""

    def _begin(self, identity: tuple[str, int, str], spec: VertexSpec) -> None:
        placed, row = spec.placement, STRATEGIES[spec.query.row].row
        cut = spec.query.cuts.complete
        of_cut = row.of_region and placed.handed is None
        kept = self._snapshots.begins_again(identity, cut if of_cut else None)
        if (row.include is Include.NOTHING or row.of_region) and not of_cut and kept is not None:
            # Only what was handed over for this very term: after a failure it begins empty, or with its region.
            kept = kept if kept.version == (placed.term - 1, placed.handed) else None
        self._instances.pop(identity, None)  # of an earlier term
        if row.of_region and kept is None and not placed.anew and (cut or not of_cut):
            self._cannot_begin(spec, BEHIND, f"cut {cut} is not here" if of_cut else "what was handed over is not here")
            return
        try:
            instance = self._watched(spec, functools.partial(Instance, spec, self._random, kept))
        except Exception as error:  # a user's code, or a snapshot of another plan or engine, which stays where it is
            why = _said(error) if kept is None else f"its snapshot cannot be restored: {_said(error)}"
            self._cannot_begin(spec, FAILED, why)
            self._events.append(InstanceFailed(spec.query.name, spec.vertex.name, spec.placement.term, why))
            return
        self._instances[identity] = instance
        instance.restored = kept
        for name, edge in spec.outputs.items():
            self.outbox.serve(edge.key.edge, [edge.schema], self._made, edge.readers)
            batches = [] if kept is None else kept.ranges.get(edge.label, [])
            start = batches[0].lo if batches else instance.heads[name]
            self.outbox.restart(edge.key.edge, start)
            for batch in batches:
                self._made.append(batch)
        state = state_edge(spec.query, spec.placement)
        self.outbox.serve(state.key.edge, [STATE], self._made, self._others(state))
        self.outbox.restart(state.key.edge, 0)

    def _cannot_begin(self, spec: VertexSpec, state: str, why: str) -> None:
        self._not_begun[spec.identity] = InstanceStatus(
            spec.query.name, spec.vertex.name, spec.placement.term, state, why[:TEXT_CHARACTERS]
        )

    def _begin_cuts(self, wiring: Wiring) -> None:
        """What a deployment says of cuts is as good as the coordinator's word, and what it does not say is void."""
        known = {**self._cuts}
        self._cuts = {}
        for name, query in wiring.members.items():
            begun = self._memory.begun.get(f"cut {query.name}/{query.incarnation}", 0)
            before = known.get(name, CutStatus(name, begun, 0, 0))
            self._cuts[name] = replace(before, complete=max(before.complete, query.cuts.complete))

    def _begin_copies(self, wiring: Wiring) -> None:
        known = {name_of(copy.spec): copy for copy in self._copies.values()}
        self._copies = {}
        for spec in wiring.copies:
            copy = known.get(name_of(spec)) or Copy(spec, self._disk)
            copy.spec = spec
            self._copies.update(dict.fromkeys((leg.key for leg in spec.legs), copy))
        self._persist += strangers(self._disk, {name_of(copy.spec) for copy in self._copies.values()})

    def _catch_up(self, instance: Instance) -> None:
        """A vertex that begins here takes what belongs to its snapshot, and what copies have that came since."""
        for label, rows in instance.recorded():
            self._go_on(instance, label, rows)
        copies = {name_of(copy.spec): copy for copy in self._copies.values()}
        for copy in copies.values():
            label, each = copy.spec.edge.label, instance.spec.inputs.get(copy.spec.edge.label)
            if each is None:
                continue
            if copy.first > instance.arrived(label):
                self._go_on(instance, label, Gone(copy.first, forgotten=True))
            for frame in copy.frames():
                item: Item | None = self._item(instance, label, frame)
                if frame.type is FrameType.DATA:
                    data = Data.of(frame)
                    item = self._rows(instance, label, data, copy.spec.runs.wire_schema(data.applied))
                if item is not None:
                    self._go_on(instance, label, item)
            if copy.frontier_us > NO_FRONTIER:
                self._go_on(instance, label, Time(copy.frontier_us))

    def order(self, orders: Sequence[CutOrder], now: float) -> None:
        """The coordinator's word on cuts: begin one here, or forget what is before one that is complete."""
        self._now = now
        for each in orders:
            query, known = self._wiring.members.get(each.query), self._cuts.get(each.query)
            if query is None or known is None:
                continue
            id = MarkId(each.begun, cut_initiator(query.name, query.incarnation))
            if each.begun > max(known.begun, each.complete):
                # Durable before a mark is sent: a source that was restarted must not mark another place for this cut.
                self._memory.begun[f"cut {query.name}/{query.incarnation}"] = each.begun
                self._persist.append(StoreMemory(self._memory.encode()))
                self._begin_cut(query, id, now)
                known = replace(known, begun=each.begun)
            if each.complete > known.complete:
                self._complete_cut(query, replace(id, number=each.complete))
                known = replace(known, complete=each.complete)
            self._cuts[each.query] = known

    def _begin_cut(self, query: HostedQuery, id: MarkId, now: float) -> None:
        """Send the marks of a cut on what enters the region from here."""
        for spec in self.gathers():
            source = self._sources[spec.key]
            if source.query == query.name:
                for mark in source.begin_cut(id, self.head(spec.key)):
                    self._send_mark(spec, 0, mark, now)
        for spec in self._wiring.fed.get(query.name, ()):
            maker, edge = self._makers.get(spec.key.edge, (None, spec))
            if isinstance(maker, Instance) and not maker.failed:
                self._send_mark(edge, maker.term, Mark(id, self._made.head(edge.key.edge)), now)

    def _complete_cut(self, query: HostedQuery, id: MarkId) -> None:
        """All have their part of this cut: the region never goes back before it."""
        self._persist += self._keeper.collect(query.name, query.incarnation, id.number)
        for copy in {name_of(copy.spec): copy for copy in self._copies.values()}.values():
            if copy.spec.query == query.name:
                self._persist += copy.collect(id.number)
        for instance in self._instances.values():
            if instance.query == query.name:
                instance.checkpoints.region_complete(id)
                self._snapshots.checkpoint(instance)
        for source in self._sources.values():
            if source.query == query.name:
                source.checkpoints.region_complete(id)
                source.settle()

    def _begin_sinks(self, wiring: Wiring) -> None:
        wanted = {edge.key: (query, name) for query, name, edge in wiring.sinks}
        self._sinks = {key: sink for key, sink in self._sinks.items() if key in wanted}
        for key, (query, name) in wanted.items():
            if key not in self._sinks:
                self._sinks[key] = Sink(self._disk, query.name, name, key)

    def _serve(self, wiring: Wiring, now: float) -> None:
        """Offer every edge that is made here to those who read it, one sender per node."""
        carried: dict[str, list[tuple[EdgeSpec, int]]] = {}
        self._makers.clear()
        self._state_edges.clear()
        for query, spec in wiring.sources:
            self._offer_flow(spec, wiring.flows[spec.key], self._sources_spool)
            source = self._sources.get(spec.key)
            if source is None:
                source = self._sources[spec.key] = Source(spec, query, self._memory.boot, self._random)
            source.spec = spec
            self._makers[spec.key.edge] = (source, spec)
            for node in spec.readers:
                carried.setdefault(node, []).append((spec, 0))
        self._begin_carriers(wiring)
        for carrier in self._carriers.values():
            for node in carrier.spec.makes.readers:
                carried.setdefault(node, []).append((carrier.spec.makes, PASSED_ON))
        for instance in self._instances.values():
            term = instance.term
            for edge in instance.spec.outputs.values():
                self.outbox.serve(edge.key.edge, [edge.schema], self._made, edge.readers)
                self._makers[edge.key.edge] = (instance, edge)
                for node in edge.readers:
                    carried.setdefault(node, []).append((edge, term))
            state = state_edge(instance.spec.query, instance.spec.placement)
            others = self._others(state)
            self.outbox.serve(state.key.edge, [STATE], self._made, others)
            self._state_edges[state.key.edge] = instance
            for node in others:
                carried.setdefault(node, []).append((state, term))
        served = {*self._makers, *self._state_edges, *self._carriers}
        for number in [number for number in self.outbox.edges() if number not in served]:
            self.outbox.end(number)
        states = {edge: state_edge(one.spec.query, one.spec.placement) for edge, one in self._state_edges.items()}
        self._carry(carried, now)
        self.lane.rewire(states, now)

    def _begin_carriers(self, wiring: Wiring) -> None:
        asleep = [spec for spec in wiring.carriers if spec.standby and spec.reads.key not in self._roused]
        self._standby = {spec.reads.key: spec for spec in asleep}
        wanted = {spec.makes.key.edge: spec for spec in wiring.carriers if spec not in asleep}
        self._carriers = {edge: carrier for edge, carrier in self._carriers.items() if edge in wanted}
        for edge, spec in wanted.items():
            self._offer_flow(spec.makes, spec.flow, self._made, passed_on=True)
            carrier = self._carriers.get(edge)
            if carrier is None:
                carrier = self._carriers[edge] = Carrier(spec, self.outbox, self._made, self._epochs)
                self.outbox.restart(edge, 0)
            carrier.spec = spec

    def _offer_flow(self, spec: EdgeSpec, flow: Flow, spool: Spool, *, passed_on: bool = False) -> None:
        """A gather edge, to be sent with what this node applies on the way."""
        leaving = functools.partial(flow.runs.forward, upto=flow.upto, device=flow.device)
        self.outbox.serve(
            spec.key.edge, [*flow.runs.schemas().values()], spool, spec.readers,
            ways=spec.ways, passed_on=passed_on, leaving=leaving,
        )  # fmt: skip

    def _others(self, state: EdgeSpec) -> dict[str, int]:
        """Who reads a state edge: this node's own keeper needs no edge."""
        return {node: reads for node, reads in state.readers.items() if node != self.node}

    def _carry(self, carried: Mapping[str, Sequence[tuple[EdgeSpec, int]]], now: float) -> None:
        self._carried = carried
        self._carry_to_gateway(carried.get(GATEWAY, ()), now)
        called = self._called()
        for node in [node for node in self._senders if node not in called]:
            del self._senders[node]
        for node in sorted(called):
            sender = self._sender(node, now)
            wanted = {spec.name for spec, _ in carried.get(node, ())}
            for name in sender.carried():
                if name not in wanted:
                    sender.drop(name)
            for spec, term in carried.get(node, ()):
                sender.carry(
                    spec.name, self._schemas(spec), spec.key, term=term, read=spec.readers[node], within_s=WITHIN_S
                )
                sender.frontier(spec.key.edge, self._frontier_of(spec), now)
            only_keeps = node in carried and all(spec.key.edge in self._state_edges for spec, _ in carried[node])
            if not self._coordinates(node):
                sender.pace(self._for_keepers if only_keeps else self._pacing)
            sender.hurry(now)

    def _called(self) -> set[str]:
        """The nodes that this one calls: readers of its edges, the coordinator, whoever it has news for, and those it
        wants to know if it reaches."""
        others = {
            node for node, peer in self._peers.items() if peer.public_key == self._coordinator or node in self._behind
        }
        others |= (self._probed | self._pinged.keys() | self.lane.calls()) & self._peers.keys()
        return (self._carried.keys() - {GATEWAY}) | (others - {self.node})

    def _carry_to_gateway(self, carried: Sequence[tuple[EdgeSpec, int]], now: float) -> None:
        """What goes to the cloud goes with the exchanges of this node's own device."""
        sender = self._gateway
        if sender is None:
            return
        wanted = {spec.name for spec, _ in carried}
        for name in sender.carried():
            if name not in wanted:
                sender.drop(name)
        for spec, term in carried:
            sender.carry(
                spec.name, self._schemas(spec), spec.key, term=term, read=spec.readers[GATEWAY],
                within_s=spec.within_s or WITHIN_S, reading=self.outbox.reading(GATEWAY),
            )  # fmt: skip
            sender.frontier(spec.key.edge, self._frontier_of(spec), now)
            if spec.key.edge not in self.outbox.reading(GATEWAY).taken:
                sender.hurry(now)  # where it goes on must be known before its vertex counts as running

    def gateway_said(self, event: object, now: float) -> None:
        """What this node's own sender to the gateway tells: how far the log has what is synced from here."""
        if isinstance(event, ReceiptReceived | ReaderRestored):
            found = self._makers.get(event.edge)
            if found is not None and GATEWAY in found[1].readers:
                self._now = now
                self._sender_event(GATEWAY, event, now)

    def _to(self, node: str) -> Sender:
        """The sender to a reader."""
        if node != GATEWAY:
            return self._senders[node]
        if self._gateway is None:
            raise BrokenInvariant("rows go to the cloud from a node without a gateway", code="hosting-unpaired")
        return self._gateway

    def _sender(self, node: str, now: float) -> Sender:
        sender = self._senders.get(node)
        if sender is None:
            session = DeviceSession(self._keys.calling(self._peers[node].public_key), self.device, self._incarnation)
            sender = self._senders[node] = Sender(
                self.outbox.reading(node), session, rng=self._random,
                pacing=self._reports if self._coordinates(node) else self._pacing,
                plan_version=self._memory.version, now=now,
            )  # fmt: skip
        return sender

    def _schemas(self, spec: EdgeSpec) -> dict[int, Schema]:
        """The forms in which rows travel on an edge that goes out from here."""
        carrier = self._carriers.get(spec.key.edge)
        flow = self._wiring.flows.get(spec.key) if carrier is None else carrier.spec.flow
        return {spec.schema.id: spec.schema} if flow is None else flow.runs.schemas()

    def _frontier_of(self, spec: EdgeSpec) -> int:
        """How far time has come on an edge that is made here: a new reader must hear it, also where nothing moves."""
        if spec.key.edge in self._carriers:
            return self._carriers[spec.key.edge].frontier_us(spec)
        maker = self._makers.get(spec.key.edge)
        if maker is None:  # a state edge has no time
            return NO_FRONTIER
        return maker[0].frontier_us(spec)

    def _receivers(self) -> None:
        self._readers_of = {}
        self._legs, self._live_legs = {}, set()
        for instance in self._instances.values():
            for label, each in instance.spec.inputs.items():
                for leg in each.arriving:
                    self._readers_of.setdefault(leg.key, []).append((instance, label))
                if len(each.arriving) > 1:
                    legs = frozenset(leg.key for leg in each.arriving)
                    self._legs.update(dict.fromkeys(legs, legs))
        self._carrier_of = {carrier.spec.reads.key: carrier for carrier in self._carriers.values()}

    # --- what the node's own device makes --------------------------------------------------------------------

    def _look_around(self, now: float) -> None:
        """While what its own device has spooled does not arrive, find out who can be reached."""
        specs = {spec.key.edge: spec for spec in self.gathers()}
        self._returning = {edge for edge in self._returning if edge in specs and not self._has_arrived(specs[edge])}
        self._stuck &= self._returning
        lost = bool(self._stuck) or any(
            (sender := self._senders.get(node)) is not None and sender.disconnected
            for edge in self._returning
            for node in specs[edge].readers
        )
        others = frozenset(
            node
            for node, peer in self._peers.items()
            if peer.addresses and node != self.node and peer.public_key != self._coordinator
        )
        probed = others if lost else self._probed if self._returning else frozenset()
        if probed != self._probed:
            self._probed = probed
            self._carry(self._carried, now)

    def _turn_elsewhere(self, now: float) -> None:
        """While nobody coordinates, rows of its own device that wait too long go another way that is listed."""
        if self.deployed is None or not self._is_alone():
            self._alternates.calm()
            return
        turned = False
        for query, spec in self._wiring.sources:
            edge, route = spec.key.edge, query.route(spec.name, self.node)
            taken = max(min(self.outbox.reading(node).taken.get(edge, 0) for node in way) for way in spec.ways)
            if route.alternates and self._alternates.look(edge, taken, self._sources_spool.head(edge), now):
                self._returning.add(edge)
                self._stuck.add(edge)
                reaches = functools.partial(self._reaches, self._wiring.reading[spec.key])
                turned |= self._alternates.turn(query.name, edge, route, reaches, now)
        if turned:
            self._apply(self.deployed, now)

    def _reaches(self, readers: Sequence[str], path: Sequence[str]) -> bool:
        """Whether it reaches the first node of a path, or of one without any those who read its rows."""
        first = path[:1] or [node for node in readers if node != self.node]
        return all((sender := self._senders.get(node)) is not None and sender.reached for node in first)

    def _is_alone(self) -> bool:
        """Whether whoever coordinates does not answer."""
        if not self._coordinator or self._coordinates(self.node):
            return False
        asked = [sender for node, sender in self._senders.items() if self._coordinates(node)]
        return all(sender.disconnected for sender in asked) if asked else self._ungoverned

    def _has_arrived(self, spec: EdgeSpec) -> bool:
        """Whether all ways that can be gone have all that there is of an edge."""
        edge, head = spec.key.edge, self._sources_spool.head(spec.key.edge)
        open_ways = [
            way
            for way in spec.ways
            if all((sender := self._senders.get(node)) is not None and sender.reached for node in way)
        ]
        readers = [node for way in open_ways for node in way]
        return bool(readers) and all(self.outbox.reading(node).taken.get(edge, -1) >= head for node in readers)

    def gathers(self) -> tuple[EdgeSpec, ...]:
        """The edges that this node's own device feeds."""
        return tuple(spec for _, spec in self._wiring.sources)

    def offer(self, key: EdgeKey, batch: SpooledBatch, now: float, evict: Evict | None = None) -> Entry:
        """A batch of this node's own device, numbered from its spool's head. Sent once it is durable. SpoolFull while
        readers have not made room, unless `evict` or else the spool says to give something up."""
        flow = self._wiring.flows[key]
        codec = COLUMNS if batch.codec == CODEC_COLUMNS else NONE  # it waits in the spool as small as it came
        cache = self._packing.setdefault(key.edge, Cache())
        batch = flow.runs.forward(batch, flow.upto, flow.device, codec, cache)
        entry = self._sources_spool.append(batch, evict)
        source, spec = self._sources[key], self._makers[key.edge][1]
        for node in spec.readers:
            self._senders[node].appended(batch, now)
        for mark in source.elements(batch.hi - batch.lo, batch.hi):
            self._send_mark(spec, 0, mark, now)
        return entry

    def frontier(self, key: EdgeKey, frontier_us: int, now: float) -> None:
        """No earlier element follows on an edge of this node's own device."""
        self._sources[key].advance(frontier_us)
        for node in self._makers[key.edge][1].readers:
            self._senders[node].frontier(key.edge, frontier_us, now)

    def head(self, key: EdgeKey) -> int:
        return self._sources_spool.head(key.edge)

    # --- the five calls --------------------------------------------------------------------------------------

    def receive(self, message: HostMessage, now: float) -> None:
        self._now = now
        match message:
            case Arrival():
                self.receiver.receive(message, now)
            case Answer(node, body):
                if (sender := self._senders.get(node)) is not None:
                    sender.receive(body, now)
                    if sender.answered_at >= self._pinged.get(node, math.inf):
                        del self._pinged[node]
                        self._events.append(Heard(DeviceId(bytes.fromhex(node))))
            case Datagram(body):
                self.lane.datagram(body, now)
            case Unreachable(node):
                if (sender := self._senders.get(node)) is not None:
                    sender.fail(now)
        self._notice(now)

    def wake(self, now: float) -> None:
        self._now = now
        self.receiver.wake(now)
        if self._ask_at is not None and now >= self._ask_at:
            self._ask_at = now + ASK_S
            for node, sender in self._senders.items():
                if self._peers[node].public_key == self._coordinator and not sender.disconnected:
                    sender.hurry(now)
        if self._looks_until is not None and now >= self._looks_until:
            self._looks_until = None
        for sender in self._senders.values():
            sender.wake(now)
        self._notice(now)

    def hear_governor(self, now: float, *, answers: bool) -> None:
        """Whether its coordinator answers, where that is none of the fleet."""
        if self._ungoverned and answers:
            self._looks_until = now + LOOK_S
        self._ungoverned = not answers

    @property
    def is_cut_off(self) -> bool:
        """Whether somebody whom it should reach does not answer."""
        return any(self._senders[node].disconnected for node in self._reached())

    def unanswering(self) -> tuple[str, ...]:
        """Nodes that it calls and that do not answer."""
        return tuple(node for node, sender in self._senders.items() if sender.disconnected)

    def network_changed(self, now: float) -> None:
        """This node's network is another one: who did not answer is asked at once."""
        for sender in self._senders.values():
            sender.chase(now)
        self._notice(now)

    def next_wake(self) -> float | None:
        times = [sender.next_wake() for sender in self._senders.values()]
        others = (self._ask_at, self._looks_until, self.lane.next_wake(), self._alternates.next_wake())
        times += [at for at in others if at is not None]
        return min(times, default=None)

    def step(self, now: float) -> Step[HostPersist, Ask | Reply | Broadcast]:
        self._now = now
        self._made.sync()
        fed = self.lane.calls()
        send: list[Ask | Reply | Broadcast] = [*self.lane.step(now)]
        for node in (fed - self.lane.calls()) - self._called():
            self._senders.pop(node, None)
        if self._sources_spool.dirty:
            self._persist.append(SyncSpool())
        else:
            for node, sender in list(self._senders.items()):
                if self._coordinates(node):
                    self._report(sender, now)
                while step := sender.step(now):
                    send += [Ask(node, body, follows=sender.under_way > 1) for body in step.send]
            self._notice(now)
        replies = self.receiver.step(now).send
        self.refused.update(reply.refused for reply in replies if reply.refused is not None)
        send += replies
        persist = tuple(self._persist)
        self._persist.clear()
        return Step(persist, tuple(send))

    def _report(self, sender: Sender, now: float) -> None:
        said = self.reporting.look(now, due=sender.next_wake() <= now)
        if said is not None:
            status, urgent = said
            sender.status(status)
            if urgent:
                sender.hurry(now)

    def events(self) -> list[object]:
        events = list(self._events)
        self._events.clear()
        return events

    # --- what others ask of it -------------------------------------------------------------------------------

    def high_water(self, key: EdgeKey) -> int:
        copy = self._copies.get(key)
        readers = [instance.arrived(label) for instance, label in self._readers_of.get(key, ()) if not instance.failed]
        if key in self._sinks:
            readers.append(self._sinks[key].taken)
        if copy is not None:  # what reads it here reads the copy
            readers = [copy.taken, *([self._sinks[key].taken] if key in self._sinks else [])]
        if key in self._carrier_of and self._carrier_of[key].begun:
            readers.append(self._carrier_of[key].taken)
        if key in self._standby:
            self._roused.add(key)
        if self._keeper.reads(key) is not None:
            readers.append(self._keeper.taken.get(key, 0))
        return min(readers, default=NOT_READ)

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:  # noqa: ARG002
        return {}

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        kept = self._keeper.reads(key)
        inputs = [instance.spec.inputs[label] for instance, label in self._readers_of.get(key, ())]
        edges = [leg for each in inputs for leg in each.arriving if leg.key == key]
        edges += [self._carrier_of[key].spec.reads] if key in self._carrier_of else []
        edges += [self._standby[key].reads] if key in self._standby else []
        edges += [edge for _, _, edge in self._wiring.sinks if edge.key == key]
        edges += [leg for leg in self._copies[key].spec.legs if leg.key == key] if key in self._copies else []
        edges += [kept.edge] if kept is not None else []
        for edge in edges:
            return edge.carriers.get(carrier.hex(), NOT_READ)
        return NOT_READ if carrier.hex() in self._peers else None

    def receipt(self, key: EdgeKey) -> PeerReceipt:
        """How far this node has come with an edge."""
        taken = max(0, self.high_water(key))
        through, term, load, credit = taken, 0, 0, CREDIT_BYTES
        if self._keeper.reads(key) is not None:
            # Pieces of a snapshot that is not whole yet are in memory only: a restart asks for them again.
            through, term = self._keeper.through.get(key, 0), self._memory.boot
        if key in self._carrier_of:
            carrier = self._carrier_of[key]
            through, term = carrier.through, carrier.term
            waits = any(self._senders[node].disconnected for node in carrier.spec.makes.readers)
            credit = 0 if waits or self._full() else credit  # while its reader is gone, rows may find another way
        copy = self._copies.get(key)
        if copy is not None:
            term = 0 if key in self._readers_of else COPIES + self._memory.boot
            credit = 0 if copy.full else credit
        for instance, label in self._readers_of.get(key, ()):
            if copy is None:
                through = 0 if instance.unkept else min(through, instance.checkpoints.through(label))
            term += instance.term
            load += instance.checkpoints.load
            if instance.full(label) or (self._full() and label not in instance.spec.back):
                credit = 0
        return PeerReceipt(key.device, key.incarnation, key.edge, through, taken, term, credit, load)

    def _full(self) -> bool:
        return self._made.statistics().used_bytes > CREDIT_BYTES

    def take(self, session: GatewaySession, record: LogRecord) -> None:
        """One frame of an exchange, in its place."""
        key = record.key
        kept = self._keeper.reads(key)
        if kept is not None:
            try:
                self._take_piece(kept, record)
            except PeerError as error:  # altered, or of another vertex: the snapshot is not kept, the next one may be
                self._refuse(error)
        elif key in self._sinks:
            self._take_result(self._sinks[key], session, record)
        elif key in self._carrier_of:
            try:
                self._pass_on(self._carrier_of[key], session, record)
            except PeerError as error:  # it stays with its device until somebody can read it
                self._refuse(error)
                self.receiver.forget_edges()
        if key in self._copies and kept is None:
            self._copy(self._copies[key], session, record)
        for instance, label in self._readers_of.get(key, ()):
            if not instance.failed:
                self._guard(instance, functools.partial(self._take, instance, label, session, record))
        if key in self._legs:
            self._live_legs.add(key)
            if len(self._legs[key] & self._live_legs) > 1:  # what came on one moves where the others must go on
                self.receiver.forget_edges()

    def _pass_on(self, carrier: Carrier, session: GatewaySession, record: LogRecord) -> None:
        """A frame of an edge that goes on from here."""
        edge = carrier.spec.makes
        if record.lo > carrier.taken:
            self.receiver.forget_edges()
            return
        if record.kind == FrameType.DATA:
            data = Data.in_place(record.frame)
            batch = carrier.take(data, session.schema(record.key, data.schema_id))
            if batch is not None:
                for node in edge.readers:
                    self._appended(node, batch)
            return
        frame, _ = decode_one(record.frame, digest=record.digest)
        match frame.type:
            case FrameType.TOMBSTONE:
                carrier.lose(LostRange.of(frame))
            case FrameType.FRONTIER:
                carrier.advance(frame.frontier_us)
                for node in edge.readers:
                    self._senders[node].frontier(edge.key.edge, frame.frontier_us, self._now)
            case FrameType.MARK:
                message = MarkMessage.of(frame)
                mark = Mark(MarkId(message.number, text_of(message.initiator)), message.position)
                self._send_mark(edge, PASSED_ON, mark, self._now)
            case _:
                pass  # a declaration: the session remembers it

    def _follow(self, carrier: Carrier) -> None:
        """A carrier goes on where its reader is."""
        if carrier.follow():
            for node in carrier.spec.makes.readers:
                self._senders[node].begin_again(carrier.edge)
            self.receiver.forget_edges()

    def _take_piece(self, kept: KeptSpec, record: LogRecord) -> None:
        if record.kind == FrameType.DATA:
            item = self._keeper.take(record.key, record.hi, bytes(Data.in_place(record.frame).columns))
            if item is not None:
                self._persist.append(item)
        elif record.kind == FrameType.TOMBSTONE:
            self._keeper.taken[kept.edge.key] = record.hi

    def _take_result(self, sink: Sink, session: GatewaySession, record: LogRecord) -> None:
        if record.kind in (FrameType.DATA, FrameType.TOMBSTONE):
            lost, data = record.kind == FrameType.TOMBSTONE, self._part(record, session, sink.taken)
            if data is not None:
                lo = max(record.lo, sink.taken)
                self._persist.append(sink.take(data, lo, record.hi, lost=lost))
                self._events.append(SinkTook(sink.query, sink.sink, lo, record.hi))

    def _copy(self, copy: Copy, session: GatewaySession, record: LogRecord) -> None:
        """Keep a frame of what comes into the region."""
        if record.kind in (FrameType.DATA, FrameType.TOMBSTONE):
            data = self._part(record, session, copy.taken)
            if data is not None:
                self._persist.append(copy.take(decode_one(data)[0], data))
            return
        frame, _ = decode_one(record.frame, digest=record.digest)
        if record.kind == FrameType.FRONTIER:
            copy.frontier_us = max(copy.frontier_us, frame.frontier_us)
        elif record.kind == FrameType.MARK:
            message = MarkMessage.of(frame)
            mine = cut_initiator(copy.spec.query, copy.spec.incarnation)
            if text_of(message.initiator) == mine and message.position <= copy.taken:
                self._persist += copy.mark(message.number, frame, bytes(record.frame))

    @staticmethod
    def _part(record: LogRecord, session: GatewaySession, taken: int) -> bytes | None:
        """Of a batch or tombstone what is behind `taken`, as a frame; None when nothing is."""
        if record.hi <= taken:
            return None
        if record.lo >= taken:
            return bytes(record.frame)
        frame, _ = decode_one(record.frame, digest=record.digest)
        if record.kind == FrameType.TOMBSTONE:
            return encode(replace(frame, seq=taken, count=record.hi - taken))
        data = Data.of(frame)
        batch = SpooledBatch(
            data.edge, data.lo, data.hi, data.rows, data.schema_id, data.applied, data.frontier_us, data.codec,
            bytes(data.columns),
        )  # fmt: skip
        batch = cut(batch, taken, data.hi, session.schema(record.key, data.schema_id))
        part = replace(
            data, lo=batch.lo, rows=batch.rows, codec=batch.codec, columns=batch.payload, frontier_us=batch.frontier_us
        )
        return encode(part.frame())

    def _take(self, instance: Instance, label: str, session: GatewaySession, record: LogRecord) -> None:
        if record.lo > instance.arrived(label) or not self._take_frame(instance, label, session, record):
            self.receiver.forget_edges()  # the receipt says where it stands, and what was left comes again
            return
        begins = not instance.confirmed
        if record.kind in GO_ON:
            instance.confirm(label)
        if begins and instance.confirmed:
            self._events.append(Connected(instance.query, instance.vertex, instance.term))
        self._snapshots.input_went_on(instance)

    def _take_frame(self, instance: Instance, label: str, session: GatewaySession, record: LogRecord) -> bool:
        """False: it cannot be taken yet."""
        item: Item | None
        if record.kind == FrameType.DATA:
            data = Data.in_place(record.frame)
            item = self._rows(instance, label, data, session.schema(record.key, data.schema_id))
        else:
            item = self._item(instance, label, decode_one(record.frame, digest=record.digest)[0])
        return item is None or self._go_on(instance, label, item, record)

    @staticmethod
    def _rows(instance: Instance, label: str, data: Data, schema: Schema) -> Rows | None:
        """The part of a batch that has not come to the instance; None when it has all of it."""
        arrived = instance.arrived(label)
        if data.hi <= arrived:
            return None
        spec = instance.spec.inputs[label]
        expected = spec.edge.schema if spec.runs is None else spec.runs.wire_schema(data.applied)
        if schema != expected:
            raise PeerError("a batch of other columns than the deployment says", code="hosting-schema")
        batch = codecs.decode_data(data, schema)
        return Rows(batch if batch.lo >= arrived else batch.after(arrived), DATA_PREFIX.size + len(data.columns))

    @staticmethod
    def _item(instance: Instance, label: str, frame: Frame) -> Item | None:
        """What a frame without rows is to an instance; None where it has that, or needs nothing of it."""
        arrived = instance.arrived(label)
        match frame.type:
            case FrameType.TOMBSTONE if frame.seq + frame.count > arrived:
                return Gone(frame.seq + frame.count, LostRange.of(frame).reason == FORGOTTEN)
            case FrameType.FRONTIER:
                return Time(frame.frontier_us)
            case FrameType.MARK:
                message = MarkMessage.of(frame)
                return Mark(MarkId(message.number, text_of(message.initiator)), message.position)
        return None  # a declaration: the session remembers it

    def _go_on(self, instance: Instance, label: str, item: Item, record: LogRecord | None = None) -> bool:
        """Take what comes next on an input, unless it waits behind a mark; and what waited for this. False: it cannot
        be taken yet."""
        if instance.waits(label):
            instance.put_aside(label, item)
            return True
        if not self._process(instance, label, item, record):
            return False
        while (waiting := instance.next_waiting()) is not None:
            if not self._process(instance, *waiting, None):
                raise PeerError("what waited behind a mark cannot be taken", code="hosting-behind")
        return True

    def _process(self, instance: Instance, label: str, item: Item, record: LogRecord | None) -> bool:
        match item:
            case Rows(batch, size):
                self._leave(
                    instance, self._watched(instance.spec, functools.partial(instance.take, label, batch, size))
                )
            case Gone(hi, forgotten):
                if forgotten and not instance.begins_with(label):
                    if instance.keeps_state and not instance.spec.placement.anew:
                        instance.behind = True
                        lost = EdgeCut(label, hi, hi, hi, instance.taken[label])
                        raise PeerError(
                            f"its snapshot is too old for {'; '.join(inconsistencies([lost]))}", code="hosting-behind"
                        )
                    if not self._go_on_without(instance):
                        return False
                if (freeze := instance.lose(label, hi)) is not None:
                    self._leave(instance, [freeze])
            case Time(frontier_us):
                advancing = functools.partial(instance.advance, label, frontier_us)
                self._leave(instance, [*self._watched(instance.spec, advancing)])
            case Mark():
                answer = instance.mark(label, item)
                if isinstance(answer, Freeze):
                    self._leave(instance, [answer])
                elif isinstance(answer, Extend) and record is not None:
                    key, number = record.key, number_of(item.id.initiator)
                    extend = wire_messages.Extend(
                        key.device, key.incarnation, key.edge, answer.wait, item.id.number, number
                    )
                    self._answers.append(encode(extend.frame()))
        return True

    def _go_on_without(self, instance: Instance) -> bool:
        """Its newest snapshots are gone and so is what it had read since: its edges go on where their readers are,
        behind one number that says so. False while a reader has not said where it is. Nothing else waits for readers:
        round a cycle each vertex reads what the one before it makes, and if all waited, none would begin."""
        if not self._is_connected(instance):
            return False
        for name, edge in instance.spec.outputs.items():
            number = edge.key.edge
            taken = max([instance.heads[name], *(self.outbox.reading(node).taken[number] for node in edge.readers)])
            self.outbox.restart(number, taken)
            for node in edge.readers:
                self.outbox.reading(node).go_on(number, taken)
            self._made.give_up(number, taken, taken + 1, Reason.FORGOTTEN)
            instance.heads[name] = taken + 1
        return True

    def _is_connected(self, instance: Instance) -> bool:
        """Whether all who read an instance have said where they go on."""
        edges = [(edge.key.edge, node) for edge in instance.spec.outputs.values() for node in edge.readers]
        return all(number in self.outbox.reading(node).taken for number, node in edges)

    def hear(self, frame: Frame) -> None:
        """What a node says of a snapshot that is broadcast."""
        try:
            self._answers += self.lane.hear(frame, self._now)
        except PeerError as error:
            self._refuse(error)

    def answers(self) -> list[bytes]:
        """What to add to the reply of the exchange that was taken last."""
        answers, self._answers = self._answers, []
        return answers

    # --- what instances do -----------------------------------------------------------------------------------

    def _guard(self, instance: Instance, run: Callable[[], None]) -> None:
        """Whatever an operator raises is its instance's failure alone."""
        try:
            run()
        except Exception as error:  # a user's code, or a batch that its plan does not fit
            self._fail(instance, _said(error))

    def _watched(self, spec: VertexSpec, work: Callable[[], Result]) -> Result:
        """Run what may hang. It may be interrupted anywhere, so it touches nothing but its own instance."""
        return self._watch.run(work, f"{spec.vertex.name!r} of query {spec.query.name!r}")

    def _fail(self, instance: Instance, why: str) -> None:
        instance.failed = why[:TEXT_CHARACTERS]
        self.receiver.forget_edges()  # it takes nothing more
        self._events.append(InstanceFailed(instance.query, instance.vertex, instance.term, instance.failed))

    def _leave(self, instance: Instance, made: Sequence[Made | Freeze]) -> None:
        for each in made:
            if isinstance(each, Freeze):
                for mark in self._watched(instance.spec, functools.partial(instance.freeze, each)):
                    self._send_mark(instance.spec.outputs[mark.output], instance.term, mark.mark, self._now)
            else:
                self._put_out(instance, each)
        self._snapshots.checkpoint(instance)

    def _put_out(self, instance: Instance, made: Made) -> None:
        edge = instance.spec.outputs[made.output]
        if made.batch is not None:
            # Nodes of a fleet are near: bytes cost less than time. What goes to the cloud stays in its log.
            codec, payload = codecs.encode(made.batch, COLUMNS if GATEWAY in edge.readers else NONE)
            batch = SpooledBatch(
                edge.key.edge, made.batch.lo, made.batch.hi, len(made.batch), made.batch.schema.id, 0,
                made.frontier_us, codec, payload,
            )  # fmt: skip
            self._made.append(batch)
            for node in edge.readers:
                self._appended(node, batch)
            if not edge.readers:
                self.outbox.trim(edge.key.edge)
        for node in edge.readers:
            if made.frontier_us > NO_FRONTIER:
                self._to(node).frontier(edge.key.edge, made.frontier_us, self._now)

    def _send_mark(self, edge: EdgeSpec, term: int, mark: Mark, now: float) -> None:
        number = number_of(mark.id.initiator)
        message = MarkMessage(
            edge.key.device, edge.key.incarnation, edge.key.edge, mark.position, mark.id.number, number, term
        )
        for node in edge.readers:
            if node != GATEWAY:  # what is in the log is safe as it is: its receipt is the answer to all marks
                self._senders[node].mark(message, now)

    def _appended(self, node: str, batch: SpooledBatch) -> None:
        self._to(node).appended(batch, self._now)

    def _broadcast(self, instance: Instance, state: EdgeSpec, first: int, data: bytes) -> bool:
        """Send a snapshot to all who keep it at once, where its row keeps it in the whole region."""
        if STRATEGIES[instance.spec.query.row].row.home is not Home.REGION:
            return False
        return self.lane.begin(state, (first, self._made.head(state.key.edge)), data, self._now)

    def _tell(self, node: str, frames: Sequence[bytes]) -> None:
        if node in self._peers:
            self._sender(node, self._now).say(frames, self._now)

    def _answers_us(self, node: str) -> bool:
        return node in self._senders and not self._senders[node].disconnected

    def _took_whole(self) -> None:
        """A state edge was taken without its elements: what comes next on it is asked of the keeper."""
        self.receiver.forget_edges()

    def _release(self, state: EdgeSpec) -> None:
        """A state edge goes on as others do: who lacks something of it is sent that."""
        for node in state.readers:
            if node in self._senders:
                self._senders[node].look(state.key.edge, self._now)

    # --- what senders tell -----------------------------------------------------------------------------------

    def _notice(self, now: float) -> None:
        for event in self.receiver.events():
            if isinstance(event, ExchangeApplied):
                self._events.append(Heard(event.device))
            elif isinstance(event, DeploymentShown):
                self._events.append(event)
            elif isinstance(event, StatusReceived):
                self._hear_of(event.status.plan, now)
                self._events.append(event)
        for node, sender in list(self._senders.items()):
            for event in sender.events():
                if isinstance(event, Disconnected):
                    self.lane.lost(node, now)
                self._sender_event(node, event, now)
        if self._roused & self._standby.keys():
            self._serve(self._wiring, now)
            self._carrier_of = {carrier.spec.reads.key: carrier for carrier in self._carriers.values()}
            self.receiver.forget_edges()
        if self._returning or self._probed:
            self._look_around(now)
        self._turn_elsewhere(now)
        for node, sender in self._senders.items():
            sender.chased = bool(self._returning) and self._coordinates(node)

    def _hear_of(self, version: int, now: float) -> None:
        """A peer runs this deployment: if it is news, the coordinator is asked for it at once. Once only, as nobody but
        the coordinator's word is believed."""
        if version > max(self.version, self._told_of):
            self._told_of = version
            for node, sender in self._senders.items():
                if self._peers[node].public_key == self._coordinator:
                    sender.hurry(now)

    def _answers_again(self, node: str, now: float) -> None:
        """Whoever was lost with this node may be back as well. Each is asked at once, not when its turn comes: a device
        that names only the first who answered would be given another way without need."""
        self._again_at = now
        others = [sender for other, sender in self._senders.items() if other != node]
        if self._coordinates(node) or not any(sender.reached for sender in others):
            self._looks_until = now + LOOK_S
        for sender in others:
            if not sender.reached:  # also one that was only asked while nobody could answer
                sender.fail(now)
                sender.hurry(now)

    def _sender_event(self, node: str, event: object, now: float) -> None:
        if isinstance(event, Reconnected):
            self._answers_again(node, now)
        match event:
            case ReceiptReceived(edge, _, load):
                self._receipted(node, edge, load)
            case Extended(extend):
                found = self._makers.get(extend.edge)
                if found is not None:
                    id = MarkId(extend.number, text_of(extend.initiator))
                    found[0].checkpoints.extended(found[1].label, id, extend.wait)
                    self._decide(found[0])
            case ReaderRestored(edge, _):
                if edge in self._carriers:
                    self._carriers[edge].reader_restored()
                found = self._makers.get(edge)
                if found is not None:
                    maker, spec = found
                    term = maker.term if isinstance(maker, Instance) else 0
                    for mark in maker.checkpoints.marks_to_send(spec.label):
                        self._send_mark(spec, term, mark, now)
            case BitmapArrived(bitmap):
                try:
                    self.lane.bitmap(node, bitmap, now)
                except PeerError as error:
                    self._refuse(error)
            case HintArrived(hint):
                if self._coordinates(node):
                    self.order(hint.cuts, now)
            case PlanArrived(_, plan):
                if self._coordinates(node):
                    self._try_deploy(plan, now)
            case DeploymentArrived(message):
                if message.deployment and self._coordinates(node):
                    self.deploy_from(message, now)
                elif self._memory.signature and self._coordinates(node):
                    self._senders[node].show(self.followed(), now)
            case Disconnected() | Reconnected() if node not in self._reached():
                pass  # a node that was called with news, and asks for them itself at its next poll
            case Disconnected(_, code):
                self._events.append(PeerLost(node, code))
                if code != SPENT:
                    self._returning |= {spec.key.edge for spec in self.gathers() if node in spec.readers}
                if now < self._again_at + self._pacing.timeout_s:
                    # What was not answered may have been asked before the network came back: it is asked again first.
                    self._looks_until = now + LOOK_S
                    self._senders[node].hurry(now)
            case Reconnected():
                self._events.append(PeerBack(node))
            case _:
                self._events.append(event)

    def _coordinates(self, node: str) -> bool:
        return node in self._peers and self._peers[node].public_key == self._coordinator

    def _try_deploy(self, plan: bytes, now: float, signature: bytes = b"") -> None:
        try:
            self.deploy(decode_deployment(plan), plan, now, signature)
        except ResurgeError as error:  # what runs goes on; the coordinator sees that the version did not change
            self._refuse(error)

    def _refuse(self, error: ResurgeError) -> None:
        self.refused[error.code] += 1
        self._events.append(Refused(error.code, error.message))

    def _receipted(self, node: str, edge: EdgeId, load: int) -> None:
        if edge in self._state_edges:
            self._snapshots.settle(self._state_edges[edge])
            return
        if edge in self._carriers:
            self._follow(self._carriers[edge])
            return
        found = self._makers.get(edge)
        if found is None:
            return
        maker, spec = found
        self._loads[edge, node] = load
        total = sum(self._loads.get((edge, reader), 0) for reader in spec.readers)
        maker.checkpoints.receipt(spec.label, self.outbox.through(edge), total)
        if isinstance(maker, Source):
            maker.receipted(self.outbox.through(edge))
        self._decide(maker)

    def _decide(self, maker: Instance | Source) -> None:
        if isinstance(maker, Instance):
            self._snapshots.checkpoint(maker)
        else:
            maker.settle()

    # --- what it shows ---------------------------------------------------------------------------------------

    def status(self) -> DeviceStatus:
        """What a coordinator must know."""
        found = [
            InstanceStatus(
                one.query,
                one.vertex,
                one.term,
                self._state(one),
                one.failed,
                one.lost,
                *permanent(one),
                self._cut_stored(one),
            )
            for one in self._instances.values()
        ]
        found += self._not_begun.values()
        away = tuple(sorted(node for node in self._reached() if self._senders[node].disconnected))
        kept = tuple(KeptStatus(one.query, one.vertex, *one.version) for one in self._snapshots.newest())
        offered = tuple(
            KeptStatus(one.query, one.vertex, one.term, one.offered)
            for one in self._instances.values()
            if one.offered is not None and not one.failed
        )
        return DeviceStatus(
            boot=self._memory.boot, deployment=self.follows, instances=tuple(found), kept=kept, offered=offered,
            unreachable=away, plan=self.version, back=self._back(), stamps=self._retired_stamps(),
            cuts=self._reached_cuts(), position=self.position, accuracy_m=self.accuracy_m, leaving=self.leaving,
            took=self._alternates.status(),
        )  # fmt: skip

    def _reached_cuts(self) -> tuple[CutStatus, ...]:
        return tuple(replace(self._cuts[name], reached=self._cut_reached(name)) for name in sorted(self._cuts))

    def _cut_reached(self, query: str) -> int:
        """The newest cut before whose marks all who read its sources have everything."""
        return min((each.cut_reached for each in self._sources.values() if each.query == query), default=0)

    def _cut_stored(self, instance: Instance) -> int:
        """The newest cut of which a vertex's keepers have its part, and who reads it outside the region has all that it
        made before: a region that goes back to it can make neither of them again."""
        number, initiator = (
            instance.checkpoints.stored_cut,
            cut_initiator(instance.query, instance.spec.query.incarnation),
        )
        pending = instance.checkpoints.find(MarkId(number, initiator))
        if pending is None:
            return number
        left = [edge for name, edge in instance.spec.outputs.items() if name in instance.spec.sinks]
        reached = all(self.outbox.through(edge.key.edge) >= pending.heads[edge.label] for edge in left)
        return number if reached else 0

    def _reached(self) -> set[str]:
        """The nodes that this one must reach for the fleet to work."""
        others = self._behind | self._probed | self._pinged.keys() | self.lane.calls()
        return {node for node in self._senders if node in self._carried or node not in others}

    def _back(self) -> BackStatus | None:
        """Said as long as rows from when its device was cut off have not arrived."""
        near = tuple(sorted(node for node, sender in self._senders.items() if sender.reached))
        looks = self._looks_until is not None and self._now < self._looks_until and len(near) < len(self._senders)
        if not self._returning or looks or self._is_alone():  # what is said first when somebody listens must be true
            return None
        return BackStatus(tuple(query.name for query in self.queries()), near)

    def _retired_stamps(self) -> tuple[int, ...]:
        found: set[int] = set()
        for query, spec in self._wiring.sources:
            if query.retired:
                runs, held = self._wiring.flows[spec.key].runs, self._sources_spool.pending(spec.key.edge)
                found |= {entry.applied for entry in held if isinstance(entry, DataEntry)} - runs.stamps()
        return tuple(sorted(found))

    def urgent(self) -> Hashable:
        """Of all that, what a coordinator acts on; all of it while a vertex moves."""
        if self._ask_at is not None:
            return self.status()
        found = [(identity, one.term, self._state(one), one.lost) for identity, one in self._instances.items()]
        begun = [(identity, one.term, one.state) for identity, one in self._not_begun.items()]
        away = tuple(node for node in self._reached() if self._senders[node].disconnected)
        walks = self._back(), self._retired_stamps(), self._alternates.status()
        cuts = self._reached_cuts(), tuple(map(self._cut_stored, self._instances.values()))
        return (
            self._memory.boot,
            self.follows,
            tuple(found),
            tuple(begun),
            away,
            walks,
            cuts,
            self.position,
            self.leaving,
        )

    def _state(self, instance: Instance) -> str:
        if instance.failed:
            return BEHIND if instance.behind else FAILED
        return RUNNING if self._is_connected(instance) else STARTING

    def neighbours(self) -> tuple[tuple[str, int], ...]:
        """The nodes that it sends to and reaches, each with what that costs, as their answers say. In few steps: it is
        told to the coordinator when it changes."""
        times = {
            node: sender.answer_s for node, sender in self._senders.items() if sender.reached and node != self.node
        }
        found = [(node, measured_cost(answer_s)) for node, answer_s in sorted(times.items()) if answer_s is not None]
        return tuple(found[:NEIGHBOURS_MAX])

    def instances(self) -> tuple[Instance, ...]:
        return tuple(self._instances.values())

    def sinks(self) -> tuple[Sink, ...]:
        return tuple(self._sinks.values())

    def kept_bytes(self, query: str) -> int:
        """On this node's disk for others: rows that came into a region, snapshots of vertices that run elsewhere."""
        copies = {name_of(copy.spec): copy.bytes for copy in self._copies.values() if copy.spec.query == query}
        kept = [*self._keeper.held(), *self._keeper.cuts()]
        others = [each for each in kept if each.query == query and each.identity not in self._instances]
        return sum(copies.values()) + sum(each.size for each in others)

    def held(self) -> Held:
        """What recovery costs here in memory."""
        by_edge = {each.edge: each.bytes for each in self._made.statistics().edges}
        sent = sum(size for edge, size in by_edge.items() if edge in self._state_edges)
        frozen = sum(one.frozen_bytes for one in self._instances.values())
        return Held(sum(by_edge.values()) - sent, sent + frozen + self._snapshots.own_bytes)


def _said(error: Exception) -> str:
    if isinstance(error, ResurgeError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def permanent(instance: Instance) -> tuple[int | None, int | None]:
    """How many elements its last permanent snapshot has read, and its bytes."""
    last = instance.checkpoints.permanent
    if last.id is None or not instance.keeps_state:
        return None, None
    return sum(last.inputs.values()), instance.permanent_bytes
