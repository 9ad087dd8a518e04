"""`resurge example run trips`: a finished application, played by the whole product over recorded or made-up people."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

EXAMPLES = {"trips": "where one went, how, and what it cost the air (docs/trips.md)"}
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@app.command("list")
def list_examples(as_json: Json = False) -> None:
    """The examples there are."""
    print(json.dumps({"examples": EXAMPLES}) if as_json else "\n".join(f"{k}  {v}" for k, v in EXAMPLES.items()))


@app.command("run")
def run_example(
    name: Annotated[str, typer.Argument(help="which one; `resurge example list` names them")],
    *,
    length_s: Annotated[float, typer.Option("--for", min=20, metavar="S", help="Play it in this many seconds.")] = 60.0,
    recording: Annotated[
        Path | None,
        typer.Option(help="People's recordings: GeoLife, GPX, Sensor Logger, phyphox (default: made-up people)."),
    ] = None,
    outages: Annotated[
        Path | None, typer.Option(help="Who loses the network when (default: everyone, 20 minutes mid-trip).")
    ] = None,
    without_outages: Annotated[bool, typer.Option("--without-outages", help="A run without failures.")] = False,
    people: Annotated[int, typer.Option(min=1, max=50, help="How many made-up people.")] = 3,
    hours: Annotated[float, typer.Option(min=1, max=14, help="How long a made-up day is, from eight o'clock.")] = 3.0,
    at_least: Annotated[int, typer.Option(min=2, help="Say nothing about places with fewer people.")] = 5,
    home: Annotated[Path | None, typer.Option(help="An empty directory for everything (default: temporary).")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of gateway and dashboard; 0: a free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Play an example; exits 1 if anything was lost or any answer differs from that of a run without failures."""
    from shared.errors import UsageError

    if name not in EXAMPLES:
        raise UsageError(f"no example {name!r}; known: {', '.join(EXAMPLES)}", code="example-unknown")
    from resurge.examples.trips.people import made_up_people, read_people
    from resurge.examples.trips.play import play
    from resurge.examples.trips.schedule import DEFAULT

    everyone = made_up_people(people, hours) if recording is None else read_people(recording)
    schedule = "" if without_outages else DEFAULT if outages is None else outages.read_text(encoding="utf-8")
    directory = home or Path(tempfile.mkdtemp(prefix="resurge-trips-"))
    failed = True
    try:
        outcome = play(
            directory, everyone, length_s=length_s, schedule=schedule, at_least=at_least, port=port,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )  # fmt: skip
        failed = bool(outcome.problems())
    finally:
        if home is None and not failed:
            shutil.rmtree(directory, ignore_errors=True)
        elif home is None:
            print(f"Everything is in {directory}", file=sys.stderr)
    if as_json:
        print(json.dumps(outcome.as_json()))
    else:
        for title, figure in outcome.as_json().items():
            print(f"{title.replace('_', ' '):<22} {figure}")
    for problem in outcome.problems():
        print(f"resurge example: {problem} [example-account]", file=sys.stderr)
    if failed:
        raise typer.Exit(1)
