"""Devices: who they are, how they do, where they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.privacy.hidden import AllBut
from cloud_backend.dashboard.privacy.places import shown, trail_shown
from cloud_backend.dashboard.sources import Sources
from shared.errors import UsageError
from shared.identity import DeviceId
from shared.wire.status import DeviceStatus


def devices(sources: Sources, *, exact: bool) -> list[dict[str, Any]]:
    """Every device ever enrolled, by name. `exact`: positions as they are, else on a kilometre's grid."""
    settings = sources.roster.settings()
    deleted = {each.device for each in sources.roster.deletions()}
    known = {each.phone.id: each for each in sources.devices()}
    return [
        _summary(entry, known[entry.device.hex()], settings, deleted, exact=exact)
        for entry in sources.entries()
        if entry.device.hex() in known
    ]


def device(sources: Sources, device_hex: str, *, exact: bool) -> dict[str, Any]:
    """One device with its edges and its trail."""
    entry = find(sources, device_hex)
    deletion = next((each for each in sources.roster.deletions() if each.device == entry.device), None)
    deleted = set() if deletion is None else {entry.device}
    summary = _summary(entry, find_device(sources, device_hex), sources.roster.settings(), deleted, exact=exact)
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
    withheld = why_withheld(sources, entry.status, entry.group)
    found = find_device(sources, device_hex)
    advice = found.advice
    return summary | {
        "withheld": withheld,
        "advice": None if advice is None else asdict(advice) | {"bytes_per_second": advice.bytes_per_second},
        "edges": edges,
        "live": live_shown(found, exact=exact),
        "trail": trail(sources, device_hex, exact=exact),
        "deletion": report,
    }


def trail(sources: Sources, device_hex: str, *, exact: bool) -> list[list[object]]:
    """[time in microseconds, latitude, longitude] of a few positions, oldest first."""
    find(sources, device_hex)
    return trail_shown(sources.history.trails.of(device_hex), exact=exact)


def live_shown(device: Device, *, exact: bool) -> list[dict[str, Any]]:
    """Its newest readings while older ones are on their way. Who may not see places is shown coarse ones, and no other
    value: no plan is asked what those tell."""
    return [
        {
            "stream": each.stream, "time_us": each.time_us,
            "values": shown(dict(each.values), exact=exact, hidden=AllBut(frozenset())),
        }
        for each in device.live
    ]  # fmt: skip


def why_withheld(sources: Sources, status: DeviceStatus, group: str) -> str:
    """Why this device does not get the program as it is deployed; empty where nothing keeps it from it, or where its
    group has a program of its own."""
    needs = sources.plan_needs()
    return "" if needs is None or group in needs.groups_apart else needs.why_withheld(status)


def find(sources: Sources, device_hex: str) -> RosterEntry:
    try:
        entry = sources.roster.entry(DeviceId(bytes.fromhex(device_hex)))
    except ValueError:
        entry = None
    if entry is None or entry.device.hex() != device_hex:
        raise _unknown()
    return entry


def find_device(sources: Sources, device_hex: str) -> Device:
    """The same with what the log holds of it and what it reported."""
    found = sources.look().listing.find(device_hex)
    if found is None:
        raise _unknown()
    return found


def _unknown() -> UsageError:
    return UsageError(
        "no device of this id is enrolled; resurge device list shows those that are", code="device-not-found"
    )


def _summary(
    entry: RosterEntry,
    known: Device,
    settings: Mapping[DeviceId, Mapping[str, object]],
    deleted: set[DeviceId],
    *,
    exact: bool,
) -> dict[str, Any]:
    is_deleted = entry.device in deleted
    position = None if known.position is None else trail_shown([known.position], exact=exact)[0]
    return {
        "device": entry.device.hex(),
        "name": entry.name,
        "group": entry.group,
        "incarnation": entry.incarnation,
        "state": "deleted" if is_deleted and entry.revoked_us else "revoked" if entry.revoked_us else "enrolled",
        "contact": known.state,
        "enrolled_us": entry.enrolled_us,
        "revoked_us": entry.revoked_us,
        "seen_us": entry.seen_us,
        "plan_version": known.plan,
        "delivered": known.phone.delivered,
        "ledgered": known.phone.ledgered,
        "buffered": None if entry.status.produced is None else known.phone.buffered,
        "status": shown(entry.status.to_json(), exact=exact),
        "settings": dict(settings.get(entry.device, {})),
        "position": position,
        "position_is_live": known.position_is_live,
    }
