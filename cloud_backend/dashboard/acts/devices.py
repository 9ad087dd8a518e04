"""Acts on devices: pair, rename, configure, revoke, delete what they delivered."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import segno
from pydantic import Field

from cloud_backend.coordinator.roster import CODE_LIFETIME_US
from cloud_backend.dashboard.acts.act import MAYBE_GROUP, Act, Attempt, DeviceHex, F, Fields, NoFields
from cloud_backend.dashboard.views.devices import find
from cloud_backend.dashboard.views.program import newest_version
from cloud_backend.gateway.address_file import read_address
from cloud_backend.gateway.reach import reach
from shared.errors import UsageError
from shared.wire.enrolment import NAME_CHARACTERS_MAX, EnrolmentLink, comparison_digits

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
NOTE_CHARACTERS_MAX = 500


class Pair(Fields):
    host: str = Field("", max_length=253, description="where phones reach this gateway; empty: as it was started")


class Pairing(Fields):
    link: str = Field(max_length=500, description="the enrolment link")


class Rename(Fields):
    name: str = Field(min_length=1, max_length=NAME_CHARACTERS_MAX, description="1 to 80 characters")


class Configure(Fields):
    sampling_rate: float = Field(
        1.0, ge=0.1, le=1.0, strict=False, description="share of the plan's sampling rate, 0.1 to 1"
    )
    note: str = Field("", max_length=NOTE_CHARACTERS_MAX, description="for operators, up to 500 characters")


class Group(Fields):
    group: str = Field("", pattern=MAYBE_GROUP, description="the group's name; empty: it is in none")


class DeleteData(Fields):
    name: str = Field(max_length=NAME_CHARACTERS_MAX, description="the device's name once more")


def pair(attempt: Attempt[Pair]) -> dict[str, Any]:
    """A single-use enrolment link, good for ten minutes, and its QR code as SVG."""
    sources, host = attempt.sources, attempt.fields.host.strip()
    if host and not HOST.fullmatch(host):
        raise UsageError("a host is a name or an address that phones reach the gateway at", code="device-pair-host")
    address = read_address(sources.home)
    way = reach(str(address["host"]), host)
    attempt.note()
    now_us = sources.clock_us()
    link = EnrolmentLink(
        way.host, int(str(address["port"])), sources.roster.new_code(now_us),
        bytes.fromhex(str(address["key"])), bytes.fromhex(str(address["pin"])),
    )  # fmt: skip
    picture = io.BytesIO()
    # Classes instead of colours: a strict content security policy allows no inline style, attributes it does.
    segno.make(str(link), error="m").save(
        picture, kind="svg", xmldecl=False, scale=4, svgclass="qr", lineclass="qr-line"
    )
    return {
        "link": str(link), "expires_us": now_us + CODE_LIFETIME_US, "qr_svg": picture.getvalue().decode(),
        "others": list(way.others), "warning": way.warning,
    }  # fmt: skip


def pairing(attempt: Attempt[Pairing]) -> dict[str, Any]:
    """Whether a link was used, by whom, and the six digits that the phone must show too."""
    parsed = EnrolmentLink.parse(attempt.fields.link)
    roster = attempt.sources.roster
    key = roster.used_by(parsed.code)
    if key is None:
        return {"used": False, "device": None, "name": None, "digits": None}
    entry = next(each for each in roster.entries() if each.public_key == key)
    digits = comparison_digits(parsed.code, key, parsed.gateway_key)
    return {"used": True, "device": entry.device.hex(), "name": entry.name, "digits": digits}


def rename(attempt: Attempt[Rename]) -> None:
    entry = find(attempt.sources, attempt.subject)
    name = "".join(character for character in attempt.fields.name if character.isprintable()).strip()
    if not name:
        raise UsageError(f"a device's name has 1 to {NAME_CHARACTERS_MAX} characters", code="device-name")
    attempt.note()
    attempt.sources.roster.rename(entry.device, name, attempt.sources.clock_us())


def configure(attempt: Attempt[Configure]) -> dict[str, Any]:
    """Ask a device for a share of its sampling rate, and keep a note about it."""
    entry = find(attempt.sources, attempt.subject)
    rate, note = attempt.fields.sampling_rate, attempt.fields.note
    if not all(character.isprintable() or character == "\n" for character in note):
        raise UsageError(f"a note has up to {NOTE_CHARACTERS_MAX} printable characters", code="device-note")
    settings = {"sampling_rate": rate, "note": note}
    attempt.note(f"sampling rate {rate:g}")
    attempt.sources.roster.configure(entry.device, settings, attempt.sources.clock_us())
    return settings


def group(attempt: Attempt[Group]) -> dict[str, Any]:
    """Put a device into a group, or take it out of its own; it gets that group's program with its next exchange."""
    sources, name = attempt.sources, attempt.fields.group
    entry = find(sources, attempt.subject)
    newest = 0 if sources.program() is None else newest_version(sources)
    attempt.note(name or "none")
    sources.roster.groups.put(entry.device, name, newest=newest)
    return {"group": name, "former": entry.group}


