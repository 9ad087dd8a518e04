"""A phone that walks from one side of a network to the other, with production nodes in virtual time.

Between the phone and the node that reads its rows stand lines of nodes. The phone begins at the first line, is out of
reach for a while, and is back at the others. What the network carries, and what time passes, is as in
`_virtual_fleet`: bytes are the product's, seconds are those of its polls and messages.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import resurge as rs
from resurge import col
from resurge.lab._virtual_fleet import LATENCY_S, PHONE, SINK, SOURCES_BYTES, Ran, VirtualFleet, _homes, _Node
from shared.batch import Batch
from shared.hosting.coordinate import Coordinator
from shared.hosting.instance import Instance
from shared.hosting.messages import Ask
from shared.hosting.wiring import EdgeSpec
from shared.language.codecs import NONE
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Hop, HostedQuery, Link, Peer, Placement, Route
from shared.plan.graph import Plan
from shared.region.broadcast import Broadcast
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.sync.receiver import Reply
from shared.wire import codecs
from shared.wire.columns import Cache

HOST = "host"
EVERY_S, ROWS = 0.1, 100  # a batch of so many rows leaves the phone ten times a second
EVERY = 2_000  # rows between two snapshots, where there are any
AWAY_FROM_S, AWAY_S = 3.0, 5.0
STEP_S = 0.005  # between two looks at how far everything is
SPOOL_BYTES = 16 << 20  # of the phone, as `mobile_app/node/hosting.py`
TELL_S = 0.001  # where nodes are told something, which takes a few messages
PATIENCE_S = 120.0
ADDRESS = "tcp://127.0.0.1:1"  # nobody opens it: it says that a node can be called
Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Fed:
    """A query that the phone feeds, and its rows."""

    name: str
    plan: Plan
    rows: Callable[[np.ndarray[Any, Any]], Columns]  # of these numbers
    batch: int = ROWS
    every_s: float = EVERY_S
    upto: int = 1  # of the operators behind its gather, so many are the phone's
    line: int = 0  # where its way begins
    codec: str = NONE

    @property
    def gather(self) -> str:
        return self.plan.gathers[0].name


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds since the phone was back, and what was sent from then until it had nothing left."""

    decided_s: float  # the coordinator has another way for its rows
    deployed_s: float  # all nodes of it know
    drained_s: float  # all that was spooled has arrived
    megabytes: float
    rows: int  # that had been spooled
    others: int  # vertices that moved or began again


@cache
def counted(gather: str = "player") -> Plan:
    """Two filters of which the phone applies the first, as in the paper, and a count."""
    rows = rs.sensor(gather, every="1ms", columns={"vx": "float64", "az": "float64"}).gather(gather)
    fast = rows.where(col.vx > 0).select("device", az=col.az + 0.0).where(col.az > 1)  # two in a row would be one
    return rs.plan_of(fast.key_by().tumbling("1s").aggregate(rows=rs.count()).subscribe(f"fast {gather}"))


def waves(numbers: np.ndarray[Any, Any]) -> Columns:
    return {"vx": np.sin(numbers * 0.7) + 0.4, "az": np.cos(numbers * 0.3) + 0.8}


def one_query() -> tuple[Fed, ...]:
    return (Fed("q", counted(), waves),)


