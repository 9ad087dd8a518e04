"""Plans as versioned JSON: data over a closed registry, so that nothing executable crosses the network.

Decoding believes nothing: sizes are bounded before parsing, unknown operators, fields and values are refused by name,
and the plan is then checked like one just written (shared.plan.wellformed). A user's operator type that is not
installed here is no error yet: it may run on the other side; `check_activation` asks for those of this side.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping

from shared.errors import UsageError
from shared.language import expressions
from shared.language.aggregates import Aggregate
from shared.language.schema import ADDED, Schema
from shared.language.windows import CalendarWindow, CountWindow, SessionWindow, SlidingTimeWindow, TimeWindow, Window
from shared.plan import operators as op
from shared.plan.contracts import Contract
from shared.plan.graph import Node, Plan, SourceLine
from shared.plan.stream_type import StreamType
from shared.plan.wellformed import check_plan

FORMAT = 1
PLAN_BYTES_MAX = 4 * 1024 * 1024

WINDOWS: dict[str, type] = {
    "time": TimeWindow,
    "calendar": CalendarWindow,
    "sliding": SlidingTimeWindow,
    "session": SessionWindow,
    "count": CountWindow,
}
RECORDS = (Contract, op.StateColumn, Aggregate, *WINDOWS.values())


def encode_plan(plan: Plan) -> bytes:
    """The plan as canonical JSON: equal plans give equal bytes."""
    nodes = [
        {
            "operator": node.operator.kind,
            "fields": _fields(node.operator),
            "inputs": list(node.inputs),
            "schema": node.schema.to_json(),
            "key": list(node.type.key),
            "line": [node.line.file, node.line.line, node.line.text],
        }
        for node in plan.nodes
    ]
    document = {"format": FORMAT, "version": plan.version, "name": plan.name, "nodes": nodes}
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode_plan(data: bytes) -> Plan:
    """The plan in these bytes, checked. UsageError on anything malformed, unknown or not well formed."""
    if len(data) > PLAN_BYTES_MAX:
        raise UsageError(f"a plan has at most {PLAN_BYTES_MAX} bytes, not {len(data)}", code="plan-size")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"a plan is JSON text: {type(error).__name__}", code="plan-json") from None
    match document:
        case {"format": int(found), **rest} if found == FORMAT:
            pass
        case {"format": found}:
            raise UsageError(f"plan format {found!r} is not {FORMAT}; update this side", code="plan-format")
        case _:
            raise _malformed("a plan is an object with a format")
    match rest:
        case {"version": int(version), "name": str(name), "nodes": list(nodes), **extra} if not extra:
            if not 0 < version < 2**53 or isinstance(version, bool):
                raise _malformed("a plan's version is a whole number from 1")
            plan = Plan(tuple(map(_node, range(len(nodes)), nodes)), version=version, name=name)
            return check_plan(plan, foreign_operators=True)
    raise _malformed("a plan has format, version, name and nodes")


def operator_identity(operator: op.Operator) -> str:
    """Text that two operators share exactly when they mean the same, bit for bit.

    Python's `==` is not enough: it holds 0.0 and -0.0, or 1 and True, for equal, and a NaN for different from itself.
    """
    return json.dumps([operator.kind, _fields(operator)], sort_keys=True)


# --- Encoding ---------------------------------------------------------------------------------------------------------


def _fields(record: object) -> dict[str, object]:
    return {
        field.name: _value(getattr(record, field.name))
        for field in dataclasses.fields(record)  # type: ignore[arg-type]  # every record is a dataclass
        if not (field.metadata.get(ADDED) and getattr(record, field.name) == field.default)
    }


def _value(value: object) -> object:
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return [_value(entry) for entry in value]
    if isinstance(value, Schema):
        return value.to_json()
    for name, kind in WINDOWS.items():
        if type(value) is kind:
            return {"window": name, **_fields(value)}
    if isinstance(value, RECORDS):
        return _fields(value)
    if isinstance(value, typing.get_args(expressions.Expression)):
        return expressions.to_json(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


# --- Decoding: driven by the dataclasses' own annotations, so a new field needs no second description -----------------


def _node(position: int, value: object) -> Node:
    match value:
        case {
            "operator": str(name),
            "fields": dict(fields),
            "inputs": list(inputs),
            "schema": schema,
            "key": key,
            "line": [str(file), int(line), str(text)],
            **extra,
        } if not extra:
            kind = op.OPERATORS.get(name)
            if kind is None:
                raise UsageError(
                    f"operator {name!r} is not one this version knows ({', '.join(op.OPERATORS)}); update this side",
                    code="plan-operator",
                )
            operator = _record(kind, fields, name)
            numbers = tuple(_decoded(int, number, f"{name}.inputs") for number in inputs)
            type_ = StreamType(Schema.from_json(schema), _decoded(tuple[str, ...], key, f"{name}.key"))
            return Node(position, operator, numbers, type_, SourceLine(file[:200], line, text[:200]))
    raise _malformed(f"node {position} has operator, fields, inputs, schema, key and line")


def _record(kind: type, value: object, where: str) -> typing.Any:
    wanted = _annotations(kind)
    if isinstance(value, dict):
        added = {field.name for field in dataclasses.fields(kind) if field.metadata.get(ADDED)}
        wanted = {name: hint for name, hint in wanted.items() if name in value or name not in added}
    if not isinstance(value, dict) or set(value) != set(wanted):
        unknown = sorted(set(value) ^ set(wanted)) if isinstance(value, dict) else []
        raise _malformed(f"{where} has the fields ({', '.join(wanted)})" + (f": see {unknown[0]!r}" if unknown else ""))
    return kind(**{name: _decoded(hint, value[name], f"{where}.{name}") for name, hint in wanted.items()})


@functools.cache  # of a closed set of types; reading annotations takes longer than all else here
def _annotations(kind: type) -> Mapping[str, object]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _decoded(hint: typing.Any, value: object, where: str) -> typing.Any:
    if hint == expressions.Expression:
        return expressions.from_json(value)
    if hint == expressions.Value:
        return _scalar(value, where)
    if hint == Window:
        return _window(value, where)
    if hint is Schema:
        return Schema.from_json(value)
    if hint in RECORDS:
        return _record(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):  # only "X | None" occurs; a window is itself one of several
        some = [argument for argument in arguments if argument is not types.NoneType]
        if value is None:
            return None
        return _window(value, where) if len(some) > 1 else _decoded(some[0], value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    return _plain(hint, value, where)


def _tuple(arguments: tuple[typing.Any, ...], value: object, where: str) -> tuple[object, ...]:
    if not isinstance(value, list) or len(value) > 10_000:
        raise _malformed(f"{where} is a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_decoded(arguments[0], entry, where) for entry in value)
    if len(value) != len(arguments):
        raise _malformed(f"{where} has {len(arguments)} entries")
    return tuple(_decoded(hint, entry, where) for hint, entry in zip(arguments, value, strict=True))


def _plain(hint: type, value: object, where: str) -> object:
    if hint is float:
        value = _scalar(value, where)
    if type(value) is not hint or (hint is int and not -(2**63) <= typing.cast(int, value) < 2**63):
        raise _malformed(f"{where} is {hint.__name__}")
    return value


def _scalar(value: object, where: str) -> expressions.Value:
    match value:
        case {"float": str(text), **extra} if not extra:
            try:
                return float.fromhex(text)
            except (ValueError, OverflowError):
                pass
        case bool() | int() | str():
            return expressions.literal(value).value
    raise _malformed(f"{where} is a bool, a whole number, a float or text")


def _window(value: object, where: str) -> object:
    match value:
        case {"window": str(name), **fields} if name in WINDOWS:
            return _record(WINDOWS[name], fields, where)
    raise _malformed(f"{where} is a window: {', '.join(WINDOWS)}")


def _malformed(expected: str) -> UsageError:
    return UsageError(f"malformed plan: {expected}", code="plan-json")
