"""What the overview page says, as plain data: the same object the page, the stream and the JSON route show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from cloud_backend.dashboard.arrivals import SECOND_US, Arrivals

Logged = Mapping[str, Mapping[int, tuple[int, int]]]  # device -> incarnation -> (delivered, ledgered)


@dataclass(frozen=True, slots=True)
class Contact:
    """What the roster knows of a device."""

    device: str  # hex of its id
    name: str
    last_seen_us: int | None = None  # its last exchange, on the gateway's clock
    status: Mapping[str, object] = field(default_factory=dict)  # its last STATUS frame


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
    buffered: int  # what it said it produced, less what has arrived
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
    seen = arrivals.device(contact.device)
    times = [time for time in (contact.last_seen_us, seen.last_us) if time is not None]
    since = max(times, default=None)
    connected = since is not None and now_us - since <= seen.gap_us_max()
    outages: list[tuple[int, int | None]] = list(seen.outages)
    if since is not None and not connected:
        outages.append((since, None))
    incarnations = logged.get(contact.device, {})
    # Numbers start over with an incarnation; what an earlier one left behind went with its spool.
    arrived = sum(incarnations.get(_count(contact.status, "incarnation"), (0, 0)))
    return Phone(
        id=contact.device,
        name=contact.name,
        lane=_text(contact.status, "lane", "gateway"),
        connected=connected,
        since_us=since,
        buffered=max(_count(contact.status, "produced") - arrived, 0),
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


def headline(devices: Sequence[Phone], total: Account, quarantined: int = 0) -> tuple[str, str]:
    """Is everything all right, and if not, what: a sentence, and one that explains it. `quarantined` elements were
    delivered, and Spark could not use them."""
    offline = [phone.name for phone in devices if not phone.connected]
    if not devices:
        return "No phone is paired yet", "Everything is ready for the first one."
    if offline:
        first = f"{_listed(offline)} {'is' if len(offline) == 1 else 'are'} offline, recording on"
    else:
        first = f"All {len(devices)} phones are connected" if len(devices) > 1 else f"{devices[0].name} is connected"
    if total.ledgered:
        second = f"{total.ledgered:,} readings had to be given up; the ledger says which and why."
    elif quarantined:
        second = f"Nothing is lost, but Spark could not use {quarantined:,} readings; the ledger says which and why."
    elif unheard := sum(phone.unheard for phone in devices):
        waiting = total.spooled + unheard
        second = f"Nothing is lost: about {waiting:,} readings wait on the phones, everything else is in the log."
    elif total.spooled:
        second = f"Nothing is lost: {total.spooled:,} readings wait on the phones, everything else is in the log."
    else:
        second = "Nothing is lost: every reading is in the log."
    return first, second


def _listed(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _count(status: Mapping[str, object], name: str) -> int:
    """A device may say anything in its status; a page shows only what makes sense."""
    value = status.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _text(status: Mapping[str, object], name: str, otherwise: str) -> str:
    value = status.get(name, otherwise)
    return value[:40] if isinstance(value, str) and value else otherwise
