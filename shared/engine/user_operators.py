"""Users' operator types at work: functions of rows, of windows, and machines with a state for each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from shared.batch import END_OF_TIME
from shared.engine.frame_rows import FrameRows
from shared.engine.keyed_state import TwoInputs
from shared.engine.keys import KeyIndex
from shared.engine.operator import Operator, Use, key_of
from shared.engine.pools import Applied
from shared.engine.row_aggregates import Window
from shared.engine.rows import Numbering, Progress, Rows, read_only, take
from shared.engine.snapshots import Value
from shared.engine.windows import windows_over
from shared.errors import UsageError
from shared.language.expressions import TIME
from shared.language.registry import (
    FRAME,
    IN,
    PLAIN,
    HoldingMachine,
    Named,
    OperatorMachine,
    OperatorType,
    operator_type,
)
from shared.language.schema import Schema, dtype
from shared.language.values import column_of
from shared.plan.operators import DEVICE, Apply, Port


class PortRows(Rows):
    """Rows of one output port of an operator type that has several."""

    __slots__ = ("port",)

    def __init__(self, columns: dict[str, np.ndarray], time: np.ndarray, port: str) -> None:
        super().__init__(columns, time, np.zeros(len(time), np.int64), 0, 0)
        self.port = port


class PortFilter(Operator):
    """The rows of one output port, numbered by themselves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbering = Numbering()

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if isinstance(rows, PortRows) and rows.port == self.name:
            return [self.numbering.rows(rows.columns, rows.time)]
        return []

    def dump(self) -> Value:
        return self.numbering.next

    def load(self, state: Value) -> None:
        self.numbering.next = state

    def changes(self) -> Value:
        return self.dump()

    def apply(self, changes: Value) -> None:
        self.load(changes)


def window_function(operator: Apply) -> Applied:
    """A registered function of one window's rows, as windows take it."""
    kind = operator_type(operator.operator, operator.operator_version)
    names = kind.inputs[0][1].names
    fields = kind.outputs[0][1].fields
    parameters = dict(operator.parameters)
    named = Named(kind)

    def answer(window: Window) -> tuple[object, ...]:
        given = read_only({name: window[name] for name in (*names, TIME)})
        with named:
            row = kind.implementation(given, **parameters)
        return tuple(checked(kind, row, kind.outputs[0][1]).values())

    return answer, names, fields


def checked(kind: OperatorType, row: object, schema: Schema) -> dict[str, object]:
    """A user's output row with exactly the columns it declared."""
    if not isinstance(row, Mapping) or any(name not in row for name in schema.names):
        raise UsageError(
            f"operator type {kind.name!r} gave {row!r}; expected a dict with {', '.join(schema.names)}",
            code="operator-output",
        )
    return {name: row[name] for name in schema.names}


class RowsFunction(TwoInputs):
    """A function of columns, elementwise. With a config stream, parameters change between runs of rows."""

    def __init__(self, operator: Apply, key: KeyIndex, kept: tuple[str, ...]) -> None:
        super().__init__(2 if operator.config else 1, key)
        self.kept = kept
        self.kind = operator_type(operator.operator, operator.operator_version)
        self.named = Named(self.kind)
        self.names = self.kind.inputs[0][1].names
        self.config = operator.config
        self.defaults = dict(operator.parameters)

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not self.config:
            return [self._computed(rows, self.defaults)]
        self.held[port].hold(port, rows)
        return self.passed_by(rows)

    def passed(self, progress: Progress) -> list[Rows]:
        out = []
        for port, rows in self.merged() if self.config else ():
            keys = self.key.numbers(rows.columns, len(rows))
            if port:
                set_parameters(self, keys, rows, self.defaults)
                continue
            for number in np.unique(keys).tolist():
                mine = rows.take(np.flatnonzero(keys == number)) if len(self.key) > 1 else rows
                done = self._computed(mine, self.states.get(number, self.defaults))
                out.append(self.numbering.rows(done.columns, done.time))
        return out

    def _computed(self, rows: Rows, parameters: Mapping[str, object]) -> Rows:
        columns = {name: rows.columns[name] for name in self.kept}
        schema = self.kind.outputs[0][1]
        if len(rows) and self.kind.form in PLAIN:
            with self.named:
                columns.update(each_row(self.kind, rows, parameters))
        elif len(rows):
            given = read_only({**{name: rows.columns[name] for name in self.names}, TIME: rows.time})
            with self.named:
                answer = self.kind.implementation(given, **parameters)
            made = checked(self.kind, answer, schema)
            for column in schema:
                values = np.asarray(made[column.name], dtype(column.kind))
                if values.shape != (len(rows),):
                    raise UsageError(
                        f"operator type {self.kind.name!r} gave {values.shape} values of {column.name!r} for "
                        f"{len(rows)} rows; expected one each",
                        code="operator-output",
                    )
                columns[column.name] = values
        else:
            columns.update((column.name, np.empty(0, dtype(column.kind))) for column in schema)
        return Rows(columns, rows.time, rows.seq, rows.lo, rows.hi)


