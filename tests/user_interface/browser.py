"""Debian's Chromium under Playwright, and a dashboard served on loopback for it to open."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cloud_backend.dashboard.fleet.overview import FleetOverview
from cloud_backend.dashboard.pages.overview import dashboard_router
from cloud_backend.dashboard.pages.sign_in import signin_router
from cloud_backend.dashboard.sign_in.access import Access, install
from tests.patience import PATIENCE_S

CHROMIUM = Path("/usr/bin/chromium")
TOKEN = "token-of-the-tests"
# All four numbers at one moment; they change while one looks.
ACCOUNT = """() => ["produced", "delivered", "spooled", "ledgered"].map(
  name => Number(document.getElementById(`account-${name}`).textContent.replace(/\\D/g, "")))"""
PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)
ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",  # maps are drawn with WebGL, here without a graphics card
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS, timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


class Console:
    """What a page's console said of errors and warnings."""

    def __init__(self, page: Page) -> None:
        self.lines: list[str] = []
        page.on("console", lambda message: self._add(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._add(str(error)))

    def _add(self, line: str) -> None:
        # Software rendering is slow and says so; everything else is ours.
        if "GPU stall" not in line and "swiftshader" not in line.lower():
            self.lines.append(line)


def new_page(browser: Browser, **options) -> Page:
    """A page that waits as long for everything as a busy machine needs."""
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE_MS)
    return page


def no_wider_than(page: Page, width: int) -> None:
    """Nothing needs scrolling sideways, once everything has its place."""
    wait_in(page, "width => document.documentElement.scrollWidth <= width", width)


def wait_in(page: Page, script: str, argument: object = None) -> None:
    """Until this holds in the page."""
    page.wait_for_function(script, arg=argument)


@contextlib.contextmanager
def served(app: FastAPI, *, port: int = 0, signed_in: bool = True) -> Iterator[str]:
    """The app at the address that is handed out; a browser is let in by the operator's token, unless told otherwise."""
    listener = socket.create_server(("127.0.0.1", port))
    shown = SignedIn(app) if signed_in else app
    server = uvicorn.Server(uvicorn.Config(shown, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()


@contextlib.contextmanager
def overview_served(feed: FleetOverview, *, port: int = 0) -> Iterator[str]:
    """The dashboard's overview of this feed at the address that is handed out."""
    app = FastAPI()
    with tempfile.TemporaryDirectory() as home, contextlib.closing(Access(Path(home), token=TOKEN)) as access:
        install(app, access)
        app.include_router(signin_router())
        app.include_router(dashboard_router(feed))
        with served(app, port=port) as address:
            yield f"{address}/"


class SignedIn:
    """Sends the operator's token along with whatever the browser asks, so that a page can be looked at at once."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        await self._app(scope, receive, send)
