"""Every device as the pages show it: what the roster knows, what the log holds, what the device said of itself.

Built once for all who look within a second: a thousand devices cost some tens of milliseconds, a page must not.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.fleet.phones import Contact, Logged, Phone, phones
from cloud_backend.dashboard.history.arrivals import SECOND_US, Arrivals
from cloud_backend.dashboard.history.history import History
from cloud_backend.dashboard.history.trails import Point
from cloud_backend.log.log import Log
from shared.spool.advice import Advice, advice_of
from shared.wire.status import NO_PLAN, DeviceStatus

FRESH_S = 0.8
NEARLY_FULL = 0.8  # of a spool
ALL_STREAMS = "all streams"  # a status says how fast they fill the spool together


@dataclass(frozen=True, slots=True)
class Device:
    """A row of the devices page: how a phone does, and what it reported of itself."""

    phone: Phone
    incarnation: int
    enrolled_us: int
    revoked_us: int | None
    status: DeviceStatus
    position: Point | None

    @property
    def battery(self) -> float | None:
        """0 to 1."""
        return None if self.status.battery is None else self.status.battery / 100

    @property
    def plan(self) -> int | None:
        return None if self.status.plan == NO_PLAN else self.status.plan

    @property
    def state(self) -> str:
        if self.revoked_us is not None:
            return "revoked"
        if self.phone.since_us is None:
            return "new"
        return "connected" if self.phone.connected else "offline"

    @property
    def is_in_contact(self) -> bool:
        return self.state == "connected"

    @property
    def spool_share(self) -> float | None:
        held, room = self.status.spool_bytes, self.status.spool_capacity_bytes
        return min(held / room, 1.0) if held is not None and room else None

    def overwrites_in_s(self, now_us: int) -> float | None:
        """Until it has to give readings up, as far as is known; 0 where it may do so already, None where it will not.

        A device says how long its room lasts if nothing leaves it. In contact something does: then it only matters
        where the room is nearly gone all the same, or lasts no longer than until its next exchange.
        """
        room_s, since_us = self.status.full_in_s, self.phone.since_us
        if room_s is None or since_us is None:
            return None
        if not self.is_in_contact:
            return max(0.0, room_s - max(0, now_us - since_us) / SECOND_US)
        full = self.spool_share is not None and self.spool_share >= NEARLY_FULL
        return room_s if full or room_s <= (self.status.poll_s or 0.0) else None

    @property
    def advice(self) -> Advice | None:
        """How large its spool should be; None where it has not measured that."""
        said, room = self.status.advice, self.status.spool_capacity_bytes
        if said is None or room is None:
            return None
        return advice_of({ALL_STREAMS: said.bytes_per_s}, room, said.outages, said.p95_s, said.p99_s)


def device(entry: RosterEntry, phone: Phone, position: Point | None) -> Device:
    return Device(
        phone=phone, incarnation=entry.incarnation, enrolled_us=entry.enrolled_us, revoked_us=entry.revoked_us,
        status=entry.status, position=position,
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
                known = {each.id: each for each in phones(contacts, logged(self._log), self._arrivals, now_us)}
                positions = {each.device: self._history.trails.last(each.device) for each in contacts}
            self._devices = [
                device(entry, known[entry.device.hex()], positions[entry.device.hex()]) for entry in entries
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
