"""Resurge: one stream program for phones and Spark.

    import resurge as rs
    from resurge import col

Everything a program needs is here; Spark is imported only when `engine="spark"` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import shared

if not getattr(shared, "RESURGE", False):  # another top-level package called "shared" comes first on the path
    _hiding = getattr(shared, "__file__", None) or list(shared.__path__)
    raise ImportError(
        f"resurge needs its own package 'shared', but {_hiding} hides it; remove that folder from the path or run from "
        "elsewhere [shared-hidden]"
    )

from shared.errors import PeerError, ResurgeError, UsageError
from shared.plan.explain import explain
from shared.stream.declare import aggregate, lossless, lossy, operator, plan_of
from shared.stream.functions import (
    count,
    dft,
    distinct,
    first,
    floor,
    haversine,
    hypot,
    if_else,
    is_missing,
    last,
    max,
    mean,
    min,
    path_km,
    quantile,
    sqrt,
    std,
    sum,
    top_k,
    user_aggregate,
    variance,
)
from shared.stream.program import load_program
from shared.stream.sources import feedback, sensor, stream, timer
from shared.stream.stream import Stream
from shared.stream.terms import call, col, state

if TYPE_CHECKING:
    from resurge.evaluate import evaluate
    from resurge.sql import sql

__version__ = "0.1.0"

__all__ = [
    "PeerError",
    "ResurgeError",
    "Stream",
    "UsageError",
    "aggregate",
    "call",
    "col",
    "count",
    "dft",
    "distinct",
    "evaluate",
    "explain",
    "feedback",
    "first",
    "floor",
    "haversine",
    "hypot",
    "if_else",
    "is_missing",
    "last",
    "load_program",
    "lossless",
    "lossy",
    "max",
    "mean",
    "min",
    "operator",
    "path_km",
    "plan_of",
    "quantile",
    "sensor",
    "sql",
    "sqrt",
    "state",
    "std",
    "stream",
    "sum",
    "timer",
    "top_k",
    "user_aggregate",
    "variance",
]


def __getattr__(name: str) -> object:
    """Heavy parts load when first used: the engines for `evaluate`, sqlglot for `sql`."""
    if name == "evaluate":
        # `resurge.evaluate` is also the module's name; importing it binds the module here, so the function is put back.
        from resurge.evaluate import evaluate

        globals()["evaluate"] = evaluate
        return evaluate
    if name == "sql":
        from resurge.sql import sql

        globals()["sql"] = sql
        return sql
    raise AttributeError(f"module 'resurge' has no attribute {name!r}")
