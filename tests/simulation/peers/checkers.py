"""Promises of several nodes that run one query, each looked at every few events. What breaks first is named.

They look at production hosts from outside, at the newest term of each vertex: what a node that was cut off still runs
under an older one is nobody's concern, as long as it changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np

from shared.batch import NO_FRONTIER
from shared.hosting.host import Host
from shared.hosting.instance import Instance, Made
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.messages import Committed, SinkTook
from shared.recovery.strategies.row import Include
from shared.sync.exchange import LogRecord
from shared.sync.session import GatewaySession
from shared.wire.frame import decode_one
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

    def noticed(self, node: SimulatedNode, event: object) -> None:
        """Its node may stop before anybody looks; its keepers have it all the same."""
        for instance in node.host.instances() if isinstance(event, Committed) else ():
            for label, at in instance.checkpoints.permanent.inputs.items():
                known = self._permanent.setdefault(label, {})
                known[instance.vertex] = max(at, known.get(instance.vertex, 0))

    def look(self, world: PeerWorld) -> str:
        instances = newest(world)
        for vertex, running in instances.items():
            for instance in running:
                for label, at in instance.checkpoints.permanent.inputs.items():
                    if instance.checkpoints.row.include is Include.NOTHING or instance.spec.placement.anew:
                        self._permanent.get(label, {}).pop(vertex, None)  # it begins with a loss that is said
                    elif not instance.failed:
                        # One that begins with an older snapshot finds out, and takes nothing; another is looked for.
                        known = self._permanent.setdefault(label, {})
                        known[vertex] = max(at, known.get(vertex, 0))
        for host in hosts(world):
            for maker, spec in host._makers.values():
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


class Numbers(Checker):
    """OneOutputPerNumber: a number of an edge means one row, whoever makes it and however often; a sink and every input
    take each number once, in order."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], str] = {}
        self._ends: dict[str, int] = {}
        self._found = ""

    def started(self, node: SimulatedNode) -> None:
        host = node.host
        for sink in host.sinks():
            if sink.taken < self._ends.get(sink.sink, 0):
                self._found = f"OneOutputPerNumber: {sink.sink} was at {self._ends}, and is at {sink.taken}"
            self._ends[sink.sink] = sink.taken
        host._put_out = partial(self._put_out, host._put_out)  # type: ignore[method-assign, assignment]

    def _put_out(self, put_out: object, instance: Instance, made: Made) -> None:
        if made.batch is not None:
            label = instance.spec.outputs[made.output].label
            columns = [made.batch.columns[name].tolist() for name in sorted(made.batch.columns)]
            rows = zip(made.batch.seq.tolist(), made.batch.time_us.tolist(), *columns, strict=True)
            for number, *values in rows:
                row = repr(values)  # a value may be not a number, which equals nothing
                if self._rows.setdefault((label, number), row) != row and not instance.lost:
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
        host = node.host
        host._put_out = partial(self._put_out, host._put_out)  # type: ignore[method-assign, assignment]

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
                if instance.checkpoints.pending and world.settings.settle_s:
                    return f"PendingDrains: {vertex} still has {instance.checkpoints.pending}"
        for node in world.nodes:
            if node.up and (broken := self._restored(node)):
                return broken
        return ""

    @staticmethod
    def _restored(node: SimulatedNode) -> str:
        specs = {spec.identity: spec for host in hosts(node.world) for spec in host._wiring.vertices}
        for kept in node.host._keeper.held():
            spec = specs.get(kept.identity)
            if spec is None:
                continue
            instance = Instance(spec, Random(0), KeptSnapshot.decode(kept.encode()))
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
        host.take = partial(self._take, host, host.take)  # type: ignore[method-assign, assignment]

    def _take(self, host: Host, take: object, session: GatewaySession, record: LogRecord) -> None:
        term = decode_one(record.frame, digest=record.digest)[0].term
        edges = [each.edge for instance in host.instances() for each in instance.spec.inputs.values()]
        edges += [edge for _, _, edge in host._wiring.sinks]
        for edge in edges:
            if edge.key == record.key and edge.carriers.get(session.device.hex()) != term:
                self._found = f"StaleTermChangesNothing: {edge.label} of term {term} was taken, it is {edge.carriers}"
        take(session, record)  # type: ignore[operator]

    def look(self, _world: PeerWorld) -> str:
        return self._found


class Durable(Checker):
    """KeptIsDurable: what a keeper has and what a sink took is on the disk as it would be after a crash."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], KeptSnapshot] = {}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            durable = node.disk.durable() if node.up else {}
            for kept in node.host._keeper.held() if node.up else ():
                if self._seen.get((node.number, kept.vertex)) is kept:
                    continue
                self._seen[node.number, kept.vertex] = kept
                if kept.encode() not in durable.values():
                    return (
                        f"KeptIsDurable: {node.name} has receipted a snapshot of {kept.vertex} that is not on its disk"
                    )
            for sink in node.host.sinks() if node.up else ():
                if sink._end > len(durable.get(sink.name, b"")):
                    return f"KeptIsDurable: {node.name} has taken {sink.taken} results, not all are on its disk"
        return ""


def every_checker() -> tuple[Checker, ...]:
    return (Positions(), Numbers(), Promises(), Snapshots(), Terms(), Durable())
