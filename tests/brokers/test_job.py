"""A Spark job whose log is in Kafka: the same results as over a log on disk, wherever its store is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloud_backend.log.partitions import open_log, place_in
from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.rollback.roll_back import roll_back
from shared.errors import ResurgeError
from shared.recovery.retention import Retention
from tests.brokers.cluster import Cluster
from tests.brokers.worlds import in_kafka
from tests.claims import Claim
from tests.cloud_backend.spark.storage import object_server
from tests.cloud_backend.spark.storage.object_server import BUCKET, Server
from tests.patience import wait_until
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.brokers

DEVICES = 12
SETTINGS = JobSettings(epoch_s=0.0, balance=False)
FORGETFUL = JobSettings(
    epoch_s=0.0, balance=False, collect_every=2, chain_max=2, retention=Retention(keep=3, every_s=0.0, hours=0.0)
)  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with object_server.running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.covers("SO-21")
@pytest.mark.parametrize("epochs", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_on_kafka_and_an_object_store_a_job_is_the_same_as_on_a_disk(
    tmp_path: Path, server: Server, runner: SparkRunner, location: Callable[..., str], epochs: int,
    monkeypatch: pytest.MonkeyPatch, claim: Claim,
) -> None:  # fmt: skip
    """Real Spark workers, each reading the partitions of its range; each slice ends in what was aborted."""
    local = World(tmp_path / "local", cells_plan(), devices=DEVICES, settings=SETTINGS)
    local.started(epochs)
    for name, value in server.environment.items():
        monkeypatch.setitem(runner.session.sparkContext.environment, name, value)  # as spark.executorEnv at a start
    world = World(tmp_path / "kafka", cells_plan(), devices=DEVICES, settings=SETTINGS, make_runner=lambda _: runner)
    log = in_kafka(world, location(4))
    world.store_dir = f"s3://{BUCKET}/kafka"  # type: ignore[assignment]
    driver = world.driver(local_dir=tmp_path)
    for _ in range(epochs - 1):
        world.append()
        driver.drain()
    assert roll_back(str(world.store_dir), "mine", 2).entry is not None
    driver = world.driver(local_dir=tmp_path)  # a restart finds its place in every partition
    world.append()
    driver.drain()
    rows, digest = world.check(least_rows=50)
    assert digest == local.results.digest()
    assert place_in(json.loads((tmp_path / "stable.json").read_bytes())["read"]) == open_log(log.location).ends()
    claim(
        f"{log.log.partitions} partitions, {log.aborted} records aborted, 1 rollback, {rows} rows, digests "
        f"{digest} {local.results.digest()}"
    )
    log.close()


def test_what_a_job_needs_no_more_is_trimmed_and_what_it_needs_is_missed_aloud(
    tmp_path: Path, location: Callable[..., str], claim: Claim
) -> None:
    world = World(tmp_path / "kafka", cells_plan(), devices=6, settings=FORGETFUL)
    log = in_kafka(world, location(2))
    driver = world.driver()
    for _ in range(6):
        world.append()
        driver.drain()
        log.trim(place_in(json.loads((world.store_dir / "stable.json").read_bytes())))
    assert log.trimmed > 0
    digest = world.results.digest()
    world.driver().drain()  # a restart finds all that it needs
    assert world.results.digest() == digest
    before = world.driver().status()["epoch"]
    world.append()
    log.trim(open_log(log.location).ends())  # past the job
    with pytest.raises(ResurgeError) as error:
        world.driver().drain()
    assert error.value.code == "log-trimmed"
    assert world.results.digest() == digest
    claim(f"{log.trimmed} records trimmed, {before} epochs, then 1 trim past the job, digests {digest} {digest}")
    log.close()


@pytest.mark.soak
def test_a_job_goes_on_when_a_broker_that_leads_is_killed(
    tmp_path: Path, cluster: Cluster, location: Callable[..., str], claim: Claim
) -> None:
    local = World(tmp_path / "local", cells_plan(), devices=6, settings=SETTINGS)
    local.started(3)
    world = World(tmp_path / "kafka", cells_plan(), devices=6, settings=SETTINGS)
    log = in_kafka(world, location(2))
    driver = world.driver()
    for epoch in range(3):
        if epoch == 1:
            cluster.broker(1).kill()
        world.append()
        driver.drain()
    cluster.start_all()
    rows, digest = world.check(least_rows=20)
    assert digest == local.results.digest()
    claim(f"1 broker killed, {rows} rows, digests {digest} {local.results.digest()}")
    wait_until(cluster.broker(1).is_listening, "the broker is back")
    log.close()
