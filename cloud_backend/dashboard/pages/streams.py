"""The streams: how fast, how far, how complete; what was given up; and the batches themselves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.completeness import Cell, by_device, cells_of, hours_until
from cloud_backend.dashboard.heat_map import heat_map, strip
from cloud_backend.dashboard.pages.site import Site, Viewer, answer, missing, part_or_page, whole_number
from cloud_backend.dashboard.views import queries
from cloud_backend.dashboard.views.places import coarse, is_place
from cloud_backend.log.format import Record
from shared.errors import DamagedData, PeerError
from shared.stream.schema import Schema
from shared.wire import columns
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data

HEAT_ROWS = 24
BATCHES_SHOWN = 25
ROWS_SHOWN = 50
LEDGER_ROWS = 20
OFFSET_MAX = 1 << 60


@dataclass(frozen=True, slots=True)
class Stream:
    number: int
    name: str
    devices: int
    rate: float
    delivered: int
    ledgered: int
    lag_s: float | None  # behind now, of the device that is furthest behind among those in contact
    cells: tuple[Cell, ...]


def streams_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/streams", response_class=HTMLResponse)
    async def streams_page(request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_listing, site)
        template = part_or_page(request, "streams_table.html", "streams.html")
        return answer(request, template, person, "Streams", **view)

    @router.get("/streams/{stream}", response_class=HTMLResponse)
    async def stream_page(stream: str, request: Request, person: Viewer) -> HTMLResponse:
        view = await asyncio.to_thread(_one, site, stream, request)
        template = part_or_page(request, "stream_now.html", "stream.html")
        return answer(request, template, person, "Streams", **view)

    @router.get("/streams/{stream}/batches/{offset}", response_class=HTMLResponse)
    async def batch_fragment(stream: str, offset: str, request: Request, person: Viewer) -> HTMLResponse:
        place = whole_number(offset, highest=OFFSET_MAX)
        view = await asyncio.to_thread(_batch, site, stream, place, request, exact=person.sees_places)
        return answer(request, "batch.html", person, "Streams", **view)

    return router


def streams(site: Site) -> list[Stream]:
    """Every stream that was ever declared, by name."""
    now_us = site.now_us()
    devices = site.devices()
    current = {each.phone.id: each.incarnation for each in devices if each.state != "revoked"}
    connected = {each.phone.id for each in devices if each.state == "connected"}
    sums: dict[int, tuple[int, int]] = {}
    for key, state in site.sources.log.edges():
        delivered, ledgered = sums.get(key.edge, (0, 0))
        sums[key.edge] = (delivered + state.high_water - state.ledgered, ledgered + state.ledgered)
    hours = hours_until(now_us)
    found = []
    with site.history.lock:
        for number, name in site.history.names.items():
            mine = {
                edge: (current.get(edge[0]) == edge[1], history)
                for edge, history in site.history.edges.items()
                if edge[2] == number
            }
            lags = [
                (now_us - history.frontier_us) / 1e6
                for (device, _, _), (is_current, history) in mine.items()
                if is_current and device in connected
            ]
            found.append(
                Stream(
                    number, name, sum(is_current for is_current, _ in mine.values()), site.history.rate(number, now_us),
                    *sums.get(number, (0, 0)), max(lags, default=None), cells_of(list(mine.values()), hours, now_us),
                )
            )  # fmt: skip
    return sorted(found, key=lambda stream: stream.name)


def _listing(site: Site) -> dict[str, Any]:
    found = streams(site)
    return {
        "now_us": site.now_us(), "streams": found, "strip": strip, "behind_bytes": site.history.behind_bytes,
        "ledger": site.history.ledger(limit=LEDGER_ROWS), "device_names": site.device_names(),
        "edge_names": site.edge_names(), "queries": queries.queries(site.sources),
    }  # fmt: skip


def _number(site: Site, stream: str, request: Request) -> int:
    with site.history.lock:
        found = next((number for number, name in site.history.names.items() if name == stream), None)
    if found is None:
        raise missing(request, "stream")
    return found


def _one(site: Site, name: str, request: Request) -> dict[str, Any]:
    site.history.follow(seconds_max=0.2)
    number = _number(site, name, request)
    now_us = site.now_us()
    names = site.device_names()
    current = {entry.device.hex(): entry.incarnation for entry in site.entries() if entry.revoked_us is None}
    with site.history.lock:
        rows, devices = by_device(site.history.edges, number, current, names, now_us, count=HEAT_ROWS)
        recent = list(site.history.recent.get(number, ()))[::-1][:BATCHES_SHOWN]
        schema = site.history.declared.get(number)
        rate = site.history.rate(number, now_us)
        seconds = site.history.seconds.get(number, {})
        counts = [seconds.get(second, 0) for second in range(now_us // 1_000_000 - 300, now_us // 1_000_000)]
    return {
        "now_us": now_us, "name": name, "devices": devices, "rate": rate, "schema": schema,
        "heat": heat_map(rows), "heat_hidden": devices - len(rows), "batches": recent,
        "counts": counts, "ledger": site.history.ledger(edge=number, limit=LEDGER_ROWS), "device_names": names,
        "edge_names": site.edge_names(),
    }  # fmt: skip


def _batch(site: Site, stream: str, offset: int, request: Request, *, exact: bool) -> dict[str, Any]:
    number = _number(site, stream, request)
    record = _record(site, offset)
    if record is None:
        raise missing(request, "batch")
    frame, _ = decode_one(record.frame)
    with site.history.lock:
        schemas = dict(site.history.schemas)
    if frame.type is not FrameType.DATA or frame.edge != number:
        raise missing(request, "batch")
    data = Data.of(frame)
    schema = schemas.get(data.schema_id)
    problem, names, rows = _decoded(data, schema, exact=exact)
    return {
        "name": stream, "data": data, "problem": problem, "names": names, "rows": rows[:ROWS_SHOWN],
        "hidden": max(len(rows) - ROWS_SHOWN, 0), "device": data.device.hex(), "received_us": record.received_us,
    }  # fmt: skip


def _record(site: Site, offset: int) -> Record | None:
    """The record that starts exactly there; an address may name any number."""
    try:
        for start, record in site.sources.log.read(offset, offset + 1):
            return record if start == offset else None
    except DamagedData:
        return None
    return None


def _decoded(data: Data, schema: Schema | None, *, exact: bool) -> tuple[str, list[str], list[list[object]]]:
    if schema is None:
        return "its schema was declared before what is kept of the log", [], []
    try:
        batch = columns.decode(
            data.codec, bytes(data.columns), schema, lo=data.lo, hi=data.hi, frontier_us=data.frontier_us
        )
    except PeerError as error:
        return error.message, [], []
    names = ["seq", "time", *(name for name in schema.names if name != "time")]
    values: list[list[object]] = [batch.seq.tolist(), batch.time_us.tolist()]
    for name in names[2:]:
        column = batch.columns[name].tolist()
        values.append(column if exact or not is_place(name) else [coarse(each) for each in column])
    return "", names, [list(row) for row in zip(*values, strict=True)]
