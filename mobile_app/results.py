"""Results that came back, kept on the device: for each identity the highest revision, durably.

A result's identity is (sink, key, window). The downlink numbers them from 1; `apply` keeps rows and the number
reached in one transaction, so a kill between two calls repeats results but never skips one, and repeating changes
nothing: a revision that is not higher than the kept one is dropped. Retractions are kept as such, so that a late
older revision cannot bring the row back.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS_FILE = "results.sqlite"

SCHEMA = """
create table if not exists result (
    sink text not null, key text not null, window_start_us integer not null, window_end_us integer not null,
    revision integer not null, retract integer not null, complete integer not null, value text not null,
    arrival integer not null,
    primary key (sink, key, window_start_us, window_end_us)
) without rowid;
create index if not exists result_arrival on result (sink, arrival);
create table if not exists progress (one integer primary key check (one = 1), through integer not null);
insert or ignore into progress values (1, 0);
"""

UPSERT = """
insert into result values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (sink, key, window_start_us, window_end_us) do update set
    revision = excluded.revision, retract = excluded.retract, complete = excluded.complete,
    value = excluded.value, arrival = excluded.arrival
where excluded.revision > result.revision
"""


@dataclass(frozen=True, slots=True)
class KeptResult:
    sink: str
    key: list[Any]
    window_start_us: int
    window_end_us: int
    revision: int
    complete: bool
    values: dict[str, Any]


class Results:
    """One home's results. Used by one thread; other processes may read the file at the same time."""

    def __init__(self, home: Path) -> None:
        self._database = sqlite3.connect(home / RESULTS_FILE, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._database.executescript(SCHEMA)
        self.malformed = 0

    @property
    def through(self) -> int:
        """Every result up to this number of the downlink is applied and durable."""
        (number,) = self._database.execute("select through from progress").fetchone()
        return int(number)

    def apply(self, results: Iterable[tuple[int, Mapping[str, object]]]) -> int:
        """Keep these (number, row) pairs; durable when this returns. Returns how many changed something.

        A row that is none is passed over: asking for it again would bring the same, and hold up those after it.
        """
        changed = 0
        self._database.execute("begin immediate")
        try:
            for number, body in results:
                columns = _columns(body)
                if columns is None:
                    self.malformed += 1
                else:
                    changed += self._database.execute(UPSERT, (*columns, number)).rowcount
                self._database.execute("update progress set through = max(through, ?)", (number,))
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")
        return changed

    def latest(self, sink: str | None = None, *, limit: int = 100) -> list[KeptResult]:
        """Kept rows that are not retracted, newest window first."""
        rows = self._database.execute(
            "select sink, key, window_start_us, window_end_us, revision, complete, value from result"
            " where not retract and (?1 is null or sink = ?1) order by window_end_us desc, sink, key limit ?2",
            (sink, limit),
        )
        return [
            KeptResult(name, json.loads(key), start_us, end_us, revision, bool(complete), json.loads(value))
            for name, key, start_us, end_us, revision, complete, value in rows
        ]

    def since(self, sink: str, first: int, *, limit: int = 1000) -> list[tuple[int, KeptResult]]:
        """(number of the downlink, row) of a sink's kept rows from this number on, in that order."""
        if first > self.through:
            return []
        rows = self._database.execute(
            "select arrival, sink, key, window_start_us, window_end_us, revision, complete, value from result"
            " where not retract and sink = ?1 and arrival >= ?2 order by arrival limit ?3",
            (sink, first, limit),
        )
        return [
            (number, KeptResult(name, json.loads(key), start, end, revision, bool(complete), json.loads(value)))
            for number, name, key, start, end, revision, complete, value in rows
        ]

    def after(self, number: int, *, limit: int = 1000) -> list[tuple[int, KeptResult]]:
        """The same of all sinks, above this number; of very many the newest."""
        rows = self._database.execute(
            "select arrival, sink, key, window_start_us, window_end_us, revision, complete, value from result"
            " where not retract and arrival > ?1 order by arrival desc limit ?2",
            (number, limit),
        )
        return [
            (arrival, KeptResult(name, json.loads(key), start, end, revision, bool(complete), json.loads(value)))
            for arrival, name, key, start, end, revision, complete, value in reversed(rows.fetchall())
        ]

    def count(self) -> int:
        (number,) = self._database.execute("select count(*) from result where not retract").fetchone()
        return int(number)

    def close(self) -> None:
        self._database.close()


def _columns(body: Mapping[str, object]) -> tuple[object, ...] | None:
    """The row as the table has it, or None when a part is missing or of another kind."""
    key, values, sink = body.get("key"), body.get("values"), body.get("sink")
    numbers = [body.get(name) for name in ("window_start_us", "window_end_us", "revision")]
    if not (isinstance(key, list) and isinstance(values, dict) and isinstance(sink, str)):
        return None
    if not all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers):
        return None
    flags = (bool(body.get("retract", False)), bool(body.get("complete", True)))
    return (sink, json.dumps(key), *numbers, *flags, json.dumps(values))
