"""Where the pages' data comes from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cloud_backend.dashboard import feed as feed_module
from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.overview import Contact
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType
from tests.cloud_backend.results.test_store import row
from tests.user_interface.world import Phone, _frame

NOW_S = 1_000_000


class World:
    def __init__(self, directory, **log_options) -> None:
        self.log = Log.open(PosixDisk(directory / "log"), **log_options)
        self.results = Results(directory / "results.db")
        self.phone = Phone("tram-07", "gateway", ())

    def arrive(self, second: int, count: int) -> None:
        self.log.append([Record(second * 1_000_000, _frame(self.phone, FrameType.DATA, count))])
        self.log.sync()

    def feed(self) -> Feed:
        return Feed(
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
    assert sum(sum(counts) for counts in feed.overview()["arrivals"]["counts"].values()) == 3
    world.log.sync()
    assert sum(sum(counts) for counts in feed.overview()["arrivals"]["counts"].values()) == 8


def test_the_first_look_at_a_long_log_reads_its_end_and_still_counts_everything(tmp_path, monkeypatch):
    world = World(tmp_path, segment_bytes=2000)
    for second in range(NOW_S - 60, NOW_S):
        world.arrive(second, 2)
    assert len(world.log.segment_starts()) > 3
    monkeypatch.setattr(feed_module, "FIRST_LOOK_BYTES", 2000)
    view = world.feed().overview()
    assert view["account"]["delivered"] == 120
    assert 20 <= sum(view["arrivals"]["counts"][world.phone.device.hex()]) < 120


def test_a_value_json_cannot_say_is_shown_as_none(world):
    world.results.publish(1, [replace(row(0), values={"a": math.nan, "b": math.inf, "c": 1.5})])
    assert world.feed().overview()["results"][0]["values"] == {"a": None, "b": None, "c": 1.5}


def test_a_page_that_was_away_long_catches_up_over_several_events(world, monkeypatch):
    monkeypatch.setattr(feed_module, "RESULTS_MAX", 2)
    world.results.publish(1, [row(window) for window in range(5)])
    feed, change, seen = world.feed(), 0, []
    while news := (view := feed.overview(after_change=change))["results"]:
        seen += [result["window_start_us"] for result in news]
        change = view["change"]
    assert seen == [window * 60 for window in range(5)]