class WalkingFleet(VirtualFleet):
    """`lines` of so many nodes each. The phone begins at the first, or at so many of the first. What is put into
    `when_heard` happens as soon as the coordinator hears of the phone again, before it has understood what."""

    def __init__(
        self, lines: int, length: int, fed: Sequence[Fed], *, forward: str = "dynamic", row: str = "none",
        near: int = 1, spool_bytes: int = SOURCES_BYTES, evict: Evict = Evict.BLOCK, uplink: float = math.inf,
    ) -> None:  # fmt: skip
        gc.collect()  # the spools of the fleet before: 16 MB on every node
        self.now, self.ran = 0.0, Ran()
        self._heap, self._count = [], 0
        self._state_edges, self._sink_edges = set(), set()  # all that is numbered counts as elements
        self.fed, self._forward, self._row = tuple(fed), forward, row
        self.lines = [[f"line {line} node {at}" for at in range(length)] for line in range(lines)]
        names = [SINK, PHONE, HOST, *(name for line in self.lines for name in line)]
        homes = Path(_homes().name)
        self.nodes = {name: _Node(name, homes / name.replace(" ", "-"), self, Random(1)) for name in names}
        self._by_id = {node.id: node for node in self.nodes.values()}
        self._between = [pair for line in self.lines for pair in zip(line, [*line[1:], HOST], strict=True)]
        self._links = {frozenset(pair) for pair in self._between}
        self.reaches = {line[0] for line in self.lines[:near]}
        self.away = False
        self._uplink, self._sent_at = uplink, 0.0  # bytes a second of the phone's radio, and until when it is busy
        self._packing: dict[str, Cache] = {}
        self.when_heard: Callable[[], None] | None = None
        for node in self.nodes.values():
            room = 64 if node.name not in (SINK, PHONE) else 0
            node.peer = replace(node.peer, addresses=(ADDRESS,), capacity=room)
            node.start(self.nodes[SINK].peer.public_key, spool_bytes, evict)
        self.deploy([self.query(each) for each in self.fed])
        for node in self.nodes.values():
            if node.name != SINK:
                node.host.deploy(*self.coordinator.deployment(node.id), 0.0)
                node.drive()

    @property
    def coordinator(self) -> Coordinator:
        found = self.nodes[SINK].machine.coordinator
        if found is None:
            raise RuntimeError("the sink's node coordinates")
        return found

    def query(self, each: Fed, *, line: int | None = None, term: int = 1, more: Sequence[int] = ()) -> HostedQuery:
        """With its vertices on the host, and rows that come over a line, and at the same time over `more`."""
        nodes = self.nodes
        keepers = () if self._row == "none" else (nodes[SINK].id,)
        placed = tuple(
            Placement(vertex.name, (nodes[HOST].id,), keepers, term) for vertex in region_vertices(each.plan)
        )  # fmt: skip
        used = [each.line if line is None else line, *more]
        ways = tuple(tuple(Hop(nodes[name].id) for name in self.lines[number]) for number in used)
        return HostedQuery(
            each.name, 1, each.plan, self._row, EVERY, (nodes[PHONE].id,), nodes[SINK].id, placed,
            routes=(Route(each.gather, nodes[PHONE].id, each.upto, ways),), forward=self._forward,
        )  # fmt: skip

    def deploy(self, queries: Sequence[HostedQuery], *, phone: bool = True) -> None:
        """Exactly these queries, with the phone or without."""
        nodes = self.nodes
        links = [Link((nodes[one].id, nodes[other].id), "wired", 1) for one, other in self._between]
        links += [Link((nodes[PHONE].id, nodes[line[0]].id), "wifi", 2) for line in self.lines] if phone else []
        peers: tuple[Peer, ...] = tuple(node.peer for node in nodes.values() if phone or node.name != PHONE)
        if peers == self.coordinator.fleet.peers:
            self.coordinator.set_queries(queries)
        else:
            self.coordinator.set_fleet(peers, queries, links)
        nodes[SINK].drive()

    def carry(self, sender: _Node, message: Ask | Reply | Broadcast) -> None:
        if isinstance(message, Broadcast):  # no lane here
            return
        to = self._by_id[message.node] if isinstance(message, Ask) else self.asker(message)[0]
        if to is not sender and not self._connected(sender.name, to.name):
            return
        if self.when_heard is not None and (sender.name, to.name) == (PHONE, SINK):
            self.at(self.now + LATENCY_S, self.when_heard)
            self.when_heard = None
        if sender.name == PHONE and to is not sender and self._uplink < math.inf:  # one message after the other
            self._sent_at = max(self.now, self._sent_at) + len(message.body) / self._uplink
            self.at(self._sent_at, partial(super().carry, sender, message))
            return
        super().carry(sender, message)

    def _connected(self, one: str, other: str) -> bool:
        if PHONE in (one, other):
            return not self.away and ({one, other} - {PHONE} <= self.reaches | {SINK})
        return SINK in (one, other) or frozenset((one, other)) in self._links

    def spec(self, each: Fed) -> EdgeSpec:
        return next(spec for spec in self.nodes[PHONE].host.gathers() if spec.name == each.gather)

    def head(self, each: Fed) -> int:
        """How many rows the phone has made for a query."""
        return self.nodes[PHONE].host.head(self.spec(each).key)

    def sense(self, each: Fed, until: int) -> None:
        """Rows from now on, a batch at a time, until there are so many."""
        if self.head(each) < until:
            self.make(each)
            self.at(self.now + each.every_s, lambda: self.sense(each, until))

    def make(self, each: Fed) -> None:
        """The next batch of a query's rows."""
        phone, spec = self.nodes[PHONE], self.spec(each)
        lo = phone.host.head(spec.key)
        numbers = np.arange(lo, lo + each.batch)
        time_us = numbers * round(each.every_s * 1e6) // each.batch + 1
        batch = Batch.of(spec.schema, each.rows(numbers), time_us, lo=lo, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, each.codec, cache=self._packing.setdefault(each.name, Cache()))
        spooled = SpooledBatch(
            spec.key.edge, lo, batch.hi, len(batch), spec.schema.id, 0, batch.frontier_us, codec, payload
        )  # fmt: skip
        phone.host.offer(spec.key, spooled, self.now)
        phone.drive()

    def reader(self, each: Fed) -> Instance | None:
        """What reads a query's rows."""
        return next((one for one in self.nodes[HOST].host.instances() if one.query == each.name), None)

    def taken(self, each: Fed) -> int:
        """How many of a query's rows were read."""
        reader = self.reader(each)
        return 0 if reader is None else max(reader.taken.values(), default=0)

    def until(self, reached: Callable[[], bool], what: str, step_s: float = STEP_S) -> None:
        """Let time pass until it is so."""
        end = self.now + PATIENCE_S
        while not reached():
            self.advance(self.now + step_s)
            if self.now > end:
                raise RuntimeError(f"{what} did not happen within two minutes")

    def line_of(self, route: Route) -> int:
        """Along which line a way goes."""
        begins = self._by_id[route.paths[0][0].node].name
        return next(number for number, line in enumerate(self.lines) if begins in line)

    def told(self, route: Route) -> bool:
        """Whether the phone and all nodes of a way know the newest deployment."""
        hops = {hop.node for path in route.paths for hop in path}
        versions = [self._by_id[node].host.version for node in (*hops, self.nodes[PHONE].id)]
        return min(versions) >= self.coordinator.fleet.version


