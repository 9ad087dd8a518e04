"""Followers: receivers outside that are sent every answer of a sink, over HTTP or to an MQTT broker.

A follower has a place, the number of the last change of the results that its receiver took. It is kept after the
receiver has answered, so each answer is sent at least once, in the order in which it was given; a kill in between
sends some again. Every row says its identity and its revision: a receiver that keeps the highest revision of each
identity has what the results say. A receiver that fails is tried again, later each time, and from the same place.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from cloud_backend.coordinator import mqtt_broker
from cloud_backend.coordinator.webhooks import check_url
from cloud_backend.database import Database, Location
from shared.errors import UsageError

FILE = "followers.sqlite"
FORMAT = 1
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
FOLLOWERS_MAX = 50
RETRY_US_FIRST, RETRY_US_MAX = 1_000_000, 300_000_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS followers (
  name TEXT PRIMARY KEY, sink TEXT NOT NULL, url TEXT NOT NULL, private INTEGER NOT NULL, retained INTEGER NOT NULL,
  secret TEXT NOT NULL, added_us INTEGER NOT NULL, place INTEGER NOT NULL, delivered INTEGER NOT NULL,
  delivered_us INTEGER, failures INTEGER NOT NULL, failing_us INTEGER, retry_us INTEGER NOT NULL, problem TEXT NOT NULL
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
    """Open the followers at a path, creating the file when it is not there. Safe to share between threads."""

    def __init__(self, path: Location) -> None:
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="followers-format")

    def close(self) -> None:
        self._database.close()

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

    def took(self, follower: Follower, place: int, rows: int, now_us: int) -> bool:
        """Its receiver has everything up to this place; durable when this returns. False: it was removed meanwhile."""
        with self._database.transaction() as database:
            done = database.execute(
                "UPDATE followers SET place = ?, delivered = delivered + ?, failures = 0, failing_us = NULL,"
                " retry_us = 0, problem = '', delivered_us = coalesce(?, delivered_us) WHERE name = ? AND added_us = ?",
                (place, rows, now_us if rows else None, follower.name, follower.added_us),
            )
            return bool(done.rowcount)

    def failed(self, follower: Follower, problem: str, now_us: int) -> None:
        """Try it again, each time twice as late."""
        wait_us = min(RETRY_US_MAX, RETRY_US_FIRST << min(follower.failures, 20))
        with self._database.transaction() as database:
            database.execute(
                "UPDATE followers SET failures = failures + 1, failing_us = coalesce(failing_us, ?), retry_us = ?,"
                " problem = ? WHERE name = ? AND added_us = ?",
                (now_us, now_us + wait_us, problem[:200], follower.name, follower.added_us),
            )


def _follower(row: tuple[object, ...]) -> Follower:
    name, sink, url, private, retained, *rest = row
    return Follower(name, sink, url, bool(private), bool(retained), *rest)  # type: ignore[arg-type]
