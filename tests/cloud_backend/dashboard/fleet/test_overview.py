"""Where the pages' data comes from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cloud_backend.dashboard.fleet import overview as feed_module
from cloud_backend.dashboard.fleet.overview import FleetOverview
from cloud_backend.dashboard.fleet.phones import Contact
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType
from tests.cloud_backend.results.test_store import row
from tests.user_interface.world import PhoneOnLine, _frame

NOW_S = 1_000_000


class World:
    def __init__(self, directory, **log_options) -> None:
        self.log = Log.open(PosixDisk(directory / "log"), **log_options)
        self.results = Results(directory / "results.db")
        self.phone = PhoneOnLine("tram-07", "gateway", ())

    def arrive(self, second: int, count: int) -> None:
        self.log.append([Record(second * 1_000_000, _frame(self.phone, FrameType.DATA, count))])
        self.log.sync()

    def feed(self) -> FleetOverview:
        return FleetOverview(
            log=self.log, results=self.results, contacts=lambda: [Contact(self.phone.device.hex(), "tram-07")],
            clock_us=lambda: NOW_S * 1_000_000,
        )  # fmt: skip


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_page_opened_late_shows_what_one_open_all_the_time_shows(world):
    early = world.feed()
    for second in range(NOW_S - 9, NOW_S):
        world.arrive(second, 3)
        early.overview()
    assert early.overview() == world.feed().overview()
    assert early.overview()["account"]["delivered"] == 27


def test_only_what_is_durable_is_shown(world):
    world.arrive(NOW_S - 2, 3)
    feed = world.feed()
    world.log.append([Record((NOW_S - 1) * 1_000_000, _frame(world.phone, FrameType.DATA, 5))])
    assert sum(feed.overview()["arrivals"]["counts"]["all"]) == 3
    world.log.sync()
    assert sum(feed.overview()["arrivals"]["counts"]["all"]) == 8


def test_a_large_fleet_is_shown_worst_first_and_bounded(world):
    names = [Contact(f"{number:032x}", f"phone-{number:03}") for number in range(100)]
    world.arrive(NOW_S - 1, 3)
    contacts = [*names, Contact(world.phone.device.hex(), "tram-07", NOW_S * 1_000_000)]
    feed = FleetOverview(
        log=world.log, results=world.results, contacts=lambda: contacts, clock_us=lambda: NOW_S * 1_000_000
    )
    view = feed.overview()
    assert view["phones_count"] == 101
    assert view["phones_connected"] == 1
    assert len(view["phones"]) == feed_module.PHONES_MAX
    assert not any(phone["connected"] for phone in view["phones"])


def test_a_value_json_cannot_say_is_shown_as_none(world):
    world.results.publish(1, [replace(row(0), values={"a": math.nan, "b": math.inf, "c": 1.5})])
    assert world.feed().overview()["results"][0]["values"] == {"a": None, "b": None, "c": 1.5}


def test_a_result_has_the_name_of_its_device_also_when_that_is_no_contact_any_more(world):
    revoked, deleted = "ab" * 16, "cd" * 16
    world.results.publish(1, [replace(row(0), device=revoked), replace(row(1), device=deleted)])
    feed = FleetOverview(
        log=world.log, results=world.results, contacts=list, clock_us=lambda: NOW_S * 1_000_000,
        names=lambda: {revoked: "tram-07"},
    )  # fmt: skip
    assert [result["name"] for result in feed.overview()["results"]] == ["tram-07", "cdcdcdcd"]


def test_a_page_that_was_away_long_catches_up_over_several_events(world, monkeypatch):
    monkeypatch.setattr(feed_module, "RESULTS_MAX", 2)
    world.results.publish(1, [row(window) for window in range(5)])
    feed, change, seen = world.feed(), 0, []
    while news := (view := feed.overview(after_change=change))["results"]:
        seen += [result["window_start_us"] for result in news]
        change = view["change"]
    assert seen == [window * 60 for window in range(5)]
