"""A vertex at work on a node: numbered batches in, numbered batches out, and snapshots as its strategy's row says.

Everything it does follows from what it takes: rows enter the pipeline in an order of their own (`ordered_input`), and
each output counts its rows. So an instance restored from a snapshot makes the same elements under the same numbers,
whoever runs it and however its input was cut.

Where marks are aligned, an input whose mark came early waits: what comes behind the mark is put aside, and goes on when
the vertex was frozen. Inputs on a cycle go on; what they bring meanwhile is recorded beside the snapshot, and taken
first by whoever begins with it.

An operator is somebody's code. What it raises is this instance's failure and nobody else's: it takes nothing more, its
positions stay where they are, and somebody who sees all of the fleet decides what becomes of it.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

import numpy as np

from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.snapshots import Value, decode_state, encode_state
from shared.errors import DamagedData
from shared.hosting.initiators import cut_initiator, initiator_text
from shared.hosting.kept_snapshot import STATES_MAX, KeptSnapshot
from shared.hosting.ordered_input import OrderedEdge, OrderedInput
from shared.hosting.wiring import EdgeSpec, VertexSpec
from shared.identity import EdgeId
from shared.language.codecs import NONE
from shared.language.schema import Schema, dtype
from shared.recovery.checkpoints import Checkpoints, Permanent, Store
from shared.recovery.marks import Answer, Covered, Freeze, Hold, Mark, MarkId
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.spool.entry import SpooledBatch
from shared.wire import codecs

HELD_BYTES_MAX = 16 << 20  # rows that wait for another input; beyond it nothing more is taken of theirs
# As its node says of it in a STATUS.
STARTING, RUNNING, FAILED, LOST, BEHIND = "starting", "running", "failed", "lost", "behind"
RECORDED = "recorded "  # before the label of an input, in a kept snapshot: what belongs to it besides the state


@dataclass(frozen=True, slots=True)
class Rows:
    """The next batch of an input, and how many bytes it came in."""

    batch: Batch
    size: int


@dataclass(frozen=True, slots=True)
class Time:
    """No earlier element follows on an input."""

    frontier_us: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A tombstone in the place of elements. `forgotten`: who made them had them once."""

    hi: int
    forgotten: bool


