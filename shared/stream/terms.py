"""How expressions are written: `col.accuracy < 50` builds a frozen tree, nothing is computed.

A Term wraps an expression so that Python's operators can build bigger ones while the expressions themselves stay plain
data with plain equality.
"""

from __future__ import annotations

from typing import TypeAlias

from shared.errors import UsageError
from shared.stream.drafts import located
from shared.stream.expressions import FUNCTIONS, Binary, Call, Cast, Column, Expression, Unary, literal, text_of
from shared.stream.schema import KINDS


class Term:
    """An expression under construction. Use & | ~ for and, or, not; brackets around comparisons."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"<{text_of(self.expression)}>"

    def __hash__(self) -> int:
        return hash(self.expression)

    @located
    def __bool__(self) -> bool:
        raise UsageError(
            f"{text_of(self.expression)} has no truth value while the program is written; use & | ~ and brackets "
            "instead of and, or, not",
            code="expression-truth",
        )

    def __add__(self, other: Operand) -> Term:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Term:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Term:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Term:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return _binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Term:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Term:
        return _binary("//", other, self)

    def __mod__(self, other: Operand) -> Term:
        return _binary("%", self, other)

    def __rmod__(self, other: Operand) -> Term:
        return _binary("%", other, self)

    def __pow__(self, other: Operand) -> Term:
        return _binary("**", self, other)

    def __lt__(self, other: Operand) -> Term:
        return _binary("<", self, other)

    def __le__(self, other: Operand) -> Term:
        return _binary("<=", self, other)

    def __gt__(self, other: Operand) -> Term:
        return _binary(">", self, other)

    def __ge__(self, other: Operand) -> Term:
        return _binary(">=", self, other)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return _binary("!=", self, other)

    def __and__(self, other: Operand) -> Term:
        return _binary("and", self, other)

    def __rand__(self, other: Operand) -> Term:
        return _binary("and", other, self)

    def __or__(self, other: Operand) -> Term:
        return _binary("or", self, other)

    def __ror__(self, other: Operand) -> Term:
        return _binary("or", other, self)

    def __invert__(self) -> Term:
        return Term(Unary("not", self.expression))

    def __neg__(self) -> Term:
        return Term(Unary("-", self.expression))

    def __abs__(self) -> Term:
        return Term(Call("abs", (self.expression,)))

    @located
    def cast(self, kind: str) -> Term:
        """This value as another kind; float to whole number truncates."""
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is not a kind; expected one of {', '.join(KINDS)}", code="schema-kind")
        return Term(Cast(kind, self.expression))


Operand: TypeAlias = Term | bool | int | float | str


class Columns:
    """`col.lat` or `col["odd name"]`: a column of the stream that the expression is used on."""

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):  # copy, pickle and inspect ask for these; they are no columns
            raise AttributeError(name)
        return Term(Column(name))

    def __getitem__(self, name: str) -> Term:
        return Term(Column(name))


class StateColumns:
    """`state.peak`: a stateful stream's own value before the row at hand."""

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return Term(Column(f"state.{name}"))


col = Columns()
state = StateColumns()


def expression_of(value: object) -> Expression:
    """The expression that a Term, a column's name in `col`, or a constant stands for."""
    return value.expression if isinstance(value, Term) else literal(value)


@located
def call(function: str, *arguments: Operand) -> Term:
    """A named function of the expression language, e.g. call("hypot", col.x, col.y)."""
    if function not in FUNCTIONS:
        raise UsageError(
            f"{function!r} is not a function of expressions; known: {', '.join(FUNCTIONS)}", code="expression-function"
        )
    return Term(Call(function, tuple(expression_of(argument) for argument in arguments)))


def _binary(operator: str, left: object, right: object) -> Term:
    return Term(Binary(operator, expression_of(left), expression_of(right)))
