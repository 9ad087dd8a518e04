"""The real app without a screen: Kivy draws into memory, and this hand taps it.

Importing this sets Kivy up, so it is imported before anything of Kivy. One process has one window; apps come and go.
"""

# ruff: noqa: E402  Kivy reads its environment and its settings when it is imported

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

DENSITY = float(os.environ.setdefault("KIVY_METRICS_DENSITY", "1"))
SIZE = (412, 915)  # density-independent pixels: a phone of today
os.environ.setdefault("SDL_VIDEODRIVER", "offscreen")
os.environ.setdefault("KIVY_HOME", tempfile.mkdtemp(prefix="kivy-"))
for switch in ("KIVY_NO_ARGS", "KIVY_NO_FILELOG", "KIVY_NO_CONSOLELOG"):
    os.environ.setdefault(switch, "1")

from kivy.config import Config

Config.set("graphics", "width", str(round(SIZE[0] * DENSITY)))
Config.set("graphics", "height", str(round(SIZE[1] * DENSITY)))
Config.set("graphics", "maxfps", "0")  # frames when we ask for them, not sixty a second
Config.set("graphics", "multisamples", "0")  # as on many phones
Config.set("kivy", "exit_on_escape", "0")

from kivy.base import EventLoop
from kivy.clock import Clock
from kivy.core.window import Window
from kivy.graphics.opengl import GL_RGBA, GL_UNSIGNED_BYTE, glReadPixels
from kivy.tests.common import UnitTestTouch
from kivy.uix.label import Label
from kivy.uix.scrollview import ScrollView
from kivy.uix.textinput import TextInput
from kivy.uix.widget import Widget

from mobile_app.app import ResurgeApp
from mobile_app.platforms import NOTHING
from mobile_app.screens.widgets.plots import Plot
from tests.patience import PATIENCE_S, RAN_OUT
from tests.user_interface.phone_world import Recorded

FRAME_S = 0.02  # between frames: drawing without a graphics card is the test's own cost
STILL_FRAMES = 10
HANDS_ON_S = 0.26  # a scrolling list keeps a touch for a quarter of a second, in case it is a scroll
BACK_KEY = 27


class Bench:
    """Stands in for the platform: nothing to ask, nothing to start."""

    def __init__(self, home: Path, *, dark: bool = False, insets: tuple[float, float, float, float] = NOTHING) -> None:
        self.home, self.dark, self.inset = home, dark, insets
        self.started = 0
        self.shared: list[Path] = []
        self.link = ""
        self.asked_for: list[tuple[str, ...]] = []
        self.denied: list[dict[str, str]] = []
        self.opened: list[str] = []
        self.why_not = ""
        self.left_running = True

    def dark_mode(self) -> bool:
        return self.dark

    def insets(self) -> tuple[float, float, float, float]:
        return self.inset

    def show_bars(self, *, light_page: bool) -> None:
        self.light_page = light_page

    def window_size(self) -> None:
        return None

    def start_service(self) -> None:
        self.started += 1

    def why_not_running(self) -> str:
        return self.why_not

    def wants_service(self) -> bool:
        return self.left_running

    def ask_permissions(self, sensors: Collection[str], then: Callable[[], None]) -> None:
        self.asked_for.append(tuple(sensors))
        then()

    def ask_permission(self, name: str) -> None:
        self.asked_for.append((name,))

    def missing_permissions(self, sensors: Collection[str]) -> list[dict[str, str]]:
        return self.denied

    def on_pairing_link(self, then: Callable[[str], None]) -> None:
        self.open_with = then  # a link while the app is open

    def share(self, path: Path, mime: str) -> str:
        self.shared.append(path)
        return f"Written to {path.name}"

    def pairing_link(self) -> str:
        link, self.link = self.link, ""
        return link

    def open_settings(self, what: str) -> str:
        self.opened.append(what)
        return ""

    def close(self) -> None: ...


