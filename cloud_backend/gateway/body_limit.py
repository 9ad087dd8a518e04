"""A bound on request bodies, checked before anything is parsed."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloud_backend.gateway.http_problems import Problem


class LimitBody:
    """ASGI middleware: a longer body is answered 413 as soon as that is known, read no further, and never parsed."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or len(declared) > 19 or int(declared) > self._bytes_max:
            await self._refuse(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._bytes_max:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = Problem("request-too-large", f"a request has at most {self._bytes_max} bytes", status=413)
        response = problem.response()
        response.headers["connection"] = "close"
        await response(scope, receive, send)


class _TooLarge(Exception):
    """Raised through the app by a body that turned out too long."""
