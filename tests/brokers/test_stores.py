"""The same job on every store that can be had as a real server, its log in Kafka: results as on a disk.

Servers are downloaded and some are JVMs, so all of this is for soak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.storage.files import files_at
from tests.brokers.worlds import in_kafka
from tests.claims import Claim
from tests.cloud_backend.spark.storage import blob_server, hdfs_server, object_server
from tests.cloud_backend.spark.storage.test_files import demand_a_file_system, demand_one_winner
from tests.spark.worlds import World, cells_plan

pytestmark = [pytest.mark.brokers, pytest.mark.soak, pytest.mark.timeout(1800)]

DEVICES, EPOCHS = 12, 6
SETTINGS = JobSettings(epoch_s=0.0, balance=False)
Started = tuple[str, Mapping[str, str]]  # a location, and what the environment must say to use it


@contextmanager
def _hdfs(folder: Path) -> Iterator[Started]:
    with hdfs_server.running(folder / "hdfs") as server:
        yield f"{server.uri}/job", {"HADOOP_USER_NAME": "resurge"}


@contextmanager
def _azurite(folder: Path) -> Iterator[Started]:
    with blob_server.running(folder / "blobs") as server:
        yield f"{server.location}/job", server.environment


@contextmanager
def _moto(folder: Path) -> Iterator[Started]:
    with object_server.running() as server:
        yield f"s3://{object_server.BUCKET}/job", server.environment


SERVERS = {"hdfs": _hdfs, "azurite": _azurite, "moto": _moto}


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    runner: SparkRunner = request.getfixturevalue("runner")  # Hadoop's client runs in its JVM
    with SERVERS[request.param](tmp_path) as (location, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem(runner.session.sparkContext.environment, name, value)
        yield location


@pytest.mark.covers("SO-21")
def test_a_job_says_the_same_on_a_disk_and_on_this_store(
    tmp_path: Path, store: str, runner: SparkRunner, location: Callable[..., str], claim: Claim
) -> None:
    demand_a_file_system(files_at(f"{store}-files"))
    if not store.startswith("s3:"):  # that server looks and writes without a lock
        demand_one_winner(files_at(f"{store}-files"), files_at(f"{store}-files"), 25)
    local = World(tmp_path / "local", cells_plan(), devices=DEVICES, settings=SETTINGS)
    local.started(EPOCHS)
    world = World(tmp_path / "kafka", cells_plan(), devices=DEVICES, settings=SETTINGS, make_runner=lambda _: runner)
    log = in_kafka(world, location(4))
    world.store_dir = store  # type: ignore[assignment]
    driver = world.driver(local_dir=tmp_path)
    for _ in range(EPOCHS - 1):
        world.append()
        driver.drain()
    assert roll_back(store, "mine", 2).entry is not None
    driver = world.driver(local_dir=tmp_path)
    world.append()
    driver.drain()
    rows, digest = world.check(least_rows=50)
    assert digest == local.results.digest()
    claim(f"{store.partition(':')[0]}: {EPOCHS} epochs, 1 rollback, 1 restart, {rows} rows, digests {digest} {digest}")
    log.close()
