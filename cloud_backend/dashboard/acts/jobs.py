"""Acts on jobs: roll back, and undo that; each can be tried dry first."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cloud_backend.dashboard.acts.act import POSITION_MAX, Act, Attempt, Fields, NameInPath
from cloud_backend.dashboard.views.jobs import store_of
from cloud_backend.spark.slots import Range


class Rollback(Fields):
    vertex: str = Field(min_length=1, max_length=200, description="whose work is undone")
    to: int = Field(ge=0, le=POSITION_MAX, description="the last epoch to keep")
    ranges: list[Annotated[str, Field(pattern=r"^\d{1,9}-\d{1,9}(@\d{1,15})?$")]] = Field(
        default_factory=list, max_length=64, description="only these hash ranges, as LO-HI"
    )
    dry_run: bool = Field(True, description="only say what it would take")


class Undo(Fields):
    entry: int = Field(ge=0, le=POSITION_MAX, description="the rollback's manifest entry")
    dry_run: bool = Field(True, description="only say what it would take")


def roll_back(attempt: Attempt[Rollback]) -> dict[str, Any]:
    """What undoing a vertex's work after an epoch takes; and, unless it is a dry run, do it."""
    from cloud_backend.spark.rollback.roll_back import roll_back as give_up

    fields = attempt.fields
    store = store_of(attempt.sources, attempt.subject)
    ranges = [Range.parse(text) for text in fields.ranges] or None
    found = give_up(store, fields.vertex, fields.to, ranges=ranges, dry_run=True)
    if not fields.dry_run:
        attempt.note(f"vertex {fields.vertex} to epoch {fields.to}")
        found = give_up(store, fields.vertex, fields.to, ranges=ranges, dry_run=False)
    return found.to_json() | {"dry_run": fields.dry_run}


def undo_rollback(attempt: Attempt[Undo]) -> dict[str, Any]:
    """Undo a rollback that was this manifest entry."""
    from cloud_backend.spark.rollback.undo import undo

    fields = attempt.fields
    store = store_of(attempt.sources, attempt.subject)
    found = undo(store, fields.entry, dry_run=True)
    if not fields.dry_run:
        attempt.note(f"entry {fields.entry}")
        found = undo(store, fields.entry, dry_run=False)
    return found.to_json() | {"dry_run": fields.dry_run}


ROLLBACK = Act(
    roll_back, Rollback, "operator", "job-rolled-back", "POST /v1/api/jobs/{name}/rollback",
    "POST /jobs/{name}/rollback", "Undo a vertex's work after an epoch, or say what that takes", NameInPath,
    "Rolled back. The vertices of the rollback set run again from there; everything else goes on.", "/jobs/{subject}",
)  # fmt: skip
UNDO = Act(
    undo_rollback, Undo, "operator", "job-rollback-undone", "POST /v1/api/jobs/{name}/undo",
    "POST /jobs/{name}/undo/{entry}", "Take a rollback back", NameInPath, "The rollback was undone.",
    "/jobs/{subject}",
)  # fmt: skip
ACTS = (ROLLBACK, UNDO)
