"""Acts on the fleet that this gateway coordinates: give its nodes a query or a region, or take one away."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from cloud_backend.coordinator.queries import compile_plan
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NameInPath, NoFields
from cloud_backend.dashboard.acts.queries import NAME_PATTERN, NAME_WORDS
from cloud_backend.dashboard.sources import Sources
from cloud_backend.gateway.fleet import GatewayFleet
from shared.errors import UsageError
from shared.plan.cuts import device_streams, synced_outputs

PLAN_CHARACTERS_MAX = 60_000
NAME_CHARACTERS = 200


class SubmitToFleet(Fields):
    name: str = Field(pattern=NAME_PATTERN, description=f"the query's; {NAME_WORDS}")
    plan: str = Field(
        min_length=2, max_length=PLAN_CHARACTERS_MAX, description="a plan as `resurge plan FILE --json` prints it"
    )
    sources: list[str] = Field(max_length=64, description="nodes whose sensors feed it")
    sink: str = Field("", max_length=NAME_CHARACTERS, description="the node where its results end")
    place: str = Field("", max_length=40, description="push-down (default), bottom-up, top-down or spread")
    on: list[str] = Field(
        default_factory=list, max_length=256, description="nodes that may run it (none: all), or VERTEX=NODE"
    )
    strategy: str = Field("", max_length=40, description="of recovery; else what the program promises picks it")
    every: int | None = Field(None, ge=1, lt=1 << 32, description="elements between two snapshots")
    keepers: int = Field(1, ge=0, le=64, description="other nodes that keep each vertex's snapshots")
    absent: str = Field("", max_length=40, description="that a node may be silent before anything moves, like 5m")
    forward: str = Field("", max_length=40, description="of rows that cannot go directly: dynamic (default) or paths:K")
    dry_run: bool = Field(False, description="only say where it would run, and why")


class EditOnFleet(Fields):
    plan: str = Field(
        min_length=2, max_length=PLAN_CHARACTERS_MAX, description="a plan as `resurge plan FILE --json` prints it"
    )


class AddRegion(Fields):
    name: str = Field(pattern=NAME_PATTERN, description=f"the region's, and its query's; {NAME_WORDS}")
    plan: str = Field(
        min_length=2, max_length=PLAN_CHARACTERS_MAX, description="a plan as `resurge plan FILE --json` prints it"
    )
    sources: list[str] = Field(default_factory=list, max_length=64, description="nodes whose sensors feed it")
    sink: str = Field(max_length=NAME_CHARACTERS, description="the node where its results end")
    center: str = Field("", max_length=60, description='the middle of a circle: "latitude,longitude" in degrees')
    radius_m: float = Field(0.0, ge=0, le=100_000, description="of the circle, in metres")
    corners: list[str] = Field(
        default_factory=list,
        max_length=256,
        description='in place of a circle: "latitude,longitude" of each corner',
    )
    dwell_s: float = Field(30.0, ge=0, le=86_400, description="that a phone stays before it is a member")
    threshold: int = Field(1, ge=1, le=1_000, description="members that it needs to run")
    strategy: str = Field("", max_length=40, description="of recovery; else all go back together")
    every: int | None = Field(None, ge=1, lt=1 << 32, description="elements between two snapshots")
    after: list[str] = Field(
        default_factory=list, max_length=64, description="GATHER=REGION/SINK: what another region's sink feeds"
    )


def add_region(attempt: Attempt[AddRegion]) -> dict[str, Any]:
    """A place, and a program that runs there while enough nodes are in it."""
    sources, asked = attempt.sources, attempt.fields
    if asked.name in sources.stores() or sources.queries.find(asked.name) is not None:
        raise UsageError("Spark has a job of this name already; choose another name", code="query-name-taken")
    _check_streams(sources, asked.name, asked.plan)
    return _fleet(sources).ask(
        "add_region", asked.model_dump(), checked=lambda: attempt.note(subject=asked.name)
    )  # fmt: skip


def drop_region(attempt: Attempt[NoFields]) -> None:
    """Its task ends on all its members, which delete what they kept for it."""
    _fleet(attempt.sources).ask("drop_region", {"name": attempt.subject}, checked=attempt.note)


def submit_to_fleet(attempt: Attempt[SubmitToFleet]) -> dict[str, Any]:
    """Place a query on the nodes that offered to host, and run it; or only say where it would run."""
    sources, asked = attempt.sources, attempt.fields
    fleet = _fleet(sources)
    if not asked.dry_run and (asked.name in sources.stores() or sources.queries.find(asked.name) is not None):
        raise UsageError("Spark has a job of this name already; choose another name", code="query-name-taken")
    _check_streams(sources, asked.name, asked.plan)
    return fleet.ask("submit", asked.model_dump(), checked=lambda: attempt.note(subject=asked.name))


def edit_on_fleet(attempt: Attempt[EditOnFleet]) -> dict[str, Any]:
    """Other filters and projections behind its gathers; what has met the old ones finishes with them."""
    _check_streams(attempt.sources, attempt.subject, attempt.fields.plan)
    asked = {"name": attempt.subject, "plan": attempt.fields.plan}
    return _fleet(attempt.sources).ask("edit", asked, checked=attempt.note)


def _check_streams(sources: Sources, name: str, plan: str) -> None:
    """What a fleet syncs is one more stream of the log. Under the name of one that devices have, Spark would take the
    two for one."""
    program = sources.program()
    streams = frozenset() if program is None else device_streams(program)
    for output in synced_outputs(compile_plan(plan.encode())):
        if output.name in streams:
            raise UsageError(
                f"query {name!r} syncs {output.name!r} to the cloud, and so do devices by the program that runs; give "
                "one of them another name",
                code="deployment-stream",
            )


def drop_from_fleet(attempt: Attempt[NoFields]) -> None:
    """Run it no more; what ended in its sink stays on that node."""
    _fleet(attempt.sources).ask("drop", {"name": attempt.subject}, checked=attempt.note)


def _fleet(sources: Sources) -> GatewayFleet:
    if sources.governed is None:
        raise UsageError("this gateway coordinates no fleet", code="fleet-none")
    return sources.governed


SUBMIT = Act(
    submit_to_fleet, SubmitToFleet, "operator", "fleet-query-submitted", "POST /v1/api/fleets/queries",
    "POST /fleets/queries", "Run a query on the nodes of this gateway's fleet, or say where it would run",
    success="The query was submitted; nodes begin within seconds.", after="/fleets", is_question=True,
)  # fmt: skip
DROP = Act(
    drop_from_fleet, NoFields, "operator", "fleet-query-dropped", "DELETE /v1/api/fleets/queries/{name}",
    "POST /fleets/queries/{name}/drop", "Run it no more", NameInPath, "The query ends on all nodes.", "/fleets",
)  # fmt: skip
EDIT = Act(
    edit_on_fleet, EditOnFleet, "operator", "fleet-query-edited", "POST /v1/api/fleets/queries/{name}/edit",
    "POST /fleets/queries/{name}/edit", "Give it other filters and projections while it runs", NameInPath,
    "The query goes on as edited.", "/fleets", is_question=True,
)  # fmt: skip
ADD_REGION = Act(
    add_region, AddRegion, "operator", "fleet-region-added", "POST /v1/api/fleets/regions", "POST /fleets/regions",
    "Let the nodes of this gateway's fleet form a region",
    success="The region is there; it begins when enough nodes are in it.", after="/fleets",
)  # fmt: skip
DROP_REGION = Act(
    drop_region, NoFields, "operator", "fleet-region-dropped", "DELETE /v1/api/fleets/regions/{name}",
    "POST /fleets/regions/{name}/drop", "Form it no more", NameInPath, "The region ends on all nodes.", "/fleets",
)  # fmt: skip
ACTS = (SUBMIT, EDIT, DROP, ADD_REGION, DROP_REGION)
