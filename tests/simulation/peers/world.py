"""Several simulated nodes that run one query: production hosts and coordinator on a network and disks that misbehave.

Node 0 coordinates and is where the results end; the others feed the query with made-up rows, host its vertices and keep
each other's snapshots. A row is a function of its number, so a source that is restarted makes the same ones again. What
the sink holds at the end is compared with a run of the same query in which nothing failed.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NoReturn, Protocol

import numpy as np

from shared.batch import END_OF_TIME, Batch
from shared.errors import UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Recovered
from shared.hosting.fleet_node import FleetNode
from shared.hosting.host import Host
from shared.hosting.keeper import CHANGES
from shared.hosting.messages import Answer, Ask, Committed, Datagram, InstanceFailed, SinkTook
from shared.hosting.planned_moves import MoveEnded
from shared.hosting.sink import sink_rows
from shared.hosting.store import persist, stored_fleet
from shared.hosting.wiring import EdgeSpec
from shared.identity import device_id
from shared.language.codecs import NONE
from shared.language.registry import references
from shared.moves import MoveRequest
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Peer, Placement, decode_deployment
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.region.broadcast import Broadcast
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.wire import codecs
from tests.simulation.clock import Clock
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.keys import ToyKeys

PACING = Pacing(poll_s=1.0, timeout_s=2.0, backoff_s_min=0.1, backoff_s_max=1.0, window=3, probe_s=0.4)
CURVE = "0" * 40
ASKS = 8  # that a person asks again for a move, every half a second
PHASES = ("begun", "marked", "storing", "stored", "idle")
FOR_GOOD_S = 1e6
LOOK_EVERY = 3  # events between two looks of the observers
RowsOf = Callable[[EdgeSpec, int, int], tuple[dict[str, object], np.ndarray]]


@dataclass(frozen=True, slots=True)
class Fault:
    """At a time something fails for so long. `node` is a number; where the kind is about a vertex, which one, in order.

    crash: the node stops. cut: it reaches nobody. part: it and the next one do not reach each other. wifi: it
    reaches nobody but the coordinator's node. raise: a vertex raises
    on the node that runs it. primary, backup, both: the node that runs a vertex stops, one that keeps it, all of those.
    commit: the node that runs a vertex stops while a snapshot of it is on the way to its keepers. torn: a node stops while
    it writes. move: a person asks that a vertex goes to another node, which is no failure; asked again while it cannot.
    older: the first keeper of a vertex stops and comes back without the newest changes that it has said to have.
    leave, meet: a vertex is asked to move, and the node that it leaves, or goes to, stops so much later. half: every other
    node but the coordinator's stops for good, sources for so long; in the phase of a cut that `node` says, if it is one."""

    at: float
    node: int
    kind: str = "crash"
    seconds: float = 1.0
    to: int = 0  # of a move, the node that it goes to


@dataclass(frozen=True, slots=True)
class Settings:
    plan: Plan
    rows: int  # that every source makes on every gather
    rows_of: RowsOf
    seed: int = 0
    nodes: int = 5
    sources: tuple[int, ...] = (1,)
    row: str = "ecoc"
    every: int = 40
    copies: int = 1
    every_s: float = 0.05
    batch: int = 10
    loss: float = 0.0
    duplication: float = 0.0
    faults: tuple[Fault, ...] = ()
    within_s: float = 120.0
    patience_s: float = 60.0
    cut_s: float = 0.5  # between two cuts, where a coordinator begins them
    uncalled: tuple[int, ...] = ()  # nodes that only call: nobody reaches them but by an answer
    heard: float | None = (
        None  # share of datagrams that are lost to each node that should hear them; None: no such lane
    )
    exchange_bytes_max: int = PACING.exchange_bytes_max
    settle_s: float = 0.0  # that it may go on after the last result, without losses, until no snapshot is pending


