"""Results on the device: highest revision per identity, durable, repeatable."""

from __future__ import annotations

import sqlite3

import pytest

from mobile_app.node.results import RESULTS_FILE, Results


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


class FailsToCommit:
    """A connection whose disk refuses one commit."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.refuses = 1

    def execute(self, statement: str, *arguments):
        if statement == "commit" and self.refuses:
            self.refuses -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return self._database.execute(statement, *arguments)

    def __getattr__(self, name: str):
        return getattr(self._database, name)


def test_a_refused_commit_leaves_nothing_open(tmp_path):
    results = Results(tmp_path)
    results._database = FailsToCommit(results._database)
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        results.apply([(1, row())])
    assert (results.through, results.count()) == (0, 0)
    assert results.apply([(1, row())]) == 1
    assert (results.through, results.count()) == (1, 1)
    results.close()


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


def test_a_correction_is_another_row_about_the_same_whatever_its_revision(tmp_path):
    now = [1_000]
    results = Results(tmp_path, wall_us=lambda: now[0])
    results.apply([(1, row(7 << 32 | 4, 5.0)), (2, row(9 << 32 | 1, 5.0))])  # said again after a rollback
    (kept,) = results.latest()
    assert (kept.revision, kept.corrections, kept.corrected_us, kept.former) == (9 << 32 | 1, 0, None, None)
    now[0] = 2_000
    results.apply([(3, row(9 << 32 | 2, 6.5)), (4, row(9 << 32 | 1, 8.0))])  # the second is an older answer
    (kept,) = results.latest()
    assert (kept.values, kept.corrections, kept.corrected_us) == ({"km": 6.5}, 1, 2_000)
    assert kept.former == {"km": 5.0}
    results.close()


def test_corrections_are_still_known_after_a_restart_and_go_on_counting(tmp_path):
    for number, km in enumerate((1.0, 2.0, 4.0), start=1):
        results = Results(tmp_path)
        results.apply([(number, row(number, km))])
        results.close()
    again = Results(tmp_path)
    (kept,) = again.latest()
    assert (kept.corrections, kept.former) == (2, {"km": 2.0})
    again.close()


def test_taking_back_is_no_correction_but_what_comes_instead_is(tmp_path):
    results = Results(tmp_path)
    results.apply([(1, row(1, 5.0)), (2, row(2, 5.0, retract=True))])
    ((number, gone),) = results.after(1)
    assert (number, gone.retract, gone.corrections) == (2, True, 0)
    results.apply([(3, row(3, 5.0))])
    assert [kept.corrections for kept in results.latest()] == [0]
    results.apply([(4, row(4, 5.0, retract=True)), (5, row(5, 6.0))])
    assert [(kept.corrections, kept.former) for kept in results.latest()] == [(1, {"km": 5.0})]
    results.close()


def test_a_row_that_was_never_here_before_it_was_taken_back_is_corrected_by_nothing(tmp_path):
    results = Results(tmp_path)
    results.apply([(1, row(2, 5.0, retract=True)), (2, row(3, 6.0))])
    assert [(kept.values, kept.corrections) for kept in results.latest()] == [({"km": 6.0}, 0)]
    results.close()


FIRST_SCHEMA = """
create table result (
    sink text not null, key text not null, window_start_us integer not null, window_end_us integer not null,
    revision integer not null, retract integer not null, complete integer not null, value text not null,
    arrival integer not null,
    primary key (sink, key, window_start_us, window_end_us)
) without rowid;
create index result_arrival on result (sink, arrival);
create table progress (one integer primary key check (one = 1), through integer not null);
insert into progress values (1, 1);
"""


def test_rows_about_one_key_and_time_are_all_kept_by_their_numbers(tmp_path):
    results = Results(tmp_path)
    results.apply([(1, row(1, 5.0) | {"row": 1}), (2, row(1, 6.0) | {"row": 2})])
    assert sorted(kept.values["km"] for kept in results.latest()) == [5.0, 6.0]
    results.apply([(3, row(2, 5.0, retract=True) | {"row": 1})])
    assert [(kept.row, kept.values["km"]) for kept in results.latest()] == [(2, 6.0)]
    results.close()


def test_a_home_from_before_corrections_were_counted_goes_on(tmp_path):
    database = sqlite3.connect(tmp_path / RESULTS_FILE)
    database.executescript(FIRST_SCHEMA)
    database.execute("""insert into result values ('trips', '["a1"]', 0, 10, 1, 0, 1, '{"km": 1.0}', 1)""")
    database.commit()
    database.close()
    results = Results(tmp_path)
    results.apply([(2, row(2, 3.0))])
    assert [(kept.values, kept.corrections) for kept in results.latest()] == [({"km": 3.0}, 1)]
    results.close()


def test_the_same_columns_in_another_order_are_no_correction(tmp_path):
    database = sqlite3.connect(tmp_path / RESULTS_FILE)
    database.executescript(FIRST_SCHEMA)
    database.execute("""insert into result values ('trips', '["a1"]', 0, 10, 1, 0, 1, '{"n": 2, "km": 1.0}', 1)""")
    database.commit()
    database.close()
    results = Results(tmp_path)
    results.apply([(2, row(2) | {"values": {"n": 2, "km": 1.0}})])
    assert [kept.corrections for kept in results.latest()] == [0]
    results.apply([(3, row(3) | {"values": {"n": 3, "km": 1.0}})])
    assert [(kept.corrections, kept.former) for kept in results.latest()] == [(1, {"n": 2, "km": 1.0})]
    results.close()
