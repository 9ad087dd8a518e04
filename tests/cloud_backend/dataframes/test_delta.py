"""A Delta table that follows a sink: through corrections, retractions, and kills in any place."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from cloud_backend.dataframes import delta
from cloud_backend.results.rows import ResultRow, digest_of
from cloud_backend.results.store import Results
from shared.errors import UsageError

ROW = ResultRow("trips", "", ("ann",), 0, 10, 1, False, True, {"km": 1.5, "points": 3})


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results.sqlite")


def rows(table: str) -> list[dict[str, object]]:
    return sorted(DeltaTable(table).to_pyarrow_table().to_pylist(), key=lambda row: (row["_key"], row["_window_start"]))


def level(results: Results, table: str) -> None:
    """The table says what the store says, to the last bit."""
    current = [row for row in results.current() if row.sink == "trips"]
    found = [
        ResultRow(
            "trips", row["_device"] or "", (row["who"],), _us(row["_window_start"]), _us(row["_window_end"]), 0, False,
            row["_complete"], {"km": row["km"], "points": row["points"]}, row["_row"],
        )
        for row in rows(table)
    ]  # fmt: skip
    assert digest_of(found) == digest_of(current)
    assert len(found) == len(current)


def _us(time) -> int:
    return int(time.timestamp() * 1_000_000)


def test_answers_are_said_corrected_and_taken_back(results, tmp_path, claim):
    table = str(tmp_path / "table")
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(20)])
    assert [tuple(kept) for kept in delta.keep_up(results, "trips", table, ["who"])] == [(20, 0, 20)]
    level(results, table)
    corrected = [replace(ROW, key=(f"p{number}",), revision=2, values={"km": 9.25, "points": 4}) for number in range(5)]
    gone = [replace(ROW, key=(f"p{number}",), revision=2, retract=True, values={}) for number in range(5, 8)]
    results.publish(2, [*corrected, *gone, replace(ROW, sink="other")])
    (kept,) = delta.keep_up(results, "trips", table, ["who"])
    assert (kept.said, kept.gone) == (5, 3)
    level(results, table)
    assert [row["km"] for row in rows(table)].count(9.25) == 5
    claim(f"{len(rows(table))} rows compared, digest {hashlib.sha256(repr(rows(table)).encode()).hexdigest()[:12]}")


def test_nothing_happens_twice_however_often_it_is_asked(results, tmp_path):
    table = str(tmp_path / "table")
    results.publish(1, [ROW])
    list(delta.keep_up(results, "trips", table))
    version = DeltaTable(table).version()
    assert list(delta.keep_up(results, "trips", table)) == []
    assert DeltaTable(table).version() == version
    assert delta.place(table, "trips") == 1


def test_killed_between_two_steps_it_goes_on_where_it_was(results, tmp_path, claim):
    table = str(tmp_path / "table")
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(30)])
    kills = 0
    while True:
        steps = delta.keep_up(results, "trips", table, ["who"], step=4)
        if next(steps, None) is None:
            break
        steps.close()  # whatever it knew beside the table is gone
        kills += 1
        if kills == 3:  # a correction of what is there already, while it is down
            results.publish(2, [replace(ROW, key=("p1",), revision=2, values={"km": 7.0, "points": 1})])
    level(results, table)
    claim(f"{kills} kills, {len(rows(table))} rows compared")
    assert kills >= 7


def test_an_older_answer_never_replaces_a_newer_one(results, tmp_path):
    """Two tables' worth of history in one: as if a step were done again by a process that was thought dead."""
    table = str(tmp_path / "table")
    results.publish(1, [replace(ROW, revision=5)])
    list(delta.keep_up(results, "trips", table, ["who"]))
    delta._merge([replace(ROW, key=("ann",), revision=3, values={"km": 0.0, "points": 0})], "trips", table, ["who"], 2)
    delta._merge([replace(ROW, key=("ann",), revision=4, retract=True, values={})], "trips", table, ["who"], 3)
    level(results, table)


def test_a_sink_that_gains_a_column_keeps_its_table(results, tmp_path):
    table = str(tmp_path / "table")
    results.publish(1, [ROW])
    list(delta.keep_up(results, "trips", table, ["who"]))
    results.publish(2, [replace(ROW, key=("bob",), values={"km": 2.0, "points": 1, "mode": "bus"})])
    list(delta.keep_up(results, "trips", table, ["who"]))
    assert [(row["who"], row["mode"]) for row in rows(table)] == [("ann", None), ("bob", "bus")]


def test_a_table_that_cannot_be_written_is_refused_in_one_line_and_nothing_is_lost(results, tmp_path):
    results.publish(1, [ROW])
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / f"{0:020d}.json").write_text("rubbish")
    for place in ("file", "file/below", "broken"):
        with pytest.raises(UsageError, match="cannot be read or written") as refused:
            list(delta.keep_up(results, "trips", str(tmp_path / place)))
        assert "\n" not in refused.value.message
    table = str(tmp_path / "table")
    list(delta.keep_up(results, "trips", table, ["who"]))
    level(results, table)
