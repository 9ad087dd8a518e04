"""How soon a result is on a phone that is connected, and what very many phones that wait cost the gateway.

The gateway and the phone are processes; the results are published by this one, as the Spark job would, at moments that
have nothing to do with the phone's exchanges. A result counts as there when the phone's own file has it. Phones that
only wait are connections of this process with real sessions.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cloud_backend.coordinator.roster import Roster
from cloud_backend.results.store import ResultRow, Results
from mobile_app.home.keys import load_keys
from mobile_app.node.results import RESULTS_FILE
from resurge.bench._fleet import Connection, OurFleet
from resurge.bench._gateway_process import GatewayProcess, gateway_process
from resurge.bench._rounds import at_most
from shared.identity import device_id
from shared.wire.enrolment import EnrolmentLink

LOOK_S = 0.01
PATIENCE_S = 60.0
IDLE_S = 5.0


def checks_of_news(root: Path, *, quick: bool, figures: dict[str, Any]) -> list[dict[str, Any]]:
    results, waiting = (8, 50) if quick else (60, 500)
    with gateway_process(root) as gateway:
        took = _to_phone(root, gateway, results)
        cost = _waiting(root, gateway, waiting)
    took.sort()
    p95 = took[min(len(took) - 1, int(0.95 * len(took)))]
    figures["result to phone"] = {
        "results": results, "median_s": round(took[len(took) // 2], 3), "p95_s": round(p95, 3),
        "longest_s": round(took[-1], 3),
    }  # fmt: skip
    figures["phones that wait"] = cost
    return [
        at_most("a result on a phone that is connected, from its publication: p95, s", p95, 2.0),
        at_most(f"{waiting} phones that wait: share of a processor of the gateway", cost["cpu_share"], 0.1),
        at_most(f"{waiting} phones that wait: threads of the gateway more than without", cost["threads"], 2.0),
    ]


def _to_phone(root: Path, gateway: GatewayProcess, results: int) -> list[float]:
    """Seconds from each publication until the phone's file has it."""
    home, job, rng = root / "phone", Results(root / "results.sqlite"), random.Random(7)
    node = subprocess.Popen(
        [sys.executable, "-m", "resurge", "node", "run", "--home", str(home), "--link", _link(root, gateway)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    took = []
    try:
        device = _wait(lambda: _device(home))
        _wait(lambda: job.publish(1, [_row(device, 1)]) or _through(home) >= 1)
        for number in range(2, results + 2):
            time.sleep(0.3 + rng.random())
            job.publish(number, [_row(device, number)])
            published = time.monotonic()
            _wait(lambda number=number: _through(home) >= number)
            took.append(time.monotonic() - published)
    finally:
        node.terminate()
        node.wait(30)
        job.close()
    return took


def _waiting(root: Path, gateway: GatewayProcess, count: int) -> dict[str, Any]:
    """Processor time, memory and threads that so many phones cost which only wait."""
    import asyncio

    fleet = OurFleet(gateway.port, root / "gateway")
    devices = fleet.enrol(count)
    before, threads = gateway.memory_bytes(), _threads(gateway.pid)

    async def main() -> tuple[float, int, int]:
        held = [await Connection.open(gateway.port, lambda data: data.endswith(b"\r\n\r\n\x00")) for _ in devices]
        asked = [asyncio.ensure_future(line.ask(each.wait())) for line, each in zip(held, devices, strict=True)]
        await asyncio.sleep(1.0)
        begun = gateway.cpu_s()
        await asyncio.sleep(IDLE_S)
        found = (gateway.cpu_s() - begun) / IDLE_S, gateway.memory_bytes(), _threads(gateway.pid)
        if any(each.done() for each in asked):
            raise RuntimeError("a phone that was to wait was answered")
        for line, each in zip(held, asked, strict=True):
            each.cancel()
            line.transport.close()
        return found

    share, memory, now = asyncio.run(main())
    return {
        "phones": count, "cpu_share": round(share, 4), "bytes_each": round((memory - before) / count),
        "threads": now - threads,
    }  # fmt: skip


def _threads(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def _link(root: Path, gateway: GatewayProcess) -> str:
    roster = Roster(root / "gateway" / "roster.sqlite")
    try:
        code = roster.new_code(time.time_ns() // 1000)
    finally:
        roster.close()
    key = bytes.fromhex(json.loads((root / "gateway" / "gateway.json").read_text())["key"])
    return str(EnrolmentLink("127.0.0.1", gateway.port, code, key, b""))


def _device(home: Path) -> str:
    try:
        return device_id(load_keys(home).public_key).hex() if (home / "gateway.json").exists() else ""
    except OSError:
        return ""


def _row(device: str, number: int) -> ResultRow:
    return ResultRow("trips", device, (device,), number, number + 1, 1, False, True, {"km": 1.5})


def _through(home: Path) -> int:
    try:
        database = sqlite3.connect(f"file:{home / RESULTS_FILE}?mode=ro", uri=True)
        try:
            return int(database.execute("select through from progress").fetchone()[0])
        finally:
            database.close()
    except sqlite3.Error:
        return 0


def _wait(ask: Any) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        if time.monotonic() > end:
            raise RuntimeError(f"nothing came within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)
    return answer
