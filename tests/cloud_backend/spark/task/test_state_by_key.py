"""State of single keys: dropped by the half of a split that does not own them, quarantined when no operator can bear it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.manifest.entries import Division
from cloud_backend.spark.manifest.quarantine import quarantine
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.slots import Range, slot_of_text
from cloud_backend.spark.task import state
from cloud_backend.spark.task.failing_keys import keys_that_raise
from shared.engine.pipeline import Pipeline
from shared.plan.graph import Plan
from shared.plan.vertices import vertices
from tests.spark.worlds import World, cells_plan

CURED: list[bool] = []


@rs.operator("tests_picky_window", takes={"x": "float64"}, gives={"total": "float64"}, over="window")
def picky(window: dict[str, np.ndarray]) -> dict[str, object]:
    """Raises when the window closes, epochs after the batch that it cannot bear came."""
    if bool((window["x"] == 666.0).any()) and not CURED:
        raise ValueError("cannot bear 666")
    return {"total": float(window["x"].sum())}


def picky_plan(*key: str) -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    keyed = up.key_by(*key) if key != ("device",) else up
    return rs.plan_of(keyed.tumbling("100s").apply("tests_picky_window").subscribe("out"), name="picky")


def split(driver: JobManager, vertex: str) -> None:
    at = driver.manifest.position(vertex)
    for range_ in driver.manifest.ranges_at(vertex, at + 1):
        new = tuple(replace(half, since=at + 1) for half in range_.halves())
        assert driver._append(Division(vertex, (range_,), new, at + 1))


def held(driver: JobManager, vertex: str, range_: Range) -> list[str]:
    """The devices that the range's stored state holds."""
    (part,) = driver.manifest.vertices[vertex][range_].commits[driver.manifest.position(vertex)].state
    described = next(each for each in vertices(driver.graph.plan) if each.name == vertex)
    state.forget_all()
    loaded = state.load(driver.store, ("", "", ""), part.chain, lambda: Pipeline(described)).pipeline
    assert isinstance(loaded, Pipeline)
    return [str(key[0]) for key in loaded.distinct_keys(("device",))]


@pytest.mark.covers("SO-33")
def test_after_a_split_each_half_stores_its_own_keys_only(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(), devices=24)
    driver = world.driver()
    world.append()
    driver.drain()
    everyone = {device.hex() for device in world.ids}
    split(driver, "mine")
    world.append()
    driver.drain()
    quarters = driver.manifest.ranges_at("mine", 2)
    assert len(quarters) == 4
    found = {quarter: held(driver, "mine", quarter) for quarter in quarters}
    assert sorted(name for names in found.values() for name in names) == sorted(everyone)  # each in exactly one
    for quarter, names in found.items():
        assert all(quarter.lo <= slot_of_text(name) < quarter.hi for name in names)
    (part,) = driver.manifest.vertices["mine"][quarters[0]].commits[2].state
    assert [name.rsplit(".", 1)[1] for name in part.chain] == ["base"]
    world.append()
    driver.drain()
    (part,) = driver.manifest.vertices["mine"][quarters[0]].commits[3].state
    assert [name.rsplit(".", 1)[1] for name in part.chain] == ["base", "delta"]  # only once
    world.check(least_rows=50)


def test_a_split_whose_first_epoch_is_rolled_back_starts_again_from_the_whole_state(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(), devices=12)
    driver = world.driver()
    world.append()
    driver.drain()
    split(driver, "mine")
    world.append()
    driver.drain()
    state.forget_all()
    roll_back(world.store_dir, "mine", 1)
    world.append()
    driver.drain()
    world.check(least_rows=50)


@pytest.mark.parametrize("key", [("device",), ("cell",), ()], ids=["device", "cell", "none"])
def test_poison_in_old_window_state_costs_its_key_and_never_stops_the_range(
    tmp_path: Path, key: tuple[str, ...]
) -> None:
    CURED.clear()
    world = World(tmp_path, picky_plan(*key))
    driver = world.driver()
    world.append(poison=2)  # seconds 0 to 29: nothing closes, nothing raises
    driver.drain()
    assert quarantine(driver.manifest) == []
    for _ in range(4):  # the window [0, 100) closes in epoch 4
        world.append()
        driver.drain()
    assert not driver.failures.waiting()
    assert driver.manifest.position(driver.graph.order[-1]) == driver.manifest.last_cut == 5
    (entry,) = quarantine(driver.manifest)
    assert (entry["epoch"], entry["code"], entry["elements"]) == (4, "task-state", 0)
    assert entry["reason"] == "ValueError: cannot bear 666"
    rows = world.results.latest("out")
    if key == ("device",):
        assert entry["device"] == world.ids[2].hex()
        closed = {row.key[0] for row in rows if row.window_start_us == 0}
        assert closed == {device.hex() for device in world.ids} - {world.ids[2].hex()}
    else:
        assert entry["device"] == ""
        assert len(entry["key"]) == len(key)
    for _ in range(4):
        world.append()
        driver.drain()
    second = {row.key for row in world.results.latest("out") if row.window_start_us == 100_000_000}
    assert len(second) == {("device",): 6, ("cell",): 5, (): 1}[key]  # every key goes on


def test_a_corrected_operator_takes_the_key_back_in(tmp_path: Path) -> None:
    CURED.clear()
    world = World(tmp_path, picky_plan("device"))
    driver = world.driver()
    world.append(poison=2)
    for _ in range(4):
        world.append()
        driver.drain()
    assert len(quarantine(driver.manifest)) == 1
    CURED.append(True)
    (vertex,) = driver.graph.order
    roll_back(world.store_dir, vertex, 2)
    driver.drain()
    assert quarantine(driver.manifest) == []
    world.check(least_rows=6)
    CURED.clear()


def test_the_search_finds_exactly_the_keys_that_raise() -> None:
    keys = [(number,) for number in range(1000)]
    bad = {(3,), (4,), (777,)}
    asked: list[int] = []

    def raises(several: object) -> bool:
        asked.append(len(set(several)))  # type: ignore[call-overload]
        return bool(bad & set(several))  # type: ignore[call-overload]

    assert sorted(keys_that_raise(keys, raises)) == sorted(bad)
    assert len(asked) < 80


def test_keys_that_raise_only_together_go_together() -> None:
    together = {(1,), (900,)}
    keys = [(number,) for number in range(1000)]
    assert together <= set(keys_that_raise(keys, lambda several: together <= set(several)))
