"""The results store: one transaction per publish, one meaning per revision, one sequence per device."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud_backend.results.store import ResultRow, Results, digest_of
from shared.errors import BrokenInvariant, UsageError

PHONE = "aa" * 16
OTHER = "bb" * 16


def row(
    window: int = 0, *, device: str = PHONE, revision: int = 1, km: float = 1.5, retract: bool = False
) -> ResultRow:
    return ResultRow(
        sink="my_trips", device=device, key=(device,), window_start_us=window * 60, window_end_us=window * 60 + 60,
        revision=revision, retract=retract, complete=True, values={"km": km, "points": 3},
    )  # fmt: skip


@pytest.fixture
def results(where):
    store = Results(where("results.db"))
    yield store
    store.close()


def test_a_published_row_is_what_its_sink_says(results):
    assert results.publish(1, [row(0), row(1)]) == 2
    assert results.latest("my_trips") == [row(0), row(1)]
    assert results.latest("my_trips", limit=1) == [row(1)]
    assert results.sinks() == {"my_trips": 2}
    assert results.epoch() == 1


def test_publishing_an_epoch_again_changes_nothing(results):
    results.publish(1, [row(0), row(1)])
    before = (results.digest(), results.downlink(PHONE, 0))
    assert results.publish(1, [row(1), row(0)]) == 0
    assert (results.digest(), results.downlink(PHONE, 0)) == before


def test_only_a_higher_revision_is_a_new_answer(results):
    results.publish(1, [row(0, revision=2, km=2.0)])
    assert results.publish(2, [row(0, revision=1, km=1.0)]) == 0
    assert results.latest("my_trips") == [row(0, revision=2, km=2.0)]
    assert results.publish(3, [row(0, revision=3, km=3.0)]) == 1
    assert results.latest("my_trips") == [row(0, revision=3, km=3.0)]


@pytest.mark.covers("T11")
def test_a_corrected_epoch_is_applied_by_revision(results):
    results.publish(7, [row(0), row(1)])
    assert results.publish(7, [row(0), row(1, revision=2, km=9.0)]) == 1
    assert [answer.values["km"] for answer in results.latest("my_trips")] == [1.5, 9.0]


def test_two_answers_under_one_revision_are_refused_and_nothing_of_the_epoch_is_kept(results):
    results.publish(1, [row(0)])
    with pytest.raises(BrokenInvariant, match="results-revision"):
        results.publish(2, [row(1), row(0, km=7.0)])
    assert results.latest("my_trips") == [row(0)]
    assert results.epoch() == 1


def test_a_retraction_removes_the_row_and_an_older_answer_cannot_bring_it_back(results):
    results.publish(1, [row(0), row(1)])
    results.publish(2, [row(0, revision=2, retract=True)])
    assert results.latest("my_trips") == [row(1)]
    assert results.publish(3, [row(0)]) == 0
    assert results.latest("my_trips") == [row(1)]
    results.publish(4, [row(0, revision=3)])
    assert results.sinks() == {"my_trips": 2}


def test_each_device_has_its_own_downlink_without_gaps(results):
    results.publish(1, [row(0), row(0, device=OTHER), row(1)])
    results.publish(2, [row(1, revision=2, km=4.0), row(1, device="")])
    assert [(seq, answer.revision) for seq, answer in results.downlink(PHONE, 0)] == [(1, 1), (2, 1), (3, 2)]
    assert [seq for seq, _ in results.downlink(OTHER, 0)] == [1]
    assert [seq for seq, _ in results.downlink(PHONE, 1, limit=1)] == [2]
    assert results.downlink_head(PHONE) == 3


def test_a_downlink_number_is_never_reused_after_everything_was_trimmed(results):
    results.publish(1, [row(0), row(1)])
    assert results.trim(PHONE, 2) == 2
    assert results.downlink(PHONE, 0) == []
    results.publish(2, [row(2)])
    assert [seq for seq, _ in results.downlink(PHONE, 0)] == [3]


def test_changes_go_on_from_where_a_reader_stopped(results):
    results.publish(1, [row(0), row(1)])
    change, seen = results.changes(0)
    assert seen == [row(0), row(1)]
    results.publish(2, [row(0, revision=2, retract=True)])
    after, seen = results.changes(change)
    assert (seen, results.changes(after)) == ([row(0, revision=2, retract=True)], (after, []))


def test_digest_says_what_the_rows_say_and_not_how_often_it_was_said(where):
    straight, corrected = Results(where("a.db")), Results(where("b.db"))
    straight.publish(1, [row(0, km=2.0), row(1)])
    corrected.publish(1, [row(1), row(0), row(5)])
    corrected.publish(2, [row(0, revision=2, km=2.0), row(5, revision=2, retract=True)])
    assert straight.digest() == corrected.digest() == digest_of([row(1), row(0, km=2.0)])
    assert straight.digest() != digest_of([row(1), row(0, km=math.nextafter(2.0, 3))])
    straight.close()
    corrected.close()


def test_values_come_back_bit_for_bit(results):
    values = {
        "tiny": 5e-324, "minus_zero": -0.0, "infinite": math.inf, "text": "f0x1p+0 \u2713", "big": 2**64 - 1,
        "flag": True, "numpy": np.float32(0.1), "count": np.uint8(7),
    }  # fmt: skip
    results.publish(1, [replace(row(0), values=values)])
    [answer] = results.latest("my_trips")
    assert dict(answer.values) == {name: getattr(value, "item", lambda v=value: v)() for name, value in values.items()}
    assert math.copysign(1, answer.values["minus_zero"]) == -1
    results.publish(2, [replace(row(1), values={"missing": math.nan})])
    assert math.isnan(results.latest("my_trips")[1].values["missing"])


def test_a_value_that_is_not_a_scalar_is_refused_by_name(results):
    with pytest.raises(UsageError, match="a list; expected bool, int, float or text"):
        results.publish(1, [replace(row(0), values={"points": [1, 2]})])


def test_two_processes_see_one_store(where):
    job, gateway = Results(where("results.db")), Results(where("results.db"))
    job.publish(1, [row(0)])
    assert gateway.latest("my_trips") == [row(0)]
    job.close()
    gateway.close()


DYING_JOB = """
import os, sys
from cloud_backend.results import store
from tests.cloud_backend.results.test_store import row

