"""Streams as a program writes them. Every verb adds one operator to the plan and returns the stream it makes; nothing
runs. What each verb means is written at its operator in `shared.plan.operators` and in `docs/semantics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from shared.errors import UsageError
from shared.language.durations import microseconds
from shared.language.expressions import Column, Expression, Value, literal, unknown_column
from shared.language.registry import PLAIN, operator_type, parameters_of
from shared.language.schema import Schema
from shared.language.windows import Window
from shared.plan import operators as op
from shared.plan.contracts import LOSSLESS, Contract
from shared.plan.stream_type import StreamType
from shared.stream.drafts import Callback, Draft, current_program, draft, located
from shared.stream.formulas import Formula, column_name, expression_of
from shared.stream.pairing import On, missing, paired_on, stand_ins
from shared.stream.plain_functions import function_type
from shared.stream.windowed import Windowing

PREVIOUS_MAX = 100


class Stream(Windowing):
    """A typed, keyed stream. From a device it is keyed by `device`; `key_by` chooses another key."""

    def __init__(self, made: Draft) -> None:
        self.draft = made

    @property
    def type(self) -> StreamType:
        """Its columns and its key."""
        return self.draft.type

    @property
    def schema(self) -> Schema:
        """Its columns, `time` apart."""
        return self.draft.type.schema

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that keep its rows apart."""
        return self.draft.type.key

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name}: {column.kind}" for column in self.schema)
        return f"<stream ({columns}) by ({', '.join(self.key)})>"

    # --- Row by row ---------------------------------------------------------------------------------------------------

    @located
    def where(self, condition: Formula | bool) -> Stream:
        """The rows for which the condition holds: `gps.where(col.accuracy < 50)`."""
        return Stream(draft(op.Where(expression_of(condition)), self.draft))

    @located
    def select(self, *columns: str, **computed: Formula | Value) -> Stream:
        """These columns and computed ones; key columns stay: `gps.select("lat", kmh=col.speed * 3.6)`."""
        chosen: dict[str, Expression] = {name: Column(name) for name in self.key}
        chosen.update((name, Column(name)) for name in (column_name(column, where="select") for column in columns))
        return self._projected(chosen, computed)

    @located
    def extend(self, **computed: Formula | Value) -> Stream:
        """All columns, and computed ones beside or instead of them."""
        return self._projected({name: Column(name) for name in self.schema.names}, computed)

    def _projected(self, chosen: dict[str, Expression], computed: Mapping[str, Formula | Value]) -> Stream:
        chosen.update((name, expression_of(value)) for name, value in computed.items())
        return Stream(draft(op.Select(tuple(chosen.items())), self.draft))

    @located
    def significant(self, *columns: str, metres: float | None = None, change: float | None = None) -> Stream:
        """Only rows that differ enough from the last one kept: `gps.significant("lat", "lon", metres=15)`."""
        bounds = (None if bound is None else float(bound) for bound in (metres, change))
        names = tuple(column_name(column, where="significant") for column in columns)
        return Stream(draft(op.Significant(names, *bounds), self.draft))

    @located
    def distinct(self, *columns: str, within: str) -> Stream:
        """Without repeats of the same values in these columns, or in all: `x.distinct("tag", within="10m")`."""
        names = tuple(column_name(column, where="distinct") for column in columns)
        everything = tuple(name for name in self.schema.names if name not in self.key)
        return Stream(draft(op.Distinct(names or everything, microseconds(within)), self.draft))

    # --- Keys and several streams -------------------------------------------------------------------------------------

    @located
    def key_by(self, *columns: str, merge: str = "ordered", idle_after: str | None = None) -> Stream:
        """The same rows kept apart by these columns; by none: all together."""
        idle_after_us = None if idle_after is None else microseconds(idle_after)
        names = tuple(column_name(column, where="key_by") for column in columns)
        return Stream(draft(op.KeyBy(names, merge, idle_after_us), self.draft))

    group_by = key_by

    @located
    def union(self, *others: Stream, merge: str = "ordered") -> Stream:
        """The rows of all of them; same columns, same key."""
        return Stream(draft(op.Union(merge), self.draft, *map(_draft_of, others)))

    @located
    def zip(self, other: Stream, *, suffix: str = "_right") -> Stream:
        """The n-th row here with the n-th there."""
        return Stream(draft(op.Zip(suffix), self.draft, _draft_of(other)))

    @located
    def combine(self, other: Stream, *, suffix: str = "_right", merge: str = "ordered") -> Stream:
        """The latest row of both, whenever either has a new one."""
        return Stream(draft(op.Combine(suffix, merge), self.draft, _draft_of(other)))

    @located
    def join(
        self,
        other: Stream,
        *,
        within: str | None = None,
        before: str | None = None,
        after: str | None = None,
        on: On = None,
        left: bool = False,
        defaults: Mapping[str, Value] | None = None,
        suffix: str = "_right",
    ) -> Stream:
        """Every pair of the same key at most `within` apart in time, or from `before` earlier to `after` later.

        `on` pairs by other columns than the key, and the result is keyed by them: `on="user"`, or, where the right
        stream calls it otherwise, `on={"user": "owner"}`. `left=True` keeps rows without a pair, the right columns
        being `defaults`, else NaN, 0, False or "".
        """
        lengths = [0 if bound is None else microseconds(bound) for bound in (before or within, after or within)]
        if not any(lengths):
            raise UsageError("join needs within=, before= or after=", code="join-interval")
        if defaults is not None and not left:
            raise UsageError(
                "join keeps rows without a pair, which defaults= are for, with left=True", code="join-left"
            )
        sides = paired_on(self.draft, _draft_of(other), on)
        values = stand_ins(sides[1].type, defaults, left=left)
        return Stream(draft(op.Join(lengths[0], lengths[1], suffix, values), *sides))

    @located
    def with_latest(
        self,
        other: Stream,
        *,
        tolerance: str | None = None,
        on: On = None,
        left: bool = False,
        defaults: Mapping[str, Value] | None = None,
        suffix: str = "_right",
    ) -> Stream:
        """Each row here with the last row there at its time, at most `tolerance` old: an as-of join. Without one the
        row is dropped, unless `defaults` stand in or `left=True` keeps it; `on` as in `join`."""
        sides = paired_on(self.draft, _draft_of(other), on)
        values = stand_ins(sides[1].type, defaults, left=left)
        tolerance_us = None if tolerance is None else microseconds(tolerance)
        return Stream(draft(op.Latest(values, suffix, tolerance_us), *sides))

    @located
    def followed_by(self, other: Stream, *, within: str, suffix: str = "_right") -> Stream:
        """Each row here with the first one there that comes later, within that time: A, then B. For three in a row:
        `a.followed_by(b, within="5m").followed_by(c, within="5m")`."""
        return Stream(draft(op.FollowedBy(microseconds(within), suffix), self.draft, _draft_of(other)))

    # --- State and users' operators -----------------------------------------------------------------------------------

    @located
    def state(
        self,
        initial: Mapping[str, Value],
        *,
        config: Stream | None = None,
        keep: bool = False,
        expire: str | None = None,
        **updates: Formula | Value,
    ) -> Stream:
        """A stateful stream: `x.state({"peak": -1e9}, peak=if_else(col.t > state.peak, col.t, state.peak))`. With
        `keep=True` the row's own columns stay beside the state's; with `expire="1h"` a key that had no row for an hour
        begins anew."""
        if sorted(initial) != sorted(updates):
            raise UsageError(
                f"state has {', '.join(initial)}, updates are given for {', '.join(updates) or 'none'}; each needs one",
                code="state-type",
            )
        columns = tuple(
            op.StateColumn(name, literal(value).kind, value, expression_of(updates[name]))
            for name, value in initial.items()
        )
        sources = (self.draft,) if config is None else (self.draft, _draft_of(config))
        expire_us = None if expire is None else microseconds(expire)
        return Stream(draft(op.State(columns, config is not None, keep, expire_us), *sources))

    @located
    def previous(self, *columns: str, rows: int = 1, first: Value | None = None) -> Stream:
        """Each row with these columns of its key's row before, or `rows` before: `x.previous("v")` adds v_previous.
        Rows that have none before them get `first`, or NaN, 0, False or "" by the column's kind."""
        if not 1 <= rows <= PREVIOUS_MAX:
            raise UsageError(f"previous goes 1 to {PREVIOUS_MAX} rows back, not {rows}", code="previous-rows")
        names = tuple(column_name(column, where="previous") for column in columns)
        if not names:
            raise UsageError('previous takes at least one column, like previous("v")', code="previous-rows")
        made: list[op.StateColumn] = []
        for name in names:
            if name not in self.schema:
                raise unknown_column(name, self.schema)
            kind = self.schema.kind(name)
            initial = missing(kind) if first is None else literal(first).value
            # A row hands its value on: the state nearest to it is the newest, the last one the oldest.
            for back in range(rows, -1, -1):
                label = f"{name}_previous" if back == rows else f"{name}_previous.{back}"
                update = Column(name) if back == 0 else Column(f"state.{name}_previous.{back - 1}")
                made.append(op.StateColumn(label, kind, initial, update))
        wide = draft(op.State(tuple(made), config=False, keep=True), self.draft)
        shown = (*self.schema.names, *(f"{name}_previous" for name in names))
        return Stream(draft(op.Select(tuple((name, Column(name)) for name in shown)), wide))

    @located
    def map(self, function: str | Callable[..., object], *, keep: bool = False, **parameters: Value) -> Stream:
        """Each row through a plain function registered with `@rs.function`: `gps.map(kmh)`. The row is then the key and
        what the function gives; with `keep=True` its own columns stay."""
        kind = function_type(function)
        if kind.form not in PLAIN:
            raise UsageError(
                f"operator type {kind.name!r} is no plain function; write .apply({kind.name!r})", code="operator-form"
            )
        chosen = parameters_of(kind, parameters)
        built = op.Apply(kind.name, kind.version, chosen, deterministic=kind.deterministic, keep=keep)
        return Stream(draft(built, self.draft))

    def apply(
        self,
        operator: str,
        *others: Stream,
        config: Stream | None = None,
        within: str | None = None,
        **parameters: Value,
    ) -> Stream:
        """A registered operator type over rows; further streams go to its further input ports, in order."""
        return applied(operator, (self, *others), window=None, config=config, within=within, parameters=parameters)

    def port(self, name: str) -> Stream:
        """One output port of an operator type that has several."""
        return Stream(draft(op.Port(name), self.draft))

    # --- Where streams cross and end ----------------------------------------------------------------------------------

    @located
    def sync(
        self,
        name: str | None = None,
        *,
        batch: int = 60,
        batch_bytes: int = 65_536,
        within: str = "60s",
        codec: str = "auto",
        contract: Contract = LOSSLESS,
        evict: str = "query",
        priority: int = 0,
        deadline: str | None = None,
        missing: Mapping[str, Value] | None = None,
    ) -> Stream:
        """The phone, or the region, ends here. Without a name the edge is called like the stream's first source.
        `missing`: the values of columns in rows of phones whose program does not have them yet."""
        deadline_us = None if deadline is None else microseconds(deadline)
        edge = name or _first_source_name(self.draft)
        operator = op.Sync(
            edge, batch, batch_bytes, microseconds(within), codec, contract, evict, priority, deadline_us,
            tuple((missing or {}).items()),
        )  # fmt: skip
        return Stream(draft(operator, self.draft))

    @located
    def gather(
        self,
        name: str | None = None,
        *,
        batch: int = 60,
        within: str = "1s",
        contract: Contract = LOSSLESS,
    ) -> Stream:
        """Rows of several devices meet here, on nodes near them: `ecg.gather("ecg").key_by().tumbling("1m")`. What
        follows runs in the region, until `.sync()` or `.subscribe(...)`. Without a name as with `sync`."""
        edge = name or _first_source_name(self.draft)
        return Stream(draft(op.Gather(edge, batch, microseconds(within), contract), self.draft))

    def sync_back(self, name: str, *, commit: str = "latest") -> Stream:
        """Each row goes to the device it names. The stream returned is that device's, for further operators."""
        return Stream(draft(op.SyncBack(name, commit), self.draft))

    def subscribe(self, callback: Callback | str, *, name: str | None = None) -> Sink:
        """Hand rows, as columns, to a function of this program; or by a name that `evaluate` returns them under.

        A function's own name names the sink; give `name=` where the same one is subscribed twice.
        """
        if name is None:
            name = callback if isinstance(callback, str) else str(getattr(callback, "__name__", "subscription"))
        sink = Sink(draft(op.Subscribe(name), self.draft), None if isinstance(callback, str) else callback)
        program = current_program()
        if program is not None and not isinstance(callback, str):
            program.callbacks[name] = callback
        return sink

    @located
    def feed(self, feedback: Stream) -> Sink:
        """Close a cycle: these rows come out of a stream made with `rs.feedback`."""
        source = _draft_of(feedback).operator
        if not isinstance(source, op.Feedback):
            raise UsageError("feed takes a stream made with rs.feedback(...)", code="graph-input")
        if self.type != feedback.type:
            raise UsageError(
                f"feedback {source.name!r} carries {feedback.type}, but is fed {self.type}", code="graph-alphabet"
            )
        fed = draft(op.Feed(source.name), self.draft)
        feedback.draft.companions.append(fed)
        return Sink(fed)

    @located
    def read(self, sensor: str, columns: Mapping[str, str] | None = None) -> Stream:
        """One reading of a sensor for every row here: adaptive sampling. `signals.read("gps")`."""
        from shared.stream.sources import sensor_schema

        reading = draft(op.Sensor(sensor, 0, sensor_schema(sensor, columns)))
        reading.companions.append(draft(op.Request(sensor), self.draft))
        return Stream(reading)


