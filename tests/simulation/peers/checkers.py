"""Promises of several nodes that run one query, each looked at every few events. What breaks first is named.

They look at production hosts from outside, at the newest term of each vertex: what a node that was cut off still runs
under an older one is nobody's concern, as long as it changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from shared.batch import NO_FRONTIER
from shared.hosting.host import Host
from shared.hosting.instance import Instance, Made
from shared.hosting.keeper import Keeper, cut_of
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.messages import Committed, SinkTook
from shared.hosting.planned_moves import ASKED, MoveEnded
from shared.plan.deployment import Deployment
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.spool.memory import MemoryDisk
from shared.sync.exchange import LogRecord
from shared.sync.session import GatewaySession
from shared.wire.frame import FrameType, decode_one
from tests.simulation.peers.world import PeerWorld, SimulatedNode


class Checker:
    """Does nothing at every moment; each kind says what it looks at."""

    def started(self, node: SimulatedNode) -> None: ...

    def noticed(self, node: SimulatedNode, event: object) -> None: ...

    def look(self, _world: PeerWorld) -> str:
        return ""

    def end(self, _world: PeerWorld) -> str:
        return ""


def hosts(world: PeerWorld) -> Iterator[Host]:
    return (node.host for node in world.nodes if node.up)


def newest(world: PeerWorld) -> dict[str, list[Instance]]:
    """By vertex, the instances of its greatest term; more than one where copies run."""
    found: dict[str, list[Instance]] = {}
    for host in hosts(world):
        for instance in host.instances():
            known = found.setdefault(instance.vertex, [])
            if known and known[0].term < instance.term:
                known.clear()
            if not known or known[0].term == instance.term:
                known.append(instance)
    return found


class Positions(Checker):
    """TrimNeverPassesReader: what a reader's permanent snapshot has not taken is still where it was made.
    RelaxedConsistency: a vertex restored now would put out all that its readers, restored now, have not taken."""

    def __init__(self) -> None:
        self._permanent: dict[str, dict[str, int]] = {}  # label of an input -> vertex -> position
        self._newest: Deployment | None = None
        self._vertices: frozenset[str] = frozenset()

    def noticed(self, node: SimulatedNode, event: object) -> None:
        """Its node may stop before anybody looks; its keepers have it all the same."""
        for instance in node.host.instances() if isinstance(event, Committed) else ():
            for label, at in instance.checkpoints.permanent.inputs.items():
                if not at and instance.spec.query.shared is not None:
                    continue  # it begins with what is there of another's edge
                known = self._permanent.setdefault(label, {})
                known[instance.vertex] = max(at, known.get(instance.vertex, 0))

    def look(self, world: PeerWorld) -> str:
        if STRATEGIES[world.settings.row].row.of_region:
            return ""  # inner edges are given up as they are taken: `RegionCut` looks at it
        instances = newest(world)
        for known in self._permanent.values():
            for vertex in known.keys() - self._deployed(world):
                del known[vertex]  # its query was dropped
        for vertex, running in instances.items():
            for instance in running:
                for label, at in instance.checkpoints.permanent.inputs.items():
                    if not at and instance.spec.query.shared is not None:
                        continue  # as above
                    if instance.checkpoints.row.include is Include.NOTHING or instance.spec.placement.anew:
                        self._permanent.get(label, {}).pop(vertex, None)  # it begins with a loss that is said
                    elif not instance.failed:
                        # One that begins with an older snapshot finds out, and takes nothing; another is looked for.
                        known = self._permanent.setdefault(label, {})
                        known[vertex] = max(at, known.get(vertex, 0))
        for host in hosts(world):
            for maker, spec in host.here.makers.values():
                vertex = maker.vertex if isinstance(maker, Instance) else ""
                if vertex and maker not in instances[vertex]:
                    continue
                for reader, taken in self._permanent.get(spec.label, {}).items():
                    first = host.outbox.first(spec.key.edge)
                    if first > taken:
                        return f"TrimNeverPassesReader: {spec.name} begins at {first}, {reader} is restored at {taken}"
                    start = maker.checkpoints.permanent.starts.get(spec.label, 0) if vertex else 0
                    if start > taken:
                        return f"RelaxedConsistency: {spec.name} is restored at {start}, its reader {reader} at {taken}"
        return ""

    def _deployed(self, world: PeerWorld) -> frozenset[str]:
        """The vertices of the newest deployment that a node follows; those known last while every node is down."""
        newest_host = max(hosts(world), key=lambda host: host.version, default=None)
        deployed = newest_host.deployed if newest_host is not None else None
        if deployed is not None and deployed is not self._newest:
            self._newest = deployed
            self._vertices = frozenset(placed.vertex for query in deployed.queries for placed in query.placements)
        return self._vertices


class Numbers(Checker):
    """OneOutputPerNumber: a number of an edge means one row, whoever makes it and however often; a sink and every input
    take each number once, in order. `alike`: whether two rows of an output are the same one, where their query was
    edited."""

    def __init__(self, alike: Callable[[str, Sequence[Any], Sequence[Any]], bool] | None = None) -> None:
        self._rows: dict[tuple[str, int], list[Any]] = {}
        self._alike = alike
        self._ends: dict[str, int] = {}
        self._found = ""

    def started(self, node: SimulatedNode) -> None:
        host = node.host
        for sink in host.sinks():
            if sink.taken < self._ends.get(sink.sink, 0):
                self._found = f"OneOutputPerNumber: {sink.sink} was at {self._ends}, and is at {sink.taken}"
            self._ends[sink.sink] = sink.taken
        vertices = node.host.vertices
        vertices.put_out = partial(self._put_out, vertices.put_out)  # type: ignore[method-assign, assignment]

    def _put_out(self, put_out: object, instance: Instance, made: Made) -> None:
        if made.batch is not None:
            label = instance.spec.outputs[made.output].label
            columns = [made.batch.columns[name].tolist() for name in sorted(made.batch.columns)]
            rows = zip(made.batch.seq.tolist(), made.batch.time_us.tolist(), *columns, strict=True)
            for number, *values in rows:
                before = self._rows.setdefault((label, number), values)
                same = repr(before) == repr(values)  # a value may be not a number, which equals nothing
                if not same and self._alike is not None:
                    same = self._alike(made.output, before, values)
                if not same and not instance.lost:
                    self._found = f"OneOutputPerNumber: {label} {number} was another row under an earlier term"
        put_out(instance, made)  # type: ignore[operator]

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, SinkTook):
            if event.lo != self._ends.get(event.sink, 0):
                self._found = f"OneOutputPerNumber: {event.sink} took [{event.lo}, {event.hi}) at {self._ends}"
            self._ends[event.sink] = event.hi

    def look(self, _world: PeerWorld) -> str:
        return self._found


class Promises(Checker):
    """NothingBehindTheFrontier: an element has no earlier time than was promised on its edge before its number."""

    def __init__(self) -> None:
        self._promised: dict[str, tuple[list[int], list[int]]] = {}  # by edge: from which number on, which frontier
        self._found = ""

    def started(self, node: SimulatedNode) -> None:
        vertices = node.host.vertices
        vertices.put_out = partial(self._put_out, vertices.put_out)  # type: ignore[method-assign, assignment]

    def _put_out(self, put_out: object, instance: Instance, made: Made) -> None:
        label, head = instance.spec.outputs[made.output].label, instance.heads[made.output]
        numbers, frontiers = self._promised.setdefault(label, ([], []))
        if made.batch is not None and len(made.batch) and numbers:
            known = np.concatenate(([NO_FRONTIER], np.maximum.accumulate(frontiers)))
            places = np.searchsorted(numbers, made.batch.seq, side="right")
            # One that begins without what it had read makes other rows, and says so.
            if (made.batch.time_us < known[places]).any() and not (instance.lost or instance.spec.placement.anew):
                self._found = f"NothingBehindTheFrontier: {label} has an element that is earlier than was promised"
        at = bisect_right(numbers, head)
        numbers.insert(at, head)
        frontiers.insert(at, made.frontier_us)
        put_out(instance, made)  # type: ignore[operator]

    def look(self, _world: PeerWorld) -> str:
        return self._found


class RegionCut(Checker):
    """RegionCutConsistent: of a complete cut every element is in the state of its reader, or recorded beside it, or
    behind it in a copy: once (MS-14). CopiesEverywhere: every member that was there when it was completed has all of
    it, and every row that came into the region since (MS-16)."""

    def __init__(self) -> None:
        self._cut = 0
        self._from: dict[str, int] = {}  # where what comes into the region is read again from, by edge

    def look(self, world: PeerWorld) -> str:
        if not STRATEGIES[world.settings.row].row.of_region or not world.nodes[0].up:
            return ""
        coordinator = world.nodes[0].machine.coordinator
        if coordinator is None:
            return ""
        query = coordinator.fleet.queries[0]
        number = query.cuts.complete
        holders = [world.by_id[node] for node in query.cuts.holders if node in query.members and world.by_id[node].up]
        if number > self._cut:
            self._cut = number
            world.outcome.cuts += 1
            for node in holders:
                if broken := self._complete(world, node, number, [placed.vertex for placed in query.placements]):
                    return broken
        for node in holders:
            for copy in node.host.here.copies.values():
                if copy.first > (at := self._from.get(copy.spec.edge.label, 0)):
                    return f"CopiesEverywhere: {node.name} has {copy.spec.edge.label} from {copy.first}, not from {at}"
        return ""

    def _complete(self, world: PeerWorld, node: SimulatedNode, number: int, vertices: list[str]) -> str:
        parts = {part.vertex: part for part in node.host.here.keeper.cuts() if cut_of(part) == number}
        if lacking := sorted({*vertices} - parts.keys()):
            return f"CopiesEverywhere: {node.name} has no part of cut {number} of {lacking}"
        heads = {label: head for part in parts.values() for label, head in part.permanent.heads.items()}
        marks = {}
        for copy in node.host.here.copies.values():
            at = [each.seq for each in copy.frames() if each.type is FrameType.MARK and each.frontier_us == number]
            marks.update({copy.spec.edge.label: at[0]} if at else {})
        for vertex, part in parts.items():
            for label, taken in part.permanent.inputs.items():
                lo, hi = part.permanent.recorded.get(label, (taken, taken))
                sent = heads.get(label, marks.get(label, taken))
                if (lo, hi) != (taken, sent):
                    return (
                        f"RegionCutConsistent: cut {number}: {vertex} has {label} up to {taken}, recorded are "
                        f"[{lo}, {hi}), sent were {sent}"
                    )
                if label in marks:
                    self._from[label] = taken
        for sink, edge in [(sink, edge) for _, sink, edge in world.nodes[0].host.here.wiring.sinks]:
            taken = world.nodes[0].host.here.sinks[edge.key].taken
            if taken < heads.get(edge.label, 0):
                return f"RegionCutConsistent: cut {number} has {heads[edge.label]} rows of {sink}, the sink {taken}"
        return ""


class Snapshots(Checker):
    """OneSnapshotPerMark: under one term a vertex freezes once for a mark. PendingDrains: when all is well again no
    snapshot stays pending. PermanentRestores: what keepers have can be restored, at the positions it says."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int, int], set[object]] = {}
        self._done: dict[tuple[str, int, int], set[object]] = {}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            for instance in node.host.instances() if node.up else ():
                place = (instance.vertex, instance.term, node.boot * 100 + node.number)
                now = instance.checkpoints.pending
                before = self._pending.setdefault(place, set())
                done = self._done.setdefault(place, set())
                done |= before - set(now)
                if len(set(now)) < len(now) or done & set(now):
                    return f"OneSnapshotPerMark: {instance.vertex} has frozen twice for one of {now}"
                self._pending[place] = set(now)
        return ""

    def end(self, world: PeerWorld) -> str:
        for vertex, running in newest(world).items():
            for instance in running:
                pending = [id for id in instance.checkpoints.pending if id.number < world.complete_cut()]
                if not instance.of_region:
                    pending = list(instance.checkpoints.pending)
                if pending and world.settings.settle_s:
                    return f"PendingDrains: {vertex} still has {instance.checkpoints.pending}"
        for node in world.nodes:
            if node.up and (broken := self._restored(node)):
                return broken
        return ""

    @staticmethod
    def _restored(node: SimulatedNode) -> str:
        specs = {spec.identity: spec for host in hosts(node.world) for spec in host.here.wiring.vertices}
        for kept in (*node.host.here.keeper.held(), *node.host.here.keeper.cuts()):
            spec = specs.get(kept.identity)
            if spec is None:
                continue
            instance = Instance(spec, Random(0), kept)
            if instance.taken != dict(kept.permanent.inputs):
                return (
                    f"PermanentRestores: {kept.vertex} is at {instance.taken}, its snapshot at {kept.permanent.inputs}"
                )
        return ""


