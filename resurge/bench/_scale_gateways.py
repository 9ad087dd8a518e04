"""Two gateways against one: the same devices send the same bytes, the log is in Kafka, the roster in PostgreSQL.

Each device speaks to one gateway, whichever owns its partition: of two gateways about half of the exchanges are
forwarded, as behind a balancer that knows nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from resurge.bench._brokers import Cluster
from resurge.bench._fleet import OurFleet, drive
from resurge.bench._gateway_process import GatewayProcess, gateway_process
from resurge.bench._postgres import PostgresServer

DEVICES = 60
SIZES = {"1 KB": 1_000, "54 KB": 54_000}
READY_S = 60.0


def measure_gateways(
    root: Path, cluster: Cluster, postgres: PostgresServer, *, quick: bool, rounds: int, figures: dict[str, Any]
) -> None:
    measured: dict[str, dict[int, tuple[float, float]]] = {size: {} for size in SIZES}
    for count in (1, 2):
        postgres.ask(f"CREATE DATABASE gateways{count}")
        with ExitStack() as stack:
            first, *others = _started(stack, root / str(count), cluster, postgres, count)
            fleet = OurFleet(first.port, root / str(count) / "first" / "gateway", *(each.port for each in others))
            gateways = (first, *others)
            for label, size in SIZES.items():
                exchanges = 5 if quick else (60 if size < 10_000 else 20)
                fleet.payload = os.urandom(size)
                drive(fleet, DEVICES, exchanges)
                before = _cpu_s(gateways)
                rates = [drive(fleet, DEVICES, exchanges)[0] for _ in range(rounds)]
                spent = (_cpu_s(gateways) - before) / (rounds * DEVICES * exchanges)
                measured[label][count] = statistics.median(rates), spent
            figures[f"{count} gateways"] = {
                label: {"exchanges_per_s": round(each[count][0]), "cpu_us_per_exchange": round(1e6 * each[count][1])}
                for label, each in measured.items()
            }
    reported = figures.setdefault("reported", {})
    for label, each in measured.items():
        name = f"{label}: exchanges/s of two gateways, times one, on {os.cpu_count()} cores"
        reported[name] = round(each[2][0] / each[1][0], 3)


def _started(
    stack: ExitStack, root: Path, cluster: Cluster, postgres: PostgresServer, count: int
) -> list[GatewayProcess]:
    found: list[GatewayProcess] = []
    url = postgres.url(f"gateways{count}")
    options = (
        "--log", f"kafka://{cluster.address}/gateways-{count}?partitions=4", "--database", url, "--results", url,
        "--rate", "100000",
    )  # fmt: skip
    for name in ("first", "second")[:count]:
        home = root / name / "gateway"
        if found:
            home.mkdir(parents=True)
            shutil.copy(root / "first" / "gateway" / "gateway.key", home)
        found.append(stack.enter_context(gateway_process(root / name, *options)))
    share = 4 // count
    _until(lambda: all(_says(each, "/readyz") is not None for each in found), "gateways are ready")
    _until(lambda: all(f"resurge_partitions_owned {share}.0" in (_says(each, "/metrics") or "") for each in found),
           "each gateway owns its share")  # fmt: skip
    return found


def _says(gateway: GatewayProcess, path: str) -> str | None:
    request = urllib.request.Request(gateway.address + path, headers={"authorization": f"Bearer {gateway.token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError:
        return None


def _cpu_s(gateways: tuple[GatewayProcess, ...]) -> float:
    return sum(each.cpu_s() for each in gateways)


def _until(ask: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + READY_S
    while not ask():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {READY_S:.0f} s")
        time.sleep(0.1)