def each_row(kind: OperatorType, rows: Rows, parameters: Mapping[str, object]) -> dict[str, np.ndarray]:
    """What a plain function gives for each row, called with Python's own values."""
    schema = kind.outputs[0][1]
    given = [(rows.time if name == TIME else rows.columns[name]).tolist() for name in kind.arguments]
    function = kind.implementation
    if not given:
        answers: list[object] = [function(**parameters) for _ in range(len(rows))]
    elif parameters:
        answers = [function(*values, **parameters) for values in zip(*given, strict=True)]
    else:
        answers = list(map(function, *given))
    where = f"what {kind.name!r} gives"
    if kind.form == "scalar":
        (only,) = schema
        return {only.name: column_of(answers, only.kind, column=only.name, where=where, code="operator-output")}
    records = [checked(kind, answer, schema) for answer in answers]
    return {
        column.name: column_of(
            [record[column.name] for record in records],
            column.kind,
            column=column.name,
            where=where,
            code="operator-output",
        )
        for column in schema
    }


def set_parameters(stream: TwoInputs, keys: np.ndarray, rows: Rows, defaults: Mapping[str, object]) -> None:
    """What a config stream's rows say, by key."""
    for place, number in enumerate(keys.tolist()):
        parameters = dict(stream.states.get(number, defaults))
        for name in defaults:
            if name in rows.columns:
                parameters[name] = rows.columns[name][place : place + 1].tolist()[0]
        stream.states[number] = parameters
        stream.touch(number)


