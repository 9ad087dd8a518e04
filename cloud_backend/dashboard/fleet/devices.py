"""Every device as the pages show it: what the roster knows, what the log holds, what the device said of itself.

Built once for all who look within a second, and kept: a look costs the active devices, however many are enrolled.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.device import Device, device
from cloud_backend.dashboard.fleet.listing import Listing
from cloud_backend.dashboard.fleet.phones import Contact, Logged, Phone, phones
from cloud_backend.dashboard.history.history import History
from cloud_backend.log.log import Log

FRESH_S = 0.8
EVERYBODY = 1000  # up to so many devices are all looked at each time
IN_TURN = 200  # of more, so many are looked at again although nothing came of them
LOCKED_FOR = 500  # devices


class Fleet:
    """Every device, kept: a look builds anew those of which something came or was said since the last one, those in
    contact, whose silence shows by time alone, and some of the others in turn. So a look at very many devices costs
    what the active ones do. With no more than `EVERYBODY` devices everything is built anew each time.

    Safe to share between threads.
    """

    def __init__(self, log: Log, history: History) -> None:
        self._log = log
        self._history = history
        self._lock = threading.Lock()
        self._built = float("-inf")
        self._entries: list[RosterEntry] = []
        self._devices: list[Device] = []
        self._places: dict[str, int] = {}
        self._in_contact: set[str] = set()
        self._turn = 0
        self.crowd = Crowd()  # of those that are not revoked
        self.listing = Listing()

    def devices(self, entries: Sequence[RosterEntry], now_us: int) -> list[Device]:
        """All of them, by name."""
        with self._lock:
            if time.monotonic() - self._built >= FRESH_S or len(entries) != len(self._devices):
                self._build(entries, now_us)
                self._built = time.monotonic()
            return self._devices

    def _build(self, entries: Sequence[RosterEntry], now_us: int) -> None:
        same_order = len(entries) == len(self._entries) and all(
            entry is former or entry.device == former.device
            for entry, former in zip(entries, self._entries, strict=True)
        )
        if same_order:
            places = {place for place, entry in enumerate(entries) if entry is not self._entries[place]}
            with self._history.lock:
                touched, self._history.touched = self._history.touched, set()
            places |= {self._places[device] for device in touched | self._in_contact if device in self._places}
            in_turn = len(entries) if len(entries) <= EVERYBODY else IN_TURN
            places |= {place % len(entries) for place in range(self._turn, self._turn + in_turn)}
            self._turn = (self._turn + in_turn) % max(1, len(entries))
            devices = list(self._devices)
        else:
            self.crowd, self.listing, self._in_contact, self._turn = Crowd(), Listing(), set(), 0
            self._places = {entry.device.hex(): place for place, entry in enumerate(entries)}
            places = set(range(len(entries)))
            devices = [_unknown(entry) for entry in entries]
        for some in _some_at_a_time(sorted(places)):
            with self._history.lock:
                for place in some:
                    devices[place] = self._look_at(entries[place], now_us)
        for place in places:
            self._note(devices[place])
        self._entries, self._devices = list(entries), devices

    def _look_at(self, entry: RosterEntry, now_us: int) -> Device:
        device_hex = entry.device.hex()
        contact = Contact(device_hex, entry.name, entry.seen_us, entry.status)
        totals = {
            incarnation: (decided - ledgered, ledgered)
            for incarnation in range(1, entry.incarnation + 1)
            for decided, ledgered in (self._log.totals_of(entry.device, incarnation),)
        }
        (phone,) = phones([contact], {device_hex: totals}, self._history.arrivals, now_us)
        return device(entry, phone, self._history.trails.last(device_hex))

    def _note(self, found: Device) -> None:
        self.listing.put(found)
        if found.phone.connected:
            self._in_contact.add(found.phone.id)
        else:
            self._in_contact.discard(found.phone.id)
        if found.revoked_us is None:
            self.crowd.put(found.phone)
        else:
            self.crowd.remove(found.phone.id)

    def forget(self) -> None:
        """Build anew at the next look: something was just changed."""
        self._built = float("-inf")


def _unknown(entry: RosterEntry) -> Device:
    nobody = Phone(entry.device.hex(), entry.name, "", False, None, 0, 0, 0, 0, 0, (), None)
    return device(entry, nobody, None)


def _some_at_a_time(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """So that whoever reads the log in between does not wait for all of them."""
    return (places[first : first + LOCKED_FOR] for first in range(0, len(places), LOCKED_FOR))


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
