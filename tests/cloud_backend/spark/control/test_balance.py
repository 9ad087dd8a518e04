"""Ranges split when hot, merge when idle, and phones are asked for less only once the log holds too much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_backend.spark.control.balance import Overload, redivision, sampling_rate
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.slots import Range, even_ranges
from tests.spark.worlds import World, cells_plan

LEFT, RIGHT = even_ranges(2)


@pytest.mark.covers("SO-33")
def test_a_range_above_ninety_percent_for_three_epochs_is_split() -> None:
    assert redivision({LEFT: [0.95, 0.97, 0.5], RIGHT: [0.5] * 3}) is None
    division = redivision({LEFT: [0.95, 0.97, 0.91], RIGHT: [0.5] * 3})
    assert division is not None
    assert division.old == (LEFT,)
    assert division.new == (Range(0, 256), Range(256, 512))


@pytest.mark.covers("SO-33")
def test_neighbours_under_thirty_percent_are_merged() -> None:
    division = redivision({LEFT: [0.2] * 3, RIGHT: [0.29] * 3})
    assert division is not None
    assert division.new == (Range(0, 1024),)
    assert redivision({LEFT: [0.2] * 3, RIGHT: [0.31] * 3}) is None


def test_a_single_hot_slot_is_not_divided() -> None:
    assert redivision({Range(5, 6): [2.0] * 3}) is None


@pytest.mark.covers("SO-34", "SO-35")
def test_overload_lowers_the_sampling_rate_and_relief_restores_it() -> None:
    limits = Overload(backlog_bytes_max=100, rate_min=0.25)
    rates = [1.0]
    for backlog in (50, 99, 101, 500, 500, 60, 40, 10, 0):
        rates.append(sampling_rate(backlog, rates[-1], limits))
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.25, 0.25, 0.25, 0.5, 1.0, 1.0]


@pytest.mark.covers("SO-33")
def test_a_hot_job_splits_its_ranges_and_keeps_its_answers(tmp_path: Path) -> None:
    # An epoch interval of a microsecond makes every task "hot".
    settings = JobSettings(epoch_s=1e-6, balance=True, ranges_max=6)
    world = World(tmp_path, cells_plan(), settings=settings)
    driver = world.driver()
    for _ in range(10):
        world.append(20)
        driver.drain()
    assert max(len(driver.manifest.ranges_at(name, 10)) for name in driver.graph.order) > 2
    world.check(least_rows=100)


@pytest.mark.covers("SO-34")
def test_five_times_the_load_is_absorbed_by_the_log_and_loses_nothing(tmp_path: Path) -> None:
    settings = JobSettings(epoch_s=0.0, balance=False, epochs_ahead_max=2, overload=Overload(backlog_bytes_max=20_000))
    world = World(tmp_path, cells_plan(), settings=settings)
    driver = world.driver()
    hints = driver.store.root / "hints.json"

    def asked() -> float:
        return float(json.loads(hints.read_text())["sampling_rate"])

    rates = []
    for _ in range(6):
        for _ in range(5):  # five times what one round takes
            world.append(30)
        driver.step()
        rates.append(asked())
    assert rates[0] == 1.0, "the log absorbs before phones are asked"
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 1.0, "then they are"
    driver.drain()
    assert asked() == driver.status()["sampling_rate"] == 1.0
    world.check(least_rows=500)
