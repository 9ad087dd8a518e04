"""The devices: where they are, how they are, and what can be done about each."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.accounts import Person
from cloud_backend.dashboard.fleet import Device, blurred
from cloud_backend.dashboard.pages.site import Site, Viewer, answer, chosen, missing, paged, whole_number

SHOWN = {
    "all": "All devices",
    "offline": "Offline",
    "connected": "Connected",
    "waiting": "With buffered readings",
    "ledgered": "With ledger entries",
    "revoked": "Revoked",
}
TRAILS_MAX = 60  # devices; beyond it a map shows positions, and a device's own page its trail
QUERY_CHARACTERS_MAX = 80
LEDGER_ROWS = 20


def devices_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/devices", response_class=HTMLResponse)
    async def devices_page(request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_listing, site, request)
        template = "devices_table.html" if request.headers.get("hx-request") == "true" else "devices.html"
        return answer(request, template, person, "Devices", **view)

    @router.get("/devices/map.json")
    async def devices_map(person: Viewer) -> dict[str, Any]:
        return await asyncio.to_thread(_places, site, person)

    @router.get("/devices/{device}", response_class=HTMLResponse)
    async def device_page(device: str, request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_one, site, device)
        template = "device_facts.html" if request.headers.get("hx-request") == "true" else "device.html"
        return answer(request, template, person, "Devices", **view)

    @router.get("/devices/{device}/map.json")
    async def device_map(device: str, person: Viewer) -> dict[str, Any]:
        found = await asyncio.to_thread(find, site, device)
        return {"type": "FeatureCollection", "features": _features(site, found, person, trail=True)}

    @router.get("/devices/{device}/arrivals.json")
    async def device_arrivals(device: str, person: Viewer) -> dict[str, Any]:  # noqa: ARG001 - only viewers may ask
        return await asyncio.to_thread(_arrivals, site, device)

    return router


def find(site: Site, device: str) -> Device:
    """The device of this id; a problem when there is none."""
    found = next((each for each in site.devices() if each.phone.id == device), None)
    if found is None:
        raise missing("device")
    return found


def _listing(site: Site, request: Request) -> dict[str, Any]:
    asked = request.query_params
    show = chosen(asked.get("show"), SHOWN, "all")
    query = asked.get("q", "")[:QUERY_CHARACTERS_MAX].strip()
    devices = site.devices()
    enrolled = [each for each in devices if each.state != "revoked"]
    matching = [each for each in devices if _is_shown(each, show) and _matches(each, query)]
    rows, pages = paged(matching, whole_number(asked.get("page"), lowest=1))
    return {
        "now_us": site.now_us(), "rows": rows, "pages": pages, "show": show, "shown": SHOWN, "query": query,
        "count": len(enrolled), "counts": _counts(devices), "located": any(each.position for each in enrolled),
    }  # fmt: skip


def _counts(devices: list[Device]) -> dict[str, int]:
    return {show: sum(_is_shown(each, show) for each in devices) for show in SHOWN}


def _is_shown(device: Device, show: str) -> bool:
    if show == "revoked" or device.state == "revoked":
        return show == device.state
    return {
        "all": True,
        "offline": device.state in ("offline", "new"),
        "connected": device.state == "connected",
        "waiting": device.phone.buffered > 0,
        "ledgered": device.phone.ledgered > 0,
    }[show]


def _matches(device: Device, query: str) -> bool:
    words = query.casefold()
    return words in device.phone.name.casefold() or device.phone.id.startswith(words)


def _places(site: Site, person: Person) -> dict[str, Any]:
    devices = [each for each in site.devices() if each.state != "revoked" and each.position]
    trail = len(devices) <= TRAILS_MAX
    features = [feature for each in devices for feature in _features(site, each, person, trail=trail)]
    return {"type": "FeatureCollection", "features": features}


def _features(site: Site, device: Device, person: Person, *, trail: bool) -> list[dict[str, Any]]:
    if device.position is None:
        return []
    about = {"name": device.phone.name, "id": device.phone.id, "stale": device.state != "connected"}
    here = blurred(device.position, exact=person.sees_places)
    found = [_feature("Point", [here.lon, here.lat], about | {"time_us": here.time_us})]
    if trail:
        with site.history.lock:
            points = site.history.trails.of(device.phone.id)
        line = [[each.lon, each.lat] for each in (blurred(point, exact=person.sees_places) for point in points)]
        if len(line) > 1:
            found.append(_feature("LineString", line, about))
    return found


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def _one(site: Site, device: str) -> dict[str, Any]:
    found = find(site, device)
    with site.history.lock:
        edges = [
            {"name": site.history.names.get(edge, f"{edge:016x}"), "incarnation": incarnation, "history": known}
            for (owner, incarnation, edge), known in site.history.edges.items()
            if owner == device
        ]
    return {
        "now_us": site.now_us(), "device": found, "edges": sorted(edges, key=lambda each: str(each["name"])),
        "ledger": site.history.ledger(device=device, limit=LEDGER_ROWS),
        "device_names": {device: found.phone.name}, "edge_names": site.edge_names(),
    }  # fmt: skip


def _arrivals(site: Site, device: str) -> dict[str, Any]:
    """The last five minutes, second by second, for the chart."""
    found = find(site, device)
    end = site.now_us() // 1_000_000
    with site.history.lock:
        counts = site.history.arrivals.per_second(start=end - 300, end=end, devices=[device])
    return {
        "now_s": end, "name": found.phone.name, "from": end - 300, "counts": counts.get(device, [0] * 300),
        "outages": found.phone.outages,
    }  # fmt: skip
