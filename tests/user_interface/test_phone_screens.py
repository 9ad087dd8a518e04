"""A hand goes through every screen of the real app, offscreen, against recorded states of the service."""

from __future__ import annotations

import re

import pytest

from mobile_app.home.preferences import Preferences, load_preferences
from mobile_app.screens.widgets.theme import TOUCH
from mobile_app.service.connection import ServiceRefused
from tests.user_interface import phone_world as world
from tests.user_interface.opening import open_app

pytestmark = pytest.mark.ui
TABS = ["record", "live", "flow", "buffer", "results", "setup"]
BACK_KEY = 27


def palette() -> str:
    from mobile_app.screens.widgets.appearance import look

    return look.palette.name


@pytest.fixture
def home(tmp_path):
    Preferences(welcomed=True, appearance="light").save(tmp_path)
    return tmp_path


def test_first_start_explains_itself_in_three_screens(tmp_path):
    with open_app(tmp_path, world.empty(), full=False) as hand:
        hand.tap("Next")
        hand.tap("Next")
        hand.tap("Back")
        assert hand.says("Offline is normal here")
        hand.tap("Next")
        hand.tap("Start")
        hand.until_text("Stays on this phone")
    assert load_preferences(tmp_path).welcomed


def test_every_screen_can_be_reached_and_shows_its_data(home):
    with open_app(home, world.ride()) as hand:
        hand.until_text("Ride to the river")
        for tab, text in (("live", "100 Hz of 100 Hz"), ("flow", "In the cloud"), ("buffer", "readings wait for a receipt"),
                          ("results", "Distance in km"), ("setup", "https://gateway.example.org:8443"), ("record", "Mark this moment")):  # fmt: skip
            hand.go(tab)
            hand.until_text(text)


def test_recording_starts_and_stops_with_one_button_and_is_marked(home):
    view = world.ride()
    recording = view["recording"]
    view["recording"] = None
    with open_app(home, view) as hand:
        hand.until_text("Will be recorded")
        hand.type("Name this recording", "Ride to the river")
        hand.tap(hand.app.shell.current._button)
        hand.until(lambda: ("start_recording", {"name": "Ride to the river"}) in hand.service.told)
        view["recording"] = recording
        hand.until_text("00:12:07")
        hand.type("Label this moment", "ferry")
        hand.tap("mark")
        hand.until(lambda: ("marker", {"label": "ferry"}) in hand.service.told)
        hand.tap("turn")
        hand.until(lambda: ("marker", {"label": "turn"}) in hand.service.told)
        hand.tap(hand.app.shell.current._button)
        hand.until_text("Kept “Ride to the river”")


def test_the_first_sensor_that_is_allowed_is_one_that_will_be_recorded(home):
    with open_app(home, world.empty(), full=False) as hand:
        hand.until_text("No sensor may be recorded yet")
        hand.type("Name this recording", "Typed before")
        hand.service.view |= {"consents": {"gps": True, "microphone": False}, "to_record": {"gps": 1.0}}
        hand.until_text("Will be recorded")
        assert hand.says("gps")
        assert not hand.says("microphone")
        assert hand.says("Typed before")


def test_a_person_chooses_what_a_recording_takes_and_what_the_plan_gets(home):
    with open_app(home, world.ride() | {"recording": None}) as hand:
        hand.until_text("accelerometer  100 Hz")
        hand.tap("Choose sensors")
        hand.until_text("What a recording takes")
        assert hand.says("100 Hz; the plan reads it too")
        sheet = hand.app.shell.sheet
        assert {sensor: row.switch.on for sensor, row in sheet._mine.items()} == {
            "accelerometer": True, "barometer": True, "gps": True, "light": False, "microphone": False,
        }  # fmt: skip
        hand.tap(sheet._mine["accelerometer"])
        hand.until(lambda: ("policy", {"record": ["gps", "barometer"]}) in hand.service.told)
        assert hand.service.view["consents"]["accelerometer"] is True
        hand.until_text("Not recorded; the plan still reads it")
        hand.tap(sheet._mine["microphone"])  # refused in Setup until now
        hand.until(lambda: ("policy", {"record": ["gps", "barometer", "microphone"]}) in hand.service.told)
        assert ("consent", {"sensor": "microphone", "allow": "recordings"}) in hand.service.told
        assert hand.bench.asked_for == [("microphone",)]
        hand.tap(sheet._plans["gps"])
        hand.until(lambda: ("consent", {"sensor": "gps", "allow": "recordings"}) in hand.service.told)
        hand.until_text("Kept from the plan “commute”; the gateway is told")
        assert sheet._mine["gps"].switch.on
        hand.tap("Done")
        hand.until_text("without gps: you keep that from it")
        hand.go("flow")
        hand.until_text("You keep gps from this plan")
        hand.go("live")
        hand.until_text("gps")
        assert not hand.says("gps is missing")


