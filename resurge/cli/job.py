"""`resurge job`: what the Spark vertices are doing, and undoing what they did."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, present, table

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="See and roll back Spark vertices."
)

StoreOption = Annotated[Path, typer.Option("--store", help="the job's store", envvar="RESURGE_STORE")]
DEFAULT_STORE = DEFAULT_HOME.parent / "spark"  # where `resurge up` and docs/operations.md put it


@app.command("list")
def list_vertices(store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """The vertices, how far each has come and what it keeps."""
    value = {"vertices": _vertices(store)}
    if as_json:
        print(json.dumps(value))
        return
    for each in value["vertices"]:
        print(
            f"{each['name']:<28} epoch {each['position']:>6}  {each['ranges']:>2} ranges  "
            f"state {each['state_bytes'] / 1e6:8.2f} MB  oldest epoch kept {each['oldest']}"
        )


@app.command()
def status(store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """The running driver, its epochs, and everything that needs attention."""
    value = _facts(store)
    if as_json:
        print(json.dumps(value))
        return
    running = "running" if value["alive"] else "not running"
    print(f"driver {value['owner'] or 'none'} ({running}), term {value['term']}")
    print(f"  epoch {value['epoch']}, stable up to {value['stable']}, {value['backlog_bytes'] / 1e6:.1f} MB behind")
    if value["lag_s"]:
        print(f"  the oldest epoch that is not worked off was cut {value['lag_s']:,.0f} s ago")
    print(f"  {_reach(value['kept'])}")
    for name, reason in value["parked"].items():
        print(f"  parked: {name}: {reason}")
        if reason.startswith("cluster: "):
            continue
        vertex = name.rpartition(" ")[0]
        print(f"    to go on: resurge job rollback {vertex} --to EPOCH --program corrected.py, or restart the job")
    for number in value["torn_entries"][-5:]:
        print(f"  manifest entry {number} was torn by a power cut and does not count; its step runs again")
    for each in value["exceptions"][-5:]:
        times = f" ({each['times']} times)" if each["times"] > 1 else ""
        print(f"  {each['kind']}: {each['vertex']} {each['range']} in epoch {each['epoch']}: {each['message']}{times}")
    print(f"  quarantined batches: {value['quarantined_count']}")
    for entry in value["quarantined"][-5:]:
        place = f"{entry['edge']} {entry['device'][:8]} [{entry['lo']}, {entry['hi']})"
        print(f"    {place}: {entry['reason']}")
    print(f"  late rows: {sum(each['rows'] for each in value['late']):,}")
    for entry in value["late"]:
        print(f"    {entry['rows']:,} {entry['reason']}: {entry['operator']} ({entry['line']})")
    for entry in value["rollbacks"][-5:]:
        taken_back = f", taken back by entry {entry['undone']}" if entry["undone"] else ""
        moved = ", ".join(f"{vertex} {text}" for vertex, text in entry["moved"])
        print(f"  entry {entry['n']}: rolled back to {entry['to']}: {moved} ({entry['reason']}{taken_back})")


@app.command()
def rollback(
    vertex: Annotated[str, typer.Argument(help="the vertex whose work is undone; `resurge job list` names them")],
    *,
    to: Annotated[
        str, typer.Option("--to", help="the last epoch to keep, a savepoint, or a time such as 2026-05-01T14:30")
    ],
    store: StoreOption = DEFAULT_STORE,
    ranges: Annotated[list[str], typer.Option("--range", help="only these hash ranges, as LO-HI")] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what it would take")] = False,
    program: Annotated[Path | None, typer.Option("--program", help="the corrected program, same shape")] = None,
    rule: Annotated[str, typer.Option("--rule", help="changed, sonora or full, for comparison")] = "changed",
    as_json: AsJson = False,
) -> None:
    """Undo a vertex's work after an epoch, while everything outside the rollback set keeps running."""
    from cloud_backend.spark.rollback.roll_back import roll_back
    from cloud_backend.spark.rollback.savepoints import epoch_meant
    from cloud_backend.spark.slots import Range
    from shared.recovery.rollback import Rule

    fixed = None
    if program is not None:
        from shared.stream.program import load_program

        fixed = load_program(program)
    answer = roll_back(
        store, vertex, epoch_meant(store, to), ranges=[Range.parse(text) for text in ranges] or None, dry_run=dry_run,
        fixed=fixed, rule=Rule(rule),
    )  # fmt: skip
    value = answer.to_json() | {"dry_run": dry_run}
    if as_json:
        print(json.dumps(value))
        return
    print(f"back to epoch {value['epoch']}")
    if value["in_words"]:
        print(f"  {value['in_words']}")
    for name in value["rollback"]:
        print(f"  rolls back  {name:<32} {value['reasons'][name]}")
    for name, first in value["replay"].items():
        print(f"  replays     {name:<32} from epoch {first}")
    spent = value["cost"]
    read = spent["state_bytes"] + spent["replay_bytes"]
    print(f"  reads {read / 1e6:.2f} MB, about {spent['task_seconds']:.1f} s of tasks")
    print("nothing was changed (--dry-run)" if dry_run else f"done: manifest entry {value['entry']}")


