"""Results that came back, kept on the device: for each identity the highest revision, durably.

A result's identity is (sink, key, window, row): several rows may be about one key and time, each with its number. The
downlink numbers results from 1; `apply` keeps rows and the number reached in one transaction, so a kill between two
calls repeats results but never skips one, and repeating changes nothing: a revision that is not higher than the kept
one is dropped. Retractions are kept as such, so that a late older revision cannot bring the row back.

A revision orders answers, it does not count them. What was corrected here is counted here: a row that says something
else than the one this device had last about the same. Saying it again, or taking it back, corrects nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobile_app.home.clock import wall_time_us
from shared.wire.alerts import ALERT_SINK, AlertNews

RESULTS_FILE = "results.sqlite"

SCHEMA = """
create table if not exists result (
    sink text not null, key text not null, window_start_us integer not null, window_end_us integer not null,
    row integer not null,
    revision integer not null, retract integer not null, complete integer not null, value text not null,
    arrival integer not null,
    corrections integer not null default 0,
    corrected_us integer, -- by the wall clock, when the last one came
    former text, -- what the row said before that
    primary key (sink, key, window_start_us, window_end_us, row)
) without rowid;
create index if not exists result_arrival on result (sink, arrival);
create table if not exists progress (one integer primary key check (one = 1), through integer not null);
insert or ignore into progress values (1, 0);
create table if not exists ring (number integer primary key, title text not null, body text not null);
"""

# Homes made before rows had numbers, and those before corrections were counted, are written anew.
COPIED = (
    "sink", "key", "window_start_us", "window_end_us", "revision", "retract", "complete", "value", "arrival",
    "corrections", "corrected_us", "former",
)  # fmt: skip

# A retraction leaves the row's last words where they are: what comes after it is compared with them.
UPSERT = """
insert into result (sink, key, window_start_us, window_end_us, row, revision, retract, complete, value, arrival)
values (:sink, :key, :start, :end, :row, :revision, :retract, :complete, iif(:retract, '{}', :value), :number)
on conflict (sink, key, window_start_us, window_end_us, row) do update set
    corrections = iif(:corrects, corrections + 1, corrections),
    corrected_us = iif(:corrects, :now_us, corrected_us),
    former = iif(:corrects, value, former),
    revision = excluded.revision, retract = excluded.retract, complete = excluded.complete,
    value = iif(:retract, value, excluded.value), arrival = excluded.arrival
