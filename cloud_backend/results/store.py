"""The results: what each sink says now, and per device the append-only sequence that carries it down.

The job publishes the rows of an epoch; the gateway reads the downlinks; the dashboard reads what is current. They
are separate processes, so the store is one SQLite file in WAL mode: one writer, readers that never wait for it.

The one rule: a publish is one transaction, and applying it twice changes nothing. The job may die before it, in
the middle of it or after it but before its manifest knows; it then publishes the epoch again, with equal rows.
Per identity only a higher revision is an answer; an equal one must say the same thing, or two phones could
hold different answers under one number, so that is refused loudly. Downlink numbers are per device, start
at 1 and are never reused, not even once everything below them was trimmed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from cloud_backend.database import Database, Location, Statements, located
from cloud_backend.results.publication import (
    CORRECTED,
    LAST_CHANGE,
    PUT_DOWNLINK,
    digest_of_publication,
    put_news,
    stored_of,
)
from cloud_backend.results.rows import ResultRow, decode_key, decode_values, digest_of

__all__ = ["ResultRow", "Results", "digest_of"]

FORMAT = 2
TOLD_MAX = 256
FILE = "results.sqlite"
LAST_US = (1 << 63) - 1

# Both kinds of row open with the ten columns that `_stored` writes and `_row` reads. Answers lie in the order in which
# they were given, so that publishing appends them; by their identities it would write a page for nearly every row.
# Files of earlier versions have them by identity, with the same columns, and every statement works on both. That a row
# is retracted is in the index by window: rows are counted without being looked up.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY, rows INTEGER NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers (
  sink TEXT NOT NULL, key TEXT NOT NULL, window_start_us INTEGER NOT NULL, window_end_us INTEGER NOT NULL,
  row INTEGER NOT NULL,
  device TEXT NOT NULL, revision INTEGER NOT NULL, retract INTEGER NOT NULL, complete INTEGER NOT NULL,
  content TEXT NOT NULL, change INTEGER PRIMARY KEY,
  UNIQUE (sink, key, window_start_us, window_end_us, row)) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_window ON answers (sink, window_end_us, retract);
CREATE TABLE IF NOT EXISTS downlinks (
  sink TEXT NOT NULL, key TEXT NOT NULL, window_start_us INTEGER NOT NULL, window_end_us INTEGER NOT NULL,
  row INTEGER NOT NULL,
  device TEXT NOT NULL, revision INTEGER NOT NULL, retract INTEGER NOT NULL, complete INTEGER NOT NULL,
  content TEXT NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (device, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS downlink_heads (device TEXT PRIMARY KEY, head INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""

# Added since format 1 was first written; a version that does not know it ignores it.
_LATER = "CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID"
# Until format 2 a sink had one row about a key and window: its number is 0.
_OF_FORMAT_1 = "sink, key, window_start_us, window_end_us, 0, device, revision, retract, complete, content"
_FROM_FORMAT_1 = f"""
ALTER TABLE answers RENAME TO former_answers;
ALTER TABLE downlinks RENAME TO former_downlinks;
DROP INDEX answers_by_change;
DROP INDEX answers_by_window;
{_SCHEMA}
INSERT INTO answers SELECT {_OF_FORMAT_1}, change FROM former_answers;
INSERT INTO downlinks SELECT {_OF_FORMAT_1}, seq FROM former_downlinks;
DROP TABLE former_answers;
DROP TABLE former_downlinks
"""  # noqa: S608 - all of it is ours
_FORGET_DOWNLINKS = (
    "DELETE FROM downlinks WHERE sink = ? AND retract = 0 AND NOT EXISTS (SELECT 1 FROM answers"
    " WHERE answers.sink = downlinks.sink AND answers.key = downlinks.key"
    " AND answers.window_start_us = downlinks.window_start_us AND answers.window_end_us = downlinks.window_end_us"
    " AND answers.row = downlinks.row AND answers.revision = downlinks.revision)"
)


class Results:
    """Open the store at a path or at the URL of a server's database, creating it when it is not there. Safe to share
    between threads. `patience_s`: how long a server that is away is waited for."""

    def __init__(self, where: Location | str, *, patience_s: float = 0) -> None:
        self._database = Database(located(where, FILE), large=True, patience_s=patience_s)
        self._database.migrate(_FROM_FORMAT_1, before=1, after=FORMAT)
        self._database.require(
            _SCHEMA, format=FORMAT, code="results-format", later=_LATER, name="results store",
            remedy="upgrade, or move the file away and let the job publish again",
        )  # fmt: skip

    def close(self) -> None:
        self._database.close()

    # -- writing -------------------------------------------------------------------------------------------------

    def publish(self, epoch: int, rows: Iterable[ResultRow], *, sessions: Collection[str] = ()) -> int:
        """Make an epoch's rows durable, all or none, and return how many were news. Repeating it returns 0.

        In the sinks named by `sessions` a row also retracts what was said before about windows within its own."""
        stored = [stored_of(row) for row in rows]
        digest = digest_of_publication(stored)

        def put() -> int:
            with self._database.transaction() as database:
                known = database.execute("SELECT digest FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
                if known and known[0] == digest:
                    return 0
                news = put_news(database, stored, frozenset(sessions))
                # After a rollback an epoch comes again with corrections: its last publication is the one to recognise.
                database.execute(
                    "INSERT INTO epochs VALUES (?, ?, ?) ON CONFLICT (epoch)"
                    " DO UPDATE SET rows = excluded.rows, digest = excluded.digest",
                    (epoch, len(stored), digest),
                )
                return news

        return self._database.again(put)

    def tell(self, rows: Iterable[ResultRow]) -> None:
        """Put rows on their way to their devices that are no answers of a sink. One that waits already, by its identity
        and revision, is not put twice; of one sink at most so many wait for a device, then the oldest go."""
        with self._database.transaction() as database:
            for row in map(stored_of, rows):
                same = (row.device, row.sink, row.key, row.revision)
                question = "SELECT 1 FROM downlinks WHERE device = ? AND sink = ? AND key = ? AND revision = ?"
                if database.execute(question, same).fetchone():
                    continue
                (seq,) = database.execute(
                    "INSERT INTO downlink_heads VALUES (?, 1) ON CONFLICT (device) DO UPDATE"
                    " SET head = downlink_heads.head + 1 RETURNING downlink_heads.head",
                    (row.device,),
                ).fetchone()
                database.execute(PUT_DOWNLINK, (*row, seq))
                database.execute(
                    "DELETE FROM downlinks WHERE device = ? AND sink = ? AND seq <= (SELECT seq FROM downlinks"
                    " WHERE device = ? AND sink = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)",
                    (row.device, row.sink, row.device, row.sink, TOLD_MAX),
                )

    def trim(self, device: str, through_seq: int) -> int:
        """Forget a device's downlink up to a sequence it said it holds durably; returns how many rows went."""
        with self._database.transaction() as database:
            cursor = database.execute("DELETE FROM downlinks WHERE device = ? AND seq <= ?", (device, through_seq))
            return cursor.rowcount

    def forget_sink(self, sink: str) -> int:
        """Remove everything a sink said, here and on its way down; returns how many answers went."""
        with self._database.transaction() as database:
            _keep_change(database)
            database.execute("DELETE FROM downlinks WHERE sink = ?", (sink,))
            return database.execute("DELETE FROM answers WHERE sink = ?", (sink,)).rowcount

    def forget_device(self, device: str, *, after: int = 0) -> int:
        """Remove every answer after a change number that is for or about a device, whose id is then its own, a part of
        its key or one of its values; returns how many went, and leaves nothing of them in the file. Costs what was
        answered since, and writes only if there is something."""
        about = "change > ? AND (device = ? OR replace(key, ?, '') != key OR replace(content, ?, '') != content)"
        named = json.dumps("s" + device, ensure_ascii=False)
        parameters = (after, device, named, named)
        if not self._database.read(f"SELECT 1 FROM answers WHERE {about} LIMIT 1", parameters):  # noqa: S608 - ours
            return 0
        with self._database.transaction() as database:
            _keep_change(database)
            database.execute("DELETE FROM downlinks WHERE device = ?", (device,))
            count = database.execute(f"DELETE FROM answers WHERE {about}", parameters).rowcount  # noqa: S608 - ours
        self._database.shrink()
        return int(count)

    def forget_said(self, sinks: Collection[str], *, through_epoch: int, after_us: int) -> int:
        """Remove what these sinks said up to an epoch about windows that end after a time; returns how many went."""
        gone = 0
        with self._database.transaction() as database:
            _keep_change(database)
            for sink in sinks:
                gone += database.execute(
                    "DELETE FROM answers WHERE sink = ? AND revision & 4294967295 <= ? AND window_end_us >= ?",
                    (sink, through_epoch, after_us),
                ).rowcount
        return gone

    def forget_corrected(self, sinks: Collection[str]) -> None:
        """Leave nothing in the file of what these sinks said and took back or said otherwise since. A phone that has
        yet to hear that something was taken back hears it, without what it was."""
        with self._database.transaction() as database:
            _keep_change(database)
            for sink in sinks:
                database.execute(_FORGET_DOWNLINKS, (sink,))
                database.execute("UPDATE downlinks SET content = '{}' WHERE sink = ? AND retract = 1", (sink,))
                database.execute("DELETE FROM answers WHERE sink = ? AND retract = 1", (sink,))
        self._database.shrink()

    def change(self) -> int:
        """The number of the last answer given."""
        return int(self._database.read(LAST_CHANGE)[0][0])

    # -- reading -------------------------------------------------------------------------------------------------

    def downlink(self, device: str, after_seq: int, limit: int = 256) -> list[tuple[int, ResultRow]]:
        """The rows for a device after a sequence number, in order: what it has not said it holds."""
        found = self._database.read(
            "SELECT * FROM downlinks WHERE device = ? AND seq > ? ORDER BY seq LIMIT ?",
            (device, after_seq, limit),
        )
        return [(row[10], _row(row)) for row in found]

    def downlink_head(self, device: str) -> int:
        """The last sequence number given to a row for this device; 0 when there was none."""
        found = self._database.read("SELECT head FROM downlink_heads WHERE device = ?", (device,))
        return found[0][0] if found else 0

    def of_key(self, sink: str, key: str, *, rows_max: int) -> Iterator[ResultRow]:
        """What a sink says now about one key, as `encode_key` writes it, the newest window first."""
        before, page = (1 << 62, 1 << 62, 1 << 62), 16
        while rows_max > 0:
            found = self._database.read(
                "SELECT * FROM answers WHERE sink = ? AND key = ? AND (window_start_us, window_end_us, row) < (?, ?, ?)"
                " AND retract = 0 ORDER BY window_start_us DESC, window_end_us DESC, row DESC LIMIT ?",
                (sink, key, *before, page),
            )
            yield from map(_row, found)
            if len(found) < page:
                return
            before, rows_max, page = found[-1][2:5], rows_max - page, min(1000, 4 * page)

    def latest(self, sink: str, limit: int | None = None) -> list[ResultRow]:
        """What a sink says now, by window and key; with a limit the newest windows only."""
        found = self._database.read(
            "SELECT * FROM answers WHERE sink = ? AND retract = 0"
            " ORDER BY window_end_us DESC, window_start_us DESC, key DESC, row DESC LIMIT ?",
            (sink, (1 << 63) - 1 if limit is None else limit),
        )
        return [_row(row) for row in reversed(found)]

    def page(
        self,
        sink: str,
        *,
        before_us: int | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        limit: int = 100,
    ) -> list[ResultRow]:
        """What a sink says now about windows that end before a time, and in a range whose ends belong to it, newest
        first. A few more than the limit where several windows end together: the end of the last row is where the next
        page goes on, so none may be cut off."""
        below = LAST_US if to_us is None else to_us + 1
        found = self._database.read(
            "SELECT * FROM answers WHERE sink = ? AND window_end_us >= ? AND window_end_us < ? AND retract = 0"
            " ORDER BY window_end_us DESC, window_start_us DESC, key DESC, row DESC LIMIT ?",
            (
                sink,
                -LAST_US if from_us is None else from_us,
                below if before_us is None else min(below, before_us),
                limit,
            ),
        )
        if len(found) == limit:
            found += self._database.read(
                "SELECT * FROM answers WHERE sink = ? AND window_end_us = ? AND retract = 0"
                " AND (window_start_us, key, row) < (?, ?, ?) ORDER BY window_start_us DESC, key DESC, row DESC",
                (sink, found[-1][3], found[-1][2], found[-1][1], found[-1][4]),
            )
        return [_row(row) for row in found]

    def count(self, sink: str, *, from_us: int | None, to_us: int | None, most: int) -> int:
        """How many rows a sink has about windows that end in a range, both ends included; `most` stands for more."""
        [(found,)] = self._database.read(
            "SELECT count(*) FROM (SELECT 1 FROM answers WHERE sink = ? AND window_end_us >= ? AND window_end_us <= ?"
            " AND retract = 0 LIMIT ?) AS counted",
            (sink, -LAST_US if from_us is None else from_us, LAST_US if to_us is None else to_us, most),
        )
        return int(found)

    def has(self, sink: str) -> bool:
        """Whether a sink of this name ever answered."""
        return bool(self._database.read("SELECT 1 FROM answers WHERE sink = ? LIMIT 1", (sink,)))

    def said(self, sink: str, *, after_epoch: int, before_revision: int) -> list[ResultRow]:
        """What a sink says now, as far as it was last said after an epoch and with a lower revision than this."""
        found = self._database.read(
            "SELECT * FROM answers WHERE sink = ? AND retract = 0 AND revision < ? AND (revision & 4294967295) > ?",
            (sink, before_revision, after_epoch),
        )
        return [_row(row) for row in found]

    def changes(self, after: int, limit: int = 1000) -> tuple[int, list[ResultRow]]:
        """Answers given since a change number, retractions included, and the number to go on from."""
        found = self._database.read("SELECT * FROM answers WHERE change > ? ORDER BY change LIMIT ?", (after, limit))
        return (found[-1][10] if found else after), [_row(row) for row in found]

    def told_since(self, change: int, limit: int = 10_000) -> tuple[int, set[str]]:
        """The devices that got answers since a change number, and the number to go on from. Costs what was answered."""
        found = self._database.read(
            "SELECT change, device FROM answers WHERE change > ? ORDER BY change LIMIT ?", (change, limit)
        )
        return (found[-1][0] if found else change), {device for _, device in found if device}

    def last_change(self) -> int:
        """A number that grows with every answer; 0 before the first."""
        return int(self._database.read("SELECT coalesce(max(change), 0) FROM answers")[0][0])

    def sinks(self) -> dict[str, int]:
        """Every sink that ever answered, with how many rows it holds now."""
        return dict(
            self._database.read(
                "SELECT sink, count(CASE WHEN retract = 0 THEN 1 END) FROM answers GROUP BY sink ORDER BY sink"
            )
        )

    def corrections(self) -> dict[str, int]:
        """By sink, how many answers were said otherwise or taken back, ever."""
        found = self._database.read("SELECT name, value FROM marks WHERE name LIKE ?", (f"{CORRECTED}%",))
        return {name.removeprefix(CORRECTED): value for name, value in found}

    def current(self) -> list[ResultRow]:
        """Every row of every sink, by sink, key and window."""
        found = self._database.read(
            "SELECT * FROM answers WHERE retract = 0 ORDER BY sink, key, window_start_us, window_end_us, row"
        )
        return [_row(row) for row in found]

    def epoch(self) -> int | None:
        """The last epoch published; None before the first."""
        [(epoch,)] = self._database.read("SELECT max(epoch) FROM epochs")
        return None if epoch is None else int(epoch)

    def digest(self) -> str:
        return digest_of(self.current())


def _keep_change(database: Statements) -> None:
    """Change numbers are never reused, also when the answer that had the highest is removed: whoever follows them
    would miss the next one."""
    (last,) = database.execute(LAST_CHANGE).fetchone()
    database.execute(
        "INSERT INTO marks VALUES ('change', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (last,)
    )


def _row(stored: tuple[Any, ...]) -> ResultRow:
    sink, key, start, end, number, device, revision, retract, complete, content = stored[:10]
    return ResultRow(
        sink=sink, device=device, key=decode_key(key), window_start_us=start, window_end_us=end, revision=revision,
        retract=bool(retract), complete=bool(complete), values=decode_values(content),
        row=number,
    )  # fmt: skip