class Terms(Checker):
    """StaleTermChangesNothing: what was sent under an older term than the deployment here says is not taken."""

    def __init__(self) -> None:
        self._found = ""

    def started(self, node: SimulatedNode) -> None:
        host = node.host
        host.taking.take = partial(self._take, host, host.taking.take)  # type: ignore[method-assign, assignment]

    def _take(self, host: Host, take: object, session: GatewaySession, record: LogRecord) -> None:
        term = decode_one(record.frame, digest=record.digest)[0].term
        edges = [leg for one in host.instances() for each in one.spec.inputs.values() for leg in each.arriving]
        edges += [edge for _, _, edge in host.here.wiring.sinks]
        for edge in edges:
            if edge.key == record.key and edge.carriers.get(session.device.hex()) != term:
                self._found = f"StaleTermChangesNothing: {edge.label} of term {term} was taken, it is {edge.carriers}"
        take(session, record)  # type: ignore[operator]

    def look(self, _world: PeerWorld) -> str:
        return self._found


class Durable(Checker):
    """KeptIsDurable: what a keeper has and what a sink took is on the disk as it would be after a crash."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str, int], KeptSnapshot] = {}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            durable = node.disk.durable() if node.up else {}
            kept_here = (*node.host.here.keeper.held(), *node.host.here.keeper.cuts()) if node.up else ()
            for kept in kept_here:
                place = (node.number, kept.vertex, cut_of(kept))
                if self._seen.get(place) is kept:
                    continue
                self._seen[place] = kept
                disk = MemoryDisk()
                for name, data in durable.items():
                    disk.replace(name, data)
                read = Keeper(disk)
                if kept not in (*read.held(), *read.cuts()):
                    return (
                        f"KeptIsDurable: {node.name} has receipted a snapshot of {kept.vertex} that is not on its disk"
                    )
            for sink in node.host.sinks() if node.up else ():
                if sink._end > len(durable.get(sink.name, b"")):
                    return f"KeptIsDurable: {node.name} has taken {sink.taken} results, not all are on its disk"
        return ""


class Undisturbed(Checker):
    """OthersUndisturbed: a vertex that moves takes no other with it. Each of its new terms was asked for; where nothing
    fails no other has one. What has its term is the same instance as before, so it reads and makes nothing twice."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int, int, int], Instance] = {}
        self._moved: Counter[str] = Counter()  # by vertex, moves that were said to be over
        self._found = ""

    def noticed(self, node: SimulatedNode, event: object) -> None:
        """AMoveBeginsATerm: what ran elsewhere before is told from what runs there now."""
        if isinstance(event, MoveEnded) and not event.why and node.machine.coordinator is not None:
            self._moved[event.vertex] += 1
            known = node.machine.coordinator.fleet.moves
            terms = {move.term for move in known if (move.vertex, move.why) == (event.vertex, ASKED)}
            if len(terms) < self._moved[event.vertex]:
                self._found = f"AMoveBeginsATerm: {event.vertex} moved {self._moved[event.vertex]} times, terms {terms}"

    def look(self, world: PeerWorld) -> str:
        if self._found:
            return self._found
        coordinator = world.nodes[0].machine.coordinator if world.nodes[0].up else None
        moves = () if coordinator is None else coordinator.fleet.moves
        asked = Counter(move.vertex for move in moves if move.why == ASKED)
        for vertex, count in asked.items():
            if count > world.asked[vertex]:
                return f"OthersUndisturbed: {vertex} moved {count} times and was asked to {world.asked[vertex]} times"
        others = {move.vertex: move.why for move in moves if move.why != ASKED}
        if others and world.is_calm and not world.outcome.failed:
            return f"OthersUndisturbed: began again though nothing failed: {others}"
        for node in world.nodes:
            for instance in node.host.instances() if node.up else ():
                place = (instance.vertex, instance.term, node.number, node.boot)
                if self._running.setdefault(place, instance) is not instance:
                    return f"OthersUndisturbed: {instance.vertex} began twice under term {instance.term}"
        return ""


def every_checker() -> tuple[Checker, ...]:
    return (Positions(), RegionCut(), Numbers(), Promises(), Snapshots(), Terms(), Durable(), Undisturbed())
