"""`resurge node`: a device without a screen, and relays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Run a device without a screen, or a relay; see what it holds.", no_args_is_help=True)

Home = Annotated[Path, typer.Option(help="Where the node keeps its key, spool and results.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
DEFAULT_HOME = Path("~/.resurge")


@app.command()
def run(
    *,
    home: Home = DEFAULT_HOME,
    link: Annotated[str | None, typer.Option(help="Enrolment link from `resurge device pair`; used once.")] = None,
    program: Annotated[Path | None, typer.Option(help="A stream program, when no gateway sends a plan.")] = None,
    sensor: Annotated[
        list[str] | None,
        typer.Option(help="NAME=live, NAME=synthetic:SEED, NAME=recording:FILE or NAME=mqtt://HOST/TOPIC."),
    ] = None,
    outages: Annotated[str, typer.Option(help="10+8,30+12 (seconds), random:SEED, or a file of such spans.")] = "",
    relay: Annotated[str, typer.Option(help="tcp://HOST:PORT of a relay, if there is no way to the gateway.")] = "",
    fleet: Annotated[Path | None, typer.Option(help="The file of a fleet: share its queries with its nodes.")] = None,
    host: Annotated[
        str,
        typer.Option(
            help="tcp://HOST:PORT where nodes reach this one: take part in the gateway's fleet. none: only feed it."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="What that fleet calls this node (default: as in settings.toml).")] = "",
    capacity: Annotated[
        int | None, typer.Option(help="How many vertices it hosts there at most (default: as in settings.toml, 64).")
    ] = None,
    lane: Annotated[
        str | None, typer.Option(help="How it reaches other nodes: wired, wifi, bluetooth or cellular.")
    ] = None,
    cloud: Annotated[
        bool, typer.Option(help="It runs beside the gateway: --place cloud-only and results without --to go there.")
    ] = False,
    speed: Annotated[float, typer.Option(help="Seconds of event time per second of the run.")] = 1.0,
    seconds: Annotated[float | None, typer.Option("--for", help="End after so many seconds and drain.")] = None,
    as_json: Json = False,
) -> None:
    """Read sensors, compute, spool, and exchange with the gateway whenever there is a network."""
    from mobile_app.headless import RunOptions, calling
    from mobile_app.headless import run as run_node
    from mobile_app.sensors.choose import parse_choices
    from shared.wire.enrolment import EnrolmentLink

    if link is not None:
        EnrolmentLink.parse(link)  # an empty one, too: a shell's variable that was never set
    plan, on_output = None, None
    if program is not None:
        from shared.stream.program import read_program

        written = read_program(program)
        plan, on_output = written.plan(), calling(written.callbacks, _say)
    account = run_node(
        RunOptions(
            home=home.expanduser(),
            link=link or "",
            relay=relay,
            sensors=parse_choices(sensor or []),
            outages=outages,
            fleet=fleet,
            host=host,
            name=name,
            capacity=capacity,
            lane=lane,
            cloud=cloud,
            speed=speed,
            plan=plan,
            on_output=on_output,
            for_s=seconds,
            say=_say,
        )
    )
    _report(account, as_json)


@app.command()
def enrol(
    link: Annotated[str, typer.Argument(help="resurge://HOST:PORT/#... as `resurge device pair` printed it.")],
    home: Home = DEFAULT_HOME,
    relay: Annotated[str, typer.Option(help="tcp://HOST:PORT of a relay.")] = "",
    name: Annotated[str, typer.Option(help="What the operator should see.")] = "",
    as_json: Json = False,
) -> None:
    """Introduce this device to a gateway. Compare the six digits with those on the gateway's screen."""
    from dataclasses import asdict

    from mobile_app.links.enrolment import enrol as enrol_device
    from mobile_app.service.connection import tell_service

    enrolled = asdict(enrol_device(home.expanduser(), link, relay=relay, name=name))
    runs = tell_service(home.expanduser(), "gateway_changed")
    _report(enrolled | ({"running": "the node that runs here goes on with this gateway"} if runs else {}), as_json)


