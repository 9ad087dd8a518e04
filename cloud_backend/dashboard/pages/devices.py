"""The devices: where they are, how they are, and what can be done about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.acts import devices as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.listing import COORDINATING, LOCATED, SHOWN
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import (
    Operator,
    Viewer,
    answer,
    chosen,
    paged,
    refusing,
    whole_number,
)
from cloud_backend.dashboard.privacy.places import trail_shown
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views.devices import find_device, live_shown, why_withheld
from cloud_backend.gateway.http_problems import Problem
from shared.identity import DeviceId

TRAIL_US = 3600 * 1_000_000  # of a device's way, up to where it was last
TRAILS_MAX = 60  # devices; beyond it a map shows positions, and a device's own page its trail
QUERY_CHARACTERS_MAX = 80
LEDGER_ROWS = 20


def devices_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/devices", response_class=HTMLResponse)
    async def devices_page(request: Request, person: Viewer) -> HTMLResponse:
        view = await in_thread(_listing, sources, request)
        return answer(request, "devices.html", person, "Devices", part="devices_table.html", **view)

    @router.get("/devices/map.json")
    async def devices_map(person: Viewer) -> dict[str, Any]:
        return await in_thread(_places, sources, person)

    @router.get("/devices/pair", response_class=HTMLResponse)
    async def pair_page(request: Request, person: Operator) -> HTMLResponse:
        return answer(request, "pair.html", person, "Devices", pairing=None, host="", problem=None)

    @router.get("/devices/{device}", response_class=HTMLResponse)
    async def device_page(device: str, request: Request, person: Viewer) -> HTMLResponse:
        with refusing(request):
            view = await in_thread(_one, sources, device, person)
        return answer(request, "device.html", person, "Devices", part="device_facts.html", **view)

    @router.get("/devices/{device}/map.json")
    async def device_map(device: str, request: Request, person: Viewer) -> dict[str, Any]:
        with refusing(request):
            found = await in_thread(find_device, sources, device)
        return {"type": "FeatureCollection", "features": _features(sources, found, person, trail=True)}

    @router.get("/devices/{device}/arrivals.json")
    async def device_arrivals(device: str, request: Request, person: Viewer) -> dict[str, Any]:  # noqa: ARG001
        with refusing(request):
            return await in_thread(_arrivals, sources, device)

    return router


def device_manners() -> dict[Act[Any], ActPage]:
    return {acts.PAIR: ActPage(done=_paired, refused=_not_paired), acts.PAIRING: ActPage(done=_pairing)}


def _paired(visit: Visit, made: dict[str, Any]) -> Response:
    """A page, not a redirect: the link is a secret that belongs into no address."""
    return answer(visit.request, "pair.html", visit.person, "Devices", pairing=made, host="", problem=None)


def _not_paired(visit: Visit, problem: Problem) -> Response:
    host = visit.form.get("host", "")[:255]
    return answer(
        visit.request, "pair.html", visit.person, "Devices", pairing=None, host=host, problem=problem,
        status=problem.status,
    )  # fmt: skip


def _pairing(visit: Visit, state: dict[str, Any]) -> Response:
    return answer(
        visit.request, "pair_state.html", visit.person, "Devices", link=visit.form.get("link", ""), state=state
    )


def _listing(sources: Sources, request: Request) -> dict[str, Any]:
    parameters = request.query_params
    show = chosen(parameters.get("show"), SHOWN, "all")
    query = parameters.get("q", "")[:QUERY_CHARACTERS_MAX].strip()
    listing = sources.look().listing
    groups = sources.roster.groups.sizes()
    group = chosen(parameters.get("group"), {"": 0, **groups}, "")
    places, pages = paged(listing.matching(show, query, group), whole_number(parameters.get("page"), lowest=1))
    counts = listing.counts()
    return {
        "now_us": sources.clock_us(), "rows": listing.devices(places), "pages": pages, "show": show, "shown": SHOWN,
        "query": query, "count": counts["all"], "counts": counts, "contact_counts": _contact_counts(counts),
        "located": listing.has(LOCATED), "fleets": listing.has(COORDINATING), "groups": groups, "group": group,
    }  # fmt: skip


def _contact_counts(counts: Mapping[str, int]) -> str:
    more = {"not seen yet": counts["new"], "revoked": counts["revoked"]}
    said = [f"{counts['connected']:,} connected", f"{counts['offline']:,} offline"]
    return ", ".join(said + [f"{devices:,} {words}" for words, devices in more.items() if devices])


def _places(sources: Sources, person: Person) -> dict[str, Any]:
    devices = sources.look().listing.of_kind(LOCATED)
    trail = len(devices) <= TRAILS_MAX
    features = [feature for each in devices for feature in _features(sources, each, person, trail=trail)]
    return {"type": "FeatureCollection", "features": features}


def _features(sources: Sources, device: Device, person: Person, *, trail: bool) -> list[dict[str, Any]]:
    if device.position is None:
        return []
    about = {"name": device.phone.name, "id": device.phone.id, "stale": device.state != "connected"}
    about |= {"live": True} if device.position_is_live else {}
    [[time_us, lat, lon]] = trail_shown([device.position], exact=person.sees_places)
    found = [_feature("Point", [lon, lat], about | {"time_us": time_us})]
    if trail:
        with sources.history.lock:
            points = sources.history.trails.of(device.phone.id)
        points = [each for each in points if each.time_us > points[-1].time_us - TRAIL_US]
        line = [[each[2], each[1]] for each in trail_shown(points, exact=person.sees_places)]
        if len(line) > 1:
            found.append(_feature("LineString", line, about))
    return found


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def _one(sources: Sources, device: str, person: Person) -> dict[str, Any]:
    found = find_device(sources, device)
    with sources.history.lock:
        edges = [
            {"name": sources.history.names.get(edge, f"{edge:016x}"), "incarnation": incarnation, "history": known}
            for (_, incarnation, edge), known in sources.history.streams.edges_of(device)
        ]
    return {
        "now_us": sources.clock_us(), "device": found, "edges": sorted(edges, key=lambda each: str(each["name"])),
        "ledger": sources.history.ledger(device=device, limit=LEDGER_ROWS),
        "device_names": {device: found.phone.name}, "edge_names": sources.edge_names(),
        "settings": sources.roster.settings().get(DeviceId(bytes.fromhex(device)), {}),
        "withheld": why_withheld(sources, found.status, found.group), "groups": sources.roster.groups.sizes(),
        "live": live_shown(found, exact=person.sees_places),
    }  # fmt: skip


def _arrivals(sources: Sources, device: str) -> dict[str, Any]:
    """The last five minutes, second by second, for the chart."""
    found = find_device(sources, device)
    end = sources.clock_us() // 1_000_000
    with sources.history.lock:
        counts = sources.history.arrivals.per_second(start=end - 300, end=end, devices=[device])
    return {
        "now_s": end, "name": found.phone.name, "from": end - 300, "counts": counts.get(device, [0] * 300),
        "outages": found.phone.outages,
    }  # fmt: skip
