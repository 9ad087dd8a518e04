"""Jobs: what the Spark vertices do, and rolling them back: dry run, do, undo."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloud_backend.dashboard.sources import Sources
from shared.errors import UsageError

RANGE = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(@[0-9]{1,15})?")


def jobs(sources: Sources) -> list[dict[str, Any]]:
    """Every job with a store, the program's first."""
    states = {} if sources.jobs is None else sources.jobs.status()
    return [
        {"name": name, "kind": "query" if name in states else "program", "has_run": (store / "manifest").is_dir()}
        | {key: value for key, value in states.get(name, {}).items() if key in ("state", "wanted", "since", "error")}
        for name, store in sources.stores().items()
    ]


def job(sources: Sources, name: str, *, epochs: int = 20) -> dict[str, Any]:
    """Graph, ranges, epochs, snapshots, exceptions, divisions and rollbacks of one job."""
    from cloud_backend.spark.facts import job_facts

    return {"name": name} | job_facts(_store(sources, name), epochs=epochs)


def plan_svg(sources: Sources, name: str) -> dict[str, Any]:
    """The job's plan drawn and explained."""
    from cloud_backend.spark.manifest import ManifestLog
    from cloud_backend.spark.plans import stored_plan
    from cloud_backend.spark.store import Store
    from shared.plan.drawing import svg
    from shared.plan.explain import explain

    store = Store(_store(sources, name))
    plan = stored_plan(store, ManifestLog(store).state.plan)
    return {"name": plan.name, "version": plan.version, "explanation": explain(plan), "svg": svg(plan)}


def roll_back(
    sources: Sources, name: str, *, vertex: str, to: int, ranges: Sequence[str] = (), dry_run: bool
) -> dict[str, Any]:
    """What undoing a vertex's work after an epoch takes; and, unless it is a dry run, do it."""
    from cloud_backend.spark.slots import Range
    from cloud_backend.spark.undo import roll_back as undo

    if not all(RANGE.fullmatch(text) for text in ranges):
        raise UsageError("a range of slots is LO-HI, like 0-512", code="spark-range")
    chosen = [Range.parse(text) for text in ranges] or None
    return undo(_store(sources, name), vertex, to, ranges=chosen, dry_run=dry_run).to_json() | {"dry_run": dry_run}


def revert(sources: Sources, name: str, *, entry: int, dry_run: bool) -> dict[str, Any]:
    """Undo a rollback that was this manifest entry."""
    from cloud_backend.spark.revert import revert as undo

    return undo(_store(sources, name), entry, dry_run=dry_run).to_json() | {"dry_run": dry_run}


def _store(sources: Sources, name: str) -> Path:
    store = sources.stores().get(name)
    if store is None:
        raise UsageError("no job has this name; resurge job names shows those that are", code="job-unknown")
    if not (store / "manifest").is_dir():
        raise UsageError("this job has not run yet; it does so within seconds of Spark's start", code="job-no-plan")
    return store
