"""`resurge bench dashboard`: how long each page takes with a thousand devices and a day of history behind it.

A real gateway process over a home that was written through the real log and stores; every page asked for in turn over
loopback, as a browser would. The limit is the operator's patience: 300 ms at the 95th percentile. `/healthz`, which
does nothing, is asked for beside them: what the machine itself takes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import requests

from resurge.bench._day import write_day
from resurge.bench._gateway_process import gateway_process
from resurge.bench._rounds import at_most, versions
from resurge.bench.gateway import _scratch
from shared.identity import device_id

GOAL_MS = 300.0
ASKED_PER_ROUND = 10


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    devices, hours = (100, 6.0) if quick else (1000, 24.0)
    with tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch()) as directory:
        root = Path(directory)
        started = time.perf_counter()
        write_day(root, devices=devices, hours=hours)
        written_s = time.perf_counter() - started
        with gateway_process(root, "--stable", str(root / "spark" / "stable.json")) as gateway:
            took = _measure(gateway.address, gateway.token, rounds)
    checks = [at_most(f"{page}: p95, ms", _p95(took[page]), GOAL_MS) for page in took if page != "/healthz"]
    return {
        "bench": "dashboard", "devices": devices, "hours": hours, "written_s": round(written_s, 1),
        "asked": rounds * ASKED_PER_ROUND, "checks": checks,
        "median_ms": {page: round(statistics.median(times), 1) for page, times in took.items()},
        "healthz_p95_ms": round(_p95(took["/healthz"]), 2), "versions": versions("fastapi", "jinja2", "uvicorn"),
    }  # fmt: skip


def pages() -> list[str]:
    device = device_id(b"device 7".ljust(32, b".")).hex()
    return [
        "/", "/attention", "/v1/overview", "/devices", "/devices?show=offline", "/devices?q=phone-09&page=2",
        "/devices/map.json", f"/devices/{device}", f"/devices/{device}/map.json", f"/devices/{device}/arrivals.json",
        "/streams", "/streams/gps", "/jobs", "/jobs/main", "/jobs/main/rollback?vertex=my_trips&to=50", "/results",
        "/results/last_place", "/results/last_place/series.json", "/results/last_place/map.json", "/audit", "/account",
        "/healthz",
    ]  # fmt: skip


def _measure(address: str, token: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every answer, page by page in turn; the first round warms up and is not counted."""
    took: dict[str, list[float]] = {page: [] for page in pages()}
    with requests.Session() as session:
        session.headers = {"Authorization": f"Bearer {token}", "Accept": "text/html,application/json"}
        for turn in range(rounds + 1):
            for page, times in took.items():
                for _ in range(ASKED_PER_ROUND if turn else 2):
                    began = time.perf_counter()
                    answer = session.get(address + page, timeout=60)
                    if turn:
                        times.append((time.perf_counter() - began) * 1000)
                    if answer.status_code != 200:
                        raise RuntimeError(f"{page} answered {answer.status_code}: {answer.text[:200]}")
    return took


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]
