"""The audit page's lines: what people did, and what devices and the gateway did that somebody should know."""

from __future__ import annotations

from typing import Any

from cloud_backend.dashboard.sources import Sources


def lines(sources: Sources, *, limit: int = 100, before: int | None = None) -> dict[str, Any]:
    """Newest first. `before` a line's number goes on; the lines of devices come with the first answer only."""
    people: list[dict[str, Any]] = [
        {
            "number": line.number, "at_us": line.at_us, "person": line.person, "role": line.role, "action": line.action,
            "subject": line.subject, "detail": line.detail,
        }
        for line in sources.access.audit_log.lines(limit=limit, before=before)
    ]  # fmt: skip
    others: list[dict[str, Any]] = [
        {
            "number": None, "at_us": at_us, "person": "gateway", "role": "", "action": act, "subject": device,
            "detail": detail,
        }
        for at_us, act, device, detail in (sources.roster.audit_lines(limit) if before is None else [])
    ]  # fmt: skip
    found = sorted(people + others, key=lambda line: line["at_us"], reverse=True)
    return {"lines": found, "before": people[-1]["number"] if len(people) == limit else None}


def verify(sources: Sources) -> dict[str, Any]:
    """Follow the chain over every line; DamagedData names the first that was changed."""
    return {"sound": True, "lines": sources.access.audit_log.verify()}
