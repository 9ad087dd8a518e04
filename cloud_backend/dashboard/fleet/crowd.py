"""What is said of all devices together, kept as they change: a page of a hundred thousand costs what changed.

Counts and sums follow each device that is replaced by a newer look at it. Of names and of those who need somebody most
there are lists in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import RLock

from cloud_backend.dashboard.fleet.ordered import Ordered
from cloud_backend.dashboard.fleet.phones import Account, Phone

Concern = tuple[bool, int, int, str, str]


class Crowd:
    """Safe to share between threads."""

    def __init__(self, devices: Iterable[Phone] = ()) -> None:
        self._lock = RLock()
        self._phones: dict[str, Phone] = {}
        self._concerns = Ordered[Concern]()
        self._offline = Ordered[tuple[str, str]]()  # name and id
        self._unseen = Ordered[tuple[str, str]]()
        self._delivered = self._spooled = self._ledgered = self.unheard = 0
        for phone in devices:
            self.put(phone)

    def __len__(self) -> int:
        return len(self._phones)

    @property
    def connected(self) -> int:
        return len(self._phones) - len(self._offline) - len(self._unseen)

    @property
    def offline(self) -> int:
        """Heard once, and silent now."""
        return len(self._offline)

    @property
    def unseen(self) -> int:
        """Paired and never heard: nobody knows whether they are there."""
        return len(self._unseen)

    @property
    def account(self) -> Account:
        return Account(delivered=self._delivered, spooled=self._spooled, ledgered=self._ledgered)

    def first_offline(self, count: int) -> list[str]:
        """The names of some of them, by name."""
        with self._lock:
            return [name for name, _ in self._offline.entries()[:count]]

    def first_unseen(self, count: int) -> list[str]:
        with self._lock:
            return [name for name, _ in self._unseen.entries()[:count]]

    def concerning(self, count: int) -> Sequence[Phone]:
        """Those come first that somebody may have to do something about; by name if they are no more than asked for."""
        with self._lock:
            if len(self._phones) <= count:
                return sorted(self._phones.values(), key=lambda phone: phone.name)
            return [self._phones[concern[-1]] for concern in self._concerns.entries()[:count]]

    def put(self, phone: Phone) -> None:
        """Say this of a device, in place of what was said before."""
        with self._lock:
            if self._phones.get(phone.id) == phone:
                return
            self.remove(phone.id)
            self._phones[phone.id] = phone
            self._concerns.put(_concern(phone))
            if not phone.connected:
                self._silent(phone).put((phone.name, phone.id))
            self._count(phone, 1)

    def remove(self, device: str) -> None:
        """Also one that is not there."""
        with self._lock:
            former = self._phones.pop(device, None)
            if former is None:
                return
            self._concerns.drop(_concern(former))
            if not former.connected:
                self._silent(former).drop((former.name, former.id))
            self._count(former, -1)

    def _silent(self, phone: Phone) -> Ordered[tuple[str, str]]:
        return self._unseen if phone.since_us is None else self._offline

    def _count(self, phone: Phone, sign: int) -> None:
        self._delivered += sign * phone.delivered
        self._spooled += sign * phone.buffered
        self._ledgered += sign * phone.ledgered
        self.unheard += sign * phone.unheard


def _concern(phone: Phone) -> Concern:
    return phone.connected, -phone.ledgered, -phone.buffered, phone.name, phone.id