where excluded.revision > result.revision
""".replace(":corrects", "(not :retract and ordered(value) not in (:value, '{}'))")


@dataclass(frozen=True, slots=True)
class KeptResult:
    sink: str
    key: list[Any]
    window_start_us: int
    window_end_us: int
    row: int
    revision: int
    retract: bool
    complete: bool
    values: dict[str, Any]
    corrections: int
    corrected_us: int | None
    former: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Ring:
    """An alert that is to be shown once."""

    number: int
    title: str
    text: str


class Results:
    """One home's results. Used by one thread; other processes may read the file at the same time."""

    def __init__(self, home: Path, *, wall_us: Callable[[], int] = wall_time_us) -> None:
        self._wall_us = wall_us
        self._database = sqlite3.connect(home / RESULTS_FILE, isolation_level=None)
        self._database.row_factory = sqlite3.Row
        self._database.create_function("ordered", 1, _ordered, deterministic=True)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._renew()
        self._database.executescript(SCHEMA)
        self.malformed = 0

    def _renew(self) -> None:
        """Bring a table of before to what it is now, all or none."""
        present = {name for _, name, *_ in self._database.execute("pragma table_info(result)")}
        if not present or "row" in present:
            return
        columns = ", ".join(name for name in COPIED if name in present)
        copy = f"insert into result (row, {columns}) select 0, {columns} from former_result;"  # noqa: S608 - ours
        self._database.executescript(
            "begin immediate; alter table result rename to former_result; drop index if exists result_arrival;"
            f"{SCHEMA}{copy} drop table former_result; commit;"
        )

    @property
    def through(self) -> int:
        """Every result up to this number of the downlink is applied and durable."""
        (number,) = self._database.execute("select through from progress").fetchone()
        return int(number)

    def apply(self, results: Iterable[tuple[int, Mapping[str, object]]]) -> int:
        """Keep these (number, row) pairs; durable when this returns. Returns how many changed something.

        A row that is none is passed over: asking for it again would bring the same, and hold up those after it.
        """
        changed, now_us = 0, self._wall_us()
        self._database.execute("begin immediate")
        try:
            for number, body in results:
                columns = _columns(body)
                if columns is None:
                    self.malformed += 1
                else:
                    given = columns | {"number": number, "now_us": now_us}
                    news = self._database.execute(UPSERT, given).rowcount
                    changed += news
                    if news and columns["sink"] == ALERT_SINK:
                        self._note_alert(body)
                self._database.execute("update progress set through = max(through, ?)", (number,))
            self._database.execute("commit")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("rollback")
            raise
        return changed

    def _note_alert(self, body: Mapping[str, object]) -> None:
        """Inside a transaction: an alert that began is to ring; one that ended before it rang says so when it does."""
        values = body.get("values")
        news = AlertNews.of(body.get("key"), values) if isinstance(values, dict) else None
        if news is None:
            self.malformed += 1
        elif news.is_over:
            text = f"{news.text}; it is over"
            self._database.execute("update ring set body = ? where number = ?", (text, news.number))
        else:
            self._database.execute("insert or replace into ring values (?, ?, ?)", (news.number, news.rule, news.text))

    def rings(self) -> list[Ring]:
        """Alerts that came and were not shown yet, also before a restart."""
        return [Ring(*row) for row in self._database.execute("select number, title, body from ring order by number")]

    def rung(self, ring: Ring) -> None:
        """It was shown: never again."""
        self._database.execute("delete from ring where number = ?", (ring.number,))

    def latest(self, sink: str | None = None, *, limit: int = 100) -> list[KeptResult]:
        """Kept rows that are not retracted, newest window first."""
        rows = self._database.execute(
            "select * from result where not retract and (?1 is null or sink = ?1)"
            " order by window_end_us desc, sink, key limit ?2",
            (sink, limit),
        )
        return [_result_of_row(row) for row in rows]

    def since(self, sink: str, first: int, *, limit: int = 1000) -> list[tuple[int, KeptResult]]:
        """(number of the downlink, row) of a sink's kept rows from this number on, in that order."""
        if first > self.through:
            return []
        rows = self._database.execute(
            "select * from result where not retract and sink = ?1 and arrival >= ?2 order by arrival limit ?3",
            (sink, first, limit),
        )
        return [(row["arrival"], _result_of_row(row)) for row in rows]

    def after(self, number: int, *, limit: int = 1000) -> list[tuple[int, KeptResult]]:
        """What changed above this number, of all sinks, with what was taken back; of very many the newest."""
        rows = self._database.execute(
            "select * from result where arrival > ?1 order by arrival desc limit ?2", (number, limit)
        )
        return [(row["arrival"], _result_of_row(row)) for row in reversed(rows.fetchall())]

    def count(self) -> int:
        (number,) = self._database.execute("select count(*) from result where not retract").fetchone()
        return int(number)

    def close(self) -> None:
        self._database.close()


def _ordered(value: str) -> str:
    """Rows from before corrections were counted have their columns in the order in which they came."""
    return json.dumps(json.loads(value), sort_keys=True)


def _result_of_row(row: sqlite3.Row) -> KeptResult:
    former = row["former"]
    return KeptResult(
        sink=row["sink"],
        key=json.loads(row["key"]),
        window_start_us=row["window_start_us"],
        window_end_us=row["window_end_us"],
        row=row["row"],
        revision=row["revision"],
        retract=bool(row["retract"]),
        complete=bool(row["complete"]),
        values=json.loads(row["value"]),
        corrections=row["corrections"],
        corrected_us=row["corrected_us"],
        former=None if former is None else json.loads(former),
    )


def _columns(body: Mapping[str, object]) -> dict[str, object] | None:
    """The row as the table has it, or None when a part is missing or of another kind."""
    key, values, sink = body.get("key"), body.get("values"), body.get("sink")
    numbers = {
        name: body.get(column)
        for name, column in (("start", "window_start_us"), ("end", "window_end_us"), ("revision", "revision"))
    }
    if not (isinstance(key, list) and isinstance(values, dict) and isinstance(sink, str)):
        return None
    numbers["row"] = body.get("row", 0)  # a gateway of before rows had numbers sends none
    if not all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers.values()):
        return None
    return numbers | {
        "sink": sink, "key": json.dumps(key), "value": json.dumps(values, sort_keys=True),
        "retract": bool(body.get("retract", False)), "complete": bool(body.get("complete", True)),
    }  # fmt: skip
