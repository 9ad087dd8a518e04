"""What the app needs from what it runs on: a phone does it through Android, a desktop by itself.

On a desktop the service runs in this process, in a thread of its own; the app reaches it through the same socket.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from mobile_app.home.files import RESUME_FILE
from mobile_app.host import ANDROID_APP, host
from shared.errors import ResurgeError

HOME_VARIABLE = "RESURGE_HOME"
APPEARANCE_VARIABLE = "RESURGE_APPEARANCE"
SIMULATED = ("gps", "accelerometer", "battery")
DESKTOP_WINDOW = (412, 700)  # density-independent pixels: the shape of a phone, low enough for a small laptop
NOTHING: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Platform(Protocol):
    home: Path

    def dark_mode(self) -> bool: ...

    def insets(self) -> tuple[float, float, float, float]: ...

    def show_bars(self, *, light_page: bool) -> None:
        """Make the system's own icons readable on a light or dark page."""
        ...

    def wants_service(self) -> bool:
        """Whether its person left the recorder running, so that the app may start it without being asked."""
        ...

    def start_service(self) -> None: ...

    def why_not_running(self) -> str:
        """What ended the service that was started, where that is known."""
        ...

    def ask_permissions(self, sensors: Collection[str], then: Callable[[], None]) -> None:
        """Have the system ask its person for what these sensors need to be read; `then` may run on any thread."""
        ...

    def ask_permission(self, name: str) -> None:
        """Have the system ask for one thing, by the name that `missing_permissions` gives it."""
        ...

    def missing_permissions(self, sensors: Collection[str]) -> list[dict[str, str]]:
        """What the system does not allow now: name, why, and how to allow it (`ask` or `settings`)."""
        ...

    def share(self, path: Path, mime: str) -> str:
        """Hand a file to another app; returns what to tell the person."""
        ...

    def pairing_link(self) -> str:
        """The link that opened the app, once; empty when it was opened otherwise."""
        ...

    def on_pairing_link(self, then: Callable[[str], None]) -> None:
        """Call back, on any thread, when a link opens the app while it is open already."""
        ...

    def open_settings(self, what: str) -> str:
        """Open the system's settings for `battery` or `permissions`; returns what to tell the person, if anything."""
        ...

    def window_size(self) -> tuple[int, int] | None:
        """Width and height in density-independent pixels; None where the system gives the app its screen."""
        ...

    def close(self) -> None: ...


class DesktopPlatform:
    """The service in a thread; sensors are simulated, so that every screen has something to show."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.messages: list[str] = []
        self._why_not = ""

    def dark_mode(self) -> bool:
        return os.environ.get(APPEARANCE_VARIABLE) == "dark"

    def insets(self) -> tuple[float, float, float, float]:
        return NOTHING

    def show_bars(self, *, light_page: bool) -> None:
        """A desktop draws its own."""

    def window_size(self) -> tuple[int, int]:
        return DESKTOP_WINDOW

    def start_service(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._why_not = ""
            self._thread = threading.Thread(target=self._serve, name="service", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        try:
            from mobile_app.headless import RunOptions, run  # a phone's app process never loads the node
            from mobile_app.sensors.choose import parse_choices

            sensors = parse_choices(f"{name}=synthetic:{seed}" for seed, name in enumerate(SIMULATED, start=1))
            run(RunOptions(home=self.home, sensors=sensors, say=self.messages.append, stop=self._stop, signals=False))
        except ResurgeError as error:  # a home that another node runs in is one: the app then shows that node
            self._why_not = str(error)
        except Exception as error:
            self._why_not = f"{type(error).__name__}: {error}"
            raise  # a defect: its traceback belongs on the terminal

    def why_not_running(self) -> str:
        return self._why_not

    def wants_service(self) -> bool:
        return True

    def ask_permissions(self, sensors: Collection[str], then: Callable[[], None]) -> None:  # noqa: ARG002
        then()  # nothing guards a desktop's simulated sensors

    def ask_permission(self, name: str) -> None:
        """A desktop has none to give."""

    def missing_permissions(self, sensors: Collection[str]) -> list[dict[str, str]]:  # noqa: ARG002
        return []

    def share(self, path: Path, mime: str) -> str:  # noqa: ARG002
        return f"Written to {path}"

    def pairing_link(self) -> str:
        return ""

    def on_pairing_link(self, then: Callable[[str], None]) -> None:
        """Nobody opens a desktop's app by a link."""

    def open_settings(self, what: str) -> str:
        return f"This desktop has no settings for {what}"

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)


class AndroidPlatform:
    """Everything through `mobile_app.android.screen`; the service outlives the app."""

    def __init__(self) -> None:
        from mobile_app.android import screen

        self._screen = screen
        self.home = screen.home()

    def window_size(self) -> None:
        return None

    def dark_mode(self) -> bool:
        return self._screen.dark_mode()

    def insets(self) -> tuple[float, float, float, float]:
        return self._screen.insets()

    def show_bars(self, *, light_page: bool) -> None:
        self._screen.show_bars(light_page=light_page)

    def start_service(self) -> None:
        self._screen.start_service(self.home)

    def why_not_running(self) -> str:
        return ""  # another process: its notification and, at its next start, the health page tell

    def wants_service(self) -> bool:
        return (self.home.parent / RESUME_FILE).exists()

    def ask_permissions(self, sensors: Collection[str], then: Callable[[], None]) -> None:
        from mobile_app.android.permissions import WITH_CONSENT

        self._screen.ask_permissions(then, sensors, WITH_CONSENT)

    def ask_permission(self, name: str) -> None:
        self._screen.ask_permissions(lambda: None, ("gps", "steps", "microphone"), (name,))

    def missing_permissions(self, sensors: Collection[str]) -> list[dict[str, str]]:
        return self._screen.missing_permissions(sensors)

    def share(self, path: Path, mime: str) -> str:
        self._screen.share(str(path), mime)
        return "Choose where it should go"

    def pairing_link(self) -> str:
        return self._screen.pairing_link()

    def on_pairing_link(self, then: Callable[[str], None]) -> None:
        self._screen.on_pairing_link(then)

    def open_settings(self, what: str) -> str:
        self._screen.open_settings(what)
        return ""

    def close(self) -> None:
        """The service goes on."""


def platform() -> Platform:
    if host() == ANDROID_APP:
        return AndroidPlatform()
    return DesktopPlatform(Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".resurge" / "app"))
