"""`resurge backup`: take one while everything runs; restore it on an empty machine."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home, done

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.command()
def create(
    output: Annotated[Path, typer.Argument(help="the file to write; .tar or .tar.gz")],
    *,
    home: Home = DEFAULT_HOME,
    results: Annotated[Path | None, typer.Option(help="the results store (default: beside the home)")] = None,
    plan: Annotated[Path | None, typer.Option(help="the encoded plan (default: plan.bin beside the home)")] = None,
    store: Annotated[Path | None, typer.Option(help="the Spark job's store (default: spark beside the home)")] = None,
    jobs: Annotated[Path | None, typer.Option(help="the queries' jobs (default: jobs beside the home)")] = None,
    as_json: AsJson = False,
) -> None:
    """Back up log, roster, people, results and jobs while they run. The gateway's key is in it: keep it safe."""
    from cloud_backend.coordinator.backup import Places
    from cloud_backend.coordinator.backup import create as make

    places = Places.of_home(home.resolve())
    given = {"results": results, "plan": plan, "store": store, "jobs": jobs}
    places = replace(places, **{name: path for name, path in given.items() if path is not None})
    made = make(places, output, now_us=time.time_ns() // 1000)
    more = "; its databases are on a PostgreSQL server: pg_dump them now" if "elsewhere" in made else ""
    done(f"wrote {made['files']} files, {made['bytes']:,} bytes, to {output}{more}", made, as_json=as_json)


@app.command()
def restore(
    backup: Annotated[Path, typer.Argument(help="a file that `resurge backup create` wrote")],
    to: Annotated[Path, typer.Option("--to", help="an empty or new directory")],
    as_json: AsJson = False,
) -> None:
    """Put a backup into an empty directory and check every byte, the log's chain and its account."""
    from cloud_backend.coordinator.backup import restore as put_back
    from shared.errors import UsageError

    if not backup.is_file():
        raise UsageError(f"there is no file {str(backup)!r}", code="backup-format")
    found = put_back(backup, to)
    text = (
        f"restored {found['files']} files into {to}: {found['delivered']:,} elements delivered, {found['ledgered']:,} "
        f"given up, all accounted for. Start the gateway with --home {to / 'gateway'}"
    )
    done(text, found, as_json=as_json)
