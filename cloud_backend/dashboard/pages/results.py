"""The results: what each sink says, as a chart, a map and a table, and to take away."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.acts import results as acts
from cloud_backend.dashboard.acts.act import POSITION_MAX, Act
from cloud_backend.dashboard.acts.followers import ADD_FOLLOWER
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import Viewer, answer, refusing, whole_number
from cloud_backend.dashboard.privacy.places import is_place
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import exports, followers
from cloud_backend.dashboard.views import results as view
from cloud_backend.dashboard.views.result_map import is_number, result_map
from cloud_backend.dashboard.views.time_range import TimeRange
from shared.errors import UsageError

ROWS_SHOWN = 60
CHART_ROWS = 3000
LINES_MAX = 6
COLUMN_MAX = 200
COUNT_MAX = 100_000
TIME_MAX = 1 << 62
HOUR_US = 3_600_000_000
RECENT = (("Last hour", HOUR_US), ("Last day", 24 * HOUR_US), ("Last week", 7 * 24 * HOUR_US))


def results_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/results", response_class=HTMLResponse)
    async def results_page(request: Request, person: Viewer) -> HTMLResponse:
        sinks = await in_thread(view.sinks, sources)
        return answer(
            request,
            "results.html",
            person,
            "Results",
            part="results_table.html",
            sinks=sinks,
            followers=await in_thread(followers.followers, sources, exact=person.may("admin")),
            now_us=sources.clock_us(),
        )

    @router.get("/followers", response_class=HTMLResponse)
    async def followers_fragment(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(followers.followers, sources, exact=person.may("admin"))
        return answer(request, "followers.html", person, "Results", followers=found, now_us=sources.clock_us())

    @router.get("/results/{sink}", response_class=HTMLResponse)
    async def sink_page(sink: str, request: Request, person: Viewer) -> HTMLResponse:
        before = whole_number(request.query_params.get("before"), highest=TIME_MAX) or None
        with refusing(request):
            found = await in_thread(_one, sources, sink, _chosen_time(request), before, person)
        return answer(
            request, "sink.html", person, "Results", part="sink_rows.html", **found,
            **_colours(found["numeric"], _colour(request)),
        )  # fmt: skip

    @router.get("/results/{sink}/series.json")
    async def series(sink: str, request: Request, person: Viewer) -> dict[str, Any]:
        with refusing(request):
            return await in_thread(_series, sources, sink, _chosen_time(request), person)

    @router.get("/results/{sink}/map.json")
    async def places(sink: str, request: Request, person: Viewer) -> dict[str, Any]:
        with refusing(request):
            return await in_thread(
                result_map,
                sources,
                sink,
                exact=person.sees_places,
                within=_chosen_time(request),
                colour=_colour(request),
            )

    return router


def result_manners() -> dict[Act[Any], ActPage]:
    return {acts.EXPORT: ActPage(done=_exported), ADD_FOLLOWER: ActPage(done=_follower_added)}


def _follower_added(visit: Visit, follower: dict[str, Any]) -> Response:
    """A page, not a redirect: the secret is shown once and belongs into no address."""
    return answer(visit.request, "follower.html", visit.person, "Results", follower=follower)


def _exported(_: Visit, file: exports.File) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
    return Response(file.content, media_type=file.media_type, headers=headers)


def _chosen_time(request: Request) -> TimeRange:
    return TimeRange.of_text(request.query_params.get("from"), request.query_params.get("to"))


def _colour(request: Request) -> str:
    """The column that points of the map are coloured by; nothing where none was chosen."""
    return request.query_params.get("colour", "")[:COLUMN_MAX]


def _colours(numeric: list[str], colour: str) -> dict[str, Any]:
    """What may be chosen: what has numbers in the rows that are shown, and what was chosen."""
    columns = [name for name in numeric if not is_place(name)]
    return {"colour": colour, "columns": columns if not colour or colour in columns else [*columns, colour]}


def _one(sources: Sources, sink: str, within: TimeRange, before: int | None, person: Person) -> dict[str, Any]:
    found = view.rows(sources, sink, exact=person.sees_places, within=within, before_us=before, limit=ROWS_SHOWN)
    rows = found["rows"]
    width = max((len(row["key"]) for row in rows), default=0)
    keys = found["key_names"] if len(found["key_names"]) == width else ["Key", *[""] * (width - 1)][:width]
    names = list(dict.fromkeys(name for row in rows for name in row["values"]))
    windowed = any(row["window_start_us"] != row["window_end_us"] for row in rows)
    numeric = [name for name in names if any(is_number(row["values"].get(name)) for row in rows)]
    numeric.sort(key=lambda name: name.endswith(("lat", "lon")))  # places have the map; the chart opens on a value
    return {
        "sink": sink, "rows": rows, "keys": keys, "names": names, "numeric": numeric, "windowed": windowed,
        "before": before, "within": within, "recent": _recent(view.last_us(sources, sink)),
        "older": found["before_us"], "has_places": _has_places(rows), "device_names": found["device_names"],
        "formats": list(exports.MEDIA_TYPES), "count": _count(sources, sink, within), "count_max": COUNT_MAX,
        "now_us": sources.clock_us(),
    }  # fmt: skip


def _recent(last_us: int | None) -> list[tuple[str, str]]:
    """Times that people ask for most, up to the newest window and on; none where there is no row, or one of no time."""
    if last_us is None or not 0 <= last_us <= POSITION_MAX:
        return []
    return [(words, TimeRange(from_us=max(last_us - span_us, 0)).address) for words, span_us in RECENT]


def _count(sources: Sources, sink: str, within: TimeRange) -> int:
    return sources.results.count(sink, from_us=within.from_us, to_us=within.to_us, most=COUNT_MAX)


def _series(sources: Sources, sink: str, within: TimeRange, person: Person) -> dict[str, Any]:
    """Up to six lines by key over the end of their windows, the newest windows of that time."""
    found = view.rows(sources, sink, exact=person.sees_places, within=within, limit=CHART_ROWS)
    rows = found["rows"]
    names = sources.device_names()
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in reversed(rows):
        label = ", ".join(names.get(str(part), str(part)) for part in row["key"]) or sink
        lines.setdefault(label, []).append({"at": row["window_end_us"] / 1e6, **row["values"]})
    kept = sorted(lines, key=lambda label: (-len(lines[label]), label))[:LINES_MAX]
    return {
        "lines": [{"label": label, "points": lines[label]} for label in sorted(kept)],
        "hidden": len(lines) - len(kept),
        "newest": len(rows) if found["before_us"] is not None else None,
    }


def _has_places(rows: list[dict[str, Any]]) -> bool:
    try:
        exports.place_of(rows)
    except UsageError:
        return False
    return True
