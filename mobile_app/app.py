"""The app: a window on the service. It holds no domain object, only what the service told it last.

    finger -> screen -> Calls (a thread) -> socket -> service        what it says comes back through Kivy's clock

On a phone the service is a process of its own and goes on when this one is closed; on a desktop it runs here, behind
the same socket. Nothing in this process waits for the service in the thread that draws.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KIVY_NO_ARGS", "1")  # the command line is ours
if "ANDROID_ARGUMENT" not in os.environ:  # a phone's console is its log, and a traceback has no other way out
    os.environ.setdefault("KIVY_NO_CONSOLELOG", "1")

from kivy.app import App
from kivy.clock import Clock
from kivy.config import Config

from mobile_app import platforms

if "ANDROID_ARGUMENT" not in os.environ and Config.get("graphics", "width") == "800":  # as Kivy comes
    # The window is made by its import, and a driver without a screen cannot give it another size afterwards.
    for side, pixels in zip(("width", "height"), platforms.DESKTOP_WINDOW, strict=True):
        Config.set("graphics", side, str(pixels))

from kivy.core.window import Window
from kivy.metrics import Metrics, dp
from kivy.uix.widget import Widget

from mobile_app.home.crashes import watch_for_crashes
from mobile_app.home.preferences import TEXT_SIZES, load_preferences
from mobile_app.screens.page import Page, View
from mobile_app.screens.pages import PAGES
from mobile_app.screens.shell import Shell
from mobile_app.screens.welcome import Welcome
from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.sheets import Sheet
from mobile_app.service.calls import Calls
from mobile_app.service.connection import ServiceClient, ServiceGone
from shared.errors import ResurgeError

VIEW_EVERY_S = 1.0
DRAW_EVERY_S = 0.25  # a screen that moves asks this often
BACK_KEY = 27
SMALLEST = (340, 480)  # density-independent pixels: a small phone


class ResurgeApp(App):
    """`home` is the node's directory; `around` is what the platform can do for us."""

    root: Widget | None
    title = "Resurge"
    icon = str(Path(__file__).with_name("icon.png"))  # of a desktop's window; an APK has its own
    starting_s = 10.0  # how long a service may take until it answers; a phone unpacks it at the first start

    def __init__(self, home: Path, around: platforms.Platform) -> None:
        super().__init__()
        self.home, self.around = home, around
        self.view: View | None = None
        self.gone: ResurgeError | None = None
        self.preferences = load_preferences(home)
        self._fontscale = Metrics.fontscale
        self.calls = Calls(home, lambda function: Clock.schedule_once(lambda _dt: function(), 0))
        self.shell: Shell | None = None
        self._paused = False
        self._starts_until = 0.0
        self._link = ""

    # --- life ----------------------------------------------------------------------------------------------------

    def build(self) -> Widget:
        Window.softinput_mode = "below_target"
        Window.bind(on_keyboard=self._key, size=self._read_insets)
        self._dress()
        root = self._compose()
        self.around.on_pairing_link(lambda link: Clock.schedule_once(lambda _dt: self._take_link(link), 0))
        self._take_link(self.around.pairing_link())
        if self._link or self.around.wants_service():  # otherwise it starts when its person says so
            self.start_service()
        Clock.schedule_interval(lambda _dt: self._poll(), VIEW_EVERY_S)
        Clock.schedule_interval(lambda _dt: self._poll_screen(), DRAW_EVERY_S)
        Clock.schedule_once(lambda _dt: self._poll(), 0)
        return root

    def on_pause(self) -> bool:
        self._paused = True  # the service goes on; we stop asking
        return True

    def on_resume(self) -> None:
        self._paused = False
        if self._look_wanted() != self._look_worn:  # the person may have changed the phone's colours meanwhile
            self.restyle()  # else not: a sheet is open, or a text half typed, whenever Android has asked something
        self._take_link(self.around.pairing_link())
        self._poll()

    def on_stop(self) -> None:
        Window.unbind(on_keyboard=self._key, size=self._read_insets)
        Metrics.fontscale = self._fontscale  # the next app in this process starts from the phone's own text size
        self.calls.close()
        self.around.close()

    def _dress(self) -> None:
        dark, text_size, insets = self._look_worn = self._look_wanted()
        look.choose("dark" if dark else "light")
        Metrics.fontscale = self._fontscale * TEXT_SIZES[text_size]
        look.insets = insets
        Window.clearcolor = look.colour("page")
        self.around.show_bars(light_page=not dark)

    def _look_wanted(self) -> tuple[bool, str, tuple[float, float, float, float]]:
        """Whether it is dark, the text's size, and what the system's bars take."""
        chosen = self.preferences.appearance
        dark = self.around.dark_mode() if chosen == "system" else chosen == "dark"
        return dark, self.preferences.text_size, self.around.insets()

    def _compose(self) -> Widget:
        if not self.preferences.welcomed:
            return Welcome(self._end_welcome)
        self.shell = Shell(PAGES, lambda kind: kind(self), self._on_page)
        return self.shell

    def _end_welcome(self) -> None:
        self.preferences.welcomed = True
        self.preferences.save(self.home)
        self.restyle()
        self._follow_link()

    def restyle(self) -> None:
        """Build everything anew in the look that is in force now."""
        here = self.shell.current.name if self.shell is not None else ""
        self._dress()
        old, root = self.root, self._compose()
        if old is not None:
            Window.remove_widget(old)
            Window.add_widget(root)
            self.root = root
        if self.shell is not None and here:
            self.shell.go(here)
        elif self.shell is not None:
            self._on_page(self.shell.current)

    def _read_insets(self, *_: object) -> None:
        insets = self.around.insets()
        if insets != look.insets:
            look.insets = insets
            self._look_worn = self._look_wanted()
            if self.shell is not None:
                self.shell.rearrange()

    # --- the service ----------------------------------------------------------------------------------------------

    def start_service(self) -> None:
        self._starts_until = time.monotonic() + self.starting_s
        if self.shell is not None:
            self.shell.current.starting()
        try:
            self.around.start_service()
        except ResurgeError as error:
            self._lost(error)

    def run_recorder(self) -> None:
        """A person starts it: now is the time to ask whether its notification may be seen."""
        self.around.ask_permission("notifications")
        self.start_service()

    def _take_link(self, link: str) -> None:
        """A pairing link that opened the app, from the phone's own camera. It waits for the service, and for a new
        person to have read the first screens."""
        self._link = link or self._link
        if link and self.gone is not None:
            self.start_service()
        self._follow_link()

    def _follow_link(self) -> None:
        if self._link and self.shell is not None and self.view is not None and self.gone is None:
            link, self._link = self._link, ""
            self.shell.go("setup")
            self.do("pair", self.shell.current.confirm_pairing, link=link)

    def ask(
        self, question: Callable[[ServiceClient], Any], then: Callable[[Any], None], *, key: object = None,
        otherwise: Callable[[ResurgeError], None] | None = None,
    ) -> None:  # fmt: skip
        self.calls.ask(question, then, otherwise or self._lost, key=key)

    def do(self, name: str, then: Callable[[Any], None] | None = None, /, **arguments: Any) -> None:
        """Have the service do something, tell `then`, and look at once what changed."""

        def done(answer: Any) -> None:
            if then is not None:
                then(answer)
            self._poll()

        self.calls.ask(lambda client: client.do(name, **arguments), done, self._refused)

    def _refused(self, error: ResurgeError) -> None:
        if isinstance(error, ServiceGone):
            self._lost(error)
        else:
            self.say(f"{error.message} [{error.code}]")
            self._poll()  # switches go back to what is so

    def _lost(self, error: ResurgeError) -> None:
        if not isinstance(error, ServiceGone) and self.view is not None:
            return  # one question was refused; the rest is answered
        if isinstance(error, ServiceGone) and self._starting():
            return
        self.gone = error
        if self.shell is not None:
            self.shell.current.lose(error)

    def _starting(self) -> bool:
        return time.monotonic() < self._starts_until and not self.around.why_not_running()

    def _poll(self) -> None:
        if not self._paused and self.shell is not None:
            self.ask(lambda client: client.view(), self._take_view, key="view")

    def _poll_screen(self) -> None:
        if not self._paused and self.shell is not None and self.gone is None:
            self.shell.current.refresh()

    def _take_view(self, view: View) -> None:
        if "time_us" not in view and self._starting():
            return  # the service is there, its node not yet
        self.view, self.gone, self._starts_until = view, None, 0.0
        if self.shell is not None:
            self.shell.current.take(view)
        self._follow_link()

    # --- what screens ask of us -------------------------------------------------------------------------------------

    def _on_page(self, page: Page) -> None:
        if self.gone is not None:
            page.lose(self.gone)
        elif self.view is not None:
            page.take(self.view)
            page.refresh()
        self._poll()

    def go(self, screen: str) -> None:
        if self.shell is not None:
            self.shell.go(screen)

    def say(self, text: str) -> None:
        if self.shell is not None:
            self.shell.say(text)

    def open_sheet(self, sheet: Sheet) -> None:
        if self.shell is not None:
            self.shell.open_sheet(sheet)

    def close_sheet(self) -> None:
        if self.shell is not None:
            self.shell.close_sheet()

    def prefer(self) -> None:
        self.preferences.save(self.home)
        Clock.schedule_once(lambda _dt: self.restyle(), 0)  # not under the finger that chose it

    def open_settings(self, what: str) -> None:
        text = self.around.open_settings(what)
        if text:
            self.say(text)

    def share(self, path: Path, mime: str) -> None:
        self.say(self.around.share(path, mime))

    def _key(self, _window: object, key: int, *_: object) -> bool:
        return key == BACK_KEY and self.shell is not None and self.shell.back()


def shape_window(around: platforms.Platform) -> None:
    """On a desktop: a window like a phone, that cannot be made too small for what is in it."""
    if (size := around.window_size()) is not None:
        Window.size = (dp(size[0]), dp(size[1]))
        Window.minimum_width, Window.minimum_height = dp(SMALLEST[0]), dp(SMALLEST[1])


def main() -> None:
    """The app of this phone or desktop."""
    around = platforms.platform()
    watch_for_crashes(around.home, "app")
    shape_window(around)
    ResurgeApp(around.home, around).run()
