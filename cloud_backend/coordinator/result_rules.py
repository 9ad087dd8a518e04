"""Rules on results: "level over 80 for 5 minutes", for each key of a query by itself.

A rule holds for a key while the newest rows about it all fulfil the comparison and together cover the rule's time. Rows
are taken by their windows, so it is event time that counts, and a row that is corrected or taken back is judged as it
is now: a rule is held against what the results say, never against what they once said. Where windows leave out a
stretch longer than they are themselves (than the rule's time, for rows without windows) nothing is known of it, and the
time counts anew after it.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cloud_backend.results.rows import ResultRow, Value
from shared.errors import UsageError
from shared.language.durations import UNITS_US, duration_text, microseconds

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
OWN = "own"  # the phone that a row is about
PHONES_MAX = 50
RULES_MAX = 100
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(>=|<=|!=|==|=|>|<)\s*(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class ResultRule:
    name: str
    sink: str  # of a query or of the program
    column: str
    comparison: str
    value: float | str
    for_us: int
    phones: tuple[str, ...]  # ids in hexadecimal, or `own`

    @property
    def words(self) -> str:
        shown = f"{self.value:g}" if isinstance(self.value, float) else self.value
        during = f" for {duration_text(self.for_us)}" if self.for_us else ""
        return f"{self.column} {self.comparison} {shown}{during}"

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> ResultRule:
        fields = json.loads(text)
        return cls(**(fields | {"phones": tuple(fields["phones"])}))


def rule_of(name: str, sink: str, condition: str, *, during: str = "", phones: Iterable[str] = ()) -> ResultRule:
    """A rule as a person writes it: `level > 80`, for `5m`."""
    if not NAME.fullmatch(name):
        raise UsageError(
            "this cannot name a rule; use up to 40 of a-z, 0-9, - and _, a letter or digit first",
            code="alert-name",
        )
    written = _CONDITION.fullmatch(condition)
    if written is None:
        raise UsageError(
            "this is not a condition; write a column, a comparison sign and a value, like 'level = 80'",
            code="alert-condition",
        )
    column, comparison, text = written[1], "==" if written[2] == "=" else written[2], written[3]
    value = _value(text)
    if isinstance(value, str) and comparison not in ("==", "!="):
        raise UsageError("its value is not a number; text can only be == or !=", code="alert-condition")
    chosen = tuple(dict.fromkeys(phones))
    if len(chosen) > PHONES_MAX:
        raise UsageError(
            f"a rule tells at most {PHONES_MAX} phones; a webhook can tell any number", code="alert-phones"
        )
    return ResultRule(name, sink, column, comparison, value, _length_us(during), chosen)


def _length_us(during: str) -> int:
    try:
        return microseconds(during) if during else 0
    except UsageError:  # its words repeat the text, which an answer over HTTP never does
        text = f"for how long is a number and one of {', '.join(UNITS_US)}, like '5m', and at most ten years"
        raise UsageError(text, code="duration") from None


def _value(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text.strip("'\"")
    if not math.isfinite(number):
        raise UsageError("its value is no number to compare with", code="alert-condition")
    return number


def matches(rule: ResultRule, row: ResultRow) -> bool:
    """Whether a row fulfils the comparison. What it does not say, or says as another kind, it does not fulfil."""
    said: Value | None = row.values.get(rule.column)
    if isinstance(rule.value, str):
        return isinstance(said, str) and COMPARISONS[rule.comparison](said, rule.value)
    if not isinstance(said, int | float) or math.isnan(said):
        return False
    return COMPARISONS[rule.comparison](float(said), rule.value)


def holds_since(rule: ResultRule, newest_first: Iterable[ResultRow]) -> int | None:
    """Since when, in event time, a rule holds for the key of these rows; None while it does not. Reads as few rows as
    it needs."""
    until: int | None = None
    since = length_us = 0
    for row in newest_first:
        if not matches(rule, row):
            break
        own_us = row.window_end_us - row.window_start_us
        if until is None:
            until, since = row.window_end_us, row.window_start_us
        elif since - row.window_end_us > (max(own_us, length_us) if own_us > 1 else rule.for_us):
            break
        since, length_us = min(since, row.window_start_us), own_us
        if until - since >= rule.for_us:
            return since
    return None