Item: TypeAlias = Rows | Time | Gone | Mark


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that leave by an output, under their numbers; or time that has moved on it."""

    output: str
    batch: Batch | None
    frontier_us: int


@dataclass(frozen=True, slots=True)
class MarkToSend:
    output: str
    mark: Mark


class Instance:
    """One vertex of one query, under one term."""

    def __init__(self, spec: VertexSpec, random: Random, kept: KeptSnapshot | None = None) -> None:
        self.spec = spec
        self.query, self.vertex, self.term = spec.query.name, spec.vertex.name, spec.placement.term
        self.failed = ""
        self.unstored = ""  # why its keepers have not got its newest snapshot, where they cannot
        self.restored = kept  # until it was sent to its keepers
        self._from_nothing = kept is None
        # Until its keepers have it, no one may forget what it stands for.
        self.unkept = kept is not None and kept.permanent.id is not None
        self.offered_to = ""  # the node that its state is handed over to
        self.offered: int | None = None  # how much of its inputs that state has read
        self.permanent_bytes: int | None = None  # of its last permanent snapshot, once its keepers have it
        self.by_changes = False  # who keeps its snapshots has the last one, and takes what changed since
        self.behind = False  # it began with an older snapshot than its neighbours rely on
        self._heard_of: set[str] = set()  # inputs that have gone on from where it began
        self._pipeline = Pipeline(spec.rest)
        # Rows that are merged in the order in which they are pushed may wait for the frontier before that. So that
        # nothing depends on the steps in which time moved, it then moves before every row.
        self._moment_by_moment = spec.vertex.merge != "ordered"
        self._input = OrderedInput(
            {label: OrderedEdge(each.input, each.delay_us) for label, each in spec.inputs.items()},
            interleaved=self._moment_by_moment,
        )
        self.taken = dict.fromkeys(spec.inputs, 0)
        self._held: dict[str, MarkId] = {}  # inputs that wait, and for which snapshot
        self._waiting: dict[str, deque[Item]] = {label: deque() for label in spec.inputs}
        self._waiting_bytes = 0
        self._recorded: dict[MarkId, dict[str, list[SpooledBatch]]] = {}
        self.heads = dict.fromkeys(spec.outputs, 0)  # by output name
        self.frontiers = dict.fromkeys(spec.outputs, NO_FRONTIER)  # that its outputs have promised
        self._frozen: dict[MarkId, tuple[Permanent, tuple[bytes, ...]]] = {}
        self._states: tuple[bytes, ...] = ()  # what the newest frozen one is restored from: a whole state, then changes
        self._labels = {name: edge.label for name, edge in spec.outputs.items()}
        self._names = {label: name for name, label in self._labels.items()}
        self._schemas = {label: _empty(each.pushed_schema) for label, each in spec.inputs.items()}
        self.lost = 0  # elements of its inputs that came as tombstones
        if kept is not None:
            self._restore(kept)
        self.checkpoints = Checkpoints(
            STRATEGIES[spec.query.row].row,
            tuple(spec.inputs),
            tuple(edge.label for edge in spec.outputs.values() if edge.readers),
            spec.back,
            spec.query.every,
            name=f"{self.query}/{self.vertex}",
            random=random,
            term=self.term,
            permanent=None if kept is None else self._adopted(kept.permanent),
            initiator=initiator_text(f"{self.query}/{self.vertex}@{self.term}"),
            void=spec.query.cuts.begun,
        )

    def _adopted(self, permanent: Permanent) -> Permanent:
        """The positions of a kept snapshot for the edges there are now: a source may be new, another gone."""
        labels = [edge.label for edge in self.spec.outputs.values() if edge.readers]
        return Permanent(
            permanent.id,
            {label: permanent.inputs.get(label, 0) for label in self.spec.inputs},
            {label: permanent.heads.get(label, 0) for label in labels},
            {label: permanent.starts.get(label, permanent.heads.get(label, 0)) for label in labels},
            permanent.recorded,
        )

    # --- what it takes -------------------------------------------------------------------------------------------

    def take(self, label: str, batch: Batch, size: int) -> list[Made | Freeze]:
        """The next batch of an input. What it makes, and whether to freeze behind it."""
        spec = self.spec.inputs[label]
        if spec.runs is not None and spec.device is not None:
            batch = spec.runs.finish(batch, spec.device)
        self.taken[label] = batch.hi
        self._record(label, batch)
        self._input.take(label, batch)
        made: list[Made | Freeze] = [*self._run()]
        freeze = self.checkpoints.elements(batch.hi - batch.lo, edge=label, size=size)
        return made if freeze is None else [*made, freeze]

    def lose(self, label: str, hi: int, *, forgotten: bool) -> Freeze | None:
        """A tombstone in the place of elements: nothing of them comes. Before the first element that is no loss: a
        region that begins from nothing begins with what there is, and so does a query on another's edge."""
        count = hi - self.taken[label]
        self.lost += 0 if self.begins_with(label, forgotten=forgotten) else count
        self.taken[label] = hi
        return self.checkpoints.elements(count, edge=label)

    def advance(self, label: str, frontier_us: int) -> list[Made]:
        """Time has moved on an input, without rows."""
        self._input.advance(label, frontier_us)
        return self._run()

    def mark(self, label: str, mark: Mark) -> Answer:
        if self.of_region and mark.id.initiator != cut_initiator(self.query, self.spec.query.incarnation):
            return Covered()  # of the region that the rows come from
        answer = self.checkpoints.mark(label, mark)
        if isinstance(answer, Hold):  # those that wait for an earlier snapshot wait in vain
            self._held = {other: id for other, id in self._held.items() if id == mark.id} | {label: mark.id}
        return answer

    def arrived(self, label: str) -> int:
        """Up to where an input has come: taken, or waiting behind a mark."""
        ends = [each for each in self._waiting[label] if isinstance(each, Rows | Gone)]
        if not ends:
            return self.taken[label]
        return ends[-1].batch.hi if isinstance(ends[-1], Rows) else ends[-1].hi

    def waits(self, label: str) -> bool:
        """Whether what comes on an input is put aside."""
        return label in self._held or bool(self._waiting[label])

    def put_aside(self, label: str, item: Item) -> None:
        self._waiting[label].append(item)
        self._waiting_bytes += item.size if isinstance(item, Rows) else 0

    @property
    def resumes(self) -> bool:
        """Whether something that was put aside may go on."""
        return any(items and label not in self._held for label, items in self._waiting.items())

    def next_waiting(self) -> tuple[str, Item] | None:
        """What was put aside and may go on."""
        for label, items in self._waiting.items():
            if items and label not in self._held:
                item = items.popleft()
                self._waiting_bytes -= item.size if isinstance(item, Rows) else 0
                return label, item
        return None

    def _record(self, label: str, batch: Batch) -> None:
        for id, recorded in self._recorded.items():
            pending = self.checkpoints.find(id)
            if pending is not None and label in pending.recording:
                codec, payload = codecs.encode(batch, NONE)
                recorded.setdefault(label, []).append(
                    SpooledBatch(
                        self.spec.inputs[label].edge.key.edge, batch.lo, batch.hi, len(batch), batch.schema.id, 0,
                        batch.frontier_us, codec, payload,
                    )
                )  # fmt: skip

    def recorded(self) -> list[tuple[str, Rows]]:
        """What belongs to the snapshot that it began with, to be taken before anything else."""
        found: list[tuple[str, Rows]] = []
        for name, batches in () if self.restored is None else self.restored.ranges.items():
            label = name.removeprefix(RECORDED)
            if name.startswith(RECORDED) and label in self.spec.inputs:
                schema = self.spec.inputs[label].edge.schema
                found += [
                    (
                        label,
                        Rows(
                            codecs.decode(
                                each.codec, each.payload, schema, lo=each.lo, hi=each.hi, frontier_us=each.frontier_us
                            ),
                            len(each.payload),
                        ),
                    )
                    for each in batches
                ]
        return found

    def _run(self) -> list[Made]:
        runs, floor_us = self._input.release()
        out: list[tuple[str, Batch]] = []
        for name, batch in runs:
            if self._moment_by_moment:
                for rows in _moments(batch):
                    out += self._advanced(int(rows.time_us[0])) + self._pipeline.push(name, rows)
            else:
                out += self._pipeline.push(name, batch)
        if floor_us > NO_FRONTIER:
            out += self._advanced(floor_us)
        return self._numbered(out)

    def _advanced(self, frontier_us: int) -> list[tuple[str, Batch]]:
        return [each for name in self._input.inputs() for each in self._pipeline.advance(name, frontier_us)]

    def _numbered(self, out: list[tuple[str, Batch]]) -> list[Made]:
        made: list[Made] = []
        for name in self.spec.outputs:
            mine = [batch for output, batch in out if output == name and len(batch)]
            frontier_us = self._pipeline.frontier_us(name)
            moved = frontier_us > self.frontiers[name]
            self.frontiers[name] = max(frontier_us, self.frontiers[name])
            if mine:
                batch = Batch.renumbered(mine, self.heads[name])
                self.heads[name] = batch.hi
                made.append(Made(name, replace(batch, frontier_us=self.frontiers[name]), self.frontiers[name]))
            elif moved:
                made.append(Made(name, None, frontier_us))
        return made

    # --- snapshots -----------------------------------------------------------------------------------------------

    def freeze(self, freeze: Freeze) -> list[MarkToSend]:
        """Keep the state as it is now, under this id; the marks that follow from it."""
        state = self._snapshot()
        heads = {self._labels[name]: head for name, head in self.heads.items()}
        self._frozen[freeze.id] = (Permanent(freeze.id, dict(self.taken), heads, heads), self._states)
        self._held = {label: id for label, id in self._held.items() if id != freeze.id}
        if freeze.record:
            self._recorded[freeze.id] = {}
        marks = self.checkpoints.froze(freeze.id, self.taken, heads, len(state))
        return [MarkToSend(self._names[label], mark) for label, mark in marks]

    def kept(self, store: Store, ranges: Callable[[str, int, int], list[SpooledBatch]]) -> KeptSnapshot:
        """The snapshot of this id as its keepers shall have it. `ranges` copies [lo, hi) of an output."""
        permanent, (*onto, state) = self._frozen[store.id]
        starts = dict(permanent.heads) | {label: lo for label, (lo, _) in store.extension.items()}
        batches = {label: ranges(self._names[label], lo, hi) for label, (lo, hi) in store.extension.items()}
        batches |= {RECORDED + label: each for label, each in self._recorded.get(store.id, {}).items()}
        whole = replace(permanent, starts=starts, recorded=dict(store.recorded))
        name, incarnation, vertex = self.spec.identity
        return KeptSnapshot(name, incarnation, vertex, self.term, whole, state, batches, tuple(onto))

    def whole(self, kept: KeptSnapshot) -> KeptSnapshot:
        """The same snapshot of this vertex by itself, of one that builds on others."""
        pipeline = Pipeline(self.spec.rest)
        rest = _put_back(pipeline, kept)
        return replace(kept, state=encode_state([pipeline.snapshot(), *rest]), onto=())

    def forget_frozen(self) -> None:
        """Let go of states that are permanent now, or were passed over."""
        pending = set(self.checkpoints.pending)
        self._frozen = {id: frozen for id, frozen in self._frozen.items() if id in pending}
        self._recorded = {id: recorded for id, recorded in self._recorded.items() if id in pending}

    @property
    def frozen_bytes(self) -> int:
        return sum(len(states[-1]) for _, states in self._frozen.values())

    def confirm(self, label: str) -> None:
        """An input goes on from where this instance is: what it began with is new enough for it."""
        self._heard_of.add(label)

    @property
    def confirmed(self) -> bool:
        """Whether its snapshots may take the place of those of earlier terms. Until all inputs have gone on it may have
        begun with less than they rely on, and would write over the only copy that is new enough."""
        return self.term == 1 or self._heard_of >= self.spec.inputs.keys()

    def begins_with(self, label: str, *, forgotten: bool) -> bool:
        """Whether the first element of an input is still to come, and may have any number."""
        if self.taken[label]:
            return False
        # What a query's others have read before it was there was not kept for it. One that began again with nothing
        # cannot tell that from what it lost, so it says that.
        query = self.spec.query
        first = self.term == (query.incarnation if query.submitted else 1)
        joins = query.shared is not None and (first or not self._from_nothing)
        # Nor was what came into a region before it began. Its first term is its incarnation; under a later one an
        # empty beginning, or a snapshot from before the first element, may be too old.
        begins = bool(query.members) and self.term == query.incarnation and self._from_nothing
        return (self.of_region and self._from_nothing) or ((joins or begins) and forgotten)

    @property
    def of_region(self) -> bool:
        """Whether it goes back only with all of its region."""
        return self.checkpoints.row.of_region

    def rewire(self, spec: VertexSpec) -> None:
        """The same vertex under the same term, with other readers. What had arrived of a source that is no more still
        counts; nobody waits for more of it."""
        for label in self.spec.inputs.keys() - spec.inputs.keys():
            self._input.advance(label, END_OF_TIME)
        self.checkpoints.inputs = tuple(label for label in self.checkpoints.inputs if label in spec.inputs)
        self.spec = spec

    @property
    def edges(self) -> tuple[EdgeId, ...]:
        """That it makes."""
        return tuple(edge.key.edge for edge in self.spec.outputs.values())

    def frontier_us(self, spec: EdgeSpec) -> int:
        """No earlier element follows on one of its outputs."""
        return self.frontiers[self._names[spec.label]]

    def full(self, label: str) -> bool:
        """Whether an input should wait. The one that the others wait for never should."""
        if self.waits(label):
            return self._waiting_bytes > HELD_BYTES_MAX
        return self._input.held_bytes > HELD_BYTES_MAX and self._input.ahead(label)

    @property
    def keeps_state(self) -> bool:
        return self.checkpoints.row.include is not Include.NOTHING

    def _snapshot(self) -> bytes:
        """The state as it is now: what changed since the last one that was frozen, while such changes are less than all
        of it."""
        whole, *changes = self._states or (b"",)
        goes_on = self.by_changes and sum(map(len, changes)) < len(whole) and len(self._states) < STATES_MAX
        pipeline = self._pipeline.changes_since_snapshot() if goes_on else self._pipeline.snapshot()
        state = encode_state([pipeline, self._input.dump(), dict(self.heads), dict(self.frontiers), self.lost])
        self._states = (*self._states, state) if goes_on else (state,)
        return state

    def _restore(self, kept: KeptSnapshot) -> None:
        held, heads, frontiers, self.lost = _put_back(self._pipeline, kept)
        self._input.load(held, self._schemas)
        self.heads.update(heads)
        self.frontiers.update(frontiers)
        self.taken.update({label: at for label, at in kept.permanent.inputs.items() if label in self.taken})


