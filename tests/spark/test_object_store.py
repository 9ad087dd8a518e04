"""A store in an object store under real Spark workers, which open it by its URI and share no memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.storage.store import Store
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.cloud_backend.spark.storage import object_server
from tests.cloud_backend.spark.storage.object_server import BUCKET, Server
from tests.spark.worlds import World

pytestmark = pytest.mark.spark


def counted_plan() -> Plan:
    """Three vertices, of which the last says something: each range of another one that did would be one more read."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    mine = up.tumbling("10s").aggregate(total=rs.sum("x"), cell=rs.last("cell"))
    cells = mine.key_by("cell", "device").tumbling("10s").aggregate(total=rs.sum("total"))
    everything = cells.key_by("cell").tumbling("10s").aggregate(cells=rs.count(), total=rs.sum("total"))
    return rs.plan_of(everything.subscribe("everything"), name="counted")


RANGES = 4
SETTINGS = JobSettings(epoch_s=0.0, balance=False, ranges=RANGES, collect_every=1000)


@pytest.fixture
def server() -> Iterator[Server]:
    with object_server.running() as server:
        yield server


def test_workers_write_one_object_each_and_ask_little(
    server: Server, runner: SparkRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(runner.session.sparkContext.environment, name, value)  # as spark.executorEnv at a start
    world = World(tmp_path, counted_plan(), devices=16, settings=SETTINGS, make_runner=lambda _: runner)
    world.store_dir = f"s3://{BUCKET}/workers"  # type: ignore[assignment]
    driver = world.driver(local_dir=tmp_path, clock=lambda: 1_000_000.0)  # epochs take less than five seconds
    counts = []
    for _ in range(5):
        world.append()
        server.requests()
        driver.drain()
        counts.append(server.requests())
    vertices, totals = len(driver.graph.order), [sum(each.values()) for each in counts]
    rows, digest = world.check(least_rows=40)
    assert len(Store(world.store_dir).object_names()) == 5 * vertices * RANGES
    assert vertices == 3
    assert sorted(totals)[len(totals) // 2] <= 3 * vertices * RANGES, counts
    claim(
        f"{vertices} vertices, {RANGES} ranges on Spark: {totals} requests per epoch, {dict(counts[-1])}, {rows} rows, digest {digest}"
    )
