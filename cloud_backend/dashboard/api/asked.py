"""What every part of the API shares: parameters with their bounds, roles, and how our errors become answers.

A body has exactly the documented fields with exactly their kinds; a parameter has a pattern and bounds. So what arrives
in a view is well formed, and what is refused is refused before anything is read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from cloud_backend.dashboard.access import Person, require
from cloud_backend.gateway.problems import Problem, declare
from shared.errors import ResurgeError

POSITION_MAX = (1 << 53) - 1  # beyond it a browser's numbers have no such integer
NAME_PATTERN = r"^[^\x00-\x1f\x7f]{1,200}$"
REFUSALS = declare(400, 401, 403, 404, 409, 413, 422)

Viewer = Annotated[Person, Depends(require("viewer"))]
Operator = Annotated[Person, Depends(require("operator"))]
Admin = Annotated[Person, Depends(require("admin"))]

DeviceHex = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="the device's id in hexadecimal")]
EdgeHex = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="the edge's number in hexadecimal")]
NameInPath = Annotated[str, Path(pattern=NAME_PATTERN)]
NumberInPath = Annotated[int, Path(ge=0, le=POSITION_MAX)]
Limit = Annotated[int, Query(ge=1, le=1000, description="at most this many")]
Before = Annotated[int | None, Query(ge=0, le=POSITION_MAX, description="where the last answer ended")]
MaybeDevice = Annotated[str, Query(pattern=r"^([0-9a-f]{32})?$", description="only of this device")]

STATUS = {
    "account-last-admin": 409,
    "account-not-found": 404,
    "device-not-found": 404,
    "job-busy": 409,
    "job-dropping": 409,
    "job-no-plan": 409,
    "job-other-shape": 409,
    "job-unknown": 404,
    "query-name-taken": 409,
    "query-no-runner": 409,
    "query-not-found": 404,
    "results-no-places": 409,
    "results-no-sink": 404,
    "rollback-past-stable": 409,
    "stream-not-found": 404,
    "webhook-not-found": 404,
    "webhook-too-many": 409,
}
_HARMLESS = re.compile(r"[^\w\s.,;:!?()\[\]{}'@*/+=|-]")
Answer = TypeVar("Answer")


class Body(BaseModel):
    """A request's body: no field too many, no kind bent into another."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Done(BaseModel):
    done: bool = True


async def aside(work: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
    """Do what reads disks in a thread; exchanges must not wait for it."""
    return await asyncio.to_thread(work, *arguments, **named)


def install_errors(app: FastAPI) -> None:
    """Answer our own errors as problems: what is wrong with the request is the request's fault, never a 500."""

    @app.exception_handler(ResurgeError)
    async def refused(_: Request, error: ResurgeError) -> Response:
        return Problem(error.code, harmless(error.message), status=STATUS.get(error.code, 422)).response()


def harmless(text: str) -> str:
    """An error may name a column somebody wrote; it must not carry markup or control characters back."""
    return _HARMLESS.sub("_", text)[:1000]
