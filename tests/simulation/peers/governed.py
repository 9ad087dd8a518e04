"""Simulated nodes whose gateway coordinates: it crashes, is restored from an older copy, has a standby, or a twin.

Rows go between the nodes as in every world of peers. What coordinates is the production coordinator behind a production
receiver; nodes call it with their own exchanges. Its store is that of `cloud_backend/coordinator/fleets.py` in a few
lines: one fleet, and no lower lease over a higher one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Deposed, Learned, Recovered
from shared.hosting.fleet_node import FleetNode
from shared.hosting.governed import Governed
from shared.hosting.host import Host
from shared.hosting.messages import Ask
from shared.hosting.passed_by_gateway import GatewayPassing, is_passed
from shared.hosting.planned_moves import MoveEnded
from shared.hosting.store import persist
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.language.schema import Schema
from shared.moves import REFUSED, MoveRequest
from shared.plan.deployment import HostedQuery, Placement
from shared.region.broadcast import Broadcast
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.events import DeploymentArrived, HintArrived, PassArrived
from shared.sync.exchange import DeploymentShown, LogRecord, PassReceived, StatusReceived
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, ExchangeApplied, Receiver, Reply
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions
from shared.wire import codecs
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data, Declare
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus, HostOffer
from tests.simulation.disk import Crash
from tests.simulation.keys import ToyKeys
from tests.simulation.peers import programs
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.world import (
    CURVE,
    PACING,
    Fault,
    Observer,
    Outcome,
    PeerWorld,
    Settings,
    SimulatedNode,
    ToyPeerKeys,
)

SPEAK = Pacing(poll_s=1.0, timeout_s=2.0, backoff_s_min=0.1, backoff_s_max=1.0)
GATEWAY_FAULTS = ("gateway", "restore", "standby", "twin")
TAKES_OVER_S = 2.0  # a lease runs out


@dataclass(slots=True)
class Store:
    """What is durable of a coordinator, and every copy of it that ever was."""

    lease: int = 0
    data: bytes = b""
    copies: list[tuple[int, bytes]] = field(default_factory=list)

    def store(self, data: bytes, lease: int) -> bool:
        if lease < self.lease:
            return False
        self.lease, self.data = lease, data
        self.copies.append((lease, data))
        return True


class SimulatedLog:
    """What is durable of the rows that nodes send to the gateway; whoever rules goes on with it."""

    takes_marks = False

    def __init__(self, world: GovernedWorld) -> None:
        self._world = world
        self._high_water: dict[EdgeKey, int] = {}
        self._schemas: dict[tuple[EdgeKey, int], Schema] = {}
        self.rows: dict[EdgeKey, list[tuple[object, ...]]] = {}
        self.lost = 0
        self.frames: list[bytes] = []  # all that was logged, in order
        self.carriers: dict[EdgeKey, set[int]] = {}  # the terms under which rows came

    def high_water(self, key: EdgeKey) -> int:
        return self._high_water.get(key, 0)

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        return self._world.ruling.coordinator.producer_term(carrier, key)

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:
        return {}

    def append(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            frame, _ = decode_one(record.frame, digest=record.digest)
            self.frames.append(bytes(record.frame))
            if frame.type is FrameType.DECLARE:
                declare = Declare.of(frame)
                self._schemas[record.key, declare.schema.id] = declare.schema
            if frame.type not in (FrameType.DATA, FrameType.TOMBSTONE):
                continue
            if record.lo != self.high_water(record.key):
                raise AssertionError(f"[{record.lo}, {record.hi}) after {self.high_water(record.key)}")
            self._high_water[record.key] = record.hi
            self.carriers.setdefault(record.key, set()).add(frame.term)
            if frame.type is FrameType.TOMBSTONE:
                self.lost += record.hi - record.lo
                continue
            data = Data.of(frame)
            batch = codecs.decode_data(data, self._schemas[record.key, data.schema_id])
            columns = [batch.columns[name].tolist() for name in sorted(batch.columns)]
            numbered = zip(batch.seq.tolist(), batch.time_us.tolist(), *columns, strict=True)
            self.rows.setdefault(record.key, []).extend(numbered)


class SimulatedGateway:
    def __init__(self, name: str, world: GovernedWorld, store: Store) -> None:
        self.name, self.world, self.store = name, world, store
        self.up, self.paused = True, False
        self._waiting: list[tuple[object, bytes]] = []  # came while it was paused
        self.control = self.unpassed = 0
        self.start()

    def start(self) -> None:
        world = self.world
        self.up, self.boot = True, object()
        self.coordinator = Coordinator(
            "", world.gateway_keys.sign, stored=self.store.data, lease=1 + world.rng.randrange(1000),
            lease_step=1 + world.rng.randrange(1000), silence_s=4.0, now=world.clock.now,
            patience_s=world.settings.patience_s, cut_s=world.settings.cut_s,
        )  # fmt: skip
        self.sessions = GatewaySessions(world.gateway_keys, world)
        self.passing = GatewayPassing()
        self.receiver = Receiver(world.log, self.sessions, self.coordinator, world.gateway_keys, passed=self._passed_to)
        self._keep()
        world.tell(self.name, "start", f"lease {self.coordinator.fleet.lease}")
        self._tick(self.boot)

    def _passed_to(self, device: DeviceId) -> list[PassMessage]:
        return self.passing.fetch(device.hex(), self.world.clock.now)

    def _pass_on(self, event: PassReceived) -> None:
        """As the gateway's driver does: whoever it is for waits for news."""
        known = self.world.by_id.keys() - self.world.revoked
        told = self.passing.take(event.message, known, self.world.clock.now)
        if told:
            self.world.news(told)
        else:
            self.unpassed += 1
        self.world.outcome.passed += bool(told)

    def _tick(self, boot: object) -> None:
        if self.up and boot is self.boot:
            if not self.paused:
                self.coordinator.part_with(self.world.revoked)
                self.coordinator.wake(self.world.clock.now)
                self._keep()
            self.world.clock.after(0.5, self._tick, boot)

    def deliver(self, handle: object, body: bytes) -> None:
        if not self.up or self.coordinator.deposed:
            return
        if self.paused:
            self._waiting.append((handle, body))
            return
        now, receiver = self.world.clock.now, self.receiver
        receiver.receive(Arrival(handle, body), now)
        for event in receiver.events():
            if isinstance(event, StatusReceived):
                self.coordinator.heard(event.device, now, event.status)
                if self.coordinator.fleet.regions and event.status.offer is not None and event.status.offer.passed:
                    self.passing.offered(event.device.hex(), event.status.boot, now)
            elif isinstance(event, PassReceived):
                self._pass_on(event)
            elif isinstance(event, DeploymentShown):
                self.coordinator.shown(event.device, event.message, now)
            elif isinstance(event, ExchangeApplied):
                self.control += event.control_up + event.control_down
                self.coordinator.heard(event.device, now)
        self._keep()
        step = receiver.step(now)
        self.world.log.append(step.persist)
        for reply in step.send:
            number, boot = reply.handle  # type: ignore[misc]
            self.world.to_node(number, boot, reply.body)

    def resume(self) -> None:
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for handle, body in waiting:
            self.deliver(handle, body)

    def _keep(self) -> None:
        """What was decided is durable before anybody is told."""
        for item in self.coordinator.step().persist:
            if not self.store.store(item.data, self.coordinator.fleet.lease):
                self.coordinator.depose("another one began later")
        for event in self.coordinator.events():
            self.world.coordinator_said(event)
            if isinstance(event, Recovered):
                self.world.outcome.recoveries += 1
            elif isinstance(event, Learned):
                self.world.learned += 1
            elif isinstance(event, Deposed):
                self.world.deposed += 1
            elif isinstance(event, MoveEnded):
                self.world.outcome.moved += not event.why
                self.world.outcome.given_up += bool(event.why)
            self.world.tell(self.name, type(event).__name__.lower(), str(event)[:160])


