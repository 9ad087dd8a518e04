"""Resurge: one stream program for phones and Spark.

    import resurge as rs
    from resurge import col

Everything a program needs is here. Names load when they are first used, so the command line starts fast, and Spark only
when `engine="spark"` asks for it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import shared

if not getattr(shared, "RESURGE", False):  # another top-level package called "shared" comes first on the path
    _hiding = getattr(shared, "__file__", None) or list(shared.__path__)
    raise ImportError(
        f"resurge needs its own package 'shared', but {_hiding} hides it; remove that folder from the path or run from "
        "elsewhere [shared-hidden]"
    )

if TYPE_CHECKING:
    from resurge.evaluate import evaluate as evaluate
    from resurge.live import Live as Live
    from resurge.sql import sql as sql
    from shared.errors import PeerError as PeerError
    from shared.errors import ResurgeError as ResurgeError
    from shared.errors import UsageError as UsageError
    from shared.language.codecs import register_codec as register_codec
    from shared.stream.declarations import aggregate as aggregate
    from shared.stream.declarations import explain as explain
    from shared.stream.declarations import frame_operator as frame_operator
    from shared.stream.declarations import limited_loss as limited_loss
    from shared.stream.declarations import lossless as lossless
    from shared.stream.declarations import operator as operator
    from shared.stream.declarations import plan_of as plan_of
    from shared.stream.formulas import call as call
    from shared.stream.formulas import col as col
    from shared.stream.formulas import state as state
    from shared.stream.functions import concat as concat
    from shared.stream.functions import count as count
    from shared.stream.functions import dft as dft
    from shared.stream.functions import distinct as distinct
    from shared.stream.functions import first as first
    from shared.stream.functions import floor as floor
    from shared.stream.functions import haversine as haversine
    from shared.stream.functions import hypot as hypot
    from shared.stream.functions import if_else as if_else
    from shared.stream.functions import is_missing as is_missing
    from shared.stream.functions import last as last
    from shared.stream.functions import like as like
    from shared.stream.functions import max as max
    from shared.stream.functions import mean as mean
    from shared.stream.functions import median as median
    from shared.stream.functions import min as min
    from shared.stream.functions import parse as parse
    from shared.stream.functions import path_km as path_km
    from shared.stream.functions import quantile as quantile
    from shared.stream.functions import split as split
    from shared.stream.functions import sqrt as sqrt
    from shared.stream.functions import std as std
    from shared.stream.functions import sum as sum
    from shared.stream.functions import top_k as top_k
    from shared.stream.functions import user_aggregate as user_aggregate
    from shared.stream.functions import variance as variance
    from shared.stream.plain_functions import function as function
    from shared.stream.program import load_program as load_program
    from shared.stream.sources import feedback as feedback
    from shared.stream.sources import sensor as sensor
    from shared.stream.sources import stream as stream
    from shared.stream.sources import timer as timer
    from shared.stream.stream import Stream as Stream

__version__ = "0.1.0"

_HOMES = {
    "resurge.live": ("Live",),
    "shared.errors": ("PeerError", "ResurgeError", "UsageError"),
    "shared.language.codecs": ("register_codec",),
    "shared.stream.declarations": (
        "aggregate", "explain", "frame_operator", "limited_loss", "lossless", "operator", "plan_of",
    ),
    "shared.stream.functions": (
        "concat", "count", "dft", "distinct", "first", "floor", "haversine", "hypot", "if_else", "is_missing",
        "last", "like", "max", "mean", "median", "min", "parse", "path_km", "quantile", "split", "sqrt", "std",
        "sum", "top_k", "user_aggregate", "variance",
    ),
    "shared.stream.plain_functions": ("function",),
    "shared.stream.program": ("load_program",),
    "shared.stream.sources": ("feedback", "sensor", "stream", "timer"),
    "shared.stream.stream": ("Stream",),
    "shared.stream.formulas": ("call", "col", "state"),
}  # fmt: skip

_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted((*_NAMES, "evaluate", "sql"))  # noqa: PLE0605  # computed from the table above


def __getattr__(name: str) -> object:
    home = _NAMES.get(name)
    if home is None:
        raise AttributeError(f"module 'resurge' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _FrontDoor(ModuleType):
    """`rs.evaluate` and `rs.sql` are functions that live in modules of the same name. Importing such a module binds it
    to its name here; these properties keep the name for the function."""

    @property
    def evaluate(self) -> object:
        return import_module("resurge.evaluate").evaluate

    @evaluate.setter
    def evaluate(self, module: object) -> None: ...

    @property
    def sql(self) -> object:
        return import_module("resurge.sql").sql

    @sql.setter
    def sql(self, module: object) -> None: ...


sys.modules[__name__].__class__ = _FrontDoor
