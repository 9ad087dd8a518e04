"""The log lines of gateway and Spark: to read, to look through, and to take away as text.

Operators and admins only: a line may name a device, and what somebody did.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.pages.answers import Operator, answer, chosen, whole_number
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import logs as view

LINES_SHOWN = 100
TEXT_MAX = 100
TIME_MAX = 1 << 62
PARTS = {"": "All parts", "gateway": "Gateway", "spark": "Spark"}
LEVELS = {"info": "All lines", "warning": "Warnings and errors", "error": "Errors"}
FILE = "resurge-log-lines.txt"


def logs_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/logs", response_class=HTMLResponse)
    async def logs_page(request: Request, person: Operator) -> HTMLResponse:
        asked = _asked(request)
        before = whole_number(request.query_params.get("before"), highest=TIME_MAX) or None
        found = await in_thread(view.lines, sources, **asked, before_us=before, limit=LINES_SHOWN)
        return answer(
            request, "logs.html", person, "Audit", part="logs_table.html", lines=found["lines"], kept=found["parts"],
            older=found["before_us"], before=before, asked=asked, part_names=PARTS, level_names=LEVELS,
            ids=_ids(found["lines"]), text_max=TEXT_MAX,
        )  # fmt: skip

    @router.get("/logs/lines.txt")
    async def logs_text(request: Request, person: Operator) -> Response:  # noqa: ARG001
        content = await in_thread(view.as_text, sources, **_asked(request))
        headers = {"Content-Disposition": f'attachment; filename="{FILE}"'}
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)

    return router


def _asked(request: Request) -> dict[str, str]:
    given = request.query_params
    return {
        "part": chosen(given.get("part"), PARTS, ""), "level": chosen(given.get("level"), LEVELS, "info"),
        "text": given.get("text", "")[:TEXT_MAX].strip(),
    }  # fmt: skip


def _ids(lines: list[dict[str, Any]]) -> list[str]:
    """What each line is called in the page, the same at every look: a traceback that was opened stays open."""
    counts: dict[str, int] = {}
    found = []
    for line in reversed(lines):
        name = f"line-{line['part']}-{line['at_us']}"
        counts[name] = counts.get(name, 0) + 1
        found.append(f"{name}-{counts[name]}")
    return found[::-1]
