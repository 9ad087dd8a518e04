"""A fleet in one process: the hosts and the coordinator that nodes run, with a network, disks and a clock in memory.

Nothing of the product is replaced but what carries: `mobile_app/links` by a queue, the disk by memory, waiting by a
clock that jumps to the next event. Sessions are sealed with real keys, and every byte that one node sends another is
made and read as on a real network. So bytes, memory and processor time are the product's; seconds of waiting are not.
Labs of regions add a *modelled* medium (`_medium`) and *modelled* seconds that a vertex takes for an element: while a
node computes, its loop does nothing else, as the product's does not.

As in the ECOC paper each operator has a node of its own, and each of those another one that keeps its snapshots and
does nothing else.
"""

from __future__ import annotations

import functools
import gc
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import numpy as np

from mobile_app.home.keys import load_keys
from mobile_app.home.peer_keys import FleetKeys
from resurge.bench._recordings import directory, recordings
from resurge.lab._medium import Medium
from shared.batch import END_OF_TIME, Batch
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_node import FleetNode
from shared.hosting.host import Host
from shared.hosting.messages import Answer, Ask, Committed, Datagram, HostMessage, SinkTook
from shared.hosting.showing import Held
from shared.hosting.store import persist
from shared.hosting.wiring import EdgeSpec, state_edge, wire
from shared.identity import device_id
from shared.language.codecs import NONE
from shared.language.registry import references
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Peer, Placement
from shared.plan.graph import Plan
from shared.recovery.delays import SILENCE_S
from shared.region.broadcast import Broadcast
from shared.region.cuts import PERIOD_S
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.stream.program import load_program
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.wire import codecs
from shared.wire.broadcast import Announce, Announcement, Bitmap, Block, LackedBlocks
from shared.wire.envelope import ENVELOPE, MAC_BYTES, is_envelope
from shared.wire.frame import HEADER_BYTES, FrameType, decode_one, stored_header

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "peers"
PHONE, SINK = "phone", "laptop"
PACING = Pacing(
    poll_s=1.0, timeout_s=3.0, backoff_s_min=0.1, backoff_s_max=2.0, window=3, probe_s=0.4
)  # as `mobile_app/node/hosting.py`
LATENCY_S = 0.002
TURN_S = 0.01  # of a node's loop, for what is broadcast
SETTLE_S = 5.0  # after the last element, until every snapshot is permanent
SOURCES_BYTES = 4 << 20
CURVE = "0" * 40  # nothing here speaks ZeroMQ
MARKS = (FrameType.MARK, FrameType.EXTEND)
BROADCAST = (FrameType.ANNOUNCE, FrameType.BITMAP, FrameType.BLOCK)


@dataclass(frozen=True)
class Process:
    """One of the paper's stream processes: an example, and which of its vertices stand for which operator."""

    name: str
    program: str
    sink: str
    operators: dict[str, tuple[str, ...]]  # the paper's operator -> vertices on its node
    every_us: int  # between two elements of a sensor
    batch: int  # elements that leave the phone together, as the program says

    def plan(self) -> Plan:
        return _plan(self.program)


_JOIN, _AVG = ("zip", "window"), ("mean",)
PROCESSES = {
    each.name: each
    for each in (
        Process("SP1", "beats", "beats", {"DSPFilter": ("ecg_band",), "QRSDetector": ("beats",)}, 2_778, 90),
        Process("SP2", "average", "mean", {"TestJoin": _JOIN, "TestAvg": _AVG}, 5_000, 50),
        Process(
            "SP3", "one_attenuated", "mean",
            {"TestSensor1": ("union", "attenuate"), "TestJoin": _JOIN, "TestAvg": (*_AVG, "window 2")}, 5_000, 50,
        ),
        Process(
            "SP4", "both_attenuated", "mean",
            {
                "TestSensor1": ("union", "attenuate"), "TestSensor2": ("union 2", "attenuate 2"), "TestJoin": _JOIN,
                "TestAvg": (*_AVG, "window 2"),
            },
            5_000, 50,
        ),
    )
}  # fmt: skip


@cache
def _plan(program: str) -> Plan:
    return load_program(EXAMPLES / f"{program}.py")


