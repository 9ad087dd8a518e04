"""The newest readings of devices that catch up, as they last said: in memory, for pages, and forgotten soon.

A device says with each STATUS what is newest of its streams that are behind; nothing once none is. One that falls
silent while it catches up is shown so for some minutes: then its newest reading is no longer what happens now.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from shared.identity import DeviceId
from shared.wire.live import LiveReading

KEPT_US = 600 * 1_000_000
DEVICES_MAX = 4096  # those heard last


class LiveReadings:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: dict[DeviceId, tuple[int, tuple[LiveReading, ...]]] = {}  # the one heard last at the end

    def heard(self, device: DeviceId, readings: tuple[LiveReading, ...], now_us: int) -> None:
        """What a device said last counts, also that there is nothing."""
        with self._lock:
            self._heard.pop(device, None)
            if readings:
                self._heard[device] = (now_us, readings)
                if len(self._heard) > DEVICES_MAX:
                    del self._heard[next(iter(self._heard))]

    def of(self, device: DeviceId, now_us: int) -> tuple[LiveReading, ...]:
        with self._lock:
            heard_us, readings = self._heard.get(device, (now_us, ()))
            if now_us - heard_us > KEPT_US:
                del self._heard[device]
                return ()
            return readings

    def forget(self, devices: Iterable[DeviceId]) -> None:
        with self._lock:
            for device in devices:
                self._heard.pop(device, None)
