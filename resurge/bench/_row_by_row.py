"""The peer of publishing: what `Results.publish` was before it was made set-based, statements and encoding for each row
and the table of answers as they were then."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from cloud_backend.results.publication import LAST_CHANGE
from cloud_backend.results.rows import Identity, ResultRow, Value
from cloud_backend.results.store import Results

_ANSWERS = """
DROP TABLE answers;
CREATE TABLE answers (
  sink TEXT NOT NULL, key TEXT NOT NULL, window_start_us INTEGER NOT NULL, window_end_us INTEGER NOT NULL,
  row INTEGER NOT NULL,
  device TEXT NOT NULL, revision INTEGER NOT NULL, retract INTEGER NOT NULL, complete INTEGER NOT NULL,
  content TEXT NOT NULL, change INTEGER NOT NULL,
  PRIMARY KEY (sink, key, window_start_us, window_end_us, row)) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX answers_by_change ON answers (change);
CREATE INDEX answers_by_window ON answers (sink, window_end_us);
"""
_SAME = "sink = ? AND key = ? AND window_start_us = ? AND window_end_us = ? AND row = ?"


class RowByRow:
    """A store of results opens its file, too, and finds the same answers."""

    def __init__(self, path: Path) -> None:
        Results(path).close()
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(_ANSWERS)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        self._database.close()

    def publish(self, epoch: int, rows: Sequence[ResultRow]) -> int:
        lines = sorted(f"{row.revision}\t{row.retract}\t{row.row}\t{_content(row)}" for row in rows)
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        self._database.execute("BEGIN IMMEDIATE")
        news = [row for row in rows if self._is_news(row)]
        for row in news:
            self._put(row)
        self._database.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (epoch, len(rows), digest))
        self._database.execute("COMMIT")
        return len(news)

    def _is_news(self, row: ResultRow) -> bool:
        known = self._database.execute(f"SELECT * FROM answers WHERE {_SAME}", _identity(row)).fetchone()
        return known is None or known[6] < row.revision

    def _put(self, row: ResultRow) -> None:
        known = self._database.execute(
            f"SELECT 1 FROM answers WHERE {_SAME} AND NOT retract", _identity(row)
        ).fetchone()
        if known is not None:
            self._database.execute(
                "INSERT INTO marks VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1",
                (f"corrected {row.sink}",),
            )
        said = int(row.retract), int(row.complete), _values(row)
        stored = (*_identity(row), row.device, row.revision, *said)
        (last,) = self._database.execute(LAST_CHANGE).fetchone()
        ten = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
        self._database.execute(f"INSERT OR REPLACE INTO answers VALUES ({ten})", (*stored, last + 1))
        if not row.device:
            return
        (seq,) = self._database.execute(
            "INSERT INTO downlink_heads VALUES (?, 1) ON CONFLICT (device) DO UPDATE SET head = head + 1"
            " RETURNING head",
            (row.device,),
        ).fetchone()
        self._database.execute(f"INSERT INTO downlinks VALUES ({ten})", (*stored, seq))


def _identity(row: ResultRow) -> Identity:
    key = _text([_tagged(value) for value in row.key])
    return (row.sink, key, row.window_start_us, row.window_end_us, row.row)


def _content(row: ResultRow) -> str:
    return _text([*_identity(row)[:4], row.device, row.complete, _values(row)])


def _values(row: ResultRow) -> str:
    return _text({name: _tagged(row.values[name]) for name in sorted(row.values)})


def _text(value: list[object] | Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _tagged(value: Value) -> object:
    if isinstance(value, float):
        return "f" + value.hex()
    return "s" + value if isinstance(value, str) else value
