"""`resurge device`: pair a phone with a gateway, see how devices do, configure, revoke a lost one, delete its data.

Pairing, listing and revoking work on the gateway's home, whether it runs or not; the rest asks the gateway.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Device, Home, Watch, ago, done, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cloud_backend.coordinator.roster import Roster
    from cloud_backend.gateway.reach import Reach
    from shared.wire.enrolment import EnrolmentLink

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

MINUTES = 10


@app.command()
def pair(
    home: Home = DEFAULT_HOME,
    host: Annotated[
        str, typer.Option(help="address at which the phone reaches the gateway; default: one of this machine's")
    ] = "",
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="stay until a device has used the code, then show the six digits it must show too; default: stay, "
            "unless --json",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a single-use code, good for ten minutes, show it as a link and a QR code, and tell who used it."""
    from cloud_backend.gateway.reach import reach
    from shared.wire.enrolment import EnrolmentLink

    address = _address(home)
    way = reach(str(address["host"]), host)
    roster = _roster(home)
    code = roster.new_code(_now_us())
    pin = bytes.fromhex(str(address["pin"]))
    key = bytes.fromhex(str(address["key"]))
    link = EnrolmentLink(way.host, int(str(address["port"])), code, key, pin)
    if as_json:
        print(json.dumps({"link": str(link), "minutes": MINUTES, **asdict(way)}), flush=True)
    else:
        _show(link, way)
    if wait or (wait is None and not as_json):
        _wait(roster, link, as_json=as_json)


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
                "group": entry.group,
                "incarnation": entry.incarnation,
                "revoked": entry.revoked_us is not None,
                "enrolled_us": entry.enrolled_us,
                "seen_us": entry.seen_us,
                "plan_version": entry.plan_version,
                "status": entry.status.to_json(),
            }
            for entry in entries
        ]
        print(json.dumps({"devices": devices}))
        return
    table = Table("device", "name", "group", "incarnation", "last seen", "plan", "state")
    for entry in entries:
        seen = "never" if entry.seen_us is None else f"{(_now_us() - entry.seen_us) / 1e6:.0f} s ago"
        state = "enrolled" if entry.revoked_us is None else "revoked"
        plan = "none" if entry.plan_version is None else str(entry.plan_version)
        table.add_row(entry.device.hex(), entry.name, entry.group, str(entry.incarnation), seen, plan, state)
    Console().print(table)


