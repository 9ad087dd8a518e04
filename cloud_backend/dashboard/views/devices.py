"""Devices: who they are, how they do, where they were; and pairing, renaming, configuring, revoking, deleting."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import segno

from cloud_backend.coordinator.roster import CODE_LIFETIME_US, RosterEntry
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.places import shown, trail_shown
from cloud_backend.gateway.address import read_address
from shared.errors import UsageError
from shared.identity import DeviceId
from shared.wire.enrolment import NAME_CHARACTERS_MAX, EnrolmentLink, comparison_digits

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
STATUS_VALUES_MAX = 40
STATUS_TEXT_MAX = 200
RATE_MIN, RATE_MAX = 0.1, 1.0
NOTE_CHARACTERS_MAX = 500


def devices(sources: Sources, *, exact: bool) -> list[dict[str, Any]]:
    """Every device ever enrolled, by name. `exact`: positions as they are, else on a kilometre's grid."""
    totals = _totals(sources)
    settings = sources.roster.settings()
    deletions = {each.device for each in sources.roster.deletions()}
    return [
        _summary(sources, entry, totals, settings.get(entry.device, {}), entry.device in deletions, exact=exact)
        for entry in sources.roster.entries()
    ]


def device(sources: Sources, device_hex: str, *, exact: bool) -> dict[str, Any]:
    """One device with its edges and its trail."""
    entry = find(sources, device_hex)
    deletion = next((each for each in sources.roster.deletions() if each.device == entry.device), None)
    settings = sources.roster.settings().get(entry.device, {})
    summary = _summary(sources, entry, _totals(sources), settings, deletion is not None, exact=exact)
    names = sources.history.names
    edges = [
        {
            "edge": f"{key.edge:016x}", "name": names.get(key.edge, ""), "incarnation": key.incarnation,
            "high_water": state.high_water, "ledgered": state.ledgered,
        }
        for key, state in sources.log.edges()
        if key.device == entry.device
    ]  # fmt: skip
    report = (
        None if deletion is None else {"asked_us": deletion.asked_us, "done_us": deletion.done_us, **deletion.report}
    )
    return summary | {"edges": edges, "trail": trail(sources, device_hex, exact=exact), "deletion": report}


def trail(sources: Sources, device_hex: str, *, exact: bool) -> list[list[object]]:
    """[time in microseconds, latitude, longitude] of a few positions, oldest first."""
    find(sources, device_hex)
    return trail_shown(sources.history.trails.of(device_hex), exact=exact)


def pair(sources: Sources, host: str = "") -> dict[str, Any]:
    """A single-use enrolment link, good for ten minutes, and its QR code as SVG."""
    if host and not HOST.fullmatch(host):
        raise UsageError("a host is a name or an address that phones reach the gateway at", code="device-pair-host")
    address = read_address(sources.home)
    now_us = sources.clock_us()
    link = EnrolmentLink(
        host or str(address["host"]), int(str(address["port"])), sources.roster.new_code(now_us),
        bytes.fromhex(str(address["key"])), bytes.fromhex(str(address["pin"])),
    )  # fmt: skip
    picture = io.BytesIO()
    # Classes instead of colours: a strict content security policy allows no inline style, attributes it does.
    segno.make(str(link), error="m").save(
        picture, kind="svg", xmldecl=False, scale=4, svgclass="qr", lineclass="qr-line"
    )
    return {"link": str(link), "expires_us": now_us + CODE_LIFETIME_US, "qr_svg": picture.getvalue().decode()}


def pairing(sources: Sources, link: str) -> dict[str, Any]:
    """Whether a link was used, by whom, and the six digits that the phone must show too."""
    parsed = EnrolmentLink.parse(link)
    key = sources.roster.used_by(parsed.code)
    if key is None:
        return {"used": False, "device": None, "name": None, "digits": None}
    entry = next(each for each in sources.roster.entries() if each.public_key == key)
    digits = comparison_digits(parsed.code, key, parsed.gateway_key)
    return {"used": True, "device": entry.device.hex(), "name": entry.name, "digits": digits}


def rename(sources: Sources, device_hex: str, name: str) -> None:
    kept = "".join(character for character in name if character.isprintable()).strip()
    if not 0 < len(kept) <= NAME_CHARACTERS_MAX:
        raise UsageError(f"a device's name has 1 to {NAME_CHARACTERS_MAX} characters", code="device-name")
    sources.roster.rename(find(sources, device_hex).device, kept, sources.clock_us())


