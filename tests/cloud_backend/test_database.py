"""One database, a SQLite file or a schema of PostgreSQL: whole transactions, whoever dies or waits, and none that is not
understood."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cloud_backend import postgres as postgres_module
from cloud_backend import sqlite_file as sqlite_module
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.audit import AuditLog
from cloud_backend.coordinator.people import People
from cloud_backend.coordinator.queries import Queries
from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.history.file import HistoryFile
from cloud_backend.database import Database, DatabaseLost, Location, Served
from cloud_backend.results.store import Results
from shared.errors import DamagedData, UsageError
from tests.cloud_backend.conftest import Where
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "CREATE TABLE IF NOT EXISTS pairs (one INTEGER PRIMARY KEY, other INTEGER NOT NULL) STRICT"
FULL, NORMAL = 2, 1  # as SQLite numbers them
# class, code of the refusal, the word before the file's name, synchronous, the file's mode
USERS = [
    pytest.param(People, "accounts-format", "", FULL, id="accounts"),
    pytest.param(AuditLog, "audit-format", "", FULL, id="audit"),
    pytest.param(Alerts, "alerts-format", "", FULL, id="alerts"),
    pytest.param(Queries, "queries-format", "", FULL, id="queries"),
    pytest.param(Roster, "roster-format", "roster ", FULL, id="roster"),
    pytest.param(Results, "results-format", "results store ", FULL, id="results"),
    pytest.param(HistoryFile, None, "", NORMAL, id="history"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "pairs.sqlite"


def opened(path: Location | None) -> Database:
    database = Database(path)
    database.require(SCHEMA, format=1, code="pairs-format")
    return database


@pytest.fixture
def pairs(path: Path):
    database = opened(path)
    yield database
    database.close()


@pytest.fixture
def place(where: Where) -> Location:
    return where("pairs.sqlite")


@pytest.fixture
def kept(place: Location):
    """In a file, or on a server."""
    database = opened(place)
    yield database
    database.close()


def is_taken(error: Exception) -> bool:
    """Whether a row was refused because another one has its key."""
    return type(error).__name__ in ("IntegrityError", "UniqueViolation")


def busy(monkeypatch) -> None:
    """Wait for another process's transaction for a moment only."""
    for module in (sqlite_module, postgres_module):
        monkeypatch.setattr(module, "BUSY_S", 0.05)


def write(database: Database, *statements: str) -> None:
    with database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)


def add(database: Database, one: int) -> None:
    """Both rows of a pair, or neither."""
    write(database, *(f"INSERT INTO pairs VALUES ({2 * one + half}, {one})" for half in (0, 1)))


def held(database: Database) -> list[int]:
    return [row[0] for row in database.read("SELECT one FROM pairs ORDER BY one")]


def of_format(path: Path, number: int) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE later (made TEXT)")
    database.execute(f"PRAGMA user_version = {number}")
    database.commit()
    database.close()


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(kept: Database):
    with pytest.raises(Exception, match=r"(?i)unique") as refused:
        write(kept, "INSERT INTO pairs VALUES (1, 1)", "INSERT INTO pairs VALUES (1, 2)")
    assert is_taken(refused.value)
    add(kept, 3)
    assert held(kept) == [6, 7]


