"""A day of a thousand devices, written through the real roster, log, history, results and job store.

Positions repeat among the devices, four ways through one town: encoding a fresh batch for each would measure the codec.
Numbers, ranges and times are each device's own.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import resurge as rs
from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.history.history import History
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import ResultRow, Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from shared.batch import Batch
from shared.identity import DeviceId, EdgeId, device_id, edge_id
from shared.language.schema import Schema
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare, LostRange
from shared.wire.status import DeviceStatus

SECOND_US = 1_000_000
DAY_S = 24 * 3600
STEP_S = 300  # between two batches of a device
ROWS = 30
WAYS = 4
WINDOW_S = 1800
JOB_EPOCHS = 60
JOB_RANGES = 8


def program() -> Plan:
    up = rs.sensor("gps", every="10s").sync("gps", batch=ROWS, within="300s")
    trips = up.key_by("device").tumbling("1m").aggregate(km=rs.path_km("lat", "lon"), points=rs.count())
    everything = trips.key_by().tumbling("10m").aggregate(km=rs.sum("km"))
    return rs.plan_of(trips.sync_back("my_trips"), everything.subscribe("everybody"), name="day")


def write_day(root: Path, *, devices: int, hours: float) -> None:
    """The home of a gateway, a results store and a job's store under this directory."""
    now_us = time.time_ns() // 1000
    plan = program()
    keys = [f"device {number}".encode().ljust(32, b".") for number in range(devices)]
    _enrol(root / "gateway" / "roster.sqlite", keys, now_us, int(hours * 3600 / STEP_S) * ROWS)
    ids = [device_id(key) for key in keys]
    _log(root / "gateway", ids, plan, now_us, int(hours * 3600))
    _results(root / "results.sqlite", ids, now_us, int(hours * 3600))
    _job(root, plan, now_us)


def _enrol(path: Path, keys: list[bytes], now_us: int, produced: int) -> None:
    roster = Roster(path)
    for number, key in enumerate(keys):
        roster.enrol(roster.new_code(now_us), key, f"phone-{number:04}", now_us)
    reports = []
    for number, key in enumerate(keys):
        status = DeviceStatus(
            lane="cellular" if number % 3 else "wifi", produced=produced + number % 7, incarnation=1,
            battery=number % 100, charging=number % 5 == 0, spool_bytes=1000 * (number % 500),
            spool_capacity_bytes=50_000_000, plan=1, version="0.1.0",
        )  # fmt: skip
        reports.append((device_id(key), now_us - (number % 50 == 0) * 7200 * SECOND_US, status))
    roster.seen(reports)
    roster.close()


def _log(home: Path, ids: list[DeviceId], plan: Plan, now_us: int, length_s: int) -> None:
    (edge,) = plan.edges
    number = edge_id(edge.name)
    log = Log.open(PosixDisk(home / "log"))
    start_us = now_us - length_s * SECOND_US
    log.append([Record(start_us, encode(Declare(device, 1, number, edge.name, edge.schema).frame())) for device in ids])
    next_seq = dict.fromkeys(ids, 0)
    memory = [columns.Cache() for _ in range(WAYS)]
    for at in range(0, length_s, STEP_S):
        end_us = start_us + (at + STEP_S) * SECOND_US
        payloads = [_payload(edge.schema, way, start_us, at, memory[way]) for way in range(WAYS)]
        records = []
        for order, device in enumerate(ids):
            if order % 97 == 0 and (at // STEP_S) % 50 == 7:
                records.append(_lost(device, number, next_seq, end_us))
            codec, payload = payloads[order % WAYS]
            lo = next_seq[device]
            next_seq[device] = lo + ROWS
            data = Data(device, 1, number, lo, lo + ROWS, ROWS, edge.schema.id, 0, codec, payload, end_us)
            records.append(Record(end_us + order * 100, encode(data.frame())))
        log.append(records)
        log.sync()
    history = History(log, home / "history.sqlite")
    history.follow()
    history.close()
    log.close()


def _lost(device: DeviceId, number: EdgeId, next_seq: dict[DeviceId, int], at_us: int) -> Record:
    lo = next_seq[device]
    next_seq[device] = lo + 12
    return Record(at_us, encode(LostRange(device, 1, number, lo, lo + 12, "evicted").frame()))


def _payload(schema: Schema, way: int, start_us: int, at: int, memory: columns.Cache) -> tuple[int, bytes]:
    seconds = [at + 10 * row for row in range(ROWS)]
    content = {name: [0.0] * ROWS for name in schema.names}
    content["lat"] = [round(51.3 + way * 0.02 + 0.01 * math.sin(second / 900), 6) for second in seconds]
    content["lon"] = [round(12.3 + way * 0.03 + 0.02 * math.cos(second / 900), 6) for second in seconds]
    times = [start_us + second * SECOND_US for second in seconds]
    return columns.encode(Batch.of(schema, content, times), cache=memory)


def _results(path: Path, ids: list[DeviceId], now_us: int, length_s: int) -> None:
    results = Results(path)
    start_us = now_us - length_s * SECOND_US
    for epoch, at in enumerate(range(0, length_s, WINDOW_S), start=1):
        results.publish(
            epoch,
            [
                ResultRow(
                    "last_place", device.hex(), (device.hex(),), start_us + at * SECOND_US,
                    start_us + (at + WINDOW_S) * SECOND_US, 1, False, True,
                    {"lat": 51.3 + order / 1e5, "lon": 12.3 + at / 1e6, "km": (order % 40) / 10},
                )
                for order, device in enumerate(ids)
            ],
        )  # fmt: skip
    results.close()


def _job(root: Path, plan: Plan, now_us: int) -> None:
    """A job that has been at work for a while: its manifest, not its amount of data, is what a page reads."""
    (edge,) = plan.edges
    log = Log.open(PosixDisk(root / "job-log"))
    results = Results(root / "job-results.sqlite")
    manager = JobManager(
        root / "job-log", root / "spark", plan, results=results, runner=LocalRunner(),
        settings=JobSettings(epoch_s=0.0, balance=False, ranges=JOB_RANGES),
    )  # fmt: skip
    device, memory = device_id(b"one"), columns.Cache()
    for epoch in range(JOB_EPOCHS):
        codec, payload = _payload(edge.schema, 0, now_us - DAY_S * SECOND_US, epoch * STEP_S, memory)
        end_us = now_us - (DAY_S - (epoch + 1) * STEP_S) * SECOND_US
        lo = epoch * ROWS
        data = Data(device, 1, edge_id(edge.name), lo, lo + ROWS, ROWS, edge.schema.id, 0, codec, payload, end_us)
        log.append([Record(end_us, encode(data.frame()))])
        log.sync()
        manager.drain()
    manager.write_status()
    log.close()
    results.close()
