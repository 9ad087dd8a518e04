"""The audit page's lines: what people did, and what devices and the gateway did that somebody should know."""

from __future__ import annotations

from functools import partial
from typing import Any

from cloud_backend.dashboard.sources import Sources
from cloud_backend.gateway.keys import is_signed_by


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


def verify(sources: Sources, *, number: int = 0, hash_hex: str = "") -> dict[str, Any]:
    """Follow the chain over every line; DamagedData names the first that was changed. With a number and a hash also
    that this line is there and is the one that was anchored."""
    log = sources.access.audit_log
    lines = log.verify(partial(is_signed_by, sources.key) if sources.key else None)
    log.check_anchor(number, bytes.fromhex(hash_hex))
    return {"sound": True, "lines": lines}


def head(sources: Sources) -> dict[str, Any]:
    """The newest line by number and hash, signed: whoever keeps it elsewhere can tell later whether lines are gone."""
    found = sources.access.audit_log.head()
    return {
        "number": found.number, "hash": found.hash.hex(), "at_us": sources.clock_us(), "key": sources.key.hex(),
        "signature": "" if found.signature is None else found.signature.hex(),
    }  # fmt: skip
