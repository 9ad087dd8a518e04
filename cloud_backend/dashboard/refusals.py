"""How a refusal becomes an answer, for pages and API alike: one status and one text per error code."""

from __future__ import annotations

import re

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError

from cloud_backend.gateway.http_problems import Problem
from shared.errors import ResurgeError

STATUS = {
    "account-last-admin": 409,
    "account-not-found": 404,
    "batch-not-found": 404,
    "contract-not-found": 404,
    "device-confirm": 409,
    "device-not-found": 404,
    "job-busy": 409,
    "job-dropping": 409,
    "job-no-plan": 409,
    "job-other-shape": 409,
    "job-unknown": 404,
    "program-none": 409,
    "program-same": 409,
    "program-sink": 409,
    "query-name-taken": 409,
    "query-no-runner": 409,
    "query-room": 409,
    "query-not-found": 404,
    "results-no-column": 404,
    "results-no-places": 409,
    "results-no-sink": 404,
    "rollback-past-stable": 409,
    "stream-not-found": 404,
    "webhook-not-found": 404,
    "webhook-too-many": 409,
}  # what is not here is wrong with what was sent: 422
_HARMLESS = re.compile(r"[^\w\s.,;:!?()\[\]{}'@*/+=|-]")


def problem_of(error: ResurgeError) -> Problem:
    return Problem(error.code, harmless(error.message), status=STATUS.get(error.code, 422))


def invalid(error: ValidationError, fields: type[BaseModel]) -> Problem:
    """What a form got wrong, in the words of the field's description; never what was written into it."""
    wrong = sorted({str(item["loc"][0]) for item in error.errors() if item["loc"]} & set(fields.model_fields))
    words = [f"{name.replace('_', ' ')}: {fields.model_fields[name].description or 'not given'}" for name in wrong]
    return Problem("request-invalid", "; ".join(words) or "the form has fields too many", status=422)


def install_refusals(app: FastAPI) -> None:
    """Answer our own errors as problems: what is wrong with the request is the request's fault, never a 500."""

    @app.exception_handler(ResurgeError)
    async def refused(_: Request, error: ResurgeError) -> Response:
        return problem_of(error).response()


def harmless(text: str) -> str:
    """An error may name a column somebody wrote; it must not carry markup or control characters back."""
    return _HARMLESS.sub("_", text)[:1000]
