"""Alerts: what needs somebody's attention now, since when, and who was told.

Whoever watches hands in the conditions that hold at this moment; this compares them with the alerts that are open,
opens and closes, and puts one message per change and webhook into a queue. The queue is in the same file and the same
transaction, so a restart neither forgets nor repeats one. It is bounded: at the bound the oldest message is dropped and
counted, because a receiver that is away for a day must not fill the disk.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cloud_backend.coordinator.result_rules import OWN, RULES_MAX, ResultRule
from cloud_backend.coordinator.webhooks import check_url
from cloud_backend.database import Database, Location, Statements
from shared.errors import UsageError

FORMAT = 1
FILE = "alerts.sqlite"
QUEUE_MAX = 1000
CLOSED_KEPT = 1000
WEBHOOKS_MAX = 20
SECOND_US = 1_000_000
RETRIES_S = (10, 60, 300, 1800, 7200, 21600)  # after the last of them a message is given up, and shown as that

# What can be watched, the threshold it starts with, and what the threshold counts.
KINDS = {
    "gap": (900.0, "seconds a device was not heard"),
    "lag": (1800.0, "seconds a stream's frontier lags behind"),
    "ledger": (0.0, "elements given up within an hour"),
    "job": (0.0, "jobs that failed or parked a vertex"),
    "contract": (0.0, "promises that are at risk or broken in this hour"),
    "disk": (1024.0, "MiB free on the log's disk"),
}

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rules (kind TEXT PRIMARY KEY, threshold REAL NOT NULL, enabled INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS alerts (
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL,
  began_us INTEGER NOT NULL, ended_us INTEGER
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS alerts_open ON alerts (kind, subject) WHERE ended_us IS NULL;
CREATE TABLE IF NOT EXISTS webhooks (
  number INTEGER PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL, private INTEGER NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS queue (
  number INTEGER PRIMARY KEY, webhook INTEGER NOT NULL, body TEXT NOT NULL, attempts INTEGER NOT NULL,
  due_us INTEGER NOT NULL, problem TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
# Added since format 1 was first written; a version that does not know it ignores it.
_LATER = """
CREATE TABLE IF NOT EXISTS outcomes (
  webhook INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, event TEXT NOT NULL, problem TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS result_rules (name TEXT PRIMARY KEY, rule TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS followed (one INTEGER PRIMARY KEY, change INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS holding (
  rule TEXT NOT NULL, key TEXT NOT NULL, device TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (rule, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rings (
  number INTEGER PRIMARY KEY, alert INTEGER NOT NULL, device TEXT NOT NULL, rule TEXT NOT NULL, detail TEXT NOT NULL,
  began_us INTEGER NOT NULL, ended_us INTEGER
) STRICT;
"""
RESULT = "result"  # the kind of an alert by a rule on results; its subject is the rule and the key
HOLDING_SHOWN = 1000  # alerts of one rule at once; of more keys only their number is said
_ALERTS = "SELECT number, kind, subject, detail, began_us, ended_us FROM alerts"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds now and somebody should know."""

    kind: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Alert:
    number: int
    kind: str
    subject: str
    detail: str
    began_us: int
    ended_us: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    kind: str
    threshold: float
    enabled: bool
    counts: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule on results says of a key now; without a detail it does not hold."""

    rule: str
    key: str
    device: str = ""  # that the key is about, in hexadecimal
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ring:
    """A phone is to hear of an alert: that it began, or that it is over."""

    number: int
    alert: int
    device: str
    rule: str
    detail: str
    began_us: int
    ended_us: int | None


@dataclass(frozen=True, slots=True)
class Webhook:
    number: int
    url: str
    secret: str
    private: bool  # may be on a private network; an admin said so
    created_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the last message to a webhook."""

    at_us: int
    event: str
    problem: str  # empty: it arrived


@dataclass(frozen=True, slots=True)
class Message:
    number: int
    webhook: Webhook
    body: bytes
    attempts: int


class Alerts:
    """Open the alerts at a path, creating the file when it is not there. Safe to share between threads."""

    def __init__(self, path: Location) -> None:
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="alerts-format", later=_LATER)

    def close(self) -> None:
        self._database.close()

    # -- rules ---------------------------------------------------------------------------------------------------

    def rules(self) -> dict[str, Rule]:
        kept = {row[0]: row[1:] for row in self._database.read("SELECT kind, threshold, enabled FROM rules")}
        return {
            kind: Rule(kind, kept.get(kind, (threshold, 1))[0], bool(kept.get(kind, (0, 1))[1]), counts)
            for kind, (threshold, counts) in KINDS.items()
        }

    def set_rule(self, kind: str, *, threshold: float, enabled: bool) -> None:
        if kind not in KINDS:
            raise UsageError(f"an alert is one of {', '.join(KINDS)}", code="alert-kind")
        if not 0 <= threshold <= 1e12:
            raise UsageError("a threshold is a number from 0", code="alert-threshold")
        with self._database.transaction() as database:
            database.execute(
                "INSERT INTO rules VALUES (?, ?, ?) ON CONFLICT (kind)"
                " DO UPDATE SET threshold = excluded.threshold, enabled = excluded.enabled",
                (kind, threshold, int(enabled)),
            )

    # -- what holds ----------------------------------------------------------------------------------------------

    def update(self, conditions: Iterable[Condition], now_us: int) -> list[Alert]:
        """Open and close alerts so that exactly these conditions are open, beside those of rules on results; returns
        those that changed."""
        with self._database.transaction() as database:
            return _update(database, conditions, now_us, of_results=False)

    # -- rules on results ----------------------------------------------------------------------------------------

    def result_rules(self) -> list[ResultRule]:
        return [ResultRule.decode(text) for (text,) in self._database.read("SELECT rule FROM result_rules")]

    def check_result_rule(self, rule: ResultRule) -> None:
        known = [each.name for each in self.result_rules()]
        if rule.name in known:
            raise UsageError("there is a rule of this name already; remove it first", code="alert-name")
        if len(known) >= RULES_MAX:
            raise UsageError(f"there are {RULES_MAX} rules already; remove one first", code="alert-too-many")

    def add_result_rule(self, rule: ResultRule, change: int) -> None:
        """Judge keys by this rule from their next row on; `change` is how far the results have come."""
        self.check_result_rule(rule)
        with self._database.transaction() as database:
            if not database.execute("SELECT 1 FROM result_rules").fetchone():
                _follow(database, change)
            database.execute("INSERT INTO result_rules VALUES (?, ?)", (rule.name, rule.encode()))

    def check_result_rule_name(self, name: str) -> None:
        if name not in [each.name for each in self.result_rules()]:
            raise UsageError("there is no rule of this name", code="alert-not-found")

    def remove_result_rule(self, name: str, now_us: int) -> list[Alert]:
        """Judge nothing by it any more; what it opened ends. Returns what that is."""
        self.check_result_rule_name(name)
        with self._database.transaction() as database:
            held = _held(database)
            database.execute("DELETE FROM holding WHERE rule = ?", (name,))
            ended = _update_of_results(database, held, now_us)
            database.execute("DELETE FROM result_rules WHERE name = ?", (name,))
            return ended

    def followed(self) -> int:
        """Up to which change of the results every rule was held against them."""
        found = self._database.read("SELECT change FROM followed")
        return int(found[0][0]) if found else 0

    def judge(self, judgements: Iterable[Judgement], change: int, now_us: int) -> list[Alert]:
        """Take in what rules say now of some keys, open and close their alerts, and note which phones are to hear of
        it, all or none. A restart after it neither forgets nor repeats any. Returns the alerts that changed."""
        with self._database.transaction() as database:
            held = _held(database)
            known = {name for (name,) in database.execute("SELECT name FROM result_rules")}
            for each in judgements:
                place = (each.rule, each.key)
                if not each.detail or each.rule not in known:
                    database.execute("DELETE FROM holding WHERE rule = ? AND key = ?", place)
                elif place not in held:
                    database.execute("INSERT INTO holding VALUES (?, ?, ?, ?)", (*place, each.device, each.detail))
            _follow(database, change)
            return _update_of_results(database, held, now_us)

    def holding(self, rule: str) -> list[Judgement]:
        """The keys that a rule holds for."""
        rows = self._database.read("SELECT rule, key, device, detail FROM holding WHERE rule = ?", (rule,))
        return [Judgement(*row) for row in rows]

    def rings(self, limit: int = 1000) -> list[Ring]:
        """What phones are to hear and was not handed over yet, oldest first."""
        return [Ring(*row) for row in self._database.read("SELECT * FROM rings ORDER BY number LIMIT ?", (limit,))]

    def handed_over(self, rings: Iterable[Ring]) -> None:
        with self._database.transaction() as database:
            database.executemany("DELETE FROM rings WHERE number = ?", [(ring.number,) for ring in rings])

    # -- what there is -------------------------------------------------------------------------------------------

    def alerts(self, *, only_open: bool = False, limit: int = 100) -> list[Alert]:
        """Open ones first, then the newest that ended."""
        where = "WHERE ended_us IS NULL" if only_open else ""
        rows = self._database.read(f"{_ALERTS} {where} ORDER BY ended_us IS NOT NULL, number DESC LIMIT ?", (limit,))
        return [Alert(*row) for row in rows]

    # -- webhooks ------------------------------------------------------------------------------------------------

    def add_webhook(self, url: str, now_us: int, *, private: bool = False) -> Webhook:
        """Tell this address of every change from now on. Its secret is told to the caller, and nobody else again."""
        check_url(url)
        with self._database.transaction() as database:
            _check_room(database.execute("SELECT count(*) FROM webhooks").fetchone()[0])
            secret = secrets.token_urlsafe(32)
            (number,) = database.execute(
                "INSERT INTO webhooks (url, secret, private, created_us) VALUES (?, ?, ?, ?) RETURNING number",
                (url, secret, int(private), now_us),
            ).fetchone()
        return next(each for each in self.webhooks() if each.number == number)

    def check_room_for_webhook(self) -> None:
        _check_room(len(self.webhooks()))

    def webhook(self, number: int) -> Webhook:
        for each in self.webhooks():
            if each.number == number:
                return each
        raise _no_webhook()

    def remove_webhook(self, number: int) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM queue WHERE webhook = ?", (number,))
            database.execute("DELETE FROM outcomes WHERE webhook = ?", (number,))
            if not database.execute("DELETE FROM webhooks WHERE number = ?", (number,)).rowcount:
                raise _no_webhook()

    def webhooks(self) -> list[Webhook]:
        rows = self._database.read("SELECT number, url, secret, private, created_us FROM webhooks ORDER BY number")
        return [Webhook(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows]

    def test_webhook(self, number: int, now_us: int) -> None:
        """Put a message that says it is a test into the queue."""
        self.webhook(number)
        with self._database.transaction() as database:
            _put(database, number, {"event": "test", "at_us": now_us}, now_us)

    def due(self, now_us: int, limit: int = 5) -> list[Message]:
        """Messages whose time has come, the oldest few of each webhook: one that is away is in no other's way."""
        webhooks = {each.number: each for each in self.webhooks()}
        rows = self._database.read(
            "SELECT number, webhook, body, attempts FROM"
            " (SELECT *, row_number() OVER (PARTITION BY webhook ORDER BY number) AS place FROM queue"
            "  WHERE due_us <= ? AND attempts <= ?) AS placed WHERE place <= ? ORDER BY number",
            (now_us, len(RETRIES_S), limit),
        )
        return [Message(row[0], webhooks[row[1]], row[2].encode(), row[3]) for row in rows if row[1] in webhooks]

    def delivered(self, message: Message, now_us: int) -> None:
        with self._database.transaction() as database:
            _keep_outcome(database, message, now_us, "")
            database.execute("DELETE FROM queue WHERE number = ?", (message.number,))
            _count(database, "delivered")

    def failed(self, message: Message, problem: str, now_us: int) -> None:
        """Try again later, longer each time; a message that was tried often enough is kept as given up."""
        with self._database.transaction() as database:
            _keep_outcome(database, message, now_us, problem[:200])
            wait_s = RETRIES_S[min(message.attempts, len(RETRIES_S) - 1)]
            database.execute(
                "UPDATE queue SET attempts = attempts + 1, due_us = ?, problem = ? WHERE number = ?",
                (now_us + wait_s * SECOND_US, problem[:200], message.number),
            )
            _count(database, "failed")

    def queue(self) -> list[dict[str, Any]]:
        """What still waits for a webhook, and what was given up."""
        rows = self._database.read(
            "SELECT number, webhook, attempts, due_us, problem FROM queue ORDER BY number DESC LIMIT 100"
        )
        names = ("number", "webhook", "attempts", "due_us", "problem")
        return [dict(zip(names, row, strict=True)) | {"given_up": row[2] > len(RETRIES_S)} for row in rows]

    def outcomes(self) -> dict[int, Outcome]:
        """The last outcome of each webhook that was ever sent a message."""
        rows = self._database.read("SELECT webhook, at_us, event, problem FROM outcomes")
        return {row[0]: Outcome(*row[1:]) for row in rows}

    def version(self) -> list[int]:
        """Differs after an alert began or ended, and after a message was put, arrived or failed."""
        queued = self._database.read("SELECT count(*), coalesce(max(number), 0) FROM queue")[0]
        alerts = self._database.read("SELECT coalesce(max(number), 0), count(ended_us) FROM alerts")[0]
        return [*alerts, *queued, *self.counts().values()]

    def counts(self) -> dict[str, int]:
        return {"delivered": 0, "failed": 0, "dropped": 0} | dict(self._database.read("SELECT name, value FROM counts"))


def _follow(database: Statements, change: int) -> None:
    database.execute(
        "INSERT INTO followed VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET change = excluded.change", (change,)
    )


def _update(database: Statements, conditions: Iterable[Condition], now_us: int, *, of_results: bool) -> list[Alert]:
    """Inside a transaction: open and close alerts, of rules on results or all others, and tell webhooks."""
    holds = {(each.kind, each.subject): each for each in conditions}
    changed: list[Alert] = []
    which = "=" if of_results else "!="
    for row in database.execute(f"{_ALERTS} WHERE ended_us IS NULL AND kind {which} ?", (RESULT,)).fetchall():
        alert = Alert(*row)
        if (alert.kind, alert.subject) in holds:
            del holds[alert.kind, alert.subject]
        else:
            database.execute("UPDATE alerts SET ended_us = ? WHERE number = ?", (now_us, alert.number))
            changed.append(replace(alert, ended_us=now_us))
    for each in holds.values():
        (number,) = database.execute(
            "INSERT INTO alerts (kind, subject, detail, began_us) VALUES (?, ?, ?, ?) RETURNING number",
            (each.kind, each.subject, each.detail, now_us),
        ).fetchone()
        changed.append(Alert(number, each.kind, each.subject, each.detail, now_us, None))
    for alert in changed:
        _enqueue(database, alert, now_us)
    database.execute(
        "DELETE FROM alerts WHERE ended_us IS NOT NULL AND number <= (SELECT max(number) FROM alerts) - ?",
        (CLOSED_KEPT,),
    )
    return changed


def _held(database: Statements) -> dict[tuple[str, str], Judgement]:
    rows = database.execute("SELECT rule, key, device, detail FROM holding ORDER BY rule, key")
    return {(row[0], row[1]): Judgement(*row) for row in rows}


def _subject(each: Judgement) -> str:
    return f"{each.rule}/{each.key}"


def _update_of_results(
    database: Statements, before: dict[tuple[str, str], Judgement], now_us: int
) -> list[Alert]:  # fmt: skip
    """`before` is what held until now: who is to hear that it is over."""
    rules = {
        name: ResultRule.decode(text) for name, text in database.execute("SELECT name, rule FROM result_rules")
    }  # fmt: skip
    now = _held(database)
    conditions: list[Condition] = []
    of_rule: Counter[str] = Counter()
    for each in now.values():
        of_rule[each.rule] += 1
        if of_rule[each.rule] <= HOLDING_SHOWN:
            conditions.append(Condition(RESULT, _subject(each), each.detail))
    for name, count in of_rule.items():
        if count > HOLDING_SHOWN:
            conditions.append(Condition(RESULT, name, f"{name} holds for more than {HOLDING_SHOWN} keys"))
    changed = _update(database, conditions, now_us, of_results=True)
    about = {_subject(each): each for each in (*before.values(), *now.values())}
    for alert in changed:
        if alert.subject not in about:
            continue  # what says how many there are
        judged = about[alert.subject]
        rule = rules[judged.rule]
        for device in {judged.device if phone == OWN else phone for phone in rule.phones} - {""}:
            database.execute(
                "INSERT INTO rings (alert, device, rule, detail, began_us, ended_us) VALUES (?, ?, ?, ?, ?, ?)",
                (alert.number, device, rule.name, alert.detail, alert.began_us, alert.ended_us),
            )
    return changed


def _keep_outcome(database: Statements, message: Message, now_us: int, problem: str) -> None:
    event = str(json.loads(message.body).get("event", ""))
    database.execute(
        "INSERT INTO outcomes VALUES (?, ?, ?, ?) ON CONFLICT (webhook)"
        " DO UPDATE SET at_us = excluded.at_us, event = excluded.event, problem = excluded.problem",
        (message.webhook.number, now_us, event, problem),
    )


def _check_room(webhooks: int) -> None:
    if webhooks >= WEBHOOKS_MAX:
        raise UsageError(f"there are {WEBHOOKS_MAX} webhooks already; remove one first", code="webhook-too-many")


def _no_webhook() -> UsageError:
    return UsageError("there is no such webhook", code="webhook-not-found")


def _enqueue(database: Statements, alert: Alert, now_us: int) -> None:
    body = {
        "event": "alert-began" if alert.ended_us is None else "alert-ended", "number": alert.number,
        "kind": alert.kind, "subject": alert.subject, "detail": alert.detail, "began_us": alert.began_us,
        "ended_us": alert.ended_us,
    }  # fmt: skip
    for (number,) in database.execute("SELECT number FROM webhooks").fetchall():
        _put(database, number, body, now_us)


def _put(database: Statements, webhook: int, body: dict[str, Any], now_us: int) -> None:
    database.execute(
        "INSERT INTO queue (webhook, body, attempts, due_us, problem) VALUES (?, ?, 0, ?, '')",
        (webhook, json.dumps(body), now_us),
    )
    gone = database.execute(
        "DELETE FROM queue WHERE number <= (SELECT max(number) FROM queue) - ?", (QUEUE_MAX,)
    ).rowcount
    if gone:
        _count(database, "dropped", gone)


def _count(database: Statements, name: str, by: int = 1) -> None:
    database.execute(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = counts.value + excluded.value",
        (name, by),
    )