class GovernedNode(SimulatedNode):
    world: GovernedWorld

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.boot += 1
        self._wake_at = float("inf")
        self.spool = Spool.open(self.spool_disk)
        world = self.world
        unused = Spool.create(MemoryDisk(), capacity_bytes=1 << 20, device=self.device, incarnation=1)
        session = DeviceSession(ToyPeerKeys(self.keys).calling(world.gateway_keys.public_key), self.device, 1)
        self.sender = Sender(unused, session, pacing=world.speak, rng=world.rng, now=self.now)
        self.host = Host(
            self.device, 1, ToyPeerKeys(self.keys), disk=self.disk, sources=self.spool, random=world.rng,
            pacing=PACING, coordinator=world.gateway_keys.public_key, gateway=self.sender, now=self.now,
        )  # fmt: skip
        self.machine = FleetNode(self.host)
        self.governed = Governed(self.host, HostOffer(self.name, CURVE, (), 64))
        for observer in world.observers:
            observer.started(self)
        self.drive()

    def answered(self, body: bytes) -> None:
        self.sender.receive(body, self.now)
        self.drive()

    def drive(self, message: object | None = None) -> None:
        try:
            self._drive(message)
            self._call()
        except Crash:
            self.crash(self.torn_s)

    def _send(self, each: Ask | Reply | Broadcast) -> None:
        if is_passed(each):
            self.governed.pass_on(each, self.sender, self.now)  # type: ignore[arg-type]
        else:
            super()._send(each)

    def hear_news(self, boot: int) -> None:
        if self.up and boot == self.boot:
            self.sender.hurry(self.now)
            self.drive()

    def _call(self) -> None:
        """The driver's side of the node's own exchanges, as `mobile_app/node/loop.py` has it."""
        now, sender = self.now, self.sender
        sender.wake(now)
        for event in sender.events():
            if isinstance(event, DeploymentArrived):
                self.governed.take(event.message, sender, now)
            elif isinstance(event, HintArrived):
                self.governed.order(event.hint, now)
            elif isinstance(event, PassArrived):
                self.governed.passed(event.message, now)
            else:
                self.governed.note(event, now)
        while step := self.machine.step(now):
            for item in step.persist:
                persist(item, self.disk, self.spool)
            for each in step.send:
                self._send(each)
        self.governed.report(DeviceStatus(), sender, now)
        while step_ := sender.step(now):
            for body in step_.send:
                self.world.to_gateway(self, body)
        self.world.clock.at(max(now + 0.001, sender.next_wake()), self._wake_to_call, self.boot, sender.next_wake())

    def _wake_to_call(self, boot: int, at: float) -> None:
        if self.up and boot == self.boot and at == self.sender.next_wake():
            self.drive()


