"""The devices: where they are, how they are, and what can be done about each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.accounts import Person
from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.fleet import Device
from cloud_backend.dashboard.pages.site import (
    Admin,
    Fields,
    Operator,
    Site,
    Viewer,
    answer,
    back,
    chosen,
    missing,
    paged,
    part_or_page,
    refusing,
    whole_number,
)
from cloud_backend.dashboard.views import devices as acts
from cloud_backend.dashboard.views.places import trail_shown
from shared.errors import PeerError, UsageError

SHOWN = {
    "all": "All devices",
    "offline": "Offline",
    "connected": "Connected",
    "waiting": "With buffered readings",
    "ledgered": "With ledger entries",
    "revoked": "Revoked",
}
TRAIL_US = 3600 * 1_000_000  # of a device's way, up to where it was last
TRAILS_MAX = 60  # devices; beyond it a map shows positions, and a device's own page its trail
QUERY_CHARACTERS_MAX = 80
LEDGER_ROWS = 20
RATES = {"": 1.0, "0.5": 0.5, "0.25": 0.25, "0.1": 0.1}


def devices_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/devices", response_class=HTMLResponse)
    async def devices_page(request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_listing, site, request)
        template = part_or_page(request, "devices_table.html", "devices.html")
        return answer(request, template, person, "Devices", **view)

    @router.get("/devices/map.json")
    async def devices_map(person: Viewer) -> dict[str, Any]:
        return await asyncio.to_thread(_places, site, person)

    @router.get("/devices/pair", response_class=HTMLResponse)
    async def pair_page(request: Request, person: Operator) -> HTMLResponse:
        return answer(request, "pair.html", person, "Devices", pairing=None, host="", problem="")

    @router.post("/devices/pair", response_class=HTMLResponse)
    async def pair(request: Request, person: Operator, fields: Fields) -> HTMLResponse:
        """A page, not a redirect: the link is a secret that belongs into no address."""
        host = fields.get("host", "").strip()
        try:
            await audit(request, person, "pairing-code-made")
            made = await asyncio.to_thread(acts.pair, site.sources, host)
        except UsageError as error:
            return answer(request, "pair.html", person, "Devices", pairing=None, host=host, problem=error.message)
        return answer(request, "pair.html", person, "Devices", pairing=made, host=host, problem="")

    @router.post("/devices/pair/state", response_class=HTMLResponse)
    async def pairing_state(request: Request, person: Operator, fields: Fields) -> HTMLResponse:
        link = fields.get("link", "")
        with refusing(request):
            state = await asyncio.to_thread(_pairing, site, link)
        return answer(request, "pair_state.html", person, "Devices", link=link, state=state)

    @router.get("/devices/{device}", response_class=HTMLResponse)
    async def device_page(device: str, request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_one, site, device, request)
        template = part_or_page(request, "device_facts.html", "device.html")
        return answer(request, template, person, "Devices", **view)

    @router.get("/devices/{device}/map.json")
    async def device_map(device: str, request: Request, person: Viewer) -> dict[str, Any]:
        found = await asyncio.to_thread(find, site, device, request)
        return {"type": "FeatureCollection", "features": _features(site, found, person, trail=True)}

    @router.get("/devices/{device}/arrivals.json")
    async def device_arrivals(device: str, request: Request, person: Viewer) -> dict[str, Any]:  # noqa: ARG001
        return await asyncio.to_thread(_arrivals, site, device, request)

    return router


def _pairing(site: Site, link: str) -> dict[str, Any]:
    try:
        return acts.pairing(site.sources, link)
    except PeerError as error:
        raise UsageError(error.message, code=error.code) from None


def device_acts_router(site: Site) -> APIRouter:
    """What is done to a device: each act is noted in the audit log before it is done."""
    router = APIRouter(include_in_schema=False)

    async def act(request: Request, person: Person, device: str, action: str, does: Callable[[], object]) -> Response:
        with refusing(request):
            found = await asyncio.to_thread(acts.find, site.sources, device)
            await audit(request, person, action, found.name, device)
            await asyncio.to_thread(does)
        site.fleet.forget()
        return back(f"/devices/{device}", action)

    @router.post("/devices/{device}/rename")
    async def rename(device: str, request: Request, person: Operator, fields: Fields) -> Response:
        name = fields.get("name", "")
        return await act(request, person, device, "renamed", lambda: acts.rename(site.sources, device, name))

    @router.post("/devices/{device}/configure")
    async def configure(device: str, request: Request, person: Operator, fields: Fields) -> Response:
        rate = RATES.get(fields.get("sampling_rate", ""), 1.0)
        note = fields.get("note", "").replace("\r\n", "\n")
        return await act(
            request, person, device, "configured",
            lambda: acts.configure(site.sources, device, sampling_rate=rate, note=note),
        )  # fmt: skip

    @router.post("/devices/{device}/revoke")
    async def revoke(device: str, request: Request, person: Operator) -> Response:
        return await act(request, person, device, "revoked", lambda: acts.revoke(site.sources, device))

    @router.post("/devices/{device}/delete")
    async def delete(device: str, request: Request, person: Admin, fields: Fields) -> Response:
        with refusing(request):
            found = await asyncio.to_thread(acts.find, site.sources, device)
            if fields.get("confirm", "").strip() != found.name:
                raise UsageError("the name does not match; nothing was deleted", code="device-confirm")
        return await act(request, person, device, "deleted", lambda: acts.delete_data(site.sources, device))

    return router


def find(site: Site, device: str, request: Request) -> Device:
    """The device of this id; a problem when there is none."""
    found = next((each for each in site.devices() if each.phone.id == device), None)
    if found is None:
        raise missing(request, "device")
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
    [[time_us, lat, lon]] = trail_shown([device.position], exact=person.sees_places)
    found = [_feature("Point", [lon, lat], about | {"time_us": time_us})]
    if trail:
        with site.history.lock:
            points = site.history.trails.of(device.phone.id)
        points = [each for each in points if each.time_us > device.position.time_us - TRAIL_US]
        line = [[each[2], each[1]] for each in trail_shown(points, exact=person.sees_places)]
        if len(line) > 1:
            found.append(_feature("LineString", line, about))
    return found


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def _one(site: Site, device: str, request: Request) -> dict[str, Any]:
    found = find(site, device, request)
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
        "settings": acts.device(site.sources, device, exact=False),
    }  # fmt: skip


def _arrivals(site: Site, device: str, request: Request) -> dict[str, Any]:
    """The last five minutes, second by second, for the chart."""
    found = find(site, device, request)
    end = site.now_us() // 1_000_000
    with site.history.lock:
        counts = site.history.arrivals.per_second(start=end - 300, end=end, devices=[device])
    return {
        "now_s": end, "name": found.phone.name, "from": end - 300, "counts": counts.get(device, [0] * 300),
        "outages": found.phone.outages,
    }  # fmt: skip