def configure(sources: Sources, device_hex: str, *, sampling_rate: float = RATE_MAX, note: str = "") -> dict[str, Any]:
    """Ask a device for a share of its sampling rate, and keep a note about it."""
    entry = find(sources, device_hex)
    if not RATE_MIN <= sampling_rate <= RATE_MAX:
        raise UsageError(f"a sampling rate is a share from {RATE_MIN} to {RATE_MAX}", code="device-rate")
    if len(note) > NOTE_CHARACTERS_MAX or not all(character.isprintable() or character == "\n" for character in note):
        raise UsageError(f"a note has up to {NOTE_CHARACTERS_MAX} printable characters", code="device-note")
    settings = {"sampling_rate": sampling_rate, "note": note}
    sources.roster.configure(entry.device, settings, sources.clock_us())
    return settings


def revoke(sources: Sources, device_hex: str) -> None:
    """Refuse it from now on: open sessions end within seconds. What it delivered stays."""
    sources.roster.revoke(find(sources, device_hex).device, sources.clock_us())


def delete_data(sources: Sources, device_hex: str) -> dict[str, Any]:
    """Revoke it and ask for all it delivered to be deleted; docs/operations.md says what goes when, and what stays."""
    entry = find(sources, device_hex)
    asked = sources.roster.delete_data(entry.device, sources.clock_us())
    return {"asked_us": asked.asked_us, "done_us": asked.done_us, **asked.report}


def find(sources: Sources, device_hex: str) -> RosterEntry:
    for entry in sources.roster.entries():
        if entry.device.hex() == device_hex:
            return entry
    raise UsageError(
        "no device of this id is enrolled; resurge device list shows those that are", code="device-not-found"
    )


def _totals(sources: Sources) -> dict[DeviceId, dict[int, tuple[int, int]]]:
    """(decided, ledgered) elements by device and incarnation, from the log's index."""
    totals: dict[DeviceId, dict[int, tuple[int, int]]] = {}
    for key, state in sources.log.edges():
        of_device = totals.setdefault(key.device, {})
        decided, ledgered = of_device.get(key.incarnation, (0, 0))
        of_device[key.incarnation] = (decided + state.high_water, ledgered + state.ledgered)
    return totals


def _summary(
    sources: Sources,
    entry: RosterEntry,
    totals: Mapping[DeviceId, Mapping[int, tuple[int, int]]],
    settings: Mapping[str, object],
    is_deleted: bool,
    *,
    exact: bool,
) -> dict[str, Any]:
    of_device = totals.get(entry.device, {})
    decided = sum(each[0] for each in of_device.values())
    ledgered = sum(each[1] for each in of_device.values())
    status = _status(entry.status)
    produced = status.get("produced")
    arrived = of_device.get(entry.incarnation, (0, 0))[0]
    last = sources.history.trails.last(entry.device.hex())
    return {
        "device": entry.device.hex(),
        "name": entry.name,
        "incarnation": entry.incarnation,
        "state": "deleted" if is_deleted and entry.revoked_us else "revoked" if entry.revoked_us else "enrolled",
        "enrolled_us": entry.enrolled_us,
        "revoked_us": entry.revoked_us,
        "seen_us": entry.seen_us,
        "plan_version": entry.plan_version,
        "delivered": decided - ledgered,
        "ledgered": ledgered,
        "buffered": max(produced - arrived, 0) if isinstance(produced, int) else None,
        "status": shown(status, exact=exact),
        "settings": dict(settings),
        "position": trail_shown([last], exact=exact)[0] if last is not None else None,
    }


def _status(status: Mapping[str, object]) -> dict[str, Any]:
    """What a device says of itself, as far as it makes sense: plain values under short names."""
    found: dict[str, Any] = {}
    for name, value in list(status.items())[:STATUS_VALUES_MAX]:
        if not (name.isidentifier() and name.isascii() and len(name) <= 40):
            continue
        if isinstance(value, str):
            found[name] = value[:STATUS_TEXT_MAX]
        elif isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**53) or value is None:
            found[name] = value
        elif isinstance(value, list) and len(value) <= 20 and all(isinstance(each, str) for each in value):
            found[name] = [each[:STATUS_TEXT_MAX] for each in value]
    return found
