"""What the overview page says, as plain data: the same object the page, the stream and the JSON route show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from cloud_backend.dashboard.history.arrivals import SECOND_US, Arrivals
from shared.wire.status import DeviceStatus

Logged = Mapping[str, Mapping[int, tuple[int, int]]]  # device -> incarnation -> (delivered, ledgered)


@dataclass(frozen=True, slots=True)
class Contact:
    """What the roster knows of a device."""

    device: str  # hex of its id
    name: str
    last_seen_us: int | None = None  # its last exchange, on the gateway's clock
    status: DeviceStatus = DeviceStatus()  # noqa: RUF009 - frozen; the last one


@dataclass(frozen=True, slots=True)
class Account:
    """Every element has one disposition: produced = delivered + spooled + ledgered."""

    delivered: int = 0
    spooled: int = 0
    ledgered: int = 0
    duplicates: int = 0

    @property
    def produced(self) -> int:
        return self.delivered + self.spooled + self.ledgered

    def as_json(self) -> dict[str, int]:
        return {"produced": self.produced} | asdict(self)


@dataclass(frozen=True, slots=True)
class Phone:
    id: str
    name: str
    lane: str
    connected: bool
    since_us: int | None  # when contact was last had
    buffered: int  # what it reported as produced, less what has arrived
    unheard: int  # what it may have recorded since it was last heard, at its last rate
    delivered: int
    ledgered: int
    outage_count: int
    outages: Sequence[tuple[int, int | None]]
    last_receipt_us: int | None


def phones(contacts: Sequence[Contact], logged: Logged, arrivals: Arrivals, now_us: int) -> list[Phone]:
    """The devices by name. `logged` is the log's index, by device and incarnation."""
    return [_phone(contact, logged, arrivals, now_us) for contact in sorted(contacts, key=lambda known: known.name)]


def _phone(contact: Contact, logged: Logged, arrivals: Arrivals, now_us: int) -> Phone:
    seen = arrivals.contact(contact.device, contact.last_seen_us, contact.status.poll_s)
    times = [time for time in (contact.last_seen_us, seen.last_us) if time is not None]
    since = max(times, default=None)
    connected = since is not None and now_us - since <= seen.gap_us_max()
    outages: list[tuple[int, int | None]] = list(seen.outages)
    if since is not None and not connected:
        outages.append((since, None))
    incarnations = logged.get(contact.device, {})
    # Numbers start over with an incarnation; what an earlier one left behind went with its spool.
    arrived = sum(incarnations.get(contact.status.incarnation, (0, 0)))
    return Phone(
        id=contact.device,
        name=contact.name,
        lane=contact.status.lane,
        connected=connected,
        since_us=since,
        buffered=max((contact.status.produced or 0) - arrived, 0),
        unheard=0 if connected or since is None else round(seen.rate() * (now_us - since) / SECOND_US),
        delivered=sum(delivered for delivered, _ in incarnations.values()),
        ledgered=sum(ledgered for _, ledgered in incarnations.values()),
        outage_count=seen.outage_count + (since is not None and not connected),
        outages=outages,
        last_receipt_us=seen.last_us,
    )
