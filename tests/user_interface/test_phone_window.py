"""The app's window on a desktop, and what may be drawn where."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from mobile_app.home.crashes import crashes, note_crash
from mobile_app.home.preferences import Preferences
from mobile_app.platforms import DESKTOP_WINDOW, DesktopPlatform
from tests.docs.pages import ROOT
from tests.patience import PATIENCE_S
from tests.user_interface import phone_world as world

pytestmark = pytest.mark.ui
HEADER = 64  # density-independent pixels
PAGES = ("record", "live", "flow", "buffer", "results", "setup")


@pytest.fixture
def hand(tmp_path):
    from tests.user_interface import phone  # opens a window

    Preferences(welcomed=True, appearance="light").save(tmp_path)
    view = world.ride() | {"recording": None}
    recorded = world.Recorded(view, full=True)
    with world.serving(tmp_path, recorded), phone.Hand(phone.Bench(tmp_path), recorded) as hand:
        hand.until(lambda: hand.app.view is not None, "a view")
        yield hand


def header(hand) -> np.ndarray:
    from tests.user_interface import phone

    pixels, (width, height) = hand.pixels()
    picture = np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[::-1]
    return picture[: round(HEADER * phone.DENSITY)].copy()


def test_nothing_that_scrolls_lies_over_the_header(hand):
    for page in PAGES:
        hand.app.shell.go(page)
        hand.until_still()
        before = header(hand)
        scroll = hand.app.shell.current.scroll
        for part in np.linspace(1.0, 0.0, 12):
            scroll.scroll_y = float(part)
            hand.frames(3)
            changed = (header(hand) != before).any(axis=2)
            assert not changed.any(), f"{page} at {part:.2f}: {int(changed.sum())} pixels of the header changed"


def test_a_desktops_window_has_a_phones_shape_and_cuts_no_text_off(hand, tmp_path):
    from kivy.core.window import Window
    from kivy.uix.label import Label

    from mobile_app.app import shape_window

    before = tuple(Window.size)
    try:
        shape_window(DesktopPlatform(tmp_path / "desktop"))
        assert Window.width < 0.7 * Window.height
        for page in PAGES:
            hand.app.shell.go(page)
            hand.until_still()
            for widget, seen in hand.widgets():
                if seen and isinstance(widget, Label) and widget.text.strip():
                    left, right = widget.to_window(*widget.pos)[0], widget.to_window(widget.right, 0)[0]
                    assert left >= -1, (page, widget.text)
                    assert right <= Window.width + 1, (page, widget.text)
            assert hand.overlaps() == []
    finally:
        Window.size = before


def test_on_a_desktop_the_window_opens_in_its_shape(tmp_path):
    """A window that is resized later has rows that nobody drew where the driver has no screen."""
    told = subprocess.run(
        [sys.executable, "-c", "import mobile_app.app as app; print(*map(round, app.Window.size))"],
        cwd=ROOT, env={**os.environ, "SDL_VIDEODRIVER": "offscreen", "KIVY_HOME": str(tmp_path)}, capture_output=True,
        text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert told.stdout.split() == [str(side) for side in DESKTOP_WINDOW]


def test_beside_connected_nobody_says_that_there_is_no_server(hand):
    hand.app.shell.go("record")
    hand.until_text("Connected")
    hand.until_text("What goes to the gateway is what the plan")
    assert not hand.says("no server")


def test_coming_back_keeps_an_open_sheet_and_what_was_typed(hand):
    """Every dialog of Android, a permission's too, pauses the app and resumes it."""
    hand.app.shell.go("setup")
    hand.tap("Rename this device")
    hand.type("Name", "Bicycle")
    hand.app.on_pause()
    hand.app.on_resume()
    hand.until_still()
    assert hand.says("Name of this device")
    hand.tap("Rename")
    hand.until(lambda: ("policy", {"name": "Bicycle"}) in hand.service.told, "the name")


def test_coming_back_to_another_look_dresses_the_app_anew(hand):
    from mobile_app.screens.widgets.appearance import look

    hand.app.preferences.appearance = "system"
    before = hand.app.root
    hand.bench.dark = True
    hand.app.on_resume()
    hand.until(lambda: hand.app.root is not before, "another look")
    assert look.palette.name == "dark"
    assert hand.bench.light_page is False, "the system's own icons must be seen on it"
    again = hand.app.root
    hand.app.on_resume()
    assert hand.app.root is again


def test_the_recorder_is_stopped_from_setup_after_a_question(hand):
    hand.app.shell.go("setup")
    hand.tap("Stop the recorder")
    hand.until_text("No sensor is read and nothing is sent")
    assert ("stop", {}) not in hand.service.told
    hand.tap("Stop")
    hand.until(lambda: ("stop", {}) in hand.service.told, "the stop")


def test_health_shows_a_crash_and_the_way_to_send_it(hand, tmp_path):
    note_crash(tmp_path, "service", ValueError("a defect of ours"))
    hand.app.shell.go("buffer")
    hand.tap("Health")
    hand.until_text("The recorder crashed")
    assert hand.says("ValueError: a defect of ours")
    hand.tap("Send the report")
    assert hand.bench.shared == crashes(tmp_path)
    hand.tap("Dismiss")
    hand.until(lambda: not hand.says("The recorder crashed"), "the card to go")
    assert crashes(tmp_path) == []


def test_a_yes_to_positions_asks_for_them_and_says_what_the_background_is_for(hand):
    hand.bench.denied = [{"name": "background location", "why": "", "how": "ask"}]
    hand.app.view["consents"].pop("gps", None)
    hand.app.shell.go("setup")
    setup = hand.app.shell.current
    setup._consent("gps", True)
    hand.until_text("even when the app is closed or not in use")
    assert hand.bench.asked_for == [("gps",)]
    hand.tap("Not now")
    assert hand.bench.asked_for == [("gps",)], "a no is respected"
    setup._consent("light", True)
    hand.until_still()
    assert not hand.says("even when the app is closed")


def test_nothing_runs_until_its_person_starts_it(tmp_path):
    from tests.user_interface import phone

    bench = phone.Bench(tmp_path)
    bench.left_running = False
    with phone.Hand(bench) as hand:
        for button in ("Next", "Next", "Start"):
            hand.tap(button)
        hand.until_text("The recorder is not running")
        assert (bench.started, bench.asked_for) == (0, [])
        hand.tap("Start the recorder")
        assert bench.started == 1
        assert bench.asked_for == [("notifications",)]


def test_a_recorder_that_was_left_running_is_started_with_the_app(tmp_path):
    from tests.user_interface import phone

    with phone.Hand(phone.Bench(tmp_path)) as hand:
        assert hand.bench.started == 1
