"""What needs somebody's attention, in plain words: the first thing an operator reads in the morning.

Everything here is derived from what the pages show anyway, so that the list and the pages never disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloud_backend.coordinator.alerts import Alert
from cloud_backend.coordinator.device_operators import PlanNeeds
from cloud_backend.coordinator.followers import Follower
from cloud_backend.dashboard.drawing.number_text import duration, plural, size
from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.listing import COORDINATING, LOW_POWER, SILENT, Kind, Listing, Place
from shared.wire.status import DeviceStatus

BACKLOG_BYTES = 16 * 1024 * 1024
NAMES_MAX = 3
ALERTS_MAX = 4
FAILURES_SAID = 3  # in a row: what a restart of a receiver costs is not worth a person's time
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
    listing: Listing,
    jobs: Mapping[str, Mapping[str, Any]],
    quarantined: int,
    alerts: Sequence[Alert] = (),
    needs: PlanNeeds | None = None,
    *,
    followers: Sequence[Follower] = (),
    now_us: int,
) -> list[Issue]:
    """The worst first; empty when there is nothing to do. Costs what is said, however many devices are listed."""
    found = [
        *_alerts(alerts), *_losses(listing, now_us), *_jobs(jobs, quarantined), *_contact(listing), *_power(listing),
        *_without_operators(listing, needs), *_followers(followers, now_us), *_fleets(listing.of_kind(COORDINATING)),
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


def _followers(followers: Sequence[Follower], now_us: int) -> list[Issue]:
    failing = [each for each in followers if each.failures >= FAILURES_SAID]
    return [
        Issue("wrong", f"{each.name} has taken no results of {each.sink} for {duration((now_us - since) / 1e6)}",
              f"{each.problem[:1].upper()}{each.problem[1:]}. Nothing is lost: it goes on where it was.", "/results")
        for each in failing
        if (since := each.failing_us) is not None
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Some:
    """Devices that are named together: the first of them by name, and how many there are."""

    first: Sequence[Place]
    count: int

    @property
    def names(self) -> str:
        names = [name for name, _ in self.first]
        if self.count > NAMES_MAX:
            return f"{', '.join(names[:2])} and {self.count - 2} more"
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    def link(self, show: str) -> str:
        return f"/devices/{self.first[0][1]}" if self.count == 1 else f"/devices?show={show}"


def _kind(listing: Listing, kind: Kind) -> _Some:
    return _Some(listing.first(kind, NAMES_MAX), listing.count(kind))


def _losses(listing: Listing, now_us: int) -> list[Issue]:
    found = []
    gone = _Some(*listing.overwriting.gone(now_us))
    away_places, away_s = listing.overwriting.away(now_us)
    full_places, full_s = listing.overwriting.full()
    away, full = _Some(away_places[:NAMES_MAX], len(away_places)), _Some(full_places[:NAMES_MAX], len(full_places))
    if gone.count:
        found.append(
            Issue("wrong", f"{gone.names} may be overwriting readings by now",
                  "If it goes on, its spool is full: it has been silent for longer than its room lasts.",
                  gone.link("waiting"))
        )  # fmt: skip
    if away.count:
        found.append(
            Issue("wrong", f"{away.names} will overwrite readings in {duration(away_s)} if it goes on",
                  "By then its spool is full. Get it back into contact.", away.link("waiting"))
        )  # fmt: skip
    if full.count:
        found.append(
            Issue("wrong",
                  f"{full.names} will overwrite readings in {duration(full_s)} although it is in contact",
                  "Readings come faster than they leave it. Lower its sampling rate, let it exchange more often, or "
                  "give it a larger spool.", full.link("waiting"))
        )  # fmt: skip
    given_up = _kind(listing, "ledgered")
    if given_up.count:
        found.append(
            Issue("note", f"{plural(listing.ledgered, 'reading')} of {given_up.names} had to be given up",
                  "The ledger says which ranges and why.", given_up.link("ledgered"))
        )  # fmt: skip
    return found


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


def _contact(listing: Listing) -> list[Issue]:
    away = _kind(listing, SILENT)
    if not away.count:
        return []
    held, unheard = listing.silent()
    who, hold = ("They", "hold") if away.count > 1 else ("It", "holds")
    detail = f"{who} held {plural(held, 'reading')} when last heard."
    if unheard:
        detail += (
            f" If {who.lower()} {'go' if hold == 'hold' else 'goes'} on, {who.lower()} {hold} about {unheard:,} more."
        )
    words = f"{away.names} {'is' if away.count == 1 else 'are'} out of contact"
    return [Issue("note", words, detail, away.link("offline"))]


def _power(listing: Listing) -> list[Issue]:
    low = _kind(listing, LOW_POWER)
    if not low.count:
        return []
    words = f"{low.names} {'has' if low.count == 1 else 'have'} little battery left"
    return [Issue("note", words, "Under 15 %.", low.link("all"))]


def _without_operators(listing: Listing, needs: PlanNeeds | None) -> list[Issue]:
    """By the apps that devices have: of one app all lack the same."""
    if needs is None:
        return []
    apps_of_all = [app for app in listing.apps() if app.group not in needs.groups_apart]
    whys = {app: needs.why_withheld(DeviceStatus(operators=app.operators, plan=app.plan)) for app in apps_of_all}
    apps = [app for app, why in whys.items() if why]
    if not apps:
        return []
    first = sorted((place, whys[app]) for app in apps for place in listing.first(app, NAMES_MAX))[:NAMES_MAX]
    lacking = _Some([place for place, _ in first], sum(listing.count(app) for app in apps))
    words = f"{lacking.names} {'does' if lacking.count == 1 else 'do'} not get the program as it is deployed"
    detail = first[0][1]
    return [Issue("wrong", words, f"{detail[:1].upper()}{detail[1:]}.", lacking.link("all"))]


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