class Sink:
    """Where rows leave the plan. It has no verbs: what happens outside is not the plan's to describe (EC-5, rule 4)."""

    def __init__(self, made: Draft, callback: Callback | None = None) -> None:
        self.draft = made
        self.callback = callback

    @located
    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(Stream, name):
            raise AttributeError(name)
        raise UsageError(
            f".{name}(...) follows {self.draft.operator.kind!r}, which hands rows to the outside world; a "
            "plan does not connect the outside with itself. Write the verb on the stream before it",
            code="graph-outside",
        )


@located
def applied(
    operator: str,
    streams: tuple[Stream, ...],
    *,
    window: Window | None,
    config: Stream | None,
    within: str | None,
    parameters: Mapping[str, Value],
) -> Stream:
    """A use of a registered operator type; checks its ports and parameters."""
    kind = operator_type(operator)
    if len(streams) != len(kind.inputs):
        ports = ", ".join(port for port, _ in kind.inputs)
        raise UsageError(
            f"operator type {operator!r} has the input ports ({ports}) and each takes exactly one stream; "
            f"{len(streams)} given",
            code="graph-input",
        )
    built = op.Apply(
        operator,
        kind.version,
        parameters_of(kind, parameters),
        window,
        kind.deterministic,
        config is not None,
        None if within is None else microseconds(within),
    )
    sources = streams if config is None else (*streams, config)
    return Stream(draft(built, *map(_draft_of, sources)))


def _draft_of(stream: Stream) -> Draft:
    if not isinstance(stream, Stream):
        raise UsageError(f"expected a stream, not {type(stream).__name__} {stream!r}", code="graph-input")
    return stream.draft


def _first_source_name(made: Draft) -> str:
    while made.inputs:
        made = made.inputs[0]
    return made.operator.name if isinstance(made.operator, op.Source) else "sync"
