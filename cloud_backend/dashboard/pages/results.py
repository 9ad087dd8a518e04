"""The results: what each sink says, as a chart, a map and a table, and to take away."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.accounts import Person
from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.pages.site import Site, Viewer, answer, missing, part_or_page, refusing, whole_number
from cloud_backend.dashboard.views import exports
from cloud_backend.dashboard.views import results as view
from shared.errors import UsageError

ROWS_SHOWN = 60
CHART_ROWS = 3000
LINES_MAX = 6
PLACES_MAX = 2000
TIME_MAX = 1 << 62


def results_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/results", response_class=HTMLResponse)
    async def results_page(request: Request, person: Viewer) -> HTMLResponse:
        sinks = await asyncio.to_thread(_listing, site)
        template = part_or_page(request, "results_table.html", "results.html")
        return answer(request, template, person, "Results", sinks=sinks, now_us=site.now_us())

    @router.get("/results/{sink}", response_class=HTMLResponse)
    async def sink_page(sink: str, request: Request, person: Viewer) -> HTMLResponse:
        before = whole_number(request.query_params.get("before"), highest=TIME_MAX) or None
        with refusing(request):
            found = await asyncio.to_thread(_one, site, sink, before, person)
        template = part_or_page(request, "sink_rows.html", "sink.html")
        return answer(request, template, person, "Results", **found)

    @router.get("/results/{sink}/series.json")
    async def series(sink: str, request: Request, person: Viewer) -> dict[str, Any]:
        with refusing(request):
            return await asyncio.to_thread(_series, site, sink, person)

    @router.get("/results/{sink}/map.json")
    async def places(sink: str, request: Request, person: Viewer) -> dict[str, Any]:
        with refusing(request):
            return await asyncio.to_thread(_places, site, sink, person)

    @router.get("/results/{sink}/export/{kind}")
    async def export(sink: str, kind: str, request: Request, person: Viewer) -> Response:
        if kind not in exports.MEDIA_TYPES:
            raise missing(request, "format")
        with refusing(request):
            data = await asyncio.to_thread(exports.export, site.sources, sink, kind, exact=person.sees_places)
        await audit(request, person, "exported", sink, kind)
        # A name from our own store, but made of letters only: a header is no place for anything else.
        name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in sink)[:60] or "results"
        headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        return Response(data, media_type=exports.MEDIA_TYPES[kind], headers=headers)

    return router


def _listing(site: Site) -> list[dict[str, Any]]:
    found = []
    for each in view.sinks(site.sources):
        newest = site.sources.results.latest(each["sink"], limit=1)
        found.append(each | {"last_us": newest[0].window_end_us if newest else None})
    return found


def _one(site: Site, sink: str, before: int | None, person: Person) -> dict[str, Any]:
    found = view.rows(site.sources, sink, exact=person.sees_places, before_us=before, limit=ROWS_SHOWN)
    rows = found["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["values"]))
    windowed = any(row["window_start_us"] != row["window_end_us"] for row in rows)
    numeric = [name for name in names if any(_is_number(row["values"].get(name)) for row in rows)]
    numeric.sort(key=lambda name: name.endswith(("lat", "lon")))  # places have the map; the chart opens on a value
    return {
        "sink": sink, "rows": rows, "names": names, "numeric": numeric, "windowed": windowed, "before": before,
        "older": found["before_us"], "has_places": _has_places(rows), "device_names": site.device_names(),
        "formats": list(exports.MEDIA_TYPES), "count": site.sources.results.sinks().get(sink, 0),
        "now_us": site.now_us(),
    }  # fmt: skip


def _series(site: Site, sink: str, person: Person) -> dict[str, Any]:
    """Up to six lines by key over the end of their windows, newest windows only."""
    rows = view.rows(site.sources, sink, exact=person.sees_places, limit=CHART_ROWS)["rows"]
    names = site.device_names()
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in reversed(rows):
        label = ", ".join(names.get(str(part), str(part)) for part in row["key"]) or sink
        lines.setdefault(label, []).append({"at": row["window_end_us"] / 1e6, **row["values"]})
    kept = sorted(lines, key=lambda label: (-len(lines[label]), label))[:LINES_MAX]
    return {
        "lines": [{"label": label, "points": lines[label]} for label in sorted(kept)],
        "hidden": len(lines) - len(kept),
    }


def _places(site: Site, sink: str, person: Person) -> dict[str, Any]:
    rows = view.rows(site.sources, sink, exact=person.sees_places, limit=PLACES_MAX)["rows"]
    latitude, longitude = exports.place_of(rows)
    names = site.device_names()
    paths: dict[str, list[list[float]]] = {}
    for row in reversed(rows):
        place = [row["values"].get(longitude), row["values"].get(latitude)]
        if all(_is_number(each) for each in place) and abs(place[1]) <= 90 and abs(place[0]) <= 180:
            label = ", ".join(names.get(str(part), str(part)) for part in row["key"]) or sink
            paths.setdefault(label, []).append(place)
    features: list[dict[str, Any]] = []
    for label, path in paths.items():
        about = {"name": label, "id": "", "stale": False}
        features.append(
            {"type": "Feature", "properties": about, "geometry": {"type": "Point", "coordinates": path[-1]}}
        )
        if len(path) > 1:
            line = {"type": "LineString", "coordinates": path}
            features.append({"type": "Feature", "properties": about, "geometry": line})
    return {"type": "FeatureCollection", "features": features}


def _has_places(rows: list[dict[str, Any]]) -> bool:
    try:
        exports.place_of(rows)
    except UsageError:
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
