"""A gateway with very many enrolled devices, of which few are active: what its start, its pages and its exchanges cost.

The home is written through the real log and the roster's own file; the gateway is a process, and what it costs is its
processor time, which another busy process on the machine does not change much. Every device has an edge with a batch in
the log; those that are not active were last heard a month ago.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from cloud_backend.coordinator.roster import Roster
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from resurge.bench._day import program
from resurge.bench._fleet import OurFleet, drive
from resurge.bench._gateway_process import GatewayProcess, gateway_process
from resurge.bench._rounds import at_most
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare
from shared.wire.status import DeviceStatus

SECOND_US = 1_000_000
MONTH_US = 30 * 86400 * SECOND_US
ROWS = 4
AT_ONCE = 5000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Pages of which the answer does not grow with the devices, and one of which it does: per position, then.
PAGES = ("/", "/v1/overview", "/devices", "/devices?q=phone-09&show=offline", "/streams", "/attention", "/metrics")


def write_crowd(root: Path, *, devices: int, active: int) -> None:
    now_us = time.time_ns() // 1000
    keys = [f"device {number}".encode().ljust(32, b".") for number in range(devices)]
    heard = [now_us if number < active else now_us - MONTH_US for number in range(devices)]
    _enrol(root / "gateway" / "roster.sqlite", keys, heard)
    (edge,) = program().edges
    number, log = edge_id(edge.name), Log.open(PosixDisk(root / "gateway" / "log"))
    content = {name: [0.0] * ROWS for name in edge.schema.names} | {"lat": [51.3] * ROWS, "lon": [12.3] * ROWS}
    payloads = {
        at_us: columns.encode(Batch.of(edge.schema, content, [at_us - 1000 * row for row in range(ROWS)]))
        for at_us in set(heard)
    }  # fmt: skip
    arrived = sorted(zip(heard, keys, strict=True), key=lambda each: each[0])
    for first in range(0, devices, AT_ONCE):
        records = []
        for at_us, key in arrived[first : first + AT_ONCE]:
            device = device_id(key)
            codec, payload = payloads[at_us]
            data = Data(device, 1, number, 0, ROWS, ROWS, edge.schema.id, 0, codec, payload, at_us)
            records.append(Record(at_us, encode(Declare(device, 1, number, edge.name, edge.schema).frame())))
            records.append(Record(at_us, encode(data.frame())))
        log.append(records)
        log.sync()
    log.close()
    Results(root / "results.sqlite").close()


def _enrol(path: Path, keys: list[bytes], heard: list[int]) -> None:
    """In one transaction: enrolling a hundred thousand by their codes would sync the disk as often."""
    path.parent.mkdir(parents=True, mode=0o700)
    Roster(path).close()
    rows = []
    for number, (key, at_us) in enumerate(zip(keys, heard, strict=True)):
        status = DeviceStatus(
            lane="wifi", produced=ROWS, incarnation=1, battery=number % 100, spool_bytes=1000 * (number % 500),
            spool_capacity_bytes=50_000_000, plan=1, poll_s=30.0, version="0.1.0",
        )  # fmt: skip
        text = json.dumps(status.to_json())
        rows.append((device_id(key), key, f"phone-{number:06}", 1, at_us - MONTH_US, None, at_us, text))
    database = sqlite3.connect(path)
    database.executemany("INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()


class Measured:
    """What one gateway over so many devices cost."""

    def __init__(self, root: Path, *, rounds: int, exchanges: int) -> None:
        with gateway_process(root) as gateway, _browser(gateway.address, gateway.token) as session:
            _settle(session, gateway.address)  # and history is kept: the start that is measured has it to read
        with gateway_process(root, "--rate", str(RATE)) as gateway:
            self.start_s, self.start_cpu_s = gateway.started_s, gateway.cpu_s()
            with _browser(gateway.address, gateway.token) as session:
                _settle(session, gateway.address)
                self.page_ms = {page: _cost(session, gateway, page, rounds) for page in PAGES}
                places = session.get(gateway.address + "/devices/map.json", timeout=PATIENCE_S).json()["features"]
                self.map_ms_per_place = _cost(session, gateway, "/devices/map.json", rounds) / max(1, len(places))
                begun = gateway.cpu_s()
                time.sleep(IDLE_S)
                self.idle_share = (gateway.cpu_s() - begun) / IDLE_S
                fleet = OurFleet(gateway.port, root / "gateway")
                fleet.payload = b"x" * 1000
                drive(fleet, DEVICES, 10)
                closed, opened = [], []
                for _ in range(rounds):
                    closed.append(drive(fleet, DEVICES, exchanges)[1])
                    with _looking(gateway.address, gateway.token):
                        opened.append(drive(fleet, DEVICES, exchanges)[1])
                self.p99_ms = (statistics.median(closed), statistics.median(opened))

    def figures(self) -> dict[str, Any]:
        return {
            "start_s": round(self.start_s, 2), "start_cpu_s": round(self.start_cpu_s, 2),
            "idle_cpu_share": round(self.idle_share, 4),
            "page_cpu_ms": {page: round(each, 2) for page, each in self.page_ms.items()},
            "map_cpu_us_per_place": round(1000 * self.map_ms_per_place, 1),
            "exchange_p99_ms": [round(each, 2) for each in self.p99_ms],
        }  # fmt: skip


PATIENCE_S = 600.0  # of a busy machine with the first answer
RATE = 1_000_000  # exchanges per second and device: what it may make at most is not measured here
IDLE_S = 12.0  # two looks for alerts
DEVICES = 10  # that exchange while pages are open or not


def checks_of_crowd(root: Path, *, quick: bool, figures: dict[str, Any]) -> list[dict[str, Any]]:
    few, many = (100, 1000) if quick else (1000, 100_000)
    rounds, exchanges = (2, 30) if quick else (5, 200)
    found = {}
    for devices in (few, many):
        directory = root / str(devices)
        write_crowd(directory, devices=devices, active=min(devices, 1000))
        found[devices] = Measured(directory, rounds=rounds, exchanges=exchanges)
        figures[f"{devices} devices"] = found[devices].figures()
    first, last = found[few], found[many]
    words = f"{many} devices"
    return [
        at_most(f"{words}: processor seconds from start to listening", last.start_cpu_s, 3.0),
        *(
            at_most(f"{words}: processor time of {page}, times that at {few}", cost / first.page_ms[page], 1.3)
            for page, cost in last.page_ms.items()
        ),
        at_most(
            f"{words}: processor time of the map per position, times that at {few}",
            last.map_ms_per_place / first.map_ms_per_place, 1.3,
        ),
        at_most(f"{words}: share of a processor while nobody looks", last.idle_share, 0.1),
        at_most(f"{words}: p99 of exchanges with pages open, times closed", last.p99_ms[1] / last.p99_ms[0], 1.3),
    ]  # fmt: skip


@contextmanager
def _browser(address: str, token: str) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers = {"Authorization": f"Bearer {token}", "Accept": "text/html,application/json"}
        session.get(address + "/healthz", timeout=PATIENCE_S)
        yield session


def _settle(session: requests.Session, address: str) -> None:
    """Until the log is taken in and every page has been built once."""
    for page in (*PAGES, "/devices/map.json", *PAGES):
        answer = session.get(address + page, timeout=PATIENCE_S)
        if answer.status_code != 200:
            raise RuntimeError(f"{page} answered {answer.status_code}: {answer.text[:200]}")


def _cost(session: requests.Session, gateway: GatewayProcess, page: str, rounds: int) -> float:
    """Processor milliseconds of one answer, a second after the one before: nothing is fresh then. The median of a few,
    less what the gateway takes in a second anyway."""
    costs = []
    for _ in range(rounds):
        begun, at = gateway.cpu_s(), time.monotonic()
        time.sleep(1.0)
        idle = (gateway.cpu_s() - begun) / (time.monotonic() - at)
        begun, at = gateway.cpu_s(), time.monotonic()
        session.get(gateway.address + page, timeout=PATIENCE_S)
        costs.append(gateway.cpu_s() - begun - idle * (time.monotonic() - at))
    return 1000 * max(statistics.median(costs), 1.0 / TICKS_PER_S)


@contextmanager
def _looking(address: str, token: str) -> Iterator[None]:
    """Somebody has the overview and the devices page open, which ask again by themselves."""
    over = threading.Event()

    def follow(path: str) -> None:
        with (
            _browser(address, token) as session,
            session.get(address + path, stream=True, timeout=PATIENCE_S) as stream,
        ):
            for _ in stream.iter_lines():
                if over.is_set():
                    return

    def reload() -> None:
        with _browser(address, token) as session:
            while not over.wait(2.0):
                session.get(address + "/devices", headers={"HX-Request": "true"}, timeout=PATIENCE_S)

    threads = [threading.Thread(target=follow, args=(path,), daemon=True) for path in ("/v1/overview/stream", "/live")]
    threads.append(threading.Thread(target=reload, daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
