"""Acts on fleets: move a vertex to another node while it runs."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from cloud_backend.dashboard.acts.act import Act, Attempt, DeviceHex, Fields
from cloud_backend.dashboard.views.fleets import coordinated
from shared.errors import UsageError
from shared.moves import THIS_GATEWAY, MoveRequest
from shared.wire.fleet_status import NAME_CHARACTERS


class Move(Fields):
    query: str = Field(min_length=1, max_length=NAME_CHARACTERS, description="the query's name")
    vertex: str = Field(min_length=1, max_length=NAME_CHARACTERS, description="which of its vertices")
    to: str = Field(min_length=1, max_length=NAME_CHARACTERS, description="the node that it shall run on")
    leaving: str = Field("", max_length=NAME_CHARACTERS, description="where copies run: the node that it leaves")
    dry_run: bool = Field(False, description="only say what it would do")


def move_vertex(attempt: Attempt[Move]) -> dict[str, Any]:
    """Ask a fleet's coordinator, which hears of it with its next exchange. What it answers is in `asked` of the fleet,
    under this id."""
    sources, fields = attempt.sources, attempt.fields
    own = sources.governed if attempt.subject == THIS_GATEWAY else None
    device = None if own is not None else coordinated(sources, attempt.subject)
    request = MoveRequest(fields.query, fields.vertex, fields.to, fields.leaving, fields.dry_run)
    if not fields.dry_run:
        attempt.note(f"{fields.vertex} of {fields.query} to {fields.to}")
    if own is not None:
        return {"id": own.move(request).id, "coordinator": attempt.subject}
    asked = None if device is None else sources.requests.ask(device, request, sources.clock_us())
    if asked is None:
        raise UsageError("the fleet's coordinator has not answered what it was asked before; wait", code="move-busy")
    return {"id": asked.id, "coordinator": attempt.subject}


MOVE = Act(
    move_vertex, Move, "operator", "fleet-vertex-move-asked", "POST /v1/api/fleets/{device}/move",
    "POST /fleets/{device}/move", "Move a vertex to another node while it runs, or say what that would do", DeviceHex,
)  # fmt: skip
ACTS = (MOVE,)