def _put_back(pipeline: Pipeline, kept: KeptSnapshot) -> list[Value]:
    """Bring a fresh pipeline to where a snapshot was taken. Returns what else belongs to the vertex then: rows that
    wait, heads, frontiers, how much was lost."""
    rest: list[Value] = []
    for place, state in enumerate(kept.states):
        match decode_state(state):
            case [bytes(said), held, dict(heads), dict(frontiers), int(lost)]:
                (pipeline.apply_changes if place else pipeline.restore)(said)
                rest = [held, heads, frontiers, lost]
            case _:
                raise DamagedData("the state of a kept snapshot is of another form", code="snapshot-kept")
    return rest


def _moments(batch: Batch) -> Iterator[Batch]:
    """The rows of each time by themselves, of a batch in order of time."""
    cuts = [0, *(np.flatnonzero(np.diff(batch.time_us)) + 1).tolist(), len(batch)]
    for start, stop in itertools.pairwise(cuts):
        rows = batch.take(np.arange(start, stop))
        yield replace(rows, lo=int(rows.seq[0]), hi=int(rows.seq[-1]) + 1)


def _empty(schema: Schema) -> Batch:
    none = np.empty(0, np.int64)
    columns: Mapping[str, np.ndarray] = {field.name: np.empty(0, dtype(field.kind)) for field in schema}
    return Batch(schema, columns, none, none, 0, 0)
