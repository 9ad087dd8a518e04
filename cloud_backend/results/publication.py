"""Publishing an epoch's rows: what is known of them is read in a few questions, decided in memory, and written in a few
statements. A question for every row would cost the driver five times as much."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from cloud_backend.database import Statements
from cloud_backend.results.rows import Identity, ResultRow, encode_key, encode_values
from shared.errors import BrokenInvariant


class Stored(NamedTuple):
    """The ten columns with which answers and downlinks open. The first five are the identity."""

    sink: str
    key: str
    window_start_us: int
    window_end_us: int
    row: int
    device: str
    revision: int
    retract: int
    complete: int
    content: str

    @property
    def identity(self) -> Identity:
        return self[:5]


_NEVER_US = -(1 << 63) - 1
CORRECTED = "corrected "  # with a sink's name: a mark that counts its corrections
LAST_CHANGE = (
    "SELECT max(number) FROM (SELECT 0 AS number UNION ALL SELECT max(change) FROM answers"
    " UNION ALL SELECT value FROM marks WHERE name = 'change') AS numbers"
)

_INCOMING = (
    "CREATE TEMP TABLE incoming (sink TEXT, key TEXT, window_start_us INTEGER, window_end_us INTEGER, row INTEGER)"
)
_COLUMNS = (
    "a.sink, a.key, a.window_start_us, a.window_end_us, a.row, a.device, a.revision, a.retract, a.complete, a.content"
)
# `CROSS JOIN`: SQLite then goes through what comes in and looks each up by the key, never the other way round.
_ABOUT_THE_SAME = (
    f"SELECT {_COLUMNS} FROM incoming i CROSS JOIN answers a WHERE a.sink = i.sink AND a.key = i.key"  # noqa: S608 - ours
    " AND a.window_start_us = i.window_start_us AND a.window_end_us = i.window_end_us"
)
_KNOWN = f"{_ABOUT_THE_SAME} AND a.row = i.row"
_UNNUMBERED = f"{_ABOUT_THE_SAME} AND a.row = 0 AND i.row > 0 AND a.retract = 0"
_INSIDE = (
    f"SELECT DISTINCT {_COLUMNS} FROM incoming i CROSS JOIN answers a WHERE a.sink = i.sink"  # noqa: S608 - ours
    " AND a.key = i.key"
    " AND a.window_start_us >= i.window_start_us AND a.window_start_us <= i.window_end_us"
    " AND a.window_end_us <= i.window_end_us AND a.retract = 0 AND i.sink IN ({sinks})"
)
_ELEVEN = ", ".join("?" * 11)
PUT_ANSWER = (
    f"INSERT INTO answers VALUES ({_ELEVEN}) ON CONFLICT (sink, key, window_start_us, window_end_us, row)"  # noqa: S608
    " DO UPDATE SET device = excluded.device, revision = excluded.revision, retract = excluded.retract,"
    " complete = excluded.complete, content = excluded.content, change = excluded.change"
)
PUT_DOWNLINK = f"INSERT INTO downlinks VALUES ({_ELEVEN})"  # noqa: S608 - ours
PUT_HEAD = "INSERT INTO downlink_heads VALUES (?, ?) ON CONFLICT (device) DO UPDATE SET head = excluded.head"


def stored_of(row: ResultRow) -> Stored:
    return Stored(
        row.sink, encode_key(row.key), row.window_start_us, row.window_end_us, row.row, row.device, row.revision,
        int(row.retract), int(row.complete), encode_values(row.values),
    )  # fmt: skip


def digest_of_publication(rows: Iterable[Stored]) -> str:
    """Unlike the digest of answers this one tells revisions apart: it recognises a publication."""
    lines = [
        f"{sink}\0{key}\0{start}\0{end}\0{row}\0{device}\0{revision}\0{retract}\0{complete}\0{content}"
        for sink, key, start, end, row, device, revision, retract, complete, content in rows
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def put_news(database: Statements, rows: Sequence[Stored], sessions: Collection[str]) -> int:
    """Inside a transaction: keep what is news among these rows, and return how many are."""
    publication = _Publication(database, rows, sessions)
    news = [row for row in rows if publication.is_news(row)]
    for row in news:
        publication.say(row)
    publication.write()
    return len(news)


class _Publication:
    def __init__(self, database: Statements, rows: Sequence[Stored], sessions: Collection[str]) -> None:
        self._database, self._sessions = database, sessions
        database.execute(_INCOMING)  # and dropped after: a table that is emptied each time grows on a server
        last = {sink: self._last_window(sink) for sink in {row.sink for row in rows} - set(sessions)}
        asked = [row[:5] for row in rows if row.window_end_us <= last.get(row.sink, row.window_end_us)]
        database.executemany("INSERT INTO incoming VALUES (?, ?, ?, ?, ?)", asked)
        # Nothing is asked about nothing: a server that has not counted its rows yet may go through all answers for it.
        found = self._asked(_KNOWN) if asked else []
        self._before = {row.identity: row for row in found}
        if any(row for *_, row in asked):
            found += self._asked(_UNNUMBERED)
        if sessions:
            found += self._asked(_INSIDE.format(sinks=", ".join("?" * len(sessions))), *sorted(sessions))
        self._now = {row.identity: row for row in found}
        self._of_key: dict[tuple[str, str], dict[Identity, None]] = {}  # in sinks of sessions
        for identity in self._now:
            if identity[0] in sessions:
                self._note(identity)
        self._heads = self._downlink_heads({row.device for row in (*rows, *found)} - {""})
        database.execute("DROP TABLE incoming")
        (self._change,) = database.execute(LAST_CHANGE).fetchone()
        self._answers: dict[Identity, tuple[Any, ...]] = {}
        self._downlinks: list[tuple[Any, ...]] = []
        self._corrected: Counter[str] = Counter()

    def _last_window(self, sink: str) -> int:
        """The end of the last window a sink has said anything about: nothing is known of later ones, and most of what
        comes is about those. Not to be relied on where sessions grow over others."""
        (end,) = self._database.execute("SELECT max(window_end_us) FROM answers WHERE sink = ?", (sink,)).fetchone()
        return _NEVER_US if end is None else int(end)

    def _asked(self, question: str, *parameters: str) -> list[Stored]:
        return [Stored(*row) for row in self._database.execute(question, parameters)]

    def is_news(self, row: Stored) -> bool:
        known = self._before.get(row[:5])
        if known is None or known.revision < row.revision:
            return True
        if known.revision == row.revision and known != row:
            raise BrokenInvariant(
                f"sink {row.sink!r} gave two answers with revision {row.revision} for one key and window; "
                "a changed answer needs a higher revision",
                code="results-revision",
            )
        return False

    def say(self, row: Stored) -> None:
        """Take a row in, after what it stands in place of."""
        replaced = self._unnumbered(row) if row.row else []
        if row.sink in self._sessions and not row.retract:
            replaced += self._inside(row)
        for each in replaced:
            self._put(each._replace(revision=row.revision, retract=1))
        self._put(row)

    def _unnumbered(self, row: Stored) -> list[Stored]:
        """The one row that format 1 kept of several, once a rollback says all of them again, or takes that one back."""
        former = self._now.get((*row.identity[:4], 0))
        if former is None or former.retract or former.revision >= row.revision >> 32 << 32:
            return []
        same = (former.device, former.complete, former.content) == (row.device, row.complete, row.content)
        return [former] if not row.retract or same else []

    def _inside(self, row: Stored) -> list[Stored]:
        """The sessions that a session has grown over, the earliest first, whatever order a database gives them in."""
        others = (self._now[each] for each in self._of_key.get((row.sink, row.key), {}) if each != row.identity)
        grown_over = (
            each
            for each in others
            if row.window_start_us <= each.window_start_us
            and each.window_end_us <= row.window_end_us
            and each.revision < row.revision
            and not each.retract
        )
        return sorted(grown_over, key=lambda each: (each.window_start_us, each.window_end_us, each.row))

    def _put(self, row: Stored) -> None:
        """As the answer of its sink, and, where it is for a device, on its way down. A correction is counted."""
        identity = row[:5]
        known = self._now.get(identity)
        if known is None:
            if row.sink in self._sessions:
                self._note(identity)
        elif not known.retract:
            self._corrected[row.sink] += 1
        self._now[identity] = row
        self._change += 1
        self._answers[identity] = (*row, self._change)
        if row.device:
            seq = self._heads[row.device] = self._heads.get(row.device, 0) + 1
            self._downlinks.append((*row, seq))

    def _note(self, identity: Identity) -> None:
        self._of_key.setdefault((identity[0], identity[1]), {})[identity] = None

    def _downlink_heads(self, devices: Collection[str]) -> dict[str, int]:
        if not devices:
            return {}
        self._database.execute("DELETE FROM incoming")
        self._database.executemany("INSERT INTO incoming (key) VALUES (?)", [(device,) for device in devices])
        return dict(
            self._database.execute(
                "SELECT h.device, h.head FROM incoming i CROSS JOIN downlink_heads h WHERE h.device = i.key"
            )
        )

    def write(self) -> None:
        database = self._database
        database.executemany(PUT_ANSWER, sorted(self._answers.values()))
        database.executemany(PUT_DOWNLINK, self._downlinks)
        said_to = {row[Stored._fields.index("device")] for row in self._downlinks}
        database.executemany(PUT_HEAD, [(device, self._heads[device]) for device in said_to])
        database.executemany(
            "INSERT INTO marks VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = marks.value + excluded.value",
            [(f"{CORRECTED}{sink}", count) for sink, count in self._corrected.items()],
        )
