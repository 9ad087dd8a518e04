"""What each operator puts out, given what it takes in: the type rules of plans.

Called for every verb as it is written, so that an error names the user's line, and again for every node of a plan that
arrives as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.contracts import check_contract
from shared.plan.graph import StreamType, with_device
from shared.stream.aggregates import check_aggregate, result_fields
from shared.stream.expressions import FLOATS, TIME, Expression, is_number, kind_of, literal, unknown_column
from shared.stream.registry import OperatorType, operator_type, parameters_of
from shared.stream.schema import Field, Schema
from shared.stream.windows import check_window

KEY_KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "str")
DEVICE_KEY = (op.DEVICE,)
TICK = Schema.of({"tick": "int64"})


def arity(operator: op.Operator) -> tuple[int, int]:
    """The least and the greatest number of inputs."""
    match operator:
        case op.Sensor() | op.Timer() | op.Appended() | op.Feedback():
            return (0, 0)
        case op.Union():
            return (2, 64)
        case op.Zip() | op.Combine() | op.Join() | op.Latest():
            return (2, 2)
        case op.State(_, config):
            return (2, 2) if config else (1, 1)
        case op.Apply(name, version, config=config):
            ports = len(operator_type(name, version).inputs)
            return (ports + config, ports + config)
    return (1, 1)


def output_type(operator: op.Operator, inputs: tuple[StreamType, ...]) -> StreamType:
    """The type of an operator's output; UsageError where inputs, columns, kinds, windows or parameters do not fit."""
    match operator:
        case op.Sensor(name, every_us, schema):
            _check_source(name, schema)
            if every_us < 0:
                raise UsageError(f"sensor {name!r} is read every {every_us} us; expected 0 or more", code="sensor-rate")
            return StreamType(with_device(schema), DEVICE_KEY)
        case op.Appended(name, schema):
            _check_source(name, schema)
            return StreamType(with_device(schema), DEVICE_KEY)
        case op.Timer(name, every_us):
            _check_name(name)
            if every_us <= 0:
                raise UsageError("a timer's interval must be more than zero", code="sensor-rate")
            return StreamType(with_device(TICK), DEVICE_KEY)
        case op.Feedback(name, schema, key):
            _check_name(name)
            _check_key(key, schema)
            return StreamType(schema, key)
        case op.KeyBy(columns, merge, idle_after_us):
            _check_key(columns, inputs[0].schema)
            _check_merge(merge)
            if idle_after_us is not None and idle_after_us <= 0:
                raise UsageError("idle_after must be more than zero", code="duration")
            return StreamType(inputs[0].schema, columns)
        case op.Where(predicate):
            kind = kind_of(predicate, inputs[0].schema)
            if kind != "bool":
                raise UsageError(f"where takes a condition (bool), not {kind}; compare it with something", code="where")
            return inputs[0]
        case op.Select(columns):
            return StreamType(_selected(columns, inputs[0]), inputs[0].key)
        case op.Union(merge):
            _check_merge(merge)
            return _union(inputs)
        case op.Zip(suffix) | op.Latest(suffix=suffix) | op.Join(suffix=suffix):
            _check_pairing(operator, inputs)
            return _paired(operator, inputs, suffix)
        case op.Combine(suffix, merge):
            _check_merge(merge)
            return _paired(operator, inputs, suffix)
        case op.WindowAggregate():
            return _aggregated(operator, inputs[0])
        case op.Apply():
            return _applied(operator, inputs)
        case op.Port(name):
            raise UsageError(f"port {name!r} must follow an apply with several output ports", code="graph-port")
        case op.State(columns, config):
            return _stateful(columns, config, inputs)
        case op.Significant():
            _check_significant(operator, inputs[0].schema)
            return inputs[0]
        case op.Sync():
            return _synced(operator, inputs[0])
        case op.SyncBack(name, commit):
            _check_name(name)
            if commit not in op.COMMITS:
                raise UsageError(f"commit {commit!r} is not one of {', '.join(op.COMMITS)}", code="sync-back")
            if op.DEVICE not in inputs[0].schema:
                raise UsageError(
                    f"sync_back({name!r}) needs the column 'device' to know whose result it is "
                    f"(has: {', '.join(inputs[0].schema.names)}). Keep it in the key",
                    code="sync-back",
                )
            return inputs[0]
        case op.Subscribe(name) | op.Feed(name) | op.Request(name):
            _check_name(name)
            return inputs[0]


