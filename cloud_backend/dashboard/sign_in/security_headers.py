"""The security headers of every answer but an exchange's: no inline script or style, no framing, no sniffing."""

from __future__ import annotations

from typing import Any

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with it a browser sends `Origin: null` with a form, and access.py could not tell who sent it.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ENCODED = {name.lower().encode(): value.encode() for name, value in SECURITY_HEADERS.items()}


class SecurityHeaders:
    """ASGI middleware: add each header that the route did not set itself."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in _ENCODED.items() if name not in present]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
