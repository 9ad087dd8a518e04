"""The views as routes of `/v1/api`: devices, fleets, streams, contracts, queries, jobs, results, people, audit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from cloud_backend.dashboard.acts.act import DeviceHex, NameInPath
from cloud_backend.dashboard.api.parameters import (
    REFUSALS,
    Admin,
    Before,
    ByColumn,
    EdgeHex,
    FromLevel,
    HashHex,
    InLine,
    InTime,
    Limit,
    MaybeDevice,
    MaybeEdge,
    MaybePart,
    Number,
    Operator,
    Viewer,
)
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import (
    alerts,
    audit,
    contracts,
    devices,
    fleets,
    followers,
    jobs,
    ledger,
    logs,
    program,
    queries,
    results,
    streams,
)
from cloud_backend.dashboard.views import result_map as result_maps

BATCHES_MAX = 100


def reading_routers(sources: Sources) -> list[APIRouter]:
    return [
        _devices(sources), _fleets(sources), _streams(sources), _contracts(sources), _computed(sources),
        _people(sources),
    ]  # fmt: skip


def _devices(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/devices", tags=["devices"], responses=REFUSALS)

    @router.get("", summary="Every device ever enrolled")
    async def list_devices(person: Viewer) -> dict[str, Any]:
        return {"devices": await in_thread(devices.devices, sources, exact=person.sees_places)}

    @router.get("/{device}", summary="One device: edges, settings, trail")
    async def one_device(device: DeviceHex, person: Viewer) -> dict[str, Any]:
        return await in_thread(devices.device, sources, device, exact=person.sees_places)

    @router.get("/{device}/trail", summary="Where it was: time, latitude, longitude")
    async def trail(device: DeviceHex, person: Viewer) -> dict[str, Any]:
        return {"trail": await in_thread(devices.trail, sources, device, exact=person.sees_places)}

    return router


def _fleets(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/fleets", tags=["fleets"], responses=REFUSALS)

    @router.get("", summary="Where each vertex runs, who keeps its snapshots, what moved and why")
    async def list_fleets(person: Viewer) -> dict[str, Any]:
        return {"fleets": await in_thread(fleets.fleets, sources, exact=person.sees_places)}

    @router.get("/queries", summary="What the nodes of this gateway's fleet run, with the plans, and what they reach")
    async def fleet_queries(_: Viewer) -> dict[str, Any]:
        return await in_thread(fleets.fleet_queries, sources)

    @router.get("/regions", summary="The regions of this gateway's fleet: where, who is in them, and how they are")
    async def fleet_regions(person: Viewer) -> dict[str, Any]:
        return await in_thread(fleets.fleet_regions, sources, exact=person.sees_places)

    return router


def _streams(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api", tags=["streams"], responses=REFUSALS)

    @router.get("/streams", summary="Every edge: rate, lag, elements, ledgered")
    async def list_streams(_: Viewer) -> dict[str, Any]:
        return {"streams": [each.to_json() for each in await in_thread(streams.streams, sources)]}

    @router.get("/streams/{edge}", summary="One edge: schema, devices, completeness by hour, ledger")
    async def one_stream(
        edge: EdgeHex, _: Viewer, hours: Annotated[int, Query(ge=1, le=48, description="how far back")] = 24
    ) -> dict[str, Any]:
        return await in_thread(streams.stream, sources, edge, hours=hours)

    @router.get("/streams/{edge}/batches", summary="Its newest batches, decoded")
    async def batches(
        edge: EdgeHex, person: Viewer, device: MaybeDevice = "", before: Before = None, limit: Limit = 20
    ) -> dict[str, Any]:
        return await in_thread(
            streams.batches, sources, edge, exact=person.sees_places, device=device, before=before,
            limit=min(limit, BATCHES_MAX),
        )  # fmt: skip

    @router.get("/ledger", summary="Every range that was given up, and what Spark left out")
    async def list_ledger(
        _: Viewer, device: MaybeDevice = "", edge: MaybeEdge = "", limit: Limit = 100
    ) -> dict[str, Any]:
        return await in_thread(ledger.ledger, sources, device=device, edge_hex=edge, limit=limit)

    return router


def _computed(sources: Sources) -> APIRouter:
    """What Spark computes, and what came of it."""
    router = APIRouter(prefix="/v1/api", responses=REFUSALS)

    @router.get("/program", summary="What phones and Spark run, and who has which version", tags=["program"])
    async def the_program(_: Viewer) -> dict[str, Any]:
        return await in_thread(program.program, sources)

    @router.get("/queries", summary="Every query and what its job does", tags=["queries"])
    async def list_queries(_: Viewer) -> dict[str, Any]:
        return {"queries": await in_thread(queries.queries, sources)}

    @router.get("/jobs", summary="Every job: the program's and the queries'", tags=["jobs"])
    async def list_jobs(_: Viewer) -> dict[str, Any]:
        return {"jobs": await in_thread(jobs.jobs, sources)}

    @router.get(
        "/jobs/{name}", summary="Vertices x ranges, epochs, snapshots, exceptions, divisions, rollbacks", tags=["jobs"]
    )
    async def one_job(
        name: NameInPath, _: Viewer, epochs: Annotated[int, Query(ge=1, le=200, description="how many back")] = 20
    ) -> dict[str, Any]:
        return await in_thread(jobs.job, sources, name, epochs=epochs)

    @router.get("/jobs/{name}/plan", summary="Its plan, explained and drawn", tags=["jobs"])
    async def plan(name: NameInPath, _: Viewer) -> dict[str, Any]:
        return await in_thread(jobs.plan_svg, sources, name)

    @router.get("/results", summary="Every sink and how many rows it has", tags=["results"])
    async def list_sinks(_: Viewer) -> dict[str, Any]:
        return {"sinks": await in_thread(results.sinks, sources)}

    @router.get("/followers", summary="Who is sent results, and how that goes", tags=["results"])
    async def list_followers(person: Viewer) -> dict[str, Any]:
        return {"followers": await in_thread(followers.followers, sources, exact=person.may("admin"))}

    @router.get(
        "/results/{sink}", summary="A sink's rows, of a time if one is said, newest windows first", tags=["results"]
    )
    async def rows(
        sink: NameInPath, person: Viewer, within: InTime, before_us: Before = None, limit: Limit = 100
    ) -> dict[str, Any]:
        return await in_thread(
            results.rows, sources, sink, exact=person.sees_places, within=within, before_us=before_us, limit=limit
        )

    @router.get(
        "/results/{sink}/map", tags=["results"],
        summary="A sink's rows as GeoJSON, of a time if one is said; with a column each point's share of its scale",
    )  # fmt: skip
    async def result_map(sink: NameInPath, person: Viewer, within: InTime, colour: ByColumn = "") -> dict[str, Any]:
        return await in_thread(
            result_maps.result_map, sources, sink, exact=person.sees_places, within=within, colour=colour
        )

    return router


def _contracts(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/contracts", tags=["contracts"], responses=REFUSALS)

    @router.get("", summary="Every sink's promise, what keeps it, and how it is in this hour")
    async def list_contracts(_: Viewer) -> dict[str, Any]:
        return await in_thread(contracts.contracts, sources)

    @router.get("/reports", summary="Signed reports of all sinks, newest first")
    async def list_reports(_: Viewer, limit: Limit = 100, before: Before = None) -> dict[str, Any]:
        return await in_thread(contracts.reports, sources, limit=limit, before=before)

    @router.get("/verify", summary="Whether every report is as it was signed")
    async def verify(_: Operator) -> dict[str, Any]:
        return await in_thread(contracts.verify, sources)

    @router.get("/sinks/{sink}", summary="One sink: now, its reports, and what each strategy would cost")
    async def one_contract(sink: NameInPath, _: Viewer, limit: Limit = 48, before: Before = None) -> dict[str, Any]:
        return await in_thread(contracts.contract, sources, sink, limit=limit, before=before)

    return router


def _people(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api", responses=REFUSALS)

    @router.get("/me", summary="Who asks, and as what", tags=["people"])
    async def me(person: Viewer) -> dict[str, Any]:
        return {"name": person.name, "role": person.role, "version": sources.version}

    @router.get("/accounts", summary="Everybody who may sign in", tags=["people"])
    async def list_people(_: Admin) -> dict[str, Any]:
        return {"accounts": [asdict(each) for each in await in_thread(sources.access.people.all)]}

    @router.get("/audit", summary="Who did what, newest first", tags=["audit"])
    async def lines(_: Operator, limit: Limit = 100, before: Before = None) -> dict[str, Any]:
        return await in_thread(audit.lines, sources, limit=limit, before=before)

    @router.get("/audit/verify", summary="Whether every line of the audit log is as it was written", tags=["audit"])
    async def verify(_: Operator, number: Number = 0, hash: HashHex = "") -> dict[str, Any]:
        return await in_thread(audit.verify, sources, number=number, hash_hex=hash)

    @router.get("/audit/head", summary="The newest line by number and hash, signed; keep it elsewhere", tags=["audit"])
    async def head(_: Operator) -> dict[str, Any]:
        return await in_thread(audit.head, sources)

    @router.get("/logs", summary="What gateway and Spark said last, newest first", tags=["logs"])
    async def log_lines(
        _: Operator, part: MaybePart = "", level: FromLevel = "info", text: InLine = "", before_us: Before = None,
        limit: Limit = 100,
    ) -> dict[str, Any]:  # fmt: skip
        return await in_thread(logs.lines, sources, part=part, level=level, text=text, before_us=before_us, limit=limit)

    @router.get("/alerts", summary="Open alerts first, then those that ended; and the rules", tags=["alerts"])
    async def list_alerts(_: Viewer, limit: Limit = 100) -> dict[str, Any]:
        return await in_thread(alerts.alerts, sources, limit=limit)

    @router.get("/webhooks", summary="The webhooks, and messages that wait or were given up", tags=["alerts"])
    async def list_webhooks(_: Admin) -> dict[str, Any]:
        return await in_thread(alerts.webhooks, sources, exact=True)

    return router
