"""A phone that walks: which nodes it reaches changes, and what it has spooled must find its way all the same.

Node 0 coordinates, reaches everybody and carries nothing. Nodes 1 and 2 are phones, each of which reaches some of the
other nodes and, when it is not cut off, the coordinator. The programs begin with a run of filters and projections.
Placement gives the phone and the nodes of the way as much of it as they have room for, and a phone offers another room
now and then: so a new way may leave it the same operators, more or fewer. One column counts how often its operator was
applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

import resurge as rs
from resurge import col
from shared.hosting.alternates import onwards
from shared.hosting.routing import ARRIVED, GONE, Rerouted
from shared.hosting.shares import first_routes
from shared.hosting.wiring import CarrierSpec, EdgeSpec
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Placement
from shared.plan.graph import Plan
from shared.plan.placing import PUSH_DOWN
from shared.plan.topology import Topology
from tests.simulation.peers.checkers import Checker, Numbers, every_checker
from tests.simulation.peers.world import Fault, Outcome, PeerWorld, Settings, SimulatedNode, faults_of

PHONES = (1, 2)
HUBS = (3, 4, 5, 6)
ROOM_MAX = 5  # one more than the longer run has operators
VERTICES = 2  # of both queries
ADDRESS = "tcp://127.0.0.1:1"
ADDED = 1000.0  # to every row, by the edited query
EDITED = ("edit", "mixed")  # kinds of worlds
SUM, TIMES = 5, 6  # where these stand in a row of the first query
ACROSS = ({3, 5}, {4, 6})
SAID_S = 3.0  # after a step a phone has said where it is
STANDING_S = 12.0  # after a step all have heard of it
AROUND_S = 12.0  # that a node may take which passes rows on: to miss the next, its coordinator, and to try its detours
ALONE_S = 12.0  # that a phone may take to find a way by itself: to miss both, and to try each alternate
ROWS = 240
CASCADE_S = 20.0  # that it is waited for a node which passes rows on


def walked(edit: bool = False) -> Plan:
    """A run in which no operator may be left out or applied twice without changing the result. None of its projections
    adds a column, so a node's part may end behind each."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64", "times": "int64"}).gather("g")
    kept = rows.where(col.x > -8).select(x=col.x + 1, times=col.times + 1)
    kept = kept.where(col.x < 14).select(x=col.x * 2 + (ADDED if edit else 0), times=col.times + 1)
    return rs.plan_of(kept.sliding(count=4).aggregate(s=rs.sum("x"), t=rs.sum("times")).subscribe("out"))


def filtered() -> Plan:
    """Like the query of the paper: filters, and nothing behind them."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("h")
    return rs.plan_of(rows.where(col.x > -6).where(col.x < 12).subscribe("alerts"))


def beginning_alike(gather: str) -> Plan:
    """Begins as `walked` does, and has the first of its filters. Where its gather has the same name, too, what phones
    spool is shared."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64", "times": "int64"}).gather(gather)
    return rs.plan_of(rows.where(col.x > -8).where(col.x < 12).subscribe("alerts"))