steps = 0

def step(statement):
    global steps
    steps += statement.startswith(("INSERT", "COMMIT"))
    if steps == int(sys.argv[2]):
        os._exit(9)

results = store.Results(sys.argv[1])
results._database._kept.statements.set_trace_callback(step)  # is called before each statement
results.publish(2, [row(0, revision=2, km=2.0), row(1)])
"""


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.soak] * (step % 3 != 0)) for step in range(1, 9)]
)
def test_a_job_that_dies_between_two_steps_of_a_publish_leaves_none_of_it(tmp_path, step):
    path = tmp_path / "results.db"
    store = Results(path)
    store.publish(1, [row(0)])
    root = str(Path(__file__).parents[3])
    dead = subprocess.run(
        [sys.executable, "-c", DYING_JOB, str(path), str(step)], cwd=root, env=os.environ | {"PYTHONPATH": root},
        check=False,
    )  # fmt: skip
    assert dead.returncode == 9
    assert store.latest("my_trips") == [row(0)]
    assert [seq for seq, _ in store.downlink(PHONE, 0)] == [1]
    # Its successor publishes the same epoch again, and everything is there once.
    assert store.publish(2, [row(0, revision=2, km=2.0), row(1)]) == 2
    assert store.latest("my_trips") == [row(0, revision=2, km=2.0), row(1)]
    assert [seq for seq, _ in store.downlink(PHONE, 0)] == [1, 2, 3]


def test_a_session_retracts_those_it_has_grown_over_and_no_other(results):
    def session(start: int, end: int, *, revision: int, device: str = PHONE) -> ResultRow:
        return replace(row(0, revision=revision, device=device), window_start_us=start, window_end_us=end)

    first = [session(0, 10, revision=1), session(20, 30, revision=1), session(90, 99, revision=1)]
    other = session(0, 10, revision=1, device=OTHER)
    results.publish(1, [*first, other])
    grown = session(0, 40, revision=2)
    assert results.publish(2, [grown], sessions={"my_trips"}) == 1
    assert set(map(ResultRow.content, results.latest("my_trips"))) == {
        each.content() for each in (grown, first[2], other)
    }
    assert results.publish(2, [grown], sessions={"my_trips"}) == 0
    assert results.publish(1, first, sessions={"my_trips"}) == 0


def test_what_a_sink_or_a_device_said_can_be_removed_and_no_change_number_comes_twice(results):
    results.publish(1, [row(0), row(1, device=OTHER)])
    assert results.change() == 2
    assert results.forget_device(OTHER) == 1
    assert results.downlink(OTHER, 0) == []
    assert results.change() == 2
    results.publish(2, [row(2)])
    assert results.changes(2)[0] == 3  # whoever had followed up to 2 gets it
    assert results.forget_device(OTHER) == 0
    assert results.forget_device(PHONE, after=2) == 1
    assert results.forget_sink("my_trips") == 1
    assert results.current() == []


def test_a_page_of_a_sink_goes_on_where_the_last_one_ended(results):
    results.publish(1, [row(window) for window in range(5)])
    first = results.page("my_trips", limit=2)
    assert [each.window_start_us for each in first] == [240, 180]
    assert [each.window_start_us for each in results.page("my_trips", before_us=first[-1].window_end_us)] == [
        120,
        60,
        0,
    ]


def test_windows_that_end_together_are_never_cut_apart(results):
    results.publish(1, [row(window, device=f"{number:032x}") for window in range(3) for number in range(4)])
    seen, before = [], None
    while found := results.page("my_trips", before_us=before, limit=2):
        seen += [(each.window_start_us, each.device) for each in found]
        before = found[-1].window_end_us
    assert len(seen) == len(set(seen)) == 12


def test_answers_that_were_said_otherwise_or_taken_back_are_counted_by_sink(results):
    results.publish(1, [row(0), row(1)])
    assert results.corrections() == {}
    results.publish(2, [row(0, revision=2, km=2.0), row(2)])
    results.publish(2, [row(0, revision=2, km=2.0), row(2)])  # the same publication again
    results.publish(3, [row(1, revision=3, retract=True)])
    assert results.corrections() == {"my_trips": 2}
