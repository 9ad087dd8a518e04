"""The SQLite files of the cloud half, format 1, as they were first written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cloud_backend.contracts.reports import Reports
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.audit import AuditLog
from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.followers import Followers
from cloud_backend.coordinator.people import People, Person
from cloud_backend.coordinator.queries import Queries
from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.history.file import HistoryFile
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results

FROZEN = json.loads((Path(__file__).parent / "databases_v1.json").read_text())
KINDS = {
    "accounts": People, "audit": AuditLog, "alerts": Alerts, "queries": Queries, "roster": Roster,
    "fleet": FleetStore, "results": Results, "history": HistoryFile, "contracts": partial(Reports, sign=lambda message: message),
    "followers": Followers,
}  # fmt: skip
RESULTS_V2 = json.loads((Path(__file__).parent / "results_v2.json").read_text())
# The same columns: a version that knows one knows both, so both are format 2.
RESULTS_V2_IN_ORDER = json.loads((Path(__file__).parent / "results_v2_in_order.json").read_text())
NOW = FROZEN["files"] | {"results": RESULTS_V2_IN_ORDER}
ADDED_LATER = {
    "alerts": ("outcomes", "result_rules", "followed", "holding", "rings"), "audit": ("heads",),
    "roster": ("settings", "deletions", "identity", "group_plans", "members"), "results": ("marks",),
    "followers": ("holders",),
}  # fmt: skip


def write_as_first(path: Path, name: str, *rows: str, without: tuple[str, ...] = ()) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    for statement in sorted(FROZEN["files"][name], key=lambda each: not each.startswith("CREATE TABLE")):
        if not any(f"TABLE {table} " in statement for table in without):
            database.execute(statement)
    for row in rows:
        database.execute(f"INSERT INTO {row}")
    database.execute(f"PRAGMA user_version = {FROZEN['format']}")
    database.close()


def schema(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name").fetchall()
    database.close()
    return [row[0] for row in rows]


@pytest.mark.parametrize("name", KINDS)
def test_a_new_file_is_of_that_format(tmp_path, name):
    path = tmp_path / name
    KINDS[name](path).close()
    assert schema(path) == NOW[name], "a change of a table needs a new format, and a way to read this one"


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_that_format_is_opened_and_gets_what_was_added_since(tmp_path, name):
    path = tmp_path / name
    write_as_first(path, name, without=ADDED_LATER.get(name, ()))
    KINDS[name](path).close()
    assert sorted(schema(path)) == sorted(NOW[name])


def _published(path: Path) -> Results:
    store = Results(path)
    for epoch in range(1, 4):
        store.publish(epoch, [
            ResultRow(
                sink=sink, device=device, key=(number,), window_start_us=60 * window, window_end_us=60 * window + 60,
                revision=epoch, retract=retract, complete=True, values={"n": number * epoch},
            )
            for sink, device in (("mine", "d"), ("all", "")) for number in range(9)
            for window, retract in ((epoch, False), (epoch - 1, number == 4))
        ])  # fmt: skip
    return store


def test_results_that_lie_by_their_identities_are_gone_on_with(tmp_path):
    """As every file of format 2 was made until answers lay in the order in which they were given."""
    database = sqlite3.connect(tmp_path / "by identity", isolation_level=None)
    for statement in sorted(RESULTS_V2, key=lambda each: not each.startswith("CREATE TABLE")):
        database.execute(statement)
    database.execute("PRAGMA user_version = 2")
    database.close()
    former, new = _published(tmp_path / "by identity"), _published(tmp_path / "in order")
    assert sorted(schema(tmp_path / "by identity")) == sorted(RESULTS_V2)
    for question in (
        Results.digest, Results.corrections, Results.sinks, Results.change, partial(Results.changes, after=3, limit=20),
        partial(Results.downlink, device="d", after_seq=0), partial(Results.page, sink="all", limit=5),
        partial(Results.count, sink="all", from_us=0, to_us=120, most=99), partial(Results.latest, sink="mine"),
        partial(Results.of_key, sink="mine", key="[3]", rows_max=9), partial(Results.told_since, change=2),
    ):  # fmt: skip
        expected = question(former)
        assert expected
        if isinstance(expected, Iterator):
            assert list(expected) == list(question(new))
        else:
            assert expected == question(new)
    for store in (former, new):
        store.close()


def test_its_rows_are_read(tmp_path):
    write_as_first(tmp_path / "accounts", "accounts", "accounts VALUES ('ada', 'admin', NULL, 7)")
    write_as_first(
        tmp_path / "queries", "queries",
        "queries VALUES ('slow', 'sql', 'SELECT 1', 'ada', 7, 'one' || char(10) || 'two')",
    )  # fmt: skip
    write_as_first(
        tmp_path / "results", "results",
        "answers VALUES ('trips', '[\"sada\"]', 0, 60, '', 3, 0, 1, '{\"km\": \"f0x1.8p+0\"}', 9)",
    )  # fmt: skip
    people, queries, results = (KINDS[name](tmp_path / name) for name in ("accounts", "queries", "results"))
    assert [(each.name, each.role, each.has_password) for each in people.all()] == [("ada", "admin", False)]
    assert people.session(people.open_session(Person("ada", "admin"), 8), 9) == Person("ada", "admin")
    [query] = queries.all()
    assert (query.name, query.person, query.sinks) == ("slow", "ada", ("one", "two"))
    [row] = results.latest("trips")
    assert (row.key, row.revision, row.values, row.row, results.change()) == (("ada",), 3, {"km": 1.5}, 0, 9)
    for store in (people, queries, results):
        store.close()
