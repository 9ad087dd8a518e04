"""`/v1/api/devices`: see, pair, rename, configure, revoke, delete."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import REFUSALS, Admin, Body, DeviceHex, Done, Operator, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import devices
from cloud_backend.gateway.problems import Problem


class Pair(Body):
    host: str = Field("", max_length=253, description="where phones reach this gateway; empty: as it was started")


class Pairing(Body):
    link: str = Field(max_length=500, description="the enrolment link")


class Rename(Body):
    name: str = Field(min_length=1, max_length=80)


class Configure(Body):
    sampling_rate: float = Field(1.0, ge=0.1, le=1.0, strict=False, description="share of the plan's sampling rate")
    note: str = Field("", max_length=500)


class DeleteData(Body):
    name: str = Field(max_length=80, description="the device's name once more, so that no slip deletes")


def devices_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/devices", tags=["devices"], responses=REFUSALS)

    @router.get("", summary="Every device ever enrolled")
    async def list_devices(person: Viewer) -> dict[str, Any]:
        return {"devices": await aside(devices.devices, sources, exact=person.sees_places)}

    @router.post("/pair", summary="A single-use enrolment link and its QR code")
    async def pair(body: Pair, person: Operator, request: Request) -> dict[str, Any]:
        await audit(request, person, "pairing-link-made")
        return await aside(devices.pair, sources, body.host)

    @router.post("/pairing", summary="Whether a link was used, and the digits the phone must show")
    async def pairing(body: Pairing, _: Operator) -> dict[str, Any]:
        return await aside(devices.pairing, sources, body.link)

    @router.get("/{device}", summary="One device: edges, settings, trail")
    async def one_device(device: DeviceHex, person: Viewer) -> dict[str, Any]:
        return await aside(devices.device, sources, device, exact=person.sees_places)

    @router.get("/{device}/trail", summary="Where it was: time, latitude, longitude")
    async def trail(device: DeviceHex, person: Viewer) -> dict[str, Any]:
        return {"trail": await aside(devices.trail, sources, device, exact=person.sees_places)}

    @router.post("/{device}/rename", summary="Change what people see")
    async def rename(device: DeviceHex, body: Rename, person: Operator, request: Request) -> Done:
        await audit(request, person, "device-renamed", device)
        await aside(devices.rename, sources, device, body.name)
        return Done()

    @router.post("/{device}/configure", summary="Ask for a share of its sampling rate; keep a note")
    async def configure(device: DeviceHex, body: Configure, person: Operator, request: Request) -> dict[str, Any]:
        await audit(request, person, "device-configured", device, f"sampling rate {body.sampling_rate:g}")
        return await aside(devices.configure, sources, device, sampling_rate=body.sampling_rate, note=body.note)

    @router.post("/{device}/revoke", summary="Refuse it from now on; what it delivered stays")
    async def revoke(device: DeviceHex, person: Operator, request: Request) -> Done:
        await audit(request, person, "device-revoked", device)
        await aside(devices.revoke, sources, device)
        return Done()

    @router.post("/{device}/delete-data", summary="Revoke it and delete what it delivered")
    async def delete_data(device: DeviceHex, body: DeleteData, person: Admin, request: Request) -> dict[str, Any]:
        entry = await aside(devices.find, sources, device)
        if entry.name != body.name:
            raise Problem("device-name", "the name does not match the device's; nothing was deleted", status=409)
        await audit(request, person, "device-data-deleted", device)
        return await aside(devices.delete_data, sources, device)

    return router
