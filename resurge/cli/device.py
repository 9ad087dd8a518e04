"""`resurge device`: pair a phone with a gateway, see who is enrolled, revoke a lost one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cloud_backend.coordinator.roster import Roster
    from shared.wire.enrolment import EnrolmentLink

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

Home = Annotated[Path, typer.Option(help="the gateway's home")]
AsJson = Annotated[bool, typer.Option("--json", help="last line is one JSON object")]
DEFAULT_HOME = Path(".resurge/gateway")
MINUTES = 10


@app.command()
def pair(
    home: Home = DEFAULT_HOME,
    host: Annotated[str, typer.Option(help="address at which the phone reaches the gateway; default: its own")] = "",
    wait: Annotated[bool, typer.Option(help="stay until a device has used the code, then show its digits")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a single-use code, good for ten minutes, and show it as a link and a QR code."""
    from shared.wire.enrolment import EnrolmentLink

    address = _address(home)
    roster = _roster(home)
    code = roster.new_code(_now_us())
    pin = bytes.fromhex(str(address["pin"]))
    key = bytes.fromhex(str(address["key"]))
    link = EnrolmentLink(host or str(address["host"]), int(str(address["port"])), code, key, pin)
    if as_json:
        print(json.dumps({"link": str(link), "minutes": MINUTES}))
        return
    _show(link)
    if wait:
        _wait(roster, link)


@app.command("list")
def list_devices(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Every device that was ever enrolled."""
    from rich.console import Console
    from rich.table import Table

    entries = _roster(home).entries()
    if as_json:
        devices = [
            {
                "device": entry.device.hex(),
                "name": entry.name,
                "incarnation": entry.incarnation,
                "revoked": entry.revoked_us is not None,
                "enrolled_us": entry.enrolled_us,
                "seen_us": entry.seen_us,
                "plan_version": entry.plan_version,
                "status": entry.status,
            }
            for entry in entries
        ]
        print(json.dumps({"devices": devices}))
        return
    table = Table("device", "name", "incarnation", "last seen", "plan", "state")
    for entry in entries:
        seen = "never" if entry.seen_us is None else f"{(_now_us() - entry.seen_us) / 1e6:.0f} s ago"
        state = "enrolled" if entry.revoked_us is None else "revoked"
        plan = "none" if entry.plan_version is None else str(entry.plan_version)
        table.add_row(entry.device.hex(), entry.name, str(entry.incarnation), seen, plan, state)
    Console().print(table)


@app.command()
def revoke(
    device: Annotated[str, typer.Argument(help="the device's id, or the start of it, as `resurge device list` shows")],
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Refuse a device from now on: open sessions end within seconds. What it delivered stays."""
    from shared.errors import UsageError

    roster = _roster(home)
    found = [entry for entry in roster.entries() if device and entry.device.hex().startswith(device.lower())]
    if len(found) != 1:
        problem = "no device's id starts" if not found else f"the ids of {len(found)} devices start"
        raise UsageError(f"{problem} with {device!r}; resurge device list shows all of them", code="device-not-found")
    roster.revoke(found[0].device, _now_us())
    if as_json:
        print(json.dumps({"revoked": found[0].device.hex(), "name": found[0].name}))
    else:
        print(f"revoked {found[0].name} ({found[0].device.hex()}); it is refused from now on")


def _address(home: Path) -> dict[str, object]:
    from cloud_backend.gateway.address import read_address

    return read_address(home)


def _roster(home: Path) -> Roster:
    from cloud_backend.coordinator.roster import Roster
    from shared.errors import UsageError

    path = home / "roster.sqlite"
    if not path.exists():
        raise UsageError(
            f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up", code="gateway-home"
        )
    return Roster(path)


def _show(link: EnrolmentLink) -> None:
    import sys

    import segno

    print(f"Scan this with the phone, or paste the link into it within {MINUTES} minutes. It works once.\n")
    segno.make(str(link), error="m").terminal(out=sys.stdout, compact=True)
    print(f"\n{link}\n")


def _wait(roster: Roster, link: EnrolmentLink) -> None:
    """Until the code was used; then six digits that the phone shows too."""
    from shared.wire.enrolment import comparison_digits

    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        key = roster.used_by(link.code)
        if key is not None:
            digits = comparison_digits(link.code, key, link.gateway_key)
            print(f"paired. The phone must show {digits}; if it does not, revoke it: another device took the code")
            return
        time.sleep(0.5)
    print("nobody used the code in time; it is worthless now")
    raise typer.Exit(1)


def _now_us() -> int:
    return time.time_ns() // 1000
