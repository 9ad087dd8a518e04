"""`resurge fleet`: nodes that run one program's vertices together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Nodes that run a query together: cards, where vertices run, results.", no_args_is_help=True)

Home = Annotated[Path, typer.Option(help="The home of a node of the fleet.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
DEFAULT_HOME = Path("~/.resurge")


@app.command()
def card(
    name: Annotated[str, typer.Option(help="What the fleet's file calls this node.")],
    home: Home = DEFAULT_HOME,
    listen: Annotated[str, typer.Option(help="tcp://HOST:PORT where the other nodes reach it; empty: nowhere.")] = "",
) -> None:
    """Print this node's entry for the fleet's file. Its keys are made on first use; only public halves are printed."""
    from mobile_app.home.keys import load_keys
    from mobile_app.home.peer_keys import load_curve_keys

    folder = home.expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    print("[[node]]")
    print(f"name = {json.dumps(name)}")
    print(f'public_key = "{load_keys(folder).public_key.hex()}"')
    print(f"curve_key = {json.dumps(load_curve_keys(folder).public)}")
    if listen:
        print(f"address = {json.dumps(listen)}")


@app.command()
def show(home: Home = DEFAULT_HOME, as_json: Json = False) -> None:
    """Where each vertex runs, who keeps its snapshots, and what moved, as the running node of this home says."""
    view = _view(home.expanduser())
    if as_json:
        print(json.dumps(view))
        return
    for placed in view["placements"]:
        print(
            f"{placed['query']}  {placed['vertex']}  on {', '.join(placed['hosts'])}  kept by "
            f"{', '.join(placed['keepers']) or 'nobody'}  term {placed['term']}  {placed['strategy']}"
        )
    for waits in view["waits"]:
        promise = "no delay is promised" if waits["delay_s"] is None else f"{waits['delay_s']:.3g} s are promised"
        print(
            f"{waits['query']}  moves from a node that is silent for {waits['silence_s']:.3g} s ({promise}, a recovery "
            f"takes {waits['recovery_s']:.2g} s)"
        )
    for one in view["instances"]:
        state = f"failed: {one['failed']}" if one["failed"] else f"{one['taken']} in, {one['made']} out"
        permanent = "no snapshot yet" if one["permanent"] is None else f"snapshot {one['permanent']}"
        print(f"here  {one['query']}  {one['vertex']}  term {one['term']}  {state}  {permanent}")
    for sink in view["sinks"]:
        print(f"sink  {sink['query']}  {sink['sink']}  {sink['taken']} results")
    for event in view["events"][-10:]:
        print(f"  {event['text']}")


@app.command()
def results(  # noqa: PLR0917 - options of a command
    query: Annotated[str, typer.Argument(help="The query's name in the fleet's file.")],
    sink: Annotated[str, typer.Argument(help="What its program subscribes to.")],
    fleet: Annotated[Path, typer.Option(help="The fleet's file.")],
    home: Home = DEFAULT_HOME,
    last: Annotated[int, typer.Option(help="So many of the newest rows; 0: all.")] = 10,
    as_json: Json = False,
) -> None:
    """Print what ended in a sink of this home: every result once, in order. Works while the node runs, too."""
    from mobile_app.node.hosting import FOLDER
    from shared.errors import UsageError
    from shared.hosting.fleet_file import read_fleet
    from shared.hosting.sink import sink_rows
    from shared.language.registry import references
    from shared.spool.disk import PosixDisk
    from shared.stream.program import load_operators

    load_operators(fleet.resolve().parent)
    hosted = next((each for each in read_fleet(fleet, sorted(references())).hosted() if each.name == query), None)
    if hosted is None:
        raise UsageError(f"the fleet has no query {query!r}", code="fleet-file")
    rows, lost = sink_rows(PosixDisk(home.expanduser() / FOLDER), hosted, sink)
    shown = rows[-last:] if last else rows
    if as_json:
        print(json.dumps({"query": query, "sink": sink, "results": len(rows), "lost": lost, "rows": shown}))
        return
    for row in shown:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    print(f"{len(rows)} results" + (f", {lost} lost" if lost else ""))


def _view(home: Path) -> dict[str, Any]:
    from shared.errors import UsageError

    try:
        view = json.loads((home / "status.json").read_text()).get("fleet")
    except FileNotFoundError:
        view = None
    if view is None:
        raise UsageError(f"no node of a fleet runs in {str(home)!r}; start it with --fleet FILE", code="fleet-home")
    found: dict[str, Any] = view
    return found
