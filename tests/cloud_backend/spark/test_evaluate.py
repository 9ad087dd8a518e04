"""`evaluate(engine="spark")` gives what the numpy engine gives where epochs could show: cycles, single rows, many rows."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.evaluate import evaluate as evaluate_by_tasks
from cloud_backend.spark.graph import EdgeInput, LogInput, job_graph
from resurge import col
from resurge.evaluate import as_columns, evaluate, plan_of
from shared.batch import END_OF_TIME
from shared.errors import UsageError
from shared.stream.stream import Stream
from tests.conformance.running import bits

S = 1_000_000


def same_by_tasks(stream: Stream, *, frontier_us: int = END_OF_TIME, **inputs: dict[str, object]) -> int:
    """Asserts that both give the same rows, in whatever order; how many."""
    expected = bits(evaluate(stream, inputs, frontier_us=frontier_us)["out"])
    plan = plan_of(stream)
    given = {name: as_columns(plan, name, columns) for name, columns in inputs.items()}
    found = evaluate_by_tasks(plan, given, frontier_us=frontier_us, runner=LocalRunner())
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, expected))
    return len(expected)


def doubled_until_four(merge: str) -> Stream:
    loop = rs.feedback("loop", {"v": "float64"})
    both = rs.stream("x", {"v": "float64"}).union(loop, merge=merge)
    both.where(col.v < 4).select(v=col.v * 2).feed(loop)
    return both


@pytest.mark.covers("EC-4")
@pytest.mark.parametrize("merge", ["arrival", "logged"])
@pytest.mark.parametrize("frontier_us", [END_OF_TIME, 3 * S])
def test_a_cycle_runs_dry_before_time_moves(merge: str, frontier_us: int) -> None:
    rows = {"time": [0, 1 * S, 2 * S], "v": [1.0, 1.5, 3.0]}
    both = doubled_until_four(merge)
    assert same_by_tasks(both, frontier_us=frontier_us, x=rows) == 8
    windows = both.tumbling("2s").aggregate(n=rs.count(), v=rs.sum("v"))
    assert same_by_tasks(windows, frontier_us=frontier_us, x=rows) == (2 if frontier_us == END_OF_TIME else 1)


def test_a_cycle_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud_backend.spark.evaluate.FEEDBACK_ROUNDS_MAX", 3)
    loop = rs.feedback("loop", {"v": "float64"})
    both = rs.stream("x", {"v": "float64"}).union(loop, merge="arrival")
    both.feed(loop)
    plan = plan_of(both)
    given = {"x": as_columns(plan, "x", {"time": [0], "v": [1.0]})}
    with pytest.raises(UsageError, match="went round a cycle 3 times"):
        evaluate_by_tasks(plan, given, frontier_us=END_OF_TIME, runner=LocalRunner())


@pytest.mark.parametrize("rows", [0, 1, 1_000_000])
def test_the_number_of_rows_changes_no_meaning(rows: int) -> None:
    draw = np.random.default_rng(2)
    given = {"time": np.arange(rows) * 1_000, "v": draw.standard_normal(rows), "k": draw.integers(0, 7, rows)}
    stream = rs.stream("x", {"v": "float64", "k": "int64"}).where(col.v > -1.0).sync("x").key_by("k")
    windows = stream.tumbling("10s").aggregate(n=rs.count(), v=rs.sum("v"), high=rs.max("v"))
    assert same_by_tasks(windows, x=given) == {0: 0, 1: 1, 1_000_000: 700}[rows]


def test_rows_that_are_keyed_by_what_was_computed_from_their_key_all_arrive() -> None:
    keyed = rs.stream("x", {"k": "int64", "v": "float64"}).sync("x").key_by("k")
    rows = {"time": np.arange(12) * 50_000, "k": np.arange(12), "v": np.arange(12.0)}
    halves = keyed.extend(half=col.k % 2).key_by("half")
    assert same_by_tasks(halves.tumbling("1s").aggregate(n=rs.count()), x=rows) == 2
    assert same_by_tasks(halves.state({"n": 0}, n=rs.state.n + 1), x=rows) == 12


def test_a_region_gives_on_spark_what_it_gives_near_the_devices() -> None:
    near = rs.stream("x", {"v": "float64"}).gather("x")
    mean = near.key_by().tumbling("2s").aggregate(v=rs.mean("v"), n=rs.count())
    rows = {"time": [0, 1, 1 * S, 5 * S], "device": ["ann", "bo", "bo", "ann"], "v": [1.0, 2.0, 4.0, 8.0]}
    assert same_by_tasks(mean, x=rows) == 2
    assert same_by_tasks(mean.sync("up").where(col.n > 1), x=rows) == 1
    assert same_by_tasks(near.where(col.v > 1).sync("up").tumbling("1s").aggregate(n=rs.count()), x=rows) == 3


def test_a_job_reads_rows_that_have_met_by_their_own_key() -> None:
    """The log has them under the query, not under the device whose key they have."""
    near = rs.stream("x", {"v": "float64"}).gather("x")
    graph = job_graph(rs.plan_of(near.sync("up").tumbling("1s").aggregate(n=rs.count()).subscribe("all")))
    assert graph.met == {"up"}
    assert [type(each) for each in graph.vertices["all"].inputs] == [EdgeInput]
    assert graph.vertices["ingest up"].inputs == (LogInput("up"),)
    own = rs.stream("x", {"v": "float64"}).sync("up").tumbling("1s").aggregate(n=rs.count()).subscribe("all")
    assert job_graph(rs.plan_of(own)).vertices["all"].inputs == (LogInput("up"),)
