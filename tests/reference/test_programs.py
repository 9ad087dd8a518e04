"""Random programs against a reference that was written from docs/semantics.md: what differs is a bug in one of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from tests.claims import Claim
from tests.reference.programs import Program, Stream, program
from tests.reference.values import Row

QUICK, MANY = 250, 5_000
CLOSE = 1e-9
VERBS = {
    "where", "extend", "select", "significant", "state", "state_keep", "state_config", "previous", "map", "union", "zip",
    "combine", "join", "join_left", "join_on", "with_latest", "as_of", "key_by", "tumbling", "hopping", "sliding",
    "session", "daily", "tumbling_count", "hopping_count", "sliding_count", "zone", "formula", "condition", "count", "sum", "mean",
    "distinct_rows", "expire", "followed_by", "absent", "min", "max", "first", "last", "std", "variance", "quantile", "distinct", "top_k", "dft", "path_km",
}  # fmt: skip


def found_by(made: Program) -> list[Row]:
    """What `evaluate` returns for the program's text."""
    names: dict[str, Any] = {"rs": rs, "col": col, "state": state}
    exec(made.text, names)  # the text is the program: what is printed where they differ is what ran
    out = rs.evaluate(names["out"], made.inputs)["out"]
    columns = {name: values.tolist() for name, values in out.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def alike(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) or isinstance(found, float):
        slack = getattr(wanted, "slack", 0.0)
        if math.isinf(slack):
            return True
        found, wanted = float(found), float(wanted)
        if math.isnan(wanted) or math.isinf(wanted):
            return bool(found == wanted) or (math.isnan(found) and math.isnan(wanted))
        return bool(abs(found - wanted) <= CLOSE * max(abs(wanted), 1.0) + slack)
    return bool(found == wanted)


def by_key(rows: list[Row], key: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    kept: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        kept.setdefault(tuple(row[name] for name in key), []).append(row)
    return kept


def differs(found: list[Row], out: Stream) -> bool:
    """Whether a key's rows are not the wanted ones, in their order."""
    mine, wanted = by_key(found, out.key), by_key(list(out.table.rows), out.key)
    if mine.keys() != wanted.keys() or any(len(mine[key]) != len(wanted[key]) for key in mine):
        return True
    names = set(out.kinds) | {"time"}
    for key, rows in mine.items():
        for row, other in zip(rows, wanted[key], strict=True):
            if set(row) != names or not all(alike(row[name], other[name]) for name in names):
                return True
    return False


def table_text(rows: list[Row], names: list[str]) -> str:
    return "\n".join(["  ".join(names), *("  ".join(str(row.get(name)) for name in names) for row in rows)])


def check(seed: int) -> Program:
    made = program(seed)
    with np.errstate(all="ignore"):
        found = found_by(made)
    if differs(found, made.out):
        names = ["time", *made.out.kinds]
        wanted = sorted(made.out.table.rows, key=lambda row: repr([row[name] for name in made.out.key]))
        found = sorted(found, key=lambda row: repr([row[name] for name in made.out.key]))
        pytest.fail(
            f"program {seed} differs from the reference\n{made.text}\n\ninputs: {made.inputs}\n\n"
            f"evaluate:\n{table_text(found, names)}\n\nreference:\n{table_text(wanted, names)}",
            pytrace=False,
        )
    return made


@pytest.mark.parametrize("programs", [QUICK, pytest.param(MANY, marks=pytest.mark.soak)])
def test_programs_give_the_rows_of_the_reference(programs: int, claim: Claim) -> None:
    rows = 0
    verbs: set[str] = set()
    for seed in range(programs):
        made = check(seed)
        rows += len(made.out.table.rows)
        verbs |= made.verbs
    assert VERBS - verbs == set()
    claim(f"{programs} programs, {rows} rows, none differs from the reference")