@cache
def heart() -> tuple[np.ndarray, bool]:
    """Millivolts at 360 Hz, and whether a heart's or a drawn one."""
    place = directory()
    if place is not None and (place / "ecg" / "100.dat").is_file():
        return recordings()[0]["ecg"]["mlii"], True
    at = np.arange(60_000) / 360
    return np.round(np.exp(-(((at % 0.8) - 0.4) ** 2) / 0.0002), 6), False


def readings(sensor: str, lo: int, hi: int) -> tuple[str, np.ndarray]:
    """The column of a sensor and its values of these numbers."""
    numbers = np.arange(lo, hi)
    if sensor == "ecg":
        values, _ = heart()
        return "mv", values[numbers % len(values)]
    noise = np.sin(numbers * 12.9898 + (1 if sensor == "test_a" else 2)) * 43758.5453
    return "v", np.round(1.0 + 0.3 * np.sin(numbers / (7 if sensor == "test_a" else 11)) + noise % 0.05, 4)


@dataclass
class Sent:
    """Bytes that nodes sent each other, whole frames with their headers."""

    elements: int = 0  # batches of elements between operators, and from sensors to them
    results: int = 0  # to the sink
    copies: int = 0  # of rows that enter a region, broadcast to who keeps them; those in exchanges are among elements
    snapshots: int = 0  # to keepers
    marks: int = 0  # and answers to them
    other: int = 0  # sessions, receipts, frontiers, what coordinator and nodes tell each other

    @property
    def checkpoints(self) -> int:
        return self.snapshots + self.marks

    @property
    def overhead(self) -> float:
        """As the paper has it: bytes of checkpoint messages over bytes of elements."""
        return self.checkpoints / (self.elements + self.results)


@dataclass
class Ran:
    sent: Sent = field(default_factory=Sent)
    held: dict[str, list[Held]] = field(default_factory=dict)  # node -> once per sample
    commits: Counter[str] = field(default_factory=Counter)  # vertex -> snapshots that became permanent
    stored: int = 0  # bytes of those snapshots, each counted once
    sent_for_stored: int = 0  # to keepers, until the last of them was permanent
    pending: int = 0  # snapshots that nobody could finish, at the end
    results: int = 0


