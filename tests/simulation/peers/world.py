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
from dataclasses import dataclass, field
from random import Random
from typing import Any, NoReturn, Protocol

import numpy as np

from shared.batch import END_OF_TIME, Batch
from shared.hosting.coordinate import Coordinator, Recovered
from shared.hosting.fleet_node import FleetNode
from shared.hosting.host import Host
from shared.hosting.messages import Answer, Ask, Committed, InstanceFailed, SinkTook
from shared.hosting.sink import sink_rows
from shared.hosting.store import persist, stored_fleet
from shared.hosting.wiring import EdgeSpec
from shared.identity import device_id
from shared.language.codecs import NONE
from shared.language.registry import references
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Peer, Placement, decode_deployment
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.wire import codecs
from tests.simulation.clock import Clock
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.keys import ToyKeys

PACING = Pacing(poll_s=1.0, timeout_s=2.0, backoff_s_min=0.1, backoff_s_max=1.0)
CURVE = "0" * 40
LOOK_EVERY = 3  # events between two looks of the observers
RowsOf = Callable[[EdgeSpec, int, int], tuple[dict[str, object], np.ndarray]]


@dataclass(frozen=True, slots=True)
class Fault:
    """At a time something fails for so long. `node` is a number; where the kind is about a vertex, which one, in order.

    crash: the node stops. cut: it reaches nobody. part: it and the next one do not reach each other. raise: a vertex raises
    on the node that runs it. primary, backup, both: the node that runs a vertex stops, one that keeps it, all of those.
    commit: the node that runs a vertex stops while a snapshot of it is on the way to its keepers. torn: a node stops while
    it writes."""

    at: float
    node: int
    kind: str = "crash"
    seconds: float = 1.0


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
    settle_s: float = 0.0  # that it may go on after the last result, without losses, until no snapshot is pending


@dataclass(slots=True)
class Outcome:
    violation: str = ""
    elements: int = 0
    lost: int = 0
    crashes: int = 0
    recoveries: int = 0
    commits: int = 0
    failed: int = 0
    fired: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # of the faults that fired
    control_bytes: int = 0
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
                patience_s=world.settings.patience_s,
            )  # fmt: skip
        self.host = Host(
            self.device, 1, ToyPeerKeys(self.keys), disk=self.disk, sources=self.spool,
            random=world.rng, pacing=PACING, coordinator=world.coordinator_key, downlink=coordinator, now=self.now,
        )  # fmt: skip
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

    def _send(self, each: Ask | Reply) -> None:
        world = self.world
        if isinstance(each, Ask):
            to = world.by_id[each.node]
            sent = self.host._senders[each.node]._outstanding
            control = sent is None or not sent.numbered
            world.count(each.body, control=control, own=to is self)
            world.carry(self, to, Arrival((self.number, self.boot, control), each.body), None)
        else:
            number, boot, control = each.handle  # type: ignore[misc]
            to = world.nodes[number]
            world.count(each.body, control=control, own=to is self)
            world.carry(self, to, Answer(self.id, each.body), boot)

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
            case SinkTook():
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
        self.nodes = [SimulatedNode(number, self, each) for number, each in enumerate(keys)]
        self.by_id = {node.id: node for node in self.nodes}
        self._cut: dict[int, int] = {}
        self._parted: dict[frozenset[int], int] = {}
        self._events = 0
        self._healed = False
        self._armed: list[Fault] = []
        for node in self.nodes:
            node.start()
        self._deploy()
        for number in settings.sources:
            self._sense(number)
        for fault in settings.faults:
            self.clock.at(fault.at, self._inject, fault)

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
        if sender is to:
            self.clock.after(0.0, to.deliver, message, boot)
            return
        settings, rng = self.settings, self.rng
        lost = rng.random() < settings.loss and not self._healed
        if lost or self._cut.get(sender.number) or self._cut.get(to.number):
            return
        if self._parted.get(frozenset({sender.number, to.number})):
            return
        for _ in range(2 if rng.random() < settings.duplication else 1):
            self.clock.after(rng.uniform(0.001, 0.03), to.deliver, message, boot)

    def _deploy(self) -> None:
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
        query = HostedQuery(
            "q", 1, settings.plan, settings.row, settings.every,
            tuple(self.nodes[number].id for number in settings.sources),
            self.nodes[0].id,
            tuple(Placement(vertex.name, hosts[vertex.name], keepers[vertex.name], 1) for vertex in vertices),
        )  # fmt: skip
        first = self.nodes[0]
        coordinator = first.machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        coordinator.set_fleet([node.peer for node in self.nodes], [query])
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
        if fault.kind == "commit":
            self._armed.append(fault)  # it fires at the next snapshot of that vertex, if there is one
            return
        self._fired(fault)
        match fault.kind:
            case "crash":
                self.nodes[fault.node].crash(fault.seconds)
            case "cut":
                self._cut[fault.node] = self._cut.get(fault.node, 0) + 1
                self.tell("network", "cut", f"node{fault.node} for {fault.seconds:.1f} s")
                self.clock.after(fault.seconds, self._mend, self._cut, fault.node)
            case "part":
                pair = frozenset({fault.node, fault.node % (len(self.nodes) - 1) + 1})
                self._parted[pair] = self._parted.get(pair, 0) + 1
                self.tell("network", "part", f"{sorted(pair)} for {fault.seconds:.1f} s")
                self.clock.after(fault.seconds, self._mend, self._parted, pair)
            case "raise":
                placed = self._placement(fault.node)
                self.tell("world", "raise", f"{placed.vertex} on {self.by_id[placed.hosts[0]].name}")
                self.by_id[placed.hosts[0]].raising.add(placed.vertex)
            case "torn":
                self.nodes[fault.node].torn_s = fault.seconds
                self.nodes[fault.node].disk.arm(self.rng.randint(1, 3))
            case _:
                placed = self._placement(fault.node)
                hit = {"primary": placed.hosts[:1], "backup": placed.keepers[:1], "both": placed.hosts + placed.keepers}
                for node in hit[fault.kind]:
                    self.by_id[node].crash(fault.seconds)

    def _fired(self, fault: Fault) -> None:
        self.outcome.fired += 1
        self.outcome.kinds[fault.kind] += 1

    def _placement(self, which: int) -> Placement:
        """Of one of the query's vertices, as the newest deployment that any node has says."""
        newest = max((node.host for node in self.nodes if node.up), key=lambda host: host.version)
        placed = _decoded(newest._memory.deployment).queries[0].placements
        return placed[which % len(placed)]

    def _while_committing(self) -> None:
        for fault in list(self._armed):
            placed = self._placement(fault.node)
            node = self.by_id[placed.hosts[0]]
            if node.up and placed.vertex in {vertex for _, _, vertex in node.host._snapshots.storing}:
                self._armed.remove(fault)
                self._fired(fault)
                node.crash(fault.seconds)

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
        return not any(instance.checkpoints.pending or instance.failed for instance in instances)

    def _last_fault(self) -> float:
        return max((fault.at + fault.seconds for fault in self.settings.faults), default=0.0)

    def _reached(self) -> int:
        node = self.nodes[0]
        return sum(sink.taken for sink in node.host.sinks()) if node.up else 0

    def results(self) -> tuple[list[tuple[object, ...]], int]:
        """(sink, number, values ...) of everything the sink's file has, and how many numbers were lost."""
        rows: list[tuple[object, ...]] = []
        lost = 0
        coordinator = self.nodes[0].machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        for sink in self.nodes[0].host.sinks():
            (query,) = (each for each in coordinator.fleet.queries if each.name == sink.query)
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
