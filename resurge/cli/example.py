"""`resurge example run trips`: a finished application, played by the whole product over recorded or made-up people."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

EXAMPLES = {"trips": "where one went, how, and what it cost the air (docs/trips.md)"}
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@app.command("list")
def list_examples(as_json: Json = False) -> None:
    """The examples there are."""
    print(json.dumps({"examples": EXAMPLES}) if as_json else "\n".join(f"{k}  {v}" for k, v in EXAMPLES.items()))


Name = Annotated[str, typer.Argument(help="which one; `resurge example list` names them")]
Recording = Annotated[
    Path | None,
    typer.Option(
        help="A folder, or one file, of recordings: GeoLife, GPX, Sensor Logger, phyphox, zipped or not "
        "(default: made-up people)."
    ),
]
People = Annotated[int, typer.Option(min=1, max=50, help="How many made-up people.")]
Hours = Annotated[float, typer.Option(min=1, max=14, help="How long a made-up day is, from eight o'clock.")]
AtLeast = Annotated[int, typer.Option(min=2, help="Say nothing about places with fewer people.")]


@app.command("run")
def run_example(
    name: Name,
    *,
    length_s: Annotated[float, typer.Option("--for", min=20, metavar="S", help="Play it in this many seconds.")] = 60.0,
    recording: Recording = None,
    outages: Annotated[
        Path | None, typer.Option(help="Who loses the network when (default: everyone, 20 minutes mid-trip).")
    ] = None,
    without_outages: Annotated[bool, typer.Option("--without-outages", help="A run without failures.")] = False,
    people: People = 3,
    hours: Hours = 3.0,
    at_least: AtLeast = 5,
    zone: Annotated[
        str | None,
        typer.Option(help="Of days and times, like Europe/Zurich (default: days of UTC, times by the sun)."),
    ] = None,
    home: Annotated[Path | None, typer.Option(help="An empty directory for everything (default: temporary).")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of gateway and dashboard; 0: a free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Play an example; exits 1 if anything was lost or any answer differs from that of a run without failures."""
    _check(name)
    from resurge.examples.trips import summary
    from resurge.examples.trips.outages import DEFAULT
    from resurge.examples.trips.people import load_people
    from resurge.examples.trips.play import play

    everyone = load_people(recording, people, hours, battery=True, say=_say)
    schedule = "" if without_outages else DEFAULT if outages is None else outages.read_text(encoding="utf-8")
    directory = home or Path(tempfile.mkdtemp(prefix="resurge-trips-"))
    failed = True
    try:
        outcome = play(
            directory, everyone, length_s=length_s, schedule=schedule, at_least=at_least, zone=zone or "UTC", port=port,
            recorded=recording is not None,
            say=_say,
        )  # fmt: skip
        failed = bool(outcome.problems())
    finally:
        if home is None and not failed:
            shutil.rmtree(directory, ignore_errors=True)
        elif home is None:
            print(f"Everything is in {directory}", file=sys.stderr)
    _report(outcome.as_json(), as_json, summary.of_run(outcome.as_json(), outcome.report, zone))
    for problem in outcome.problems():
        print(f"resurge example: {problem} [example-account]", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


@app.command("recover")
def recover_example(
    name: Name,
    *,
    recording: Recording = None,
    people: People = 6,
    hours: Hours = 6.0,
    at_least: AtLeast = 5,
    as_json: Json = False,
) -> None:
    """Lose one hash range of the trips vertex while epochs go on: R, E and bytes, against full rollback."""
    _check(name)
    from cloud_backend.spark.cluster.session import LocalRunner
    from resurge.examples.trips import summary
    from resurge.examples.trips.lose_range import lose_a_range
    from resurge.examples.trips.people import load_people
    from resurge.examples.trips.report import trips_plan

    plan = trips_plan(recorded=True, at_least=at_least)
    with tempfile.TemporaryDirectory(prefix="resurge-trips-") as directory:
        found = lose_a_range(
            Path(directory), plan, load_people(recording, people, hours, say=_say), LocalRunner(), epochs=16
        )
    _report(found.as_json(), as_json, summary.of_recovery(found.as_json()))


@app.command("move")
def move_example(
    name: Name,
    *,
    recording: Recording = None,
    people: People = 3,
    hours: Hours = 6.0,
    at_least: AtLeast = 5,
    as_json: Json = False,
) -> None:
    """Tell modes on the phone, or in the cloud, by moving one line: answers, bytes and modelled energy of both."""
    _check(name)
    from resurge.examples.trips import summary
    from resurge.examples.trips.move_modes import compare
    from resurge.examples.trips.people import load_people

    with tempfile.TemporaryDirectory(prefix="resurge-trips-") as directory:
        found = compare(Path(directory), load_people(recording, people, hours, say=_say), at_least=at_least)
    _report(found, as_json, summary.of_move(found))


def _check(name: str) -> None:
    from shared.errors import UsageError

    if name not in EXAMPLES:
        raise UsageError(f"no example {name!r}; known: {', '.join(EXAMPLES)}", code="example-unknown")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(values: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    print(json.dumps(values) if as_json else "\n".join(lines))
