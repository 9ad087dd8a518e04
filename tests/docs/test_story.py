"""docs/architecture.md tells the story of one reading; here the reading is sent on its way, and followed."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

import resurge as rs
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.gateway import Gateway
from cloud_backend.gateway.settings import Settings
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from mobile_app.home.clock import wall_time_us
from mobile_app.links.enrolment import enrol
from mobile_app.links.gateway import GatewayLink
from mobile_app.node.loop import Node
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.choose import parse_choices
from mobile_app.settings import Settings as NodeSettings
from mobile_app.settings import load_gateway
from resurge import col
from shared.plan.encoding import encode_plan
from shared.wire.enrolment import EnrolmentLink
from tests.docs.walk import Walk

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
LATITUDE = 47.1234567
BEGIN_S = 1_700_000_000
FIXES = [(0, LATITUDE, 8.5), (5, 47.1250003, 8.5011), (61, 47.1261, 8.502), (130, 47.127, 8.503), (300, 47.128, 8.504)]
COLUMNS = ("lat", "lon", "altitude", "accuracy", "speed", "bearing")
PATIENCE_S = 120.0
# On a busy machine a reading is asked for again or waits where it usually passes: up to nine functions more.
FUNCTIONS_MAX, CHANGES_MAX = 150, 54  # docs/architecture.md says what they were before


def program() -> rs.Stream:
    gps = rs.sensor("gps", every="5s").where(col.accuracy < 50)
    return gps.sync("gps", batch=2, within="1s").session(gap="30s").aggregate(km=rs.path_km("lat", "lon"))


def rows() -> list[tuple[float, ...]]:
    return [(lat, lon, 400.0, 5.0, 1.0, 0.0) for _, lat, lon in FIXES]


def kilometres() -> float:
    """What the reading becomes: the way of the first session."""
    columns = dict(zip(COLUMNS, map(list, zip(*rows(), strict=True)), strict=True))
    times = [(BEGIN_S + second) * 1_000_000 for second, _, _ in FIXES]
    answer = rs.evaluate(program(), {"gps": {"time": times, "device": ["a"] * len(times), **columns}})
    return float(answer["out"]["km"][0])


@contextmanager
def gateway_at_work(settings: Settings) -> Iterator[tuple[Gateway, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    gateway = Gateway(settings)
    server = uvicorn.Server(
        uvicorn.Config(create_app(settings, gateway=gateway), log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield gateway, listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def follow(root: Path) -> Walk:
    """One phone, one gateway, one job in this process; the walk of the reading when its result is back on the phone."""
    recording = root / "walk.csv"
    lines = [",".join(map(str, (BEGIN_S + at, *row))) for (at, _, _), row in zip(FIXES, rows(), strict=True)]
    recording.write_text("\n".join([",".join(("time", *COLUMNS)), *lines, ""]))
    plan = rs.plan_of(program().sync_back("way"), name="way")
    (root / "plan.bin").write_bytes(encode_plan(plan))
    settings = Settings(
        home=root / "gateway", plan=root / "plan.bin", results=root / "results.sqlite",
        stable=root / "spark" / "stable.json", hints=root / "spark" / "hints.json", jobs=root / "jobs",
    )  # fmt: skip
    walk = Walk({LATITUDE, kilometres()})
    with walk.watching(), gateway_at_work(settings) as (gateway, port):
        home = root / "phone"
        code = gateway.roster.new_code(wall_time_us())
        enrol(home, str(EnrolmentLink("127.0.0.1", port, code, gateway.keys.public_key, b"")))
        paired = load_gateway(home)
        assert paired is not None
        node = Node(
            home,
            Surroundings(
                settings=NodeSettings(loss_window_s=0.05, spool_mb=2), gateway=paired,
                link=GatewayLink(paired.url, pin=b""), sensors=parse_choices([f"gps=recording:{recording}"]),
                speed=60.0, plan=plan,
            ),
        )  # fmt: skip
        results = Results(root / "results.sqlite")
        job = JobManager(
            root / "gateway" / "log", root / "spark", plan, results=results, runner=LocalRunner(),
            settings=JobSettings(epoch_s=0.1, balance=False),
        )  # fmt: skip
        end = time.monotonic() + PATIENCE_S
        while not node.stores.results.count() and time.monotonic() < end:
            node.turn(time.monotonic())
            job.drain()
            node.uplink.wait(0.05)
        assert node.stores.results.count(), "no result came back to the phone"
        node.close()
        results.close()
    return walk


def walk_alone(root: Path) -> tuple[list[str], int]:
    """The walk in a process of its own: what other tests left in memory would spare the reading a function."""
    code = (
        "import json, pathlib, sys; from tests.docs.test_story import follow; "
        "walk = follow(pathlib.Path(sys.argv[1])); print(json.dumps([list(walk.functions), walk.crossings()]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(root)], cwd=PAGE.parents[1], env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    functions, crossings = json.loads(ended.stdout.splitlines()[-1])
    return functions, crossings


def stations() -> list[str]:
    """The functions that the story names, in its order."""
    story = PAGE.read_text(encoding="utf-8").partition("## The story of one reading")[2].partition("\n## ")[0]
    return re.findall(r"`((?:mobile_app|shared|cloud_backend)\.[A-Za-z_.]+)`", story)


def test_the_story_of_one_reading_is_how_a_reading_goes(tmp_path: Path, claim) -> None:
    carried, crossings = walk_alone(tmp_path)
    story = stations()
    assert len(story) >= 20
    unknown = [name for name in story if name not in carried]
    assert not unknown, "the reading never passes these: " + ", ".join(unknown) + "\n" + "\n".join(carried)
    order = [carried.index(name) for name in story]
    late = [name for name, one, other in zip(story[1:], order, order[1:], strict=False) if other < one]
    assert not late, f"in the story later than it happens: {late}\n" + "\n".join(carried)
    assert len(carried) <= FUNCTIONS_MAX, "\n".join(carried)
    assert crossings <= CHANGES_MAX, "\n".join(carried)
    claim(
        f"{len(carried)} functions carry the reading through {crossings} changes of folder; {len(story)} are in the story"
    )
