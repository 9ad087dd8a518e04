"""Which columns of a sink give a place away under another name, so that a viewer does not get them at all.

Rounding helps only where a column is a coordinate. `lat * 1000 AS x` is one too, and its name does not say so. So the
plan is followed: a column is shown when its operators say that it comes from no coordinate, through selections,
aggregates, states and operators of users. How many readings there were and how long a path was tell no place. A column
that no plan knows is hidden. A filter on a coordinate still decides which rows there are: who may not know that should
not be given the sink.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from cloud_backend.dashboard.privacy.places import is_place
from cloud_backend.dashboard.sources import Sources
from shared.plan import operators as op
from shared.plan.derivation import telling_columns
from shared.plan.graph import Plan


@dataclass(frozen=True, slots=True)
class AllBut:
    """Every column but those known to tell no place."""

    harmless: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name not in self.harmless


def hidden_columns(sources: Sources, sink: str) -> Container[str]:
    """Columns of this sink to withhold from viewers: where no plan tells, all of them."""
    for plan in sources.plans():
        found = harmless_columns(plan).get(sink)
        if found is not None:
            return AllBut(found)
    return AllBut(frozenset())


def harmless_columns(plan: Plan) -> dict[str, frozenset[str]]:
    """Per sink, the columns that show no coordinate, whatever they are called."""
    telling = telling_columns(plan, is_place)
    return {
        node.operator.name: frozenset(node.schema.names) - telling[node.id]
        for node in plan.nodes
        if isinstance(node.operator, op.Subscribe | op.SyncBack)
    }