class GovernedWorld(PeerWorld):
    """Node 0 is where the results end; no node coordinates."""

    def __init__(
        self, settings: Settings, *, keep: bool = False, observers: Sequence[Observer] = (), speak: Pacing = SPEAK
    ) -> None:
        self.speak = speak
        self.learned = self.deposed = 0
        self.revoked: set[str] = set()  # nodes; they go on as if they were not
        self.gateway_keys = ToyKeys(Random("gateway"), {})
        self.gateways: list[SimulatedGateway] = []
        self.asks: list[MoveRequest] = []
        self.log = SimulatedLog(self)
        super().__init__(settings, keep=keep, observers=observers)

    def _make_node(self, number: int, keys: ToyKeys) -> SimulatedNode:
        keys._known.update(self.gateway_keys._known)
        self.gateway_keys._known[keys.public_key] = keys._secret
        return GovernedNode(number, self, keys)

    def find(self, device: DeviceId) -> Enrolment | None:
        return Enrolment(self.by_id[device.hex()].keys.public_key, 1, device.hex() in self.revoked)

    def coordinator_said(self, event: object) -> None:
        """What whoever coordinates tells people."""

    def news(self, node: str) -> None:
        """A node waits at its gateway, and hears at once that something came for it."""
        told = self.by_id[node]
        if isinstance(told, GovernedNode) and not self._is_lost(told.number):
            self.clock.after(self.rng.uniform(0.001, 0.03), told.hear_news, told.boot)

    # --- between nodes and whoever coordinates ---------------------------------------------------------------------

    def to_gateway(self, node: GovernedNode, body: bytes) -> None:
        ruling = [each for each in self.gateways if not each.coordinator.deposed]
        if not ruling or self._is_lost(node.number):
            return
        gateway = self.rng.choice(ruling) if len(ruling) > 1 else ruling[0]
        self.clock.after(self.rng.uniform(0.001, 0.03), gateway.deliver, (node.number, node.boot), body)

    def to_node(self, number: int, boot: int, body: bytes) -> None:
        if not self._is_lost(number):
            self.clock.after(self.rng.uniform(0.001, 0.03), self._answer, number, boot, body)

    def _answer(self, number: int, boot: int, body: bytes) -> None:
        node = self.nodes[number]
        if node.up and node.boot == boot and isinstance(node, GovernedNode):
            node.answered(body)

    def _is_lost(self, number: int) -> bool:
        return bool(self._cut.get(number)) or (self.rng.random() < self.settings.loss and not self._healed)

    # --- what PeerWorld asks -----------------------------------------------------------------------------------

    def _deploy(self) -> None:
        first = SimulatedGateway("gateway", self, Store())
        self.gateways.append(first)
        first.coordinator.set_fleet([node.peer for node in self.nodes], self._queries())
        first._keep()

    def _queries(self) -> list[HostedQuery]:
        return [self._first_query()]

    @property
    def ruling(self) -> SimulatedGateway:
        return max(self.gateways, key=lambda each: (not each.coordinator.deposed, each.coordinator.fleet.lease))

    def _drained(self) -> bool:
        """Also: it is settled who rules, and all follow."""
        ruling = [each for each in self.gateways if not each.coordinator.deposed]
        fleet = ruling[0].coordinator.fleet
        known = [node for node in self.nodes if node.up and node.id not in self.revoked]
        told = all(node.host.follows == (fleet.lease, fleet.version) for node in known)
        return super()._drained() and len(ruling) == 1 and told

    def _placement(self, which: int) -> Placement:
        placed = self.ruling.coordinator.fleet.queries[0].placements
        return placed[which % len(placed)]

    def _hosted(self, name: str) -> HostedQuery:
        return next(each for each in self.ruling.coordinator.fleet.queries if each.name == name)

    def _ask(self, request: MoveRequest) -> str:
        """As the gateway's own driver does: a request with an id, a refusal as an answer."""
        gateway = self.ruling
        if not gateway.up or gateway.paused:
            return "coordinator-gone"
        named = replace(request, id=f"{len(self.asks):016x}")
        self.asks.append(named)
        gateway.coordinator.asked([named], self.clock.now)
        gateway._keep()
        answer = next(each for each in gateway.coordinator.answers() if each.request.id == named.id)
        return answer.code if answer.state == REFUSED else ""

    def _inject(self, fault: Fault) -> None:
        if fault.kind in ("revoke", "revoke source"):
            self._fired(fault)
            query = self.ruling.coordinator.fleet.queries[0]
            hosts = [host for placed in query.placements for host in placed.hosts]
            beside = (host for host in hosts if host not in (query.sink, *query.sources))
            node = next(beside) if fault.kind == "revoke" else query.sources[-1]
            self.revoked.add(node)
            for each in self.gateways:
                each.sessions.revoke(self.by_id[node].device)
            self.tell("person", "revoke", self.by_id[node].name)
            return
        if fault.kind not in GATEWAY_FAULTS:
            super()._inject(fault)
            return
        gateway = self.ruling
        if not gateway.up or gateway.paused or len(self.gateways) > 1:
            return
        self._fired(fault)
        self.tell(gateway.name, fault.kind, f"for {fault.seconds:.1f} s")
        store = gateway.store
        match fault.kind:
            case "gateway":
                gateway.up = False
                self.clock.after(fault.seconds, gateway.start)
            case "restore":
                gateway.up = False
                store.lease, store.data = self.rng.choice(store.copies[:-1] or store.copies)
                self.clock.after(fault.seconds, gateway.start)
            case "standby":
                gateway.paused = True
                self.clock.after(TAKES_OVER_S, self._second, store)
                self.clock.after(TAKES_OVER_S + fault.seconds, gateway.resume)
            case _:
                lease, data = self.rng.choice(store.copies[:-1] or store.copies)
                self._second(Store(lease, data))

    def _second(self, store: Store) -> None:
        self.gateways.append(SimulatedGateway("second", self, store))


