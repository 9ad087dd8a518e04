"""Users' own operator types in a plan: by name and version, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from shared.errors import UsageError
from shared.language.aggregates import Parameters
from shared.language.expressions import FLOATS, INTEGERS, literal
from shared.language.registry import FRAME, PLAIN, OperatorType, operator_type, parameters_of
from shared.language.schema import ADDED, Schema
from shared.language.windows import Window, check_window
from shared.language.windows import text_of as window_text
from shared.plan.operators.operator import Operator, Origins, Types, key_origins, keyed, unique
from shared.plan.stream_type import COMPLETE, WINDOW_END, WINDOW_START, StreamType


@dataclass(frozen=True, slots=True)
class Apply(Operator):
    """A user's operator type (shared.language.registry), by name and version.

    Without a window it takes rows, with one it takes the rows of each window (ordered as the window is) and gives one
    row for it. Columns: the key, window_start and window_end where there is a window, its output port's columns. An
    operator type with several output ports is followed by a Port for each. `config`: the last input is a config
    stream; each of its rows (columns named like parameters) sets those parameters for the rows after it, by time.
    `keep`, of functions of rows: all of the row's own columns stand before the output's.
    """

    kind: ClassVar[str] = "apply"

    operator: str
    operator_version: int
    parameters: Parameters = ()
    window: Window | None = None
    deterministic: bool = True
    config: bool = False
    delay_us_max: int | None = None
    keep: bool = field(default=False, metadata={ADDED: True})

    @property
    def type(self) -> OperatorType:
        return operator_type(self.operator, self.operator_version)

    def arity(self) -> tuple[int, int]:
        ports = len(self.type.inputs) + self.config
        return (ports, ports)

    def output_type(self, inputs: Types) -> StreamType:
        kind = self.type
        self._check_use(kind)
        parameters_of(kind, dict(self.parameters))
        streams = inputs[:-1] if self.config else inputs
        for (port, schema), stream in zip(kind.inputs, streams, strict=True):
            _check_port(kind, port, schema, stream)
            if stream.key != streams[0].key:
                raise UsageError(f"all inputs of {kind.name!r} must have the same key: {stream}", code="graph-alphabet")
        if self.config:
            check_config(kind.name, dict(kind.parameters), inputs[-1], streams[0])
        if self.deterministic and not kind.deterministic:
            raise UsageError(f"operator type {kind.name!r} is not deterministic", code="operator-determinism")
        if self.delay_us_max is not None and self.delay_us_max < kind.delay_us_min:
            raise UsageError(
                f"operator type {kind.name!r} takes at least {kind.delay_us_min} us, but within={self.delay_us_max} us "
                "was asked of it. Allow more, or use a faster type",
                code="graph-delay",
            )
        fields = kind.outputs[0][1].fields if len(kind.outputs) == 1 else ()
        if self.keep:
            return StreamType(unique((*streams[0].schema.fields, *fields)), streams[0].key)
        return keyed(streams[0], fields, windowed=self.window is not None)

    def _check_use(self, kind: OperatorType) -> None:
        wanted_form = "window" if self.window is not None else "rows or machine or scalar or record or frame"
        if self.keep and kind.form not in ("rows", *PLAIN):
            wanted_form = "rows or scalar or record"
        if kind.form not in wanted_form.split(" or "):
            raise UsageError(
                f"operator type {kind.name!r} works on {kind.form}; this use needs one that works on {wanted_form}",
                code="operator-form",
            )
        if kind.form == FRAME and self.config:
            raise UsageError(
                f"frame operator {kind.name!r} takes no config stream: a frame may see several settings. Use "
                ".with_latest(config) before it, and read the settings as columns",
                code="operator-config",
            )
        if self.window is not None:
            check_window(self.window)
            if self.config:
                raise UsageError(
                    f"operator type {kind.name!r} works on windows and takes no config stream: a window may see "
                    "several settings. Use .with_latest(config) before the window, and read the settings as columns",
                    code="operator-config",
                )

    def port_type(self, name: str, inputs: Types) -> StreamType:
        """The type of one output port of an operator type that has several."""
        ports = dict(self.type.outputs)
        if name not in ports:
            raise UsageError(
                f"operator type {self.operator!r} has no output port {name!r} (has: {', '.join(ports)})",
                code="graph-port",
            )
        return keyed(inputs[0], ports[name].fields, windowed=self.window is not None)

    def derives(self, inputs: Types) -> Origins:
        bounds = dict.fromkeys((WINDOW_START, WINDOW_END), frozenset[tuple[int, str]]()) if self.window else {}
        kept = {name: frozenset(((0, name),)) for name in inputs[0].schema.names} if self.keep else {}
        return {**key_origins(inputs[0]), **bounds, **kept}

    def describe(self) -> str:
        over = "rows" if self.window is None else window_text(self.window)
        return f"apply {self.operator}@{self.operator_version} to {over}"


@dataclass(frozen=True, slots=True)
class Port(Operator):
    """One output port of an Apply that has several."""

    kind: ClassVar[str] = "port"

    name: str

    def output_type(self, inputs: Types) -> StreamType:
        raise UsageError(f"port {self.name!r} must follow an apply with several output ports", code="graph-port")

    def derives(self, inputs: Types) -> Origins:
        return key_origins(inputs[0])

    def describe(self) -> str:
        return f"port {self.name}"


def _check_port(kind: OperatorType, port: str, schema: Schema, stream: StreamType) -> None:
    for column in schema:
        if column.name not in stream.schema or not _fits(kind, stream.schema.kind(column.name), column.kind):
            raise UsageError(
                f"port {port!r} of {kind.name!r} takes {column.name!r} ({column.kind}); the stream has {stream}",
                code="graph-alphabet",
            )


def _fits(kind: OperatorType, given: str, wanted: str) -> bool:
    """A plain function sees Python's own values: its int is any whole number, its float any number."""
    if kind.form in PLAIN and wanted in ("int64", "float64"):
        return given in INTEGERS or (wanted == "float64" and given in FLOATS)
    return given == wanted


def check_config(name: str, settable: Mapping[str, object], config: StreamType, stream: StreamType) -> None:
    """A config stream sets what `name` has, in its kinds, and is keyed like the stream beside it."""
    for column in config.schema:
        if column.name in config.key or column.name in (WINDOW_START, WINDOW_END, COMPLETE):
            continue
        if column.name not in settable:
            raise UsageError(
                f"config stream of {name!r} sets {column.name!r}, which it does not have "
                f"(has: {', '.join(settable) or 'none'})",
                code="graph-alphabet",
            )
        wanted = literal(settable[column.name]).kind
        if column.kind != wanted:
            raise UsageError(
                f"config stream of {name!r} has {column.name!r} as {column.kind}; expected {wanted}",
                code="graph-alphabet",
            )
    if config.key != stream.key:
        raise UsageError(
            f"the config stream of {name!r} must be keyed like its input ({', '.join(stream.key)})",
            code="graph-alphabet",
        )