class _Node:
    def __init__(self, name: str, home: Path, fleet: VirtualFleet, random: Random) -> None:
        self.name, self.fleet, self._random = name, fleet, random
        home.mkdir(exist_ok=True)
        keys = FleetKeys(home)
        public = load_keys(home).public_key
        self.device = device_id(public)
        self.id = self.device.hex()
        self.peer = Peer(self.id, name, public, CURVE, (), operators=tuple(sorted(references())))
        self.keys = keys
        self._wake_at = float("inf")
        self.is_up = True
        self._computes, self._inbox, self._takes_soon = False, deque[HostMessage](), False
        self._counted: dict[Hashable, int] = {}  # by vertex and term, the elements whose seconds were spent
        self.spent_s = 0.0

    def start(self, coordinator_key: bytes, spool_bytes: int = SOURCES_BYTES, evict: Evict = Evict.BLOCK) -> None:
        self.disk = MemoryDisk()
        self.spool = Spool.create(
            MemoryDisk(), capacity_bytes=spool_bytes, device=self.device, incarnation=1, evict=evict
        )
        coordinator = None
        if self.name == SINK:
            coordinator = Coordinator(
                self.id, self.keys.answering().sign, cut_s=self.fleet.cut_s, silence_s=self.fleet.silence_s
            )
        self.host = Host(
            self.device, 1, self.keys, disk=self.disk, sources=self.spool, random=self._random,
            pacing=self.fleet.pacing, coordinator=coordinator_key, downlink=coordinator,
        )  # fmt: skip
        self.machine = FleetNode(self.host, coordinator)

    def drive(self, message: HostMessage | None = None) -> None:
        if not self.is_up:
            return
        if message is not None:
            self._inbox.append(message)
        if isinstance(message, Datagram) and not self._computes:
            if not self._takes_soon:  # a loop takes what has come since its last turn
                self._takes_soon = True
                self.fleet.at(self.fleet.now + TURN_S, self._take_datagrams)
            return
        while not self._computes:  # else it goes on with what came when it has computed
            while self._inbox:
                taken = self._inbox.popleft()
                self.machine.receive(taken, self.fleet.now)
                if self._spend():
                    return
                if not isinstance(taken, Datagram):
                    break
            self._go_on()
            if self._spend() or not self._inbox:
                return

    def _take_datagrams(self) -> None:
        self._takes_soon = False
        self.drive()

    def _spend(self) -> bool:
        """Whether it computes now, and so does nothing else."""
        if seconds := self._seconds():
            self._computes = True
            self.fleet.at(self.fleet.now + seconds, self._computed)
        return self._computes

    def _computed(self) -> None:
        self._computes = False
        if self.is_up:
            self._go_on()
            if not self._spend() and self._inbox:
                self.drive()

    def _seconds(self) -> float:
        """That it takes to compute what its vertices have taken since this was asked last."""
        seconds = 0.0
        for one in self.host.instances() if self.fleet.spends else ():
            each = self.fleet.spends.get(one.vertex, 0.0)
            taken, name = sum(one.taken.values()), (*one.spec.identity, one.term)
            begun = 0 if one.checkpoints.permanent.id is None else sum(one.checkpoints.permanent.inputs.values())
            seconds += each * max(0, taken - self._counted.get(name, begun))
            self._counted[name] = taken
        self.spent_s += seconds
        return seconds

    def _go_on(self) -> None:
        fleet, machine = self.fleet, self.machine
        now = fleet.now
        machine.wake(now)
        while step := machine.step(now):
            for item in step.persist:
                persist(item, self.disk, self.spool)
            for each in step.send:
                fleet.carry(self, each)
        for event in machine.events():
            if isinstance(event, Committed):
                fleet.ran.commits[event.vertex] += 1
                fleet.ran.stored += event.bytes
                fleet.ran.sent_for_stored = fleet.ran.sent.snapshots
            elif isinstance(event, SinkTook):
                fleet.ran.results = max(fleet.ran.results, event.hi)
                fleet.result_came(event)
        due = machine.next_wake()
        wake_at = max(now + 0.001, now + 5.0 if due is None else due)
        if wake_at < self._wake_at or self._wake_at <= now:
            self._wake_at = wake_at
            fleet.at(wake_at, lambda: self._wake(wake_at))

    def _wake(self, wake_at: float) -> None:
        if wake_at == self._wake_at:
            self._wake_at = float("inf")
            self.drive()