def recover(
    lines: int, length: int, forward: str, *, batch: int = ROWS, uplink: float = math.inf, one_by_one: int = 0
) -> Recovery:
    """Away for a while, and back at all lines but the first. `one_by_one`: as the paper has it, so many ways are
    deployed one after the other, each when all nodes of those before it know, and each row goes over all of them."""
    each = replace(one_query()[0], batch=batch)
    fleet = WalkingFleet(lines, length, (each,), forward=forward, uplink=uplink, spool_bytes=SPOOL_BYTES)
    coordinator = fleet.coordinator
    fleet.at(0.5, lambda: fleet.sense(each, round((AWAY_FROM_S + AWAY_S - 0.5) / EVERY_S) * batch))
    fleet.advance(AWAY_FROM_S)
    fleet.away = True
    fleet.advance(AWAY_FROM_S + AWAY_S)
    head, before = fleet.head(each), fleet.taken(each)
    fleet.away, fleet.reaches = False, {line[0] for line in fleet.lines[1:]}
    began, version, sent = fleet.now, coordinator.fleet.version, fleet.ran.sent.elements
    fleet.until(lambda: coordinator.fleet.version > version, "another way", TELL_S)
    decided = fleet.now
    first = fleet.line_of(coordinator.fleet.queries[0].routes[0])
    others = [line for line in range(1, lines) if line != first]
    for count in range(max(1, one_by_one)):
        if count:
            fleet.deploy([fleet.query(each, line=first, more=others[:count])])
        route = coordinator.fleet.queries[0].routes[0]
        fleet.until(partial(fleet.told, route), "a deployment on all nodes of the way", TELL_S)
    deployed = fleet.now
    fleet.until(lambda: fleet.taken(each) >= head, "the arrival of what the phone brought back")
    drained, megabytes = fleet.now, (fleet.ran.sent.elements - sent) / 1e6
    fleet.advance(fleet.now + 3)
    begun = sum(placed.term > 1 for query in coordinator.fleet.queries for placed in query.placements)
    return Recovery(
        round(decided - began, 3), round(deployed - began, 3), round(drained - began, 3), round(megabytes, 3),
        head - before, begun,
    )  # fmt: skip
