"""Asks whoever coordinates a fleet, a node or a gateway on this machine, to move a vertex, and waits until it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mobile_app.service.connection import ServiceClient
from resurge.cli.gateway_api import Api
from shared.errors import ResurgeError, UsageError
from shared.moves import REFUSED, THIS_GATEWAY, UNDER_WAY, MoveAnswer, MovePreview, MoveRequest

LOOK_S = 0.2
WITHIN_S = 90.0  # the coordinator itself gives up earlier


def ask_to_move(home: Path, request: MoveRequest) -> MoveAnswer:
    """UsageError where no node runs in this home. What the node refuses is raised as it says it."""
    try:
        client = ServiceClient.open(home)
    except ResurgeError:
        raise UsageError(
            f"no node runs in {str(home)!r}; ask in the home of the node that coordinates the fleet", code="fleet-home"
        ) from None
    try:
        said = asdict(request)
        del said["id"]
        first = move_answer(client.do("move", **said))

        def look() -> MoveAnswer | None:
            asked = [move_answer(each) for each in client.view()["fleet"]["asked"]]
            return next((each for each in reversed(asked) if each.request == first.request), None)

        return _ended(first, look)
    finally:
        client.close()


def ask_gateway_to_move(home: Path, request: MoveRequest) -> MoveAnswer:
    """The same of a gateway, by its home: of the fleet that it coordinates, or of a paired node that does."""
    api = Api(home)
    running = [
        fleet["coordinator"]["device"] or THIS_GATEWAY
        for fleet in api.get("/fleets")["fleets"]
        if any(each["name"] == request.query for each in fleet["queries"])
    ]
    if len(running) > 1:
        raise UsageError(
            f"{len(running)} fleets run {request.query!r}; ask in the coordinator's home", code="move-query"
        )
    said = asdict(request)
    del said["id"]
    id = api.post(f"/fleets/{running[0] if running else THIS_GATEWAY}/move", said)["id"]

    def look() -> MoveAnswer | None:
        asked = [each for fleet in api.get("/fleets")["fleets"] for each in fleet["asked"] if each["id"] == id]
        for each in asked:
            request = {name: each[name] for name in ("query", "vertex", "to", "leaving", "dry_run", "id")}
            return move_answer({**each, "request": request})
        return None

    answer = _ended(look() or MoveAnswer(request, UNDER_WAY), look)
    if answer.state == REFUSED:
        raise UsageError(answer.why, code=answer.code)
    return answer


def _ended(answer: MoveAnswer, look: Callable[[], MoveAnswer | None]) -> MoveAnswer:
    """What became of it, when it has."""
    end = time.monotonic() + WITHIN_S
    while answer.state == UNDER_WAY and time.monotonic() < end:
        time.sleep(LOOK_S)
        answer = look() or answer
    return answer


def move_answer(said: Mapping[str, Any]) -> MoveAnswer:
    """An answer that came as plain data."""
    preview = said["preview"]
    if preview is not None:
        texts = {name: tuple(preview[name]) for name in ("before", "after", "streams")}
        preview = MovePreview(**{**preview, **texts})
    return MoveAnswer(MoveRequest(**said["request"]), said["state"], said["why"], said["code"], preview)
