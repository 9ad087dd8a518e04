"""The devices as the devices page lists them, by kind and by name, kept as they change.

Each kind has its devices in order, so a page of a list costs its rows, and a search one look at the names.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from threading import RLock

from cloud_backend.dashboard.fleet.device import Device

SHOWN = {
    "all": "All devices",
    "offline": "Offline",
    "connected": "Connected",
    "waiting": "With buffered readings",
    "ledgered": "With ledger entries",
    "revoked": "Revoked",
}
LOCATED, COORDINATING = "located", "coordinating"  # no lists of their own on the page: whether there is any
Place = tuple[str, str]  # name and id


class Listing:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._devices: dict[str, Device] = {}
        self._kinds: dict[str, tuple[str, frozenset[str]]] = {}  # by id: its name and the lists it is in
        self._lists: dict[str, list[Place]] = {kind: [] for kind in (*SHOWN, LOCATED, COORDINATING)}

    def put(self, device: Device) -> None:
        """List a device as it is now."""
        name, kinds = device.phone.name, kinds_of(device)
        with self._lock:
            former_name, former = self._kinds.get(device.phone.id, ("", frozenset[str]()))
            for kind in former if former_name != name else former - kinds:
                entries = self._lists[kind]
                del entries[bisect_left(entries, (former_name, device.phone.id))]
            for kind in kinds if former_name != name else kinds - former:
                insort(self._lists[kind], (name, device.phone.id))
            self._kinds[device.phone.id] = name, kinds
            self._devices[device.phone.id] = device

    def find(self, device: str) -> Device | None:
        return self._devices.get(device)

    def counts(self) -> dict[str, int]:
        return {kind: len(self._lists[kind]) for kind in SHOWN}

    def has(self, kind: str) -> bool:
        return bool(self._lists[kind])

    def matching(self, kind: str, query: str) -> Sequence[Place]:
        """Those of a kind whose name has these words in it, or whose id begins so, by name."""
        words = query.casefold()
        with self._lock:
            listed = self._lists[kind]
            if not words:
                return list(listed)
            return [place for place in listed if words in place[0].casefold() or place[1].startswith(words)]

    def devices(self, places: Sequence[Place]) -> list[Device]:
        return [self._devices[device] for _, device in places]


def kinds_of(device: Device) -> frozenset[str]:
    """The lists that a device is in. One that was revoked is only in the list of those."""
    if device.state == "revoked":
        return frozenset({"revoked"})
    holds = {
        "offline": device.state in ("offline", "new"),
        "connected": device.state == "connected",
        "waiting": device.phone.buffered > 0,
        "ledgered": device.phone.ledgered > 0,
        LOCATED: device.position is not None,
        COORDINATING: device.status.fleet is not None,
    }
    return frozenset({"all", *(kind for kind, is_one in holds.items() if is_one)})
