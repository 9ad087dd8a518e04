"""Random expressions over columns of given kinds, as a user writes them, with what they mean."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference import values
from tests.reference.values import Written

WHOLE = {"int8", "int16", "int64"}
NUMBERS = ("float64", "float32", "int64", "int16")
TEXTS = ("walk", "", "a", "A b", "Straße", "日本", "1.5", "b-a")
SEPARATORS = ("a", "-", " ", "")


class Expressions:
    """Draws expressions over these columns; `state` are the columns of a stateful stream."""

    def __init__(
        self, draw: np.random.Generator, kinds: Mapping[str, str], state: Mapping[str, str] | None = None
    ) -> None:
        self.draw = draw
        self.columns = {f"col.{name}": (name, kind) for name, kind in kinds.items()}
        self.columns |= {f"state.{name}": (f"state.{name}", kind) for name, kind in (state or {}).items()}

    def pick(self, options: Any) -> Any:
        return options[int(self.draw.integers(len(options)))]

    def column(self, *kinds: str) -> Written | None:
        found = [(text, name, kind) for text, (name, kind) in self.columns.items() if kind in kinds]
        if not found:
            return None
        text, name, kind = self.pick(found)
        return Written(text, kind, lambda row: row[name])

    def number(self, depth: int = 2, *, whole: bool = False) -> Written:
        """A number; `whole`: of the whole numbers."""
        shape = self.draw.integers(0, 10) if depth else self.draw.integers(0, 3)
        kinds = ("int64", "int16") if whole else NUMBERS
        found = self.column(*kinds) if shape < 2 else None
        if found is not None:
            return found
        if shape < 3 or not depth:
            return self._constant(whole=whole)
        if shape < 6:
            return self._arithmetic(depth - 1, whole=whole)
        if shape == 6:
            return self._choice(depth - 1, whole=whole)
        if shape == 7:
            return self._two(depth - 1, whole=whole)
        return self._whole_of(depth - 1) if whole else self._float_of(depth - 1)

    def _constant(self, *, whole: bool) -> Written:
        value = self.pick((-3, -1, 0, 1, 2, 7)) if whole else self.pick((-1.5, 0.0, 0.25, 1.0, 3.0, 10.5))
        return Written(repr(value), "int64" if whole else "float64", lambda _: value)

    def _arithmetic(self, depth: int, *, whole: bool) -> Written:
        left, right = self.number(depth, whole=whole), self.number(depth, whole=whole)
        sign = self.pick(("+", "-", "*", "//", "%") if whole else ("+", "-", "*", "/", "//", "%"))
        floats = sign == "/" or not {left.kind, right.kind} <= WHOLE
        kind = "float64" if floats else "int64"
        return self._formula(
            f"({left.text} {sign} {right.text})", (left, right), kind,
            lambda row: values.arithmetic(sign, left.of(row), right.of(row), kind),
        )  # fmt: skip

    def _formula(self, text: str, parts: tuple[Written, ...], kind: str, of: Any) -> Written:
        """Of two constants Python itself makes one, by its own rules: such a formula stays one of its constants."""
        made = any(word in part.text for part in parts for word in ("col.", "state.", "rs."))
        return Written(text, kind, of) if made else parts[0]

    def _choice(self, depth: int, *, whole: bool) -> Written:
        test, yes, no = self.condition(depth), self.number(depth, whole=whole), self.number(depth, whole=whole)
        kind = "int64" if {yes.kind, no.kind} <= WHOLE else "float64"
        return Written(
            f"rs.if_else({test.text}, {yes.text}, {no.text})", kind,
            lambda row: _widened(yes.of(row) if test.of(row) else no.of(row), kind),
        )  # fmt: skip

    def _two(self, depth: int, *, whole: bool) -> Written:
        left, right = self.number(depth, whole=whole), self.number(depth, whole=whole)
        name = self.pick(("minimum", "maximum"))
        choose = values.least if name == "minimum" else values.greatest
        kind = "int64" if {left.kind, right.kind} <= WHOLE else "float64"
        return Written(
            f'rs.call("{name}", {left.text}, {right.text})', kind,
            lambda row: choose(_widened(left.of(row), kind), _widened(right.of(row), kind)),
        )  # fmt: skip

    def _whole_of(self, depth: int) -> Written:
        if self.draw.random() < 0.5:
            text = self.text(depth)
            return Written(f'rs.call("length", {text.text})', "int64", lambda row: len(text.of(row)))
        kind = self.pick(("int8", "int16", "int64"))
        inner = self.column("float64", "float32", "int64", "int16", "bool")
        if inner is None:
            return self._constant(whole=True)
        return Written(f'{inner.text}.cast("{kind}")', kind, lambda row: values.cast(inner.of(row), kind))

    def _float_of(self, depth: int) -> Written:
        if self.draw.random() < 0.25:
            text = self.text(depth)
            return Written(f"rs.parse({text.text})", "float64", lambda row: values.parsed(text.of(row)))
        floats = self.column("float64", "float32")
        if floats is not None and self.draw.random() < 0.3:
            return Written(
                f"{floats.text}.fill(0.5)", "float64",
                lambda row: 0.5 if values.missing(floats.of(row)) else values.as_float(floats.of(row)),
            )  # fmt: skip
        name = self.pick(("sqrt", "floor", "ceil", "round", "sin"))
        inner, meaning = self.number(depth), values.MEANINGS[name]
        return Written(f'rs.call("{name}", {inner.text})', "float64", lambda row: meaning(inner.of(row)))

    def text(self, depth: int = 2) -> Written:
        shape = self.draw.integers(0, 9) if depth else 0
        if shape < 3:
            found = self.column("str")
            if found is not None:
                return found
        if shape < 4 or not depth:
            value = self.pick(TEXTS)
            return Written(repr(value), "str", lambda _: value)
        inner = self.text(depth - 1)
        if shape == 4:
            other = self.text(depth - 1)
            return Written(f"rs.concat({inner.text}, {other.text})", "str", lambda row: inner.of(row) + other.of(row))
        if shape == 5:
            separator, part = self.pick(SEPARATORS), int(self.draw.integers(0, 3))
            return Written(
                f"rs.split({inner.text}, {separator!r}, {part})", "str",
                lambda row: values.split(inner.of(row), separator, part),
            )  # fmt: skip
        if shape == 6:
            number = self.column("int64", "int16", "float64")
            if number is not None:
                return Written(f'{number.text}.cast("str")', "str", lambda row: values.cast(number.of(row), "str"))
        name = self.pick(("upper", "lower", "trim"))
        meaning = values.MEANINGS[name]
        return Written(f'rs.call("{name}", {inner.text})', "str", lambda row: meaning(inner.of(row)))

    def condition(self, depth: int = 2) -> Written:
        shape = self.draw.integers(0, 9) if depth else self.draw.integers(0, 4)
        if shape < 3:
            return self._comparison(max(depth - 1, 0))
        if shape == 3:
            return self._of_text()
        if shape == 4:
            flag = self.column("bool")
            if flag is not None:
                return flag
        if shape == 5:
            inner = self.condition(depth - 1)
            return Written(f"~({inner.text})", "bool", lambda row: not inner.of(row))
        if shape == 6:
            number = self.column("float64", "int64")
            if number is not None:
                name = self.pick(("is_missing", "is_finite"))
                meaning = values.MEANINGS[name]
                return Written(f'rs.call("{name}", {number.text})', "bool", lambda row: bool(meaning(number.of(row))))
        left, right = self.condition(max(depth - 1, 0)), self.condition(max(depth - 1, 0))
        sign = self.pick(("&", "|"))
        combine = operator.and_ if sign == "&" else operator.or_
        return Written(
            f"(({left.text}) {sign} ({right.text}))", "bool", lambda row: bool(combine(left.of(row), right.of(row)))
        )

    def _comparison(self, depth: int) -> Written:
        left = self.column(*NUMBERS)
        if left is None:
            return Written("(col.time >= 0)", "bool", lambda row: row["time"] >= 0)
        right = self.number(depth)
        sign = self.pick(("<", "<=", ">", ">=", "==", "!="))
        return Written(
            f"({left.text} {sign} {right.text})", "bool", lambda row: values.compared(sign, left.of(row), right.of(row))
        )

    def _of_text(self) -> Written:
        text = self.column("str")
        if text is None:
            return self._comparison(0)
        shape = self.draw.integers(0, 4)
        if shape == 0:
            chosen = [self.pick(TEXTS) for _ in range(3)]
            return Written(f"{text.text}.isin({chosen!r})", "bool", lambda row: text.of(row) in chosen)
        if shape == 1:
            pattern = self.pick(("%a%", "_", "%", "w%", "%k", "_a%"))
            return Written(f"rs.like({text.text}, {pattern!r})", "bool", lambda row: values.like(text.of(row), pattern))
        value = self.pick(TEXTS)
        if shape == 2:
            sign = self.pick(("==", "!=", "<", ">="))
            return Written(
                f"({text.text} {sign} {value!r})", "bool", lambda row: values.compared(sign, text.of(row), value)
            )
        name = self.pick(("contains", "starts_with", "ends_with"))
        meaning = values.MEANINGS[name]
        return Written(f'rs.call("{name}", {text.text}, {value!r})', "bool", lambda row: meaning(text.of(row), value))


def _widened(value: Any, kind: str) -> Any:
    return values.as_float(value) if kind == "float64" else value
