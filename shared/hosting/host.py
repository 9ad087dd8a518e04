"""Several vertices on one node, and the edges between them and other nodes' vertices: one machine.

Theory of operation. Every node is a gateway to the nodes upstream of it. What arrives on an edge goes to an instance, a
keeper or a sink; what those make goes to the outbox, from where one sender per reading node takes it. The answer to an
arrival is a receipt with two positions: `taken`, which is where to go on, and `through`, below which nothing will be
asked for again. `through` rises when a snapshot is permanent, and not before.

    arrivals -> PeerReceiver -> instance -> outbox -> Sender -> the next node
                             -> keeper  -> disk
                             -> sink    -> disk
    receipts -> Sender -> outbox (trim), checkpoints (what may become permanent)

A deployment is whole: `deploy` compares it with what runs and changes the difference. A vertex that runs under the
term it is deployed with goes on undisturbed; any other begins from what this node's keeper has of it. Nothing is told
in steps, so a deployment that is repeated, or whose answer is lost, changes nothing.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from shared.batch import NO_FRONTIER, Batch
from shared.errors import PeerError, ResurgeError, UsageError
from shared.hosting.initiators import number_of, text_of
from shared.hosting.instance import Instance, Made
from shared.hosting.keeper import Keeper
from shared.hosting.messages import (
    Answer,
    Ask,
    Connected,
    Heard,
    HostMessage,
    InstanceFailed,
    PeerBack,
    PeerLost,
    SinkTook,
    Unreachable,
)
from shared.hosting.peer_receiver import NoDownlink, PeerReceiver, Roster
from shared.hosting.sink import Sink
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.source import Source
from shared.hosting.store import HostPersist, Memory, StoreMemory
from shared.hosting.watching import Result, Unwatched, Watch
from shared.hosting.wiring import STATE, EdgeSpec, KeptSpec, VertexSpec, Wiring, state_edge, wire
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.language.codecs import NONE
from shared.plan.deployment import Deployment, HostedQuery, Peer, decode_deployment
from shared.recovery.consistency import EdgeCut, inconsistencies
from shared.recovery.marks import Extend, Freeze, Mark, MarkId
from shared.spool.disk import Disk
from shared.spool.entry import Entry, Reason, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.events import (
    Disconnected,
    Extended,
    PlanArrived,
    ReaderRestored,
    ReceiptReceived,
    Reconnected,
    Refused,
)
from shared.sync.exchange import NOT_READ, LogRecord, StatusReceived
from shared.sync.outbox import Outbox
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.receiver import Arrival, Downlink, ExchangeApplied, Reply
from shared.sync.sender import Sender
from shared.sync.session import DeviceKeys, DeviceSession, GatewayKeys, GatewaySession, GatewaySessions
from shared.sync.step import Step
from shared.wire import codecs
from shared.wire import messages as wire_messages
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import FORGOTTEN, Data, LostRange, MarkMessage, PeerReceipt
from shared.wire.status import TEXT_CHARACTERS, DeviceStatus, InstanceStatus, KeptStatus

WITHIN_S = 0.02  # that rows wait for company before they go to the next node
MADE_BYTES = 16 << 20  # what the vertices here have made and nobody has a receipt for
# Frames that are taken only where an edge goes on from what was taken. Declarations and marks come as well from a node
# that has not heard yet that its reader began again with less.
GO_ON = frozenset(map(int, (FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER)))
CREDIT_BYTES = MADE_BYTES // 2  # beyond it no more is taken, but for rows that go round a cycle
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
        now: float = 0.0,
    ) -> None:
        """Reads what is on the disk; what is to be written there is in steps. `sources` is the spool of this node's own
        device. `coordinator` is the public key of who may deploy here; none: only `deploy` does. `watch` runs users'
        code."""
        self.node = node.hex()
        self.device, self._incarnation, self._keys = node, incarnation, keys
        self._disk = disk
        self._memory = memory = Memory.read(disk)
        memory.boot += 1
        self._now = now
        self._keeper = Keeper(disk)
        self._sources_spool = sources
        self._random = random
        self._pacing = pacing
        self._coordinator = coordinator
        self._watch = watch or Unwatched()
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
        self._sinks: dict[EdgeKey, Sink] = {}
        self._readers_of: dict[EdgeKey, list[tuple[Instance, str]]] = {}
        self._makers: dict[EdgeId, tuple[Instance | Source, EdgeSpec]] = {}
        self._state_edges: dict[EdgeId, Instance] = {}
        self._loads: dict[tuple[EdgeId, str], int] = {}
        self._senders: dict[str, Sender] = {}
        self._persist: list[HostPersist] = [StoreMemory(memory.encode())]
        self._events: list[object] = []
        self._snapshots = SnapshotsUnderWay(
            self.node, self._keeper, self.outbox, self._made, send=self._appended,
            store=self._persist.append, say=self._events.append,
        )  # fmt: skip
        self._answers: list[bytes] = []  # to marks of the exchange that is being taken
        self.refused: Counter[str] = Counter()  # by code, what others sent and nothing was kept of
        self._sessions = GatewaySessions(keys.answering(), Roster(self._peers))
        self.receiver = PeerReceiver(self, self._sessions, downlink or NoDownlink(), keys.answering())
        if memory.deployment:
            self._apply(decode_deployment(memory.deployment), now, restarted=True)

    # --- deployments -----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._memory.version

    def deploy(self, deployment: Deployment, encoded: bytes, now: float) -> None:
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
        self._apply(deployment, now)
        memory.deployment, memory.version, memory.lease = encoded, deployment.version, deployment.lease
        self._persist.append(StoreMemory(memory.encode()))

    def meet(self, peers: Sequence[Peer], now: float) -> None:
        """Whom a node knows before its first deployment: it asks the coordinator among them for one."""
        if not self._memory.version:
            self._peers.update((peer.node, peer) for peer in peers)
            self._carry({}, now)

    def peers(self) -> tuple[Peer, ...]:
        return tuple(self._peers.values())

    def queries(self) -> tuple[HostedQuery, ...]:
        """Those that this node's own device feeds."""
        return tuple({query.name: query for query, _ in self._wiring.sources}.values())

    def _apply(self, deployment: Deployment, now: float, *, restarted: bool = False) -> None:
        wiring = wire(deployment)  # raises before anything has changed
        self._wiring, self.deployed = wiring, deployment
        for node in self._peers.keys() - {peer.node for peer in deployment.peers}:
            self._sessions.revoke(DeviceId(bytes.fromhex(node)))  # it is a stranger from now on
        self._peers.clear()
        self._peers.update((peer.node, peer) for peer in deployment.peers)
        keepers = {identity: one.spec.placement.keepers for identity, one in self._instances.items()}
        self._begin_vertices(wiring, restarted=restarted)
        self._persist += self._keeper.keep_for(wiring.kept, wiring.known)
        self._begin_sinks(wiring)
        self._serve(wiring, now)
        self.receiver.forget_edges()
        self._receivers()
        for identity, instance in self._instances.items():
            if not instance.failed:
                self._snapshots.rewired(instance, keepers.get(identity, ()))

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
            self._not_begun.pop(identity, None)
            self._memory.begun[name] = spec.placement.term
            self._begin(identity, spec)

    def _begin(self, identity: tuple[str, int, str], spec: VertexSpec) -> None:
        kept = self._snapshots.begins_again(identity)
        self._instances.pop(identity, None)  # of an earlier term
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
            self.outbox.serve(edge.key.edge, edge.schema, self._made, edge.readers)
            batches = [] if kept is None else kept.ranges.get(edge.label, [])
            start = batches[0].lo if batches else instance.heads[name]
            self.outbox.restart(edge.key.edge, start)
            for batch in batches:
                self._made.append(batch)
        state = state_edge(spec.query, spec.placement)
        self.outbox.serve(state.key.edge, STATE, self._made, self._others(state))
        self.outbox.restart(state.key.edge, 0)

    def _cannot_begin(self, spec: VertexSpec, state: str, why: str) -> None:
        self._not_begun[spec.identity] = InstanceStatus(
            spec.query.name, spec.vertex.name, spec.placement.term, state, why[:TEXT_CHARACTERS]
        )

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
            self.outbox.serve(spec.key.edge, spec.schema, self._sources_spool, spec.readers)
            source = self._sources.get(spec.key)
            if source is None:
                source = self._sources[spec.key] = Source(spec, query, self._memory.boot, self._random)
            source.spec = spec
            self._makers[spec.key.edge] = (source, spec)
            for node in spec.readers:
                carried.setdefault(node, []).append((spec, 0))
        for instance in self._instances.values():
            term = instance.term
            for edge in instance.spec.outputs.values():
                self.outbox.serve(edge.key.edge, edge.schema, self._made, edge.readers)
                self._makers[edge.key.edge] = (instance, edge)
                for node in edge.readers:
                    carried.setdefault(node, []).append((edge, term))
            state = state_edge(instance.spec.query, instance.spec.placement)
            others = self._others(state)
            self.outbox.serve(state.key.edge, STATE, self._made, others)
            self._state_edges[state.key.edge] = instance
            for node in others:
                carried.setdefault(node, []).append((state, term))
        served = {*self._makers, *self._state_edges}
        for number in [number for number in self.outbox.edges() if number not in served]:
            self.outbox.end(number)
        self._carry(carried, now)

    def _others(self, state: EdgeSpec) -> dict[str, int]:
        """Who reads a state edge: this node's own keeper needs no edge."""
        return {node: reads for node, reads in state.readers.items() if node != self.node}

    def _carry(self, carried: Mapping[str, Sequence[tuple[EdgeSpec, int]]], now: float) -> None:
        called = {*carried}
        for node, peer in self._peers.items():
            if peer.public_key == self._coordinator and node != self.node:
                called.add(node)
        for node in [node for node in self._senders if node not in called]:
            del self._senders[node]
        for node in sorted(called):
            sender = self._senders.get(node)
            if sender is None:
                session = DeviceSession(
                    self._keys.calling(self._peers[node].public_key), self.device, self._incarnation
                )
                sender = self._senders[node] = Sender(
                    self.outbox.reading(node), session, pacing=self._pacing, rng=self._random,
                    plan_version=self._memory.version, now=now,
                )  # fmt: skip
            wanted = {spec.name for spec, _ in carried.get(node, ())}
            for name in sender.edge_names():
                if name not in wanted:
                    sender.drop(name)
            for spec, term in carried.get(node, ()):
                sender.carry(spec.name, spec.schema, spec.key, term=term, read=spec.readers[node], within_s=WITHIN_S)
                sender.frontier(spec.key.edge, self._frontier_of(spec), now)
            sender.hurry(now)

    def _frontier_of(self, spec: EdgeSpec) -> int:
        """How far time has come on an edge that is made here: a new reader must hear it, also where nothing moves."""
        maker = self._makers.get(spec.key.edge)
        if maker is None:  # a state edge has no time
            return NO_FRONTIER
        return maker[0].frontier_us(spec)

    def _receivers(self) -> None:
        self._readers_of = {}
        for instance in self._instances.values():
            for label, each in instance.spec.inputs.items():
                self._readers_of.setdefault(each.edge.key, []).append((instance, label))

    # --- what the node's own device makes --------------------------------------------------------------------

    def gathers(self) -> tuple[EdgeSpec, ...]:
        """The edges that this node's own device feeds."""
        return tuple(spec for _, spec in self._wiring.sources)

    def offer(self, key: EdgeKey, batch: SpooledBatch, now: float) -> Entry:
        """A batch of this node's own device, numbered from its spool's head. Sent once it is durable. SpoolFull while
        readers have not made room."""
        entry = self._sources_spool.append(batch)
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
            case Unreachable(node):
                if (sender := self._senders.get(node)) is not None:
                    sender.fail(now)
        self._notice(now)

    def wake(self, now: float) -> None:
        self._now = now
        self.receiver.wake(now)
        for sender in self._senders.values():
            sender.wake(now)
        self._notice(now)

    def next_wake(self) -> float | None:
        return min((sender.next_wake() for sender in self._senders.values()), default=None)

    def step(self, now: float) -> Step[HostPersist, Ask | Reply]:
        self._now = now
        self._made.sync()
        send: list[Ask | Reply] = []
        if self._sources_spool.dirty:
            self._persist.append(SyncSpool())
        else:
            for node, sender in list(self._senders.items()):
                if self._peers[node].public_key == self._coordinator and sender.next_wake() <= now:
                    sender.status(self.status())
                while step := sender.step(now):
                    send += [Ask(node, body) for body in step.send]
            self._notice(now)
        replies = self.receiver.step(now).send
        self.refused.update(reply.refused for reply in replies if reply.refused is not None)
        send += replies
        persist = tuple(self._persist)
        self._persist.clear()
        return Step(persist, tuple(send))

    def events(self) -> list[object]:
        events = list(self._events)
        self._events.clear()
        return events

    # --- what others ask of it -------------------------------------------------------------------------------

    def high_water(self, key: EdgeKey) -> int:
        readers = [instance.taken[label] for instance, label in self._readers_of.get(key, ()) if not instance.failed]
        if key in self._sinks:
            readers.append(self._sinks[key].taken)
        if self._keeper.reads(key) is not None:
            readers.append(self._keeper.taken.get(key, 0))
        return min(readers, default=NOT_READ)

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:  # noqa: ARG002
        return {}

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        kept = self._keeper.reads(key)
        edges = [instance.spec.inputs[label].edge for instance, label in self._readers_of.get(key, ())]
        edges += [edge for _, _, edge in self._wiring.sinks if edge.key == key]
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
        for instance, label in self._readers_of.get(key, ()):
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
        frame, _ = decode_one(record.frame, digest=record.digest)
        key = record.key
        kept = self._keeper.reads(key)
        if kept is not None:
            try:
                self._take_piece(kept, frame, record)
            except PeerError as error:  # altered, or of another vertex: the snapshot is not kept, the next one may be
                self._refuse(error)
        elif key in self._sinks:
            self._take_result(self._sinks[key], frame.type, record)
        for instance, label in self._readers_of.get(key, ()):
            if not instance.failed:
                self._guard(instance, functools.partial(self._take, instance, label, session, record, frame))

    def _take_piece(self, kept: KeptSpec, frame: Frame, record: LogRecord) -> None:
        if frame.type is FrameType.DATA:
            item = self._keeper.take(record.key, record.hi, bytes(Data.of(frame).columns))
            if item is not None:
                self._persist.append(item)
        elif frame.type is FrameType.TOMBSTONE:
            self._keeper.taken[kept.edge.key] = record.hi

    def _take_result(self, sink: Sink, kind: FrameType, record: LogRecord) -> None:
        if kind in (FrameType.DATA, FrameType.TOMBSTONE):
            lost = kind is FrameType.TOMBSTONE
            self._persist.append(sink.take(bytes(record.frame), record.lo, record.hi, lost=lost))
            self._events.append(SinkTook(sink.query, sink.sink, record.lo, record.hi))

    def _take(
        self, instance: Instance, label: str, session: GatewaySession, record: LogRecord, frame: Frame
    ) -> None:  # fmt: skip
        if record.lo > instance.taken[label] or not self._take_frame(instance, label, session, record, frame):
            self.receiver.forget_edges()  # the receipt says where it stands, and what was left comes again
            return
        begins = not instance.confirmed
        if record.kind in GO_ON:
            instance.confirm(label)
        if begins and instance.confirmed:
            self._events.append(Connected(instance.query, instance.vertex, instance.term))
        self._snapshots.input_went_on(instance)

    def _take_frame(
        self, instance: Instance, label: str, session: GatewaySession, record: LogRecord, frame: Frame
    ) -> bool:  # fmt: skip
        """False: it cannot be taken yet."""
        match frame.type:
            case FrameType.DATA:
                batch = self._decoded(instance, label, session, Data.of(frame))
                if batch is not None:
                    taking = functools.partial(instance.take, label, batch, len(frame.payload))
                    self._leave(instance, self._watched(instance.spec, taking))
            case FrameType.TOMBSTONE:
                if record.hi <= instance.taken[label]:
                    return True
                if LostRange.of(frame).reason == FORGOTTEN:
                    if instance.keeps_state and not instance.spec.placement.anew:
                        instance.behind = True
                        cut = EdgeCut(label, record.hi, record.hi, record.hi, instance.taken[label])
                        raise PeerError(
                            f"its snapshot is too old for {'; '.join(inconsistencies([cut]))}", code="hosting-behind"
                        )
                    if not self._go_on_without(instance):
                        return False
                if (freeze := instance.lose(label, record.hi)) is not None:
                    self._leave(instance, [freeze])
            case FrameType.FRONTIER:
                advancing = functools.partial(instance.advance, label, frame.frontier_us)
                self._leave(instance, [*self._watched(instance.spec, advancing)])
            case FrameType.MARK:
                message = MarkMessage.of(frame)
                id = MarkId(message.number, text_of(message.initiator))
                answer = instance.mark(label, Mark(id, message.position))
                if isinstance(answer, Freeze):
                    self._leave(instance, [answer])
                elif isinstance(answer, Extend):
                    key = record.key
                    self._answers.append(
                        encode(
                            wire_messages.Extend(
                                key.device, key.incarnation, key.edge, answer.wait, message.number, message.initiator
                            ).frame()
                        )
                    )
            case _:
                pass  # a declaration: the session remembers it
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

    def _decoded(self, instance: Instance, label: str, session: GatewaySession, data: Data) -> Batch | None:
        """The part of a batch that the instance has not taken; None when it has all of it."""
        taken = instance.taken[label]
        if data.hi <= taken:
            return None
        schema = session.declared[int(data.edge), data.schema_id]
        expected = instance.spec.inputs[label].edge.schema
        if schema != expected:
            raise PeerError("a batch of other columns than the deployment says", code="hosting-schema")
        batch = codecs.decode_data(data, schema)
        return batch if batch.lo >= taken else batch.after(taken)

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
            codec, payload = codecs.encode(made.batch, NONE)  # nodes of a fleet are near: bytes cost less than time
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
                self._senders[node].frontier(edge.key.edge, made.frontier_us, self._now)

    def _send_mark(self, edge: EdgeSpec, term: int, mark: Mark, now: float) -> None:
        number = number_of(mark.id.initiator)
        message = MarkMessage(
            edge.key.device, edge.key.incarnation, edge.key.edge, mark.position, mark.id.number, number, term
        )
        for node in edge.readers:
            self._senders[node].mark(message, now)

    def _appended(self, node: str, batch: SpooledBatch) -> None:
        self._senders[node].appended(batch, self._now)

    # --- what senders tell -----------------------------------------------------------------------------------

    def _notice(self, now: float) -> None:
        for event in self.receiver.events():
            if isinstance(event, ExchangeApplied):
                self._events.append(Heard(event.device))
            elif isinstance(event, StatusReceived):
                self._events.append(event)
        for node, sender in list(self._senders.items()):
            for event in sender.events():
                self._sender_event(node, event, now)

    def _sender_event(self, node: str, event: object, now: float) -> None:
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
                found = self._makers.get(edge)
                if found is not None:
                    maker, spec = found
                    term = maker.term if isinstance(maker, Instance) else 0
                    for mark in maker.checkpoints.marks_to_send(spec.label):
                        self._send_mark(spec, term, mark, now)
            case PlanArrived(_, plan):
                if node in self._peers and self._peers[node].public_key == self._coordinator:
                    self._deploy_from(plan, now)
            case Disconnected(_, code):
                self._events.append(PeerLost(node, code))
            case Reconnected():
                self._events.append(PeerBack(node))
            case _:
                self._events.append(event)

    def _deploy_from(self, plan: bytes, now: float) -> None:
        try:
            self.deploy(decode_deployment(plan), plan, now)
        except ResurgeError as error:  # what runs goes on; the coordinator sees that the version did not change
            self._refuse(error)

    def _refuse(self, error: ResurgeError) -> None:
        self.refused[error.code] += 1
        self._events.append(Refused(error.code, error.message))

    def _receipted(self, node: str, edge: EdgeId, load: int) -> None:
        if edge in self._state_edges:
            self._snapshots.settle(self._state_edges[edge])
            return
        found = self._makers.get(edge)
        if found is None:
            return
        maker, spec = found
        self._loads[edge, node] = load
        total = sum(self._loads.get((edge, reader), 0) for reader in spec.readers)
        maker.checkpoints.receipt(spec.label, self.outbox.through(edge), total)
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
            InstanceStatus(one.query, one.vertex, one.term, self._state(one), one.failed, one.lost, *permanent(one))
            for one in self._instances.values()
        ]
        found += self._not_begun.values()
        away = tuple(sorted(node for node, sender in self._senders.items() if sender.disconnected))
        kept = tuple(KeptStatus(one.query, one.vertex, *one.version) for one in self._snapshots.newest())
        return DeviceStatus(
            boot=self._memory.boot, instances=tuple(found), kept=kept, unreachable=away, plan=self.version
        )

    def _state(self, instance: Instance) -> str:
        if instance.failed:
            return BEHIND if instance.behind else FAILED
        return RUNNING if self._is_connected(instance) else STARTING

    def instances(self) -> tuple[Instance, ...]:
        return tuple(self._instances.values())

    def sinks(self) -> tuple[Sink, ...]:
        return tuple(self._sinks.values())

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
    return (None, None) if last.id is None else (sum(last.inputs.values()), instance.permanent_bytes)
