"""Whether queries and regions of a fleet contradict each other, or a node could not run its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.errors import UsageError
from shared.hosting.wiring import wire
from shared.plan.cuts import synced_outputs
from shared.plan.deployment import Deployment, HostedQuery, decode_deployment, encode_deployment


def check_fleet(fleet: Deployment, node: str) -> None:
    """UsageError where something is wrong. `node` is where the coordinator runs, empty where that is a gateway."""
    _check_synced([*fleet.queries, *(region.task for region in fleet.regions)], node)
    checked = decode_deployment(encode_deployment(fleet))
    feeding = {source for query in fleet.queries for source in query.sources}
    for each in sorted({fleet.node, *feeding}):  # two queries may want the same of one device
        wire(replace(checked, node=each))


def _check_synced(queries: Sequence[HostedQuery], node: str) -> None:
    """What goes to the cloud goes to the gateway that coordinates: it knows who may send it. There its name says which
    stream it is."""
    names: dict[str, str] = {}
    for query in queries:
        for output in synced_outputs(query.plan):
            if node:
                raise UsageError(
                    f"query {query.name!r} syncs {output.name!r} to the cloud, which only nodes do that a gateway "
                    "coordinates (resurge node run --host); end it with .subscribe(), whose rows stay on the "
                    "query's sink node",
                    code="deployment-sync",
                )
            if names.setdefault(output.name, query.name) != query.name:
                raise UsageError(
                    f"queries {names[output.name]!r} and {query.name!r} both sync {output.name!r} to the cloud; "
                    "give one of them another name",
                    code="deployment-sync",
                )