@dataclass(slots=True)
class Outcome:
    violation: str = ""
    elements: int = 0
    lost: int = 0
    crashes: int = 0
    recoveries: int = 0
    commits: int = 0
    cuts: int = 0  # through a region, complete
    failed: int = 0
    fired: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # of the faults that fired
    moved: int = 0  # vertices that went where a person wanted them
    given_up: int = 0
    passed: int = 0  # messages that went by way of the coordinator's node
    pause_s: float = 0.0  # the longest between two results
    control_bytes: int = 0
    broadcast_bytes: int = 0
    digest: str = ""
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)


class ToyPeerKeys:
    def __init__(self, keys: ToyKeys) -> None:
        self._keys = keys

    def calling(self, peer: bytes) -> ToyKeys:
        towards = object.__new__(ToyKeys)
        towards.__dict__.update(self._keys.__dict__)
        towards.gateway_key = peer
        return towards

    def answering(self) -> ToyKeys:
        return self._keys


class SimulatedNode:
    def __init__(self, number: int, world: PeerWorld, keys: ToyKeys) -> None:
        self.number = number
        self.name = f"node{number}"
        self.world = world
        self.keys = keys
        self.device = device_id(keys.public_key)
        self.id = self.device.hex()
        self.disk = SimulatedDisk(world.rng)
        self.spool_disk = SimulatedDisk(world.rng)
        self.up = False
        self.boot = 0
        self.peer = Peer(self.id, self.name, keys.public_key, CURVE, (), operators=tuple(sorted(references())))
        self.host: Host
        self._wake_at = float("inf")
        self.raising: set[str] = set()  # vertices that fail here
        self.torn_s = 1.0
        Spool.create(
            self.spool_disk, capacity_bytes=1 << 20, device=self.device, incarnation=1, evict=Evict.BLOCK
        ).close()

    @property
    def now(self) -> float:
        return self.world.clock.now

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.boot += 1
        self._wake_at = float("inf")  # what the one before was to be woken for does not wake this one
        self.spool = Spool.open(self.spool_disk)
        world, coordinator = self.world, None
        if self.number == 0:
            coordinator = Coordinator(
                self.id, self.keys.sign, stored=stored_fleet(self.disk), silence_s=4.0, now=self.now,
                patience_s=world.settings.patience_s, cut_s=world.settings.cut_s,
            )  # fmt: skip
        self.host = Host(
            self.device, 1, ToyPeerKeys(self.keys), disk=self.disk, sources=self.spool,
            random=world.rng, pacing=replace(PACING, exchange_bytes_max=world.settings.exchange_bytes_max),
            coordinator=world.coordinator_key, downlink=coordinator, now=self.now,
        )  # fmt: skip
        self.host.lane.is_open = world.settings.heard is not None
        self.machine = FleetNode(self.host, coordinator)
        for observer in world.observers:
            observer.started(self)
        world.tell(self.name, "start", f"boot {self.boot}")
        self.drive()

    def crash(self, seconds: float) -> None:
        if not self.up:
            return
        self.up = False
        self.world.outcome.crashes += 1
        self.disk.crash()
        self.spool_disk.crash()
        self.world.tell(self.name, "crash", f"for {seconds:.1f} s")
        self.world.clock.after(seconds, self.start)

    def deliver(self, message: object, boot: int | None = None) -> None:
        if self.up and (boot is None or boot == self.boot):
            self.drive(message)

    def sense(self) -> None:
        """The device's own rows, from where its spool stands."""
        if not self.up:
            return
        world = self.world
        for spec in self.host.gathers():
            head = self.host.head(spec.key)
            made = min(world.settings.batch, world.settings.rows - head)
            if made > 0:
                self.host.offer(spec.key, world.batch(spec, head, head + made), self.now)
            elif not made:
                self.host.frontier(spec.key, END_OF_TIME, self.now)
        self.drive()

    def drive(self, message: object | None = None) -> None:
        try:
            self._drive(message)
        except Crash:
            self.crash(self.torn_s)

    def _drive(self, message: object | None) -> None:
        now, machine = self.now, self.machine
        for instance in self.host.instances() if self.raising else ():
            if instance.vertex in self.raising:
                instance._run = _raise  # type: ignore[method-assign]
        if message is not None:
            machine.receive(message, now)  # type: ignore[arg-type]
        machine.wake(now)
        while step := machine.step(now):
            for item in step.persist:
                persist(item, self.disk, self.spool)
            for each in step.send:
                self._send(each)
        for event in machine.events():
            self._notice(event)
        wakes = machine.next_wake()
        wake_at = max(now + 0.001, now + 5.0 if wakes is None else wakes)
        if wake_at < self._wake_at or self._wake_at <= now:
            self._wake_at = wake_at
            self.world.clock.at(wake_at, self._wake, wake_at, self.boot)

    def _wake(self, wake_at: float, boot: int) -> None:
        if self.up and boot == self.boot and wake_at == self._wake_at:
            self._wake_at = float("inf")
            self.drive()

    def _send(self, each: Ask | Reply | Broadcast) -> None:
        world = self.world
        if isinstance(each, Broadcast):
            world.broadcast(self, each)
        elif isinstance(each, Ask):
            to = world.by_id[each.node]
            sent = self.host.calling.senders[each.node]._under_way
            control = not sent or not sent[-1].numbered
            world.count(each.body, control=control, own=to is self)
            handle = self.number, self.boot, control, each.by
            self._carry(to, Arrival(handle, each.body), None, each.by)
        else:
            number, boot, control, by = each.handle  # type: ignore[misc]
            to = world.nodes[number]
            world.count(each.body, control=control, own=to is self)
            self._carry(to, Answer(self.id, each.body, urgent=bool(by)), boot, by)

    def _carry(self, to: SimulatedNode, message: object, boot: int | None, by: str) -> None:
        if by:
            self.world.carry_by(self, self.world.by_id[by], to, message, boot)
        else:
            self.world.carry(self, to, message, boot)

    def _notice(self, event: object) -> None:
        world = self.world
        for observer in world.observers:
            observer.noticed(self, event)
        match event:
            case Committed():
                world.outcome.commits += 1
                world.tell(self.name, "commit", f"{event.vertex} {event.id.number} term {event.term}")
            case InstanceFailed():
                world.outcome.failed += 1
                world.tell(self.name, "failed", f"{event.vertex} term {event.term}: {event.why}")
            case MoveEnded():
                world.outcome.moved += not event.why
                world.outcome.given_up += bool(event.why)
                world.tell(self.name, "moved", f"{event.vertex} to {world.by_id[event.node].name} {event.why}")
            case SinkTook():
                world.result_came()
                world.tell(self.name, "result", f"{event.sink} [{event.lo}, {event.hi})")
            case Recovered():
                world.outcome.recoveries += 1
                world.tell(self.name, "recovered", f"{event.query} {dict(event.moves)} {event.why}")
            case _:
                world.tell(self.name, type(event).__name__.lower(), str(event)[:160])


