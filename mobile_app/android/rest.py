"""The phone's part of a loop that sleeps: the wake lock, the alarm that ends the sleep, whether the radio is up, and
whether it hears what is broadcast."""

from __future__ import annotations

from typing import Any

from jnius import autoclass

from mobile_app.android.act import Act
from mobile_app.android.context import context, system_service
from mobile_app.android.power import MulticastLock, WakeLock
from mobile_app.node.rest import Waiting


class PhoneSleep:
    """Holds the processor awake except inside `sleep`."""

    def __init__(self) -> None:
        self._lock = WakeLock()
        self._ears: MulticastLock | None = None  # made when a region first needs it
        self._waiting: Waiting | None = None
        self._wakes: Any = autoclass("org.resurge.phone.Wakes")
        self._act = Act(self._woken)  # kept: Java holds no reference that Python's collector would see
        self._wakes.onWake(self._act)

    def _woken(self) -> None:
        self._lock.acquire()
        if self._waiting is not None:
            self._waiting.wake()

    def sleep(self, seconds: float, waiting: Waiting) -> None:
        self._waiting = waiting
        self._wakes.after(context(), round(seconds * 1000))
        self._lock.release()
        try:
            waiting.wait(seconds)
        finally:
            self._lock.acquire()
            self._wakes.cancel(context())

    def radio_up(self) -> bool:
        manager = system_service("connectivity", "android.net.ConnectivityManager")
        return bool(manager.isDefaultNetworkActive())

    def listen(self, *, on: bool) -> None:
        if self._ears is None:
            self._ears = MulticastLock()
        if on:
            self._ears.acquire()
        else:
            self._ears.release()

    def close(self) -> None:
        self._lock.release()
        if self._ears is not None:
            self._ears.release()
