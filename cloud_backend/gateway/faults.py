"""Exceptions that nobody expected: counted, logged once for each device and kind, and told by the health route.

Whatever a device sends, the worst it may get is a refusal. Should its bytes find a mistake of ours, its exchange is
refused and everybody else goes on; the operator learns which device it was and where the mistake is.
"""

from __future__ import annotations

import logging
import time

from cloud_backend.gateway.metrics import Metrics
from shared.identity import DeviceId

REPORTED_FOR_S = 600.0  # how long the health route speaks of one
KINDS_MAX = 1000  # (device, kind) pairs that are remembered as logged

_log = logging.getLogger("resurge.gateway")


class Faults:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: set[tuple[DeviceId | None, str]] = set()
        self._last_at: float | None = None

    def note(self, error: Exception, device: DeviceId | None, doing: str) -> None:
        """An exception that escaped while the gateway was doing this for this device."""
        self._metrics.faults.inc()
        self._last_at = time.monotonic()
        kind = (device, f"{doing} {type(error).__name__}")
        if kind in self._logged or len(self._logged) >= KINDS_MAX:
            return
        self._logged.add(kind)
        who = "a stranger" if device is None else f"device {device.hex()}"
        _log.error("%s failed for %s: %s", doing, who, type(error).__name__, exc_info=error)

    @property
    def is_recent(self) -> bool:
        return self._last_at is not None and time.monotonic() - self._last_at < REPORTED_FOR_S
