"""`resurge bench gateway`: acknowledged, durable exchanges per second, against the servers one would write instead.

Ours seals, authenticates, checks for duplicates, hashes and group-commits every exchange inside the FastAPI app. The
peers do less: see `_transport_peers`. NATS and mosquitto are measured where they are installed; neither syncs before
it acknowledges, so they promise less than the rest.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from resurge.bench._fleet import HttpFleet, MqttFleet, NatsFleet, OurFleet, RawFleet, drive
from resurge.bench._hostile_requests import COUNT, REFUSED, WITHIN_S, bombs, throw
from resurge.bench._rounds import at_least
from resurge.up.free_ports import free_ports

DEVICES = 100
SIZES = {"1 KB": (1000, 120), "64 KB": (65536, 24)}  # bytes, exchanges per device and round

# (ours / peer must be at least this) per size: goal 11. Other ratios are reported: at 64 KB one pass of SHA-256 is most
# of it, and NATS and mosquitto acknowledge before they sync.
GOALS: dict[str, dict[str, float]] = {"1 KB": {"fastapi_each": 5, "raw_group": 0.4}, "64 KB": {}}
WORDS = {
    "fastapi_each": "FastAPI, fsync per batch",
    "fastapi_sqlite": "FastAPI + SQLite FULL",
    "raw_group": "raw socket + group fsync",
    "nats": "NATS JetStream (no sync before its acknowledgement)",
    "mosquitto": "mosquitto QoS 1 (no sync before its acknowledgement)",
}
KEEPS_BARE_SPEED = 0.95
OURS = ("gateway", "gateway_asgi", "gateway_bare")
# A part of the exchanges is long enough to know the rate of the slow ones.
SHARE = {"fastapi_each": 4, "fastapi_sqlite": 4, "gateway_asgi": 2, "gateway_bare": 2}


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        ours = {kind: OurFleet(_server(stack, kind, work), work / kind) for kind in OURS}
        checks, figures = _compare(ours, rounds, quick)
    checks.append(_bombs())
    return {
        "bench": "gateway",
        "checks": checks,
        "figures": figures,
        "rounds": 2 if quick else rounds,
        "absent": [name for name in ("nats", "mosquitto") if name not in figures["1 KB"]],
        "versions": _versions(),
    }


def _compare(fleets: dict[str, OurFleet], rounds: int, quick: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Ours, enrolled once, against the peers, started anew for each size."""
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    reported: dict[str, float] = {}
    for label, (size, exchanges) in SIZES.items():
        measured = _measure(fleets, os.urandom(size), 10 if quick else exchanges, 2 if quick else rounds)
        ours = measured["gateway"]
        figures[label] = {
            name: {
                "per_s": round(statistics.median(rate for rate, _ in rows)),
                "p99_ms": round(statistics.median(p99 for _, p99 in rows), 2),
            }
            for name, rows in measured.items()
        }
        for peer, words in WORDS.items():
            if peer in measured:
                name, found = f"{label} x {DEVICES}: ours / {words}", _ratio(ours, measured[peer])
                if peer in GOALS[label]:
                    checks.append(at_least(name, found, GOALS[label][peer]))
                else:
                    reported[name] = round(found, 3)
        name = f"{label} x {DEVICES}: the ASGI route inside FastAPI / the same route bare"
        checks.append(at_least(name, _ratio(measured["gateway_asgi"], measured["gateway_bare"]), KEEPS_BARE_SPEED))
    figures["reported"] = reported
    return checks, figures


def _bombs() -> dict[str, Any]:
    """Each of fifty bombs on a gateway of its own, one after the other: the slowest refusal."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        port = _server(stack, "gateway", work)
        thrown = [throw(port, bomb) for bomb in bombs()]
    refused = sum(status in REFUSED for status, _ in thrown)
    slowest = max(seconds for _, seconds in thrown)
    return {
        "name": f"{refused} of {COUNT} bombs refused; the slowest in s",
        "value": round(slowest, 4),
        "goal": f"<= {WITHIN_S}",
        "ok": refused == COUNT and slowest <= WITHIN_S,
    }


def _ratio(ours: list[tuple[float, float]], peer: list[tuple[float, float]]) -> float:
    return statistics.median(mine / theirs for (mine, _), (theirs, _) in zip(ours, peer, strict=True))


def _measure(
    ours: dict[str, OurFleet], payload: bytes, exchanges: int, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Every contender once per round, in turn; the first round warms up and is not counted."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        fleets: dict[str, Any] = dict(ours)
        for fleet in ours.values():
            fleet.payload = payload
        for kind in ("fastapi_each", "fastapi_sqlite"):
            fleets[kind] = HttpFleet(_server(stack, kind, work), payload)
        fleets["raw_group"] = RawFleet(_server(stack, "raw_group", work), payload)
        if (port := _nats(stack, work)) is not None:
            fleets["nats"] = NatsFleet(port, payload)
        if (port := _mosquitto(stack, work)) is not None:
            fleets["mosquitto"] = MqttFleet(port, payload)
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in fleets}
        for round_number in range(rounds + 1):
            for name, fleet in fleets.items():
                result = drive(fleet, DEVICES, max(1, exchanges // SHARE.get(name, 1)))
                if round_number:
                    measured[name].append(result)
        return measured


def _server(stack: ExitStack, kind: str, work: Path) -> int:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "resurge.bench._transport_peers", kind, str(port), str(work / kind)]
    _start(stack, command, port)
    return port


def _start(stack: ExitStack, command: list[str], port: int | None) -> None:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(_end, process)
    deadline = time.monotonic() + 60
    while port is not None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not open its port") from None
            time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _nats(stack: ExitStack, work: Path) -> int | None:
    program = _program("nats-server")
    if program is None or not _has("nats-py"):
        return None
    (port,) = free_ports(1)
    settings = work / "nats.conf"
    settings.write_text(
        f'host: 127.0.0.1\nport: {port}\nmax_payload: 8388608\njetstream {{ store_dir: "{work}/nats" }}\n'
    )
    _start(stack, [program, "-c", str(settings)], port)
    return port


def _mosquitto(stack: ExitStack, work: Path) -> int | None:
    program = _program("mosquitto")
    if program is None:
        return None
    (port,) = free_ports(1)
    settings = work / "mosquitto.conf"
    user = "user root\n" if os.geteuid() == 0 else ""
    settings.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {work}/\n"
        f"max_inflight_messages 0\nmax_queued_messages 0\nset_tcp_nodelay true\n{user}"
    )
    _start(stack, [program, "-c", str(settings)], port)
    consumer = [sys.executable, "-m", "resurge.bench._transport_peers", "mqtt_log", str(port), str(work / "mqtt")]
    _start(stack, consumer, None)
    time.sleep(1.0)  # until it has subscribed; it opens no port that could be asked
    return port


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def _scratch() -> str | None:
    """A directory on a real disk: /tmp may be memory, where a sync costs nothing."""
    return os.environ.get("RESURGE_BENCH_DIRECTORY")


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _versions() -> dict[str, str]:
    names = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "nats-py")
    versions = {name: importlib.metadata.version(name) for name in names if _has(name)}
    for name, option in (("nats-server", "--version"), ("mosquitto", "-h")):
        program = _program(name)
        if program is not None:
            answer = subprocess.run([program, option], capture_output=True, text=True, check=False)
            versions[name] = (answer.stdout or answer.stderr).splitlines()[0].strip()
    return {"python": platform.python_version(), **versions}
