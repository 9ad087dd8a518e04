"""SQL against DuckDB, on what both know. Each query is written twice where the words differ: windows, FIRST and LAST.

Left out, because streams mean something else by it (docs/semantics.md): what is missing in conditions (NaN is no NULL),
`%` of negative numbers (floors), ROUND of halves (to even), casts of floats to whole numbers (truncate), division by
zero (inf), sums of nothing (0), whole numbers that leave 64 bits (wrap).
"""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pytest

import resurge as rs
from tests.claims import Claim

SECOND = 1_000_000
COLUMNS = {"v": "float64", "u": "float64", "n": "int64", "m": "int64", "w": "str", "b": "bool"}
WORDS = ("walk", "run", "", "Été", "a b")
Pair = tuple[str, str]  # a query's part as streams have it, and as DuckDB does


class Queries:
    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng([seed, 7])
        self.names = 0

    def pick(self, options: Any) -> Any:
        return options[int(self.draw.integers(len(options)))]

    def rows(self) -> dict[str, list[Any]]:
        count = int(self.draw.integers(0, 60))
        numbers = self.draw.integers
        return {
            "time": (numbers(-20, 60, count) * SECOND // 2).tolist(),
            "device": [str(self.pick(("aa", "bb"))) for _ in range(count)],
            "v": [math.nan if self.draw.random() < 0.1 else float(one) / 8 for one in numbers(-64, 64, count)],
            "u": [float(one) / 4 for one in numbers(-40, 40, count)],
            "n": numbers(-9, 10, count).tolist(),
            "m": numbers(0, 10, count).tolist(),
            "w": [str(self.pick(WORDS)) for _ in range(count)],
            "b": (self.draw.random(count) < 0.5).tolist(),
        }

    # -- expressions: the same words in both ---------------------------------------------------------------------------

    def number(self, depth: int = 2) -> str:
        shape = self.draw.integers(0, 9) if depth else self.draw.integers(0, 3)
        if shape < 2:
            return str(self.pick(("u", "n", "m")))
        if shape < 3:
            return str(self.pick(("1", "2.5", "-3", "0.25")))
        if shape < 5:
            return f"({self.number(depth - 1)} {self.pick(('+', '-', '*'))} {self.number(depth - 1)})"
        if shape == 5:
            return f"({self.number(depth - 1)} / {self.pick((2, 4, 0.5))})"
        if shape == 6:
            return str(self.pick(("(m % 4)", "LENGTH(w)", "CAST(n AS DOUBLE)", "ROUND(u * 0.3)")))
        if shape == 7:
            return (
                f"CASE WHEN {self.condition(depth - 1)} THEN {self.number(depth - 1)} ELSE {self.number(depth - 1)} END"
            )
        return f"{self.pick(('ABS', 'FLOOR', 'CEIL'))}({self.number(depth - 1)})"

    def condition(self, depth: int = 2) -> str:
        shape = self.draw.integers(0, 9) if depth else 0
        if shape < 3:
            return f"{self.number(max(depth - 1, 0))} {self.pick(('<', '<=', '>', '>=', '=', '<>'))} {self.number(0)}"
        if shape == 3:
            return f"w {self.pick(('=', '<>', '<', '>='))} '{self.pick(WORDS)}'"
        if shape == 4:
            return f"{self.pick(('n', 'm'))} IN ({', '.join(str(self.pick(range(-3, 6))) for _ in range(3))})"
        if shape == 5:
            return f"u BETWEEN {self.pick((-5, -1))} AND {self.pick((0.5, 4))}"
        if shape == 6:
            return str(self.pick(("b", "NOT b", "w IN ('walk', 'run')")))
        if shape == 7:
            return f"NOT ({self.condition(depth - 1)})"
        return f"({self.condition(depth - 1)} {self.pick(('AND', 'OR'))} {self.condition(depth - 1)})"

    # -- queries -------------------------------------------------------------------------------------------------------

    def query(self) -> tuple[Pair, list[str]]:
        """The query in both languages, and its columns."""
        where = f" WHERE {self.condition()}" if self.draw.random() < 0.6 else ""
        return self.grouped(where) if self.draw.random() < 0.7 else self.plain(where)

    def plain(self, where: str) -> tuple[Pair, list[str]]:
        words = [self.number(3), self.condition(), self.pick(("UPPER(w)", "LOWER(w)", "w", "CAST(m AS TEXT)"))]
        names = [f"c{place}" for place in range(len(words))]
        given = ", ".join(f"{word} AS {name}" for word, name in zip(words, names, strict=True))
        text = f"SELECT device, {given} FROM t{where}"
        return (text, text), ["device", *names]

    def grouped(self, where: str) -> tuple[Pair, list[str]]:
        keys = [name for name in ("device", "w", "m", "b") if self.draw.random() < 0.35]
        found = [self.aggregate() for _ in range(int(self.draw.integers(1, 5)))]
        names = [f"a{place}" for place in range(len(found))]
        ours = ", ".join([*keys, *(f"{one[0]} AS {name}" for one, name in zip(found, names, strict=True))])
        theirs = ", ".join([*keys, *(f"{one[1]} AS {name}" for one, name in zip(found, names, strict=True))])
        having = ""
        if self.draw.random() < 0.3:
            names.append("rows")
            ours, theirs = f"{ours}, COUNT(*) AS rows", f"{theirs}, COUNT(*) AS rows"
            having = f" HAVING {self.pick(('COUNT(*)', 'rows'))} > {self.pick((1, 2))}"
        size, step = self.pick(((5, 5), (6, 2), (7, 3)))
        window = f"TUMBLE({size} SECONDS)" if size == step else f"HOP({size} SECONDS, {step} SECONDS)"
        by = "".join(f", {name}" for name in keys)
        # Every window [s, s + size) that a row is in, for s a multiple of the step.
        starts = f"unnest(range(CAST(floor((time - {size * SECOND}) / {step * SECOND}.0) AS BIGINT) + 1, "
        starts += f"CAST(floor(time / {step * SECOND}.0) AS BIGINT) + 1)) * {step * SECOND}"
        apart = f"(SELECT *, {starts} AS window_start FROM t{where})"
        return (
            f"SELECT {ours} FROM t{where} GROUP BY {window}{by}{having}",
            f"SELECT window_start, {theirs} FROM {apart} GROUP BY window_start{by}{having}",
        ), ["window_start", *keys, *names]

    def aggregate(self) -> Pair:
        inner = str(self.pick(("v", "u", "n", self.number())))
        name = self.pick(("SUM", "AVG", "MIN", "MAX", "COUNT", "VAR_POP", "STDDEV_POP", "MEDIAN", "FIRST", "LAST", "*"))
        if name == "*":
            return (
                one := str(self.pick(("COUNT(*)", "COUNT(DISTINCT w)", "MIN(w)", "MAX(w)", "COUNT(DISTINCT m)")))
            ), one
        if name == "FIRST":
            return f"FIRST({inner})", f"first({inner} ORDER BY time, device, number) FILTER (({inner}) IS NOT NULL)"
        if name == "LAST":
            return f"LAST({inner})", f"last({inner} ORDER BY time, device, number) FILTER (({inner}) IS NOT NULL)"
        if name == "MEDIAN" and self.draw.random() < 0.5:
            q = self.pick((0.1, 0.5, 0.9))
            return f"QUANTILE({inner}, {q})", f"quantile_cont(CAST({inner} AS DOUBLE), {q})"
        if name == "MEDIAN":
            return f"MEDIAN({inner})", f"median(CAST({inner} AS DOUBLE))"
        if name == "SUM":
            return f"SUM({inner})", f"coalesce(sum({inner}), 0)"
        if name == "VAR_POP" or name == "STDDEV_POP":
            return f"{name}({inner})", f"{name}(CAST({inner} AS DOUBLE))"
        return f"{name}({inner})", f"{name}({inner})"


KINDS = {"float64": "DOUBLE", "int64": "BIGINT", "str": "VARCHAR", "bool": "BOOLEAN"}
TABLE = ", ".join(["number BIGINT", "time BIGINT", "device VARCHAR", *(f"{n} {KINDS[k]}" for n, k in COLUMNS.items())])


def by_duckdb(database: duckdb.DuckDBPyConnection, query: str, rows: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    database.execute(f"CREATE OR REPLACE TABLE t ({TABLE})")
    given = zip(range(len(rows["time"])), *rows.values(), strict=True)
    values = ", ".join(f"({', '.join(map(_written, row))})" for row in given)
    if values:
        database.execute(f"INSERT INTO t VALUES {values}")
    return database.execute(query).fetchall()


def _written(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def by_streams(query: str, rows: dict[str, list[Any]], names: list[str]) -> list[tuple[Any, ...]]:
    stream = rs.stream("t", COLUMNS).sync("t")
    out = rs.evaluate(rs.sql(query, t=stream), {"t": rows})["out"]
    return list(zip(*(out[name].tolist() for name in names), strict=True))


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """By texts and bools, then by numbers; what is missing is NaN."""
    plain = [tuple(map(_plain, row)) for row in rows]
    return sorted(
        plain, key=lambda row: sorted((isinstance(one, float), place, _digits(one)) for place, one in enumerate(row))
    )


def _plain(value: Any) -> Any:
    return math.nan if value is None else value if isinstance(value, str | bool) else float(value)


def _digits(value: Any) -> str:
    return f"{value + 0.0:.6g}" if isinstance(value, float) else repr(value)


def alike(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> bool:
    return len(found) == len(wanted) and all(
        one == other or (isinstance(other, float) and bool(np.isclose(one, other, 1e-9, 1e-9, equal_nan=True)))
        for row, others in zip(ordered(found), ordered(wanted), strict=True)
        for one, other in zip(row, others, strict=True)
    )


@pytest.mark.parametrize("queries", [60, pytest.param(3_000, marks=pytest.mark.soak)])
def test_queries_give_what_duckdb_gives(queries: int, claim: Claim) -> None:
    rows = 0
    database = duckdb.connect(config={"threads": 1})
    for seed in range(queries):
        made = Queries(seed)
        given = made.rows()
        (ours, theirs), names = made.query()
        found, wanted = by_streams(ours, given, names), by_duckdb(database, theirs, given)
        assert alike(found, wanted), (
            f"query {seed}\n{ours}\nin DuckDB: {theirs}\nover {given}\n{ordered(found)}\n{ordered(wanted)}"
        )
        rows += len(found)
    claim(f"{queries} queries, {rows} rows, none differs from DuckDB {duckdb.__version__}")
