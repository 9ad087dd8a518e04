"""A fragment at work: rows and frontiers in by name, rows out by name, state as bytes.

One push runs to its end before it returns: first the rows go through every operator that reads them, then time moves.
Rows fed back into the fragment (a cycle) enter again before the next row does. Nothing here reads a clock or draws
lots, so the same pushes give the same rows, and a pipeline restored from bytes goes on as the one that wrote them.

The driver owns the order of pushes. On each input rows come in ascending number; which input comes first between two
frontiers does not matter to operators that merge `ordered`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.frontiers import Frontiers
from shared.engine.key_choice import Keep, KeyChoice
from shared.engine.lowering import Stage, stages
from shared.engine.merge import Regroup, Rekey
from shared.engine.operator import Operator
from shared.engine.rows import Constant, Progress, Rows, as_batch, one_by_one
from shared.engine.snapshots import Value, decode_state, encode_state
from shared.errors import DamagedData, UsageError
from shared.plan.fragments import Fragment, Input, Output, Vertex
from shared.plan.operators import DEVICE

FEEDBACK_ROUNDS_MAX = 10_000
_STATE = "pipeline"

Outputs: TypeAlias = list[tuple[str, Batch]]  # by output name


class Pipeline:
    """Runs a fragment, or a vertex of one. `device` is what the constant column says on a device's own streams."""

    def __init__(self, fragment: Fragment | Vertex, *, device: str = "") -> None:
        self._vertex = isinstance(fragment, Vertex)
        self.fragment = fragment.fragment if isinstance(fragment, Vertex) else fragment
        self.device = device
        self._device_column = Constant(device, "str")
        found, needed, replaced_by = stages(self.fragment)
        self._stages = found
        self._operators: list[Operator] = [stage.operator for stage in found]
        self._readers: dict[int, list[tuple[Stage, int]]] = {}  # node -> who reads it, and through which port
        for stage in found:
            for port, number in enumerate(stage.inputs):
                self._readers.setdefault(number, []).append((stage, port))
        self._leaving: dict[int, list[Output]] = {}
        for output in self.fragment.outputs:
            self._leaving.setdefault(replaced_by.get(output.node, output.node), []).append(output)
        self._columns = {output.name: list(output.schema.names) for output in self.fragment.outputs}
        self._inputs = {entry.name: entry for entry in self.fragment.inputs}
        self._brings_device = {entry.name: DEVICE in entry.schema for entry in self.fragment.inputs}
        self._adds_device = {
            entry.name: DEVICE not in entry.schema and DEVICE in needed[entry.node] for entry in self.fragment.inputs
        }
        fed = {output.name for output in self.fragment.outputs if output.kind == "feed"}
        # Within one fragment a cycle closes here; between epochs of a vertex its driver closes it.
        self._cycles = frozenset() if self._vertex else fed & set(self._inputs)
        self._fed: deque[tuple[str, Rows]] = deque()
        self._news: dict[str, Frontiers] = {}  # per output, since it was last taken
        self._frontiers: dict[str, int] = {output.name: NO_FRONTIER for output in self.fragment.outputs}
        self._floors = {entry.name: NO_FRONTIER for entry in self.fragment.inputs if entry.name not in self._cycles}
        for name in sorted(self._cycles):  # a feedback edge holds nothing back
            self._pass(self._inputs[name].node, Progress(END_OF_TIME), [])

    # -- rows and time -------------------------------------------------------------------------------------------

    def push(self, input_name: str, batch: Batch) -> Outputs:
        """Rows into an input, and the frontier the batch carries; what comes out, by output name."""
        entry = self._entry(input_name)
        columns = batch.columns
        if self._adds_device[input_name]:
            columns = {**columns, DEVICE: self._device_column.column(len(batch.seq))}
        rows = Rows(columns, batch.time_us, batch.seq, batch.lo, batch.hi)
        progress = None
        if batch.frontier_us > NO_FRONTIER:
            devices = columns.get(DEVICE) if self._brings_device[input_name] else None
            progress = self._progress(batch.frontier_us, devices)
        return self._run(entry, rows, progress)

    def advance(self, input_name: str, frontier_us: int, device: str | None = None) -> Outputs:
        """No earlier row follows on this input: of this device, or of any."""
        devices = {} if device is None else {device: frontier_us}
        progress = Progress(NO_FRONTIER if device is not None else frontier_us, devices)
        return self._run(self._entry(input_name), None, progress)

    def advance_devices(self, input_name: str, frontiers_us: Mapping[str, int]) -> Outputs:
        """The frontiers of many devices at once; far cheaper than one by one."""
        return self._run(self._entry(input_name), None, Progress(NO_FRONTIER, dict(frontiers_us)))

    def advance_by(self, input_name: str, progress: Progress) -> Outputs:
        """Time moves as another vertex's `take_progress` said."""
        return self._run(self._entry(input_name), None, progress)

    def take_progress(self, output_name: str) -> Progress:
        """How far time has come on an output since this was last asked; what another vertex's `advance_by` wants."""
        news = self._news.pop(output_name, Frontiers())
        return Progress(news.floor_us, news.devices, news.complete_us)

    def frontier_us(self, output_name: str) -> int:
        """No earlier row follows on this output, of any device."""
        return self._frontiers[output_name]

    def late(self) -> dict[int, int]:
        """How many rows came too late for an operator to take, by its node."""
        return {stage.node: stage.operator.late_dropped for stage in self._stages if stage.operator.late_dropped}

    def forget_late(self) -> None:
        """Somebody else goes on with the count of late rows so far."""
        for operator in self._operators:
            operator.late_dropped = 0

    def _entry(self, name: str) -> Input:
        entry = self._inputs.get(name)
        if entry is None:
            raise UsageError(
                f"{self.fragment.name!r} has no input {name!r} (has: {', '.join(self._inputs)})", code="pipeline-input"
            )
        return entry

    @staticmethod
    def _progress(frontier_us: int, devices: np.ndarray | None) -> Progress:
        if devices is None:
            return Progress(frontier_us)
        names = [devices[0]] if len(devices) and devices.strides == (0,) else dict.fromkeys(devices.tolist())
        return Progress(NO_FRONTIER, dict.fromkeys(names, frontier_us))

    def _run(self, entry: Input, rows: Rows | None, progress: Progress | None) -> Outputs:
        out: list[tuple[Output, Rows]] = []
        if progress is not None and progress.floor_us > self._floors.get(entry.name, END_OF_TIME):
            self._floors[entry.name] = progress.floor_us
        with np.errstate(all="ignore"):
            if rows is not None and self._cycles:
                for row in one_by_one(rows):  # each goes round before the next one enters, however rows were batched
                    self._flow(entry.node, row, out)
                    self._go_round(out)
            elif rows is not None:
                self._flow(entry.node, rows, out)
            if progress is not None:
                self._pass(entry.node, progress, out)
                if self._cycles:
                    self._go_round(out)
        return [
            (output.name, as_batch(each, output.schema, self._columns[output.name], self._frontiers[output.name]))
            for output, each in out
        ]

    def _go_round(self, out: list[tuple[Output, Rows]]) -> None:
        """Rows fed back enter again, until none is."""
        rounds = 0
        while self._fed:
            name, fed = self._fed.popleft()
            rounds += 1
            if rounds > FEEDBACK_ROUNDS_MAX:
                raise UsageError(
                    f"rows went round the cycle {name!r} {FEEDBACK_ROUNDS_MAX} times in one push; let a filter in the "
                    "cycle end",
                    code="engine-cycle",
                )
            self._flow(self._inputs[name].node, fed, out)

    def _flow(self, node: int, rows: Rows, out: list[tuple[Output, Rows]]) -> None:
        for output in self._leaving.get(node, ()):
            if output.name in self._cycles:
                if len(rows.time):
                    self._feed(output, rows)
            elif len(rows.time) or rows.hi > rows.lo:
                out.append((output, rows))
        for stage, port in self._readers.get(node, ()):
            for result in stage.operator.push(port, rows):
                self._flow(stage.node, result, out)

    def _pass(self, node: int, progress: Progress, out: list[tuple[Output, Rows]]) -> None:
        for output in self._leaving.get(node, ()):
            self._frontiers[output.name] = max(self._frontiers[output.name], progress.floor_us)
            if output.kind == "edge":
                self._news.setdefault(output.name, Frontiers()).advance(progress)
        for stage, port in self._readers.get(node, ()):
            runs, news = stage.operator.advance(port, progress)
            for rows in runs:
                self._flow(stage.node, rows, out)
            if news is not None:
                self._pass(stage.node, news, out)

    def _feed(self, output: Output, rows: Rows) -> None:
        """Rows that will enter again, not before the frontier; after the end of time nothing enters."""
        floor = min(self._floors.values(), default=NO_FRONTIER)
        if floor < END_OF_TIME:
            raised = Rows(rows.columns, np.maximum(rows.time, floor), rows.seq, rows.lo, rows.hi)
            self._fed.append((output.name, raised))

    # -- state ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state, as versioned bytes."""
        return self._encoded([one.dump() for one in self._operators])

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot. DamagedData where it is not whole, or of a pipeline of another shape."""
        states = self._checked(decode_state(state))
        for operator, dumped in zip(self._operators, states, strict=True):
            operator.load(dumped)

    def changes_since_snapshot(self) -> bytes:
        """What changed since the state was last handed out or put back, by `snapshot`, this call, or their reverses."""
        return self._encoded([one.changes() for one in self._operators])

    def piece(self, part: int, parts: int) -> bytes:
        """The changes since the state was last handed out or put back, and one part of so many of all the rest."""
        for operator in self._operators:
            operator.say_again(part, parts)
        return self.changes_since_snapshot()

    def apply_changes(self, changes: bytes) -> None:
        """Catch up by one change set; they must come in the order they were made, onto the state they were made on. One
        that is a piece may be the first that a fresh pipeline gets, if it is the first part and the others follow."""
        states = self._checked(decode_state(changes))
        for operator, changed in zip(self._operators, states, strict=True):
            operator.apply(changed)

    def retain(self, columns: tuple[str, ...], keep: Keep) -> None:
        """Forget the state of every key whose values of these columns are not kept. The next change set would not say
        what went: hand out a whole snapshot instead."""
        for operator in self._operators:
            operator.retain(KeyChoice(columns, keep))

    def leave(self, left: Mapping[str, int], returned: Iterable[str]) -> None:
        """Devices that left for good at these times are waited for no more where devices meet; those are back."""
        for operator in self._meetings():
            operator.leave(left, returned)

    def missing(self, most: int) -> list[str]:
        """The devices that some closed window went out without, in order, so many at most."""
        return sorted({name for operator in self._meetings() for name in operator.missing(most)})[:most]

    def first_row_us(self, device: str) -> int | None:
        """The time of the device's first row where devices meet; None when no row of it came there."""
        found = (operator.active.first_row_us(device) for operator in self._meetings())
        return min((at for at in found if at is not None), default=None)

    def _meetings(self) -> list[Rekey]:
        return [operator for operator in self._operators if isinstance(operator, Rekey)]

    def distinct_keys(self, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
        """The different values of these columns among all keys that have state, in order of arrival."""
        return list(dict.fromkeys(key for operator in self._operators for key in operator.distinct_keys(columns)))

    def _encoded(self, states: list[Value]) -> bytes:
        return encode_state([_STATE, self._shape(), [dict(self._frontiers), dict(self._floors)], states])

    def _shape(self) -> list[str]:
        """What ran, by class: it stands in snapshots, so a class of an operator keeps its name."""
        return [type(operator).__name__ for operator in self._operators]

    def _checked(self, state: Value) -> list[Value]:
        match state:
            case [str(kind), list(shape), [dict(frontiers), dict(floors)], list(states)]:
                own = self._shape()
                if kind == _STATE and shape == [name for name in own if name != Regroup.__name__]:
                    # Written before rows of a device's several keys were put in order: nothing waits there.
                    rest = iter(states)
                    shape, states = own, [None if name == Regroup.__name__ else next(rest) for name in own]
                if kind == _STATE and shape == own:
                    self._frontiers.update(frontiers)
                    self._floors.update(floors)
                    return states
        raise DamagedData(
            f"the snapshot is of another plan than {self.fragment.name!r}; restore it with the plan that wrote it",
            code="snapshot-plan",
        )
