"""Which operators a batch of a gather edge has met: one number that every node on its way can read.

Behind a gather there is often a run of filters and projections. They keep the numbers of the rows, so they can be
applied anywhere on the way: on the phone, on a node that passes rows on, or where the first vertex runs. A batch says
how far it has come by its stamp, which is 0 where nothing was applied and else the hash of the stamp before it and of
the operator. A node applies what follows a batch's stamp up to its own last operator. A batch that is further already
is passed on as it is. That one rule serves also after a phone has walked and its place in the plan has changed: what
it spooled under the old plan is neither filtered twice nor not at all.

Stamps hash what operators mean, not where they stand in a plan. When a query is edited, what the old and the new run
have in common goes on under the new one. What has met an operator that is no more finishes its *retired* run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import constant
from shared.errors import PeerError, UsageError
from shared.language.codecs import NONE
from shared.language.expressions import Binary, Column, Expression
from shared.language.schema import Schema, dtype
from shared.plan import operators as op
from shared.plan.cuts import region_vertices
from shared.plan.encoding import operator_identity
from shared.plan.fragments import Fragment, Input, Output, Vertex
from shared.plan.graph import Node, Plan
from shared.plan.stream_type import DEVICE, StreamType, without_device
from shared.spool.entry import SpooledBatch
from shared.wire import codecs
from shared.wire.columns import Cache

STAMP_BYTES = 4
CONDITIONS_MAX = 64  # of one filter, that may be applied in different places
UNTOUCHED = 0  # the stamp of rows as their device gathered them


def stamp_after(stamp: int, identity: str) -> int:
    """The stamp of a batch with this one, once an operator of this identity was applied."""
    data = stamp.to_bytes(STAMP_BYTES, "little") + identity.encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=STAMP_BYTES, person=b"resurge-stamp").digest(), "little")


@dataclass(frozen=True, slots=True)
class RunStage:
    """Rows between two operators of a run."""

    stamp: int
    node: int  # of the plan, whose output these rows are
    type: StreamType
    wire: Schema  # as they travel: the frame says which device
    adds_device: bool  # whose rows these are is a column that does not travel

    @property
    def schema(self) -> Schema:
        return self.type.schema


class Run:
    """The filters and projections right behind a gather, in order. Stage i is behind the first i of them."""

    def __init__(self, gather: str, begins: Input, nodes: Sequence[Node]) -> None:
        self.gather = gather
        self.nodes = tuple(nodes)
        stages = [RunStage(UNTOUCHED, begins.node, begins.type, without_device(begins.schema), True)]
        for node in nodes:
            before = stages[-1]
            adds = before.adds_device and _passes_device(node)
            stages.append(
                RunStage(
                    stamp_after(before.stamp, operator_identity(node.operator)), node.id, node.type,
                    without_device(node.schema) if adds else node.schema, adds,
                )
            )  # fmt: skip
        self.stages = tuple(stages)
        if len({stage.stamp for stage in stages}) < len(stages):
            raise UsageError(
                f"two places in the run of filters behind gather {gather!r} have the same stamp; write two of its "
                "filters as one",
                code="deployment-stamp",
            )
        self._places = {stage.stamp: place for place, stage in enumerate(stages)}
        self._working: dict[tuple[int, int], Pipeline] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def place(self, stamp: int) -> int | None:
        """How many of its operators a batch of this stamp has met; None: it is of another run."""
        return self._places.get(stamp)

    def apply(self, batch: Batch, start: int, stop: int, device: str) -> Batch:
        """The rows of stage `start` as those of stage `stop`. Their numbers stay, and the range that they cover."""
        first, last = self.stages[start], self.stages[stop]
        rows = batch
        if first.adds_device:
            columns = {DEVICE: constant(device, "str", len(batch)), **batch.columns}
            rows = replace(batch, schema=first.schema, columns={name: columns[name] for name in first.schema.names})
        if stop > start:
            out = self._pipeline(start, stop).push(self.gather, replace(rows, frontier_us=NO_FRONTIER))
            rows = Batch.joined([made for _, made in out]) if out else _nothing(last.schema)
        return Batch(
            last.schema, rows.columns, rows.time_us, rows.seq, batch.lo, batch.hi, batch.frontier_us, last.stamp
        )

    def travelling(self, batch: Batch, place: int) -> Batch:
        """Rows of a stage without what does not travel."""
        wire = self.stages[place].wire
        return replace(batch, schema=wire, columns={name: batch.columns[name] for name in wire.names})

    def _pipeline(self, start: int, stop: int) -> Pipeline:
        working = self._working.get((start, stop))
        if working is None:
            first, last = self.stages[start], self.stages[stop]
            working = self._working[start, stop] = Pipeline(
                Fragment(
                    f"run of {self.gather}", "region", (Input(self.gather, first.node, first.schema, first.type),),
                    self.nodes[start:stop], (Output(self.gather, last.node, "edge", last.schema),),
                )
            )  # fmt: skip
        return working


class Runs:
    """The run of a gather, and those it had before the query was edited. Hands batches from stage to stage."""

    def __init__(self, run: Run, retired: Sequence[Run] = ()) -> None:
        self.run = run
        self._retired = tuple(retired)
        for each in retired:
            if each.stages[-1].wire != run.stages[-1].wire:
                raise UsageError(
                    f"the edited query would get other columns from gather {run.gather!r} than what devices still hold "
                    "for it; give the edited query a new name",
                    code="deployment-retired",
                )
        _check_stamps([run, *retired])
        stages = [stage for each in (run, *retired) for stage in each.stages]
        if len({stage.wire for stage in stages}) > len(self.schemas()):
            raise UsageError(
                f"two sets of columns on the way behind gather {run.gather!r} have the same number; rename a column",
                code="deployment-stamp",
            )

    def __len__(self) -> int:
        return len(self.run)

    def schemas(self) -> dict[int, Schema]:
        """Every form in which its rows may travel, by number."""
        return {stage.wire.id: stage.wire for run in (*self._retired, self.run) for stage in run.stages}

    def stamps(self) -> set[int]:
        """Of batches that go on under the run as it is now."""
        return {stage.stamp for stage in self.run.stages}

    def forward(
        self, batch: SpooledBatch, upto: int, device: str, codec: str = NONE, cache: Cache | None = None
    ) -> SpooledBatch:
        """A batch as it leaves a node whose last operator is the one before stage `upto`: with what it lacks of them
        applied, packed so. One that has met more, or others, is passed on as it is."""
        place = self.run.place(batch.applied)
        if place is None or place >= upto:
            return batch
        rows = codecs.decode(
            batch.codec, batch.payload, self.run.stages[place].wire, lo=batch.lo, hi=batch.hi,
            frontier_us=batch.frontier_us,
        )  # fmt: skip
        rows = self.run.travelling(self.run.apply(rows, place, upto, device), upto)
        number, payload = codecs.encode(rows, codec, cache=cache)
        return replace(
            batch, rows=len(rows), schema_id=rows.schema.id, applied=rows.applied, codec=number, payload=payload
        )

    def wire_schema(self, stamp: int) -> Schema:
        """The columns of a batch with this stamp. PeerError: it is of no run of this gather."""
        run, place = self._found(stamp)
        return run.stages[place].wire

    def finish(self, batch: Batch, device: str) -> Batch:
        """A batch as the first vertex reads it: behind the whole run."""
        run, place = self._found(batch.applied)
        return run.apply(batch, place, len(run), device)

    def _found(self, stamp: int) -> tuple[Run, int]:
        for run in (self.run, *self._retired):
            place = run.place(stamp)
            if place is not None:
                return run, place
        raise PeerError(
            f"a batch of gather {self.run.gather!r} with stamp {stamp:08x}, which no run of this query has",
            code="hosting-stamp",
        )


def gather_run(vertices: Sequence[Vertex], gather: str) -> Run | None:
    """The run of a gather; None where nobody reads it. It ends where rows part, meet or leave: all of it is read by one
    vertex."""
    reading = [(vertex, entry) for vertex in vertices for entry in vertex.fragment.inputs if entry.name == gather]
    if not reading:
        return None
    vertex, entry = reading[0]
    nodes: list[Node] = []
    leaving = {output.node for output in vertex.fragment.outputs}
    last = entry.node
    while len(reading) == 1 and last not in leaving:
        readers = [node for node in vertex.operators if last in node.inputs]
        if len(readers) != 1 or not isinstance(readers[0].operator, op.Where | op.Select):
            break
        nodes += _apart(readers[0])
        last = readers[0].id
    return Run(gather, entry, nodes)


def _apart(node: Node) -> list[Node]:
    """A filter of several conditions as one filter for each: plans join filters that follow each other, and each may be
    applied somewhere else. The last one has the number of them all, the others have numbers that no plan has."""
    conditions = _conditions(node.operator.predicate) if isinstance(node.operator, op.Where) else []
    if len(conditions) < 2:
        return [node]
    numbers = [-1 - node.id * CONDITIONS_MAX - at for at in range(len(conditions) - 1)]
    return [
        replace(node, id=number, operator=op.Where(condition), inputs=inputs)
        for number, condition, inputs in zip(
            [*numbers, node.id], conditions, [node.inputs, *((number,) for number in numbers)], strict=True
        )
    ]


def _conditions(predicate: Expression) -> list[Expression]:
    """What must all hold, in order. Beyond a bound the rest stays together."""
    found: list[Expression] = []
    waiting = [predicate]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Binary) and each.operator == "and" and len(found) + len(waiting) + 2 <= CONDITIONS_MAX:
            waiting += [each.right, each.left]
        else:
            found.append(each)
    return found


def runs_of(plan: Plan, gather: str, retired: Sequence[Plan] = ()) -> Runs | None:
    """The runs behind a gather of a query, and behind what it was before."""
    run = gather_run(region_vertices(plan), gather)
    if run is None:
        return None
    found = [gather_run(region_vertices(each), gather) for each in retired]
    return Runs(run, [each for each in found if each is not None])


def without_run(vertex: Vertex, runs: Sequence[Run]) -> Vertex:
    """The vertex behind the runs of its gathers: what is left to do where it runs."""
    gone = {node.id for run in runs for node in run.nodes}
    ends = {run.gather: run.stages[-1] for run in runs}
    inputs = [
        Input(entry.name, ends[entry.name].node, ends[entry.name].schema, ends[entry.name].type)
        if entry.name in ends
        else entry
        for entry in vertex.fragment.inputs
    ]
    nodes = tuple(node for node in vertex.operators if node.id not in gone)
    return replace(vertex, fragment=replace(vertex.fragment, inputs=tuple(inputs), nodes=nodes))


def _check_stamps(runs: Sequence[Run]) -> None:
    """Two runs may share a stamp only as far as they share their operators."""
    behind: dict[int, list[str]] = {}
    for run in runs:
        identities = [operator_identity(node.operator) for node in run.nodes]
        for place, stage in enumerate(run.stages):
            if behind.setdefault(stage.stamp, identities[:place]) != identities[:place]:
                raise UsageError(
                    f"the old and the new run of gather {run.gather!r} have a stamp in common by chance; write two of "
                    "its filters as one",
                    code="deployment-stamp",
                )


def _passes_device(node: Node) -> bool:
    """Whether the device stands in its rows as it did before."""
    if isinstance(node.operator, op.Where):
        return True
    columns = dict(node.operator.columns) if isinstance(node.operator, op.Select) else {}
    return columns.get(DEVICE) == Column(DEVICE)


def _nothing(schema: Schema) -> Batch:
    none = np.empty(0, np.int64)
    return Batch(schema, {field.name: np.empty(0, dtype(field.kind)) for field in schema}, none, none, 0, 0)
