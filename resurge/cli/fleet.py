"""`resurge fleet`: nodes that run one program's vertices together."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Nodes that run a query together: cards, where vertices run, results.", no_args_is_help=True)

Home = Annotated[Path, typer.Option(help="The home of a node of the fleet.")]
Gateway = Annotated[Path | None, typer.Option(help="Ask the gateway of this home, which coordinates.")]
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
def show(
    home: Home = DEFAULT_HOME,
    gateway: Gateway = None,
    as_json: Json = False,
) -> None:
    """Where each vertex runs, who keeps its snapshots, and what moved, as the running node of this home says."""
    from mobile_app.screens.words.number_text import moment
    from resurge.cli.fleet_lines import fleet_lines, governed_lines

    if gateway is not None:
        from resurge.cli.gateway_api import Api

        found = Api(gateway).get("/fleets")["fleets"]
        if as_json:
            print(json.dumps({"fleets": found}))
        for each in [] if as_json else found:
            print("\n".join(governed_lines(each)))
        return
    view = _view(home.expanduser())
    if as_json:
        print(json.dumps(view["fleet"]))
        return
    if not view["running"]:
        print(f"the node does not run; as of {moment(view['time_us'])}:")
    for line in fleet_lines(view["fleet"], view["time_us"]):
        print(line)


@app.command()
def move(
    query: Annotated[str, typer.Argument(help="The query's name.")],
    vertex: Annotated[str, typer.Argument(help="Which of its vertices; `resurge fleet show` lists them.")],
    *,
    to: Annotated[str, typer.Option("--to", help="The node that it shall run on.")],
    leaving: Annotated[str, typer.Option("--from", help="Where copies run: the node that it leaves.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")] = False,
    home: Home = DEFAULT_HOME,
    gateway: Gateway = None,
    as_json: Json = False,
) -> None:
    """Move a vertex to another node while it runs. `--home` is that of the coordinating node. Exits 1 if it stays."""
    from resurge.fleet_moves import ask_gateway_to_move, ask_to_move
    from shared.hosting.fleet_words import answer_words, preview_words
    from shared.moves import GIVEN_UP, MoveRequest

    request = MoveRequest(query, vertex, to, leaving, dry_run)
    if gateway is not None:
        answer = ask_gateway_to_move(gateway.expanduser(), request)
    else:
        answer = ask_to_move(home.expanduser(), request)
    if as_json:
        print(json.dumps(asdict(answer)))
    elif dry_run and answer.preview is not None:
        print("\n".join(preview_words(vertex, answer.preview)))
    else:
        print(answer_words(answer))
    raise typer.Exit(1 if answer.state == GIVEN_UP else 0)


@app.command()
def results(  # noqa: PLR0917 - options of a command
    query: Annotated[str, typer.Argument(help="The query's name in the fleet's file.")],
    sink: Annotated[str, typer.Argument(help="What its program subscribes to.")],
    fleet: Annotated[Path | None, typer.Option(help="The fleet's file; else what this node was told to run.")] = None,
    home: Home = DEFAULT_HOME,
    last: Annotated[int, typer.Option(help="So many of the newest rows; 0: all.")] = 10,
    as_json: Json = False,
) -> None:
    """Print what ended in a sink of this home: every result once, in order. Works while the node runs, too."""
    from mobile_app.node.hosting import FOLDER
    from shared.errors import UsageError
    from shared.hosting.fleet_file import read_fleet
    from shared.hosting.sink import sink_rows
    from shared.hosting.store import Memory
    from shared.language.registry import references
    from shared.plan.deployment import decode_deployment
    from shared.spool.disk import PosixDisk
    from shared.stream.program import load_operators

    disk = PosixDisk(home.expanduser() / FOLDER)
    if fleet is not None:
        load_operators(fleet.resolve().parent)
        known = read_fleet(fleet, sorted(references())).hosted()
    else:
        load_operators(home.expanduser())
        told = Memory.read(disk).deployment
        known = decode_deployment(told).queries if told else ()
    hosted = next((each for each in known if each.name == query), None)
    if hosted is None:
        raise UsageError(f"the fleet has no query {query!r}", code="fleet-file")
    rows, lost = sink_rows(disk, hosted, sink)
    shown = rows[-last:] if last else rows
    if as_json:
        print(json.dumps({"query": query, "sink": sink, "results": len(rows), "lost": lost, "rows": shown}))
        return
    for row in shown:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    print(f"{len(rows)} results" + (f", {lost} lost" if lost else ""))


def _view(home: Path) -> dict[str, Any]:
    from mobile_app.service.inspection import inspect
    from shared.errors import UsageError

    try:
        view = inspect(home)
    except UsageError:
        view = {}
    if view.get("fleet") is None:
        raise UsageError(
            f"no node of a fleet runs in {str(home)!r}; start it with --host ADDRESS or --fleet FILE", code="fleet-home"
        )
    return view


@app.command("try")
def try_it(
    seconds: Annotated[float, typer.Option("--for", min=20, max=600, help="So many seconds of readings.")] = 40.0,
    strategy: Annotated[
        str, typer.Option(help="Of recovery (docs/recovery.md); else what the program promises picks it.")
    ] = "",
    home: Annotated[Path | None, typer.Option(help="An empty directory for everything (default: temporary).")] = None,
    as_json: Json = False,
) -> None:
    """Five nodes on this machine share a program, one is killed; exits 1 if anything in the results differs."""
    import shutil
    import sys
    import tempfile

    from resurge.up.fleet_trial import fleet_trial

    folder = home or Path(tempfile.mkdtemp(prefix="resurge-fleet-"))
    folder.mkdir(parents=True, exist_ok=True)
    outcome = fleet_trial(
        folder.resolve(), seconds=seconds, strategy=strategy, say=lambda line: print(line, file=sys.stderr, flush=True)
    )
    if home is None and outcome.equal:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print(json.dumps(asdict(outcome) | {"equal": outcome.equal}))
    else:
        same = "the same as" if outcome.equal else "NOT the same as"
        print(f"{outcome.results} results, digest {outcome.digest}: {same} without failures ({outcome.expected})")
    raise typer.Exit(0 if outcome.equal else 1)
