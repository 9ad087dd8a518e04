"""The act on the program itself: deploy a changed one, or say what that would mean."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from cloud_backend.coordinator import deployment, group_deployment
from cloud_backend.coordinator.group_deployment import misfits
from cloud_backend.coordinator.queries import compile_plan
from cloud_backend.dashboard.acts.act import MAYBE_GROUP, Act, Attempt, Fields, NameInPath, NoFields
from cloud_backend.dashboard.views.program import (
    current,
    newest_version,
    parked_vertices,
    query_plans,
    running_plan,
)
from shared.errors import UsageError


class Deploy(Fields):
    group: str = Field("", pattern=MAYBE_GROUP, description="for the devices of this group alone; empty: for all")
    plan: dict[str, Any] = Field(description="a plan as `resurge plan FILE --json` prints it")
    dry_run: bool = Field(True, description="only say what it would mean")


def deploy(attempt: Attempt[Deploy]) -> dict[str, Any]:
    """What changes, what starts anew and what is kept; and, unless it is a dry run, do it."""
    sources, fields = attempt.sources, attempt.fields
    if fields.group:
        return _deploy_to_group(attempt)
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
        queries=query_plans(sources),
        newest=sources.roster.groups.newest(),
        remarks=misfits(sources.roster.groups.plans(), plan),
    )
    if not fields.dry_run and sources.plan is not None:
        attempt.note(f"version {made.plan.version}", subject=plan.name)
        deployment.deploy(sources.plan, made)
    return made.to_json() | {"dry_run": fields.dry_run}


def _deploy_to_group(attempt: Attempt[Deploy]) -> dict[str, Any]:
    sources, fields = attempt.sources, attempt.fields
    plan, groups = compile_plan(json.dumps(fields.plan).encode()), sources.roster.groups
    made = group_deployment.prepare(
        fields.group,
        plan,
        current(sources),
        groups.plans().get(fields.group),
        newest=newest_version(sources),
        devices=[each for each in sources.entries() if each.group == fields.group and each.revoked_us is None],
    )
    if not fields.dry_run:
        attempt.note(f"version {made.plan.version} to group {fields.group}", subject=plan.name)
        group_deployment.deploy(sources.roster, made)
    return made.to_json() | {"dry_run": fields.dry_run}


def withdraw(attempt: Attempt[NoFields]) -> None:
    """Have the group's devices run the program of all again."""
    sources, name = attempt.sources, attempt.subject
    if name not in sources.roster.groups.plans():
        raise UsageError("this group has no program of its own", code="group-program")
    attempt.note()
    sources.roster.groups.withdraw(name, newest=newest_version(sources))


DEPLOY = Act(
    deploy, Deploy, "operator", "program-deployed", "POST /v1/api/program", "POST /program",
    "Deploy a changed program to phones and Spark, or say what that would mean",
    success="Deployed. Phones take it with their next exchange, Spark between two epochs.", after="/program",
    is_question=True,
)  # fmt: skip
WITHDRAW = Act(
    withdraw, NoFields, "operator", "group-program-withdrawn", "POST /v1/api/groups/{name}/withdraw",
    "POST /groups/{name}/withdraw", "Have a group's devices run the program of all again", NameInPath,
    success="Its devices take the program of all with their next exchange.", after="/program",
)  # fmt: skip
ACTS = (DEPLOY, WITHDRAW)
