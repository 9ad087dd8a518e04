"""A schema of PostgreSQL in the place of a file: what is wrong is said in one line, a restart loses nothing, and a
gateway's home remembers where its databases are."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_backend import postgres as module
from cloud_backend.contracts.reports import Reports
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.audit import AuditLog
from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.followers import Followers
from cloud_backend.coordinator.people import People
from cloud_backend.coordinator.queries import Queries, Query
from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import Database, DatabaseLost, Location, Served, in_home, is_there, keep_url, located
from cloud_backend.postgres import PostgresSchema
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from shared.errors import DamagedData, ResurgeError, UsageError
from tests.cloud_backend.conftest import Where
from tests.cloud_backend.results.test_store import row
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import PASSWORD, PostgresServer

SCHEMA = "CREATE TABLE IF NOT EXISTS pairs (one INTEGER PRIMARY KEY, other INTEGER NOT NULL) STRICT"
KINDS = {
    "accounts": (People, "accounts-format"), "audit": (AuditLog, "audit-format"), "alerts": (Alerts, "alerts-format"),
    "queries": (Queries, "queries-format"), "roster": (Roster, "roster-format"), "results": (Results, "results-format"),
    "fleet": (FleetStore, "fleet-format"), "followers": (Followers, "followers-format"),
    "contracts": (lambda where: Reports(where, sign=lambda message: message), "contract-format"),
}  # fmt: skip


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may kill."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def refusal(url: str) -> str:
    """The one line that is said of it."""
    with pytest.raises(ResurgeError) as refused:
        Results(url)
    text = str(refused.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


def test_what_is_wrong_with_a_url_is_one_line_with_a_code(postgres: PostgresServer, tmp_path: Path, monkeypatch):
    assert "[database-url]" in refusal("postgresql://resurge:only for tests@[::1")
    assert "does not answer" in refusal(f"postgresql://resurge@/postgres?host={tmp_path}")
    assert "[database-unreachable]" in refusal("postgresql://resurge@127.0.0.1:9/postgres")
    assert "password authentication failed" in refusal(postgres.url(password="wrong"))
    assert "[database-refused]" in refusal(postgres.url(password="wrong"))
    assert '"absent" does not exist' in refusal(postgres.url("absent"))
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert refusal(postgres.url()).endswith("pip install 'resurge[postgres]' [database-library]")


def test_somebody_who_may_not_make_a_schema_is_told(postgres: PostgresServer):
    postgres.clear()
    postgres.ask("DROP ROLE IF EXISTS guest")
    postgres.ask("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    text = refusal(postgres.url().replace("resurge:", "guest:").replace("only%20for%20tests", "guest"))
    assert "permission denied" in text
    assert text.endswith("[database-refused]")


def test_a_server_that_may_forget_what_it_acknowledged_is_refused(own_server: PostgresServer):
    own_server.stop()
    own_server.start("fsync=off", "synchronous_commit=off")
    assert refusal(own_server.url()).endswith(
        "has fsync off: it may lose what it acknowledged; switch it on [database-server]"
    )
    own_server.stop()
    own_server.start("synchronous_commit=off")
    database = Database(Served(own_server.url(), "pairs"))
    assert database.read("SELECT current_setting('synchronous_commit')") == [("on",)]
    database.close()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shift", [-1, 1])
def test_an_older_and_a_newer_schema_are_refused_and_left_as_they_are(postgres: PostgresServer, name: str, shift: int):
    postgres.clear()
    kind, code = KINDS[name]
    with contextlib.closing(kind(Served(postgres.url(), name))) as store:
        format = store._database.format
    other = format + shift or 9
    postgres.ask(f"UPDATE {name}.resurge SET format = {other}")
    tables = postgres.ask(f"SELECT tablename FROM pg_tables WHERE schemaname = '{name}'")
    with pytest.raises(DamagedData, match=rf"has format {other}, this version reads {format}; .*\[{code}\]$"):
        kind(Served(postgres.url(), name))
    assert postgres.ask(f"SELECT tablename FROM pg_tables WHERE schemaname = '{name}'") == tables
    assert postgres.ask(f"SELECT format FROM {name}.resurge") == [(other,)]


def test_a_text_that_no_server_holds_is_refused_and_the_next_one_is_kept(postgres: PostgresServer):
    postgres.clear()
    queries = Queries(Served(postgres.url(), "queries"))
    with pytest.raises(UsageError, match=r"NUL.*\[database-value\]"):
        queries.put(Query("slow", "sql", "SELECT \0", "ada", 1, ("slow",)))
    queries.put(Query("slow", "sql", "SELECT '%?'", "ada", 1, ("slow",)))
    assert [query.text for query in queries.all()] == ["SELECT '%?'"]
    queries.close()


def test_lines_and_reports_can_neither_be_changed_nor_removed(postgres: PostgresServer):
    import psycopg

    postgres.clear()
    audit = AuditLog(Served(postgres.url(), "audit"), sign=lambda message: message)
    reports = Reports(Served(postgres.url(), "contracts"), sign=lambda message: message)
    for number in range(3):
        audit.append(number, person="ada", role="admin", action="revoked")
    reports.save({"place": 1}, ({"sink": "up", "from_us": 0, "to_us": 1, "verdict": "kept"},))
    for statement in (
        "UPDATE audit.lines SET person = 'eve'", "DELETE FROM audit.lines", "TRUNCATE audit.lines",
        "UPDATE contracts.reports SET verdict = 'kept'", "DELETE FROM contracts.reports",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
            postgres.ask(statement)
    postgres.ask("DROP TRIGGER lines_stay ON audit.lines")
    assert (audit.verify(), reports.verify(lambda message, signed: message == signed)) == (3, 1)
    postgres.ask("UPDATE audit.lines SET person = 'eve' WHERE number = 2")
    with pytest.raises(DamagedData, match="line 2"):
        audit.verify()
    audit.close()
    reports.close()


def test_a_fleet_is_stored_under_its_lease(where: Where):
    store = FleetStore(where("fleet.sqlite"))
    assert store.load() == b""
    store.store(b"\0first", 2)
    store.put_note("lease", {"owner": 1})
    store.put_note("lease", {"owner": 2})
    with pytest.raises(UsageError, match="coordinator-deposed"):
        store.store(b"second", 1)
    assert (store.load(), store.note("lease")) == (b"\0first", {"owner": 2})
    store.close()


def test_queries_are_kept_by_name_and_sink(where: Where):
    queries = Queries(where("queries.sqlite"))
    slow = Query("slow", "sql", "SELECT 1", "ada", 7, ("one", "two"))
    queries.put(slow)
    with pytest.raises(UsageError, match="query-name-taken"):
        queries.put(Query("other", "sql", "SELECT 1", "ada", 7, ("two",)))
    assert queries.find("slow") == slow
    queries.remove("slow")
    assert queries.all() == []
    queries.close()


def test_what_a_device_said_leaves_the_tables(where: Where):
    results = Results(where("results.sqlite"))
    results.publish(1, [row(0), row(1, device="bb" * 16)])
    assert results.forget_device("aa" * 16) == 1
    assert [each.device for each in results.current()] == ["bb" * 16]
    assert results.change() == 2
    results.close()


def test_a_server_that_restarts_takes_nothing_with_it(own_server: PostgresServer):
    results, patient = Results(own_server.url()), Results(own_server.url(), patience_s=PATIENCE_S)
    assert results.publish(1, [row(0)]) == 1
    own_server.kill()
    with pytest.raises(DatabaseLost, match="database-unreachable"):
        results.current()
    with pytest.raises(DatabaseLost, match="database-unreachable"):
        results.publish(2, [row(1)])
    came: list[int] = []
    waiting = threading.Thread(target=lambda: came.append(patient.publish(2, [row(1)])))
    waiting.start()
    own_server.start()
    waiting.join(PATIENCE_S)
    assert came == [1]
    assert patient.current() == [row(0), row(1)]
    own_server.kill()
    own_server.start()
    # By a connection that was lost unnoticed; one that was just refused is not asked for a moment.
    assert wait_until(lambda: results.trim("aa" * 16, 1), "an answer", again_after=DatabaseLost) == 1
    results.close()
    patient.close()


def test_a_transaction_that_loses_its_server_is_there_not_at_all(own_server: PostgresServer):
    where = Served(own_server.url(), "pairs")
    pairs = Database(where, patience_s=PATIENCE_S)
    pairs.require(SCHEMA, format=1, code="pairs-format")

    def half() -> None:
        with pairs.transaction() as statements:
            statements.execute("INSERT INTO pairs VALUES (1, 1)")
            own_server.kill()
            own_server.start()
            statements.execute("INSERT INTO pairs VALUES (2, 1)")

    with pytest.raises(DatabaseLost, match="database-lost"):
        half()
    assert pairs.read("SELECT count(*) FROM pairs") == [(0,)]
    with pairs.transaction() as statements:
        statements.execute("INSERT INTO pairs VALUES (?, ?)", (1, 1 << 40))
    assert pairs.read("SELECT one, other FROM pairs") == [(1, 1 << 40)]
    pairs.close()


def test_one_that_stops_in_the_middle_loses_its_transaction_and_the_lock(postgres: PostgresServer, monkeypatch):
    postgres.clear()
    where = Served(postgres.url(), "pairs")
    waiting = Database(where)
    waiting.require(SCHEMA, format=1, code="pairs-format")
    monkeypatch.setattr(module, "PAUSED_S", 0.2)
    paused = Database(where)

    def stop_in_the_middle() -> None:
        with paused.transaction() as statements:
            statements.execute("INSERT INTO pairs VALUES (1, 1)")
            with waiting.transaction() as others:  # once the server has ended the other one
                others.execute("INSERT INTO pairs VALUES (2, 2)")

    with pytest.raises(DatabaseLost, match="database-lost"):
        stop_in_the_middle()
    assert paused.read("SELECT one FROM pairs") == [(2,)]
    waiting.close()
    paused.close()


def test_a_home_remembers_where_its_databases_are(tmp_path: Path):
    url = "postgresql://resurge@db.example.org/fleet"
    assert in_home(tmp_path, "roster.sqlite") == tmp_path / "roster.sqlite"
    keep_url(tmp_path, url, ["roster.sqlite"])
    assert in_home(tmp_path, "roster.sqlite") == Served(url, "roster")
    assert is_there(in_home(tmp_path, "roster.sqlite"))
    assert (tmp_path / "database.url").stat().st_mode & 0o777 == 0o600
    (tmp_path / "database.url").write_text("results.sqlite")
    with pytest.raises(UsageError, match="database-url"):
        in_home(tmp_path, "roster.sqlite")
    (tmp_path / "roster.sqlite").touch()
    with pytest.raises(UsageError, match=r"keeps roster\.sqlite; .*\[database-home\]"):
        keep_url(tmp_path, url, ["roster.sqlite", "audit.sqlite"])


@pytest.mark.soak
def test_a_path_is_a_file_and_a_url_a_schema():
    found: list[Location] = [located(each, "results.sqlite") for each in ("DIR/r.db", Path("r"), "postgres://h/d")]
    assert found == [Path("DIR/r.db"), Path("r"), Served("postgres://h/d", "results")]


def test_rows_come_as_arrays_and_are_what_was_given(postgres: PostgresServer):
    """Whole numbers and texts; a row with anything else goes as a statement of its own."""
    database = Database(located(postgres.url(), "arrays"))
    database.create("CREATE TABLE IF NOT EXISTS given (text TEXT, number INTEGER) STRICT", format=1)
    texts = ["", "{", "}", ",", '"', "\\", '\\"', "NULL", "null", "ü\n\t", "{}", '","', "'", "%s", "?", " a "]
    rows = [(text, (-1) ** place * (2**63 - 1 - place)) for place, text in enumerate(texts)]
    with database.transaction() as statements:
        statements.executemany("INSERT INTO given VALUES (?, ?)", rows)
        statements.executemany("INSERT INTO given VALUES (?, ?)", [])
        statements.executemany("INSERT INTO given (number) VALUES (?)", [(7,)])
        statements.executemany("INSERT INTO given VALUES (?, ?)", [("mixed", None), (None, 8)])
    found = database.read("SELECT text, number FROM given")
    assert sorted(found, key=repr) == sorted([*rows, (None, 7), ("mixed", None), (None, 8)], key=repr)
    with pytest.raises(UsageError) as refused, database.transaction() as statements:
        statements.executemany("INSERT INTO given VALUES (?, ?)", [("a\0b", 1), ("c", 2)])
    assert refused.value.code == "database-value"
    with pytest.raises(UsageError) as refused, database.transaction() as statements:
        statements.executemany("INSERT INTO given VALUES (?, ?)", [("c", 2**63)])
    assert refused.value.code == "database-value"
    database.close()


def test_a_statement_is_not_made_for_each_row(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    results = Results(postgres.url())
    counted: list[str] = []
    execute = PostgresSchema.execute

    def counting(self, query, parameters=()):
        counted.append(query)
        return execute(self, query, parameters)

    monkeypatch.setattr(PostgresSchema, "execute", counting)
    results.publish(1, [
        ResultRow(
            sink="mine", device=f"{number:x}", key=(number,), window_start_us=0, window_end_us=60, revision=1,
            retract=False, complete=True, values={"n": number},
        )
        for number in range(50)
    ])  # fmt: skip
    assert sum("unnest" in query for query in counted) == 4  # answers, downlinks, their heads, the question for heads
    assert len(counted) < 20
    results.close()
