"""What a program declares beside its streams: operator types, contracts, and the plan itself."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from shared.contracts.promises import contract_lines
from shared.errors import UsageError
from shared.language.durations import microseconds
from shared.language.registry import FRAME, IN, OUT, OperatorType, parameter_defaults, register
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.plan.contracts import Contract, check_contract
from shared.plan.explain import explain as explain_plan
from shared.plan.graph import Plan
from shared.plan.rewrites import rewrite
from shared.plan.wellformed import check_plan
from shared.stream.drafts import Draft, assemble, located, user_module
from shared.stream.stream import Sink, Stream
from shared.stream.windowed import WindowedStream

Implementation = TypeVar("Implementation", bound=Callable[..., object])
Ports = Mapping[str, str] | Mapping[str, Mapping[str, str]]


@located
def operator(
    name: str,
    *,
    takes: Ports,
    gives: Ports,
    over: str = "rows",
    version: int = 1,
    deterministic: bool = True,
    takes_at_least: str | None = None,
    most_per_second: float | None = None,
) -> Callable[[Implementation], Implementation]:
    """Register a function or class as an operator type; see shared.language.registry for what it is called with.

    `takes` and `gives` are {column: kind}, or {port: {column: kind}} for several ports. A class is a machine; a
    function works over "rows" or over a "window". Keyword-only arguments with defaults are its parameters.
    `most_per_second` says that few rows come out where many go in, so that a promise is judged by those few.
    """

    @located
    def registered(implementation: Implementation) -> Implementation:
        form = "machine" if inspect.isclass(implementation) else over
        delay_us = 0 if takes_at_least is None else microseconds(takes_at_least)
        _register(
            implementation, name, form, _ports(takes, IN), _ports(gives, OUT), version, deterministic, delay_us,
            most_per_second,
        )  # fmt: skip
        return implementation

    if over not in ("rows", "window"):
        raise UsageError(f"over={over!r}; expected 'rows' or 'window'", code="operator-form")
    if most_per_second is not None and not 0 < most_per_second < math.inf:
        raise UsageError(
            f"most_per_second={most_per_second!r} of operator type {name!r}; expected rows a second, more than 0",
            code="operator-rate",
        )
    return registered


@located
def frame_operator(
    name: str, *, output: Mapping[str, str], takes: Mapping[str, str] | None = None, version: int = 1,
    deterministic: bool = False,
) -> Callable[[Implementation], Implementation]:  # fmt: skip
    """Register a function of a pandas DataFrame: an epoch's rows of a range, all their columns and `time`, in; a frame
    with `time`, the key's columns and `output` out. Cloud only, `.apply(name)` behind `.sync()`.

    `takes` are columns that the stream must have. Each row out has the key of some row given, and a time between the
    first and the last of that key. Where epochs and ranges are cut is not the program's choice: say
    `deterministic=True` only where each row out follows from one row in.
    """

    @located
    def registered(implementation: Implementation) -> Implementation:
        inputs = ((IN, Schema.of(takes or {})),)
        _register(implementation, name, FRAME, inputs, ((OUT, Schema.of(output)),), version, deterministic, 0)
        return implementation

    return registered


def aggregate(
    name: str, *, takes: Mapping[str, str], gives: str, version: int = 1
) -> Callable[[Implementation], Implementation]:
    """Register a class as an aggregate of one window: add(*values), result(), snapshot(), restore(state)."""

    @located
    def registered(implementation: Implementation) -> Implementation:
        outputs = ((OUT, Schema.of({"value": gives})),)
        _register(implementation, name, "aggregate", ((IN, Schema.of(takes)),), outputs, version, True, 0)
        return implementation

    return registered


def _ports(columns: Ports, default: str) -> tuple[tuple[str, Schema], ...]:
    single = {name: kind for name, kind in columns.items() if isinstance(kind, str)}
    if len(single) == len(columns):
        return ((default, Schema.of(single)),)
    several = {name: kind for name, kind in columns.items() if not isinstance(kind, str)}
    if single:
        raise UsageError("ports are all {column: kind}, or all {port: {column: kind}}", code="operator-ports")
    return tuple((port, Schema.of(schema)) for port, schema in several.items())


def _register(  # noqa: PLR0917  # one caller each above, in this order
    implementation: Callable[..., object],
    name: str,
    form: str,
    inputs: tuple[tuple[str, Schema], ...],
    outputs: tuple[tuple[str, Schema], ...],
    version: int,
    deterministic: bool,
    delay_us_min: int,
    most_per_second: float | None = None,
) -> None:
    register(
        OperatorType(
            name=name,
            form=form,
            version=version,
            inputs=inputs,
            outputs=outputs,
            implementation=implementation,
            parameters=parameter_defaults(name, implementation),
            deterministic=deterministic,
            delay_us_min=delay_us_min,
            most_per_second=most_per_second,
            module=user_module(),
        )
    )


@located
def lossless(*, delay: str | None = None, order: str = "each") -> Contract:
    """Nothing lost, nothing wrong; optionally within a delay."""
    return _contract(Contract(1.0, 0.0, None if delay is None else microseconds(delay), order))


@located
def limited_loss(kept: float, *, wrong: float = 0.0, delay: str | None = None, order: str = "each") -> Contract:
    """At least the share `kept` arrives, at most the share `wrong` is wrong."""
    return _contract(Contract(float(kept), float(wrong), None if delay is None else microseconds(delay), order))


def _contract(contract: Contract) -> Contract:
    check_contract(contract)
    return contract


def explain(program: Stream | Sink | Plan) -> str:
    """What runs where, in which pieces, and why, in words: of a plan, or of a stream and what it reads."""
    plan = program if isinstance(program, Plan) else plan_of(program)
    return explain_plan(plan, contracts=contract_lines(plan))


@located
def plan_of(*streams: Stream | Sink, version: int = 1, name: str = "program") -> Plan:
    """The checked and rewritten plan of these streams and what they read.

    A stream that no sink ends is subscribed as "out"; several of them as "out", "out 2", ...
    """
    drafts: list[Draft] = []
    for stream in streams:
        made = _draft_of(stream)
        if not isinstance(made.operator, (*op.SINKS, op.Sync, op.SyncBack)) and isinstance(stream, Stream):
            unnamed = sum(isinstance(other.operator, op.Subscribe) for other in drafts)
            made = stream.subscribe("out" if unnamed == 0 else f"out {unnamed + 1}").draft
        drafts.append(made)
    return rewrite(check_plan(assemble(drafts, version=version, name=name))).plan


def _draft_of(given: object) -> Draft:
    if isinstance(given, Stream | Sink):
        return given.draft
    hint = "; end a window with .aggregate(...)" if isinstance(given, WindowedStream) else ""
    raise UsageError(f"a plan is made of streams and sinks, not {type(given).__name__}{hint}", code="graph-input")
