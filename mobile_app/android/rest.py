"""The phone's part of a loop that sleeps: the wake lock, the alarm that ends the sleep, and whether the radio is up."""

from __future__ import annotations

from typing import Any

from jnius import autoclass

from mobile_app.android.act import Act
from mobile_app.android.context import context, system_service
from mobile_app.android.power import WakeLock
from mobile_app.node.rest import Waiting


class PhoneSleep:
    """Holds the processor awake except inside `sleep`."""

    def __init__(self) -> None:
        self._lock = WakeLock()
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

    def close(self) -> None:
        self._lock.release()
