"""Alerts: which conditions hold now, and the lists that pages and API show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cloud_backend.coordinator.alerts import Condition, Rule
from cloud_backend.coordinator.result_rules import OWN
from cloud_backend.dashboard.history.arrivals import SECOND_US
from cloud_backend.dashboard.history.edges import HOUR_US
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.streams import lag_s
from shared.contracts.auditor import Verdict
from shared.identity import edge_id

MIB = 1024 * 1024
GAPS_MAX = 1000  # alerts at once: of more silent devices only that there are more is said


def alerts(sources: Sources, *, limit: int = 100) -> dict[str, Any]:
    return {
        "alerts": [asdict(alert) for alert in sources.alerts.alerts(limit=limit)],
        "rules": [asdict(rule) for rule in sources.alerts.rules().values()],
        "result_rules": [
            {
                "name": rule.name, "sink": rule.sink, "words": rule.words,
                "phones": [each if each == OWN else sources.roster.name(each) or each for each in rule.phones],
            }
            for rule in sources.alerts.result_rules()
        ],
    }  # fmt: skip


def webhooks(sources: Sources, *, exact: bool) -> dict[str, Any]:
    """Without their secrets: those are told once, when one is added. An address often is a secret too: whoever knows
    it can post there. So without `exact` only its host is told."""
    outcomes = sources.alerts.outcomes()
    known = [
        {
            "number": each.number, "url": each.url if exact else host_only(each.url), "private": each.private,
            "created_us": each.created_us,
            "last": asdict(outcomes[each.number]) if each.number in outcomes else None,
        }
        for each in sources.alerts.webhooks()
    ]  # fmt: skip
    return {"webhooks": known, "queue": sources.alerts.queue(), "counts": sources.alerts.counts()}


def host_only(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}/…"


def conditions(sources: Sources) -> list[Condition]:
    """Everything that needs attention now, by the rules that are on."""
    watchers = {"gap": _gaps, "lag": _lags, "ledger": _ledger, "job": _jobs, "contract": _contracts, "disk": _disk}
    return [
        condition
        for kind, rule in sources.alerts.rules().items()
        if rule.enabled
        for condition in watchers[kind](sources, rule)
    ]


def _gaps(sources: Sources, rule: Rule) -> Iterator[Condition]:
    listing = sources.look().listing  # takes in what devices announced
    now_us = sources.clock_us()
    found = 0
    for seen_us, device in listing.heard_before(now_us - round(rule.threshold * SECOND_US)):
        bound_s = _bound_s(sources, rule, device.phone.id)
        if (now_us - seen_us) / SECOND_US <= bound_s:
            continue  # as long as it announced
        if found == GAPS_MAX:
            detail = f"more than {GAPS_MAX} devices were not heard; those last heard have alerts"
            yield Condition("gap", "others", detail)
            return
        found += 1
        yield Condition("gap", device.phone.id, f"{device.phone.name} was not heard for more than {bound_s:.0f} s")


def _bound_s(sources: Sources, rule: Rule, device: str) -> float:
    """The rule's threshold, and never less than the silence that the device itself announced."""
    with sources.history.lock:
        seen = sources.history.arrivals.device(device)
    return max(rule.threshold, 0.0 if seen.poll_us is None else seen.gap_us_max() / SECOND_US)


def _lags(sources: Sources, rule: Rule) -> Iterator[Condition]:
    """A stream lags when a device in contact does not come forward, as views/streams.py has it."""
    now_us = sources.clock_us()
    for device in sources.look().in_contact():
        with sources.history.lock:
            edges = sources.history.streams.edges_of(device.phone.id)
        for (id, incarnation, edge), known in edges:
            bound_s = _bound_s(sources, rule, id)
            if incarnation == device.incarnation and lag_s(known, device.own_now_us(now_us)) > bound_s:
                name = sources.history.names.get(edge, f"{edge:016x}")
                detail = f"{name} of {device.phone.name} lags more than {bound_s:.0f} s"
                if any(edge_id(each.stream) == edge for each in device.live):
                    detail += "; it is sending what it holds, and its page shows the newest reading"
                yield Condition("lag", f"{id}/{edge:016x}", detail)


def _ledger(sources: Sources, rule: Rule) -> Iterator[Condition]:
    newest = sources.clock_us() // HOUR_US
    streams = sources.history.streams
    with sources.history.lock:
        given_up = {
            edge: sum(streams.of(edge).sums(hour).ledgered for hour in (newest, newest - 1)) for edge in streams
        }
    for edge, elements in given_up.items():
        if elements > rule.threshold:
            name = sources.history.names.get(edge, f"{edge:016x}")
            yield Condition(
                "ledger", f"{edge:016x}", f"more than {rule.threshold:.0f} elements of {name} were given up"
            )


def _jobs(sources: Sources, _: Rule) -> Iterator[Condition]:
    for name, state in {} if sources.jobs is None else sources.jobs.status().items():
        if state["state"] in ("failed", "fenced"):
            yield Condition("job", name, f"job {name} {state['state']}")
    for name, store in sources.stores().items():
        for vertex in _parked(store):
            yield Condition("job", f"{name}/{vertex}", f"vertex {vertex} of job {name} is parked")


def _parked(store: Path) -> list[str]:
    """Vertices the job has given up on, as it last said."""
    try:
        status = json.loads((store / "status.json").read_bytes())
    except (OSError, ValueError):
        return []
    return sorted(status.get("parked", {}))


def _contracts(sources: Sources, _: Rule) -> Iterator[Condition]:
    for each in sources.contracts.now(sources.clock_us()):
        if each.findings.verdict in (Verdict.AT_RISK, Verdict.BROKEN):
            state, why = each.findings.verdict.value, ", ".join(each.findings.why)
            yield Condition("contract", each.sink, f"the promise of {each.sink} is {state}: {why}")


def _disk(sources: Sources, rule: Rule) -> Iterator[Condition]:
    if shutil.disk_usage(sources.home).free / MIB < rule.threshold:
        yield Condition("disk", "home", f"less than {rule.threshold:.0f} MiB are free on the disk of the log")
