"""A Delta or an Iceberg table that follows a sink: through corrections, retractions, and kills in any place."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from cloud_backend.dataframes import lake as lakes
from cloud_backend.results.rows import ResultRow, digest_of
from cloud_backend.results.store import Results
from shared.errors import UsageError
from tests.cloud_backend.dataframes.lakes import LAKES, lake_table, rows_of, version_of

ROW = ResultRow("trips", "", ("ann",), 0, 10, 1, False, True, {"km": 1.5, "points": 3})


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results.sqlite")


class Table:
    """One table of a lake, written as by a new process each time."""

    def __init__(self, lake: str, directory: str) -> None:
        self.lake, self.directory = lake, directory

    def open(self):
        return lake_table(self.lake, self.directory, "trips")

    def keep_up(self, results, key_names=("who",), **how):
        return lakes.keep_up(results, "trips", self.open(), key_names, **how)

    def follow(self, results, key_names=("who",)) -> list[tuple[int, int, int]]:
        return [tuple(kept) for kept in self.keep_up(results, key_names)]

    def rows(self):
        return rows_of(self.lake, self.directory, "trips")

    def version(self):
        return version_of(self.lake, self.directory, "trips")

    def merge(self, rows, change):
        table = self.open()
        table.merge(lakes._as_table(rows, table.types(), ["who"]), "trips", change)


@pytest.fixture(params=LAKES)
def table(request, tmp_path):
    return Table(request.param, str(tmp_path / "table"))


def level(results: Results, table: Table) -> None:
    """The table says what the store says, to the last bit."""
    current = [row for row in results.current() if row.sink == "trips"]
    found = [
        ResultRow(
            "trips", row["_device"] or "", (row["who"],), _us(row["_window_start"]), _us(row["_window_end"]), 0, False,
            row["_complete"], {"km": row["km"], "points": row["points"]}, row["_row"],
        )
        for row in table.rows()
    ]  # fmt: skip
    assert digest_of(found) == digest_of(current)
    assert len(found) == len(current)


def _us(time) -> int:
    return round(time.timestamp() * 1_000_000)


def test_answers_are_said_corrected_and_taken_back(results, table, claim):
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(20)])
    assert table.follow(results) == [(20, 0, 20)]
    level(results, table)
    corrected = [replace(ROW, key=(f"p{number}",), revision=2, values={"km": 9.25, "points": 4}) for number in range(5)]
    gone = [replace(ROW, key=(f"p{number}",), revision=2, retract=True, values={}) for number in range(5, 8)]
    results.publish(2, [*corrected, *gone, replace(ROW, sink="other")])
    ((said, taken_back, _),) = table.follow(results)
    assert (said, taken_back) == (5, 3)
    level(results, table)
    rows = table.rows()
    assert [row["km"] for row in rows].count(9.25) == 5
    claim(f"{len(rows)} rows compared, digest {hashlib.sha256(repr(rows).encode()).hexdigest()[:12]}")


def test_rows_about_the_same_key_at_other_times_stay(results, table):
    windows = [
        replace(ROW, window_start_us=start, window_end_us=start + 10, row=row)
        for start in (0, 10, 20)
        for row in (0, 1)
    ]
    results.publish(1, windows)
    table.follow(results)
    results.publish(2, [
        replace(windows[0], revision=2, values={"km": 2.0, "points": 1}),
        replace(windows[5], revision=2, retract=True, values={}),
    ])  # fmt: skip
    table.follow(results)
    level(results, table)
    assert len(table.rows()) == 5


def test_nothing_happens_twice_however_often_it_is_asked(results, table):
    results.publish(1, [ROW])
    table.follow(results)
    version = table.version()
    assert table.follow(results) == []
    assert table.version() == version
    assert table.open().place("trips") == 1


def test_killed_between_two_steps_it_goes_on_where_it_was(results, table, claim):
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(30)])
    kills = 0
    while True:
        steps = table.keep_up(results, step=4)
        if next(steps, None) is None:
            break
        steps.close()  # whatever it knew beside the table is gone
        kills += 1
        if kills == 3:  # a correction of what is there already, while it is down
            results.publish(2, [replace(ROW, key=("p1",), revision=2, values={"km": 7.0, "points": 1})])
    level(results, table)
    claim(f"{kills} kills, {len(table.rows())} rows compared")
    assert kills >= 7


def test_results_that_were_made_anew_are_not_taken_for_those_the_table_has(results, table, tmp_path):
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(3)])
    table.follow(results)
    anew = Results(tmp_path / "anew" / "results.sqlite")
    anew.publish(1, [replace(ROW, key=("q",))])
    before = table.version()
    with pytest.raises(UsageError, match="holds 3 changes of results that have 1") as refused:
        table.follow(anew)
    assert refused.value.code == "dataframe-results"
    assert table.version() == before
    results.forget_sink("trips")  # what is removed is no reason
    assert table.follow(results) == []


def test_an_older_answer_never_replaces_a_newer_one(results, table):
    """Two tables' worth of history in one: as if a step were done again by a process that was thought dead."""
    results.publish(1, [replace(ROW, revision=5)])
    table.follow(results)
    table.merge([replace(ROW, revision=3, values={"km": 0.0, "points": 0})], 2)
    table.merge([replace(ROW, revision=4, retract=True, values={})], 3)
    table.merge([replace(ROW, revision=5, values={"km": 0.0, "points": 0})], 4)
    level(results, table)


def test_a_sink_that_gains_a_column_keeps_its_table(results, table):
    results.publish(1, [ROW])
    table.follow(results)
    results.publish(2, [replace(ROW, key=("bob",), values={"km": 2.0, "points": 1, "mode": "bus"})])
    table.follow(results)
    assert [(row["who"], row["mode"]) for row in table.rows()] == [("ann", None), ("bob", "bus")]


def test_a_whole_number_is_kept_as_a_fraction_and_a_fraction_never_as_a_whole_number(results, table):
    results.publish(1, [ROW])
    table.follow(results)
    results.publish(2, [replace(ROW, key=("bob",), values={"km": 2, "points": 1})])
    table.follow(results)
    assert [row["km"] for row in table.rows()] == [1.5, 2.0]
    results.publish(3, [replace(ROW, key=("cyd",), values={"km": 1.0, "points": 2.5})])
    with pytest.raises(UsageError, match="column 'points' as long, and the sink says float64") as refused:
        table.follow(results)
    assert refused.value.code == "dataframe-columns"
    assert [row["points"] for row in table.rows()] == [3, 1]


def test_a_table_that_cannot_be_written_is_refused_in_one_line_and_nothing_is_lost(results, table, tmp_path):
    results.publish(1, [ROW])
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / f"{0:020d}.json").write_text("rubbish")
    (tmp_path / "broken" / "catalog.sqlite").write_text("rubbish, and no database either")
    for place in ("file", "file/below", "broken"):
        with pytest.raises(UsageError, match="cannot be read or written") as refused:
            Table(table.lake, str(tmp_path / place)).follow(results)
        assert "\n" not in refused.value.message
        assert refused.value.code == "dataframe-table"
    table.follow(results)
    level(results, table)