def port_type(applied: op.Apply, name: str, inputs: tuple[StreamType, ...]) -> StreamType:
    """The type of one output port of an operator type that has several."""
    kind = operator_type(applied.operator, applied.operator_version)
    ports = dict(kind.outputs)
    if name not in ports:
        raise UsageError(
            f"operator type {kind.name!r} has no output port {name!r} (has: {', '.join(ports)})", code="graph-port"
        )
    return StreamType(_prefixed(inputs[0], ports[name].fields, windowed=applied.window is not None), inputs[0].key)


# --- Rules of single operators ----------------------------------------------------------------------------------------


def _check_source(name: str, schema: Schema) -> None:
    _check_name(name)
    if not schema.fields:
        raise UsageError(f"stream {name!r} has no columns", code="schema-empty")
    for column in schema:
        if column.name in (TIME, op.DEVICE):
            raise UsageError(
                f"column {column.name!r} of {name!r} is there already: every stream has time and device",
                code="column-reserved",
            )
        _check_column_name(column.name)


def _check_name(name: str) -> None:
    if not name or len(name) > 200 or not name.isprintable() or "/" in name:
        raise UsageError(f"{name!r} is not a name: 1 to 200 printable characters, no slash", code="plan-name")


def _check_column_name(name: str) -> None:
    if not name or len(name) > 200 or not name.isprintable() or name.startswith("state.") or name == TIME:
        raise UsageError(
            f"{name!r} is not a column's name: 1 to 200 printable characters, not 'time', not 'state. ...'",
            code="column-name",
        )


def _check_key(columns: tuple[str, ...], schema: Schema) -> None:
    for name in columns:
        if name not in schema:
            raise unknown_column(name, schema)
        if schema.kind(name) not in KEY_KINDS:
            raise UsageError(
                f"column {name!r} is {schema.kind(name)} and cannot be a key; cast or floor it to a whole number first",
                code="key-kind",
            )
    if len(set(columns)) != len(columns):
        raise UsageError(f"the key names a column twice: {', '.join(columns)}", code="key-kind")


def _check_merge(merge: str) -> None:
    if merge not in op.MERGES:
        raise UsageError(f"merge {merge!r} is not one of {', '.join(op.MERGES)}", code="merge-mode")


def _unique(columns: Iterable[Field]) -> Schema:
    fields = tuple(columns)
    seen: set[str] = set()
    for column in fields:
        _check_column_name(column.name)
        if column.name in seen:
            raise UsageError(f"two output columns are called {column.name!r}; rename one", code="column-twice")
        seen.add(column.name)
    return Schema(fields)


def _selected(columns: tuple[tuple[str, Expression], ...], source: StreamType) -> Schema:
    schema = _unique(Field(name, kind_of(expression, source.schema)) for name, expression in columns)
    for name in source.key:
        if name not in schema or schema.kind(name) != source.schema.kind(name):
            raise UsageError(f"select must keep the key column {name!r} as it is", code="select-key")
    return schema


def _union(inputs: tuple[StreamType, ...]) -> StreamType:
    first = inputs[0]
    wanted = {column.name: column.kind for column in first.schema}
    for other in inputs[1:]:
        if {column.name: column.kind for column in other.schema} != wanted or other.key != first.key:
            raise UsageError(
                f"union joins streams of the same columns and key: {describe(first)} is not {describe(other)}",
                code="graph-alphabet",
            )
    return first


def _check_pairing(operator: op.Operator, inputs: tuple[StreamType, ...]) -> None:
    if isinstance(operator, op.Join) and (operator.before_us < 0 or operator.after_us < 0):
        raise UsageError("a join's interval must not be negative", code="join-interval")
    if isinstance(operator, op.Latest) and operator.defaults is not None:
        right = [column for column in inputs[1].schema if column.name not in inputs[1].key]
        if len(right) != len(operator.defaults):
            raise UsageError(
                f"defaults must give a value for each of {', '.join(column.name for column in right)}",
                code="latest-defaults",
            )
        for column, value in zip(right, operator.defaults, strict=True):
            _check_value(column, value, code="latest-defaults")


