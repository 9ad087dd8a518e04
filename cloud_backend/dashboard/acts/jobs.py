"""Acts on jobs: roll back, and undo that, which can be tried dry first; name a savepoint, and drop it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cloud_backend.dashboard.acts.act import POSITION_MAX, Act, Attempt, Fields, NameInPath
from cloud_backend.dashboard.views.jobs import store_of
from cloud_backend.spark.slots import Range

PLACE = r"^[A-Za-z0-9][A-Za-z0-9_.:+ -]{0,39}$"  # an epoch, a savepoint or a time


class Rollback(Fields):
    vertex: str = Field(min_length=1, max_length=200, description="whose work is undone")
    to: Annotated[int, Field(ge=0, le=POSITION_MAX)] | Annotated[str, Field(pattern=PLACE)] = Field(
        description="the last epoch to keep, a savepoint's name, or a time (ISO 8601)"
    )
    ranges: list[Annotated[str, Field(pattern=r"^\d{1,9}-\d{1,9}(@\d{1,15})?$")]] = Field(
        default_factory=list, max_length=64, description="only these hash ranges, as LO-HI"
    )
    dry_run: bool = Field(True, description="only say what it would take")


class Savepoint(Fields):
    savepoint: str = Field(min_length=1, max_length=40, description="its name: a letter, then letters, digits, - _ .")


class Undo(Fields):
    entry: int = Field(ge=0, le=POSITION_MAX, description="the rollback's manifest entry")
    dry_run: bool = Field(True, description="only say what it would take")


def roll_back(attempt: Attempt[Rollback]) -> dict[str, Any]:
    """What undoing a vertex's work after an epoch takes; and, unless it is a dry run, do it."""
    from cloud_backend.spark.rollback.roll_back import roll_back as give_up
    from cloud_backend.spark.rollback.savepoints import epoch_meant

    fields = attempt.fields
    store = store_of(attempt.sources, attempt.subject)
    ranges = [Range.parse(text) for text in fields.ranges] or None
    to = epoch_meant(store, str(fields.to))
    found = give_up(store, fields.vertex, to, ranges=ranges, dry_run=True)
    if not fields.dry_run:
        attempt.note(f"vertex {fields.vertex} to epoch {to}")
        found = give_up(store, fields.vertex, to, ranges=ranges, dry_run=False)
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


def create_savepoint(attempt: Attempt[Savepoint]) -> dict[str, Any]:
    """Name the newest epoch that every vertex has worked off; it is kept until the name is dropped."""
    from cloud_backend.spark.rollback.savepoints import check_savepoint
    from cloud_backend.spark.rollback.savepoints import create_savepoint as create

    store = store_of(attempt.sources, attempt.subject)
    check_savepoint(store, attempt.fields.savepoint)
    attempt.note(attempt.fields.savepoint)
    return create(store, attempt.fields.savepoint).to_json()


def drop_savepoint(attempt: Attempt[Savepoint]) -> dict[str, Any]:
    """Drop a savepoint: its epoch goes with the next collection, unless it is kept anyway."""
    from cloud_backend.spark.rollback.savepoints import drop_savepoint as drop
    from cloud_backend.spark.rollback.savepoints import epoch_meant

    store = store_of(attempt.sources, attempt.subject)
    epoch_meant(store, attempt.fields.savepoint)
    attempt.note(attempt.fields.savepoint)
    return drop(store, attempt.fields.savepoint).to_json()


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
CREATE_SAVEPOINT = Act(
    create_savepoint, Savepoint, "operator", "savepoint-created", "POST /v1/api/jobs/{name}/savepoints",
    "POST /jobs/{name}/savepoints", "Name the newest finished epoch and keep it until the name is dropped", NameInPath,
    "The savepoint was made.", "/jobs/{subject}",
)  # fmt: skip
DROP_SAVEPOINT = Act(
    drop_savepoint, Savepoint, "operator", "savepoint-dropped", "POST /v1/api/jobs/{name}/savepoints/drop",
    "POST /jobs/{name}/savepoints/drop", "Drop a savepoint; its epoch may be collected from then on", NameInPath,
    "The savepoint was dropped.", "/jobs/{subject}",
)  # fmt: skip
ACTS = (ROLLBACK, UNDO, CREATE_SAVEPOINT, DROP_SAVEPOINT)
