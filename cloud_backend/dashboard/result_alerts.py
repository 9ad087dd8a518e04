"""Rules on results, held against them: which keys changed, whether a rule holds for them, and who is to hear of it.

Followed are the changes of the results, so a look costs what was answered since the last one, whatever there is. For
each key that changed its rows are read from the newest on, as many as a rule needs. What came of it is one transaction
of the alerts; what phones are to hear is handed to the results' way down after that, each under the number of its
alert. A crash in between hands over again, and a phone that has it keeps it once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TypeGuard

from cloud_backend.coordinator.alerts import Alert, Judgement, Ring
from cloud_backend.coordinator.result_rules import ResultRule, holds_since
from cloud_backend.dashboard.sources import Sources
from cloud_backend.results.rows import ResultRow, Value, decode_key, encode_key
from shared.errors import UsageError
from shared.wire.alerts import ALERT_SINK, BEGAN, OVER, AlertNews

CHANGES = 1000  # at a time
SECONDS_MAX = 1.0  # of one look; the next goes on
ROWS_MAX = 20_000  # that a rule looks back for one key
KEY_CHARACTERS_MAX = 80
_DEVICE = re.compile(r"[0-9a-f]{32}")


def check_against(sources: Sources, rule: ResultRule) -> None:
    """Refuse a rule on what nobody says: another sink, or a column that its rows do not have."""
    known = sinks(sources)
    if rule.sink not in known:
        raise UsageError(f"there is no such query or sink; there are: {', '.join(known) or 'none'}", code="alert-query")
    rows = sources.results.latest(rule.sink, 1)
    if rows and rule.column not in rows[0].values:
        raise UsageError(
            f"the rows of this query have no such column; they have: {', '.join(rows[0].values)}",
            code="alert-column",
        )


def sinks(sources: Sources) -> list[str]:
    """Whatever a rule may be on."""
    asked = {sink for query in sources.queries.all() for sink in query.sinks}
    return sorted(asked | set(sources.results.sinks()))


def judge(sources: Sources, *, review: bool = False) -> list[Alert]:
    """Open and close the alerts of rules on results; returns those that changed. With `review` also where something
    holds and nothing was said since: rows may be gone, with their query or on somebody's wish."""
    alerts, results = sources.alerts, sources.results
    rules: dict[str, list[ResultRule]] = {}
    for rule in alerts.result_rules():
        rules.setdefault(rule.sink, []).append(rule)
    if not rules:
        return []
    changed: list[Alert] = []
    end = time.monotonic() + SECONDS_MAX
    after = alerts.followed()
    if after > results.change():
        after = 0  # the results were made anew
    if review:
        held = [_judgement(sources, rule, *each) for rule in alerts.result_rules() for each in _held(sources, rule)]
        changed += alerts.judge(held, after, sources.clock_us())
    while True:
        reached, rows = results.changes(after, CHANGES)
        if reached == after:
            return changed
        keys = {(row.sink, encode_key(row.key)): row for row in rows if row.sink in rules}
        judgements = [
            _judgement(sources, rule, key, row.key, row.device)
            for (sink, key), row in keys.items()
            for rule in rules[sink]
        ]
        changed += alerts.judge(judgements, reached, sources.clock_us())
        after = reached
        if time.monotonic() > end:
            return changed


def _held(sources: Sources, rule: ResultRule) -> Iterator[tuple[str, tuple[Value, ...], str]]:
    for each in sources.alerts.holding(rule.name):
        yield each.key, decode_key(each.key), each.device


def _judgement(
    sources: Sources, rule: ResultRule, key: str, parts: tuple[Value, ...], device: str
) -> Judgement:  # fmt: skip
    since_us = holds_since(rule, sources.results.of_key(rule.sink, key, rows_max=ROWS_MAX))
    if since_us is None:
        return Judgement(rule.name, key)
    names = {each: sources.roster.name(each) for each in (device, *parts) if _is_device(each)}
    device = next((each for each, name in names.items() if name), "")
    said = ", ".join(names.get(str(part)) or str(part) for part in parts)
    about = f" ({said[:KEY_CHARACTERS_MAX]})" if said else ""
    return Judgement(rule.name, key, device, f"{rule.name}: {rule.words}{about}")


def _is_device(part: object) -> TypeGuard[str]:
    return isinstance(part, str) and _DEVICE.fullmatch(part) is not None


def hand_over(sources: Sources) -> set[str]:
    """Put what phones are to hear on its way; returns which phones those are."""
    told: set[str] = set()
    while rings := sources.alerts.rings():
        sources.results.tell(map(_row, rings))
        sources.alerts.handed_over(rings)
        told |= {ring.device for ring in rings}
    return told


def _row(ring: Ring) -> ResultRow:
    over = ring.ended_us is not None
    news = AlertNews(ring.alert, ring.rule, ring.detail, ring.began_us, over)
    return ResultRow(
        sink=ALERT_SINK, device=ring.device, key=(ring.alert,), window_start_us=ring.began_us,
        window_end_us=ring.began_us, revision=OVER if over else BEGAN, retract=False, complete=True,
        values=news.values(),
    )  # fmt: skip