@pytest.mark.parametrize("size", [(340, 480), (915, 412), (412, 915)])
def test_the_choice_of_sensors_fits_every_screen(home, size):
    Preferences(welcomed=True, appearance="light", text_size="largest").save(home)
    with open_app(home, world.keeps_back()) as hand:
        hand.until(lambda: hand.app.view)
        window = hand.app.shell.get_root_window()
        before = window.size
        try:
            window.size = size
            hand.until_still()
            hand.tap("Choose sensors")
            hand.until_text("What a recording takes")
            hand.until_still()
            sheet = hand.app.shell.sheet
            assert sheet.card.height <= sheet.height
            hand.tap(sheet._plans["gps"])
            hand.until(lambda: ("consent", {"sensor": "gps", "allow": True}) in hand.service.told)
            hand.tap("Done")
            assert hand.app.shell.sheet is None
        finally:
            window.size = before


def test_a_recording_takes_at_least_one_sensor(home):
    with open_app(home, world.ride() | {"recording": None, "to_record": {"gps": 1.0}}) as hand:
        hand.until_text("gps  1.0 Hz")
        hand.tap("Choose sensors")
        hand.until_text("What a recording takes")
        hand.tap(hand.app.shell.sheet._mine["gps"])
        hand.until_text("at least one sensor")
        assert hand.app.shell.sheet._mine["gps"].switch.on
        assert [name for name, _ in hand.service.told] == []


def test_a_sensor_is_drawn_as_its_values_its_magnitude_or_its_spectrum(home):
    with open_app(home, world.ride(), at="live") as hand:
        hand.until_text("100 Hz of 100 Hz")
        cards = hand.app.shell.current._cards
        hand.until(lambda: all(card._newest for card in cards.values()), "readings of each")
        offered = {sensor: card._offered for sensor, card in cards.items()}
        assert offered["accelerometer"] == ["Values", "Magnitude", "Spectrum"]
        assert offered["barometer"] == ["Values", "Spectrum"]
        hand.tap("Magnitude")
        hand.until_text("magnitude")
        newest = cards["accelerometer"]._newest
        length = sum(newest[axis] ** 2 for axis in "xyz") ** 0.5
        assert hand.says(f"{length:.3f} m/s²")
        hand.tap("Spectrum")
        hand.until_text("Strongest: y at 1.13 Hz, 1.6 m/s²")  # made with 7.1 radians a second and 1.6
        assert hand.says("Of the last 10 s, resolution 0.2 Hz.")
        assert [text for text in cards["accelerometer"]._plot.texts if text not in "012"] == ["0.3", "3", "10", "30 Hz"]
        hand.tap("Values")
        hand.until(lambda: "now" in cards["accelerometer"]._plot.texts, "time again")
        assert not hand.overlaps()


def test_a_kept_recording_is_exported_renamed_and_deleted(home):
    with open_app(home, world.ride() | {"recording": None}) as hand:
        hand.until_text("Tram 7 to the lake")
        hand.tap("Tram 7 to the lake")
        hand.tap("CSV")
        hand.until(lambda: hand.bench.shared)
        assert hand.service.told[-1] == ("export", {"kind": "csv", "recording": "id-Tram 7 to the lake"})
        hand.tap("Tram 7 to the lake")
        hand.tap("Rename")
        hand.type("Name", "Tram 7, rain")
        hand.tap(hand.app.shell.sheet.card.children[0].children[0])
        hand.until(
            lambda: (
                ("rename_recording", {"recording": "id-Tram 7 to the lake", "name": "Tram 7, rain"})
                in hand.service.told
            )
        )
        hand.tap("Tram 7 to the lake")
        hand.tap("Delete")
        hand.until_text("for good")
        hand.tap("Delete")
        hand.until(lambda: ("delete_recording", {"recording": "id-Tram 7 to the lake"}) in hand.service.told)


