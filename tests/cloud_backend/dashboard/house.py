"""A gateway with everything a dashboard shows, made in milliseconds: two phones with places, results, a query's sink."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from argon2 import PasswordHasher
from fastapi.routing import APIRoute

from cloud_backend.coordinator import people as people_module
from cloud_backend.gateway.app import GatewayApp, create_app
from cloud_backend.gateway.settings import Settings
from cloud_backend.log.format import Record
from cloud_backend.results.rows import ResultRow
from shared.batch import Batch
from shared.identity import DeviceId, device_id, edge_id
from shared.language.schema import Schema
from shared.plan.encoding import encode_plan
from shared.stream.drafts import Program, collecting, stop_collecting
from shared.stream.formulas import col
from shared.stream.functions import count, path_km
from shared.stream.sources import stream
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare, LostRange
from shared.wire.status import DeviceStatus
from tests.cloud_backend.dashboard.browsing import Browser

GPS = Schema.of({"lat": "float64", "lon": "float64", "accuracy": "float32"})
EDGE = edge_id("gps")
EDGE_HEX = f"{EDGE:016x}"
LAT, LON = 47.376887, 8.541694
SECOND_US = 1_000_000


class House:
    def __init__(self, home: Path, *, log: str | None = None) -> None:
        results = home / "results.sqlite"
        plan = home / "plan.bin"
        home.mkdir(parents=True, exist_ok=True)
        plan.write_bytes(encode_plan(program()))
        self.settings = Settings(
            home=home / "gateway", results=results, jobs=home / "jobs", plan=plan, stable=home / "spark" / "stable.json",
            reserve_bytes=0, log=log,
        )  # fmt: skip
        self.app: GatewayApp = create_app(self.settings)
        self.gateway = self.app.gateway
        (self.settings.home / "gateway.json").write_text(
            json.dumps({"host": "127.0.0.1", "port": 8750, "pin": "", "key": self.gateway.keys.public_key.hex()})
        )
        self.access = self.app.state.access
        self.now_us = time.time_ns() // 1000
        self.phones = [self.enrol(name) for name in ("tram-07", "bus-12")]
        for device in self.phones:
            self.deliver(device)
        self.gateway.results.publish(1, [self._result(device) for device in self.phones])

    def enrol(self, name: str) -> DeviceId:
        key = name.encode().ljust(32, b".")
        self.gateway.roster.enrol(self.gateway.roster.new_code(self.now_us), key, name, self.now_us)
        device = device_id(key)
        self.gateway.roster.seen([(device, self.now_us, DeviceStatus(produced=12, incarnation=1))])
        return device

    def deliver(self, device: DeviceId, rows: int = 6, *, seq: int = 0) -> None:
        times = [self.now_us - (rows - row) * SECOND_US for row in range(rows)]
        values = {"lat": [LAT + row / 1e4 for row in range(rows)], "lon": [LON] * rows, "accuracy": [5.0] * rows}
        batch = Batch.of(GPS, values, times, lo=seq, frontier_us=times[-1])
        codec, payload = columns.encode(batch)
        frames = [
            Declare(device, 1, EDGE, "gps", GPS).frame(),
            Data(device, 1, EDGE, seq, seq + rows, rows, GPS.id, 0, codec, payload, times[-1]).frame(),
            LostRange(device, 1, EDGE, seq + rows, seq + rows + 2, "evicted").frame(),
        ]
        self.gateway.log.append([Record(self.now_us, encode(frame)) for frame in frames])
        self.gateway.log.commit(self.gateway.log.take())

    def browser(self, role: str | None = None, **where: str) -> Browser:
        """Somebody with this role, signed in; without one, nobody."""
        browser = Browser(self.app, **where)
        if role is not None:
            browser.get(f"/signin/once/{self.access.people.new_link(self.now_us, name=role, role=role)}")
        return browser

    def close(self) -> None:
        self.gateway.log.close()
        self.gateway.roster.close()

    def _result(self, device: DeviceId) -> ResultRow:
        return ResultRow(
            sink="my_trips", device=device.hex(), key=(device.hex(),), window_start_us=self.now_us - 10 * SECOND_US,
            window_end_us=self.now_us, revision=1, retract=False, complete=True,
            values={"lat": LAT, "lon": LON, "km": 0.123456, "points": 6},
        )  # fmt: skip


def every_route(router) -> Iterator[APIRoute]:
    """The routes of an app or router, those of included routers too: FastAPI keeps them one inside the other."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from every_route(route.original_router)


def program(*, window: str = "10s", good: float | None = None):
    written = Program(name="trips")
    token = collecting(written)
    try:
        gps = stream("gps", {"lat": "float64", "lon": "float64", "accuracy": "float32"})
        up = (gps if good is None else gps.where(col.accuracy < good)).sync("gps")
        trips = up.key_by("device").tumbling(window).aggregate(km=path_km("lat", "lon"), points=count())
        trips.sync_back("my_trips")
    finally:
        stop_collecting(token)
    return written.plan()


def cheap_passwords(monkeypatch) -> None:
    """Argon2 as weak as it goes: what is tested is what is done with it, not how long it takes."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(people_module, "_hasher", hasher)
    monkeypatch.setattr(people_module, "_NOBODY", hasher.hash("nobody at all"))