class VirtualFleet:
    """One stream process under one strategy. `run` feeds it so many elements per sensor, and a little more time."""

    cut_s = PERIOD_S
    pacing = PACING
    silence_s = SILENCE_S
    datagrams = 0  # of snapshots
    medium: Medium | None = None
    spends: Mapping[str, float] = {}  # vertex -> seconds for each element that it takes; modelled

    def __init__(self, process: Process, row: str, every: int, homes: Path) -> None:
        self.now = 0.0
        self._random, self._loss = Random(2), 0.0
        self.ran = Ran()
        self._process = process
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._state_edges: set[int] = set()
        self._row_ids: set[bytes] = set()
        self._sink_edges: set[int] = set()
        process.plan()  # loading it registers the operators that nodes say they have
        operators = list(process.operators)
        self.providers = operators
        names = [SINK, PHONE, *operators, *(f"keeper of {name}" for name in operators)]
        self.nodes = {name: _Node(name, homes / name.replace(" ", "-"), self, Random(1)) for name in names}
        self._by_id = {node.id: node for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(self.nodes[SINK].peer.public_key)
        self._deploy(row, every)

    def _deploy(self, row: str, every: int) -> None:
        process, nodes = self._process, self.nodes
        of = {vertex: name for name, vertices in process.operators.items() for vertex in vertices}
        keeps = row not in ("none", "ring")
        placements = tuple(
            Placement(
                vertex.name,
                (nodes[of[vertex.name]].id,),
                (nodes[f"keeper of {of[vertex.name]}"].id,) if keeps else (),
                1,
            )
            for vertex in region_vertices(process.plan())
        )
        query = HostedQuery("q", 1, process.plan(), row, every, (nodes[PHONE].id,), nodes[SINK].id, placements)
        self.run_query(query)

    def run_query(self, query: HostedQuery) -> None:
        """Deploy it on every node, as the sink's node coordinates it."""
        nodes = self.nodes
        coordinator = nodes[SINK].machine.coordinator
        if coordinator is None:
            raise RuntimeError("the sink's node coordinates")
        coordinator.set_fleet([node.peer for node in nodes.values()], [query])
        for node in nodes.values():
            if node.name != SINK:
                node.host.deploy(*coordinator.deployment(node.id), 0.0)
                node.drive()
        nodes[SINK].drive()
        self._state_edges = {state_edge(query, placed).key.edge for placed in query.placements}
        self._sink_edges = {edge.key.edge for _, _, edge in wire(coordinator.deployment(nodes[SINK].id)[0]).sinks}

    def result_came(self, event: SinkTook) -> None:
        """The sink has some more."""

    def at(self, time: float, act: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (time, self._count, act))

    def carry(self, sender: _Node, message: Ask | Reply | Broadcast) -> None:
        arrives: HostMessage
        if isinstance(message, Broadcast):
            self.broadcast(sender, message)
            return
        if isinstance(message, Ask):
            to, by, arrives = self._by_id[message.node], message.by, Arrival((sender.id, message.by), message.body)
        else:
            to, by = self.asker(message)
            arrives = Answer(sender.id, message.body, urgent=bool(by))
        if to is sender:
            self.at(self.now, lambda: to.drive(arrives))
            return
        self._weigh(message.body)
        size = len(message.body)
        if by:  # from there on a connection that `to` made
            way = self._by_id[by]
            self._send(sender, way, size, lambda: self._send(way, to, size, lambda: to.drive(arrives)))
        else:
            self._send(sender, to, size, lambda: to.drive(arrives))

    def _send(self, sender: _Node, to: _Node, size: int, arrive: Callable[[], None]) -> None:
        if self.medium is None:
            self.at(self.now + LATENCY_S, arrive)
        else:
            self.medium.send(sender.name, to.name, size, arrive)

    def asker(self, message: Reply) -> tuple[_Node, str]:
        """Whom an answer goes to, and by way of which node."""
        if not isinstance(message.handle, tuple):
            raise TypeError("an answer to nobody")
        return self._by_id[message.handle[0]], message.handle[1]

    def broadcast(self, sender: _Node, message: Broadcast) -> None:
        """Once over the air, and each of these nodes hears it or does not."""
        if (announced := Announcement.of_datagram(message.body)) is not None:  # as rows are, and snapshots are not
            self._row_ids.add(announced.id)
        if announced is not None or Block.of(message.body).id in self._row_ids:
            self.ran.sent.copies += len(message.body)
        else:
            self.ran.sent.snapshots += len(message.body)
            self.datagrams += 1
        arrive = functools.partial(self._hear, sender, message)
        if self.medium is None:
            self.at(self.now + LATENCY_S, arrive)
        else:
            self.medium.broadcast(sender.name, len(message.body), arrive)

    def _hear(self, sender: _Node, message: Broadcast) -> None:
        for node in map(self._by_id.__getitem__, message.nodes):
            if self._random.random() >= self._loss and self.hears(sender, node):
                node.drive(Datagram(message.body))

    def hears(self, sender: _Node, node: _Node) -> bool:  # noqa: ARG002
        """Whether what the one broadcasts comes to the other at all."""
        return True

    def _weigh(self, body: bytes) -> None:
        sent = self.ran.sent
        if not is_envelope(body):
            sent.other += len(body)
            return
        sent.other += ENVELOPE.size + MAC_BYTES
        at, end = ENVELOPE.size, len(body) - MAC_BYTES
        while at < end:
            header = stored_header(body, at)
            size = HEADER_BYTES + header.payload_bytes
            at += size
            if header.kind in MARKS:
                sent.marks += size
            elif header.kind in BROADCAST and self._is_of_rows(body[at - size : at]):
                sent.copies += size
            elif header.kind in BROADCAST:
                sent.snapshots += size
            elif header.kind != FrameType.DATA:
                sent.other += size
            elif header.edge in self._state_edges:
                sent.snapshots += size
            elif header.edge in self._sink_edges:
                sent.results += size
            else:
                sent.elements += size

    def _is_of_rows(self, data: bytes) -> bool:
        """Whether what is said of a broadcast is about rows, not a snapshot."""
        frame, _ = decode_one(data)
        match frame.type:
            case FrameType.ANNOUNCE:
                return Announce.of(frame).announcement.id in self._row_ids
            case FrameType.BITMAP:
                return Bitmap.of(frame).id in self._row_ids
            case _:
                return LackedBlocks.of(frame).id in self._row_ids

    def feed(self, elements: int, *, samples: int = 0, after: int = 0) -> float:
        """Every sensor shall make so many elements at its rate; its batches leave a part of a turn after those of the
        one before. Memory is looked at so many times, behind the first `after` elements. Returns when it is over;
        `advance` lets it happen."""
        process = self._process
        every_s = process.every_us * process.batch / 1e6
        phone = self.nodes[PHONE]
        gathers = phone.host.gathers()
        for place, spec in enumerate(gathers):
            start = every_s * (1 + place / len(gathers))
            for turn, lo in enumerate(range(0, elements, process.batch)):
                hi = min(elements, lo + process.batch)
                self.at(start + turn * every_s, functools.partial(self._sense, phone, spec, lo, hi))
        end = (elements / process.batch + 2) * every_s
        first = after / process.batch * every_s
        for sample in range(samples):
            self.at(first + (end - first) * (sample + 0.5) / samples, self._sample)
        self.at(end, self._end)
        return end + SETTLE_S

    def run(self, elements: int, *, samples: int = 0, after: int = 0) -> Ran:
        self.advance(self.feed(elements, samples=samples, after=after))
        return self.finish()

    def advance(self, end: float) -> None:
        """Let happen what is due by then."""
        while self._heap and self._heap[0][0] <= end:
            self.now, _, act = heappop(self._heap)
            act()
        self.now = end

    def finish(self) -> Ran:
        instances = [one for node in self.nodes.values() for one in node.host.instances()]
        if failed := [one.failed for one in instances if one.failed]:
            raise RuntimeError(f"a vertex failed: {failed[0]}")
        self.ran.pending = sum(len(one.checkpoints.pending) for one in instances)
        return self.ran

    def _end(self) -> None:
        phone = self.nodes[PHONE]
        for spec in phone.host.gathers():
            phone.host.frontier(spec.key, END_OF_TIME, self.now)
        phone.drive()

    def _sense(self, phone: _Node, spec: EdgeSpec, lo: int, hi: int) -> None:
        column, values = readings(spec.name, lo, hi)
        time_us = np.arange(lo, hi) * self._process.every_us + 1
        batch = Batch.of(spec.schema, {column: values}, time_us, lo=lo, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        spooled = SpooledBatch(spec.key.edge, lo, hi, hi - lo, spec.schema.id, 0, batch.frontier_us, codec, payload)
        phone.host.offer(spec.key, spooled, self.now)
        phone.drive()

    def _sample(self) -> None:
        for name in self.providers:
            self.ran.held.setdefault(name, []).append(self.nodes[name].host.held())


@cache
def _homes() -> tempfile.TemporaryDirectory[str]:
    """Where the nodes' keys are, the same in all fleets of this process."""
    return tempfile.TemporaryDirectory(prefix="resurge-lab-")


def fleet_of(process: str, row: str, every: int) -> VirtualFleet:
    """A fresh fleet."""
    return VirtualFleet(PROCESSES[process], row, every, Path(_homes().name))


def ran(process: str, row: str, every: int, elements: int, *, samples: int = 0, after: int = 0) -> Ran:
    gc.collect()  # the spools of the fleet before: 16 MB on every node
    return fleet_of(process, row, every).run(elements, samples=samples, after=after)


def rows_of(process: str) -> Sequence[str]:
    """The strategies that can run it: without extensions a cycle would wait for itself."""
    return (
        ("uncoordinated", "extended-ecoc") if process in ("SP3", "SP4") else ("uncoordinated", "ecoc", "extended-ecoc")
    )


def setting(elements: int) -> str:
    """What a report says of how it was measured."""
    return (
        "production hosts in one process; network, disks and clock in memory; "
        f"{elements} elements of each sensor, 360/s on SP1 and 200/s on the others; "
        "a node for each operator and one more that keeps its snapshots"
    )
