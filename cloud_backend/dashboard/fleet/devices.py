"""Every device as the pages show it: what the roster knows, what the log holds, what the device said of itself.

Built once for all who look within a second, and kept: a look costs the active devices, however many are enrolled.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from cloud_backend.coordinator.roster import Roster, RosterEntry
from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.device import Device, device
from cloud_backend.dashboard.fleet.listing import Listing
from cloud_backend.dashboard.fleet.phones import Contact, Logged, phones
from cloud_backend.dashboard.history.history import History
from cloud_backend.gateway.live_readings import LiveReadings
from cloud_backend.log.log import Log
from shared.identity import edge_id
from shared.wire.live import LiveReading

FRESH_S = 0.8
EVERYBODY = 1000  # up to so many devices are all looked at each time
IN_TURN = 100  # of more, so many are looked at again although nothing came of them
LOCKED_FOR = 500  # devices


class Fleet:
    """Every device, kept: a look builds anew those of which something came or was said since the last one, those in
    contact, whose silence shows by time alone, and some of the others in turn. So a look at very many devices costs
    what the active ones do. With no more than `EVERYBODY` devices everything is built anew each time.

    Safe to share between threads.
    """

    def __init__(self, log: Log, history: History, live: LiveReadings | None = None) -> None:
        self._log = log
        self._history = history
        self._live = live or LiveReadings()
        self._lock = threading.Lock()
        self._built = float("-inf")
        self._known = 0  # the roster's last change that is taken in
        self._entries: dict[str, RosterEntry] = {}
        self._in_contact: set[str] = set()
        self._waiting: deque[str] = deque()  # whose turn is next
        self.crowd = Crowd()  # of those that are not revoked
        self.listing = Listing()

    def look(self, roster: Roster, now_us: int) -> None:
        """Take in what is new, if that was not just done; somebody who was just enrolled at once."""
        with self._lock:
            if time.monotonic() - self._built >= FRESH_S or len(roster) != len(self._entries):
                self._build(roster, now_us)
                self._built = time.monotonic()

    def devices(self) -> list[Device]:
        """All of them as of the last look, by name: for what shows all of them."""
        return self.listing.everybody()

    def in_contact(self) -> list[Device]:
        """Those that are heard now and not revoked."""
        with self._lock:
            found = [self.listing.find(device) for device in self._in_contact]
        return [each for each in found if each is not None and each.is_in_contact]

    def is_current(self, device: str, incarnation: int) -> bool:
        """Whether this is a device that is enrolled, as it is installed now."""
        found = self.listing.find(device)
        return found is not None and found.incarnation == incarnation and found.revoked_us is None

    def _build(self, roster: Roster, now_us: int) -> None:
        self._known, changed = roster.changed(self._known)
        wanted: set[str] = set()
        for entry in changed:
            id = entry.device.hex()
            if id not in self._entries:
                self._waiting.append(id)
            self._entries[id] = entry
            wanted.add(id)
        with self._history.lock:
            touched, self._history.touched = self._history.touched, set()
        wanted |= {id for id in touched | self._in_contact if id in self._entries}
        in_turn = len(self._waiting) if len(self._waiting) <= EVERYBODY else IN_TURN
        wanted |= {self._waiting[place] for place in range(in_turn)}
        self._waiting.rotate(-in_turn)
        for some in _some_at_a_time(sorted(wanted)):
            found = []
            with self._history.lock:
                for id in some:
                    entry = self._entries[id]
                    found.append((entry, self._look_at(entry, now_us), self._frontiers_us(entry)))
            for entry, looked_at, frontiers_us in found:
                self._note(looked_at)
                self.listing.put_sender(looked_at, entry.seen_us, frontiers_us)

    def _frontiers_us(self, entry: RosterEntry) -> dict[int, int]:
        """How far each stream of this installation has come."""
        edges = self._history.streams.edges_of(entry.device.hex())
        return {
            number: known.frontier_us for (_, incarnation, number), known in edges if incarnation == entry.incarnation
        }

    def _look_at(self, entry: RosterEntry, now_us: int) -> Device:
        device_hex = entry.device.hex()
        contact = Contact(device_hex, entry.name, entry.seen_us, entry.status)
        totals = {
            incarnation: (decided - ledgered, ledgered)
            for incarnation in range(1, entry.incarnation + 1)
            for decided, ledgered in (self._log.totals_of(entry.device, incarnation),)
        }
        (phone,) = phones([contact], {device_hex: totals}, self._history.arrivals, now_us)
        return device(entry, phone, self._history.trails.last(device_hex), self._ahead(entry, now_us))

    def _ahead(self, entry: RosterEntry, now_us: int) -> tuple[LiveReading, ...]:
        """Of what the device said is newest, that to which the log has not come yet."""
        readings = self._live.of(entry.device, now_us)
        reached = self._frontiers_us(entry) if readings else {}
        return tuple(each for each in readings if each.time_us > reached.get(edge_id(each.stream), each.time_us - 1))

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


def _some_at_a_time(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """So that whoever reads the log in between does not wait for all of them."""
    return (ids[first : first + LOCKED_FOR] for first in range(0, len(ids), LOCKED_FOR))


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
