"""Keeping the processor awake while the screen is off, hearing what is broadcast, and asking not to be stopped for
saving battery."""

from __future__ import annotations

from typing import Any

from jnius import autoclass

from mobile_app.android.context import context, system_service

PARTIAL_WAKE_LOCK = 1  # PowerManager.PARTIAL_WAKE_LOCK: the processor runs, the screen does not


class WakeLock:
    """Held from the start on, except while the loop sleeps. Android releases it when the process dies."""

    def __init__(self) -> None:
        manager = system_service("power", "android.os.PowerManager")
        self._lock: Any = manager.newWakeLock(PARTIAL_WAKE_LOCK, "resurge:recording")
        self._lock.setReferenceCounted(False)
        self.acquire()

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        if self._lock.isHeld():
            self._lock.release()


class MulticastLock:
    """While it is held the phone's Wi-Fi hears broadcasts and multicasts, which it drops otherwise to save power."""

    def __init__(self) -> None:
        manager = system_service("wifi", "android.net.wifi.WifiManager")
        self._lock: Any = manager.createMulticastLock("resurge:region")
        self._lock.setReferenceCounted(False)

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        if self._lock.isHeld():
            self._lock.release()


def exempt_from_saving() -> bool:
    """Whether the person allowed us to run on while the phone saves battery."""
    manager = system_service("power", "android.os.PowerManager")
    return bool(manager.isIgnoringBatteryOptimizations(context().getPackageName()))


def ask_for_exemption() -> None:
    """Show Android's own question. The answer is seen by asking `exempt_from_saving` again."""
    settings, intent, uri = (
        autoclass(name) for name in ("android.provider.Settings", "android.content.Intent", "android.net.Uri")
    )
    asking = intent(settings.ACTION_REQUEST_IGNORE_BATTERY_OPTIMIZATIONS)
    asking.setData(uri.parse(f"package:{context().getPackageName()}"))
    context().startActivity(asking)