def revoke(attempt: Attempt[NoFields]) -> None:
    """Refuse it from now on: open sessions end within seconds. What it delivered stays."""
    entry = find(attempt.sources, attempt.subject)
    attempt.note()
    attempt.sources.roster.revoke(entry.device, attempt.sources.clock_us())


def delete_data(attempt: Attempt[DeleteData]) -> dict[str, Any]:
    """Revoke it and ask for all it delivered to be deleted; docs/operations.md says what goes when, and what stays."""
    entry = find(attempt.sources, attempt.subject)
    if entry.name.strip() != attempt.fields.name.strip():
        raise UsageError("the name does not match the device's; nothing was deleted", code="device-confirm")
    attempt.note()
    deletion = attempt.sources.roster.delete_data(entry.device, attempt.sources.clock_us())
    return {"asked_us": deletion.asked_us, "done_us": deletion.done_us, **deletion.report}


PAIR = Act(
    pair, Pair, "operator", "pairing-link-made", "POST /v1/api/devices/pair", "POST /devices/pair",
    "A single-use enrolment link and its QR code",
)  # fmt: skip
PAIRING = Act(
    pairing, Pairing, "operator", "", "POST /v1/api/devices/pairing", "POST /devices/pair/state",
    "Whether a link was used, and the digits the phone must show",
)  # fmt: skip


def _on_device(
    do: Callable[[Attempt[F]], Any],
    fields: type[F],
    role: str,
    word: str,
    *,
    verb: str,
    summary: str,
    success: str,
) -> Act[F]:
    """An act on one device, from its own page."""
    path = f"/devices/{{device}}/{verb}"
    return Act(
        do, fields, role, word, f"POST /v1/api{path}", f"POST {path}", summary, DeviceHex, success,
        "/devices/{subject}",
    )  # fmt: skip


RENAME = _on_device(
    rename, Rename, "operator", "device-renamed", verb="rename", summary="Change what people see",
    success="The device has its new name.",
)  # fmt: skip
CONFIGURE = _on_device(
    configure, Configure, "operator", "device-configured", verb="configure",
    summary="Ask for a share of its sampling rate; keep a note",
    success="The settings are saved; the device gets them with its next exchange.",
)  # fmt: skip
GROUP = _on_device(
    group, Group, "operator", "device-grouped", verb="group", summary="Put it into a group, or take it out of its own",
    success="The device has its new group; it takes that group's program with its next exchange.",
)  # fmt: skip
REVOKE = _on_device(
    revoke, NoFields, "operator", "device-revoked", verb="revoke",
    summary="Refuse it from now on; what it delivered stays",
    success="The device is revoked: it is refused from now on, and what it delivered stays.",
)  # fmt: skip
DELETE_DATA = _on_device(
    delete_data, DeleteData, "admin", "device-data-deleted", verb="delete-data",
    summary="Revoke it and delete what it delivered",
    success="The device is revoked, and what it delivered is being deleted.",
)  # fmt: skip
ACTS = (PAIR, PAIRING, RENAME, CONFIGURE, GROUP, REVOKE, DELETE_DATA)