class Hand:
    """Opens the app and does with it what a person does: look, tap, type, wait."""

    def __init__(self, bench: Bench, service: Recorded | None = None) -> None:
        self.bench, self.service = bench, service
        Window.size = tuple(side for side in Window.size)
        self.app = ResurgeApp(bench.home, bench)
        if isinstance(bench, Bench):
            self.app.starting_s = 0.0  # it starts nothing, so there is nothing to wait for
        self.app._run_prepare()
        self.frames(3)

    def close(self) -> None:
        self.app.stop()
        for child in list(Window.children):
            Window.remove_widget(child)
        for event in list(Clock.get_events()):
            event.cancel()

    def __enter__(self) -> Hand:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- time ------------------------------------------------------------------------------------------------------

    def frames(self, count: int) -> None:
        for _ in range(count):
            EventLoop.idle()

    def settle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            EventLoop.idle()
            time.sleep(FRAME_S)
        self.frames(2)  # what became due in the last of them

    def until(self, condition: Callable[[], object], what: str = "") -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(
                    f"{what or condition} {RAN_OUT} {PATIENCE_S:.0f} s; the screen says {self.texts()}"
                )
            EventLoop.idle()
            time.sleep(FRAME_S)

    def until_still(self) -> None:
        """Until what was opened has arrived: no text has moved or changed over some frames."""
        before: list[tuple[object, ...]] = []
        same = 0

        def still() -> bool:
            nonlocal before, same
            now = [(*widget.to_window(*widget.pos), *widget.size, widget.text) for widget, seen in self.widgets()
                   if seen and isinstance(widget, Label)]  # fmt: skip
            before, same = now, same + 1 if now == before else 0
            return same >= STILL_FRAMES

        self.until(still, "a screen on which nothing moves")

    def until_text(self, text: str) -> None:
        self.until(lambda: self.says(text), text)

    # --- looking -----------------------------------------------------------------------------------------------------

    def widgets(self) -> Iterator[tuple[Widget, bool]]:
        """Every widget, and whether it can be seen now."""
        for root in Window.children:
            yield from _walk(root, (0.0, 0.0, float(Window.width), float(Window.height)))

    def texts(self) -> list[str]:
        """What can be read on the screen now, from the widget tree."""
        found: list[str] = []
        for widget, seen in self.widgets():
            if seen:
                found += [text for text in _texts(widget) if text.strip()]
        return found

    def says(self, text: str) -> bool:
        """On the screen, or further down or up on it."""
        return any(text in one for widget, _ in self.widgets() for one in _texts(widget))

    def find(self, text: str) -> Widget:
        """The widget with this text, or one whose label it is."""
        for exact in (True, False):
            for widget, _ in self.widgets():
                words = [*_texts(widget), getattr(widget, "label", "")]
                if any(text == word if exact else text in str(word) for word in words if isinstance(word, str)):
                    return widget
        raise AssertionError(f"{text!r} is not on the screen, which says {self.texts()}")

    def overlaps(self) -> list[str]:
        """Pairs of texts of the screen (not of what lies above it) that are drawn over each other."""
        labels = [
            widget for widget in self.app.shell.current.walk() if isinstance(widget, Label) and widget.text.strip()
        ]
        boxes = [(*label.to_window(*label.pos), *label.to_window(label.right, label.top), label) for label in labels]
        return [
            f"{one[4].text!r} and {other[4].text!r}"
            for index, one in enumerate(boxes)
            for other in boxes[index + 1 :]
            if min(one[2], other[2]) - max(one[0], other[0]) > 2 and min(one[3], other[3]) - max(one[1], other[1]) > 2
            and _scroller(one[4]) is _scroller(other[4])
        ]  # fmt: skip

    # --- doing -------------------------------------------------------------------------------------------------------

    def tap(self, target: str | Widget) -> None:
        self.frames(2)  # whatever was just put there has its place
        widget = self.find(target) if isinstance(target, str) else target
        self._bring_into_sight(widget)
        touch = UnitTestTouch(*widget.to_window(*widget.center))
        touch.touch_down()
        self.frames(2)
        touch.touch_up()
        self.frames(2)
        if _scroller(widget) is not None:
            self.settle(HANDS_ON_S)

    def type(self, hint: str, text: str) -> None:
        fields = [widget for widget, _ in self.widgets() if isinstance(widget, TextInput) and hint in widget.hint_text]
        field = min(fields, key=lambda one: len(one.hint_text))
        field.text = text
        self.frames(1)

    def show_top(self, text: str) -> None:
        """Scroll until this is in sight."""
        self._bring_into_sight(self.find(text))

    def pixels(self) -> tuple[bytes, tuple[int, int]]:
        """The picture as it is: RGBA, from the bottom line up."""
        EventLoop.idle()
        width, height = (int(side) for side in Window.size)
        return bytes(glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE)), (width, height)

    def go(self, tab: str) -> None:
        self.tap(self.app.shell.tabs[tab])

    def key(self, code: int) -> None:
        Window.dispatch("on_keyboard", code, 0, None, [])
        self.frames(2)

    def _bring_into_sight(self, widget: Widget) -> None:
        scroll = _scroller(widget)
        if scroll is None:
            return
        bottom, top = (scroll.to_window(0, edge)[1] for edge in (scroll.y, scroll.top))
        if bottom <= widget.to_window(0, widget.y)[1] and widget.to_window(0, widget.top)[1] <= top:
            return
        scroll.scroll_to(widget, padding=60, animate=False)
        self.frames(3)


def _scroller(widget: Widget) -> Widget | None:
    """The list this scrolls with; what scrolls may pass under what does not."""
    parent = widget.parent
    while parent is not None and parent is not Window:
        if isinstance(parent, ScrollView):
            return parent
        parent = parent.parent
    return None


def _texts(widget: Widget) -> list[str]:
    if isinstance(widget, Label):
        return [widget.text]
    if isinstance(widget, TextInput):
        return [widget.text or widget.hint_text]
    return list(widget.texts) if isinstance(widget, Plot) else []


def _walk(widget: Widget, sight: tuple[float, float, float, float]) -> Iterator[tuple[Widget, bool]]:
    left, bottom = widget.to_window(*widget.pos)
    right, top = widget.to_window(widget.right, widget.top)
    seen = widget.opacity > 0 and left < sight[2] and right > sight[0] and bottom < sight[3] and top > sight[1]
    whole = seen and bottom >= sight[1] - 1 and top <= sight[3] + 1
    yield widget, whole
    if isinstance(widget, ScrollView):
        sight = (max(sight[0], left), max(sight[1], bottom), min(sight[2], right), min(sight[3], top))
    if widget.opacity > 0:
        for child in reversed(widget.children):
            yield from _walk(child, sight)
