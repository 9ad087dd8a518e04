"""The roster: who may speak to this gateway, kept in a database so that the command line and the gateway share it.

Two processes write: `resurge device` adds codes and revokes, the gateway enrols and notes who was seen. What
decides about access is durable before it is answered (synchronous FULL); a last-seen time may be a second old.
A code is stored as its hash: whoever reads the file cannot pair with it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from cloud_backend.coordinator import groups
from cloud_backend.database import Database, Location, Statements
from shared.errors import PeerError, UsageError
from shared.identity import DeviceId, device_id
from shared.sync.session import Enrolment
from shared.wire.enrolment import CODE_BYTES
from shared.wire.status import NO_PLAN, DeviceStatus

FORMAT = 1
CODE_LIFETIME_US = 10 * 60 * 1_000_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS devices (
  device BLOB PRIMARY KEY, public_key BLOB NOT NULL, name TEXT NOT NULL, incarnation INTEGER NOT NULL,
  enrolled_us INTEGER NOT NULL, revoked_us INTEGER, seen_us INTEGER, status TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS codes (
  hash BLOB PRIMARY KEY, expires_us INTEGER NOT NULL, device BLOB, incarnation INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (at_us INTEGER NOT NULL, act TEXT NOT NULL, device BLOB, detail TEXT NOT NULL) STRICT;
"""
# Added since format 1 was first written; a version that does not know them ignores them.
_LATER = (
    """
CREATE TABLE IF NOT EXISTS settings (device BLOB PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS deletions (
  device BLOB PRIMARY KEY, incarnation INTEGER NOT NULL, asked_us INTEGER NOT NULL, done_us INTEGER,
  report TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS identity (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
"""
    + groups.SCHEMA
)
_COLUMNS = (
    "device, public_key, devices.name, incarnation, enrolled_us, revoked_us, seen_us, status,"
    " coalesce(members.name, ''), coalesce(members.version, 0)"
)
_ROWS = f"SELECT {_COLUMNS} FROM devices LEFT JOIN members USING (device)"  # noqa: S608 - our own columns
_DEVICES = f"{_ROWS} ORDER BY devices.name, device"
_DEVICE = f"{_ROWS} WHERE device = ?"


@dataclass(frozen=True, slots=True)
class Deletion:
    """Everything that incarnations up to this one delivered is to go; `done_us` says when the log held it no more."""

    device: DeviceId
    incarnation: int
    asked_us: int
    done_us: int | None
    report: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RosterEntry:
    device: DeviceId
    public_key: bytes
    name: str
    incarnation: int
    enrolled_us: int
    revoked_us: int | None
    seen_us: int | None
    status: DeviceStatus
    group: str = ""
    version: int = 0  # of the plan that it should run, at least: since it came to its group

    @property
    def plan_version(self) -> int | None:
        return None if self.status.plan == NO_PLAN else self.status.plan


