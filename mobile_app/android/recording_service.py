"""The Java half of the service, from Python's: its notification, a person's "Stop" in it, and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jnius import autoclass, cast

from mobile_app.android.act import Act
from mobile_app.node.results import Ring

ALERTS = 1 << 20  # numbers of notifications are small


def service() -> Any:
    return cast("org.resurge.phone.RecordingService", autoclass("org.kivy.android.PythonService").mService)


def show_status(title: str, text: str) -> None:
    """What the notification says while the service runs."""
    service().show(title, text)


def end() -> None:
    """Android is not to start the service again. Without this it would: its process ends before Java is told."""
    service().end()


def end_with(title: str, text: str) -> None:
    """The same, and a notification that stays says why."""
    service().endWith(title, text)


def ring(alert: Ring) -> None:
    """A notification of its own, with sound as the person has set it; the same number takes the place of the former."""
    service().ring(alert.number % ALERTS, alert.title, alert.text)


_kept: list[Act] = []  # Java holds no reference that Python's collector would see


def on_stop_asked(act: Callable[[], None]) -> None:
    """Call this, on Java's main thread, when a person taps "Stop"."""
    _kept.append(Act(act))
    service().onStopAsked(_kept[-1])