def rows_of(spec: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    numbers = np.arange(lo, hi)
    shift = spec.key.device[0] % 7
    columns: dict[str, object] = {"x": np.sin(numbers * 0.1) * 10 + (numbers + shift) % 7, "times": 0 * numbers}
    return {name: columns[name] for name in spec.schema.names}, numbers * 33_000 + 1 + shift


@dataclass(frozen=True, slots=True)
class Step:
    """From a time on a phone reaches these nodes, and the coordinator unless it is alone."""

    at: float
    phone: int
    reaches: frozenset[int]


@dataclass(frozen=True, slots=True)
class Walk:
    """A world from a seed."""

    settings: Settings
    steps: tuple[Step, ...]
    forward: str
    rooms: int  # seed of how much each node has room for
    ring: bool = False  # hubs reach only those beside them
    slow_s: float = 0.0  # that a message of a phone takes longer
    edit_at: float | None = None
    room: int | None = None  # of phones, where it is not drawn
    other: Plan | None = None  # the second query; not said: `filtered`


@dataclass(frozen=True, slots=True)
class WalkOutcome:
    outcome: Outcome
    rows: list[tuple[Any, ...]]
    rerouted: int
    longest: int  # nodes on a way
    shares: frozenset[tuple[int, ...]] = frozenset()  # how much phones and the nodes of their ways apply
    turned: int = 0  # ways that phones took by themselves


@dataclass(frozen=True, slots=True)
class Broken:
    """A node that passes rows of a phone on has lost whom it passes them on to."""

    at: float
    relay: int
    spec: CarrierSpec
    head: int  # of the phone's edge, at that moment


class WalkWorld(PeerWorld):
    """Two queries of two phones, on four hubs."""

    def __init__(
        self, walk: Walk, *, keep: bool = False, observers: Sequence[Checker] = (), edit: bool = False
    ) -> None:
        self.walk = walk
        self._plan = walked(edit)
        self.reaches = {phone: frozenset(HUBS) for phone in PHONES}
        self.alone: set[int] = set()
        self.brought: dict[str, int] = {}  # by gather and phone, how much there was of it at its last step
        self.walked_at = dict.fromkeys(PHONES, 0.0)
        self.walks = {phone: [(0.0, frozenset(HUBS))] for phone in PHONES}  # since when it reaches whom
        self.rooms = Random(f"rooms {walk.rooms}")
        self.edited = False
        self.broken: list[Broken] = []
        super().__init__(walk.settings, keep=keep, observers=observers)
        for step in walk.steps:
            self.clock.at(step.at, self._step, step)
        if walk.edit_at is not None:
            self.clock.at(walk.edit_at, self._edit)

    def _step(self, step: Step) -> None:
        self.outcome.fired += 1
        self.outcome.kinds["walk"] += 1
        self.reaches[step.phone] = step.reaches
        self.walks[step.phone].append((self.clock.now, step.reaches))
        self.walked_at[step.phone] = self.clock.now
        host = self.nodes[step.phone].host
        self.brought.update((spec.label, host.head(spec.key)) for spec in host.gathers())
        self.alone.discard(step.phone)
        if not step.reaches:
            self.alone.add(step.phone)
        self._offer(step.phone)
        self.tell("network", "walk", f"node{step.phone} reaches {sorted(step.reaches)}")

    def _offer(self, phone: int) -> None:
        """The phone has another room from now on; who applies what changes with its next way."""
        coordinator = self.nodes[0].machine.coordinator if self.nodes[0].up else None
        if coordinator is None:
            return
        capacity = self.rooms.randint(0, ROOM_MAX)
        fleet = coordinator.fleet
        peers = [
            replace(peer, capacity=capacity) if peer.node == self.nodes[phone].id else peer for peer in fleet.peers
        ]
        coordinator.set_fleet(peers, fleet.queries)
        self.nodes[0].drive()

    def _inject(self, fault: Fault) -> None:
        if fault.kind != "cascade":
            super()._inject(fault)
        elif not self._break_a_drain(fault) and self.clock.now < fault.at + CASCADE_S:
            self.clock.after(0.02, self._inject, fault)

    def _break_a_drain(self, fault: Fault) -> bool:
        """Take the next hop from a node that passes on what a phone brings back; False while none does."""
        for number in HUBS:
            relay = self.nodes[number]
            for carrier in relay.host.here.carriers.values() if relay.up else ():
                (reader,) = {*carrier.spec.makes.readers} if len(carrier.spec.makes.readers) == 1 else ("",)
                draining = carrier.begun and carrier.taken > carrier.through
                if not reader or not draining or self.by_id[reader].number in (0, number):
                    continue
                self._fired(fault)
                maker = self.by_id[carrier.spec.reads.maker].host
                head = maker.head(carrier.spec.reads.key) if carrier.spec.reads.maker in self._phone_ids() else 0
                self.broken.append(Broken(self.clock.now, number, carrier.spec, head))
                if fault.node:  # it stops
                    self.by_id[reader].crash(fault.seconds)
                else:  # only the link between the two fails
                    pair = frozenset({number, self.by_id[reader].number})
                    self._parted[pair] = self._parted.get(pair, 0) + 1
                    self.clock.after(fault.seconds, self._mend, self._parted, pair)
                self.tell(
                    "network", "cascade", f"{relay.name} loses {self.by_id[reader].name} for {fault.seconds:.1f} s"
                )
                return True
        return False

    def _phone_ids(self) -> set[str]:
        return {self.nodes[phone].id for phone in PHONES}

    def parted(self, one: int, other: int) -> bool:
        return bool(self._parted.get(frozenset({one, other})))

    def _edit(self) -> None:
        coordinator = self.nodes[0].machine.coordinator if self.nodes[0].up else None
        if coordinator is None:
            self.clock.after(0.5, self._edit)
            return
        self.edited = True
        self.outcome.fired += 1
        self.outcome.kinds["edit"] += 1
        after = coordinator.as_edited("q", walked(True))
        coordinator.set_queries([after if query.name == "q" else query for query in coordinator.fleet.queries])
        self.nodes[0].drive()

    def missing(self, event: Rerouted) -> str:
        """Of the gathers of a device, one that neither those who read it nor the first node of its way has as much of as
        there was at its last step."""
        phone = self.by_id[event.source].host
        ours = {fed.edge.label for fed in phone.here.wiring.fed if fed.query.name == event.query}
        held = dict.fromkeys(ours, 0)
        for node in self.nodes:
            if not node.up:
                continue
            if event.paths[0] and node.id == event.paths[0][0]:
                for carrier in node.host.here.carriers.values():
                    if carrier.spec.reads.label in held and carrier.begun:
                        held[carrier.spec.reads.label] = max(held[carrier.spec.reads.label], carrier.taken)
            for instance in node.host.instances():
                for label, taken in instance.taken.items():
                    if label in held:
                        held[label] = max(held[label], taken)
        return next((label for label, taken in held.items() if taken < self.brought.get(label, 0)), "")

    def arrived(self, label: str) -> int:
        """How much of an edge of a phone came to whoever reads it."""
        taken = [
            instance.taken[label]
            for node in self.nodes
            if node.up
            for instance in node.host.instances()
            if label in instance.taken and not instance.failed
        ]
        return min(taken, default=0)

    def was_reached(self, phone: int, hubs: frozenset[int], since: float) -> bool:
        """Whether a phone has reached these hubs since then whenever it reached anybody."""
        walks = self.walks[phone]
        known = [near for at, near in walks if at >= since] + [near for at, near in walks if at < since][-1:]
        return all(hubs <= near for near in known if near)

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        for one, other in ((sender.number, to.number), (to.number, sender.number)):
            if one in PHONES and one != other:
                if other in PHONES or (other == 0 and one in self.alone):
                    return
                if other and other not in self.reaches[one]:
                    return
        if self.walk.ring and {sender.number, to.number} in ACROSS:
            return
        if self.walk.slow_s and {sender.number, to.number} & {*PHONES} and 0 not in (sender.number, to.number):
            self.clock.after(self.walk.slow_s, super().carry, sender, to, message, boot)
        else:
            super().carry(sender, to, message, boot)

    def _deploy(self) -> None:
        first = self.nodes[0]
        coordinator = first.machine.coordinator
        if coordinator is None:
            raise ValueError("node 0 coordinates")
        for node in self.nodes:
            room = self.rooms.randint(0, ROOM_MAX) if self.walk.room is None else self.walk.room
            if node.number in HUBS:  # room for all vertices, and some on top for operators on the way
                node.peer = replace(node.peer, addresses=(ADDRESS,), capacity=VERTICES + room)
            else:  # a phone only calls; the coordinator carries nothing
                phone = node.number in PHONES
                node.peer = replace(node.peer, addresses=() if phone else (ADDRESS,), capacity=room if phone else 0)
        hub = [self.nodes[number].id for number in HUBS]
        sources = tuple(self.nodes[number].id for number in PHONES)
        rng = Random(f"placed {self.walk.rooms}")
        topology = Topology([node.peer for node in self.nodes], cloud=first.id)
        queries: list[HostedQuery] = []
        for name, plan in (("q", self._plan), ("p", self.walk.other or filtered())):
            placed = []
            for at, vertex in enumerate(region_vertices(plan)):
                host = hub[(rng.randrange(4) + at) % 4]
                placed.append(Placement(vertex.name, (host,), (hub[(hub.index(host) + 1) % 4],), 1))
            query = HostedQuery(
                name, 1, plan, self.settings.row, self.settings.every, sources, first.id, tuple(placed), PUSH_DOWN,
                forward=self.walk.forward,
            )  # fmt: skip
            query = replace(query, routes=first_routes(query, topology, queries))
            alike = queries and plan.gathers == queries[0].plan.gathers
            queries.append(replace(query, shared=queries[0].spooling) if alike else query)
        coordinator.set_fleet([node.peer for node in self.nodes], queries)
        for node in self.nodes[1:]:
            node.host.deploy(*coordinator.deployment(node.id), 0.0)
            node.drive()
        first.drive()

    def _drained(self) -> bool:
        coordinator = self.nodes[0].machine.coordinator if self.nodes[0].up else None
        queries = () if coordinator is None else coordinator.fleet.queries
        ends = all(len(route.paths) == 1 for query in queries for route in query.routes)
        phones = [self.nodes[phone].host for phone in PHONES]
        took = any(self.nodes[number].up and self.nodes[number].host.status().took for number in (*PHONES, *HUBS))
        back = took or any(phone.returning.edges for phone in phones)
        return super()._drained() and ends and not back and (self.holds_retired() or not self.keeps_retired())

    def keeps_retired(self) -> bool:
        coordinator = self.nodes[0].machine.coordinator
        return coordinator is not None and any(query.retired for query in coordinator.fleet.queries)

    def holds_retired(self) -> bool:
        """Whether a phone has rows of what the query was; the last ones stay until a snapshot is permanent."""
        return any(self.nodes[phone].up and self.nodes[phone].host.status().stamps for phone in PHONES)

    def _last_fault(self) -> float:
        ends = [super()._last_fault(), self.walk.edit_at or 0.0, *(step.at for step in self.walk.steps)]
        return max(ends)


class Alone(Checker):
    """GoesOnAlone: while nobody coordinates, what a phone brings back arrives by a way that its deployment lists.
    GoesAround: and what a node cannot pass on to the next by a detour that it lists. Adopted: in the end the ways that
    nodes took by themselves are those that they were told, or were replaced."""

    def __init__(self) -> None:
        self._gone_since: float | None = None
        self.turned: set[tuple[int, int, str, tuple[str, ...]]] = set()  # ways that nodes took by themselves

    def look(self, world: PeerWorld) -> str:
        gone = not world.nodes[0].up or bool(world._cut.get(0))
        now = world.clock.now
        self._gone_since = (now if self._gone_since is None else self._gone_since) if gone else None
        if not isinstance(world, WalkWorld):
            return ""
        for number in (*PHONES, *HUBS):
            node = world.nodes[number]
            if node.up:
                self.turned |= {(number, node.host.version, took.gather, took.path) for took in node.host.status().took}
        if why := self._stays_behind(world, now):
            return why
        for number in PHONES:
            node = world.nodes[number]
            since = max(self._gone_since or now, world.walked_at[number])
            if self._gone_since is None or now < since + ALONE_S or not node.up:
                continue
            if world.settings.loss:  # each lost message costs a time-out: it may take longer than nobody coordinates
                continue
            for fed in node.host.here.wiring.fed:
                spec, route = fed.edge, fed.query.route(fed.edge.name, node.id)
                firsts = [[path[0].node] if path else fed.ends for path in (*route.paths, *route.alternates)]
                near = {world.nodes[hub].id for hub in world.reaches[number]}
                open_ways = [first for first in firsts if near >= {*first}]
                if open_ways and world.arrived(spec.label) < world.brought.get(spec.label, 0):
                    return (
                        f"GoesOnAlone: {spec.label[:20]} of node{number} stands at {world.arrived(spec.label)} of "
                        f"{world.brought[spec.label]} since {since:.1f}"
                    )
        return ""

    def _stays_behind(self, world: WalkWorld, now: float) -> str:
        """Rows that a node has had for too long, though a detour is open."""
        for each in world.broken:
            relay = world.nodes[each.relay]
            if self._gone_since is None or world.settings.loss or not relay.up or relay.host.deployed is None:
                continue
            if now < max(each.at, self._gone_since) + AROUND_S or not each.head:
                continue
            query = next(one for one in relay.host.deployed.queries if one.name == each.spec.query)
            route = query.route(each.spec.reads.name, each.spec.reads.maker)
            firsts = [world.by_id[onward[0]] for _, onward in onwards(route, relay.id) if onward]
            open_ways = [node for node in firsts if node.up and not world.parted(node.number, each.relay)]
            if open_ways and (come := world.arrived(each.spec.reads.label)) < each.head:
                return f"GoesAround: {relay.name} has passed on {come} of {each.head} since {each.at:.1f}"
        return ""

    def end(self, world: PeerWorld) -> str:
        for number in (*PHONES, *HUBS):
            took = world.nodes[number].host.status().took if world.nodes[number].up else ()
            if took:
                return f"Adopted: node{number} still goes {took} by itself"
        return ""


class Ways(Checker):
    """OnlyUnreachable: the way of a device's rows is replaced only where it is gone. OthersUndisturbed: that a phone walks
    moves no vertex and raises no term. BacklogDrains: in the end no phone has rows from before that do not arrive.
    EndsWhenDrained: what went over several paths goes over one in the end, and not before all has arrived there.
    RetiredGoes: what a query was is kept no longer than a phone has rows of it."""

    def __init__(self, *, calm: bool) -> None:
        self._calm = calm  # nothing but phones and messages fails
        self._first: dict[tuple[str, str], frozenset[int]] = {}  # (query, source) -> the nodes that a way begins with
        self._since: dict[tuple[str, str], float] = {}  # (query, source) -> when it got its way
        self.rerouted: list[Rerouted] = []
        self.shares: set[tuple[int, ...]] = set()  # of phones and the nodes of their ways
        self._found = ""

    def noticed(self, node: SimulatedNode, event: object) -> None:
        world = node.world
        if not isinstance(event, Rerouted) or not isinstance(world, WalkWorld):
            return
        self.rerouted.append(event)
        phone = world.by_id[event.source].number
        first = self._first.get((event.query, event.source))
        since_s = world.clock.now - world.walked_at[phone]
        stays = not world.settings.faults  # one that moves or begins again is behind for a while
        if event.why == ARRIVED and since_s > SAID_S and stays and (missing := world.missing(event)):
            self._found = f"EndsWhenDrained: {missing} has not all arrived where its one way begins"
        name = (event.query, event.source)
        always = first is not None and world.was_reached(phone, first, self._since.get(name, 0.0))
        self._since[name] = world.clock.now
        needless = since_s > STANDING_S or always
        if self._calm and event.why == GONE and first and first <= world.reaches[phone] and needless:
            self._found = f"OnlyUnreachable: node{phone} reaches {sorted(first)}, and {event.query} was rerouted"

    def look(self, world: PeerWorld) -> str:
        coordinator = world.nodes[0].machine.coordinator if world.nodes[0].up else None
        for query in () if coordinator is None else coordinator.fleet.queries:
            hosts = [host for placed in query.placements for host in placed.hosts]
            for route in query.routes:
                self.shares.add((route.upto, *(hop.upto for path in route.paths for hop in path)))
                nodes = [node for path in route.paths for node in ([path[0].node] if path else hosts)]
                first = frozenset(world.by_id[node].number for node in nodes)
                self._first[query.name, route.source] = first
            terms = [placed for placed in query.placements if placed.term > 1]
            if self._calm and terms:
                return f"OthersUndisturbed: {terms[0].vertex} has term {terms[0].term}"
        return self._found

    def end(self, world: PeerWorld) -> str:
        for number in PHONES:
            node = world.nodes[number]
            if node.up and node.host.returning.edges:
                return f"BacklogDrains: {node.name} still brings back {node.host.status().back}"
        coordinator = world.nodes[0].machine.coordinator
        for query in () if coordinator is None else coordinator.fleet.queries:
            for route in query.routes:
                if len(route.paths) > 1:
                    return f"ForwardingEnds: {query.name} still goes over {len(route.paths)} paths"
        if isinstance(world, WalkWorld) and world.keeps_retired() and not world.holds_retired():
            return "RetiredGoes: a query still keeps what it was, and no phone has rows of that"
        return ""


def walk_of(seed: int, kind: str) -> Walk:
    """calm: only phones walk. alone: nobody coordinates meanwhile. detour: nor when a node that passes rows on loses the next. rough: hubs crash and are cut off, too. edit: the query is edited meanwhile. move: its
    vertices are moved meanwhile, as somebody asks. shared: of two queries that read the same edges of phones, one is
    moved, and hubs fail. slow: messages of phones take long, and go over two paths.
    mixed: all of it at once, and the next hop of a node goes while that passes on what a phone brings back."""
    rng = Random(f"walk {kind} {seed}")
    steps = []
    for phone in PHONES:
        at = rng.uniform(0.3, 1.5)
        for _ in range(rng.randint(1, 4)):
            few = frozenset(rng.sample(HUBS, rng.randint(1, 2)))
            if rng.random() < 0.6:  # away from everybody for a while
                steps.append(Step(at, phone, frozenset()))
                at += rng.uniform(0.5, 7.0)
            steps.append(Step(at, phone, few))
            at += rng.uniform(0.5, 9.0)
    faults: tuple[Fault, ...] = ()
    if kind == "rough":
        faults = faults_of(rng, HUBS, rng.randint(1, 4), 8.0, ("crash", "crash", "cut", "part", "torn"))
    elif kind == "mixed":
        kinds = ("crash", "cut", "part", "torn")
        faults = (
            *faults_of(rng, HUBS, rng.randint(1, 3), 10.0, kinds),
            *(Fault(rng.uniform(0.5, 12.0), 0, "move", 0.0, to=rng.choice(HUBS)) for _ in range(rng.randint(1, 2))),
            *(Fault(rng.uniform(0.5, 6.0), rng.randint(0, 1), "cascade", rng.uniform(1.0, 9.0)) for _ in range(2)),
        )
    elif kind == "shared":
        asked = tuple(Fault(rng.uniform(0.5, 12.0), 0, "move", 0.0, to=rng.choice(HUBS)) for _ in range(2))
        faults = (*faults_of(rng, HUBS, rng.randint(0, 2), 8.0, ("crash", "cut", "part", "torn")), *asked)
    elif kind == "alone":
        steps, faults = _alone(rng)
    elif kind == "detour":
        steps, faults = _detour(rng)
    elif kind == "move":
        asked = sorted(rng.uniform(0.5, 12.0) for _ in range(rng.randint(2, 4)))
        faults = tuple(Fault(at, 0, "move", 0.0, to=rng.choice(HUBS)) for at in asked)
    settings = Settings(
        walked(), ROWS, rows_of, seed=seed, nodes=7, sources=PHONES, row=rng.choice(("extended-ecoc", "ecoc", "dist-2")),
        every=32, batch=8, every_s=0.7 if kind == "detour" else rng.choice((0.05, 0.2)), loss=rng.choice((0.0, 0.05)) if kind != "calm" else 0.0,
        duplication=rng.choice((0.0, 0.05)), faults=faults, within_s=180.0,
        settle_s=80.0 if kind == "mixed" else 40.0,  # a move that cannot be made is given up after 60 s
    )  # fmt: skip
    forward = "paths:2" if kind == "slow" else rng.choice(("dynamic", "dynamic", "paths:2"))
    if kind == "shared":
        return Walk(settings, tuple(steps), "dynamic", seed, other=beginning_alike("g"))
    ring = kind in ("rough", "mixed") and rng.random() < 0.5
    edit_at = rng.uniform(0.5, 8.0) if kind in EDITED else None
    slow_s = rng.uniform(0.1, 0.4) if kind == "slow" else 0.0
    return Walk(settings, tuple(steps), forward, seed, ring, slow_s, edit_at)


def _alone(rng: Random) -> tuple[list[Step], tuple[Fault, ...]]:
    """Whoever coordinates is gone for a while, and phones walk: each once, perhaps after a time out of reach."""
    gone = Fault(rng.uniform(0.5, 2.0), 0, rng.choice(("cut", "crash")), rng.uniform(16.0, 20.0))
    steps = []
    for phone in PHONES:
        at = gone.at + rng.uniform(-1.0, 1.0)
        if rng.random() < 0.5:
            steps.append(Step(at, phone, frozenset()))
            at += rng.uniform(0.5, 2.0)
        steps.append(Step(at, phone, frozenset(rng.sample(HUBS, rng.randint(1, 2)))))
    return steps, (gone,)


def _detour(rng: Random) -> tuple[list[Step], tuple[Fault, ...]]:
    """Each phone reaches one hub only. Then whoever coordinates is gone, and hubs lose whom they pass rows on to."""
    steps = [Step(rng.uniform(0.3, 1.0), phone, frozenset({rng.choice(HUBS)})) for phone in PHONES]
    gone = Fault(rng.uniform(6.0, 7.0), 0, rng.choice(("cut", "crash")), rng.uniform(22.0, 25.0))
    lost = [Fault(gone.at + rng.uniform(0.5, 3.0), 0, "cascade", rng.uniform(17.0, 19.0)) for _ in range(2)]
    return steps, (gone, *lost)


@cache
def undisturbed(edit: bool, alike: bool = False) -> WalkOutcome:
    """What the sinks hold when nobody walks, and nothing is shared."""
    settings = Settings(
        walked(edit), ROWS, rows_of, nodes=7, sources=PHONES, row="ecoc", every=32, batch=8, within_s=30.0
    )
    world = WalkWorld(Walk(settings, (), "dynamic", 0, other=beginning_alike("h") if alike else None), edit=edit)
    return WalkOutcome(world.run(), world.results()[0], 0, 0)


def outcome_of(seed: int, kind: str, *, keep: bool = False) -> WalkOutcome:
    """Of one world; what is wrong with its results is named as what is wrong in it."""
    ideal = undisturbed(False, kind == "shared")
    walk = walk_of(seed, kind)
    ways = Ways(calm=kind == "calm")
    watching = every_checker()
    if kind in EDITED:
        # What begins again after an edit reads rows as the query is now: others may come out than came before.
        watching = [Numbers(alike) if isinstance(one, Numbers) else one for one in watching]
    alone = Alone()
    world = WalkWorld(walk, keep=keep, observers=(*watching, ways, alone))
    outcome = world.run(ideal.outcome.elements)
    rows = world.results()[0]
    if not outcome.violation:
        outcome.violation = wrong(outcome, rows, ideal, edited=kind in EDITED)
    longest = max((len(path) for event in ways.rerouted for path in event.paths), default=0)
    return WalkOutcome(outcome, rows, len(ways.rerouted), longest, frozenset(ways.shares), len(alone.turned))


def alike(output: str, one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two rows of an output are the same one before and after the edit: by how many of its four rows met it."""
    pairs = zip(one, other, strict=True)
    by = [float(a != b) if isinstance(a, str) else abs(float(a) - float(b)) / ADDED for a, b in pairs]
    *others, most = sorted(by)
    return output == "out" and not any(others) and abs(most - round(most)) < 1e-6 and round(most) <= 4


def wrong(outcome: Outcome, rows: list[tuple[Any, ...]], ideal: WalkOutcome, *, edited: bool) -> str:
    """What is wrong with the results, or nothing."""
    if outcome.lost:
        return f"NothingLost: {outcome.lost} elements are"
    times = {row[TIMES] for row in rows if row[0] == "out"}
    if times != {8}:
        return f"AppliedOnce: four rows met {times} of the projections, not 8"
    if not edited:
        return "" if outcome.digest == ideal.outcome.digest else "OutputAsIdeal: the sinks hold something else"
    for before, row in zip(ideal.rows, rows, strict=True):
        at = SUM if row[0] == "out" else SUM - 1
        new = (row[at] - before[at]) / ADDED  # how many of the four rows are of the edited query
        if row[:3] != before[:3] or abs(new - round(new)) > 1e-6 or not 0 <= round(new) <= (4 if at == SUM else 0):
            return f"FinishesItsRun: {row} is not made of rows that met one of the two runs, where {before} was"
    return ""
