"""People: who may sign in, the sessions they opened, and one-time links, kept in SQLite beside the roster.

A password is kept as its argon2id hash, a session and a link as the SHA-256 of a random secret: whoever reads the
file can neither sign in nor take over a session. A session ends after an hour without a request and after half a
day in any case; changing a password or a role, and removing a person, ends all of that person's sessions.

A one-time link signs its opener in without a password. The first start makes one for the person `admin`, because
somebody who may read the gateway's output or its home owns it anyway; `resurge person link` makes later ones.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from cloud_backend.database import Database, Location, Statements
from shared.errors import UsageError

FORMAT = 1
FILE = "accounts.sqlite"  # the file, its table and the error codes keep the name that installations have
SECOND_US = 1_000_000
IDLE_US = 3600 * SECOND_US
SESSION_US = 12 * 3600 * SECOND_US
LINK_US = 3600 * SECOND_US
TOUCH_US = 60 * SECOND_US  # how exact an idle time is: a request a second must not be a write a second
PASSWORD_CHARACTERS_MIN = 12
PASSWORD_CHARACTERS_MAX = 256
ROLES = ("viewer", "operator", "admin")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
FIRST_ADMIN = "admin"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT, created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
  hash BLOB PRIMARY KEY, name TEXT NOT NULL, began_us INTEGER NOT NULL, seen_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (
  hash BLOB PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
_hasher = PasswordHasher()  # argon2id with the library's defaults, RFC 9106's low-memory choice: 64 MiB
# Verified when there is no such person, so that a stranger cannot tell by the time an answer takes.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$VQAQJQVFDJK9AGRtpop07w$rC8mKlRa5y07pz/7RWSejdqAKcLXYcTr6p04qLt7420"


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: str  # viewer < operator < admin

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def sees_places(self) -> bool:
        """A viewer sees where devices are only to about a kilometre."""
        return self.may("operator")


@dataclass(frozen=True, slots=True)
class PersonEntry:
    name: str
    role: str
    has_password: bool
    created_us: int


class People:
    """Open the people of a gateway's home, creating the file when it is not there. Safe between threads."""

    def __init__(self, path: Location) -> None:
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="accounts-format")

    def close(self) -> None:
        self._database.close()

    # -- people --------------------------------------------------------------------------------------------------

    def put(self, name: str, role: str, now_us: int, password: str | None = None) -> None:
        """Add a person, or change their role and, if one is given, their password. Ends their sessions."""
        _check(name, role)
        hashed = None if password is None else hash_password(password)
        with self._database.transaction() as database:
            _keep_an_admin(database, name, role)
            database.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET role = excluded.role,"
                " password = coalesce(excluded.password, accounts.password)",
                (name, role, hashed, now_us),
            )
            database.execute("DELETE FROM sessions WHERE name = ?", (name,))

    def check_known(self, name: str) -> None:
        if not self._database.read("SELECT 1 FROM accounts WHERE name = ?", (name,)):
            raise _no_person()

    def check_an_admin_stays(self, name: str, role: str) -> None:
        """Refuse to give the last admin another role, or none."""
        with self._database.transaction() as database:
            _keep_an_admin(database, name, role)

    def browser_token(self, name: str) -> str | None:
        """What a browser keeps in which this person signed in: it follows from the hash of their password, so another
        password makes it void. None for somebody who has no password."""
        rows = self._database.read("SELECT password FROM accounts WHERE name = ?", (name,))
        if not rows or rows[0][0] is None:
            return None
        return hmac.new(rows[0][0].encode(), b"resurge-known-browser" + name.encode(), hashlib.sha256).hexdigest()

    def set_password(self, name: str, password: str) -> None:
        """Change a password and end every session that was opened before."""
        hashed = hash_password(password)
        with self._database.transaction() as database:
            if not database.execute("UPDATE accounts SET password = ? WHERE name = ?", (hashed, name)).rowcount:
                raise _no_person()
            database.execute("DELETE FROM sessions WHERE name = ?", (name,))

    def remove(self, name: str) -> None:
        with self._database.transaction() as database:
            _keep_an_admin(database, name, "")
            if not database.execute("DELETE FROM accounts WHERE name = ?", (name,)).rowcount:
                raise _no_person()
            database.execute("DELETE FROM sessions WHERE name = ?", (name,))
            database.execute("DELETE FROM links WHERE name = ?", (name,))

    def all(self) -> list[PersonEntry]:
        rows = self._database.read("SELECT name, role, password IS NOT NULL, created_us FROM accounts ORDER BY name")
        return [PersonEntry(name, role, bool(has), created) for name, role, has, created in rows]

    def needs_admin(self) -> bool:
        """Whether nobody could sign in as admin with a password."""
        return not self._database.read("SELECT 1 FROM accounts WHERE role = 'admin' AND password IS NOT NULL LIMIT 1")

    # -- signing in ----------------------------------------------------------------------------------------------

    def check_password(self, name: str, password: str) -> Person | None:
        """Who this is; None for a wrong name or password, which take equally long. Costs tens of milliseconds."""
        rows = self._database.read("SELECT role, password FROM accounts WHERE name = ?", (name,))
        hashed = rows[0][1] if rows and rows[0][1] else _NOBODY
        try:
            _hasher.verify(hashed, password[:PASSWORD_CHARACTERS_MAX])
        except (VerificationError, InvalidHashError):
            return None
        return Person(name, rows[0][0]) if rows and rows[0][1] else None

    def new_link(self, now_us: int, *, name: str = FIRST_ADMIN, role: str = "admin", lifetime_us: int = LINK_US) -> str:
        """The secret of a link that signs in once; the person is added when it is used and is not there yet."""
        _check(name, role)
        secret = secrets.token_urlsafe(24)
        with self._database.transaction() as database:
            database.execute("DELETE FROM links WHERE expires_us < ?", (now_us,))
            database.execute("INSERT INTO links VALUES (?, ?, ?, ?)", (_hash(secret), name, role, now_us + lifetime_us))
        return secret

    def use_link(self, secret: str, now_us: int) -> Person | None:
        """Who the link is for, once; None when it is unknown, used or too old."""
        with self._database.transaction() as database:
            row = database.execute(
                "DELETE FROM links WHERE hash = ? AND expires_us >= ? RETURNING name, role", (_hash(secret), now_us)
            ).fetchone()
            if row is None:
                return None
            database.execute(
                "INSERT INTO accounts VALUES (?, ?, NULL, ?) ON CONFLICT (name) DO NOTHING", (*row, now_us)
            )
            (role,) = database.execute("SELECT role FROM accounts WHERE name = ?", (row[0],)).fetchone()
        return Person(row[0], role)

    def open_session(self, person: Person, now_us: int) -> str:
        """The secret of a new session, for the cookie."""
        secret = secrets.token_urlsafe(32)
        with self._database.transaction() as database:
            database.execute(
                "DELETE FROM sessions WHERE began_us < ? OR seen_us < ?", (now_us - SESSION_US, now_us - IDLE_US)
            )
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", (_hash(secret), person.name, now_us, now_us))
        return secret

    def session(self, secret: str, now_us: int, *, touch: bool = True) -> Person | None:
        """Who this session is; None when it is unknown or over. `touch`: this counts as being used."""
        rows = self._database.read(
            "SELECT name, role, began_us, seen_us FROM sessions JOIN accounts USING (name) WHERE hash = ?",
            (_hash(secret),),
        )
        if not rows:
            return None
        name, role, began_us, seen_us = rows[0]
        if now_us - began_us > SESSION_US or now_us - seen_us > IDLE_US:
            self.close_session(secret)
            return None
        if touch and now_us - seen_us > TOUCH_US:
            with self._database.transaction() as database:
                database.execute("UPDATE sessions SET seen_us = ? WHERE hash = ?", (now_us, _hash(secret)))
        return Person(name, role)

    def close_session(self, secret: str) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),))


def hash_password(password: str) -> str:
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        raise UsageError(
            f"a password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters; choose another",
            code="account-password",
        )
    return _hasher.hash(password)


def _check(name: str, role: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            "a person's name has up to 40 of a-z, 0-9, dot, dash and underscore; choose another", code="account-name"
        )
    if role not in ROLES:
        raise UsageError(f"a role is one of {', '.join(ROLES)}", code="account-role")


def _keep_an_admin(database: Statements, name: str, role: str) -> None:
    """Refuse to take away the last admin: nobody could make another from the dashboard."""
    others = database.execute("SELECT count(*) FROM accounts WHERE role = 'admin' AND name != ?", (name,)).fetchone()[0]
    was = database.execute("SELECT role FROM accounts WHERE name = ?", (name,)).fetchone()
    if was == ("admin",) and role != "admin" and not others:
        raise UsageError(
            "this is the last admin; make another one first with resurge person add", code="account-last-admin"
        )


def _no_person() -> UsageError:
    return UsageError("no person has this name; resurge person list shows everybody", code="account-not-found")


def _hash(secret: str) -> bytes:
    return hashlib.sha256(b"resurge-person" + secret.encode("utf-8", "replace")).digest()
