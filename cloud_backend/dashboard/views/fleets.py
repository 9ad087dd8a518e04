"""Fleets: where each vertex runs, who keeps its snapshots, and what moved when and why, as their coordinators told it.

The gateway itself coordinates the nodes that offered to host. A coordinator that is a node tells a gateway only while
it reaches it. What it said last is shown with when that was: `current` says whether it is heard now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.privacy.places import coarse
from cloud_backend.dashboard.sources import Sources
from shared.errors import UsageError
from shared.hosting.fleet_words import answer_words, applied_lines, move_words, preview_words, strategy_words
from shared.identity import DeviceId
from shared.moves import PREVIEW, THIS_GATEWAY, MoveAnswer
from shared.wire.fleet_status import FleetStatus


def fleets(sources: Sources, *, exact: bool = False) -> list[dict[str, Any]]:
    """Every fleet whose coordinator is enrolled here, by the coordinator's name. Who may not see places exactly is told
    those of regions as coarse as those of phones: whoever is in one is there."""
    devices = {each.phone.id: each for each in sources.devices() if each.state != "revoked"}
    seen = {entry.device.hex(): entry.seen_us for entry in sources.entries()}
    return [*_governed(sources, devices, exact=exact)] + [
        {
            "coordinator": {"device": id, "name": each.phone.name, "contact": each.state},
            "current": each.is_in_contact,
            "heard_us": seen.get(id),
            "deposed": "",
            "control_per_s": None,
            **_fleet(each.status.fleet, devices, exact=exact),
        }
        for id, each in devices.items()
        if each.status.fleet is not None
    ]


def _governed(sources: Sources, devices: dict[str, Device], *, exact: bool) -> Iterator[dict[str, Any]]:
    """The fleet that this gateway coordinates itself, once a node has offered to host."""
    own = sources.governed
    status = None if own is None else own.status()
    if own is None or status is None:
        return
    shown = _fleet(status, devices, exact=exact)
    control = own.control()
    for node in shown["nodes"]:
        node["control"] = control.get(node["node"])
    yield {
        "coordinator": {"device": None, "name": "this gateway", "contact": "live"},
        "current": True,
        "heard_us": sources.clock_us(),
        "deposed": own.deposed,
        "control_per_s": sum(each["per_s"] for each in control.values()),
        **shown,
    }


def fleet_queries(sources: Sources) -> dict[str, Any]:
    """The queries that this gateway's own fleet runs, as its coordinator tells them."""
    own = sources.governed
    return {"queries": [], "nodes": []} if own is None or own.deposed else own.ask("queries", {})


def fleet_regions(sources: Sources, *, exact: bool) -> dict[str, Any]:
    """The regions of this gateway's own fleet, as its coordinator tells them."""
    own = sources.governed
    found = {"regions": []} if own is None or own.deposed else own.ask("regions", {})
    return {"regions": [each | {"points": _points(each["points"], exact=exact)} for each in found["regions"]]}


def _points(points: Iterable[Iterable[float]], *, exact: bool) -> list[list[object]]:
    return [[degrees if exact else coarse(degrees) for degrees in point] for point in points]


def coordinated(sources: Sources, device: str) -> DeviceId:
    """The coordinator of this id, which is heard now; UsageError where there is none."""
    found = sources.look().listing.find(device)
    if found is None or found.state == "revoked" or found.status.fleet is None:
        raise UsageError("no device of this id coordinates a fleet", code="fleet-unknown")
    if not found.is_in_contact:
        raise UsageError(f"{found.phone.name} is not heard; nothing can be moved until it is", code="fleet-silent")
    return DeviceId(bytes.fromhex(device))


def asked_for(sources: Sources, id: str) -> dict[str, Any] | None:
    """A request for a move and what became of it; None where nobody knows of it any more."""
    waiting = sources.requests.find(id)
    if waiting is not None:
        return {"id": id, **asdict(waiting), "state": "waiting", "words": [], "why": "", "code": "", "device": ""}
    for fleet in fleets(sources):
        for answer in fleet["asked"]:
            if answer["id"] == id:
                return {**answer, "device": fleet["coordinator"]["device"] or THIS_GATEWAY}
    return None


def _answer(answer: MoveAnswer) -> dict[str, Any]:
    preview = answer.preview
    return asdict(answer.request) | {
        "state": answer.state, "why": answer.why, "code": answer.code,
        "preview": None if preview is None else asdict(preview),
        "words": [answer_words(answer)] if preview is None or answer.state != PREVIEW
        else preview_words(answer.request.vertex, preview),
    }  # fmt: skip


def _fleet(fleet: FleetStatus, devices: dict[str, Device], *, exact: bool) -> dict[str, Any]:
    return {
        "regions": [
            asdict(each) | {"points": _points(each.points, exact=exact), "members": [list(one) for one in each.members]}
            for each in fleet.regions
        ],
        "events": [asdict(each) for each in reversed(fleet.events)],
        "version": fleet.version,
        "nodes": [
            _node(fleet, each.name, each.node, each.silent_us, devices) | {"room": each.room, "apart": list(each.apart)}
            for each in fleet.nodes
        ],
        "queries": [
            asdict(query)
            | {
                "words": strategy_words(query.strategy, query.every),
                "vertices": [asdict(each) for each in fleet.placements if each.query == query.name],
                "ways": [
                    {"source": source, "nodes": list(nodes)}
                    for name, source, nodes in dict.fromkeys(fleet.ways)
                    if name == query.name
                ],
                "applied": (parts := [asdict(each) for each in fleet.applied if each.query == query.name]),
                "applied_words": [line.strip() for line in applied_lines(parts)],
            }
            for query in fleet.queries
        ],
        "moves": [asdict(move) | {"words": move_words(move)} for move in reversed(fleet.moves)],
        "left_off": fleet.left_off,
        "links": [list(link) for link in fleet.links],
        "asked": [_answer(each) for each in reversed(fleet.asked)],
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
        "passes_on": list(dict.fromkeys(source for _, source, nodes in fleet.ways if name in nodes)),
        "control": None,
    }  # fmt: skip
