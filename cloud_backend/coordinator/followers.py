"""Followers: receivers outside that are sent every answer of a sink, over HTTP or to an MQTT broker.

A follower has a place, the number of the last change of the results that its receiver took. It is kept after the
receiver has answered, so each answer is sent at least once, in the order in which it was given; a kill in between
sends some again. Every row says its identity and its revision: a receiver that keeps the highest revision of each
identity has what the results say. A receiver that fails is tried again, later each time, and from the same place.

Gateways on one database have their followers in common, and each is sent to by one of them: the one that holds it. It
holds it for a while, and again with every step. One that was paused for longer finds that its step is not kept.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from cloud_backend.coordinator import mqtt_broker
from cloud_backend.coordinator.webhooks import check_url
from cloud_backend.database import Database, DatabaseLost, Location, Served, in_home, located
from shared.errors import UsageError

FILE = "followers.sqlite"
FORMAT = 1
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
FOLLOWERS_MAX = 50
HOLD_US = 30_000_000  # longer than a receiver may take to answer
RETRY_US_FIRST, RETRY_US_MAX = 1_000_000, 300_000_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS followers (
  name TEXT PRIMARY KEY, sink TEXT NOT NULL, url TEXT NOT NULL, private INTEGER NOT NULL, retained INTEGER NOT NULL,
  secret TEXT NOT NULL, added_us INTEGER NOT NULL, place INTEGER NOT NULL, delivered INTEGER NOT NULL,
  delivered_us INTEGER, failures INTEGER NOT NULL, failing_us INTEGER, retry_us INTEGER NOT NULL, problem TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_HOLDERS = """
