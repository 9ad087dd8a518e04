"""The app's window on a desktop, and what may be drawn where."""

from __future__ import annotations

import numpy as np
import pytest

from mobile_app.home.preferences import Preferences
from mobile_app.platforms import DesktopPlatform
from tests.user_interface import phone_world as world

pytestmark = pytest.mark.ui
HEADER = 64  # density-independent pixels
PAGES = ("record", "live", "flow", "buffer", "results", "setup")


@pytest.fixture
def hand(tmp_path):
    from tests.user_interface import phone  # opens a window

    Preferences(welcomed=True, appearance="light").save(tmp_path)
    view = world.ride() | {"recording": None}
    with world.serving(tmp_path, world.Recorded(view, full=True)), phone.Hand(phone.Bench(tmp_path)) as hand:
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
        hand.settle(0.8)
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
            hand.settle(0.5)
            for widget, seen in hand.widgets():
                if seen and isinstance(widget, Label) and widget.text.strip():
                    left, right = widget.to_window(*widget.pos)[0], widget.to_window(widget.right, 0)[0]
                    assert left >= -1, (page, widget.text)
                    assert right <= Window.width + 1, (page, widget.text)
            assert hand.overlaps() == []
    finally:
        Window.size = before


def test_beside_connected_nobody_says_that_there_is_no_server(hand):
    hand.app.shell.go("record")
    hand.until_text("Connected")
    hand.until_text("What goes to the gateway is what the plan")
    assert not hand.says("no server")
