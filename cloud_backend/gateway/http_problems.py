"""Errors over HTTP: problem+json (RFC 9457) with a stable code, and never a word of the input.

FastAPI's own validation answer repeats what was sent, and fails with a 500 when that holds a NaN; a hostile body
would then look like our bug. Here an answer says which field is wrong and what was expected, from our side only.
"""

from __future__ import annotations

import http
import json

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"

# What a code of a PeerError means in HTTP; a code not listed here is the peer's malformed body.
STATUS = {
    "device-unknown": 401,
    "hello-spent": 401,
    "session-unknown": 401,
    "session-expired": 401,
    "session-required": 401,
    "envelope-seal": 401,
    "device-revoked": 403,
    "device-incarnation": 403,
    "sync-identity": 403,
    "sync-chain-signature": 403,
    "sync-chain-signer": 403,
    "enrolment-code": 403,
    "enrolment-signature": 403,
    "sync-overlap": 409,
    "sync-undeclared": 409,
    "exchange-too-large": 413,
    "exchange-media-type": 415,
    "rate-limited": 429,
    "log-disk-failed": 503,
    "kafka-unreachable": 503,
    "kafka-fenced": 503,
    "gateway-busy": 503,
    "gateway-fault": 503,
    "gateway-leaving": 503,
    "gateway-moving": 503,
    "log-no-descriptors": 503,
    "database-busy": 503,
    "database-lost": 503,
    "database-unreachable": 503,
    "log-disk-full": 507,
}


def status_of(code: str) -> int:
    return STATUS.get(code, 400)


class Problem(Exception):
    """An answer that is an error; raise it in a route."""

    def __init__(self, code: str, detail: str, *, status: int | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status_of(code) if status is None else status
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        title = http.HTTPStatus(self.status).phrase
        return json.dumps(
            {
                "type": f"urn:resurge:error:{self.code}",
                "title": title,
                "status": self.status,
                "detail": self.detail,
                "code": self.code,
            }
        ).encode()

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    def response(self) -> Response:
        return Response(self.body(), self.status, self.headers(), MEDIA_TYPE)


def declare(*statuses: int) -> dict[int | str, dict[str, object]]:
    """For a route's `responses=`: these statuses are answered with a problem."""
    schema = {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
        },
    }
    return {
        status: {"description": http.HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Answer everything that goes wrong in a route as a problem."""

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        # Only places that our own schema names: an unknown field's name would be input.
        ours = [item for item in error.errors() if item["type"] not in ("extra_forbidden", "json_invalid")]
        fields = {str(item["loc"][-1]) for item in ours}
        where = ", ".join(sorted(field for field in fields if field.isidentifier() and len(field) < 40)) or "the body"
        return Problem("request-invalid", f"not as documented in /openapi.json: {where}", status=422).response()

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "request-refused")
        detail = {404: "nothing is at this address", 405: "this address does not take this method"}.get(
            error.status_code, str(error.detail)
        )
        answer = Problem(code, detail, status=error.status_code).response()
        answer.headers.update(error.headers or {})
        return answer
