"""States of a whole batch at once, where each state's next value is a fold that numpy knows: sums, products, extremes,
flags, values taken from a row or held, and choices among them by what does not read the state itself.

The answer has the bits of taking row after row. `accumulate` is a strict left fold. An extreme is found by which rows
set a new one, so that signs of zero and missing values are those of the comparison that was written. A state that other
states read is computed before them and handed over a row later. Everything else goes row by row (`row_code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shared.engine.evaluation import Answer, cast, compiled
from shared.language.expressions import (
    INTEGERS,
    Binary,
    Call,
    Column,
    Expression,
    columns_of,
    kind_of,
    to_json,
)
from shared.language.schema import Schema, dtype

Columns: TypeAlias = Mapping[str, np.ndarray]
_HOLD, _TAKE, _FOLD = 0, 1, 2
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class _Fold:
    """How the state and a row's value make the next state."""

    function: np.ufunc
    wide: np.dtype
    # Of an extreme: what is better than the state, and whether a missing value is taken.
    better: np.ufunc | None = None
    takes_missing: bool = False

    def first(self, state: np.ndarray, value: np.ndarray) -> np.ndarray:
        """The fold of a state and one row."""
        if self.better is None:
            made: np.ndarray = self.function(state, value)
            return made
        taken = self.better(value, state)
        if self.takes_missing:
            taken = (taken | (value != value)) & (state == state)  # noqa: PLR0124  # NaN differs from itself
        return np.where(taken, value, state)

    def along(self, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """The fold of each row and those before it, from the last of `begins` on."""
        if self.better is None:
            return accumulated(self.function, values, begins)
        missing = values != values  # noqa: PLR0124
        missing[begins] = False
        known = values
        if not self.takes_missing and missing.any():
            worst = -np.inf if self.function is np.maximum else np.inf
            known = np.where(missing, worst, values)
        best = accumulated(self.function, known, begins)
        before = np.append(best[:1], best[:-1])
        sets = self.better(known, before)
        if self.takes_missing:
            sets |= missing & (before == before)  # noqa: PLR0124
        else:
            sets &= ~missing
        sets[begins] = True
        made: np.ndarray = values[np.maximum.accumulate(np.where(sets, np.arange(len(values)), 0))]
        return made


@dataclass(frozen=True, slots=True)
class _Leaf:
    action: int
    value: Answer | None = None  # what is taken or folded in


@dataclass(frozen=True, slots=True)
class _Choice:
    condition: Answer
    yes: _Way
    no: _Way


_Way: TypeAlias = _Leaf | _Choice


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What happens to the state at each row, and with which value."""

    action: np.ndarray
    given: np.ndarray


class Scan:
    """One state's values over a run of rows, key by key."""

    def __init__(self, name: str, kind: str, update: Expression, schema: Schema) -> None:
        self.name, self.kind = name, kind
        self._own = f"state.{name}"
        self._schema = schema
        self._fold: _Fold | None = None
        self._way = self._ways(update)

    def values(self, columns: Columns, time: np.ndarray, begins: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The state after each row; keys begin at `begins` with the state `before`."""
        wide = self._fold.wide if self._fold is not None else dtype(self.kind)
        if isinstance(self._way, _Leaf):
            if self._way.value is None:
                return np.repeat(before, np.diff(np.append(begins, len(time))))
            given = cast(self._way.value(columns, time), self.kind).astype(wide, copy=False)
            if self._way.action == _TAKE or self._fold is None:
                return given
            return self._folded(given, begins, before.astype(wide, copy=False)).astype(dtype(self.kind), copy=False)
        chosen = _Chosen(np.empty(len(time), np.int8), np.empty(len(time), wide))
        self._choose(self._way, columns, time, np.arange(len(time)), chosen)
        after = self._after(chosen, begins, before.astype(wide, copy=False))
        return after.astype(dtype(self.kind), copy=False)

    def _folded(self, given: np.ndarray, begins: np.ndarray, before: np.ndarray) -> np.ndarray:
        if self._fold is None:
            return given
        values = given.copy()
        values[begins] = self._fold.first(before, given[begins])
        return self._fold.along(values, begins)

    def _choose(self, way: _Way, columns: Columns, time: np.ndarray, places: np.ndarray, chosen: _Chosen) -> None:
        """Writes down what happens at these places."""
        if isinstance(way, _Leaf):
            chosen.action[places] = way.action
            if way.value is not None:
                chosen.given[places] = cast(way.value(columns, time), self.kind)[places]
            return
        yes = way.condition(columns, time)[places]
        self._choose(way.yes, columns, time, places[yes], chosen)
        self._choose(way.no, columns, time, places[~yes], chosen)

    def _after(self, chosen: _Chosen, begins: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Rows that hold are left out of the folds; rows that take begin one."""
        action, given = chosen.action, chosen.given
        rows = np.arange(len(action))
        changes = np.flatnonzero(action)
        last = np.maximum.accumulate(np.where(action != _HOLD, rows, -1))  # the row that set the state
        whose = np.searchsorted(begins, rows, side="right") - 1
        held = last < begins[whose]
        if not len(changes):
            return before[whose]
        owner = whose[changes]
        heads = np.append(True, owner[1:] != owner[:-1])
        values = given[changes]
        if self._fold is not None:
            taken = action[changes] == _TAKE
            first = np.flatnonzero(heads & ~taken)
            values[first] = self._fold.first(before[owner[first]], values[first])
            values = self._fold.along(values, np.flatnonzero(heads | taken))
        return np.where(held, before[whose], values[np.searchsorted(changes, last)])

    # -- what an update says --------------------------------------------------------------------------------------

    def _ways(self, update: Expression) -> _Way:
        if self._own not in columns_of(update):
            return _Leaf(_TAKE, compiled(update, self._schema))
        match update:
            case Column():
                return _Leaf(_HOLD)
            case Call("if_else", (condition, yes, no)):
                if self._own not in columns_of(condition):
                    return _Choice(compiled(condition, self._schema), self._ways(yes), self._ways(no))
                return self._extreme_by_choice(condition, yes, no)
            case Call("minimum" | "maximum" as function, (left, right)):
                return self._extreme(function, left, right)
            case Binary(operator, left, right):
                return self._operation(operator, left, right)
        raise NoScanError

    def _operation(self, operator: str, left: Expression, right: Expression) -> _Way:
        own = Column(self._own)
        kind = kind_of(Binary(operator, left, right), self._schema)
        function = _FUNCTIONS.get(operator)
        other = right if left == own else left
        swapped = left != own
        if function is None or (swapped and (operator == "-" or right != own)) or self._own in columns_of(other):
            raise NoScanError
        if kind != self.kind and not (kind == "int64" and self.kind in INTEGERS):
            raise NoScanError  # the state is rounded after each row
        return self._leaf(_Fold(function, dtype(kind)), other)

    def _extreme(self, function: str, left: Expression, right: Expression) -> _Way:
        """`minimum` and `maximum` keep the left one where neither is better."""
        own = Column(self._own)
        if left == own:
            better: np.ufunc = np.less if function == "minimum" else np.greater
        else:
            better = np.less_equal if function == "minimum" else np.greater_equal
        if own not in (left, right):
            raise NoScanError
        most = np.minimum if function == "minimum" else np.maximum
        return self._leaf(
            _Fold(most, dtype(self.kind), better, takes_missing=True), right if left == own else left, alike=True
        )

    def _extreme_by_choice(self, condition: Expression, yes: Expression, no: Expression) -> _Way:
        """`if_else(value > state, value, state)`, written either way round."""
        own = Column(self._own)
        match condition:
            case Binary(operator, left, right) if operator in _FLIPPED and no == own:
                value, sign = (left, operator) if right == own else (right, _FLIPPED[operator])
                if own in (left, right) and to_json(value) == to_json(yes):
                    most = np.maximum if sign in (">", ">=") else np.minimum
                    return self._leaf(_Fold(most, dtype(self.kind), _BETTER[sign]), value, alike=True)
        raise NoScanError

    def _leaf(self, fold: _Fold, value: Expression, *, alike: bool = False) -> _Leaf:
        kind = kind_of(value, self._schema)
        fits = kind == self.kind or (not alike and kind in INTEGERS and self.kind in INTEGERS) or (
            self.kind == "float64" and kind in (*INTEGERS, "float32")
        )  # fmt: skip
        if self._own in columns_of(value) or not fits or self._fold not in (None, fold):
            raise NoScanError
        self._fold = fold
        return _Leaf(_FOLD, compiled(value, self._schema))


class NoScanError(Exception):
    """An update that only goes row by row."""


_FUNCTIONS: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
_BETTER: dict[str, np.ufunc] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def scans_of(
    names: Sequence[str], updates: Sequence[Expression], kinds: Sequence[str], schema: Schema
) -> list[Scan] | None:
    """A scan for each state, those that others read before them; None where some state must go row by row."""
    reads = {
        name: {read for read in columns_of(update) if read.startswith("state.") and read != f"state.{name}"}
        for name, update in zip(names, updates, strict=True)
    }
    done: list[str] = []
    while len(done) < len(names):
        ready = [name for name in names if name not in done and reads[name] <= {f"state.{one}" for one in done}]
        if not ready:
            return None  # states that read each other
        done += ready
    by_name = {name: (update, kind) for name, update, kind in zip(names, updates, kinds, strict=True)}
    try:
        return [Scan(name, by_name[name][1], by_name[name][0], schema) for name in done]
    except NoScanError:
        return None


def run_scans(
    scans: Sequence[Scan], columns: Columns, time: np.ndarray, begins: np.ndarray, before: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Each state after each row. Rows of a key stand together, from `begins` on, with its states `before` them."""
    known = dict(columns)
    made: dict[str, np.ndarray] = {}
    for scan in scans:
        values = made[scan.name] = scan.values(known, time, begins, before[scan.name])
        earlier = np.empty_like(values)
        earlier[1:] = values[:-1]
        earlier[begins] = before[scan.name]
        known[f"state.{scan.name}"] = earlier
    return made


def accumulated(function: np.ufunc, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """`function.accumulate` that starts anew at each of `begins`. Runs of about one length share a grid."""
    if len(begins) == 1:
        whole: np.ndarray = function.accumulate(values)
        return whole
    lengths = np.diff(np.append(begins, len(values)))
    out = np.empty_like(values)
    width = np.frexp(lengths.astype(np.float64))[1]
    for each in np.unique(width).tolist():
        chosen = np.flatnonzero(width == each)
        steps = np.arange(int(lengths[chosen].max()))
        places = begins[chosen, None] + steps
        there = steps < lengths[chosen, None]
        folded = function.accumulate(values[np.minimum(places, len(values) - 1)], axis=1)
        out[places[there]] = folded[there]
    return out