def test_health_says_what_runs_here_of_a_fleet_and_what_moved_and_why(home):
    view = world.hosting()
    with open_app(home, view) as hand:
        hand.go("buffer")
        hand.tap("Health")
        hand.until_text("Vertices on this device")
        assert hand.says("1 thing to look at")  # one of its vertices failed
        for text in ("band", "permanent snapshot 41 s ago", "ValueError: no column 'db'", "level of street-noise, after 85\u2009000 elements.",
                     "band moved from kiosk to My phone.", "kiosk is silent for 10 s"):  # fmt: skip
            assert hand.says(text), text
        assert hand.overlaps() == []
        view["fleet"]["instances"], view["fleet"]["moves"], view["fleet"]["kept"] = [], [], []
        hand.until_text("None runs here now.")
        assert hand.says("Nothing is in its way")
        assert not hand.says("Moved here or away")


def test_health_says_who_is_in_the_region_what_is_held_for_them_and_what_leaving_costs(home):
    view = world.in_region()
    with open_app(home, view) as hand:
        hand.go("buffer")
        hand.tap("Health")
        hand.until_text("Region stop2")
        for text in ("You are there and compute for the others.", "You and kiosk, depot and van-2", "people and seats", "3.4 MB",
                     "Another device takes over people and seats. About 91.4 KB are sent while you go. Then the copies here are deleted.",
                     "Region stop3", "You are not there."):  # fmt: skip
            assert hand.says(text), text
        assert hand.overlaps() == []
        view["regions"][0] |= {"runs": [], "handed_bytes": 0}
        hand.until_text("Nothing: the others go on, and the copies here are deleted.")
        assert hand.says("You are there and keep copies for the others.")


def test_the_buffer_says_what_was_given_up_and_why_it_stopped(home):
    with open_app(home, world.trouble(), at="buffer") as hand:
        hand.until_text("210\u2009798")
        hand.tap("Ledger")
        hand.until_text("no. 992\u2009400 – 998\u2009399")
        hand.tap("Health")
        hand.until_text("The storage is full; the recording was ended.")
        hand.tap("Open the settings")
        assert hand.bench.opened == ["permissions"]
        hand.tap("Dismiss")
        hand.until(lambda: ("dismiss", {"code": "killed"}) in hand.service.told)
        hand.key(BACK_KEY)
        assert hand.says("Held on this phone")
        assert hand.says("Broken")
        assert hand.says("Lossless within 10m. What waits here is older than promised.")
        assert hand.says("Unknown")


def test_a_missing_permission_is_a_reason_with_a_button(home):
    denied = [{"name": "background location", "why": "without it gps stops with the screen", "how": "ask"}]
    with open_app(home, world.ride(), denied=denied, at="buffer") as hand:
        hand.tap("Health")
        hand.until_text("Not allowed: background location")
        hand.tap("Allow")
        hand.until_text("even when the app is closed or not in use")
        assert hand.bench.asked_for == [], "first it is said what for"
        hand.tap("Continue")
        assert hand.bench.asked_for == [("background location",)]


def test_results_are_a_chart_a_trace_and_a_list(home):
    with open_app(home, world.ride(), at="results") as hand:
        hand.until_text("Distance in km")
        hand.tap("Points")
        hand.until_text("1\u2009695")  # the sum of all
        hand.tap("Trace")
        hand.until_text("30 places")
        hand.tap("List")
        hand.until_text("incomplete")


def test_a_corrected_result_says_so_and_what_it_was(home):
    with open_app(home, world.ride(), at="results") as hand:
        hand.until_text("Distance in km")
        hand.tap("List")
        hand.until_text("was 112\u00a0m")
        assert [text for text in hand.texts() if text.startswith("corrected")] == ["corrected"]
        hand.tap("was 112\u00a0m")
        hand.until_text("Before that it said 112\u00a0m  ·  31\u00a0points.")
        assert hand.says("Corrected 16 Nov")