def _check_value(column: Field, value: object, *, code: str) -> None:
    kind = literal(value).kind
    if (
        kind != column.kind
        and not (kind == "int64" and is_number(column.kind))
        and not (kind == "float64" and column.kind == "float32")
    ):
        raise UsageError(f"{value!r} is {kind}, but {column.name!r} is {column.kind}", code=code)


def _paired(operator: op.Operator, inputs: tuple[StreamType, ...], suffix: str) -> StreamType:
    left, right = inputs
    name = op.operator_name(operator)
    if left.key != right.key or [left.schema.kind(k) for k in left.key] != [right.schema.kind(k) for k in right.key]:
        raise UsageError(
            f"{name} pairs rows of the same key: {describe(left)} is not keyed like {describe(right)}. Use key_by",
            code="graph-alphabet",
        )
    taken = set(left.schema.names)
    added = [
        Field(column.name + suffix if column.name in taken else column.name, column.kind)
        for column in right.schema
        if column.name not in right.key
    ]
    return StreamType(_unique((*left.schema.fields, *added)), left.key)


def _prefixed(source: StreamType, fields: Iterable[Field], *, windowed: bool) -> Schema:
    key = [Field(name, source.schema.kind(name)) for name in source.key]
    bounds = [Field(op.WINDOW_START, "int64"), Field(op.WINDOW_END, "int64")] if windowed else []
    return _unique((*key, *bounds, *fields))


def _aggregated(operator: op.WindowAggregate, source: StreamType) -> StreamType:
    check_window(operator.window)
    if operator.lateness_us < 0:
        raise UsageError("lateness must not be negative", code="duration")
    if not operator.aggregates:
        raise UsageError("aggregate needs at least one aggregate, like count=rs.count()", code="aggregate-none")
    fields: list[Field] = []
    for name, aggregate in operator.aggregates:
        if aggregate.function == "user":
            fields.append(_user_aggregate_field(name, aggregate.parameters, check_aggregate(aggregate, source.schema)))
        else:
            fields.extend(result_fields(name, aggregate, source.schema))
    schema = _prefixed(source, (*fields, Field(op.COMPLETE, "bool")), windowed=True)
    return StreamType(schema, source.key)


def _user_aggregate_field(name: str, parameters: tuple[tuple[str, object], ...], kinds: tuple[str, ...]) -> Field:
    given = dict(parameters)
    kind = operator_type(str(given.pop("name", "")), int(str(given.pop("version", 0))))
    if kind.form != "aggregate":
        raise UsageError(f"operator type {kind.name!r} is not an aggregate", code="operator-form")
    wanted = tuple(column.kind for column in kind.inputs[0][1])
    if kinds != wanted:
        raise UsageError(
            f"aggregate {kind.name!r} takes columns of {', '.join(wanted)}, not {', '.join(kinds)}",
            code="aggregate-type",
        )
    parameters_of(kind, given)
    return Field(name, kind.outputs[0][1].fields[0].kind)


def _applied(operator: op.Apply, inputs: tuple[StreamType, ...]) -> StreamType:
    kind = operator_type(operator.operator, operator.operator_version)
    wanted_form = "window" if operator.window is not None else "rows or machine"
    if kind.form not in wanted_form.split(" or "):
        raise UsageError(
            f"operator type {kind.name!r} works on {kind.form}; this use needs one that works on {wanted_form}",
            code="operator-form",
        )
    if operator.window is not None:
        check_window(operator.window)
        if operator.config:
            raise UsageError(
                f"operator type {kind.name!r} works on windows and takes no config stream: a window may see several "
                "settings. Use .with_latest(config) before the window, and read the settings as columns",
                code="operator-config",
            )
    parameters_of(kind, dict(operator.parameters))
    streams = inputs[:-1] if operator.config else inputs
    for (port, schema), stream in zip(kind.inputs, streams, strict=True):
        _check_port(kind, port, schema, stream)
        if stream.key != streams[0].key:
            raise UsageError(
                f"all inputs of {kind.name!r} must have the same key: {describe(stream)}", code="graph-alphabet"
            )
    if operator.config:
        _check_config(kind.name, dict(kind.parameters), inputs[-1], streams[0])
    if operator.deterministic and not kind.deterministic:
        raise UsageError(f"operator type {kind.name!r} is not deterministic", code="operator-determinism")
    if operator.delay_us_max is not None and operator.delay_us_max < kind.delay_us_min:
        raise UsageError(
            f"operator type {kind.name!r} takes at least {kind.delay_us_min} us, but within={operator.delay_us_max} us "
            "was asked of it. Allow more, or use a faster type",
            code="graph-delay",
        )
    fields = kind.outputs[0][1].fields if len(kind.outputs) == 1 else ()
    return StreamType(_prefixed(streams[0], fields, windowed=operator.window is not None), streams[0].key)


