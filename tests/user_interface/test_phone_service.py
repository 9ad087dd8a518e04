"""The app as a desktop runs it: the real node in the same process, behind the same socket, no server anywhere."""

from __future__ import annotations

import contextlib
from dataclasses import fields

import pytest

import resurge as rs
from mobile_app.home.preferences import Preferences
from mobile_app.node.plans import Plans
from mobile_app.node.results import KeptResult
from mobile_app.platforms import DesktopPlatform
from mobile_app.service.connection import ServiceClient
from shared.plan.encoding import encode_plan
from tests.user_interface import phone_world as world

pytestmark = pytest.mark.ui

PROGRAM = """
import resurge as rs
rs.sensor("gps", every="1s").sync("raw", batch=20, within="5s", contract=rs.lossless(delay="10m"))
"""


@pytest.fixture(scope="module")
def hand(tmp_path_factory):
    from tests.user_interface.phone import Hand  # opens a window

    home = tmp_path_factory.mktemp("app")
    Preferences(welcomed=True, appearance="light").save(home)
    program = home / "program.py"
    program.write_text(PROGRAM)
    plan = rs.load_program(program)
    Plans(home).store(plan.version, encode_plan(plan))
    with Hand(DesktopPlatform(home)) as opened:
        opened.until(lambda: opened.app.view and opened.app.view.get("plan"), "the node runs")
        yield opened


def test_a_recording_is_made_marked_kept_and_exported_with_no_server_at_all(hand):
    hand.go("record")
    hand.until_text("Stays on this phone")
    hand.type("Name this recording", "Kitchen table")
    hand.tap(hand.app.shell.current._button)
    hand.until_text("Mark this moment")
    hand.until(lambda: sum(hand.app.view["recording"]["readings"].values()) > 20, "readings come")
    hand.tap("turn")
    hand.until_text("Marked “turn”")
    hand.tap(hand.app.shell.current._button)
    hand.until_text("Kept “Kitchen table”")
    hand.until_text("1 marker")
    hand.until_text("Stays on this phone")  # nothing moves under the finger any more
    hand.app.shell._hush()
    hand.tap("Kitchen table")
    hand.tap("CSV")
    hand.until_text("Written to")
    exported = list((hand.app.home / "exports").glob("*.csv"))
    assert exported
    assert "turn" in exported[0].read_text()


def test_what_a_person_chooses_is_what_the_node_records_and_what_the_plan_gets(hand):
    hand.go("record")
    hand.tap("Choose sensors")
    hand.until_text("What a recording takes")
    sheet = hand.app.shell.sheet
    others = sorted(sensor for sensor in hand.app.view["to_record"] if sensor != "gps")
    hand.tap(sheet._mine["gps"])
    hand.until(lambda: sorted(hand.app.view["to_record"]) == others, "gps is not recorded")
    assert "gps" not in hand.app.view["missing_sensors"]  # the plan reads it all the same
    hand.tap(sheet._plans["gps"])
    hand.until(lambda: hand.app.view["refused_sensors"] == ["gps"], "gps is kept from the plan")
    hand.until(lambda: "kept from this plan" in hand.app.view["missing_sensors"].get("gps", ""), "it is closed")
    hand.tap("Done")
    hand.tap(hand.app.shell.current._button)
    hand.until(lambda: hand.app.view["recording"], "a recording runs")
    assert hand.app.view["recording"]["sensors"] == others
    hand.tap(hand.app.shell.current._button)
    hand.until_text("Choose sensors")
    hand.tap("Choose sensors")
    hand.until_text("What a recording takes")
    hand.tap(hand.app.shell.sheet._mine["gps"])
    hand.tap(hand.app.shell.sheet._plans["gps"])
    hand.until(lambda: "gps" in hand.app.view["to_record"] and not hand.app.view["missing_sensors"], "all as before")
    hand.tap("Done")


def test_live_shows_what_the_sensors_give(hand):
    hand.go("live")
    hand.until_text("accelerometer  m/s²")
    hand.until_text("50 Hz of 50 Hz")


def test_flow_and_buffer_show_the_running_plan(hand):
    hand.go("flow")
    hand.until_text("On this phone")
    hand.until_text("lossless within 10m")
    hand.go("buffer")
    hand.until(lambda: hand.app.view["spooled"] > 0, "readings are spooled")
    hand.until_text("no gateway is paired")
    hand.tap("Health")
    hand.until_text("Nothing is in its way")


def test_recorded_states_have_the_shapes_of_a_running_node(hand):
    with contextlib.closing(ServiceClient.open(hand.app.home)) as client:
        view, recorded = client.view(), world.ride()
        assert recorded.keys() == view.keys()
        for part in ("spool", "policies", "battery"):
            assert recorded[part].keys() == view[part].keys(), part
        assert recorded["sensors"]["gps"].keys() == view["sensors"]["gps"].keys()
        assert recorded["edges"]["trips"].keys() == view["edges"]["raw"].keys()
        assert recorded["promises"][0].keys() == view["promises"][0].keys()
        assert world.samples("gps").keys() == client.samples("gps").keys()
        assert set(world.samples("gps")["columns"]) == set(client.samples("gps")["columns"])
        assert world.entry("not-paired", "", 1).keys() == client.health()[0].keys()
        plan = client.plan()
        assert world.PLAN.keys() == plan.keys()
        assert world.PLAN["operators"][0].keys() == plan["operators"][0].keys()
        assert world.PLAN["edges"][0].keys() == plan["edges"][0].keys()
        assert world.recordings(False)[0].keys() == client.do("recordings")[0].keys()
        started = client.do("start_recording", name="shape")
        hand.until(lambda: client.view()["recording"], "the view tells of it")
        running = client.view()["recording"]
        client.do("stop_recording")
        assert started["name"] == "shape"
        assert recorded["recording"].keys() == running.keys()


@pytest.mark.parametrize("told", [world.results, world.trips_results])
def test_recorded_results_have_the_shape_of_those_that_the_store_keeps(told):
    kept = {"number", *(field.name for field in fields(KeptResult))}
    assert all(row.keys() == kept for row in told())


def test_the_node_ends_in_an_orderly_way_with_the_app(hand):
    """Last in this module: the window closes, and the node leaves its home to whoever comes next."""
    hand.app.around.close()
    assert not hand.app.around._thread.is_alive()
    hand.until_text("The recorder is not running")
    hand.app.start_service()
    hand.until(lambda: hand.app.gone is None, "the node runs again")