class Machines(TwoInputs):
    """One machine per key, one row at a time. With several inputs rows come in order of time.

    A config row sets the machine's attributes of the parameters' names; its state is kept beside the parameters. Time
    passes only as far as the earliest row that a machine says it still holds.
    """

    def __init__(self, operator: Apply, key: KeyIndex, inputs: int) -> None:
        super().__init__(inputs, key)
        self.kind = operator_type(operator.operator, operator.operator_version)
        self.named = Named(self.kind)
        self.config = operator.config
        self.merging = inputs > 1
        self.defaults = dict(operator.parameters)
        self.machines: dict[int, OperatorMachine] = {}
        self.several = len(self.kind.outputs) > 1
        self.schemas = dict(self.kind.outputs)
        self.holds = isinstance(self.kind.implementation, type) and hasattr(self.kind.implementation, "holds_since")
        self.held_since: dict[int, int] = {}  # key -> time of the earliest row that its machine holds

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        if self.merging:
            self.held[port].hold(port, rows)
            return self.passed_by(rows)
        return self._process(port, rows)

    def passed(self, progress: Progress) -> list[Rows]:
        out = []
        for port, rows in self.merged() if self.merging else ():
            if self.config and port == len(self.inputs) - 1:
                self._configure(rows)
            else:
                out += self._process(port, rows)
        return out

    def outward(self, progress: Progress) -> Progress:
        if not self.holds:
            return progress
        # All there is to say, not the news: what was held back until now may go on with news of another device.
        frontier = self.frontier
        devices = {name: self._until(at, name) for name, at in frontier.devices.items()}
        return Progress(self._until(frontier.floor_us), devices, progress.complete_us)

    def _until(self, frontier_us: int, device: str | None = None) -> int:
        """How far time may pass, for one device or for all. At the end of time no row can free what is held."""
        if frontier_us == END_OF_TIME:
            return frontier_us
        place = self.key.names.index(DEVICE) if device is not None and DEVICE in self.key.names else None
        since = (
            at for number, at in self.held_since.items() if place is None or self.key.values[number][place] == device
        )
        return min(frontier_us, min(since, default=frontier_us))

    def _note_held(self, numbers: Iterable[int]) -> None:
        for number in numbers if self.holds else ():
            machine = self._machine(number)
            since = machine.holds_since() if isinstance(machine, HoldingMachine) else None
            if since is None:
                self.held_since.pop(number, None)
            else:
                self.held_since[number] = int(since)

    def _machine(self, number: int) -> OperatorMachine:
        machine = self.machines.get(number)
        if machine is None:
            known = self.states.get(number)
            parameters = self.defaults if known is None else known[0]
            made = self.kind.implementation(**parameters)
            if not isinstance(made, OperatorMachine):
                raise UsageError(
                    f"operator type {self.kind.name!r} is no machine: it needs process, snapshot and restore",
                    code="operator-form",
                )
            if known is not None and known[1] is not None:
                made.restore(known[1])
            machine = self.machines[number] = made
        return machine

    def _configure(self, rows: Rows) -> None:
        with self.named:
            self._set_parameters(rows)

    def _set_parameters(self, rows: Rows) -> None:
        for place, number in enumerate(self.key.numbers(rows.columns, len(rows)).tolist()):
            machine = self._machine(number)
            parameters = dict(self.states.get(number, (self.defaults, None))[0])
            for name in self.defaults:
                if name in rows.columns:
                    parameters[name] = rows.columns[name][place : place + 1].tolist()[0]
                    setattr(machine, name, parameters[name])
            self.states[number] = (parameters, None)
            self.touch(number)

    def _process(self, port: int, rows: Rows) -> list[Rows]:
        with self.named:
            return self._processed(port, rows)

    def _processed(self, port: int, rows: Rows) -> list[Rows]:
        name, schema = self.kind.inputs[port] if len(self.kind.inputs) > port else (IN, self.kind.inputs[0][1])
        names = (*schema.names, TIME)
        keys = self.key.numbers(rows.columns, len(rows)).tolist()
        given = [rows.columns[column].tolist() for column in schema.names] + [rows.time.tolist()]
        found: dict[str, list[tuple[int, int, dict[str, object]]]] = {}
        for place, values in enumerate(zip(*given, strict=True)):
            row = dict(zip(names, values, strict=True))
            for made in self._machine(keys[place]).process(name, row):
                out, content = made if isinstance(made, tuple) else (self.kind.outputs[0][0], made)
                time = int(content.get(TIME, row[TIME]))
                found.setdefault(out, []).append((place, time, checked(self.kind, content, self.schemas[out])))
            if keys[place] not in self.states:
                self.states[keys[place]] = (self.defaults, None)
            self.touch(keys[place])
        self._note_held(set(keys))
        return [self._rows(out, rows, made) for out, made in found.items()]

    def _rows(self, port: str, rows: Rows, made: list[tuple[int, int, dict[str, object]]]) -> Rows:
        index = np.array([place for place, _, _ in made], np.int64)
        columns = {name: take(rows.columns[name], index) for name in self.key.names}
        for column in self.schemas[port]:
            columns[column.name] = np.array([content[column.name] for _, _, content in made], dtype(column.kind))
        time = np.array([time for _, time, _ in made], np.int64)
        return PortRows(columns, time, port) if self.several else self.numbering.rows(columns, time)

    def _dump(self, states: Mapping[int, Value], *, since_mark: bool) -> Value:
        with self.named:
            whole = {
                number: (parameters, self.machines[number].snapshot() if number in self.machines else state)
                for number, (parameters, state) in states.items()
            }
        self.states.update(whole)
        return super()._dump(whole, since_mark=since_mark)

    def _load(self, state: Value) -> None:
        super()._load(state)
        for number in state[3]:
            self.machines.pop(number, None)
        with self.named:
            self._note_held(state[3])

    def load(self, state: Value) -> None:
        self.machines.clear()
        self.held_since.clear()
        super().load(state)


def apply_of(use: Use, operator: Apply) -> Operator:
    if operator.window is not None:
        function = window_function(operator)
        return windows_over(operator.window, (), function, use.inputs[0], lateness_us=0, complete=False)
    if operator.type.form == FRAME:
        return FrameRows(operator, use.inputs[0], use.node.type)
    if operator.type.form in ("rows", *PLAIN):
        source = use.inputs[0]
        passed = (name for name in source.schema.names if operator.keep and name in use.wanted)
        return RowsFunction(operator, key_of(source), tuple(dict.fromkeys((*source.key, *passed))))
    return Machines(operator, key_of(use.inputs[0]), len(use.inputs))


def port_of(_: Use, operator: Port) -> Operator:
    return PortFilter(operator.name)