CREATE TABLE IF NOT EXISTS holders (
  name TEXT PRIMARY KEY, holder TEXT NOT NULL, until_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Follower:
    name: str
    sink: str
    url: str  # http, https, mqtt or mqtts
    private: bool  # the receiver is on a private network, and that is meant
    retained: bool  # MQTT: the broker keeps the last row of each topic
    secret: str  # HTTP: what bodies are signed with; MQTT: the password
    added_us: int
    place: int
    delivered: int  # rows
    delivered_us: int | None
    failures: int  # in a row
    failing_us: int | None
    retry_us: int
    problem: str

    @property
    def is_mqtt(self) -> bool:
        return self.url.startswith(mqtt_broker.SCHEMES)


class Followers:
    """Open the followers at a place, creating them when they are not there. Safe to share between threads."""

    def __init__(self, where: Location) -> None:
        self._database = Database(where)
        self._database.require(_SCHEMA, format=FORMAT, code="followers-format", later=_HOLDERS)
        # A file is one gateway's, whichever process that is.
        self._holder = secrets.token_hex(8) if isinstance(where, Served) else ""

    @staticmethod
    def of_home(home: Path, results: Path | str | None) -> Followers:
        """A gateway's: those in its home, or in the database that it shares, where those of its home go. They are
        shared only where the results are: a place is a change of these, and means nothing in those of another."""
        where = in_home(home, FILE)
        if results is None or where != located(results, FILE):
            where = home / FILE
        followers = Followers(where)
        if isinstance(where, Served) and (home / FILE).exists():
            followers._take_in(home / FILE)
        return followers

    def close(self) -> None:
        """Let others send to those that this one held."""
        with contextlib.suppress(DatabaseLost), self._database.transaction() as database:
            database.execute("DELETE FROM holders WHERE holder = ?", (self._holder,))
        self._database.close()

    def hold(self, name: str, now_us: int) -> Follower | None:
        """Be the one who sends to it for a while, and see how far it is; None where another one is, or it is gone."""
        with self._database.transaction() as database:
            row = database.execute("SELECT * FROM followers WHERE name = ?", (name,)).fetchone()
            if row is None:
                return None
            held = database.execute(
                "INSERT INTO holders VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder,"
                " until_us = excluded.until_us WHERE holders.holder = excluded.holder OR holders.until_us <= ?",
                (name, self._holder, now_us + HOLD_US, now_us),
            )
        return _follower(row) if held.rowcount else None

    def all(self) -> list[Follower]:
        return [_follower(row) for row in self._database.read("SELECT * FROM followers ORDER BY name")]

    def find(self, name: str) -> Follower:
        rows = self._database.read("SELECT * FROM followers WHERE name = ?", (name,))
        if not rows:
            raise UsageError(
                "no follower has this name; resurge results followers shows those that are", code="follower-not-found"
            )
        return _follower(rows[0])

    def check(self, name: str, url: str) -> None:
        """Refuse what cannot be added."""
        if not NAME.fullmatch(name):
            raise UsageError(
                "this cannot name a follower; use up to 40 of a-z, 0-9, - and _, a letter or digit first",
                code="follower-name",
            )
        if url.startswith(mqtt_broker.SCHEMES):
            mqtt_broker.check_address(url)
        else:
            check_url(url)
        known = {each.name for each in self.all()}
        if name in known:
            raise UsageError("a follower of this name is there already; remove it first", code="follower-name")
        if len(known) >= FOLLOWERS_MAX:
            raise UsageError(f"there are {FOLLOWERS_MAX} followers already; remove one first", code="follower-many")

    def add(
        self, name: str, sink: str, url: str, *, place: int, now_us: int, private: bool, retained: bool, password: str
    ) -> Follower:
        """Have a receiver follow a sink from a place on."""
        self.check(name, url)
        secret = password if url.startswith(mqtt_broker.SCHEMES) else secrets.token_hex(16)
        with self._database.transaction() as database:
            database.execute(
                "INSERT INTO followers VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, 0, NULL, 0, '')",
                (name, sink, url, int(private), int(retained), secret, now_us, place),
            )
        return self.find(name)

    def remove(self, name: str) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM followers WHERE name = ?", (name,))
            database.execute("DELETE FROM holders WHERE name = ?", (name,))

    def took(self, follower: Follower, place: int, rows: int, now_us: int) -> bool:
        """Its receiver has everything up to this place; durable when this returns. False: it was removed meanwhile, or
        another gateway holds it."""
        with self._database.transaction() as database:
            held = database.execute(
                "UPDATE holders SET until_us = ? WHERE name = ? AND holder = ?",
                (now_us + HOLD_US, follower.name, self._holder),
            )
            if not held.rowcount:
                return False
            done = database.execute(
                "UPDATE followers SET place = ?, delivered = delivered + ?, failures = 0, failing_us = NULL,"
                " retry_us = 0, problem = '', delivered_us = coalesce(?, delivered_us) WHERE name = ? AND added_us = ?",
                (place, rows, now_us if rows else None, follower.name, follower.added_us),
            )
            return bool(done.rowcount)

    def failed(self, follower: Follower, problem: str, now_us: int) -> None:
        """Try it again, each time twice as late. Nothing is kept of it where another gateway holds it by now."""
        wait_us = min(RETRY_US_MAX, RETRY_US_FIRST << min(follower.failures, 20))
        with self._database.transaction() as database:
            database.execute(
                "UPDATE followers SET failures = failures + 1, failing_us = coalesce(failing_us, ?), retry_us = ?,"
                " problem = ? WHERE name = ? AND added_us = ?"
                " AND EXISTS (SELECT 1 FROM holders WHERE holders.name = followers.name AND holder = ?)",
                (now_us, now_us + wait_us, problem[:200], follower.name, follower.added_us, self._holder),
            )

    def _take_in(self, path: Path) -> None:
        """From a file, as they are there. Done again after a crash, it takes in nothing twice."""
        former = Followers(path)
        for each in former.all():
            known = self.all()
            if any((each.added_us, each.url) == (other.added_us, other.url) for other in known):
                continue
            taken, name, number = {other.name for other in known}, each.name, 2
            while name in taken:  # another gateway has one of this name
                name, number = f"{each.name[:37]}-{number}", number + 1
            row = {**asdict(each), "name": name, "private": int(each.private), "retained": int(each.retained)}
            with self._database.transaction() as database:
                database.execute(f"INSERT INTO followers VALUES ({', '.join('?' * len(row))})", tuple(row.values()))  # noqa: S608
        former.close()
        path.rename(path.with_suffix(".shared"))


def _follower(row: tuple[object, ...]) -> Follower:
    name, sink, url, private, retained, *rest = row
    return Follower(name, sink, url, bool(private), bool(retained), *rest)  # type: ignore[arg-type]
