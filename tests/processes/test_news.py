"""A result reaches a real node soon after it was published, and not with its next exchange half a minute later."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from cloud_backend.results.store import ResultRow, Results
from mobile_app.node.rest import OnMains
from mobile_app.node.results import RESULTS_FILE
from tests.patience import wait_until
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import NodeHome

pytestmark = pytest.mark.processes

RESULTS = 5


def kept(phone: NodeHome) -> int:
    with sqlite3.connect(f"file:{phone.home / RESULTS_FILE}?mode=ro", uri=True) as database:
        return database.execute("select through from progress").fetchone()[0]


def test_results_reach_a_connected_node_long_before_it_would_ask(tmp_path: Path):
    """Five, one after the other: with exchanges alone each would take up to half a minute."""
    path = tmp_path / "results.sqlite"
    with GatewayProcess(tmp_path / "home", "--results", str(path)) as gateway:
        phone = NodeHome(tmp_path / "phone", gateway, seed=1)
        phone.start("--speed", "1")
        try:
            wait_until(lambda: b"resurge_waits 1.0" in _metrics(gateway), "the node waits for news")
            job, began = Results(path), time.monotonic()
            for number in range(1, RESULTS + 1):
                device = phone.device.hex()
                job.publish(number, [ResultRow("trips", device, (device,), number, number + 1, 1, False, True, {})])
                wait_until(lambda number=number: kept(phone) == number, f"result {number} on the node")
            took_s = time.monotonic() - began
            job.close()
        finally:
            phone.running.end()
    assert took_s < (RESULTS - 1) * OnMains.poll_s / 4, f"{RESULTS} results took {took_s:.1f} s"


def _metrics(gateway: GatewayProcess) -> bytes:
    import http.client

    token = (gateway.home / "operator.token").read_text()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers={"authorization": f"Bearer {token}"})
        return connection.getresponse().read()
    finally:
        connection.close()
