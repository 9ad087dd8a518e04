"""What verbs of two streams need before they can pair rows: the same key on both sides, and values that stand in for a
right row where there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from shared.errors import UsageError
from shared.language.expressions import FLOATS, Column, Value, unknown_column
from shared.plan import operators as op
from shared.plan.operators.pairs import added_columns
from shared.plan.stream_type import StreamType
from shared.stream.drafts import Draft, draft
from shared.stream.formulas import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

On: TypeAlias = "str | Sequence[str] | Mapping[str, str] | None"


def paired_on(left: Draft, right: Draft, on: On) -> tuple[Draft, Draft]:
    """Both streams keyed by the columns of `on`: a name, several, or left names with the right ones they equal."""
    if on is None:
        return left, right
    names = dict(on) if isinstance(on, Mapping) else {name: name for name in ([on] if isinstance(on, str) else on)}
    if not names:
        raise UsageError('on= names at least one column, like on="user"', code="join-on")
    for name in (*names, *names.values()):
        column_name(name, where="on=")
    for side, wanted in ((left, names), (right, names.values())):
        for name in wanted:
            if name not in side.type.schema:
                raise unknown_column(name, side.type.schema)
    return _keyed(left, tuple(names)), _keyed(_renamed(right, names), tuple(names))


def _renamed(right: Draft, names: Mapping[str, str]) -> Draft:
    """The right stream with its columns of `on` called as on the left."""
    wanted = {right_name: left_name for left_name, right_name in names.items() if left_name != right_name}
    if not wanted:
        return right
    kept = [name for name in right.type.schema.names if name not in wanted or name in right.type.key]
    for name in wanted.values():
        if name in kept:
            raise UsageError(
                f"on= would call a right column {name!r}, but the right stream has one of that name; rename it with "
                "select first",
                code="join-on",
            )
    columns = [(name, Column(name)) for name in kept] + [(new, Column(old)) for old, new in wanted.items()]
    return draft(op.Select(tuple(columns)), right)


def _keyed(side: Draft, columns: tuple[str, ...]) -> Draft:
    return side if side.type.key == columns else draft(op.KeyBy(columns), side)


def stand_ins(right: StreamType, defaults: Mapping[str, Value] | None, *, left: bool) -> tuple[Value, ...] | None:
    """One value for each right column: what `defaults` says, with `left` NaN, 0, False or "" for the others. None where
    rows without a partner are to be dropped."""
    if defaults is None and not left:
        return None
    given = {} if defaults is None else dict(defaults)
    wanted = [column.name for column in added_columns(right)]
    unknown = sorted(set(given) - set(wanted))
    if unknown or (not left and len(given) < len(wanted)):
        raise UsageError(f"defaults must give a value for each of {', '.join(wanted)}", code="latest-defaults")
    return tuple(given.get(column.name, missing(column.kind)) for column in added_columns(right))


def missing(kind: str) -> Value:
    """What a column of this kind says where there is nothing to say."""
    if kind == "str":
        return ""
    return False if kind == "bool" else math.nan if kind in FLOATS else 0
