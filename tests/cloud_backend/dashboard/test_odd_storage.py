"""Whatever lies in log, roster and results, pages and API show the rest: no 500, no formula, no markup."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3

import pytest

from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.log.format import Record
from cloud_backend.results.rows import ResultRow
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.wire.frame import Frame, FrameType, encode
from shared.wire.messages import Declare
from tests.cloud_backend.dashboard.house import House, every_route

ODD = "\ud800<script>alert(1)</script>\x1b[31m\u202e\x00"
STATUSES = [
    '{"lane": "\\ud800", "produced": -5, "incarnation": 1}',
    '{"lane": {"a": [1]}, "battery": {"level": "full"}, "version": ["x"], "missing_sensors": [[], "\\udfff", 3]}',
    '{"produced": 1e999, "spool_bytes": NaN, "spool_capacity_bytes": 0, "full_in_s": Infinity, "plan": true}',
    '{"\\ud800": "\\ud800", "refusal": "\\ud800\\u0000\\u001b[31m", "python": "\\ud83d", "produced": 99999999999999999999}',
    '[1, 2, 3]', 'null', '"text"', "7",
]  # fmt: skip


def say(house: House, status: str) -> None:
    database = sqlite3.connect(house.settings.home / "roster.sqlite")
    database.execute("UPDATE devices SET status = ? WHERE device = ?", (status, house.phones[0]))
    database.commit()
    database.close()


@pytest.fixture
def odd(tmp_path):
    """A house in which one device declared what no door lets in any more."""
    house = House(tmp_path / "house")
    say(house, STATUSES[0])
    device = house.phones[0]
    declared = Declare(device, 1, edge_id("odd"), "odd", Schema.of({"x": "float64"})).frame()
    payload = declared.payload.replace(b'"odd"', json.dumps(ODD).encode(), 1)
    frames = [
        Frame(FrameType.DECLARE, device, payload, incarnation=1, edge=edge_id("odd")),
        Frame(FrameType.DECLARE, device, b"{}", incarnation=1, edge=edge_id("empty")),
        Frame(
            FrameType.TOMBSTONE, device, b'{"reason": "\\ud800"}', incarnation=1, edge=edge_id("odd"), seq=0, count=3
        ),
    ]
    house.gateway.log.append([Record(house.now_us, encode(frame)) for frame in frames])
    house.gateway.log.sync()
    row = ResultRow(
        sink="=odd <b>sink", device=device.hex(), key=("=1+1", 2.5), window_start_us=-(2**62), window_end_us=2**62,
        revision=1, retract=False, complete=True,
        values={"=cmd|' /C calc'!A0": "@SUM(1)", "<b>": float("nan"), "lat": float("inf"), "lon": "x"},
    )  # fmt: skip
    house.gateway.results.publish(2, [row])
    yield house
    house.close()


def addresses(house: House):
    values = {
        "device": house.phones[0].hex(), "edge": f"{edge_id('odd'):016x}", "sink": "=odd <b>sink", "name": "main",
        "stream": "gps", "offset": "0", "entry": "1", "format": "csv",
    }  # fmt: skip
    for route in every_route(house.app):
        if "GET" in route.methods and not route.path.endswith(("/live", "/stream")) and "secret" not in route.path:
            yield (
                route.path.format(**values | {"name:path": "page.js"})
                if "name:path" not in route.path
                else "/static/page.js"
            )


@pytest.mark.soak
def test_every_page_and_answer_survives(odd):
    admin = odd.browser("admin")
    for status in STATUSES:
        say(odd, status)
        for address in addresses(odd):
            for headers in ({"accept": "text/html"}, {"accept": "text/html", "hx-request": "true"}):
                answer = admin.get(address, headers=headers)
                assert answer.status_code < 500, f"{address} after {status}: {answer.text[:300]}"
                assert "<script>alert" not in answer.text, f"{address} after {status}"
                assert "\x1b" not in answer.text, f"{address} after {status}"


@pytest.mark.parametrize(
    "status", [STATUSES[0], *(pytest.param(each, marks=pytest.mark.soak) for each in STATUSES[1:])]
)
def test_alerts_go_on_and_the_device_s_data_is_deleted(odd, status):
    say(odd, status)
    admin = odd.browser("admin")
    device = odd.phones[0].hex()
    name = next(entry.name for entry in odd.gateway.roster.entries() if entry.device.hex() == device)
    assert admin.post(f"/v1/api/devices/{device}/delete-data", json={"name": name}).status_code == 200

    async def at_once(work) -> None:
        work()

    asyncio.run(Upkeep(odd.app.state.sources, at_once).beat())
    assert admin.get(f"/v1/api/devices/{device}").json()["deletion"]["done_us"]


def test_a_spreadsheet_finds_no_formula_in_head_or_cells(odd):
    text = odd.browser("admin").get("/v1/api/results/=odd <b>sink/export").text
    head, *rows = csv.reader(io.StringIO(text))
    assert len(rows) == 1
    assert not [cell for cell in [*head, *rows[0]] if cell.startswith(("=", "+", "@", "\t", "\r"))]
