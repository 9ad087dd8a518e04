"""`resurge doctor --capacity DEVICES`: which part of one machine so many devices outgrow first, and what to do then.

A model: what one device asks for is assumed (an exchange a minute, four edges, 1 KB and twelve rows each), what this
machine does is measured here in some seconds, and one is divided by the other. It knows nothing of bursts, so nothing
is counted as more than half usable. What a connection takes is no measure of this machine but one of record.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shared.recovery.retention import Retention

EXCHANGES_PER_MINUTE = 1
EDGES = 4
EXCHANGE_BYTES = 1024
ROWS = 12
USABLE = 0.5
RECORD_BYTES = 200  # of frame and record around a batch, in the log
LOG_HOURS = Retention.hours
CONNECTIONS_EACH = 2  # of a device that is awake
CONNECTION_BYTES = 6700  # docs/scale.md: measured at a gateway with thousands of idle connections, without TLS
HTTP_SHARE = 2.0  # an exchange with its sockets and HTTP, of one without

MEASURED_EXCHANGES = 1000
MEASURED_EDGES = 20_000
MEASURED_SYNCS = 20


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured here."""

    connections: int  # that a gateway process takes
    exchange_us: float  # processor time to check, log and answer one, without HTTP
    sync_ms: float  # one group of the log
    edge_bytes: float  # memory of one edge in the index
    rows_per_core_s: float  # from the log through a window, in one task
    memory_bytes: int
    free_bytes: int  # on the disk of the log
    cores: int


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    devices_max: int
    why: str
    instead: str


def parts(machine: Machine) -> list[Part]:
    """What breaks, the first one first."""
    per_device_s = EXCHANGES_PER_MINUTE / 60
    log_bytes_day = (EXCHANGE_BYTES + RECORD_BYTES) * per_device_s * 86_400
    memory = CONNECTIONS_EACH * CONNECTION_BYTES + EDGES * machine.edge_bytes
    found = [
        Part(
            "connections", machine.connections // CONNECTIONS_EACH,
            "each device keeps one open between its exchanges, and one while it waits for results",
            "raise the limit of open files (LimitNOFILE=131072) for up to 60,000; beyond it several gateways, each "
            "with its own devices",
        ),
        Part(
            "gateway", int(USABLE * 1e6 / (HTTP_SHARE * machine.exchange_us * per_device_s)),
            f"an exchange takes {HTTP_SHARE * machine.exchange_us:.0f} us of the one core that decides",
            "several gateways, each with its own devices and its own log",
        ),
        Part(
            "memory", int(USABLE * machine.memory_bytes / memory),
            f"{memory / 1024:.1f} KB for a device's connection and its {EDGES} edges",
            "more memory, or several gateways",
        ),
        Part(
            "log", int(USABLE * machine.free_bytes / (log_bytes_day * LOG_HOURS / 24)),
            f"{log_bytes_day / 1e6:.1f} MB a day for each device, kept for {LOG_HOURS:g} hours",
            "a larger disk, or a shorter --rollback-hours",
        ),
        Part(
            "spark", int(USABLE * machine.cores * machine.rows_per_core_s / (ROWS * per_device_s)),
            f"{machine.rows_per_core_s:,.0f} rows a second on each of {machine.cores} cores",
            "a cluster: --master, and a store that all its machines reach (s3:, gs:, az:, hdfs:)",
        ),
    ]  # fmt: skip
    return sorted(found, key=lambda part: part.devices_max)


def answer(devices: int, machine: Machine) -> dict[str, Any]:
    """As `--json` says it."""
    broken = [asdict(part) for part in parts(machine)]
    return {
        "devices": devices, "enough": all(part["devices_max"] >= devices for part in broken),
        "first": broken[0]["name"], "parts": broken, "machine": asdict(machine), "modelled": True,
    }  # fmt: skip


def measure(place: Path) -> Machine:
    """Takes some seconds, and some megabytes beside the log."""
    from cloud_backend.gateway.connections import Connections, raise_file_limit

    with tempfile.TemporaryDirectory(dir=place) as scratch:
        root = Path(scratch)
        return Machine(
            connections=Connections(raise_file_limit()).connections_max,
            exchange_us=asyncio.run(_exchange_us(root)),
            sync_ms=_sync_ms(root / "synced"),
            edge_bytes=_edge_bytes(),
            rows_per_core_s=_rows_per_s(root / "rows"),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            free_bytes=shutil.disk_usage(place).free,
            cores=os.cpu_count() or 1,
        )


