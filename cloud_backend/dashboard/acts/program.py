"""The act on the program itself: deploy a changed one, or say what that would mean."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from cloud_backend.coordinator import deployment
from cloud_backend.coordinator.queries import compile_plan
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields
from cloud_backend.dashboard.views.program import current, parked_vertices, running_plan


class Deploy(Fields):
    plan: dict[str, Any] = Field(description="a plan as `resurge plan FILE --json` prints it")
    dry_run: bool = Field(True, description="only say what it would mean")


def deploy(attempt: Attempt[Deploy]) -> dict[str, Any]:
    """What changes, what starts anew and what is kept; and, unless it is a dry run, do it."""
    sources, fields = attempt.sources, attempt.fields
    taken = {sink for query in sources.queries.all() for sink in query.sinks}
    plan = compile_plan(json.dumps(fields.plan).encode())
    made = deployment.prepare(
        plan,
        current(sources),
        running_plan(sources),
        taken,
        parked_vertices(sources),
        devices=sources.entries(),
        synced={} if sources.governed is None else sources.governed.synced(),
    )
    if not fields.dry_run and sources.plan is not None:
        attempt.note(f"version {made.plan.version}", subject=plan.name)
        deployment.deploy(sources.plan, made)
    return made.to_json() | {"dry_run": fields.dry_run}


DEPLOY = Act(
    deploy, Deploy, "operator", "program-deployed", "POST /v1/api/program", "POST /program",
    "Deploy a changed program to phones and Spark, or say what that would mean",
    success="Deployed. Phones take it with their next exchange, Spark between two epochs.", after="/program",
    is_question=True,
)  # fmt: skip
ACTS = (DEPLOY,)