class FollowsNothingOlder:
    """What a node follows never goes back, and a lease and a version mean one thing for all."""

    def __init__(self) -> None:
        self._followed: dict[str, tuple[int, int]] = {}
        self._said: dict[tuple[int, int], bytes] = {}

    def started(self, node: SimulatedNode) -> None: ...

    def noticed(self, node: SimulatedNode, event: object) -> None: ...

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            if not node.up:
                continue
            now, before = node.host.follows, self._followed.get(node.id, (0, 0))
            if node.host.here.persist:
                continue  # not durable yet: a crash may take it back
            if now[0] < before[0] or now[1] < before[1]:
                return f"FollowsNothingOlder: {node.name} follows {now} after {before}"
            self._followed[node.id] = now
            if now != before and now[1]:
                said = repr(replace(node.host.deployed, node="")).encode()  # type: ignore[type-var]
                if self._said.setdefault(now, said) != said:
                    return f"OneWordPerVersion: {node.name} follows another {now} than others do"
        return ""

    def end(self, world: PeerWorld) -> str:
        if not isinstance(world, GovernedWorld):
            return ""
        ruling = [each for each in world.gateways if not each.coordinator.deposed]
        if len(ruling) != 1:
            return f"OneRules: {len(ruling)} coordinators rule"
        fleet = ruling[0].coordinator.fleet
        known = [node for node in world.nodes if node.up and node.id not in world.revoked]
        behind = [node.name for node in known if node.host.follows[0] < fleet.lease]
        return f"OneRules: {behind} do not follow lease {fleet.lease}" if behind and world.settings.settle_s else ""