@app.command()
def undo(
    entry: Annotated[int, typer.Argument(help="the rollback's manifest entry; `resurge job status` shows it")],
    *,
    store: StoreOption = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say how it would be done")] = False,
    as_json: AsJson = False,
) -> None:
    """Take a rollback back: the runs it replaced count again, under higher revisions."""
    from cloud_backend.spark.rollback.undo import undo

    answer = undo(store, entry, dry_run=dry_run).to_json()
    if as_json:
        print(json.dumps(answer | {"dry_run": dry_run}))
        return
    for name in answer["restored"]:
        print(f"  counts again  {name}")
    for name in answer["returned"]:
        print(f"  runs again    {name}")
    print("nothing was changed (--dry-run)" if dry_run else f"done: manifest entry {answer['entry']}")


savepoint = typer.Typer(no_args_is_help=True, help="Epochs with a name, kept until it is dropped.")
app.add_typer(savepoint, name="savepoint")
SavepointName = Annotated[str, typer.Argument(help="a letter, then letters, digits, - _ .")]


@savepoint.command()
def create(name: SavepointName, store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Name the newest epoch that every vertex has worked off; it is kept until the name is dropped."""
    from cloud_backend.spark.rollback.savepoints import create_savepoint

    made = create_savepoint(store, name)
    print(json.dumps(made.to_json()) if as_json else f"savepoint {name}: epoch {made.epoch}")


@savepoint.command("list")
def list_savepoints(store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Every savepoint, the oldest first."""
    found = _facts(store)["kept"]["savepoints"]
    if as_json:
        print(json.dumps({"savepoints": found}))
        return
    for each in found:
        print(f"{each['name']:<40} epoch {each['epoch']:>6}  {_moment(each['at_us'])}")


@savepoint.command()
def drop(name: SavepointName, store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Drop a savepoint; its epoch is collected with the next round, unless it is kept anyway."""
    from cloud_backend.spark.rollback.savepoints import drop_savepoint

    dropped = drop_savepoint(store, name)
    print(json.dumps(dropped.to_json()) if as_json else f"dropped {name}, epoch {dropped.epoch}")


@app.command()
def names(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Every job of a running gateway: the program's and the queries'."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> Any:
        return table(
            ("job", "kind", "state", "error"),
            ((each["name"], each["kind"], each.get("state", ""), each.get("error", "")) for each in value["jobs"]),
        )

    present(lambda: api.get("/jobs"), picture, as_json=as_json, watch=watch)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="a job's name; `resurge job names` shows them")] = "main",
    home: Home = DEFAULT_HOME,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """One job of a running gateway: every vertex by range, how far it is and how loaded."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> Any:
        made = table(
            ("vertex", "range", "epoch", "behind", "load", "rows", "state"),
            (
                (
                    vertex["name"], each["range"], each["position"], each["epochs_behind"],
                    "" if each["load"] is None else f"{each['load']:.0%}", each["rows_in"],
                    f"{each['state_bytes'] / 1e6:.2f} MB",
                )
                for vertex in value["vertices"]
                for each in vertex["ranges"]
            ),
        )  # fmt: skip
        made.caption, made.caption_justify = _reach(value["kept"]), "left"
        return made

    present(lambda: api.get(f"/jobs/{name}"), picture, as_json=as_json, watch=watch)


def _vertices(store: Path) -> list[dict[str, Any]]:
    return [
        {key: each[key] for key in ("name", "position", "oldest", "state_bytes")} | {"ranges": len(each["ranges"])}
        for each in _facts(store)["vertices"]
    ]


def _facts(store: Path) -> dict[str, Any]:
    from cloud_backend.spark.job_facts import job_facts

    return job_facts(store)


def _reach(kept: dict[str, Any]) -> str:
    """How far back a rollback can go, and what that costs."""
    since = f", {_moment(kept['oldest_us'])}" if kept["oldest_us"] else ""
    bound = f" (at most {kept['hours']:g} h, {kept['bytes_max'] / 1e9:.1f} GB)" if kept["bytes_max"] else ""
    return (
        f"rollback reaches back to epoch {kept['oldest']}{since}: every epoch from {kept['every_from']} on, "
        f"{len(kept['points'])} points before, {len(kept['savepoints'])} savepoints; {kept['files']} files, "
        f"{kept['file_bytes'] / 1e6:.1f} MB, {kept['log_bytes'] / 1e6:.1f} MB of log{bound}"
    )


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at_us else ""
