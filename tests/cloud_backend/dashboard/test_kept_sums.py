"""Alerts, streams, metrics and what needs attention come from kept sums: they say what counting everything says, and
cost the active devices, however many are enrolled."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from cloud_backend.coordinator.alerts import Rule
from cloud_backend.dashboard.fleet import devices as devices_module
from cloud_backend.dashboard.fleet.attention import issues
from cloud_backend.dashboard.fleet.listing import SILENT
from cloud_backend.dashboard.fleet.overwriting import SOON_S
from cloud_backend.dashboard.history.completeness import cells_of, hours_until
from cloud_backend.dashboard.history.edges import HOUR_US
from cloud_backend.dashboard.prometheus import Exposition
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import alerts as alerts_module
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.dashboard.views.streams import Stream, activity, lag_s, streams
from cloud_backend.log.format import Record
from shared.identity import device_id, edge_id
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare, Frontier, LostRange
from shared.wire.status import DeviceStatus
from tests.cloud_backend.dashboard.house import GPS, SECOND_US, House

MONTH_US = 30 * 24 * HOUR_US
EDGES = [edge_id("gps"), edge_id("pulse")]


def crowd(house: House, count: int) -> None:
    """Devices that were last heard a month ago, each with an element in the log."""
    then_us = house.now_us - MONTH_US
    rows, records = [], []
    status = json.dumps(DeviceStatus(produced=1, incarnation=1, poll_s=30.0, full_in_s=60.0, battery=5).to_json())
    for number in range(count):
        key = f"silent {number}".encode().ljust(32, b".")
        device = device_id(key)
        rows.append((device, key, f"silent-{number:05}", 1, then_us, None, then_us, status))
        lost = LostRange(device, 1, EDGES[0], 0, 1, "evicted")
        declared = Declare(device, 1, EDGES[0], "gps", GPS)
        records += [Record(then_us, encode(each.frame())) for each in (declared, lost)]
    database = sqlite3.connect(house.settings.home / "roster.sqlite")
    database.executemany("INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    house.gateway.log.append(records)
    house.gateway.log.sync()


def lines_run(work: Callable[[], object]) -> int:
    """Lines of the product that ran for it: a loop over all devices shows in it, whatever the machine does meanwhile."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        count += event == "line"
        return trace if "cloud_backend" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Two houses, ten times as many devices in the second one. Looking changes nothing."""
    made = [House(tmp_path_factory.mktemp(str(enrolled))) for enrolled in (60, 600)]
    for house, enrolled in zip(made, (60, 600), strict=True):
        crowd(house, enrolled)
    yield made
    for house in made:
        house.close()


@pytest.mark.parametrize("what", ["alerts", "streams", "stream", "metrics", "attention"])
def test_a_look_costs_the_active_devices_however_many_are_enrolled(crowded, monkeypatch, what):
    monkeypatch.setattr(devices_module, "EVERYBODY", 10)
    monkeypatch.setattr(devices_module, "IN_TURN", 4)
    monkeypatch.setattr(alerts_module, "GAPS_MAX", 20)
    costs = []
    for house, enrolled in zip(crowded, (60, 600), strict=True):
        sources: Sources = house.app.state.sources
        exposition = Exposition(sources, CollectorRegistry())
        work = {
            "alerts": lambda sources=sources: conditions(sources),
            "streams": lambda sources=sources: streams(sources),
            "stream": lambda sources=sources: activity(sources, "gps"),
            "metrics": exposition.look,
            "attention": lambda sources=sources: issues(sources.look().listing, {}, 0, now_us=sources.clock_us()),
        }[what]
        work()
        sources.fleet.forget()
        assert len(sources.look().listing.everybody()) == enrolled + 2
        sources.fleet.forget()
        costs.append(lines_run(work))
    assert costs[0] > 50
    assert costs[1] <= 1.3 * costs[0]


class World:
    """A few devices to which anything may happen, and everything counted anew."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.random = random.Random(seed)
        self.now_us = house.now_us
        self.sources: Sources = replace(house.app.state.sources, clock_us=lambda: self.now_us)
        self.roster, self.log = house.gateway.roster, house.gateway.log
        self.keys = [f"phone-{number}".encode().ljust(32, b".") for number in range(6)]
        self.incarnations = {key: self.enrol(key) for key in self.keys}
        self.marks: dict[tuple[bytes, int, int], int] = {}

    def enrol(self, key: bytes) -> int:
        return self.roster.enrol(self.roster.new_code(self.now_us), key, key.decode().rstrip("."), self.now_us)

    def step(self) -> None:
        pick = self.random
        self.now_us += pick.choice([1, 30, 400, 3600, 20 * 3600]) * SECOND_US
        for _ in range(pick.randrange(1, 5)):
            key = pick.choice(self.keys)
            device = device_id(key)
            act = pick.choice(["seen", "seen", "data", "data", "data", "lost", "frontier", "revoke", "rename", "again"])
            if act == "seen":
                told = DeviceStatus(
                    poll_s=pick.choice([None, 30.0, 7200.0]), full_in_s=pick.choice([None, 10.0, 9000.0, 1e6]),
                    battery=pick.choice([3, 90]), produced=pick.randrange(200), incarnation=self.incarnations[key],
                )  # fmt: skip
                self.roster.seen([(device, self.now_us, told)])
            elif act == "revoke" and pick.random() < 0.3:
                self.roster.revoke(device, self.now_us)
            elif act == "rename":
                self.roster.rename(device, f"name-{pick.randrange(50):02}", self.now_us)
            elif act == "again" and pick.random() < 0.5:
                self.incarnations[key] = self.enrol(key)
            elif act in ("data", "lost", "frontier"):
                self.append(act, key)

    def append(self, act: str, key: bytes) -> None:
        pick, device, incarnation = self.random, device_id(key), self.incarnations[key]
        edge = pick.choice(EDGES)
        lo = self.marks.get((key, incarnation, edge), 0)
        hi = lo + pick.randrange(1, 9)
        reached_us = self.now_us - pick.choice([0, 50, 4000, 90_000]) * SECOND_US
        if act == "frontier":
            message = Frontier(device, incarnation, edge, lo, reached_us)
        elif act == "lost":
            message = LostRange(device, incarnation, edge, lo, hi, "evicted")
        else:
            message = Data(device, incarnation, edge, lo, hi, hi - lo, GPS.id, 0, 0, b"?" * hi, reached_us)
        if act != "frontier":
            self.marks[key, incarnation, edge] = hi
        name = "gps" if edge == EDGES[0] else "pulse"
        frames = [Declare(device, incarnation, edge, name, GPS).frame(), message.frame()]
        self.log.append([Record(self.now_us, encode(frame)) for frame in frames])
        self.log.sync()


