"""Which columns of a sink give a place away under another name, so that a viewer does not get them at all.

Rounding helps only where a column is a coordinate. `lat * 1000 AS x` is one too, and its name does not say so. So the
plan is followed: a column is hidden when it is computed from a coordinate, through selections, aggregates, state
and operators of users. How many readings there were and how long a path was tell no place, and are shown. A filter
on a coordinate still decides which rows there are: who may not know that should not be given the sink.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path

from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.places import is_place
from shared.errors import ResurgeError
from shared.plan import operators as op
from shared.plan.encoding import decode_plan
from shared.plan.graph import Node, Plan

PLACELESS = frozenset({"count", "distinct", "path_km"})  # aggregates that tell how much, not where


def hidden_columns(sources: Sources, sink: str) -> frozenset[str]:
    """Columns of this sink to withhold from viewers. Where no plan tells, nothing but the names can."""
    if sources.jobs is not None:
        for name in sources.jobs.names():
            found = place_columns(sources.jobs.plan(name)).get(sink)
            if found is not None:
                return found
    if sources.plan is not None and sources.plan.exists():
        return _of_file(sources.plan, sources.plan.stat().st_mtime_ns).get(sink, frozenset())
    return frozenset()


@lru_cache(maxsize=8)
def _of_file(path: Path, _: int) -> dict[str, frozenset[str]]:
    try:
        return place_columns(decode_plan(path.read_bytes()))
    except ResurgeError:
        return {}


def place_columns(plan: Plan) -> dict[str, frozenset[str]]:
    """Per sink, the columns computed from coordinates whose own names do not say so."""
    telling: dict[int, frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for node in plan.nodes:
        incoming = frozenset[str]().union(*(telling[source] for source in node.inputs))
        telling[node.id] = _after(node, incoming) | frozenset(filter(is_place, node.schema.names))
        if isinstance(node.operator, op.Subscribe | op.SyncBack):
            found[node.operator.name] = frozenset(name for name in telling[node.id] if not is_place(name))
    return found


def _after(node: Node, incoming: frozenset[str]) -> frozenset[str]:
    """Which columns tell a place after an operator, given those that did before it."""
    names = frozenset(node.schema.names)
    match node.operator:
        case op.Select(columns=columns):
            return frozenset(name for name, expression in columns if _names_in(expression) & incoming)
        case op.WindowAggregate(aggregates=aggregates):
            told = {name for name, made in aggregates if made.function not in PLACELESS and _names_in(made) & incoming}
            return frozenset(told) | (incoming & names - {name for name, _ in aggregates})
        case op.State(columns=columns):
            return (incoming & names) | frozenset(each.name for each in columns if _names_in(each.update) & incoming)
        case op.Zip(suffix=suffix) | op.Combine(suffix=suffix) | op.Join(suffix=suffix) | op.Latest(suffix=suffix):
            return frozenset(name for name in names if {name, name.removesuffix(suffix)} & incoming)
        case op.Apply() | op.Port() if incoming:
            return names - {op.DEVICE, op.WINDOW_START, op.WINDOW_END, op.COMPLETE}
    return incoming & names


def _names_in(value: object) -> set[str]:
    """Every text in an expression or aggregate: columns are among them, and a text too many only hides more."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, tuple):
        return set[str]().union(*map(_names_in, value))
    if is_dataclass(value) and not isinstance(value, type):
        return set[str]().union(*(_names_in(getattr(value, field.name)) for field in fields(value)))
    return set()
