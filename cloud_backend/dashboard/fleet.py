"""Every device as the pages show it: what the roster knows, what the log holds, what the device said of itself.

Built once for all who look within a second: a thousand devices cost some tens of milliseconds, a page must not.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.arrivals import Arrivals
from cloud_backend.dashboard.history import History
from cloud_backend.dashboard.overview import Contact, Logged, Phone, phones
from cloud_backend.dashboard.trails import Point
from cloud_backend.log.log import Log

FRESH_S = 0.8


@dataclass(frozen=True, slots=True)
class Device:
    """A row of the devices page: a phone's standing, and what it said of itself."""

    phone: Phone
    incarnation: int
    enrolled_us: int
    revoked_us: int | None
    battery: float | None  # 0 to 1
    charging: bool | None
    spool_bytes: int | None
    spool_capacity: int | None
    full_in_s: float | None
    version: str
    plan: int | None
    refusal: str
    missing_sensors: Sequence[str]
    position: Point | None

    @property
    def state(self) -> str:
        if self.revoked_us is not None:
            return "revoked"
        if self.phone.since_us is None:
            return "new"
        return "connected" if self.phone.connected else "offline"

    @property
    def spool_share(self) -> float | None:
        if not self.spool_capacity or self.spool_bytes is None:
            return None
        return min(self.spool_bytes / self.spool_capacity, 1.0)


def device(entry: RosterEntry, phone: Phone, position: Point | None) -> Device:
    said = entry.status
    battery = _battery(said)
    return Device(
        phone=phone, incarnation=entry.incarnation, enrolled_us=entry.enrolled_us, revoked_us=entry.revoked_us,
        battery=battery[0], charging=battery[1], spool_bytes=_count(said.get("spool_bytes")),
        spool_capacity=_count(said.get("spool_capacity_bytes")), full_in_s=_seconds(said.get("full_in_s")),
        version=_text(said.get("version")), plan=_count(said.get("plan")), refusal=_text(said.get("refusal"), 200),
        missing_sensors=_texts(said.get("missing_sensors")), position=position,
    )  # fmt: skip


class Fleet:
    """Safe to share between threads."""

    def __init__(self, log: Log, history: History) -> None:
        self._log = log
        self._history = history
        self._lock = threading.Lock()
        self._built = float("-inf")
        self._devices: list[Device] = []

    def devices(self, entries: Sequence[RosterEntry], now_us: int) -> list[Device]:
        """All of them, by name."""
        with self._lock:
            if time.monotonic() - self._built < FRESH_S and len(entries) == len(self._devices):
                return self._devices
            contacts = [Contact(each.device.hex(), each.name, each.seen_us, each.status) for each in entries]
            with self._history.lock:
                standing = {each.id: each for each in phones(contacts, logged(self._log), self._arrivals, now_us)}
                positions = {each.device: self._history.trails.last(each.device) for each in contacts}
            self._devices = [
                device(entry, standing[entry.device.hex()], positions[entry.device.hex()]) for entry in entries
            ]
            self._built = time.monotonic()
            return self._devices

    def forget(self) -> None:
        """Build anew at the next look: something was just changed."""
        self._built = float("-inf")

    @property
    def _arrivals(self) -> Arrivals:
        return self._history.arrivals


def logged(log: Log) -> Logged:
    """Delivered and ledgered elements by device and incarnation, from the log's index."""
    totals: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for key, state in log.edges():
        incarnations = totals[key.device.hex()]
        delivered, ledgered = incarnations.get(key.incarnation, (0, 0))
        incarnations[key.incarnation] = (
            delivered + state.high_water - state.ledgered,
            ledgered + state.ledgered,
        )
    return totals


def _battery(said: Mapping[str, object]) -> tuple[float | None, bool | None]:
    """Either form a device may say it in: {"level": 0..1, "charging": bool}, or a percentage."""
    value, charging = said.get("battery"), said.get("charging")
    if isinstance(value, Mapping):
        value, charging = value.get("level"), value.get("charging")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return None, None
    return (value / 100 if value > 1 else float(value)), charging if isinstance(charging, bool) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _seconds(value: object) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e10 else None
    )


def _text(value: object, characters: int = 40) -> str:
    return value[:characters] if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [_text(each) for each in value[:20] if isinstance(each, str)] if isinstance(value, list) else []
