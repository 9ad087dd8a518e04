"""Jobs: what the Spark vertices do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloud_backend.dashboard.sources import Sources
from shared.errors import UsageError


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
    from cloud_backend.spark.job_facts import job_facts

    return {"name": name} | job_facts(store_of(sources, name), epochs=epochs)


def plan_svg(sources: Sources, name: str) -> dict[str, Any]:
    """The job's plan drawn and explained."""
    from cloud_backend.spark.manifest.manifest import ManifestLog
    from cloud_backend.spark.manifest.plans import stored_plan
    from cloud_backend.spark.storage.store import Store
    from shared.plan.drawing import svg
    from shared.plan.explain import explain

    store = Store(store_of(sources, name))
    plan = stored_plan(store, ManifestLog(store).state.plan)
    return {"name": plan.name, "version": plan.version, "explanation": explain(plan), "svg": svg(plan)}


def store_of(sources: Sources, name: str) -> Path:
    store = sources.stores().get(name)
    if store is None:
        raise UsageError("no job has this name; resurge job names shows those that are", code="job-unknown")
    if not (store / "manifest").is_dir():
        raise UsageError("this job has not run yet; it does so within seconds of Spark's start", code="job-no-plan")
    return store
