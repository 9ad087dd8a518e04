"""What the job tells the gateway about its log, and that the gateway may act on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_backend.gateway.gateway import Gateway
from cloud_backend.gateway.settings import Settings
from cloud_backend.log.log import Log
from cloud_backend.log.reader import Reader
from cloud_backend.spark.control.balance import Overload
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.control.log_needs import LogUse, Use
from shared.identity import device_id
from shared.recovery.retention import Retention
from shared.spool.disk import PosixDisk
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan, trips_plan

SETTINGS = JobSettings(
    epoch_s=0.0, balance=False, collect_every=2, chain_max=2, retention=Retention(keep=3, every_s=0.0, hours=0.0)
)  # fmt: skip


def world_of_small_segments(root: Path, settings: JobSettings = SETTINGS) -> World:
    world = World(root, cells_plan(), settings=settings)
    world.log.close()
    world.log = Log.open(PosixDisk(world.log_dir), segment_bytes=4000)
    return world


@pytest.mark.covers("SO-22")
def test_a_job_goes_on_after_its_log_was_trimmed_by_what_it_made_stable(tmp_path: Path, claim: Claim) -> None:
    trimmed, whole = world_of_small_segments(tmp_path / "trimmed"), world_of_small_segments(tmp_path / "whole")
    freed = 0
    driver, other = trimmed.driver(), whole.driver()
    for epoch in range(14):
        trimmed.append()
        driver.drain()
        whole.append()
        other.drain()
        offsets = json.loads((trimmed.store_dir / "stable.json").read_bytes())
        assert offsets["read"] == trimmed.log.durable_end == Reader(trimmed.log_dir).valid_end()
        assert offsets["0"] <= offsets["read"]
        freed += trimmed.log.trim(offsets["0"])
        if epoch == 11:
            record = next(iter((trimmed.store_dir / "files").glob("mine.*.delta")))
            record.write_bytes(b"damaged")  # a rollback inside the horizon must still find its part of the log
            driver = trimmed.driver()  # and a new driver everything it starts from
    claim(f"{freed} bytes freed, the log starts at {trimmed.log.start}")
    assert freed == trimmed.log.start > 0
    assert trimmed.results.digest() == whole.results.digest()
    whole.check(least_rows=100)


@pytest.mark.covers("SO-35")
def test_the_rate_a_job_asks_for_reaches_devices_and_is_lifted_again(tmp_path: Path) -> None:
    settings = JobSettings(epoch_s=0.0, balance=False, overload=Overload(backlog_bytes_max=3000))
    world = World(tmp_path / "world", trips_plan(), settings=settings)
    driver = world.driver()
    gateway = Gateway(Settings(tmp_path / "home", hints=world.store_dir / "hints.json", reserve_bytes=0))
    phone = device_id(b"phone")

    def rate() -> float:
        gateway.follow_hints()
        hint = gateway.downlink.hint(phone)
        return 1.0 if hint is None else hint.rates["*"]

    assert rate() == 1.0
    world.append(400)
    driver.step()
    assert rate() == 0.5
    driver.drain()
    assert rate() == 1.0


def test_a_new_driver_does_not_leave_the_hint_of_the_one_before(tmp_path: Path) -> None:
    world = World(tmp_path, trips_plan())
    (world.store_dir).mkdir(exist_ok=True)
    (world.store_dir / "hints.json").write_text('{"sampling_rate": 0.25}')
    world.append()
    world.driver().drain()
    assert json.loads((world.store_dir / "hints.json").read_bytes())["sampling_rate"] == 1.0


def test_a_job_that_is_stopped_does_not_work_on_the_log(tmp_path):
    use = LogUse(tmp_path)
    for job in ("main", "query"):
        use.say(job, Use({"0": 5}, {"0": 9}))
    assert use.reading() == 2
    use.pause("query")
    assert use.reading() == 1
