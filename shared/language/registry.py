"""Users' own operator types, registered by name with typed ports. Plans carry the name and version, never the code.

A module listed in `resurge.toml` registers its types when imported; the same module is packaged into the APK, the node,
the gateway and the executors, and each advertises what it has. Forms:

| form | what is registered | called with | gives |
|---|---|---|---|
| rows | a function, elementwise, no state | the columns of any run of rows, `time` included | output columns, as long |
| scalar, record | a plain function, no state | the values of one row | one value, or a dict of them |
| frame | a function, in a cloud job only | an epoch's rows of a range, as a pandas DataFrame | a DataFrame |
| window | a function | the columns of one window's rows | one row, a dict of scalars |
| machine | a class, one instance per key | one row at a time, and its input port | any number of rows, dicts |
| aggregate | a class, one instance per window and key | one row's values at a time | one scalar |

A machine sees single rows so that batching cannot change its answers. A machine or aggregate with state has
`snapshot() -> bytes` and `restore(bytes)`; parameters are keyword arguments of the function or the class. A machine
that gives rows later than it took them, with their old times, has `holds_since()` too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from shared.errors import UsageError
from shared.language.aggregates import Parameters
from shared.language.expressions import Value, literal
from shared.language.schema import Schema

IN, OUT = "in", "out"
FRAME = "frame"
PLAIN = ("scalar", "record")  # forms of plain functions, which see the values of one row

Columns: TypeAlias = Mapping[str, np.ndarray]
Row: TypeAlias = Mapping[str, Value]


@runtime_checkable
class OperatorMachine(Protocol):
    """The state of a user's operator for one key. A row given back may carry `time`, else it has the input row's.

    With one output port a row is a dict of its columns; with several it is (port, dict).
    """

    def process(self, port: str, row: Row) -> Iterable[Row | tuple[str, Row]]: ...

    def snapshot(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


@runtime_checkable
class HoldingMachine(OperatorMachine, Protocol):
    """A machine that keeps rows to give them later, with the times they had. Whoever reads its output relies on the
    frontier, which says that nothing earlier follows: so it waits for what is held."""

    def holds_since(self) -> int | None:
        """The time of the earliest row that may still be given; None while nothing is held."""
        ...


@runtime_checkable
class AggregateMachine(Protocol):
    """A user's aggregate over one window of one key."""

    def add(self, *values: Value) -> None: ...

    def result(self) -> Value: ...

    def snapshot(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class OperatorType:
    """`implementation` is the function or class; nothing else about it is needed to check and explain a plan."""

    name: str
    form: str
    version: int
    inputs: tuple[tuple[str, Schema], ...]  # ports in order; a stream connected to one has at least these columns
    outputs: tuple[tuple[str, Schema], ...]
    implementation: Callable[..., object] = field(compare=False)
    parameters: Parameters = ()  # names and defaults
    deterministic: bool = True
    delay_us_min: int = 0
    most_per_second: float | None = None  # rows it gives, whatever it gets: what a plan is judged by before it ran
    module: str = field(default="", compare=False)  # what to import to have it registered
    arguments: tuple[str, ...] = ()  # of a plain function: the columns it is called with, in order, `time` among them

    @property
    def reference(self) -> str:
        """What a node advertises: name and version."""
        return f"{self.name}@{self.version}"

    def output(self, port: str) -> Schema:
        return dict(self.outputs)[port]


class Named:
    """Around calls of a user's code: what it raises gets a note with the operator type's name. May be used again."""

    __slots__ = ("_note",)

    def __init__(self, kind: OperatorType) -> None:
        self._note = f"operator type {kind.name!r}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            error.add_note(self._note)


_types: dict[str, OperatorType] = {}


def registered() -> Mapping[str, OperatorType]:
    """Every operator type known here, by name."""
    return MappingProxyType(_types)


def references() -> frozenset[str]:
    """What this process can run and a node advertises: "name@version" of every operator type known here."""
    return frozenset(kind.reference for kind in _types.values())


def register(kind: OperatorType) -> OperatorType:
    """Make an operator type known. The same name may be registered again only with the same implementation's module
    reloaded; another type of that name is refused, since plans name types by it."""
    known = _types.get(kind.name)
    if known is not None and _origin(known) != _origin(kind):
        raise UsageError(
            f"operator type {kind.name!r} is already registered by {_origin(known)}; choose another name",
            code="operator-registered",
        )
    _types[kind.name] = kind
    return kind


def _origin(kind: OperatorType) -> str:
    return f"{kind.implementation.__module__}.{getattr(kind.implementation, '__qualname__', '?')}"


def operator_type(name: str, version: int | None = None) -> OperatorType:
    """The operator type of this name; refuses by name what is not here or is here in another version."""
    found = _types.get(name)
    if found is None:
        known = ", ".join(sorted(_types)) or "none"
        raise UsageError(
            f"operator type {name!r} is not known here (known: {known}). Register it with @rs.operator in a module "
            "that resurge.toml lists",
            code="operator-unknown",
        )
    if version is not None and found.version != version:
        raise UsageError(
            f"operator type {name!r} is here in version {found.version}, the plan needs {version}. Install the same "
            "package on both sides",
            code="operator-version",
        )
    return found


def parameter_defaults(name: str, implementation: Callable[..., object]) -> Parameters:
    """The parameters of a function or class: its keyword-only arguments, each with a default."""
    found: list[tuple[str, Value]] = []
    for parameter in inspect.signature(implementation).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if parameter.default is inspect.Parameter.empty:
            raise UsageError(f"parameter {parameter.name!r} of {name!r} needs a default", code="operator-parameter")
        found.append((parameter.name, literal(parameter.default).value))
    return tuple(found)


def parameters_of(kind: OperatorType, given: Mapping[str, object]) -> Parameters:
    """The parameters of one use: every one the type declares, defaults filled in; refuses unknown names and kinds."""
    values: list[tuple[str, Value]] = []
    unknown = sorted(set(given) - {name for name, _ in kind.parameters})
    if unknown:
        known = ", ".join(name for name, _ in kind.parameters) or "none"
        raise UsageError(
            f"operator type {kind.name!r} has no parameter {unknown[0]!r} (has: {known})", code="operator-parameter"
        )
    for name, default in kind.parameters:
        value = literal(given.get(name, default)).value
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise UsageError(
                f"parameter {name!r} of {kind.name!r} is {value!r}; expected {type(default).__name__}, "
                f"like its default {default!r}",
                code="operator-parameter",
            )
        values.append((name, value))
    return tuple(values)
