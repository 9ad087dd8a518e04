"""Frame operators of the tests: one that scores, gives more rows than it gets, and misbehaves when told to."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import resurge as rs
from tests.spark.operators import _due


@rs.frame_operator(
    "tests_frame_scores",
    takes={"x": "float64", "cell": "int64"},
    output={"x": "float64", "cell": "int64", "label": "str"},
    deterministic=True,
)
def scores(rows: Any, *, faults: str = "", factor: float = 2.0) -> Any:
    """Rows of even cells twice, labelled; those below -1 dropped. 666 raises."""
    import pandas

    if _due(faults, "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if bool((rows["x"] == 666.0).any()):
        raise ValueError("cannot bear 666")
    kept = rows[rows["x"] >= -1.0].assign(label="once")
    twice = kept[kept["cell"] % 2 == 0].assign(label="twice", x=lambda frame: frame["x"] * factor)
    return pandas.concat([kept, twice]).sort_index(kind="stable")


@rs.frame_operator("tests_frame_refuses", takes={"total": "float64"}, output={"total": "float64"}, deterministic=True)
def refuses(rows: Any, *, faults: str = "") -> Any:
    """Raises for every row until a file `cured` is there."""
    return _unless_ill(rows, faults)


@rs.operator("tests_rows_refuse", takes={"total": "float64"}, gives={"total": "float64"})
def refuse(columns: Any, *, faults: str = "") -> Any:
    """The same as an operator of rows."""
    return _unless_ill(columns, faults)


def _unless_ill(given: Any, faults: str) -> Any:
    if not Path(faults, "cured").exists():
        raise ValueError("cannot bear anything")
    return given


@rs.frame_operator("tests_frame_mean", takes={"x": "float64"}, output={"mean": "float64"})
def mean(rows: Any) -> Any:
    """Depends on which rows came together."""
    return rows.assign(mean=rows["x"].mean())


@rs.frame_operator("tests_frame_bad", output={"n": "int64"})
def bad(rows: Any, *, how: str = "") -> Any:
    import pandas

    made = rows.assign(n=1)
    match how:
        case "missing":
            return made.drop(columns="n")
        case "nan":
            made["n"] = [1.0, *[float("nan")] * (len(made) - 1)]
        case "text":
            made["n"] = "one"
        case "late":
            made["time"] += pandas.Timedelta("1h")
        case "second":
            made["time"] += pandas.Timedelta("1s")
        case "key":
            made["device"] = "another"
        case "none":
            return None
    return made
