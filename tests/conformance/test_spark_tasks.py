"""The tasks that Spark runs, in this process: vertices, hash ranges, epochs and state files, and the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.evaluate import EPOCHS, Columns, _Evaluation, all_on_cloud
from cloud_backend.spark.evaluate import evaluate as evaluate_by_tasks
from cloud_backend.spark.manifest.entries import Division
from resurge import col
from resurge.evaluate import as_columns, evaluate, plan_of, with_readings
from shared.batch import END_OF_TIME
from tests.conformance.programs import case
from tests.conformance.running import bits

SEEDS = 36
MORE = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(SEEDS, 60)]


@pytest.mark.parametrize("seed", [*range(SEEDS), *MORE])
def test_tasks_give_the_rows_of_the_numpy_engine(seed: int) -> None:
    made = case(seed, rows=150)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    plan = plan_of(made.stream)
    given = {name: as_columns(plan, name, columns) for name, columns in made.inputs.items()}
    found = evaluate_by_tasks(plan, given, frontier_us=END_OF_TIME, runner=LocalRunner())
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, expected))


@pytest.mark.parametrize("again", [("part",), ("device",), ("device", "part")])
@pytest.mark.parametrize("before", [("tag",), ("device", "tag"), ("tag", "device"), ()])
def test_rows_of_one_time_keep_their_order_where_keys_meet_again(
    before: tuple[str, ...], again: tuple[str, ...]
) -> None:
    source = rs.stream("a", {"tag": "str", "part": "int64", "n": "int64"}).sync("a").key_by(*before)
    meeting = source.key_by(*again).state({"seen": 0}, keep=True, seen=rs.state.seen * 31 + col.n)
    rows = 240
    numbers = [(place * 7919) % 101 for place in range(rows)]
    inputs = {
        "a": {
            "time": [place // 40 for place in range(rows)],
            "n": list(range(rows)),
            "tag": [("b", "ab", "é", "a")[number % 4] for number in numbers],
            "part": [number % 3 for number in numbers],
            "device": [("bb", "aa")[number % 2] for number in numbers],
        }
    }
    plan = plan_of(meeting)
    given = {name: as_columns(plan, name, columns) for name, columns in inputs.items()}
    found = evaluate_by_tasks(plan, given, frontier_us=END_OF_TIME, runner=LocalRunner())
    expected = evaluate(meeting, inputs)["out"]
    assert len(expected["seen"]) == rows
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, bits(expected)))


class _Divided(_Evaluation):
    """Every range is split in the middle of the run: each half goes on from its own keys alone."""

    def _cut(self, given: Mapping[str, Columns], frontier_us: int) -> None:
        super()._cut(given, frontier_us)
        if self.epoch != EPOCHS:
            return
        for name in self.graph.order:
            if self.graph.vertices[name].key and not self.graph.vertices[name].ingest:
                for range_ in self.log.state.ranges_at(name, EPOCHS):
                    halves = tuple(replace(half, since=EPOCHS) for half in range_.halves())
                    self._append(Division(name, (range_,), halves, EPOCHS))


@pytest.mark.covers("SO-33")
@pytest.mark.parametrize("seed", [*range(0, SEEDS, 2), *MORE[::2]])
def test_a_split_in_the_middle_gives_the_same_rows_from_states_of_own_keys_only(seed: int, tmp_path: Path) -> None:
    made = case(seed, rows=150)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    plan = plan_of(made.stream)
    given = {name: as_columns(plan, name, columns) for name, columns in made.inputs.items()}
    divided = _Divided(tmp_path, all_on_cloud(plan), LocalRunner())
    found = divided.run(given, END_OF_TIME)
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, expected))


def test_a_sensor_read_on_request_gives_tasks_the_readings_a_device_took() -> None:
    second = 1_000_000
    low = rs.sensor("battery", every="30s").select(low=col.level < 0.2)
    signals = rs.timer("30s").with_latest(low).where(~col.low | (col.tick % 4 == 0))
    gps = signals.read("gps").key_by("device").tumbling("2m").aggregate(n=rs.count(), north=rs.max("lat"))
    times = [tick * 30 * second for tick in range(40)]
    inputs = {
        "timer 30s": {"time": times, "tick": list(range(40))},
        "battery": {"time": times, "level": [0.9] * 15 + [0.1] * 25, "charging": [False] * 40},
        "gps": {"time": times, "lat": [float(tick) for tick in range(40)]},
    }
    expected = evaluate(gps, inputs)["out"]
    assert expected["n"].sum() == 15 + 6  # ticks 16, 20, 24, 28, 32, 36
    plan = plan_of(gps)
    given = with_readings(plan, {name: as_columns(plan, name, each) for name, each in inputs.items()}, END_OF_TIME)
    found = evaluate_by_tasks(plan, given, frontier_us=END_OF_TIME, runner=LocalRunner())
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, bits(expected)))
