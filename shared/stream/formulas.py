"""How expressions are written: `col.accuracy < 50` builds a frozen tree, nothing is computed.

A Formula wraps an expression. Python's operators on formulas build bigger ones; the expressions themselves stay plain
data with plain equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from shared.errors import UsageError
from shared.language.aggregates import Aggregate
from shared.language.expressions import (
    DEPTH_MAX,
    FUNCTIONS,
    Binary,
    Call,
    Cast,
    Column,
    Expression,
    Unary,
    literal,
    substitute,
    text_of,
    too_deep,
)
from shared.language.schema import KINDS
from shared.stream.drafts import located


class Measured(NamedTuple):
    """An aggregate that a formula reads, of the rows for which the condition holds."""

    aggregate: Aggregate
    condition: Expression | None
    text: str


_NOTHING: Mapping[str, Measured] = MappingProxyType({})


class Formula:
    """An expression under construction. Use & | ~ for and, or, not; brackets around comparisons.

    `measured` are the aggregates of a window that it reads, each as a column of that name.
    """

    __slots__ = ("depth", "expression", "measured")

    def __init__(self, expression: Expression, depth: int = 0, measured: Mapping[str, Measured] = _NOTHING) -> None:
        self.expression = expression
        self.depth = depth
        self.measured = measured

    def __repr__(self) -> str:
        return f"<{self.text}>"

    @property
    def text(self) -> str:
        """As a person would write it."""
        return text_of(substitute(self.expression, {name: Column(each.text) for name, each in self.measured.items()}))

    def __hash__(self) -> int:
        return hash(self.expression)

    @located
    def __bool__(self) -> bool:
        raise UsageError(
            f"{self.text} has no truth value while the program is written; use & | ~ and brackets "
            "instead of and, or, not",
            code="expression-truth",
        )

    def __add__(self, other: Operand) -> Formula:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Formula:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Formula:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Formula:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Formula:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Formula:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Formula:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Formula:
        return _binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Formula:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Formula:
        return _binary("//", other, self)

    def __mod__(self, other: Operand) -> Formula:
        return _binary("%", self, other)

    def __rmod__(self, other: Operand) -> Formula:
        return _binary("%", other, self)

    def __pow__(self, other: Operand) -> Formula:
        return _binary("**", self, other)

    def __rpow__(self, other: Operand) -> Formula:
        return _binary("**", other, self)

    def __lt__(self, other: Operand) -> Formula:
        return _binary("<", self, other)

    def __le__(self, other: Operand) -> Formula:
        return _binary("<=", self, other)

    def __gt__(self, other: Operand) -> Formula:
        return _binary(">", self, other)

    def __ge__(self, other: Operand) -> Formula:
        return _binary(">=", self, other)

    def __eq__(self, other: object) -> Formula:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Formula:  # type: ignore[override]
        return _binary("!=", self, other)

    def __and__(self, other: Operand) -> Formula:
        return _binary("and", self, other)

    def __rand__(self, other: Operand) -> Formula:
        return _binary("and", other, self)

    def __or__(self, other: Operand) -> Formula:
        return _binary("or", self, other)

    def __ror__(self, other: Operand) -> Formula:
        return _binary("or", other, self)

    def __invert__(self) -> Formula:
        return _deeper(Unary("not", self.expression), self)

    def __neg__(self) -> Formula:
        return _deeper(Unary("-", self.expression), self)

    def __abs__(self) -> Formula:
        return _deeper(Call("abs", (self.expression,)), self)

    @located
    def cast(self, kind: str) -> Formula:
        """This value as another kind; float to whole number truncates."""
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is not a kind; expected one of {', '.join(KINDS)}", code="schema-kind")
        return _deeper(Cast(kind, self.expression), self)

    @located
    def isin(self, values: Iterable[bool | int | float | str]) -> Formula:
        """True where this is one of the values: `col.tag.isin(["walk", "run"])`."""
        choices = [self == value for value in values]
        if not choices:
            raise UsageError("isin takes at least one value", code="expression-literal")
        while len(choices) > 1:  # by halves, so that many values are not a deep expression
            choices = [
                choices[place] | choices[place + 1] if place + 1 < len(choices) else choices[place]
                for place in range(0, len(choices), 2)
            ]
        return choices[0]

    @located
    def fill(self, value: Operand) -> Formula:
        """This float, or the value where it is missing (NaN)."""
        return call("if_else", call("is_missing", self), value, self)


Operand: TypeAlias = Formula | bool | int | float | str


class Columns:
    """`col.lat` or `col["odd name"]`: a column of the stream that the expression is used on."""

    def __getattr__(self, name: str) -> Formula:
        if name.startswith("__"):  # copy, pickle and inspect ask for these; they are no columns
            raise AttributeError(name)
        return Formula(Column(name))

    def __getitem__(self, name: str) -> Formula:
        return Formula(Column(name))


class StateColumns:
    """`state.peak`: a stateful stream's own value before the row at hand."""

    def __getattr__(self, name: str) -> Formula:
        if name.startswith("__"):
            raise AttributeError(name)
        return Formula(Column(f"state.{name}"))


col = Columns()
state = StateColumns()


def expression_of(value: object) -> Expression:
    """The expression that a Formula, a column's name in `col`, or a constant stands for, over the columns of rows."""
    if isinstance(value, Formula) and value.measured:
        raise UsageError(
            f"{value.text} is of a window's rows: it stands in .aggregate(name=...) behind a window, and nowhere else",
            code="aggregate-place",
        )
    return _tree(value)


def _tree(value: object) -> Expression:
    return value.expression if isinstance(value, Formula) else literal(value)


@located
def call(function: str, *arguments: Operand) -> Formula:
    """A named function of the expression language, e.g. call("hypot", col.x, col.y)."""
    if function not in FUNCTIONS:
        raise UsageError(
            f"{function!r} is not a function of expressions; known: {', '.join(FUNCTIONS)}", code="expression-function"
        )
    return _deeper(Call(function, tuple(_tree(argument) for argument in arguments)), *arguments)


@located
def _binary(operator: str, left: object, right: object) -> Formula:
    return _deeper(Binary(operator, _tree(left), _tree(right)), left, right)


@located
def _deeper(expression: Expression, *parts: object) -> Formula:
    """A formula around others; refused here, at the user's line, where it is deeper than plans carry."""
    depth = 1 + max((part.depth for part in parts if isinstance(part, Formula)), default=0)
    if depth > DEPTH_MAX:
        raise too_deep()
    measured = {name: each for part in parts if isinstance(part, Formula) for name, each in part.measured.items()}
    return Formula(expression, depth, measured or _NOTHING)


def column_name(column: object, *, where: str) -> str:
    """The name of a column that a verb takes as text; says what to write where something else was given."""
    if isinstance(column, str):
        return column
    if isinstance(column, Formula):
        if isinstance(column.expression, Column) and not column.measured:
            name = column.expression.name
            raise UsageError(
                f"{where} takes the names of columns: write {name!r} instead of col.{name}", code="column-name"
            )
        raise UsageError(
            f"{where} takes the names of columns, not an expression; compute {column!r} first: .extend(name=...), then "
            "name it as text",
            code="column-name",
        )
    raise UsageError(f"{where} takes the names of columns as text, not {column!r}", code="column-name")
