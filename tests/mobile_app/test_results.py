"""Results on the device: highest revision per identity, durable, repeatable."""

from __future__ import annotations

import pytest

from mobile_app.results import Results


def row(revision: int = 1, km: float = 1.0, *, start: int = 0, retract: bool = False, sink: str = "trips"):
    return {
        "sink": sink, "key": ["a1"], "window_start_us": start, "window_end_us": start + 10, "revision": revision,
        "retract": retract, "complete": True, "values": {"km": km},
    }  # fmt: skip


def test_the_highest_revision_counts_in_whatever_order_they_come(tmp_path):
    results = Results(tmp_path)
    assert results.apply([(1, row(2, 5.0)), (2, row(1, 9.0)), (3, row(2, 7.0))]) == 1
    assert [kept.values for kept in results.latest()] == [{"km": 5.0}]
    assert results.through == 3
    results.close()


def test_a_retraction_holds_against_older_revisions(tmp_path):
    results = Results(tmp_path)
    results.apply([(1, row(1)), (2, row(3, retract=True)), (3, row(2))])
    assert results.latest() == []
    results.apply([(4, row(4, 8.0))])
    assert [kept.values for kept in results.latest()] == [{"km": 8.0}]
    results.close()


def test_results_and_progress_survive_together(tmp_path):
    results = Results(tmp_path)

    def breaks_off():
        yield 3, row(start=20)
        raise OSError("killed")

    results.apply([(1, row()), (2, row(start=10))])
    with pytest.raises(OSError, match="killed"):
        results.apply(breaks_off())
    results.close()
    again = Results(tmp_path)
    assert (again.through, again.count()) == (2, 2)
    again.close()


def test_what_is_no_result_is_passed_over_and_counted(tmp_path):
    results = Results(tmp_path)
    assert results.apply([(1, {"sink": "trips"}), (2, row() | {"revision": True}), (3, row())]) == 1
    assert (results.through, results.malformed) == (3, 2)
    results.close()


def test_one_sink_can_be_asked_for_newest_window_first(tmp_path):
    results = Results(tmp_path)
    results.apply([(1, row()), (2, row(start=10)), (3, row(sink="other"))])
    assert [kept.window_start_us for kept in results.latest("trips")] == [10, 0]
    results.close()