def test_a_result_that_is_taken_back_goes_from_the_screen(home):
    rows = world.results()[-3:]
    with open_app(home, world.ride(), came_back=lambda: rows, at="results") as hand:
        hand.until_text("3 results")
        rows.append(rows[0] | {"number": 31, "revision": 9, "retract": True})
        hand.until_text("2 results")


def test_trips_days_and_weeks_read_like_a_report(home):
    with open_app(home, world.ride(), came_back=world.trips_results, at="results") as hand:
        hand.until_text("My weeks")
        hand.until_text("Today")  # trips are what came last, and they have names: nobody had to choose the list
        trip = next(text for text in hand.texts() if "CO2e" in text)
        assert re.fullmatch(r"[\d.]+\s(k?m)  ·  \d+\smin  ·  \d+\sk?g\sCO2e", trip)
        assert not any("km_" in text or "0.000" in text for text in hand.texts())
        hand.tap("Train")
        hand.until_text("To")
        hand.key(BACK_KEY)
        hand.tap("My days")
        hand.until_text("Yesterday")
        assert {"Distance", "CO2e", "Trips", "corrected"} <= set(hand.texts())
        hand.tap("My weeks")
        hand.until_text("7 days to yesterday")
        hand.service.view["time_us"] += 86_400 * world.SECOND  # the app stays open overnight, and nothing new comes
        hand.until_text("7 days to Sunday 15 November")


def test_pairing_waits_for_the_person_to_compare_the_number(home):
    with open_app(home, world.empty(), full=False, at="setup") as hand:
        hand.until_text("Paste the link")
        hand.tap("Scan the QR code")
        hand.tap("Paste the link instead")
        hand.type("resurge://", "resurge://gateway.example.org:8443/#code.key")
        hand.tap(hand.app.shell.sheet.card.children[0].children[0])
        hand.until_text("482 913")
        hand.tap("It is the same")
        hand.until(lambda: ("confirm_pair", {"yes": True}) in hand.service.told)
        hand.until_text("https://gateway.example.org:8443")


def test_a_link_from_the_phones_own_camera_opens_pairing(home):
    with open_app(home, world.empty(), full=False, link="resurge://gateway.example.org:8443/#code.key") as hand:
        hand.until_text("Is this the number on the other screen?")
        hand.tap("It differs")
        hand.until_text("Not paired; nothing was sent")


def test_a_link_opens_pairing_in_an_app_that_is_open_already(home):
    with open_app(home, world.empty(), full=False) as hand:
        hand.until_text("No sensor may be recorded yet")
        hand.bench.open_with("resurge://gateway.example.org:8443/#code.key")
        hand.until_text("Is this the number on the other screen?")
        hand.app.on_pause()
        hand.app.on_resume()  # from another app, without a new link
        looked = hand.service.views
        hand.until(
            lambda: hand.service.views > looked + 1,
            "two more looks at the service, after which a pairing would be told",
        )
        assert [name for name, _ in hand.service.told].count("pair") == 1


def test_a_link_that_opened_the_app_waits_for_its_first_screens_and_for_the_service(tmp_path):
    recorded = world.Recorded(world.empty(), full=False)
    with open_app(tmp_path, link="resurge://gateway.example.org:8443/#code.key") as hand:
        hand.tap("Next")
        hand.tap("Next")
        hand.tap("Start")
        hand.until_text("The recorder is not running")
        with world.serving(tmp_path, recorded):
            hand.until_text("Is this the number on the other screen?")
    assert recorded.told == [("pair", {"link": "resurge://gateway.example.org:8443/#code.key"})]


def test_consent_and_policies_are_told_to_the_service(home):
    with open_app(home, world.ride(), at="setup") as hand:
        hand.until_text("microphone")
        hand.tap("microphone")
        hand.until(lambda: ("consent", {"sensor": "microphone", "allow": True}) in hand.service.told)
        assert hand.bench.asked_for == [("microphone",)]
        hand.tap("Only over Wi-Fi")
        hand.until(lambda: ("policy", {"wifi_only": True}) in hand.service.told)
        hand.tap("30 %")
        hand.until(lambda: ("policy", {"battery_floor": 0.3}) in hand.service.told)
        hand.tap("Compute")
        hand.until(lambda: ("policy", {"hosting": "hosts"}) in hand.service.told)
        hand.tap("Delete my data")
        hand.tap("Delete everything")
        hand.until_text("Ask its operator to delete it there.")