class Observer(Protocol):
    """Looks on; what it says is a broken promise."""

    def started(self, node: SimulatedNode) -> None: ...

    def noticed(self, node: SimulatedNode, event: object) -> None: ...

    def look(self, world: PeerWorld) -> str:
        """What is wrong after an event, or nothing."""
        ...

    def end(self, world: PeerWorld) -> str:
        """What is wrong when all is done, or nothing."""
        ...


_decoded = functools.lru_cache(maxsize=8)(decode_deployment)  # asked again and again while a fault waits for its moment


def _raise() -> NoReturn:
    raise ArithmeticError("this operator fails here")


class PeerWorld:
    def __init__(self, settings: Settings, *, keep: bool = False, observers: Sequence[Observer] = ()) -> None:
        self.settings = settings
        self.observers = observers
        self.keep = keep
        self.rng = Random(f"peers {settings.seed}")
        self.clock = Clock()
        self.outcome = Outcome()
        self.known: dict[bytes, bytes] = {}
        identities = Random("nodes")  # the same in every world: a device's id is in its rows
        keys = [ToyKeys(identities, self.known) for _ in range(settings.nodes)]
        self.coordinator_key = keys[0].public_key
        self.nodes = [self._make_node(number, each) for number, each in enumerate(keys)]
        self.by_id = {node.id: node for node in self.nodes}
        self._cut: dict[int, int] = {}
        self._parted: dict[frozenset[int], int] = {}
        self._events = 0
        self._healed = False
        self._armed: list[Fault] = []
        self._result_at: float | None = None
        self.asked: Counter[str] = Counter()  # by vertex, moves that were begun
        kinds = {fault.kind for fault in settings.faults}
        self.is_calm = kinds <= {"move"} and not settings.loss
        for node in self.nodes:
            node.start()
        self._deploy()
        for number in settings.sources:
            self._sense(number)
        for fault in settings.faults:
            self.clock.at(fault.at, self._inject, fault)

    def _make_node(self, number: int, keys: ToyKeys) -> SimulatedNode:
        return SimulatedNode(number, self, keys)

    def tell(self, who: str, what: str, details: str) -> None:
        if self.keep:
            self.outcome.lines.append(f"{self.clock.now:9.3f} {who:12} {what:10} {details}")

    def batch(self, spec: EdgeSpec, lo: int, hi: int) -> SpooledBatch:
        columns, time_us = self.settings.rows_of(spec, lo, hi)
        batch = Batch.of(spec.schema, columns, time_us, lo=lo, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        return SpooledBatch(
            spec.key.edge, lo, hi, hi - lo, spec.schema.id, 0, batch.frontier_us, codec, payload
        )  # fmt: skip

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        """Carry a message, perhaps."""
        calls = isinstance(message, Arrival) and to.number in self.settings.uncalled
        self._carry(sender, to, lambda: to.deliver(message, boot), lost=calls)

    def carry_by(
        self, sender: SimulatedNode, by: SimulatedNode, to: SimulatedNode, message: object, boot: int | None
    ) -> None:
        """Carry a message by way of a node, perhaps: to it and, while it is up, on the connection that `to` made."""

        def pass_on() -> None:
            if by.up:
                self.outcome.passed += 1
                self._carry(by, to, lambda: to.deliver(message, boot))

        self._carry(sender, by, pass_on)

    def _carry(
        self, sender: SimulatedNode, to: SimulatedNode, arrive: Callable[[], None], *, lost: bool = False
    ) -> None:
        if sender is to:
            self.clock.after(0.0, arrive)
            return
        settings, rng = self.settings, self.rng
        dropped = rng.random() < settings.loss and not self._healed
        if dropped or self._cut.get(sender.number) or self._cut.get(to.number):
            return
        if lost or self._parted.get(frozenset({sender.number, to.number})):
            return
        for _ in range(2 if rng.random() < settings.duplication else 1):
            self.clock.after(rng.uniform(0.001, 0.03), arrive)

    def broadcast(self, sender: SimulatedNode, message: Broadcast) -> None:
        """Carry a datagram to whoever hears it: some do, some twice, in any order."""
        self.outcome.broadcast_bytes += len(message.body)
        rng = self.rng
        for node in message.nodes:
            to = self.by_id[node]
            apart = self._parted.get(frozenset({sender.number, to.number}))
            if (
                rng.random() < (self.settings.heard or 0.0)
                or apart
                or self._cut.get(sender.number)
                or self._cut.get(to.number)
            ):
                continue
            for _ in range(2 if rng.random() < self.settings.duplication else 1):
                self.clock.after(rng.uniform(0.001, 0.03), to.deliver, Datagram(message.body), None)

    def _first_query(self) -> HostedQuery:
        settings = self.settings
        vertices = region_vertices(settings.plan)
        others = [node.id for node in self.nodes[1:]]
        row = STRATEGIES[settings.row].row
        live = row.copies if row.home is Home.NOWHERE else 1
        copies = {Home.NOWHERE: 0, Home.LOCAL: 0, Home.REGION: len(others) - 1}.get(
            row.home, max(settings.copies, row.copies)
        )
        hosts, keepers = {}, {}
        for at, vertex in enumerate(vertices):
            ring = [others[(at + step) % len(others)] for step in range(len(others))]
            hosts[vertex.name], keepers[vertex.name] = tuple(ring[:live]), tuple(ring[live : live + copies])
        return HostedQuery(
            "q", 1, settings.plan, settings.row, settings.every,
            tuple(self.nodes[number].id for number in settings.sources),
            self.nodes[0].id,
            tuple(Placement(vertex.name, hosts[vertex.name], keepers[vertex.name], 1) for vertex in vertices),
        )  # fmt: skip

    def _deploy(self) -> None:
        first = self.nodes[0]
        coordinator = first.machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        coordinator.set_fleet([node.peer for node in self.nodes], [self._first_query()])
        for node in self.nodes[1:]:  # they know whom to ask, as after pairing
            deployment, encoded = coordinator.deployment(node.id)
            node.host.deploy(deployment, encoded, 0.0)
            node.drive()
        first.drive()

    def _sense(self, number: int) -> None:
        self.nodes[number].sense()
        self.clock.after(self.settings.every_s, self._sense, number)

    def _inject(self, fault: Fault) -> None:
        if not any(node.up for node in self.nodes):
            return
        if fault.kind in ("commit", "half"):
            self._armed.append(fault)  # it fires at the next snapshot of that vertex, if there is one
            return
        self._fired(fault)
        match fault.kind:
            case "crash":
                self.nodes[fault.node].crash(fault.seconds)
            case "move" | "leave" | "meet":
                self._ask_to_move(fault, ASKS)
            case "cut":
                self._cut[fault.node] = self._cut.get(fault.node, 0) + 1
                self.tell("network", "cut", f"node{fault.node} for {fault.seconds:.1f} s")
                self.clock.after(fault.seconds, self._mend, self._cut, fault.node)
            case "part":
                pair = frozenset({fault.node, fault.node % (len(self.nodes) - 1) + 1})
                self._parted[pair] = self._parted.get(pair, 0) + 1
                self.tell("network", "part", f"{sorted(pair)} for {fault.seconds:.1f} s")
                self.clock.after(fault.seconds, self._mend, self._parted, pair)
            case "wifi":
                pairs = [frozenset({fault.node, other}) for other in range(1, len(self.nodes)) if other != fault.node]
                self._parted.update((pair, self._parted.get(pair, 0) + 1) for pair in pairs)
                self.tell("network", "wifi", f"node{fault.node} for {fault.seconds:.1f} s")
                for each in pairs:
                    self.clock.after(fault.seconds, self._mend, self._parted, each)
            case "raise":
                placed = self._placement(fault.node)
                self.tell("world", "raise", f"{placed.vertex} on {self.by_id[placed.hosts[0]].name}")
                self.by_id[placed.hosts[0]].raising.add(placed.vertex)
            case "torn":
                self.nodes[fault.node].torn_s = fault.seconds
                self.nodes[fault.node].disk.arm(self.rng.randint(1, 3))
            case "older":
                keeper = self.by_id[self._placement(fault.node).keepers[0]]
                changes = sorted(name for name in keeper.disk.names() if name.startswith(CHANGES))
                keeper.crash(fault.seconds)
                for name in changes[-1:]:
                    self.outcome.kinds["gone"] += 1
                    keeper.disk.remove(name)
                keeper.disk.sync()
            case _:
                placed = self._placement(fault.node)
                hit = {"primary": placed.hosts[:1], "backup": placed.keepers[:1], "both": placed.hosts + placed.keepers}
                for node in hit[fault.kind]:
                    self.by_id[node].crash(fault.seconds)

    def _ask_to_move(self, fault: Fault, asks: int) -> None:
        placed = self._placement(fault.node)
        target = self.nodes[fault.to % len(self.nodes)]
        code = self._ask(MoveRequest("q", placed.vertex, target.name))
        if not code:
            self.asked[placed.vertex] += 1
            self.tell("person", "move", f"{placed.vertex} to {target.name}")
            stops = {"leave": self.by_id[placed.hosts[0]], "meet": target}.get(fault.kind)
            if stops is not None:
                self.clock.after(self.rng.uniform(0.0, 0.8), stops.crash, fault.seconds)
            return
        if asks > 0 and code != "move-already-there":
            self.clock.after(0.5, self._ask_to_move, fault, asks - 1)

    def _ask(self, request: MoveRequest) -> str:
        """Have whoever coordinates move a vertex; the code that it refuses with."""
        first = self.nodes[0]
        coordinator = first.machine.coordinator if first.up else None
        if coordinator is None:
            return "coordinator-gone"
        try:
            coordinator.move(request, self.clock.now)
        except UsageError as error:
            return error.code
        first.drive()
        return ""

    def result_came(self) -> None:
        """Note how long nothing came, between the first result and the last."""
        now, self._result_at = self.clock.now, self.clock.now if self._result_at is None else self._result_at
        self.outcome.pause_s = max(self.outcome.pause_s, now - self._result_at)
        self._result_at = now

    def _fired(self, fault: Fault) -> None:
        self.outcome.fired += 1
        self.outcome.kinds[fault.kind] += 1

    def _placement(self, which: int) -> Placement:
        """Of one of the query's vertices, as the newest deployment that any node has says."""
        newest = max((node.host for node in self.nodes if node.up), key=lambda host: host.version)
        placed = _decoded(newest.here.memory.deployment).queries[0].placements
        return placed[which % len(placed)]

    def _while_committing(self) -> None:
        for fault in list(self._armed):
            if fault.kind == "half":
                if self._phase() == PHASES[fault.node % len(PHASES)]:
                    self._armed.remove(fault)
                    self._fired(fault)
                    self._stop_half(fault)
                continue
            placed = self._placement(fault.node)
            node = self.by_id[placed.hosts[0]]
            if node.up and placed.vertex in {vertex for _, _, vertex in node.host.snapshots.storing}:
                self._armed.remove(fault)
                self._fired(fault)
                node.crash(fault.seconds)

    def _phase(self) -> str:
        """How far the cut through the region is."""
        coordinator = self.nodes[0].machine.coordinator if self.nodes[0].up else None
        if coordinator is None:
            return ""
        cuts = coordinator.fleet.queries[0].cuts
        running = [one for node in self.nodes if node.up for one in node.host.instances() if not one.failed]
        if cuts.begun == cuts.complete or not running:
            return "idle"
        stored = [one.checkpoints.stored_cut >= cuts.begun for one in running]
        frozen = [any(id.number >= cuts.begun for id in one.checkpoints.pending) for one in running]
        if all(stored):
            return "stored"
        if any(stored):
            return "storing"
        return "marked" if any(frozen) else "begun"

    def _stop_half(self, fault: Fault) -> None:
        sources = {self.nodes[number] for number in self.settings.sources}
        for node in self.rng.sample(self.nodes[1:], len(self.nodes) // 2):
            node.crash(fault.seconds if node in sources else FOR_GOOD_S)

    def _mend(self, broken: dict[Any, int], what: object) -> None:
        broken[what] -= 1

    def count(self, body: bytes, *, control: bool, own: bool) -> None:
        """What crosses the network without carrying rows."""
        if control and not own:
            self.outcome.control_bytes += len(body)

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self, expected: int | None = None) -> Outcome:
        """Until the sinks hold so many elements, or for as long as allowed; without a number for a fixed time."""
        outcome = self.outcome
        until = self.settings.within_s
        healed_at = 0.0
        try:
            while self.clock.run_one(until):
                if self._armed and any(node.up for node in self.nodes):
                    self._while_committing()
                if outcome.violation or self._looked():
                    break
                if expected is not None and self._reached() >= expected and self.clock.now > self._last_fault():
                    healed_at = healed_at or self.clock.now
                    self._healed = True
                    if self._drained() or self.clock.now >= healed_at + self.settings.settle_s:
                        break
        except Exception as error:  # a machine must not raise, whatever happens around it
            outcome.violation = f"NothingBreaks: {type(error).__name__}: {error}"
            if self.keep:
                raise
        outcome.seconds = self.clock.now
        rows, outcome.lost = self.results()
        outcome.lost += sum(one.lost for node in self.nodes if node.up for one in node.host.instances())
        outcome.elements = len(rows)
        outcome.digest = hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]
        if expected is not None and not outcome.violation and self._reached() < expected:
            outcome.violation = f"ConvergesAfterHeal: {self._reached()} of {expected} results"
        if not outcome.violation:
            outcome.violation = next(filter(None, (one.end(self) for one in self.observers)), "")
        return outcome

    def _looked(self) -> bool:
        self._events += 1
        if self.observers and self._events % LOOK_EVERY == 0:
            self.outcome.violation = next(filter(None, (one.look(self) for one in self.observers)), "")
        return bool(self.outcome.violation)

    def _drained(self) -> bool:
        instances = [instance for node in self.nodes if node.up for instance in node.host.instances()]
        failed = any(instance.failed for instance in instances)
        complete = self.complete_cut()
        return not failed and not any(
            # Those of a region begin the next cut soon; what came before the newest complete one is over.
            not instance.of_region or id.number < complete
            for instance in instances
            for id in instance.checkpoints.pending
        )

    def complete_cut(self) -> int:
        """The newest complete cut through the region, as its coordinator knows it."""
        coordinator = self.nodes[0].machine.coordinator if self.nodes[0].up else None
        return 0 if coordinator is None else coordinator.fleet.queries[0].cuts.complete

    def _last_fault(self) -> float:
        return max((fault.at + fault.seconds for fault in self.settings.faults), default=0.0)

    def _reached(self) -> int:
        node = self.nodes[0]
        return sum(sink.taken for sink in node.host.sinks()) if node.up else 0

    def _hosted(self, name: str) -> HostedQuery:
        coordinator = self.nodes[0].machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        return next(each for each in coordinator.fleet.queries if each.name == name)

    def results(self) -> tuple[list[tuple[object, ...]], int]:
        """(sink, number, values ...) of everything the sink's file has, and how many numbers were lost."""
        rows: list[tuple[object, ...]] = []
        lost = 0
        for sink in self.nodes[0].host.sinks():
            query = self._hosted(sink.query)
            found, missing = sink_rows(self.nodes[0].disk, query, sink.sink)
            lost += missing
            for row in found:
                number, time_us = row.pop("number"), row.pop("time_us")
                rows.append((sink.sink, number, time_us, *(row[name] for name in sorted(row))))
        return rows, lost


def run(
    settings: Settings, expected: int | None = None, *, keep: bool = False, observers: Sequence[Observer] = ()
) -> Outcome:
    return PeerWorld(settings, keep=keep, observers=observers).run(expected)


ALL_KINDS = ("crash", "cut", "primary", "primary", "backup", "both", "commit", "commit", "part", "torn")


def faults_of(
    rng: Random, nodes: Sequence[int], count: int, within_s: float, kinds: Sequence[str] = ("crash", "crash", "cut")
) -> tuple[Fault, ...]:
    """Some faults before `within_s`. Each ends by itself."""
    return tuple(
        Fault(rng.uniform(0.3, within_s), rng.choice(nodes), rng.choice(kinds), rng.uniform(0.2, 9.0))
        for _ in range(count)
    )