@app.command()
def revoke(
    device: Device,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Refuse a device from now on: open sessions end within seconds. What it delivered stays."""
    from shared.errors import UsageError

    roster = _roster(home)
    entries = roster.entries()
    found = [entry for entry in entries if entry.name == device]
    found = found or [entry for entry in entries if device and entry.device.hex().startswith(device.lower())]
    if len(found) != 1:
        problem = "no device has the name, or an id that starts with," if not found else f"{len(found)} devices fit"
        raise UsageError(f"{problem} {device!r}; resurge device list shows all of them", code="device-not-found")
    roster.revoke(found[0].device, _now_us())
    if as_json:
        print(json.dumps({"revoked": found[0].device.hex(), "name": found[0].name}))
    else:
        print(f"revoked {found[0].name} ({found[0].device.hex()}); it is refused from now on")


@app.command()
def show(device: Device, home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """One device: its state, its edges, what it says of itself."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        about = {name: value[name] for name in ("device", "state", "delivered", "ledgered", "buffered")}
        about |= {"last seen": ago(value["seen_us"]), **value["settings"], **in_words(value["status"])}
        if value["withheld"]:
            about["not sent to it"] = value["withheld"]
        for edge in value["edges"]:
            given_up = f", {edge['ledgered']:,} of them given up" if edge["ledgered"] else ""
            about[f"edge {edge['name']} ({edge['incarnation']})"] = f"{edge['high_water']:,} elements{given_up}"
        return table((value["name"], ""), about.items())

    present(lambda: api.get(f"/devices/{api.device(device)['device']}"), picture, as_json=as_json, watch=watch)


def in_words(status: dict[str, Any]) -> dict[str, str]:
    """What a device said of itself, under the names of the API: with units, and without what it has none of."""
    from mobile_app.screens.words.number_text import duration, plural, size

    said: dict[str, str] = {}
    for name, value in status.items():
        if name == "advice":
            bytes_per_s, outages, _, p99_s = value
            seen = f"{plural(outages, 'outage')} seen"
            longest = "" if p99_s is None else f", 99 of 100 not longer than {duration(p99_s)}"
            said[name] = f"its spool fills at {size(bytes_per_s)} a second; {seen}{longest}"
        elif name == "pace":
            said[name] = f"it plays time, {value[0]:g} times as fast"
        elif name.endswith("_bytes"):
            said[name] = size(value)
        elif name.endswith("_s"):
            said[name] = duration(value) if value >= 1 else f"{1000 * value:g} ms"
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            said[name] = ", ".join(value)
        else:
            said[name] = str(value)
    return {name: text for name, text in said.items() if text}


@app.command()
def trail(device: Device, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Where it was: a few positions, oldest first."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(("when", "latitude", "longitude"), ((ago(at), lat, lon) for at, lat, lon in value["trail"]))

    present(lambda: api.get(f"/devices/{api.device(device)['device']}/trail"), picture, as_json=as_json)


@app.command()
def rename(
    device: Device,
    name: Annotated[str, typer.Argument(help="its new name")],
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Change what people see."""
    api = Api(home)
    found = api.device(device)
    done(
        f"{found['name']} is {name} now",
        api.post(f"/devices/{found['device']}/rename", {"name": name}),
        as_json=as_json,
    )


@app.command()
def configure(
    device: Device,
    rate: Annotated[float, typer.Option(min=0.1, max=1.0, help="share of the plan's sampling rate")] = 1.0,
    note: Annotated[str, typer.Option(help="a note about it")] = "",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Ask it for a share of its sampling rate, and keep a note."""
    api = Api(home)
    found = api.device(device)
    settings = api.post(f"/devices/{found['device']}/configure", {"sampling_rate": rate, "note": note})
    done(f"{found['name']} is asked for {rate:.0%} of its rate with its next exchange", settings, as_json=as_json)


@app.command()
def group(
    device: Device,
    name: Annotated[str, typer.Argument(help="the group; left out: it is in none")] = "",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Put it into a group, whose program it then runs (`resurge program deploy FILE --group NAME`)."""
    api = Api(home)
    found = api.device(device)
    said = api.post(f"/devices/{found['device']}/group", {"group": name})
    done(f"{found['name']} is in {f'group {name}' if name else 'no group'} now", said, as_json=as_json)


@app.command("delete-data")
def delete_data(
    device: Device,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Revoke it and delete what it delivered; docs/operations.md says what goes when, and what stays."""
    api = Api(home)
    found = api.device(device)
    if not yes:
        typer.confirm(
            f"Revoke {found['name']} and delete {found['delivered']:,} delivered elements for good?", abort=True
        )
    report = api.post(f"/devices/{found['device']}/delete-data", {"name": found["name"]})
    done(
        f"{found['name']} is revoked; its data goes within seconds, `resurge device show` tells when",
        report,
        as_json=as_json,
    )


def _address(home: Path) -> dict[str, object]:
    from cloud_backend.gateway.address_file import read_address

    return read_address(home)


def _roster(home: Path) -> Roster:
    from cloud_backend.coordinator.roster import Roster
    from cloud_backend.database import in_home, is_there
    from shared.errors import UsageError

    where = in_home(home, "roster.sqlite")
    if not is_there(where):
        raise UsageError(
            f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up", code="gateway-home"
        )
    return Roster(where)


def _show(link: EnrolmentLink, way: Reach) -> None:
    import segno

    print(f"Scan this with the phone, or paste the link into it within {MINUTES} minutes. It works once.\n")
    segno.make(str(link), error="m").terminal(out=sys.stdout, compact=True)
    print(f"\n{link}\n", flush=True)
    if way.others:
        print(f"It leads to {way.host}; this machine is also {', '.join(way.others)}. --host chooses.")
    if way.warning:
        print(f"warning: {way.warning} [device-pair-local]", file=sys.stderr, flush=True)


def _wait(roster: Roster, link: EnrolmentLink, *, as_json: bool) -> None:
    """Until the code was used; then six digits that the phone shows too."""
    from shared.wire.enrolment import comparison_digits

    if not as_json:
        print("Waiting for the device; Ctrl-C ends the waiting, the code stays good.", flush=True)
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        key = roster.used_by(link.code)
        if key is not None:
            digits = comparison_digits(link.code, key, link.gateway_key)
            name = next(entry.name for entry in roster.entries() if entry.public_key == key)
            message = (
                f"{name} is paired. It must show {digits}; if it does not, revoke it: another device took the code"
            )
            print(json.dumps({"paired": name, "digits": digits}) if as_json else message)
            return
        time.sleep(0.5)
    print("nobody used the code in time; it is worthless now", file=sys.stderr)
    raise typer.Exit(1)


def _now_us() -> int:
    return time.time_ns() // 1000
