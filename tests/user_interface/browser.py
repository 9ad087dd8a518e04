"""Debian's Chromium under Playwright, and a dashboard served on loopback for it to open."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, sync_playwright

from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.routes import dashboard_router

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def served(feed: Feed, *, port: int = 0) -> Iterator[str]:
    """The dashboard of this feed at the address that is handed out."""
    app = FastAPI()
    app.include_router(dashboard_router(feed, version="0.1.0"))
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
