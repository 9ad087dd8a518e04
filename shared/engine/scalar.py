"""The path of single rows: a run of filters and a projection as one plain Python function.

A batch of one costs numpy a microsecond per column and call; a phone that reacts to each event should not pay that.
The expression tree, which is checked data of a closed set, is turned into Python's own syntax tree (never text) and
compiled, so the function is what one would write by hand. Operators that Python computes differently from columns
(integers that wrap, division by zero, functions) are left to the columnar path.

A row is a tuple: the time, then the columns in the schema's order, without `device` on a device's own streams.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TypeAlias

from shared.stream.expressions import FLOATS, TIME, Binary, Column, Expression, Literal, Unary, is_number, kind_of
from shared.stream.schema import Schema

Row: TypeAlias = tuple[object, ...]
RowsFunction: TypeAlias = Callable[[Sequence[Row]], list[Row]]
RowFunction: TypeAlias = Callable[[Row], object]

_COMPARE: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip
_FLOAT_ARITHMETIC: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}


class NoScalarForm(Exception):
    """This expression stays with the columnar path."""


@dataclass(frozen=True, slots=True)
class RowsForm:
    """Filters and a projection, as written, and the columns of the rows they are given. A column that is read but not
    given is `device`, which says the same on every row."""

    predicates: tuple[Expression, ...]
    columns: tuple[tuple[str, Expression], ...]
    schema: Schema
    given: tuple[str, ...]
    device: str

    @property
    def gives(self) -> tuple[str, ...]:
        """The columns of the rows that come out."""
        return tuple(name for name, expression in self.columns if not self._left_out(expression))

    def _left_out(self, expression: Expression) -> bool:
        return isinstance(expression, Column) and expression.name not in (*self.given, TIME)

    def rows_function(self) -> RowsFunction:
        """From rows to the rows that pass, projected."""
        loop = ast.comprehension(
            target=ast.Name("row", ast.Store()), iter=ast.Name("rows", ast.Load()), ifs=self._tests(), is_async=0
        )
        return _function("rows", ast.ListComp(elt=self._projected(), generators=[loop]), {})

    def row_function(self, deliver: Callable[[Row], object]) -> RowFunction:
        """Hands one row on to `deliver` if it passes, projected."""
        call = ast.Call(ast.Name("deliver", ast.Load()), [self._projected()], [])
        tests = self._tests()
        body: ast.expr = ast.BoolOp(ast.And(), [*tests, call]) if tests else call
        return _function("row", body, {"deliver": deliver})

    def _tests(self) -> list[ast.expr]:
        return [self._translated(predicate) for predicate in self.predicates]

    def _projected(self) -> ast.expr:
        kept = [expression for _, expression in self.columns if not self._left_out(expression)]
        if kept == [Column(name) for name in self.given]:
            return ast.Name("row", ast.Load())
        return ast.Tuple([_place(0), *map(self._translated, kept)], ast.Load())

    def _translated(self, expression: Expression) -> ast.expr:
        match expression:
            case Column(name):
                if name == TIME:
                    return _place(0)
                return _place(self.given.index(name) + 1) if name in self.given else ast.Constant(self.device)
            case Literal(_, value):
                return ast.Constant(value)
            case Unary("not", operand):
                return ast.UnaryOp(ast.Not(), self._translated(operand))
            case Binary("and" | "or" as operator, left, right):
                joint = ast.And() if operator == "and" else ast.Or()
                return ast.BoolOp(joint, [self._translated(left), self._translated(right)])
            case Binary(operator, left, right) if operator in _COMPARE:
                return ast.Compare(self._met(left, right), [_COMPARE[operator]()], [self._met(right, left)])
            case Binary(operator, left, right) if operator in _FLOAT_ARITHMETIC:
                if kind_of(expression, self.schema) == "float64":
                    return ast.BinOp(self._met(left, right), _FLOAT_ARITHMETIC[operator](), self._met(right, left))
        raise NoScalarForm

    def _met(self, expression: Expression, other: Expression) -> ast.expr:
        """The operand in the kind in which it meets the other: a whole number beside a float becomes one."""
        mine, theirs = kind_of(expression, self.schema), kind_of(other, self.schema)
        made = self._translated(expression)
        if mine == "uint64":
            raise NoScalarForm  # widening wraps
        if is_number(mine) and mine not in FLOATS and theirs in FLOATS:
            if isinstance(expression, Literal):
                return ast.Constant(float(expression.value))
            return ast.Call(ast.Name("float", ast.Load()), [made], [])
        return made


def _place(number: int) -> ast.expr:
    return ast.Subscript(ast.Name("row", ast.Load()), ast.Constant(number), ast.Load())


def _function(argument: str, body: ast.expr, known: dict[str, object]) -> Callable[..., list[Row]]:
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(argument)], kwonlyargs=[], kw_defaults=[], defaults=[])
    module = ast.Module([ast.Assign([ast.Name("made", ast.Store())], ast.Lambda(arguments, body))], [])
    code = compile(ast.fix_missing_locations(module), "<plan>", "exec")
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return FunctionType(inner, {"float": float, **known})
