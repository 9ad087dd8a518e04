"""A browser without sockets: keeps cookies, sends CSRF tokens, asks from any address under any name."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import weakref

import httpx
from fastapi import FastAPI

from cloud_backend.dashboard.sign_in.access import COOKIE


class Browser:
    def __init__(self, app: FastAPI, *, peer: str = "127.0.0.1", host: str = "127.0.0.1:8750", scheme: str = "http"):
        transport = httpx.ASGITransport(app, client=(peer, 50000), raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=f"{scheme}://{host}", trust_env=False)
        self._loop = asyncio.new_event_loop()
        weakref.finalize(self, self._loop.close)
        self.cookies: dict[str, str] = {}
        self.bearer = ""

    def ask(self, method: str, address: str, **arguments) -> httpx.Response:
        headers = {name: value for name, value in (arguments.pop("headers", None) or {}).items() if value is not None}
        if self.bearer:
            headers.setdefault("authorization", f"Bearer {self.bearer}")

        self._client.cookies = httpx.Cookies(self.cookies)
        answer = self._loop.run_until_complete(self._client.request(method, address, headers=headers, **arguments))
        self.cookies |= dict(answer.cookies)
        for name in [name for name, value in answer.cookies.items() if not value]:
            del self.cookies[name]
        return answer

    def get(self, address: str, **arguments) -> httpx.Response:
        return self.ask("GET", address, **arguments)

    def post(self, address: str, *, csrf: str | None = None, **arguments) -> httpx.Response:
        """As the dashboard's own script does it: with the session's token in the header."""
        headers = {"x-csrf-token": self.csrf if csrf is None else csrf} | arguments.pop("headers", {})
        return self.ask("POST", address, headers=headers, **arguments)

    @property
    def csrf(self) -> str:
        secret = self.cookies.get(COOKIE, "")
        return hmac.new(secret.encode(), b"resurge-csrf", hashlib.sha256).hexdigest() if secret else ""
