"""The devices as the devices page lists them, by kind and by name, kept as they change.

Each kind has its devices in order, so a page of a list costs its rows, and a search one look through a text of
all names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock

import numpy as np

from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.ordered import Ordered
from cloud_backend.dashboard.fleet.overwriting import Overwriting
from cloud_backend.dashboard.history.edges import HOUR_US

SHOWN = {
    "all": "All devices",
    "offline": "Offline",
    "new": "Not seen yet",
    "connected": "Connected",
    "waiting": "With buffered readings",
    "ledgered": "With ledger entries",
    "revoked": "Revoked",
}
LOCATED, COORDINATING = "located", "coordinating"  # no lists of their own on the page: whether there is any
SILENT, LOW_POWER = "silent", "low power"  # what needs attention: heard once and not now; with little battery left
BATTERY_LOW = 0.15
_HEXADECIMAL = frozenset("0123456789abcdef")
Place = tuple[str, str]  # name and id
Listed = tuple[str, str, str]  # name and id, and the name as it is searched


@dataclass(frozen=True, slots=True)
class App:
    """What decides whether a device gets a program: those of a group with the same operator types and version."""

    operators: tuple[str, ...] | None
    plan: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class InGroup:
    name: str


Kind = str | App | InGroup
Sender = tuple[int, str, str]  # the hour it has come to, its name and id


class Names:
    """The names of a list as one text: looking through that takes a thirtieth of looking at each."""

    def __init__(self, listed: Ordered[Listed]) -> None:
        self.changes = listed.changes
        names = [place[2].replace("\n", " ") for place in listed.entries()]
        self._text = "\n".join(names)
        self._starts = np.cumsum([0, *(len(name) + 1 for name in names)])

    def having(self, words: str) -> set[int]:
        """The numbers in the list of those in which these words are."""
        if "\n" in words:
            return set()
        places = [found.start() for found in re.finditer(re.escape(words), self._text)]
        return {*(np.searchsorted(self._starts, places, side="right") - 1).tolist()}


class Listing:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._devices: dict[str, Device] = {}
        self._kinds: dict[str, tuple[str, frozenset[Kind]]] = {}  # by id: its name and the lists it is in
        self._lists: defaultdict[Kind, Ordered[Listed]] = defaultdict(Ordered)
        self._names: dict[Kind, Names] = {}
        self._senders: defaultdict[int, Ordered[Sender]] = defaultdict(Ordered)  # by stream
        self._sends: dict[str, frozenset[tuple[int, Sender]]] = {}  # by id: the streams it is in
        self._heard_us: dict[str, int] = {}
        self._heard = Ordered[tuple[int, str]]()  # when, and id, of those not revoked
        self._held = self._unheard = 0  # by those that are silent
        self.ledgered = 0  # elements of those that are not revoked
        self.overwriting = Overwriting()

    def put(self, device: Device) -> None:
        """List a device as it is now."""
        name, kinds = device.phone.name, kinds_of(device)
        with self._lock:
            former_name, former = self._kinds.get(device.phone.id, ("", frozenset[Kind]()))
            self._count(device.phone.id, -1)
            for kind in former if former_name != name else former - kinds:
                self._lists[kind].drop(_listed(former_name, device.phone.id))
            for kind in kinds if former_name != name else kinds - former:
                self._lists[kind].put(_listed(name, device.phone.id))
            self._kinds[device.phone.id] = name, kinds
            self._devices[device.phone.id] = device
            self._count(device.phone.id, 1)
            self.overwriting.put(device)

    def _count(self, id: str, sign: int) -> None:
        kinds = self._kinds.get(id, ("", ()))[1]
        if "ledgered" in kinds:
            self.ledgered += sign * self._devices[id].phone.ledgered
        if SILENT in kinds:
            self._held += sign * self._devices[id].phone.buffered
            self._unheard += sign * self._devices[id].phone.unheard

    def put_sender(self, device: Device, seen_us: int | None, frontiers_us: Mapping[int, int]) -> None:
        """Which streams a listed device brings, each with how far it came, and when it was last heard."""
        id = device.phone.id
        if device.state == "revoked":
            seen_us, frontiers_us = None, {}
        sends = frozenset(
            (number, (frontier_us // HOUR_US, device.phone.name, id)) for number, frontier_us in frontiers_us.items()
        )
        with self._lock:
            former = self._sends.get(id, frozenset())
            for number, sender in former - sends:
                self._senders[number].drop(sender)
            for number, sender in sends - former:
                self._senders[number].put(sender)
            self._sends[id] = sends
            heard = self._heard_us.get(id)
            if heard == seen_us:
                return
            if heard is not None:
                self._heard.drop((heard, id))
                del self._heard_us[id]
            if seen_us is not None:
                self._heard_us[id] = seen_us
                self._heard.put((seen_us, id))

    def senders(self, number: int) -> Sequence[Sender]:
        """The enrolled devices that brought something of this stream, the one furthest behind first."""
        with self._lock:
            return self._senders[number].entries() if number in self._senders else ()

    def is_sender(self, device: str, number: int) -> bool:
        return any(each == number for each, _ in self._sends.get(device, ()))

    def heard_before(self, at_us: int) -> Iterator[tuple[int, Device]]:
        """Those enrolled that were last heard before that, the last heard first; and when."""
        with self._lock:
            place = bisect_left(self._heard.entries(), (at_us, ""))
        while place > 0:
            place -= 1
            with self._lock:
                heard = self._heard.entries()[place] if place < len(self._heard) else None
            if heard is not None:
                yield heard[0], self._devices[heard[1]]

    def silent(self) -> tuple[int, int]:
        """What those held that are not heard now, and what they may have recorded since."""
        return self._held, self._unheard

    def apps(self) -> list[App]:
        with self._lock:
            return [kind for kind, entries in self._lists.items() if isinstance(kind, App) and entries]

    def count(self, kind: Kind) -> int:
        with self._lock:
            return len(self._lists[kind])

    def first(self, kind: Kind, count: int) -> list[Place]:
        """The names and ids of some of them, by name."""
        with self._lock:
            return [place[:2] for place in self._lists[kind].entries()[:count]]

    def find(self, device: str) -> Device | None:
        return self._devices.get(device)

    def everybody(self) -> list[Device]:
        """Also those that are revoked, by name."""
        with self._lock:
            return self.devices(sorted(self._lists["all"].entries() + self._lists["revoked"].entries()))

    def of_kind(self, kind: Kind) -> list[Device]:
        with self._lock:
            return self.devices(self._lists[kind].entries())

    def counts(self) -> dict[str, int]:
        return {kind: self.count(kind) for kind in SHOWN}

    def has(self, kind: str) -> bool:
        return self.count(kind) > 0

    def matching(self, kind: str, query: str, group: str = "") -> Sequence[Listed]:
        """Those of a kind whose name has these words in it, or whose id begins so, by name; or those of a group."""
        words = query.casefold()
        with self._lock:
            if group:
                own = self._lists[InGroup(group)].entries()
                members = [place for place in own if kind in self._kinds[place[1]][1]]
                return [place for place in members if words in place[2] or place[1].startswith(words)]
            listed = self._lists[kind].entries()
            if not words:
                return list(listed)
            found = self._names_of(kind).having(words)
            if _HEXADECIMAL.issuperset(words):
                found |= {number for number, place in enumerate(listed) if place[1].startswith(words)}
            return [listed[number] for number in sorted(found)]

    def _names_of(self, kind: Kind) -> Names:
        known = self._names.get(kind)
        if known is None or known.changes != self._lists[kind].changes:
            known = self._names[kind] = Names(self._lists[kind])
        return known

    def devices(self, places: Sequence[Listed]) -> list[Device]:
        return [self._devices[place[1]] for place in places]


def _listed(name: str, device: str) -> Listed:
    searched = name.casefold()
    return name, device, name if searched == name else searched  # mostly the same text, once


def kinds_of(device: Device) -> frozenset[Kind]:
    """The lists that a device is in. One that was revoked is only in the list of those."""
    if device.state == "revoked":
        return frozenset({"revoked"})
    holds = {
        "offline": device.state == "offline",
        "new": device.state == "new",
        "connected": device.state == "connected",
        "waiting": device.phone.buffered > 0,
        "ledgered": device.phone.ledgered > 0,
        LOCATED: device.position is not None,
        COORDINATING: device.status.fleet is not None,
        SILENT: device.state == "offline",
        LOW_POWER: device.battery is not None and device.battery < BATTERY_LOW and not device.status.charging,
    }
    app = App(device.status.operators, device.status.plan, device.group)
    groups = {InGroup(device.group)} if device.group else set()
    return frozenset({"all", app, *groups, *(kind for kind, is_one in holds.items() if is_one)})
