"""The program that phones and Spark run: its version, who has it, and what it means."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cloud_backend.dashboard.sources import PROGRAM, Sources
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.storage.store import Store
from shared.errors import ResurgeError, UsageError
from shared.plan.explain import explain
from shared.plan.graph import Plan


def program(sources: Sources) -> dict[str, Any]:
    """The deployed plan explained, the version Spark runs, and how many devices run which."""
    plan = current(sources)
    running = running_plan(sources)
    versions = Counter(entry.plan_version for entry in sources.entries() if entry.revoked_us is None)
    return {
        "name": plan.name, "version": plan.version, "spark": None if running is None else running.version,
        "devices": [
            {"version": version, "devices": count}
            for version, count in sorted(versions.items(), key=lambda each: each[0] or 0, reverse=True)
        ],
        "explanation": explain(plan),
    }  # fmt: skip


def current(sources: Sources) -> Plan:
    plan = sources.program()
    if plan is None:
        raise UsageError(
            "this gateway has no program to send to phones; start it with --plan FILE", code="program-none"
        )
    return plan


def running_plan(sources: Sources) -> Plan | None:
    """What the program's job runs; None where it has not run, or its store is elsewhere."""
    place = sources.stores().get(PROGRAM)
    if place is None or not (place / "manifest").is_dir():
        return None
    store = Store(place)
    try:
        number = ManifestLog(store).state.plan
        return stored_plan(store, number) if number else None
    except ResurgeError:  # its own page says what is wrong with it
        return None


def parked_vertices(sources: Sources) -> dict[str, int]:
    """The vertices of the program's job of which a range waits, and how many epochs it is behind."""
    place = sources.stores().get(PROGRAM)
    found: dict[str, int] = {}
    for vertex in () if place is None else sources.facts.of(place).get("vertices", ()):
        behind = [each["epochs_behind"] for each in vertex["ranges"] if each["parked"]]
        if behind:
            found[vertex["name"]] = max(behind)
    return found