async def _exchange_us(home: Path) -> float:
    """Through a gateway of its own: session, numbering, log, receipt."""
    from cloud_backend.gateway.gateway import Gateway
    from cloud_backend.gateway.settings import Settings
    from mobile_app.home.keys import Keys
    from shared.identity import device_id, edge_id
    from shared.language.schema import Schema
    from shared.sync.session import DeviceSession
    from shared.wire.frame import decode_one, encode
    from shared.wire.messages import Data, Declare

    gateway = Gateway(Settings(home, dashboard=False))
    keys = Keys(os.urandom(32), gateway.keys.public_key)
    now_us = time.time_ns() // 1000
    incarnation = gateway.roster.enrol(gateway.roster.new_code(now_us), keys.public_key, "capacity", now_us)
    device, edge, schema = device_id(keys.public_key), edge_id("capacity"), Schema.of({"x": "float64"})
    session = DeviceSession(keys, device, incarnation)
    session.welcome(decode_one(gateway.sessions.greet(session.hello(), time.monotonic()))[0], 0.0)
    payload = os.urandom(EXCHANGE_BYTES)
    frames = [encode(Declare(device, incarnation, edge, "capacity", schema).frame())]
    bodies = []
    for number in range(MEASURED_EXCHANGES):
        lo = number * ROWS
        frames.append(encode(Data(device, incarnation, edge, lo, lo + ROWS, ROWS, schema.id, 0, 0, payload).frame()))
        bodies.append(session.seal(frames))
        frames = []
    refused: list[object] = []

    def decided(outcome: Any) -> None:
        if getattr(outcome, "refused", outcome) is not None:
            refused.append(outcome)

    started = time.process_time()
    for body in bodies:
        gateway.appender.submit(body, decided)
    await gateway.appender.idle()
    took = time.process_time() - started
    await gateway.close()
    if refused:
        raise RuntimeError(f"the gateway refused what it should measure: {refused[0]!r}")
    return took / MEASURED_EXCHANGES * 1e6


def _sync_ms(directory: Path) -> float:
    """The median of a group of 64 KB, written and synced."""
    directory.mkdir()
    taken = []
    with (directory / "group").open("wb", buffering=0) as file:
        for _ in range(MEASURED_SYNCS):
            started = time.perf_counter()
            file.write(bytes(65_536))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return sorted(taken)[len(taken) // 2] * 1000


def _edge_bytes() -> float:
    import tracemalloc

    from cloud_backend.log.index import Index

    tracemalloc.start()
    try:
        index = Index()
        for number in range(MEASURED_EDGES // EDGES):
            _add_edges(index, number)
        return tracemalloc.get_traced_memory()[0] / MEASURED_EDGES
    finally:
        tracemalloc.stop()


def _add_edges(index: Any, number: int) -> None:
    from shared.identity import EdgeId, device_id
    from shared.wire.frame import encode
    from shared.wire.messages import LostRange

    device = device_id(str(number).encode())
    for edge in range(EDGES):
        index.apply(encode(LostRange(device, 1, EdgeId(edge), 0, 1, "").frame()))


def _rows_per_s(directory: Path) -> float:
    """Batches of the log decoded and pushed through a window by device, as an epoch's task does."""
    import numpy as np

    import resurge as rs
    from cloud_backend.log.format import Record
    from cloud_backend.log.log import Log
    from cloud_backend.log.partitions import ONLY
    from cloud_backend.spark.slots import WHOLE
    from cloud_backend.spark.task import log_input
    from cloud_backend.spark.task.specification import Slice
    from shared.batch import Batch
    from shared.engine.pipeline import Pipeline
    from shared.identity import device_id, edge_id
    from shared.plan.placement import cloud_fragment
    from shared.spool.disk import PosixDisk
    from shared.wire import columns
    from shared.wire.frame import encode
    from shared.wire.messages import Data

    up = rs.sensor("walk", every="5s", columns={"x": "float64"}).sync("walk", batch=ROWS)
    plan = rs.plan_of(up.tumbling("1m").aggregate(n=rs.count(), total=rs.sum("x")).subscribe("minutes"), name="minutes")
    (edge,) = plan.edges
    log = Log.open(PosixDisk(directory))
    content = Batch.of(edge.schema, {"x": np.arange(ROWS) / 7}, np.arange(ROWS) * 5_000_000, frontier_us=60_000_000)
    codec, packed = columns.encode(content)
    start = log.end
    for number in range(MEASURED_EXCHANGES):
        data = Data(
            device_id(str(number).encode()), 1, edge_id(edge.name), 0, ROWS, ROWS, edge.schema.id, 0, codec, packed,
            content.frontier_us,
        )  # fmt: skip
        log.append([Record(1, encode(data.frame()))])
    log.sync()
    started = time.process_time()
    found, _ = log_input.read_edges(directory, [Slice(ONLY, start, log.durable_end)], {edge.name: edge.schema}, WHOLE)
    pipeline = Pipeline(cloud_fragment(plan))
    pipeline.push(edge.name, Batch.joined([unit.batch for unit in found[edge.name].units]))
    pipeline.advance_devices(edge.name, found[edge.name].frontiers)
    took = time.process_time() - started
    log.close()
    return MEASURED_EXCHANGES * ROWS / max(took, 1e-6)


def lines(devices: int, machine: Machine, say: Callable[[str], None]) -> None:
    """For people."""
    each = f"an exchange a minute, {EDGES} edges, {EXCHANGE_BYTES} bytes and {ROWS} rows each"
    say(f"modelled for {devices:,} devices: {each}")
    for part in parts(machine):
        word = "ok " if part.devices_max >= devices else "NO "
        tail = "" if part.devices_max >= devices else f"  -> {part.instead}"
        say(f"{word} {part.name:<12} up to {part.devices_max:>12,} devices: {part.why}{tail}")
    say(f"a group of the log is on this disk in {machine.sync_ms:.1f} ms, which is the least a receipt waits for")