def disturbed(kind: str, seed: int, program: str = "chain") -> Settings:
    """A node dies, something happens to whoever coordinates, and another node fails about then."""
    rng = Random(f"governed {kind} {seed}")
    faults = (
        Fault(rng.uniform(2.0, 3.0), rng.randrange(2), "primary", rng.uniform(6.0, 9.0)),
        Fault(rng.uniform(8.0, 10.0), 0, kind, rng.uniform(1.0, 6.0)),
        Fault(rng.uniform(8.0, 11.0), rng.randrange(5), rng.choice(("primary", "crash", "cut")), rng.uniform(1.0, 9.0)),
    )
    return programs.settings(
        program, row="ecoc", seed=seed, faults=faults, settle_s=60.0, every_s=0.5, loss=rng.choice((0.0, 0.0, 0.1))
    )


def outcome_of(kind: str, seed: int, *, keep: bool = False) -> tuple[Outcome, GovernedWorld]:
    """Of one world; what is wrong with its results is named as what is wrong in it."""
    ideal = programs.undisturbed("chain")
    world = GovernedWorld(disturbed(kind, seed), keep=keep, observers=[*every_checker(), FollowsNothingOlder()])
    outcome = world.run(ideal.elements)
    if not outcome.violation and outcome.lost:
        outcome.violation = f"NothingLost: {outcome.lost} elements are"
    if not outcome.violation and outcome.digest != ideal.digest:
        outcome.violation = "OutputAsIdeal: the sinks hold something else"
    return outcome, world