def test_a_full_disk_is_told_as_that_and_the_next_transaction_works(pairs: Database):
    [(pages,)] = pairs.read("PRAGMA page_count")
    pairs.read(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write(pairs, *(f"INSERT INTO pairs VALUES ({one}, 0)" for one in range(10_000)))
    pairs.read("PRAGMA max_page_count = 1000000")
    add(pairs, 3)
    assert held(pairs) == [6, 7]


def test_what_sqlite_has_undone_by_itself_is_not_undone_again(pairs: Database):
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        write(pairs, "INSERT INTO pairs VALUES (1, 1)", "INSERT OR ROLLBACK INTO pairs VALUES (1, 2)")
    add(pairs, 3)
    assert held(pairs) == [6, 7]


DYING = """
import os, sys
from cloud_backend.database import located
from tests.cloud_backend.test_database import add, opened

pairs = opened(located(sys.argv[1], "pairs.sqlite"))
add(pairs, 1)
with pairs.transaction() as connection:
    connection.execute("INSERT INTO pairs VALUES (4, 2)")
    if sys.argv[2] == "inside":
        os._exit(9)
    connection.execute("INSERT INTO pairs VALUES (5, 2)")
os._exit(9)
"""


@pytest.mark.parametrize(("when", "left"), [("inside", [2, 3]), ("after", [2, 3, 4, 5])])
def test_a_process_that_dies_leaves_what_it_ended_and_no_half(place: Location, when: str, left: list[int]):
    dead = subprocess.run(
        [sys.executable, "-c", DYING, place.url if isinstance(place, Served) else str(place), when],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert dead.returncode == 9
    pairs = opened(place)
    assert held(pairs) == left
    pairs.close()


def test_a_write_cut_off_at_any_place_leaves_the_transactions_before_it(pairs: Database, path: Path, tmp_path: Path):
    journal = path.with_name(path.name + "-wal")
    ends = {journal.stat().st_size: []}
    for one in range(3):
        add(pairs, one)
        ends[journal.stat().st_size] = held(pairs)
    whole = max(ends)
    for length in sorted({*ends, *range(0, whole, 1000), *(end - 1 for end in ends)}):
        image = tmp_path / f"cut-{length}" / path.name
        image.parent.mkdir()
        shutil.copy(path, image)
        image.with_name(journal.name).write_bytes(journal.read_bytes()[:length])
        after = opened(image)
        assert held(after) == ends.get(max((end for end in ends if end <= length), default=-1), [])
        after.close()
    assert ends[whole] == [0, 1, 2, 3, 4, 5]


def test_a_writer_waits_for_another_process_s_transaction(kept: Database, place: Location):
    other = opened(place)
    began, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with other.transaction() as connection:
            connection.execute("INSERT INTO pairs VALUES (1, 1)")
            began.set()
            go_on.wait(PATIENCE_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert began.wait(PATIENCE_S)
    assert held(kept) == []  # a reader waits for nobody
    waiting = threading.Thread(target=add, args=(kept, 3))
    waiting.start()
    go_on.set()
    waiting.join(PATIENCE_S)
    holder.join(PATIENCE_S)
    assert held(kept) == [1, 6, 7]
    other.close()


def test_one_that_waits_too_long_says_that_the_file_is_locked_and_loses_nothing(place: Location, monkeypatch):
    busy(monkeypatch)
    pairs, other = opened(place), opened(place)
    with other.transaction() as connection:
        connection.execute("INSERT INTO pairs VALUES (1, 1)")
        with pytest.raises((sqlite3.OperationalError, DatabaseLost), match=r"locked|database-busy"):
            add(pairs, 3)
    add(pairs, 3)
    assert held(other) == [1, 6, 7]
    pairs.close()
    other.close()


def test_nobody_writes_between_what_a_transaction_reads_and_what_it_writes(place: Location, monkeypatch):
    busy(monkeypatch)
    pairs, other = opened(place), opened(place)
    with other.transaction() as connection:
        (count,) = connection.execute("SELECT count(*) FROM pairs").fetchone()
        with pytest.raises((sqlite3.OperationalError, DatabaseLost), match=r"locked|database-busy"):
            add(pairs, 3)
        connection.execute("INSERT INTO pairs VALUES (?, 0)", (count,))
    assert held(pairs) == [0]
    pairs.close()
    other.close()


def test_threads_share_one_connection_a_transaction_at_a_time(kept: Database):
    threads = [threading.Thread(target=add, args=(kept, one)) for one in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(kept) == list(range(40))


def test_two_processes_may_both_be_first(place: Location):
    first, second = Database(place), Database(place)
    assert first.format == second.format == 0
    first.create(SCHEMA, format=1)
    add(first, 1)
    second.create(SCHEMA, format=1)
    assert held(second) == [2, 3]
    first.close()
    second.close()


def test_tables_added_since_are_made_in_an_older_file_too(kept: Database, place: Location):
    add(kept, 1)
    newer = Database(place)
    newer.require(SCHEMA, format=1, code="pairs-format", later="CREATE TABLE IF NOT EXISTS more (one TEXT)")
    assert newer.read("SELECT count(*) FROM more") == [(0,)]
    assert held(newer) == [2, 3]
    newer.close()


def test_a_closed_file_says_so(kept: Database):
    kept.close()
    kept.close()
    with pytest.raises((sqlite3.ProgrammingError, UsageError), match="closed"):
        held(kept)


def test_a_file_in_memory_is_as_good_until_it_is_closed():
    pairs = opened(None)
    add(pairs, 1)
    assert held(pairs) == [2, 3]
    pairs.close()


def test_a_file_and_the_directory_made_for_it_are_its_owner_s(path: Path):
    pairs = Database(path)
    pairs.create(SCHEMA, format=1)
    add(pairs, 1)
    assert {each.name: each.stat().st_mode & 0o777 for each in (path.parent, *path.parent.iterdir())} == {
        "home": 0o700, "pairs.sqlite": 0o600, "pairs.sqlite-wal": 0o600, "pairs.sqlite-shm": 0o600,
    }  # fmt: skip
    pairs.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"no database, but long enough to be one: " + data[40:],
        lambda data: data[:100] + bytes(len(data) - 100),  # the header of one, and then nothing
    ],
)
def test_a_damaged_file_is_refused_by_name_and_left_as_it_is(path: Path, damage):
    opened(path).close()
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(
        DamagedData, match=r"^pairs\.sqlite is damaged .* restore it from a backup \[database-damaged\]$"
    ):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("kind", "code", "word", "synchronous"), USERS)
def test_each_file_keeps_its_settings(tmp_path: Path, kind, code, word, synchronous):
    path = tmp_path / "kept.sqlite"
    store = kind(path)
    pragmas = [store._database.read(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "busy_timeout")]
    assert pragmas == ["wal", synchronous, 30_000]
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()


@pytest.mark.parametrize(("kind", "code", "word", "synchronous"), USERS)
def test_each_file_of_another_format_is_refused_and_left_as_it_is(tmp_path: Path, kind, code, word, synchronous):
    path = tmp_path / "other.sqlite"
    of_format(path, 9)
    if code is None:
        kind(path).close()
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (1,)
        return
    with pytest.raises(DamagedData) as refused:
        kind(path)
    assert refused.value.code == code
    reads = 2 if kind is Results else 1
    assert refused.value.message.startswith(f"{word}other.sqlite has format 9, this version reads {reads}; ")
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("later",)]


@pytest.mark.parametrize(("kind", "code", "word", "synchronous"), USERS)
def test_each_damaged_file_is_refused(tmp_path: Path, kind, code, word, synchronous):
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"no database, but long enough to be one" * 100)
    with pytest.raises(DamagedData, match="database-damaged"):
        kind(path)


def test_results_that_grow_large_get_more_memory_and_a_longer_journal(tmp_path):
    def settings(database):
        found = [database.read(f"PRAGMA {name}")[0][0] for name in ("cache_size", "wal_autocheckpoint")]
        database.close()
        return found

    cache, journal = settings(Results(tmp_path / "large.sqlite")._database)
    assert (-cache * 1024, journal * 4096) == (32 << 20, 32 << 20)
    assert settings(Database(tmp_path / "small.sqlite"))[1] == 1000
