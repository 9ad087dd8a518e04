"""`resurge up`: start the whole product here and watch phones lose and regain the network."""

from __future__ import annotations

import json as json_module
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from resurge.cli.own_modules import Modules

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def up(
    *,
    length_s: Annotated[
        float | None, typer.Option("--for", min=10, metavar="S", help="End after this many seconds (default: Ctrl-C).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the account as one JSON object, last line.")] = False,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="kill -9 the relay, a phone, the gateway and the Spark driver, once each.")
    ] = False,
    phones: Annotated[int, typer.Option("--phones", min=2, max=50, help="How many simulated phones, at least.")] = 3,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="A directory for everything: an empty one, or that of an earlier run (default: temporary)."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on, like 0.0.0.0 for phones elsewhere, over TLS (default: this machine only).",
        ),
    ] = "",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of gateway and dashboard; 0: as before, or a free one.")
    ] = 0,
    speed: Annotated[
        float | None, typer.Option("--speed", min=0.1, max=1000, help="Event seconds per second (default: 1).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory to look around in.")] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Let gateway and Spark say all they say as JSON, one object per line.")
    ] = False,
    rollback_hours: Annotated[
        float | None, typer.Option("--rollback-hours", min=0, help="How far back a rollback can go (default: 24).")
    ] = None,
    rollback_gb: Annotated[
        float | None,
        typer.Option("--rollback-gb", min=0, help="What snapshots and log may take for that, in GB (default: 8)."),
    ] = None,
    program: Annotated[
        Path | None, typer.Option("--program", help="Another stream program (default: resurge/examples/kilometres.py).")
    ] = None,
    module: Modules = (),
) -> None:
    """Start gateway, Spark, a relay and simulated phones; print the dashboard's address; account for every reading."""
    from rich.console import Console

    from resurge.up.home import HERE, alone, is_stage, make_stage, stage_again
    from resurge.up.run import Interrupted, Options, play
    from resurge.up.terminal import Terminal, report
    from shared.stream.program import read_program, rollback_settings

    console = Console(stderr=True)
    directory = home or Path(tempfile.mkdtemp(prefix="resurge-up-"))
    failed = True
    given = {"hours": rollback_hours, "gigabytes": rollback_gb}
    rollback = {} if program is None else rollback_settings(program.resolve().parent)
    rollback |= {name: each for name, each in given.items() if each is not None}
    try:
        with alone(directory):
            if is_stage(directory):
                again = None if program is None else read_program(program, module)
                stage, plan = stage_again(
                    directory, None if again is None else again.plan(), port=port, speed=speed, log_json=log_json,
                    host=host, modules=() if again is None else again.modules, rollback=rollback,
                )  # fmt: skip
                console.print(f"Going on in {directory}: the same gateway, devices and results", highlight=False)
            else:
                written = read_program(program or Path(__file__).parents[1] / "examples" / "kilometres.py", module)
                plan = written.plan()
                stage = make_stage(
                    directory, plan, port=port, speed=speed or 1.0, log_json=log_json, host=host or HERE,
                    modules=written.modules, rollback=rollback,
                )  # fmt: skip
            outcome = play(stage, plan, Options(length_s, phones, chaos), Terminal(console))
        failed = bool(outcome.problems())
    except Interrupted:
        console.print("Stopped before everything had started; every process has ended.")
        raise typer.Exit(130) from None
    finally:
        if home is None and not keep and not failed:
            shutil.rmtree(directory, ignore_errors=True)
        elif home is None:
            console.print(f"Everything is in {directory}", highlight=False)
    if json:
        print(json_module.dumps(outcome.as_json()))
    else:
        report(outcome, Console())
    for problem in outcome.problems():
        print(f"resurge up: {problem} [up-account]", file=sys.stderr)
    if failed:
        raise typer.Exit(1)