def test_a_refusal_is_said_with_its_code_and_the_switch_goes_back(home):
    with open_app(home, world.ride()) as hand:
        hand.service.refusals["consent"] = ServiceRefused("the permission is not given", code="sensor-permission")
        hand.until(lambda: hand.app.view)
        hand.go("setup")
        hand.until_text("microphone")
        hand.tap("microphone")
        hand.until_text("[sensor-permission]")
        switch = hand.app.shell.current._switches["microphone"].switch
        hand.until(lambda: not switch.on, "the switch goes back")


def test_without_a_service_every_screen_says_so_and_comes_back(home):
    with open_app(home) as hand:
        hand.until_text("The recorder is not running")
        for tab in TABS:
            hand.go(tab)
            hand.until_text("The recorder is not running")
        hand.go("record")
        hand.tap("Start the recorder")
        assert hand.bench.started == 2
        with world.serving(home, world.Recorded(world.ride())):
            hand.until_text("Ride to the river")


def test_the_back_button_goes_home_before_it_leaves(home):
    with open_app(home, world.ride(), at="results") as hand:
        assert hand.app._key(None, BACK_KEY)
        assert hand.app.shell.current.name == "record"
        assert not hand.app._key(None, BACK_KEY)  # Android closes the app


def test_a_paused_app_asks_nothing_until_it_is_back(home):
    with open_app(home, world.ride()) as hand:
        hand.until(lambda: hand.app.view)
        assert hand.app.on_pause()
        asked = []
        hand.app.calls.ask = lambda *_args, **_more: asked.append(1)
        hand.app._poll()
        hand.app._poll_screen()
        assert not asked
        hand.bench.dark = True
        hand.app.preferences.appearance = "system"
        hand.app.on_resume()
        assert asked
        assert palette() == "dark"


def test_appearance_and_text_size_change_at_once_and_are_kept(home):
    with open_app(home, world.ride(), at="setup") as hand:
        hand.tap("Dark")
        hand.until(lambda: palette() == "dark")
        assert hand.app.shell.current.name == "setup"
        hand.until_text("Text size")
        hand.tap("Largest")
        hand.until(lambda: load_preferences(home).text_size == "largest")
        hand.tap("Normal")
        hand.until(lambda: load_preferences(home).text_size == "normal")
    assert load_preferences(home).appearance == "dark"


def test_in_landscape_the_bar_stands_at_the_side(home):
    with open_app(home, world.ride()) as hand:
        hand.until(lambda: hand.app.view)
        window = hand.app.shell.get_root_window()
        size = window.size
        try:
            window.size = (915, 412)
            hand.until(lambda: hand.app.shell._bar.height > hand.app.shell._bar.width, "the bar stands")
            for tab in TABS:
                hand.go(tab)
        finally:
            window.size = size
            hand.until(lambda: hand.app.shell._bar.height < hand.app.shell._bar.width, "the bar lies")


def test_system_bars_are_left_free(home):
    with open_app(home, world.ride(), insets=(0.0, 30.0, 0.0, 20.0)) as hand:
        hand.until_text("Ride to the river")
        title, tab = hand.find("Record"), hand.app.shell.tabs["setup"]
        assert title.to_window(0, title.top)[1] <= hand.app.shell.height - 30
        assert tab.y >= 20


@pytest.mark.parametrize("size", ["normal", "largest"])
def test_no_text_overlaps_and_no_control_is_small(home, size):
    from mobile_app.screens.widgets.controls import Field, IconButton, OnOff, Pressed

    Preferences(welcomed=True, appearance="light", text_size=size).save(home)
    with open_app(home, world.offline()) as hand:
        hand.until(lambda: hand.app.view)
        for tab in TABS:
            hand.go(tab)
            hand.frames(10)
            assert not hand.overlaps(), tab
            small = [
                widget for widget, _ in hand.widgets()
                if isinstance(widget, (Pressed, IconButton, OnOff, Field)) and widget.height < TOUCH - 0.5
            ]  # fmt: skip
            assert not small
