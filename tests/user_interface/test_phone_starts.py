"""The app as a newcomer starts it: on a new home, on an old one with operators, on one that somebody else uses."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.headless import RunOptions, run
from mobile_app.home.clock import CLOCK_FILE, Anchor, boot_id, boot_time_us, wall_time_us
from mobile_app.home.files import HomeLock
from mobile_app.home.preferences import Preferences
from mobile_app.platforms import DesktopPlatform
from mobile_app.sensors.choose import parse_choices
from mobile_app.service.connection import LINK_FILE
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.ui

TRIPS = Path(__file__).parents[2] / "resurge" / "examples" / "trips" / "program.py"
OLD_US = 1_704_096_000_000_000  # a Monday of 2024, when the made-up people set out
SPEED = 1080.0


@contextmanager
def opened(home):
    from tests.user_interface.phone import Hand  # opens a window

    Preferences(welcomed=True, appearance="light").save(home)
    with Hand(DesktopPlatform(home)) as hand:
        yield hand


def test_a_new_home_records_once_its_person_has_read_three_screens(tmp_path):
    from tests.user_interface.phone import Hand

    with Hand(DesktopPlatform(tmp_path / "new")) as hand:
        hand.tap("Next")
        hand.tap("Next")
        hand.tap("Start")
        hand.until_text("Will be recorded")
        assert hand.app.gone is None


def test_a_home_of_years_ago_with_operators_of_its_own_starts_at_once(tmp_path):
    (tmp_path / "resurge.toml").write_text('[operators]\nmodules = ["resurge.examples.trips.operators"]\n')
    anchor = Anchor(boot_id(), boot_time_us(), wall_time_us(), OLD_US, 0, SPEED, OLD_US)
    (tmp_path / CLOCK_FILE).write_text(json.dumps(asdict(anchor)))
    sensors = parse_choices(["gps=synthetic:1", "accelerometer=synthetic:1", "battery=synthetic:1"])
    run(RunOptions(tmp_path, sensors=sensors, plan=rs.load_program(TRIPS), speed=SPEED, for_s=1.0, signals=False))
    with opened(tmp_path) as hand:
        hand.until(lambda: hand.app.view is not None and hand.app.view["plan"], "the node runs its plan")
        assert hand.app.view["time_us"] - OLD_US > 2 * 365 * 86_400 * 1_000_000
        hand.go("flow")
        hand.until_text("transport_mode")
        assert hand.app.gone is None


def test_a_home_that_another_node_runs_in_is_shown_and_left_to_it(tmp_path):
    stop = threading.Event()
    other = threading.Thread(
        target=run, args=[RunOptions(tmp_path, sensors=parse_choices(["gps=synthetic:4"]), stop=stop, signals=False)]
    )
    other.start()
    try:
        wait_until((tmp_path / LINK_FILE).exists, "the other node")
        link = (tmp_path / LINK_FILE).read_bytes()
        with opened(tmp_path) as hand:
            hand.until(lambda: "home-busy" in hand.app.around.why_not_running(), "it learns of the other node")
            hand.until_text("Will be recorded")
            assert hand.says("gps")
            assert not hand.says("accelerometer")  # which the app's own node would have
            assert (tmp_path / LINK_FILE).read_bytes() == link
        assert other.is_alive()
    finally:
        stop.set()
        other.join(PATIENCE_S)


def test_a_home_whose_user_does_not_answer_is_told_by_name(tmp_path):
    with HomeLock(tmp_path), opened(tmp_path) as hand:
        hand.until_text("Another node runs in")
        assert hand.says("[home-busy]")
    with opened(tmp_path) as hand:
        hand.until_text("Will be recorded")
