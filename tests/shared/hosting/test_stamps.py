"""Operators that are applied on the way: each once, by whoever, and the rows come out the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resurge as rs
from resurge import col
from shared.batch import Batch
from shared.errors import PeerError, UsageError
from shared.hosting import stamps
from shared.hosting.stamps import Run, Runs, gather_run, runs_of, stamp_after, without_run
from shared.identity import EdgeId
from shared.language.codecs import NONE
from shared.plan.cuts import region_vertices
from shared.plan.graph import Plan
from shared.spool.entry import SpooledBatch
from shared.wire import codecs

DEVICE = "ab" * 16
FROZEN = 0x5A4E6EEA  # devices have batches with such stamps for weeks


def program(factor: int = 2, *, limit: int = 40) -> Plan:
    rows = rs.sensor("x", every="1s", columns={"x": "float64", "unused": "str"}).gather("g")
    run = rows.where(col.x > 3).select("device", x=col.x + 1).where(col.x < limit).select("device", x=col.x * factor)
    return rs.plan_of(run.sliding(count=2).aggregate(s=rs.sum("x")).subscribe("out"))


def runs(plan: Plan, *retired: Plan) -> Runs:
    found = runs_of(plan, "g", retired)
    assert found is not None
    return found


RUNS = runs(program())


def raw(lo: int = 0, hi: int = 60) -> SpooledBatch:
    numbers = np.arange(lo, hi)
    schema = RUNS.run.stages[0].wire
    batch = Batch.of(
        schema, {"x": numbers * 1.0, "unused": np.array(["-"] * len(numbers), object)}, numbers * 10, lo=lo
    )
    codec, payload = codecs.encode(batch, NONE)
    return SpooledBatch(EdgeId(1), lo, hi, hi - lo, schema.id, 0, hi * 10, codec, payload)


def finished(batch: SpooledBatch, by: Runs) -> list[tuple[int, float, str]]:
    rows = codecs.decode(
        batch.codec, batch.payload, by.wire_schema(batch.applied), lo=batch.lo, hi=batch.hi,
        frontier_us=batch.frontier_us, applied=batch.applied,
    )  # fmt: skip
    rows = by.finish(rows, DEVICE)
    assert (rows.lo, rows.hi, rows.frontier_us) == (batch.lo, batch.hi, batch.frontier_us)
    return list(zip(rows.seq.tolist(), rows.columns["x"].tolist(), rows.columns["device"].tolist(), strict=True))


WHOLE = [(n, (n + 1.0) * 2, DEVICE) for n in range(60) if n > 3 and n + 1 < 40]


def test_a_run_ends_before_what_keeps_state() -> None:
    assert len(RUNS) == 4
    (vertex,) = region_vertices(program())
    rest = without_run(vertex, [RUNS.run])
    assert [node.operator.kind for node in rest.operators] == ["window"]
    assert len({stage.stamp for stage in RUNS.run.stages}) == 5


def test_a_stamp_never_changes() -> None:
    assert stamp_after(0, "a filter") == FROZEN
    assert stamp_after(stamp_after(0, "a"), "b") != stamp_after(stamp_after(0, "b"), "a")


@pytest.mark.covers("NB-12")
@given(st.lists(st.integers(0, 4), max_size=5))
def test_rows_come_out_the_same_whoever_applies_what(uptos: list[int]) -> None:
    """Same, more or fewer operators at each node of the way: that one rule."""
    batch = raw()
    for upto in uptos:
        before = RUNS.run.place(batch.applied)
        batch = RUNS.forward(batch, upto, DEVICE)
        assert RUNS.run.place(batch.applied) == max(upto, before or 0), "more than applied is passed on as it is"
        assert (batch.lo, batch.hi, batch.frontier_us) == (0, 60, 600)
    assert finished(batch, RUNS) == WHOLE


def test_a_batch_of_which_no_row_is_left_still_covers_its_numbers() -> None:
    batch = RUNS.forward(raw(0, 3), 1, DEVICE)
    assert (batch.lo, batch.hi, batch.rows) == (0, 3, 0)
    assert finished(batch, RUNS) == []


def test_what_stands_in_every_row_does_not_travel() -> None:
    assert [name for stage in RUNS.run.stages for name in stage.wire.names] == [
        "x",
        "unused",
        "x",
        "unused",
        "x",
        "x",
        "x",
    ]


def test_an_edited_query_goes_on_with_what_is_in_common() -> None:
    after = runs(program(3), program(2))
    for upto in range(4):
        assert finished(RUNS.forward(raw(), upto, DEVICE), after) == [(n, x * 1.5, d) for n, x, d in WHOLE]


def test_what_met_an_operator_that_is_no_more_finishes_under_the_retired_query() -> None:
    after = runs(program(3), program(2))
    batch = RUNS.forward(raw(), 4, DEVICE)
    assert after.forward(batch, 4, DEVICE) == batch
    assert finished(batch, after) == WHOLE
    assert batch.applied not in after.stamps()


def test_a_stamp_that_nobody_knows_is_refused() -> None:
    with pytest.raises(PeerError, match="hosting-stamp"):
        RUNS.wire_schema(12345)


def test_stamps_that_collide_are_refused_at_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "stamp_after", lambda stamp, _: 0 if stamp else 7)
    with pytest.raises(UsageError, match="deployment-stamp"):
        gather_run(region_vertices(program()), "g")


def test_stamps_of_an_old_and_a_new_run_that_collide_are_refused() -> None:
    old, new = runs(program(2)).run, runs(program(3)).run
    stages = (*new.stages[:4], replace(new.stages[4], stamp=old.stages[4].stamp))
    forged = Run.__new__(Run)
    forged.gather, forged.nodes, forged.stages = new.gather, new.nodes, stages
    with pytest.raises(UsageError, match="deployment-stamp"):
        Runs(forged, [old])


def test_an_edit_that_changes_the_columns_behind_the_run_is_refused() -> None:
    rows = rs.sensor("x", every="1s", columns={"x": "float64", "unused": "str"}).gather("g")
    windows = rows.select("device", x=col.x, y=-col.x).sliding(count=2)
    other = rs.plan_of(windows.aggregate(s=rs.sum("x"), u=rs.sum("y")).subscribe("out"))
    with pytest.raises(UsageError, match="deployment-retired"):
        runs(other, program())
