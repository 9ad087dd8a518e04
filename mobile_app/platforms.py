"""What the app needs from what it runs on: a phone does it through Android, a desktop by itself.

On a desktop the service runs in this process, in a thread of its own; the app reaches it through the same socket.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from mobile_app.host import ANDROID_APP, host
from shared.errors import ResurgeError

HOME_VARIABLE = "RESURGE_HOME"
APPEARANCE_VARIABLE = "RESURGE_APPEARANCE"
SIMULATED = ("gps", "accelerometer", "battery")
NOTHING: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Platform(Protocol):
    home: Path

    def dark_mode(self) -> bool: ...

    def insets(self) -> tuple[float, float, float, float]: ...

    def start_service(self) -> None: ...

    def ask_permissions(self) -> None: ...

    def share(self, path: Path, mime: str) -> str:
        """Hand a file to another app; returns what to tell the person."""
        ...

    def pairing_link(self) -> str: ...

    def open_settings(self, what: str) -> str: ...

    def has_camera(self) -> bool: ...

    def close(self) -> None: ...


class Desktop:
    """The service in a thread; sensors are simulated, so that every screen has something to show."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.said: list[str] = []

    def dark_mode(self) -> bool:
        return os.environ.get(APPEARANCE_VARIABLE) == "dark"

    def insets(self) -> tuple[float, float, float, float]:
        return NOTHING

    def start_service(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self._serve, name="service", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        from mobile_app.headless import RunOptions, run  # a phone's app process never loads the node
        from mobile_app.sensors.choose import parse_choices

        sensors = parse_choices(f"{name}=synthetic:{seed}" for seed, name in enumerate(SIMULATED, start=1))
        try:
            run(RunOptions(home=self.home, sensors=sensors, say=self.said.append, stop=self._stop, signals=False))
        except ResurgeError as error:  # the health page tells why, at the next start
            self.said.append(str(error))

    def ask_permissions(self) -> None:
        """Nothing guards a desktop's simulated sensors."""

    def share(self, path: Path, mime: str) -> str:  # noqa: ARG002
        return f"Written to {path}"

    def pairing_link(self) -> str:
        return ""

    def open_settings(self, what: str) -> str:
        return f"This desktop has no settings for {what}"

    def has_camera(self) -> bool:
        return False

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)


class Phone:
    """Everything through `mobile_app.android.screen`; the service outlives the app."""

    def __init__(self) -> None:
        from mobile_app.android import screen

        self._screen = screen
        self.home = screen.home()

    def dark_mode(self) -> bool:
        return self._screen.dark_mode()

    def insets(self) -> tuple[float, float, float, float]:
        return self._screen.insets()

    def start_service(self) -> None:
        self._screen.start_service(self.home)

    def ask_permissions(self, then: Callable[[dict[str, bool]], None] = lambda _given: None) -> None:
        self._screen.ask_permissions(then)

    def share(self, path: Path, mime: str) -> str:
        self._screen.share(str(path), mime)
        return "Choose where it should go"

    def pairing_link(self) -> str:
        return self._screen.pairing_link()

    def open_settings(self, what: str) -> str:
        self._screen.open_settings(what)
        return ""

    def has_camera(self) -> bool:
        return True

    def close(self) -> None:
        """The service goes on."""


def platform() -> Platform:
    if host() == ANDROID_APP:
        return Phone()
    return Desktop(Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".resurge" / "app"))
