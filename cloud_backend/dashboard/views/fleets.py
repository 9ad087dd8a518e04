"""Fleets: where each vertex runs, who keeps its snapshots, and what moved when and why, as their coordinators told it.

A coordinator tells a gateway only while it reaches it. What it said last is shown with when that was: `current` says
whether it is heard now.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cloud_backend.dashboard.fleet.devices import Device
from cloud_backend.dashboard.sources import Sources
from shared.hosting.fleet_words import move_words, strategy_words
from shared.wire.fleet_status import FleetStatus


def fleets(sources: Sources) -> list[dict[str, Any]]:
    """Every fleet whose coordinator is enrolled here, by the coordinator's name."""
    devices = {each.phone.id: each for each in sources.devices() if each.state != "revoked"}
    seen = {entry.device.hex(): entry.seen_us for entry in sources.entries()}
    return [
        {
            "coordinator": {"device": id, "name": each.phone.name, "contact": each.state},
            "current": each.is_in_contact,
            "heard_us": seen.get(id),
            **_fleet(each.status.fleet, devices),
        }
        for id, each in devices.items()
        if each.status.fleet is not None
    ]


def _fleet(fleet: FleetStatus, devices: dict[str, Device]) -> dict[str, Any]:
    return {
        "version": fleet.version,
        "nodes": [_node(fleet, each.name, each.node, each.silent_us, devices) for each in fleet.nodes],
        "queries": [
            asdict(query)
            | {
                "words": strategy_words(query.strategy, query.every),
                "vertices": [asdict(each) for each in fleet.placements if each.query == query.name],
            }
            for query in fleet.queries
        ],
        "moves": [asdict(move) | {"words": move_words(move)} for move in reversed(fleet.moves)],
        "left_off": fleet.left_off,
    }


def _node(fleet: FleetStatus, name: str, id: str, silent_us: int | None, devices: dict[str, Device]) -> dict[str, Any]:
    """A node with everything it does; `enrolled` where it has a page of its own here."""
    several = len(fleet.queries) > 1

    def vertex(query: str, vertex: str) -> str:
        return f"{query}: {vertex}" if several else vertex

    return {
        "name": name, "node": id, "silent_us": silent_us, "enrolled": id in devices,
        "runs": [
            {"vertex": vertex(each.query, each.vertex), "state": each.state, "why": each.why}
            for each in fleet.placements if name in each.hosts
        ],
        "keeps": [vertex(each.query, each.vertex) for each in fleet.placements if name in each.keepers],
        "feeds": [each.name for each in fleet.queries if name in each.sources],
        "ends": [each.name for each in fleet.queries if name == each.sink],
    }  # fmt: skip
