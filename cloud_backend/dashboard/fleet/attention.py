"""What needs somebody's attention, in plain words: the first thing an operator reads in the morning.

Everything here is derived from what the pages show anyway, so that the list and the pages never disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloud_backend.coordinator.alerts import Alert
from cloud_backend.coordinator.device_operators import PlanNeeds
from cloud_backend.dashboard.drawing.number_text import duration, plural, size
from cloud_backend.dashboard.fleet.device import Device

BATTERY_LOW = 0.15
FULL_SOON_S = 2 * 3600
BACKLOG_BYTES = 16 * 1024 * 1024
NAMES_MAX = 3
ALERTS_MAX = 4
ALERTS_LINK = "/audit"  # for operators
FLEETS_LINK = "/fleets"
FLEET_STATES_FINE = ("running", "starting")
FLEET_ISSUES_MAX = 4


@dataclass(frozen=True, slots=True)
class Issue:
    severity: str  # wrong: data or results are at stake; note: worth knowing
    words: str
    detail: str
    link: str


def issues(
    devices: Sequence[Device],
    jobs: Mapping[str, Mapping[str, Any]],
    quarantined: int,
    alerts: Sequence[Alert] = (),
    needs: PlanNeeds | None = None,
    *,
    now_us: int,
) -> list[Issue]:
    """The worst first; empty when there is nothing to do."""
    enrolled = [each for each in devices if each.state != "revoked"]
    found = [
        *_alerts(alerts), *_losses(enrolled, now_us), *_jobs(jobs, quarantined), *_contact(enrolled), *_power(enrolled),
        *_without_operators(enrolled, needs), *_fleets(enrolled),
    ]  # fmt: skip
    return sorted(found, key=lambda issue: issue.severity != "wrong")


def _alerts(alerts: Sequence[Alert]) -> list[Issue]:
    """Every alert that is open; one about contact is said by the devices themselves."""
    shown = [alert for alert in alerts if alert.kind != "gap"]
    found = [
        Issue("wrong", f"{alert.detail[:1].upper()}{alert.detail[1:]}", "An alert is open.", ALERTS_LINK)
        for alert in shown[:ALERTS_MAX]
    ]
    if len(shown) > ALERTS_MAX:
        words = (
            f"{plural(len(shown) - ALERTS_MAX, 'more alert')} {'is' if len(shown) == ALERTS_MAX + 1 else 'are'} open"
        )
        found.append(Issue("wrong", words, "The audit page lists all of them.", ALERTS_LINK))
    return found


def _losses(devices: Sequence[Device], now_us: int) -> list[Issue]:
    found = []
    soon = [each for each in devices if (left := each.overwrites_in_s(now_us)) is not None and left < FULL_SOON_S]
    gone = [each for each in soon if not each.is_in_contact and each.overwrites_in_s(now_us) == 0]
    away = [each for each in soon if not each.is_in_contact and each not in gone]
    full = [each for each in soon if each.is_in_contact]
    if gone:
        found.append(
            Issue("wrong", f"{_names(gone)} may be overwriting readings by now",
                  "If it goes on, its spool is full: it has been silent for longer than its room lasts.",
                  _link(gone, "waiting"))
        )  # fmt: skip
    if away:
        found.append(
            Issue("wrong", f"{_names(away)} will overwrite readings in {_least(away, now_us)} if it goes on",
                  "By then its spool is full. Get it back into contact.", _link(away, "waiting"))
        )  # fmt: skip
    if full:
        found.append(
            Issue("wrong",
                  f"{_names(full)} will overwrite readings in {_least(full, now_us)} although it is in contact",
                  "Readings come faster than they leave it. Lower its sampling rate, let it exchange more often, or "
                  "give it a larger spool.", _link(full, "waiting"))
        )  # fmt: skip
    given_up = [each for each in devices if each.phone.ledgered]
    if given_up:
        elements = sum(each.phone.ledgered for each in given_up)
        found.append(
            Issue("note", f"{plural(elements, 'reading')} of {_names(given_up)} had to be given up",
                  "The ledger says which ranges and why.", _link(given_up, "ledgered"))
        )  # fmt: skip
    return found


def _least(devices: Sequence[Device], now_us: int) -> str:
    return duration(min(each.overwrites_in_s(now_us) or 0.0 for each in devices))


def _jobs(jobs: Mapping[str, Mapping[str, Any]], quarantined: int) -> list[Issue]:
    found = []
    for name, facts in jobs.items():
        link = f"/jobs/{name}"
        parked = [each for vertex in facts.get("vertices", ()) for each in vertex["ranges"] if each.get("parked")]
        if facts.get("error"):
            found.append(Issue("wrong", f"Job {name} has failed", str(facts["error"]), link))
        elif parked:
            words = f"{plural(len(parked), 'hash range')} of job {name} cannot go on"
            found.append(Issue("wrong", words, str(parked[0]["parked"]), link))
        elif facts.get("alive") is False and facts.get("wanted", "running") == "running":
            detail = "Its driver holds no lease. The log keeps everything until it is back."
            found.append(Issue("wrong", f"Job {name} is not running", detail, link))
        elif facts.get("backlog_bytes", 0) > BACKLOG_BYTES:
            detail = f"{size(facts['backlog_bytes'])} are not read yet."
            found.append(Issue("note", f"Job {name} is behind the log", detail, link))
    if quarantined:
        found.append(
            Issue("wrong", f"Spark could not use {plural(quarantined, 'reading')}",
                  "They were delivered and are quarantined; the job's exceptions say why.", "/jobs")
        )  # fmt: skip
    return found


def _contact(devices: Sequence[Device]) -> list[Issue]:
    away = [each for each in devices if each.state == "offline"]
    if not away:
        return []
    held, unheard = sum(each.phone.buffered for each in away), sum(each.phone.unheard for each in away)
    who, hold = ("They", "hold") if len(away) > 1 else ("It", "holds")
    detail = f"{who} held {plural(held, 'reading')} when last heard."
    if unheard:
        detail += (
            f" If {who.lower()} {'go' if hold == 'hold' else 'goes'} on, {who.lower()} {hold} about {unheard:,} more."
        )
    return [
        Issue(
            "note", f"{_names(away)} {'is' if len(away) == 1 else 'are'} out of contact", detail, _link(away, "offline")
        )
    ]


def _power(devices: Sequence[Device]) -> list[Issue]:
    low = [
        each for each in devices if each.battery is not None and each.battery < BATTERY_LOW and not each.status.charging
    ]
    if not low:
        return []
    return [
        Issue(
            "note",
            f"{_names(low)} {'has' if len(low) == 1 else 'have'} little battery left",
            "Under 15 %.",
            _link(low, "all"),
        )
    ]


def _without_operators(devices: Sequence[Device], needs: PlanNeeds | None) -> list[Issue]:
    found = [] if needs is None else [(each, why) for each in devices if (why := needs.why_withheld(each.status))]
    if not found:
        return []
    lacking = [each for each, _ in found]
    words = f"{_names(lacking)} {'does' if len(found) == 1 else 'do'} not get the program as it is deployed"
    detail = found[0][1]
    return [Issue("wrong", words, f"{detail[:1].upper()}{detail[1:]}.", _link(lacking, "all"))]


def _fleets(devices: Sequence[Device]) -> list[Issue]:
    """Vertices that do not run, as a coordinator says that is heard now; of another one nobody knows."""
    found = []
    for each in devices:
        if each.status.fleet is None or not each.is_in_contact:
            continue
        still = [placed for placed in each.status.fleet.placements if placed.state not in FLEET_STATES_FINE]
        for placed in still[:FLEET_ISSUES_MAX]:
            words = f"{placed.vertex} of {placed.query} does not run on {' and '.join(placed.hosts)}"
            found.append(Issue("wrong", words, f"{placed.state.capitalize()}: {placed.why}.", FLEETS_LINK))
    return found


def _names(devices: Sequence[Device]) -> str:
    names = [each.phone.name for each in devices]
    if len(names) > NAMES_MAX:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _link(devices: Sequence[Device], show: str) -> str:
    return f"/devices/{devices[0].phone.id}" if len(devices) == 1 else f"/devices?show={show}"
