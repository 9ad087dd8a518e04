"""The program that phones and Spark run: its version, who has it, and what it means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cloud_backend.coordinator.groups import GroupPlan
from cloud_backend.coordinator.roster import RosterEntry
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
    groups, sizes = sources.roster.groups.plans(), sources.roster.groups.sizes()
    entries = [entry for entry in sources.entries() if entry.revoked_us is None]
    versions = Counter(_version(entry, plan.version) for entry in entries if entry.group not in groups)
    return {
        "name": plan.name, "version": plan.version, "spark": None if running is None else running.version,
        "devices": [
            {"version": version, "devices": count}
            for version, count in sorted(versions.items(), key=lambda each: each[0] or 0, reverse=True)
        ],
        "groups": [_group(name, size, groups.get(name), entries) for name, size in sizes.items()],
        "explanation": explain(plan),
    }  # fmt: skip


def _version(entry: RosterEntry, version: int) -> int | None:
    """The version of a program that a device runs; one from another group has it under a version of its own."""
    has_it = entry.plan_version == max(version, entry.version)
    return version if has_it else entry.plan_version


def _group(name: str, size: int, plan: GroupPlan | None, entries: Sequence[RosterEntry]) -> dict[str, Any]:
    """A group: its devices, its own program where it has one, and how many run that."""
    own = [each for each in entries if each.group == name]
    running = 0 if plan is None else sum(_version(each, plan.version) == plan.version for each in own)
    return {"name": name, "devices": size, "version": None if plan is None else plan.version, "running": running}


def newest_version(sources: Sources) -> int:
    """No program has a higher one, of all or of a group."""
    running = running_plan(sources)
    of_all = max(current(sources).version, 0 if running is None else running.version)
    return max(of_all, sources.roster.groups.newest())


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


def query_plans(sources: Sources) -> dict[str, Plan]:
    """What the queries' jobs run, by name."""
    jobs = sources.jobs
    return {} if jobs is None else {name: jobs.plan(name) for name in jobs.names()}


def parked_vertices(sources: Sources) -> dict[str, int]:
    """The vertices of the program's job of which a range waits, and how many epochs it is behind."""
    place = sources.stores().get(PROGRAM)
    found: dict[str, int] = {}
    for vertex in () if place is None else sources.facts.of(place).get("vertices", ()):
        behind = [each["epochs_behind"] for each in vertex["ranges"] if each["parked"]]
        if behind:
            found[vertex["name"]] = max(behind)
    return found
