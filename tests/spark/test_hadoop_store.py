"""A store on a file system that Hadoop knows: `file:` and `viewfs:` through Hadoop, with the same client, the same calls,
and workers that open the store by its URI. A real HDFS is in `tests/brokers/test_stores.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import LocalRunner, SparkRunner
from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.storage import hadoop
from cloud_backend.spark.storage.files import files_at
from cloud_backend.spark.task import state
from resurge.up.free_ports import free_ports
from shared.errors import UsageError
from tests.cloud_backend.spark.storage.test_files import demand_a_file_system, demand_one_winner
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark


@pytest.fixture
def jvm(spark: object) -> None:
    """Hadoop's client runs in the session's JVM."""
    assert spark is not None


def test_hadoop_s_local_file_system_does_what_a_store_asks(tmp_path: Path, jvm: None) -> None:
    demand_a_file_system(files_at(f"file:{tmp_path}/store"))


def test_so_does_a_mount_table(tmp_path: Path, jvm: None) -> None:
    hadoop.configure({"fs.viewfs.mounttable.tests.link./store": f"file:{tmp_path}/store"})
    (tmp_path / "store").mkdir()
    demand_a_file_system(files_at("viewfs://tests/store"))
    assert (tmp_path / "store" / "a" / "entry").read_bytes() == b"mine"


def test_of_two_drivers_one_wins_each_entry(tmp_path: Path, jvm: None) -> None:
    files = files_at(f"file:{tmp_path}/store")
    demand_one_winner(files, files, 25)


def test_a_job_on_a_uri_survives_damage_and_rolls_back(tmp_path: Path, jvm: None) -> None:
    world = _world(tmp_path)
    driver = world.driver(local_dir=tmp_path)
    for _ in range(3):
        world.append()
        driver.drain()
    lineages = driver.manifest.vertices["cells"]
    (part,) = lineages[min(lineages)].commits[3].state
    (tmp_path / "store" / "files" / part.chain[-1]).write_bytes(b"damaged")
    state.forget_all()
    world.append()
    driver.drain()
    assert len(driver.manifest.rollbacks) == 1
    assert roll_back(str(world.store_dir), "mine", 2).entry is not None
    again = world.driver(local_dir=tmp_path)  # a restart finds it all by the URI
    again.drain()
    world.check(least_rows=50)
    assert job_facts(str(world.store_dir))["epoch"] == 4
    assert json.loads((tmp_path / "stable.json").read_bytes())["read"] > 0


def test_executors_open_the_store_by_its_uri(tmp_path: Path, runner: SparkRunner) -> None:
    world = _world(tmp_path, runner)
    driver = world.driver(local_dir=tmp_path)
    for _ in range(2):
        world.append()
        driver.drain()
    world.check(least_rows=20)


def test_a_name_node_that_does_not_answer_is_named_in_one_line(jvm: None) -> None:
    hadoop.configure({"ipc.client.connect.max.retries": "0", "ipc.client.connect.timeout": "1000"})
    (port,) = free_ports(1)
    with pytest.raises(UsageError) as error:
        files_at(f"hdfs://127.0.0.1:{port}/store")
    assert error.value.code == "store-unreachable"
    assert "ConnectException" in error.value.message
    assert "\n" not in error.value.message


def _world(root: Path, runner: SparkRunner | None = None) -> World:
    world = World(root, cells_plan(), make_runner=lambda _: runner or LocalRunner())
    world.store_dir = f"file:{root}/store"  # type: ignore[assignment]
    return world