def streams_anew(sources: Sources) -> list[Stream]:
    now_us, history = sources.clock_us(), sources.history
    devices = sources.devices()
    current = {each.phone.id: each.incarnation for each in devices if each.state != "revoked"}
    in_contact = {each.phone.id for each in devices if each.is_in_contact}
    newest = now_us // HOUR_US
    found = []
    for number in {edge for _, _, edge in history.edges} | set(history.names):
        states = [state for key, state in sources.log.edges() if key.edge == number]
        ledgered = sum(state.ledgered for state in states)
        mine = {edge: known for edge, known in history.edges.items() if edge[2] == number}
        parts = [(current.get(edge[0]) == edge[1], known) for edge, known in mine.items()]
        lags = [
            lag_s(known, now_us) for edge, known in mine.items()
            if edge[0] in in_contact and current.get(edge[0]) == edge[1]
        ]  # fmt: skip
        hours = [known.hours[hour] for known in mine.values() for hour in (newest, newest - 1) if hour in known.hours]
        span_s = HOUR_US / SECOND_US + now_us % HOUR_US / SECOND_US
        found.append(
            Stream(
                number, history.names[number], sum(is_current for is_current, _ in parts),
                sum(state.high_water for state in states) - ledgered, ledgered, history.rate(number, now_us),
                sum(hour.bytes for hour in hours) / span_s, max(lags, default=None),
                max(known.received_us for known in mine.values()), cells_of(parts, hours_until(now_us), now_us),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (each.name, each.number))


def gaps_anew(sources: Sources, rule: Rule) -> set[str]:
    """Who is silent for longer than the rule and the device itself say."""
    now_us, found = sources.clock_us(), set()
    for entry in sources.entries():
        seen = sources.history.arrivals.device(entry.device.hex())
        bound_s = max(rule.threshold, 0.0 if seen.poll_us is None else seen.gap_us_max() / SECOND_US)
        if entry.revoked_us is None and entry.seen_us is not None and (now_us - entry.seen_us) / SECOND_US > bound_s:
            found.add(entry.device.hex())
    return found


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_counting_everything_says(tmp_path, seed):
    house = House(tmp_path)
    world = World(house, seed)
    sources = world.sources
    seen: set[str] = set()
    for _ in range(40):
        world.step()
        sources.fleet.forget()
        said, anew = streams(sources), streams_anew(sources)
        assert [replace(each, cells=()) for each in said] == [replace(each, cells=()) for each in anew]
        for one, other in zip(said, anew, strict=True):
            assert [(cell.hour, cell.delivered, cell.ledgered) for cell in one.cells] == [
                (cell.hour, cell.delivered, cell.ledgered) for cell in other.cells
            ]
            assert [cell.share for cell in one.cells] == pytest.approx([cell.share for cell in other.cells])
        rule = sources.alerts.rules()["gap"]
        told = {each.subject for each in conditions(sources) if each.kind == "gap"}
        assert told == gaps_anew(sources, rule)
        now_us, listing = world.now_us, sources.fleet.listing
        devices = [each for each in sources.devices() if each.state != "revoked"]
        left = {each.phone.id: (each, each.overwrites_in_s(now_us)) for each in devices}
        gone = [id for id, (each, s) in left.items() if s == 0 and not each.is_in_contact]
        away = [id for id, (each, s) in left.items() if s and s < SOON_S and not each.is_in_contact]
        full = [id for id, (each, s) in left.items() if s is not None and s < SOON_S and each.is_in_contact]
        assert listing.overwriting.gone(now_us)[1] == len(gone)
        assert {id for _, id in listing.overwriting.away(now_us)[0]} == set(away)
        assert {id for _, id in listing.overwriting.full()[0]} == set(full)
        silent = [each for each in devices if each.state == "offline"]
        assert listing.silent() == tuple(
            sum(getattr(each.phone, of) for each in silent) for of in ("buffered", "unheard")
        )
        assert listing.count(SILENT) == len(silent)
        assert listing.ledgered == sum(each.phone.ledgered for each in devices)
        seen |= {kind for kind, found in (("gap", told), ("gone", gone), ("away", away), ("full", full)) if found}
    assert {"gap", "gone"} <= seen
    house.close()
