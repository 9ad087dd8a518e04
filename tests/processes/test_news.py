"""Real processes: a result reaches a node soon after it was published, and an alert from a rule on results rings there."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloud_backend.results.store import ResultRow, Results
from mobile_app.node.rest import OnMains
from mobile_app.node.results import RESULTS_FILE
from tests.patience import PATIENCE_S, wait_until
from tests.processes.gateway_process import ROOT, GatewayProcess
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


def said(phone: NodeHome) -> list[str]:
    """The lines about alerts that the node printed; it is ended for that."""
    phone.running.process.terminate()
    text, _ = phone.running.process.communicate(timeout=PATIENCE_S)
    return [line for line in text.splitlines() if line.startswith("alert ")]


def command(gateway: GatewayProcess, *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "resurge", *arguments, "--home", str(gateway.home), "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_alert_from_a_rule_on_results_rings_once_on_a_node(tmp_path: Path):
    """Over the command line, the gateway and a node; both are killed in between."""
    path = tmp_path / "results.sqlite"
    job = Results(path)
    with GatewayProcess(tmp_path / "home", "--results", str(path)) as gateway:
        phone = NodeHome(tmp_path / "phone", gateway, seed=1)
        phone.start("--speed", "1")
        try:
            wait_until(lambda: b"resurge_waits 1.0" in _metrics(gateway), "the node waits for news")
            device = phone.device.hex()

            def say(minute: int, level: float) -> None:
                start = minute * 60_000_000
                row = ResultRow("noise", "", (device,), start, start + 60_000_000, 1, False, True, {"level": level})
                job.publish(minute, [row])

            say(0, 85.0)
            added = command(gateway, "alert", "add", "noisy", "noise", "level > 80", "--for", "2m", "--phone", "own")
            assert added["words"] == "level > 80 for 2m"
            say(1, 85.0)
            wait_until(lambda: kept(phone) == 1, "the alert on the node")
            first = said(phone)
            gateway.kill()
            gateway.start()
            phone.start("--speed", "1")
            wait_until(lambda: b"resurge_waits 1.0" in _metrics(gateway), "the node waits for news again")
            say(2, 86.0)  # it still holds: nobody rings
            say(3, 20.0)
            wait_until(lambda: kept(phone) == 2, "its end on the node")
            say(4, 90.0)
            say(5, 90.0)
            wait_until(lambda: kept(phone) == 3, "the next alert on the node")
            second = said(phone)
            listed = command(gateway, "alert", "list")
        finally:
            phone.running.end()
            job.close()
    assert first == ["alert 1: noisy: level > 80 for 2m (phone)"]
    assert second == ["alert 2: noisy: level > 80 for 2m (phone)"]
    assert [each["ended_us"] is None for each in listed["alerts"]] == [True, False]


def _metrics(gateway: GatewayProcess) -> bytes:
    import http.client

    token = (gateway.home / "operator.token").read_text()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers={"authorization": f"Bearer {token}"})
        return connection.getresponse().read()
    finally:
        connection.close()