@app.command()
def relay(
    gateway: Annotated[str, typer.Option(help="The gateway's address, http://HOST:PORT or https://HOST:PORT.")],
    bind: Annotated[str, typer.Option(help="Where phones reach this relay.")] = "tcp://127.0.0.1:8751",
    pin: Annotated[str, typer.Option(help="SHA-256 of the gateway's TLS key, in hexadecimal.")] = "",
    seconds: Annotated[float | None, typer.Option("--for", help="End after so many seconds.")] = None,
    as_json: Json = False,
) -> None:
    """Carry other devices' exchanges to the gateway over ZeroMQ. A relay can read them, but not alter or forge them."""
    from mobile_app.headless import run_relay

    _report(run_relay(bind, gateway, pin=bytes.fromhex(pin), for_s=seconds, say=_say), as_json)


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False) -> None:
    """What the node holds, what was delivered or given up, and whether it is connected."""
    from mobile_app.service.inspection import inspect
    from resurge.cli.node_status import status_lines

    view = inspect(home.expanduser())
    print(json.dumps(view) if as_json else "\n".join(status_lines(view)))


@app.command()
def results(
    home: Home = DEFAULT_HOME,
    sink: Annotated[str | None, typer.Option(help="Only this sink's results.")] = None,
    limit: Annotated[int, typer.Option(help="How many, newest window first.")] = 20,
    as_json: Json = False,
) -> None:
    """Results that came back to this device."""
    from dataclasses import asdict

    from mobile_app.service.inspection import kept_results, key_names, named_key

    rows, names = [asdict(row) for row in kept_results(home.expanduser(), sink, limit)], key_names(home.expanduser())
    if as_json:
        print(json.dumps({"results": rows}))
        return
    from datetime import UTC, datetime

    from rich.console import Console
    from rich.table import Column, Table

    table = Table(*(Column(name, overflow="fold") for name in ("sink", "key", "from", "to", "rev", "values")))
    for row in rows:
        start, end = (
            datetime.fromtimestamp(row[name] / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
            for name in ("window_start_us", "window_end_us")
        )
        values = ", ".join(f"{name}={value}" for name, value in row["values"].items())
        partial = "" if row["complete"] else " (incomplete)"
        if row["corrections"]:
            partial += f" (corrected {row['corrections']}x)"
        key = named_key(names.get(row["sink"], ()), row["key"])
        table.add_row(row["sink"], key, start, end, str(row["revision"]), values + partial)
    Console().print(table)


@app.command()
def watch(
    home: Home = DEFAULT_HOME,
    every: Annotated[float, typer.Option(help="Seconds between two pictures.")] = 1.0,
    once: Annotated[bool, typer.Option(help="One picture, then end.")] = False,
    seconds: Annotated[float | None, typer.Option("--for", help="End after so many seconds.")] = None,
) -> None:
    """Watch a node: what it holds, for how long, what goes first, actual rates, and why it stopped."""
    import time

    from rich.console import Console
    from rich.live import Live

    from mobile_app.service.inspection import inspect
    from resurge.node_watch import frame, frames

    place = home.expanduser()
    if once:
        Console().print(frame(inspect(place), time.time_ns() // 1000))
        return
    end = None if seconds is None else time.monotonic() + seconds
    with Live(auto_refresh=False) as live:
        for picture in frames(lambda: inspect(place), every, lambda: end is not None and time.monotonic() >= end):
            live.update(picture, refresh=True)


@app.command("install-service")
def install_service(
    *,
    home: Home = DEFAULT_HOME,
    option: Annotated[
        list[str] | None, typer.Option(help="Handed to `resurge node run`, like --option=--relay.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Show what would be written, and write nothing.")] = False,
    remove: Annotated[bool, typer.Option(help="Take it away again.")] = False,
) -> None:
    """Start a node with the phone (Termux): wake lock, notification, restart. Prints what it wrote."""
    from mobile_app.service.termux_boot import boot_script, install
    from mobile_app.service.termux_boot import remove as remove_script

    script = boot_script(home.expanduser(), option or [])
    if remove:
        print(f"{'removed' if remove_script(script) else 'there was no'} {script.path}")
        return
    steps = [] if dry_run else install(script)
    print(f"{'would write' if dry_run else 'wrote'} {script.path}:\n\n{script.text}")
    for step in steps:
        print(f"next: {step}")


def _say(line: str) -> None:
    print(line, flush=True)


def _report(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(values))
        return
    width = max(map(len, values))
    for name, value in values.items():
        shown = "none" if value in ([], {}) else json.dumps(value) if isinstance(value, dict | list) else value
        print(f"{name.replace('_', ' '):<{width}}  {shown}")
