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


def account(devices: Sequence[Phone]) -> Account:
    """Duplicates are 0 by construction here: the log's index refuses a range that is already decided."""
    return Account(
        delivered=sum(phone.delivered for phone in devices),
        spooled=sum(phone.buffered for phone in devices),
        ledgered=sum(phone.ledgered for phone in devices),
    )


def headline(devices: Sequence[Phone], total: Account, quarantined: int = 0, alerts: int = 0) -> tuple[str, str]:
    """Is everything all right, and if not, what: a sentence, and one that explains it. `quarantined` elements were
    delivered, and Spark could not use them; `alerts` are open beside what is said of contact."""
    offline = [phone.name for phone in devices if not phone.connected]
    if not devices:
        return "No phone is paired yet", "Everything is ready for the first one."
    if offline:
        first = f"{_listed(offline)} {'is' if len(offline) == 1 else 'are'} offline"
    else:
        first = _all_connected(devices)
    if alerts:
        first += f"{' and' if offline else ', but'} {'an alert is' if alerts == 1 else f'{alerts} alerts are'} open"
    if total.ledgered:
        second = f"{total.ledgered:,} readings had to be given up; the ledger says which and why."
    elif quarantined:
        second = f"Nothing is lost, but Spark could not use {quarantined:,} readings; the ledger says which and why."
    elif offline:
        second = _known_of_silent(total.spooled, sum(phone.unheard for phone in devices))
    elif total.spooled:
        second = f"Nothing is lost: {total.spooled:,} readings wait on the phones, everything else is in the log."
    else:
        second = "Nothing is lost: every reading is in the log."
    return first, second


def _all_connected(devices: Sequence[Phone]) -> str:
    if len(devices) == 1:
        return f"{devices[0].name} is connected"
    return f"{'Both' if len(devices) == 2 else f'All {len(devices)}'} phones are connected"


def _known_of_silent(spooled: int, unheard: int) -> str:
    """Nobody knows what a silent phone does. What is known is what it held when it was last heard."""
    if spooled:
        held = f"When last heard, the phones held {spooled:,} readings; everything else is in the log."
    else:
        held = "When last heard, the phones had delivered every reading."
    return f"{held} If they go on, they hold about {unheard:,} more by now." if unheard else held


def _listed(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
