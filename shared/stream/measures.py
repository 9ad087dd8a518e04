"""Aggregates as a program writes them: formulas over a window's rows, and how those become the plan's aggregates.

`rs.sum("bytes") / rs.count(where=col.bytes > 0)` is one formula that reads two aggregates. The plan has operators for
the parts: columns computed before the window where there is a condition, the window's aggregates, and a projection of
its rows where aggregates meet in arithmetic. A program without either has the plan it always had.

A condition becomes a value that the aggregate skips, where the column's kind has one: NaN in floats, 0 in sums. Where
it has none (the least of some whole numbers, the first of some texts) the plan's aggregate names the condition's
column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from shared.errors import UsageError
from shared.language.aggregates import Aggregate, Parameters, check_aggregate, text_of
from shared.language.expressions import (
    FLOATS,
    Binary,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    Unary,
    kind_of,
    substitute,
    to_json,
)
from shared.language.expressions import text_of as expression_text
from shared.plan import operators as op
from shared.plan.operators.windows import fields_of
from shared.stream.drafts import Draft, draft, located
from shared.stream.formulas import Formula, Measured, Operand, expression_of

Opened = Callable[[Draft, tuple[tuple[str, Aggregate], ...]], Draft]  # a window over a stream, and what to make of it

NAN = Literal("float64", float("nan"))


@located
def measure(
    function: str, columns: tuple[str, ...], parameters: Parameters = (), *, where: Operand | None = None
) -> Formula:
    """The formula that is one aggregate."""
    aggregate = Aggregate(function, columns, parameters)
    condition = None if where is None else expression_of(where)
    text = text_of(aggregate) + ("" if condition is None else f" where {expression_text(condition)}")
    identity = [function, columns, [[name, repr(value)] for name, value in parameters]]
    name = json.dumps([*identity, None if condition is None else to_json(condition)])
    return Formula(Column(name), measured={name: Measured(aggregate, condition, text)})


def aggregated(source: Draft, named: Mapping[str, object], opened: Opened) -> Draft:
    """The rows of a window: one column for each of these formulas, several for top_k and dft."""
    return _Aggregation(source, {name: _formula(name, given) for name, given in named.items()}).draft(opened)


def _formula(name: str, given: object) -> Formula:
    if isinstance(given, Aggregate):
        return measure(given.function, given.columns, given.parameters)
    if isinstance(given, Formula) and given.measured:
        return given
    raise UsageError(
        f"{name}={given!r} is not an aggregate; expected one like {name}=rs.mean('column')", code="aggregate-type"
    )


class _Aggregation:
    def __init__(self, source: Draft, named: Mapping[str, Formula]) -> None:
        self.source = source
        self.schema = source.type.schema
        self.named = named
        self.computed: dict[str, tuple[str, Expression]] = {}  # an expression's JSON -> its column before the window
        self.aggregates: dict[str, Aggregate] = {}
        self.places: dict[str, str] = {}  # a measured aggregate -> the window's column that has it

    def draft(self, opened: Opened) -> Draft:
        computed = [name for name, formula in self.named.items() if not isinstance(formula.expression, Column)]
        for name, formula in self.named.items():
            if name not in computed:
                (label,) = formula.measured
                self.aggregates[name] = self._lowered(formula.measured[label])
                self.places.setdefault(label, name)
        for name in computed:
            for label, measured in self.named[name].measured.items():
                self._place(label, measured)
        columns = [(name, Column(name)) for name in self.schema.names] + list(self.computed.values())
        source = draft(op.Select(tuple(columns)), self.source) if self.computed else self.source
        made = opened(source, tuple(self.aggregates.items()))
        return self._projected(source, made) if computed else made

    def _place(self, label: str, measured: Measured) -> None:
        """One column of the window's rows for an aggregate that formulas read."""
        if measured.aggregate.function in ("top_k", "dft"):
            raise UsageError(
                f"{measured.text} gives several columns: name it by itself, and compute with them behind the window",
                code="aggregate-type",
            )
        if label not in self.places:
            name = _unused("aggregate", (*self.schema.names, *self.named, *self.aggregates))
            self.aggregates[name] = self._lowered(measured)
            self.places[label] = name

    def _projected(self, source: Draft, made: Draft) -> Draft:
        """The key and bounds, what was asked for, and what the window says of itself."""
        fields = {
            name: [field.name for field in fields_of(name, aggregate, source.type)]
            for name, aggregate in self.aggregates.items()
        }
        own = [name for name in made.type.schema.names if not any(name in listed for listed in fields.values())]
        before = len(made.type.key) + 2  # window_start and window_end follow the key
        columns: list[tuple[str, Expression]] = [(name, Column(name)) for name in own[:before]]
        labels: Mapping[str, Expression] = {label: Column(name) for label, name in self.places.items()}
        for name, formula in self.named.items():
            if isinstance(formula.expression, Column):
                columns += [(field, Column(field)) for field in fields[name]]
            else:
                columns.append((name, substitute(formula.expression, labels)))
        columns += [(name, Column(name)) for name in own[before:]]
        return draft(op.Select(tuple(columns)), made)

    # --- Conditions ---------------------------------------------------------------------------------------------------

    def _lowered(self, measured: Measured) -> Aggregate:
        """The plan's aggregate, over the source's columns and those computed for it."""
        aggregate, condition = measured.aggregate, measured.condition
        if condition is None:
            return aggregate
        if kind_of(condition, self.schema) != "bool":
            raise UsageError(f"{measured.text}: where= takes a condition (bool)", code="aggregate-where")
        kinds = check_aggregate(aggregate, self.schema)
        column = Column(aggregate.columns[0]) if aggregate.columns else None
        kind = kinds[0] if kinds else None
        match aggregate.function:
            case "count":
                if column is not None and kind in FLOATS:
                    condition = Binary("and", condition, Unary("not", Call("is_missing", (column,))))
                return Aggregate("sum", (self._column(condition),))
            case "sum" if column is not None and kind == "bool":
                return replace(aggregate, columns=(self._column(Binary("and", condition, column)),))
            case "sum" if column is not None and kind not in FLOATS:
                chosen = Call("if_else", (condition, column, Literal("int64", 0)))
                return replace(aggregate, columns=(self._column(chosen),))
            case "sum" | "mean" | "variance" | "std" | "quantile" | "path_km" if column is not None:
                masked = Call("if_else", (condition, Cast("float64", column), NAN))
                return replace(aggregate, columns=(self._column(masked), *aggregate.columns[1:]))
            case "min" | "max" | "first" | "last" | "distinct" | "top_k" if column is not None and kind in FLOATS:
                masked = Call("if_else", (condition, column, NAN))
                return replace(aggregate, columns=(self._column(Cast(str(kind), masked)),))
        return replace(aggregate, where=self._column(condition))

    def _column(self, expression: Expression) -> str:
        """The column before the window that has this expression's value."""
        identity = json.dumps(to_json(expression))
        if identity not in self.computed:
            taken = (*self.schema.names, *(name for name, _ in self.computed.values()))
            self.computed[identity] = (_unused("where", taken), expression)
        return self.computed[identity][0]


def _unused(stem: str, taken: tuple[str, ...]) -> str:
    number = 1
    while f"{stem}.{number}" in taken:
        number += 1
    return f"{stem}.{number}"
