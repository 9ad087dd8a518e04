"""Rows that come too late for windows: counted where they were left out, and handed on by `late()`."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from resurge import plan_of
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.errors import UsageError
from shared.plan.late_account import late_account, late_words
from shared.plan.placement import cloud_fragment
from shared.stream.stream import Stream
from shared.stream.windowed import WindowedStream

SECOND = 1_000_000
DEVICES = ("ann", "bob")
OPENED = {
    "tumbling": lambda x: x.tumbling("3s"),
    "lateness": lambda x: x.tumbling("3s", lateness="4s"),
    "hopping": lambda x: x.hopping("4s", every="2s", lateness="1s"),
    "sliding": lambda x: x.sliding("2s"),
    "session": lambda x: x.session("2s", lateness="2s"),
    "calendar": lambda x: x.tumbling("1d", zone="Asia/Tokyo", lateness="2s"),
}


def source() -> Stream:
    return rs.sensor("a", every="1s", columns={"n": "int64"}).sync("a")


def fragment(opened: WindowedStream):
    return cloud_fragment(
        plan_of(opened.aggregate(rows=rs.count()).subscribe("windows"), opened.late().subscribe("late"))
    )


def pushed(pipeline: Pipeline, time: int, device: str, number: int) -> list[int]:
    batch = Batch.of(pipeline.fragment.inputs[0].schema, {"device": [device], "n": [number]}, [time], lo=number)
    return [n for name, out in pipeline.push("a", batch) if name == "late" for n in out.columns["n"].tolist()]


@pytest.mark.parametrize("key", [("device",), ()])
@pytest.mark.parametrize("name", OPENED)
def test_late_has_exactly_the_rows_that_windows_count_as_dropped(name: str, key: tuple[str, ...]) -> None:
    opened = OPENED[name](source().key_by(*key))
    lateness = opened.lateness_us
    part = fragment(opened)
    pipeline = Pipeline(part)
    draw = np.random.default_rng(7)
    frontiers = dict.fromkeys(DEVICES, 0)
    expected, found = [], []
    for number in range(200):
        device = str(draw.choice(DEVICES))
        time = int(draw.integers(0, 30)) * SECOND // 2 + number * SECOND // 10
        frontier = frontiers[device] if key else min(frontiers.values())
        if time < frontier - lateness:
            expected.append(number)
        found += pushed(pipeline, time, device, number)
        if draw.random() < 0.3:
            frontiers[device] = max(frontiers[device], number * SECOND // 10 + int(draw.integers(0, 9)) * SECOND)
            found += [
                n
                for out_name, out in pipeline.advance_devices("a", {device: frontiers[device]})
                if out_name == "late"
                for n in out.columns["n"].tolist()
            ]
        if draw.random() < 0.1:
            state, pipeline = pipeline.snapshot(), Pipeline(part)
            pipeline.restore(state)
    assert found == expected
    assert 1 < len(expected) < 150
    assert list(pipeline.late().values()) == [len(expected)]


def test_the_account_says_where_and_why() -> None:
    part = fragment(source().tumbling("3s", lateness="1h"))
    pipeline = Pipeline(part)
    pipeline.advance_devices("a", {"ann": 3 * 3600 * SECOND})
    assert pushed(pipeline, 0, "ann", 0) == [0]
    (entry,) = late_account(part.nodes, pipeline.late())
    assert entry["operator"] == "tumbling 3s: rows=count(), corrections for 1h"
    assert entry["reason"] == "more than 1h behind the frontier"
    assert entry["rows"] == 1
    assert entry["line"].startswith("test_late_rows.py:")
    assert late_words([entry]).startswith("1 rows too late, more than 1h behind the frontier: tumbling 3s")


def test_evaluate_sees_all_rows_before_time_moves_so_none_is_late() -> None:
    opened = rs.stream("x", {"n": "int64"}).tumbling("1s")
    rows = {"x": {"time": [9 * SECOND, 0], "n": [1, 2]}}
    assert rs.evaluate(opened.late(), rows)["out"]["n"].tolist() == []


def test_count_windows_have_no_late_rows() -> None:
    with pytest.raises(UsageError) as caught:
        source().tumbling(count=3).late()
    assert caught.value.code == "window-lateness"