def _check_port(kind: OperatorType, port: str, schema: Schema, stream: StreamType) -> None:
    for column in schema:
        if column.name not in stream.schema or stream.schema.kind(column.name) != column.kind:
            raise UsageError(
                f"port {port!r} of {kind.name!r} takes {column.name!r} ({column.kind}); the stream has "
                f"{describe(stream)}",
                code="graph-alphabet",
            )


def _check_config(name: str, settable: dict[str, object], config: StreamType, stream: StreamType) -> None:
    for column in config.schema:
        if column.name in config.key or column.name in (op.WINDOW_START, op.WINDOW_END, op.COMPLETE):
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


def _stateful(columns: tuple[op.StateColumn, ...], config: bool, inputs: tuple[StreamType, ...]) -> StreamType:
    if not columns:
        raise UsageError("a stateful stream needs at least one column", code="state-none")
    source = inputs[0]
    known = Schema((*source.schema.fields, *(Field(f"state.{column.name}", column.kind) for column in columns)))
    for column in columns:
        _check_value(Field(column.name, column.kind), column.initial, code="state-type")
        kind = kind_of(column.update, known)
        if kind != column.kind and not (is_number(kind) and is_number(column.kind)):
            raise UsageError(f"state {column.name!r} is {column.kind}, but its update gives {kind}", code="state-type")
        if kind in FLOATS and column.kind not in FLOATS:
            raise UsageError(
                f"state {column.name!r} starts with the whole number {column.initial}, but its update gives {kind}; "
                f"start with {column.initial}.0, or cast the update",
                code="state-type",
            )
    if config:
        _check_config("state", {column.name: column.initial for column in columns}, inputs[1], source)
    return StreamType(
        _prefixed(source, (Field(column.name, column.kind) for column in columns), windowed=False), source.key
    )


def _check_significant(operator: op.Significant, schema: Schema) -> None:
    if (operator.metres is None) == (operator.change is None):
        raise UsageError("significant takes metres= (for latitude, longitude) or change=", code="significant")
    if operator.metres is not None and len(operator.columns) != 2:
        raise UsageError("significant(metres=...) takes two columns, latitude and longitude", code="significant")
    if not operator.columns:
        raise UsageError("significant needs at least one column", code="significant")
    if not (operator.metres or operator.change or 0.0) > 0.0:
        raise UsageError("significant's distance must be more than zero", code="significant")
    for name in operator.columns:
        if name not in schema:
            raise unknown_column(name, schema)
        if not is_number(schema.kind(name)):
            raise UsageError(f"significant compares numbers; {name!r} is {schema.kind(name)}", code="significant")


def _synced(operator: op.Sync, source: StreamType) -> StreamType:
    _check_name(operator.name)
    check_contract(operator.contract)
    if not (0 < operator.batch_rows <= 1_000_000 and 0 < operator.batch_bytes <= 2**24 and operator.within_us > 0):
        raise UsageError(
            f"sync {operator.name!r}: batch is 1 to 1000000 rows, batch_bytes 1 to 16777216, within more than zero",
            code="sync-batch",
        )
    for option, given, known in (
        ("codec", operator.codec, op.CODECS),
        ("evict", operator.evict, op.EVICTIONS),
    ):
        if given not in known:
            raise UsageError(
                f"sync {operator.name!r}: {option} {given!r} is not one of {', '.join(known)}", code="sync-batch"
            )
    return StreamType(with_device(source.schema), source.key)


def describe(stream: StreamType) -> str:
    """A stream's type in one line, for errors and explanations."""
    columns = ", ".join(f"{column.name} {column.kind}" for column in stream.schema)
    return f"({columns}) by {', '.join(stream.key) or 'nothing'}"