class Roster:
    """Open the roster at a path, creating it when it is not there. Safe to share between threads."""

    def __init__(self, path: Location) -> None:
        self._keeping = threading.Lock()
        self._entries: dict[DeviceId, RosterEntry] = {}  # as they were last read
        self._names: list[tuple[str, DeviceId]] = []  # in order
        self._numbers: dict[DeviceId, int] = {}  # of the last change of each, the newest change last
        self._number = 0
        self._read_at: int | None = None
        self._stale: deque[DeviceId] = deque()  # this process changed who they are
        self._decided = 0  # what this process changed about access; SQLite tells only of other connections
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="roster-format", later=_LATER, name="roster")
        self.groups = groups.Groups(self._database, self._note)

    def close(self) -> None:
        self._database.close()

    def _note(self, device: DeviceId | None) -> None:
        self._decided += 1
        if device is None:
            self._read_at = None
        else:
            self._stale.append(device)

    def identity(self) -> str:
        """Which roster this is, so that gateways can tell whether they have the same."""
        with self._database.transaction() as database:
            row = database.execute("SELECT id FROM identity").fetchone()
            if row is None:
                row = (secrets.token_hex(8),)
                database.execute("INSERT INTO identity VALUES (?)", row)
        return str(row[0])

    def new_code(self, now_us: int, lifetime_us: int = CODE_LIFETIME_US) -> bytes:
        """A fresh enrolment code, good once and until it expires. Only its hash is kept."""
        code = secrets.token_bytes(CODE_BYTES)
        with self._database.transaction() as database:
            database.execute("DELETE FROM codes WHERE expires_us < ?", (now_us - CODE_LIFETIME_US,))
            database.execute("INSERT INTO codes VALUES (?, ?, NULL, NULL)", (_hash(code), now_us + lifetime_us))
        return code

    def enrol(self, code: bytes, public_key: bytes, name: str, now_us: int) -> int:
        """The incarnation of the installation that holds this key and this code. The same request has the same answer.

        Raises PeerError with one and the same text for an unknown, used or expired code: a guess learns nothing.
        """
        device = device_id(public_key)
        with self._database.transaction() as database:
            row = database.execute(
                "SELECT expires_us, device, incarnation FROM codes WHERE hash = ?", (_hash(code),)
            ).fetchone()
            if row is None or row[0] < now_us or row[1] not in (None, device):
                raise PeerError(
                    "this enrolment code is unknown, used or older than ten minutes; make a new one with "
                    "resurge device pair",
                    code="enrolment-code",
                )
            if row[1] is not None:
                return int(row[2])
            # A device that pairs again is welcome again, but as a new incarnation: its numbers start over.
            (incarnation,) = database.execute(
                "INSERT INTO devices (device, public_key, name, incarnation, enrolled_us) VALUES (?, ?, ?, 1, ?)"
                " ON CONFLICT (device) DO UPDATE SET incarnation = devices.incarnation + 1, name = excluded.name,"
                " enrolled_us = excluded.enrolled_us, revoked_us = NULL RETURNING devices.incarnation",
                (device, public_key, name, now_us),
            ).fetchone()
            database.execute(
                "UPDATE codes SET device = ?, incarnation = ? WHERE hash = ?", (device, incarnation, _hash(code))
            )
            _audit(database, now_us, "enrolled", device, f"incarnation {incarnation}")
        self._stale.append(device)
        return int(incarnation)

    def used_by(self, code: bytes) -> bytes | None:
        """The public key that was enrolled with this code; None while nobody used it."""
        rows = self._database.read(
            "SELECT public_key FROM codes JOIN devices USING (device) WHERE hash = ?", (_hash(code),)
        )
        return rows[0][0] if rows else None

    def find(self, device: DeviceId) -> Enrolment | None:
        rows = self._database.read(
            "SELECT public_key, incarnation, revoked_us FROM devices WHERE device = ?", (device,)
        )
        return Enrolment(rows[0][0], rows[0][1], rows[0][2] is not None) if rows else None

    def name(self, device: str) -> str:
        """What a device is called, by its id in hexadecimal; empty where there is none of this id."""
        try:
            rows = self._database.read("SELECT name FROM devices WHERE device = ?", (bytes.fromhex(device),))
        except ValueError:
            return ""
        return str(rows[0][0]) if rows else ""

    def revoke(self, device: DeviceId, now_us: int) -> None:
        """Refuse this device from now on. What it delivered stays; what it still holds stays on it."""
        with self._database.transaction() as database:
            cursor = database.execute(
                "UPDATE devices SET revoked_us = coalesce(revoked_us, ?) WHERE device = ?", (now_us, device)
            )
            if not cursor.rowcount:
                raise _not_enrolled(device)
            _audit(database, now_us, "revoked", device, "")
        self._decided += 1
        self._stale.append(device)

    def rename(self, device: DeviceId, name: str, now_us: int) -> None:
        """Change what people see; the device keeps its own idea until it pairs again."""
        with self._database.transaction() as database:
            if not database.execute("UPDATE devices SET name = ? WHERE device = ?", (name, device)).rowcount:
                raise _not_enrolled(device)
            _audit(database, now_us, "renamed", device, "")
        self._stale.append(device)

    def configure(self, device: DeviceId, settings: Mapping[str, object], now_us: int) -> None:
        """Keep what the operator wants of this device, whole; the gateway tells it within seconds."""
        with self._database.transaction() as database:
            if not database.execute("SELECT 1 FROM devices WHERE device = ?", (device,)).fetchone():
                raise _not_enrolled(device)
            database.execute(
                "INSERT INTO settings VALUES (?, ?) ON CONFLICT (device) DO UPDATE SET value = excluded.value",
                (device, json.dumps(dict(settings))),
            )
            _audit(database, now_us, "configured", device, "")
        self._decided += 1

    def settings(self) -> dict[DeviceId, dict[str, object]]:
        """What was configured, by device; devices nobody configured are not in it."""
        return {
            DeviceId(row[0]): json.loads(row[1]) for row in self._database.read("SELECT device, value FROM settings")
        }

    def delete_data(self, device: DeviceId, now_us: int) -> Deletion:
        """Ask for everything this device delivered to be deleted, and refuse it from now on."""
        self.revoke(device, now_us)
        with self._database.transaction() as database:
            database.execute(
                "INSERT INTO deletions SELECT device, incarnation, CAST(? AS BIGINT), NULL, '{}' FROM devices"
                " WHERE device = ? ON CONFLICT (device) DO UPDATE SET incarnation = excluded.incarnation,"
                " asked_us = excluded.asked_us, done_us = NULL, report = excluded.report",
                (now_us, device),
            )
            database.execute("UPDATE devices SET status = '{}' WHERE device = ?", (device,))
            database.execute("DELETE FROM settings WHERE device = ?", (device,))
            _audit(database, now_us, "data-deletion-asked", device, "")
        self._stale.append(device)
        return next(each for each in self.deletions() if each.device == device)

    def deletion_done(self, deletion: Deletion, now_us: int, report: Mapping[str, object]) -> None:
        with self._database.transaction() as database:
            database.execute(
                "UPDATE deletions SET done_us = ?, report = ? WHERE device = ? AND asked_us = ?",
                (now_us, json.dumps(dict(report)), deletion.device, deletion.asked_us),
            )
            _audit(database, now_us, "data-deleted", deletion.device, "")

    def deletion_waits(self, deletion: Deletion, report: Mapping[str, object]) -> None:
        """Not done yet: what went, and who holds the rest."""
        with self._database.transaction() as database:
            database.execute(
                "UPDATE deletions SET report = ? WHERE device = ? AND asked_us = ? AND done_us IS NULL",
                (json.dumps(dict(report)), deletion.device, deletion.asked_us),
            )

    def deletions(self) -> list[Deletion]:
        """Every deletion that was asked for, done or not; kept, because derived data may still arrive later."""
        rows = self._database.read(
            "SELECT device, incarnation, asked_us, done_us, report FROM deletions ORDER BY asked_us"
        )
        return [Deletion(DeviceId(row[0]), row[1], row[2], row[3], json.loads(row[4])) for row in rows]

    def revoked(self) -> set[DeviceId]:
        return set(self.revocations())

    def revocations(self) -> dict[DeviceId, int]:
        """The devices that are refused now, those whose data was deleted among them, and since when."""
        rows = self._database.read("SELECT device, revoked_us FROM devices WHERE revoked_us IS NOT NULL")
        return {DeviceId(device): revoked_us for device, revoked_us in rows}

    def seen(self, reports: Iterable[tuple[DeviceId, int, DeviceStatus | None]]) -> None:
        """Note when devices were last heard, and what they said of themselves (None: nothing new)."""
        reports = list(reports)
        with self._keeping, self._database.transaction() as database:
            for device, at_us, status in reports:
                if (entry := self._entries.get(device)) is not None:
                    told = entry.status if status is None else status
                    self._keep(replace(entry, seen_us=at_us, status=told))
            database.executemany(
                "UPDATE devices SET seen_us = ?, status = coalesce(?, status) WHERE device = ?",
                [
                    (at_us, None if status is None else json.dumps(status.to_json()), device)
                    for device, at_us, status in reports
                ],
            )

    def audit(self, at_us: int, act: str, device: DeviceId | None = None, detail: str = "") -> None:
        """One line that says who tried what. Never holds input, only what we made of it."""
        with self._database.transaction() as database:
            _audit(database, at_us, act, device, detail)

    def audit_lines(self, limit: int = 100) -> list[tuple[int, str, str, str]]:
        """(when, act, device in hex, detail), newest first."""
        rows = self._database.read("SELECT at_us, act, device, detail FROM audit ORDER BY rowid DESC LIMIT ?", (limit,))
        return [(at_us, act, (device or b"").hex(), detail) for at_us, act, device, detail in rows]

    def entries(self) -> list[RosterEntry]:
        """Every device ever enrolled, by name. One about which nothing changed is the same object as the time before.

        They are kept in memory and read again only when somebody else wrote: a hundred thousand of them are read in
        seconds, and pages ask once a second. Whom this process changed is read alone.
        """
        with self._keeping:
            self._catch_up()
            return [self._entries[device] for _, device in self._names]

    def __len__(self) -> int:
        with self._keeping:
            self._catch_up()
            return len(self._entries)

    def entry(self, device: DeviceId) -> RosterEntry | None:
        with self._keeping:
            self._catch_up()
            return self._entries.get(device)

    def changed(self, after: int) -> tuple[int, list[RosterEntry]]:
        """The devices about which something changed since the change of this number, and the newest number. From 0 on
        that is all of them. Costs those devices, however many there are."""
        with self._keeping:
            self._catch_up()
            newest = takewhile(lambda each: each[1] > after, reversed(self._numbers.items()))
            return self._number, [self._entries[device] for device, _ in newest]

    def _catch_up(self) -> None:
        written = self._database.changes()
        if self._read_at != written:
            self._read_at = written
            self._stale.clear()
            self._read(_DEVICES)
        while self._stale:
            self._read(_DEVICE, (self._stale.popleft(),))

    def _read(self, query: str, parameters: tuple[object, ...] = ()) -> None:
        statuses: dict[str, DeviceStatus] = {}
        for device, key, name, incarnation, enrolled, revoked, seen, text, *member in self._database.read(
            query, parameters
        ):
            if text not in statuses:
                statuses[text] = _stored_status(text)
            self._keep(
                RosterEntry(DeviceId(device), key, name, incarnation, enrolled, revoked, seen, statuses[text], *member)
            )

    def _keep(self, entry: RosterEntry) -> None:
        former = self._entries.get(entry.device)
        if former == entry:
            return
        if former is not None and former.name != entry.name:
            del self._names[bisect_left(self._names, (former.name, entry.device))]
        if former is None or former.name != entry.name:
            insort(self._names, (entry.name, entry.device))
        self._entries[entry.device] = entry
        self._number += 1
        self._numbers.pop(entry.device, None)
        self._numbers[entry.device] = self._number

    def changes(self) -> int:
        """A number that grows when another process has written, or this one has changed who may do what."""
        return self._database.changes() + self._decided


def _not_enrolled(device: DeviceId) -> UsageError:
    return UsageError(
        f"no device {device.hex()} is enrolled; resurge device list shows those that are", code="device-not-found"
    )


def _hash(code: bytes) -> bytes:
    return hashlib.sha256(b"resurge-code" + code).digest()


def _audit(database: Statements, at_us: int, act: str, device: DeviceId | None, detail: str) -> None:
    database.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (at_us, act, device, detail))


def _stored_status(text: str) -> DeviceStatus:
    """A status as it was stored. An earlier gateway stored whatever a device said: what makes no sense is left out."""
    try:
        values = json.loads(text)
        return DeviceStatus.from_json(values) if isinstance(values, dict) else DeviceStatus()
    except (PeerError, ValueError, RecursionError):
        return DeviceStatus()
