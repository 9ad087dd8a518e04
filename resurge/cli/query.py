"""`resurge query`: ask the streams something beside the program.

On a gateway each query runs as a Spark job of its own. Where it is said which nodes feed it or may run it, or the home
is that of a coordinating node, it runs on the nodes of a fleet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from resurge.cli.coordinator_api import ask_coordinator, is_node_home
from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table
from resurge.cli.own_modules import Modules

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="the query's name")]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="what the query is to be called")]
Sql = Annotated[
    str | None,
    typer.Argument(
        metavar="SQL|FILE",
        help="SELECT ... FROM stream ..., of a gateway's streams or a fleet's gathers; or a program, for a fleet",
    ),
]
Sources = Annotated[
    list[str] | None, typer.Option("--from", help="fleet: a node whose sensors feed it; may be repeated")
]
SinkNode = Annotated[
    str, typer.Option("--to", help="fleet: the node where its results end (default: the one that coordinates)")
]
Place = Annotated[
    str, typer.Option("--place", help="fleet: push-down (default), bottom-up, top-down, cloud-only or spread")
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", help="fleet: only this node may run it, or VERTEX=NODE for one vertex; may be repeated"),
]
Strategy = Annotated[str, typer.Option(help="fleet: of recovery; else what the program promises picks it")]
Every = Annotated[int | None, typer.Option(help="fleet: elements between two snapshots")]
Keepers = Annotated[int, typer.Option(help="fleet: other nodes that keep each vertex's snapshots")]
Absent = Annotated[
    str, typer.Option(help="fleet: how long a node may be silent before anything moves, like 5m; else what is promised")
]
Forward = Annotated[
    str, typer.Option(help="fleet: how rows go that cannot go directly: dynamic (default), or paths:2 to paths:8")
]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="a plan, as `resurge plan FILE --json` prints it")]
Format = Annotated[
    Literal["csv", "json", "parquet", "geojson", "gpx"], typer.Option("--format", help="how the rows are written")
]


@app.command("list")
def list_queries(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Every query, and what its job does; of a fleet, where its vertices run."""
    from resurge.cli.fleet_query import query_rows

    def on_fleet(value: dict[str, Any]) -> RenderableType:
        columns = ("query", "by", "place", "strategy", "from", "to", "vertices")
        return table(columns, query_rows(value))

    if is_node_home(home):
        present(lambda: ask_coordinator(home, "queries"), on_fleet, as_json=as_json, watch=watch)
        return
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        from rich.console import Group

        spark = table(
            ("query", "state", "rows", "by", "submitted", "text"),
            (
                (
                    each["name"], each["state"] + (f": {each['error']}" if each["error"] else ""), f"{each['rows']:,}",
                    each["person"], ago(each["submitted_us"]), each["text"][:200],
                )
                for each in value["queries"]
            ),
        )  # fmt: skip
        return Group(spark, on_fleet(value["fleet"])) if value["fleet"]["queries"] else spark

    present(
        lambda: api.get("/queries") | {"fleet": ask_coordinator(home, "queries")}, picture, as_json=as_json, watch=watch
    )


@app.command()
def explain(  # noqa: PLR0917 - options of a command
    sql: Sql = None,
    plan: PlanFile = None,
    name: Annotated[str, typer.Option("--name", help="what its sink would be called")] = "query",
    source: Sources = None,
    to: SinkNode = "",
    place: Place = "",
    on: On = None,
    strategy: Strategy = "",
    every: Every = None,
    keepers: Keepers = 1,
    fleet: Annotated[Path | None, typer.Option(help="the file of a fleet, when its coordinator does not run")] = None,
    module: Modules = (),
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """What a query means: graph, vertices, and why. For a fleet, where it would run and why. Nothing runs."""
    placing = _Placing(source or [], to, place, on or [], strategy, every, keepers)
    if fleet is None and not placing.asks_fleet(sql, home):
        value = Api(home).post("/queries/explain", {"name": name, **_asked(sql, plan)})
        print(json.dumps(value) if as_json else value["explanation"])
        return
    from resurge.cli.fleet_query import explain_offline, where_lines

    found = _fleet_plan(name, sql, plan, home, module, running=fleet is None)
    if fleet is None:
        value = ask_coordinator(home, "submit", name=name, plan=found, dry_run=True, **placing.arguments())
    else:
        from shared.plan.encoding import decode_plan

        value = explain_offline(decode_plan(json.dumps(found).encode()), name, fleet, placing.arguments())
    print(json.dumps(value) if as_json else "\n".join(where_lines(value)))


@app.command()
def submit(  # noqa: PLR0917 - options of a command
    name: NewName,
    sql: Sql = None,
    plan: PlanFile = None,
    source: Sources = None,
    to: SinkNode = "",
    place: Place = "",
    on: On = None,
    strategy: Strategy = "",
    every: Every = None,
    keepers: Keepers = 1,
    absent: Absent = "",
    forward: Forward = "",
    module: Modules = (),
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Run a query. On a gateway its rows appear under its name within an epoch or two; on a fleet, in its sinks."""
    placing = _Placing(source or [], to, place, on or [], strategy, every, keepers, absent, forward)
    _require_name(name, sql, plan)
    if not placing.asks_fleet(sql, home):
        value = Api(home).post("/queries", {"name": name, **_asked(sql, plan)})
        done(f"{name} is wanted; `resurge query list --watch` shows how it comes up", value, as_json=as_json)
        return
    from resurge.cli.fleet_query import where_lines

    found = _fleet_plan(name, sql, plan, home, module)
    value = ask_coordinator(home, "submit", name=name, plan=found, **placing.arguments())
    show = f"resurge fleet show --{'home' if is_node_home(home) else 'gateway'} {home}"
    done("\n".join([*where_lines(value), f"{name} begins; `{show}` says how"]), value, as_json=as_json)


@app.command()
def edit(  # noqa: PLR0917 - options of a command
    name: Name,
    sql: Sql = None,
    plan: PlanFile = None,
    module: Modules = (),
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Give a query that runs on a fleet other filters and projections right behind .gather(). It goes on where it is;
    rows that have met the old ones finish with them."""
    from shared.hosting.fleet_words import applied_lines

    _require_name(name, sql, plan)
    value = ask_coordinator(home, "edit", name=name, plan=_fleet_plan(name, sql, plan, home, module))
    said = f"{name} goes on as edited" if value["edited"] else f"{name} is as it was"
    done("\n".join([said, *applied_lines(value["applied"])]), value, as_json=as_json)


@app.command()
def stop(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Pause it: it keeps its place in the log and what it published."""
    _only_a_gateway(home, "stops")
    done(f"{name} stops after the epoch at hand", Api(home).post(f"/queries/{name}/stop"), as_json=as_json)


@app.command()
def resume(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Go on where it stopped."""
    _only_a_gateway(home, "resumes")
    done(f"{name} goes on", Api(home).post(f"/queries/{name}/resume"), as_json=as_json)


@app.command()
def drop(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Forget it, its job and its results. On a fleet, what ended in its sink stays in that node's files."""
    if is_node_home(home) or _is_on_fleet(home, name):
        done(f"{name} is dropped", ask_coordinator(home, "drop", name=name), as_json=as_json)
        return
    done(f"{name} is dropped, and its results with it", Api(home).delete(f"/queries/{name}"), as_json=as_json)


@app.command()
def rows(
    sink: Annotated[str, typer.Argument(help="a query's name, or a sink of the program")],
    home: Home = DEFAULT_HOME,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="how many, newest first")] = 20,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """What it found, newest windows first."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        rows = value["rows"]
        names = list(dict.fromkeys(name for row in rows for name in row["values"]))
        width = max((len(row["key"]) for row in rows), default=0)
        keys = value["key_names"] if len(value["key_names"]) == width else ["key"] * width
        return table(
            (*keys, "window ends", "complete", *names),
            (
                (
                    *(value["device_names"].get(part, part) for part in each["key"]),
                    ago(each["window_end_us"]), "yes" if each["complete"] else "no",
                    *(each["values"].get(name) for name in names),
                )
                for each in rows
            ),
        )  # fmt: skip

    present(lambda: api.get(f"/results/{sink}", limit=limit), picture, as_json=as_json, watch=watch)


@app.command()
def export(
    sink: Annotated[str, typer.Argument(help="a query's name, or a sink of the program")],
    output: Annotated[Path, typer.Argument(help="the file to write")],
    kind: Format = "csv",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Write what it found to a file."""
    data = Api(home).raw(f"/results/{sink}/export", format=kind)
    output.write_bytes(data)
    done(f"wrote {len(data):,} bytes to {output}", {"file": str(output), "bytes": len(data)}, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Placing:
    """What was said of where a query should run."""

    sources: list[str]
    sink: str
    place: str
    on: list[str]
    strategy: str
    every: int | None
    keepers: int
    absent: str = ""
    forward: str = ""

    def asks_fleet(self, sql: str | None, home: Path) -> bool:
        """Whether it is for the nodes of a fleet, and not for Spark."""
        from resurge.cli.fleet_query import is_file

        said = self.sources or self.sink or self.place or self.on or self.strategy or self.every
        return bool(said or self.absent or self.forward) or is_file(sql) or is_node_home(home)

    def arguments(self) -> dict[str, Any]:
        return asdict(self)


def _fleet_plan(
    name: str, sql: str | None, plan: Path | None, home: Path, modules: Sequence[str], *, running: bool = True
) -> dict[str, Any]:
    """The plan that a fleet is asked for, as JSON."""
    from resurge.cli.fleet_query import is_file, plan_of_file, plan_of_sql
    from shared.errors import UsageError
    from shared.plan.encoding import encode_plan

    asked = _asked(sql, plan)
    if "plan" in asked:
        found: dict[str, Any] = asked["plan"]
        return found
    text = str(sql)
    if is_file(text):
        made = plan_of_file(Path(text), modules)
    elif running:
        made = plan_of_sql(text, name, ask_coordinator(home, "queries")["queries"])
    else:
        raise UsageError("SQL is about what a running fleet gathers; give a program", code="query-kind")
    return dict(json.loads(encode_plan(made)))


def _only_a_gateway(home: Path, verb: str) -> None:
    from shared.errors import UsageError

    if is_node_home(home):
        raise UsageError(f"a fleet {verb} no query; drop it, and submit it again", code="query-fleet")


def _is_on_fleet(home: Path, name: str) -> bool:
    """Whether a gateway's fleet runs it, and not Spark; no two have one name."""
    return any(each["name"] == name for each in ask_coordinator(home, "queries")["queries"])


def _require_name(name: str, sql: str | None, plan: Path | None) -> None:
    """What a query is called comes before what it asks; one that was left out is the commonest mistake."""
    from resurge.cli.fleet_query import is_file
    from shared.errors import UsageError

    if sql is not None or plan is not None:
        return
    if not is_file(name) and not name.lstrip().lower().startswith(("select", "with")):
        raise UsageError(f"say what {name!r} asks: SQL, a program's file, or --plan FILE", code="query-kind")
    asked = name if is_file(name) else '"SELECT ..."'
    suggested = Path(name).stem.replace(" ", "_").lower() if is_file(name) else "loud"
    raise UsageError(
        f"a query needs a name, before what it asks: resurge query submit {suggested} {asked}", code="query-name"
    )


def _asked(sql: str | None, plan: Path | None) -> dict[str, Any]:
    from shared.errors import UsageError

    if (sql is None) == (plan is None):
        raise UsageError("give either SQL or --plan FILE", code="query-kind")
    if plan is None:
        return {"sql": sql}
    try:
        return {"plan": json.loads(plan.read_bytes())}
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the plan {str(plan)!r}: {error}", code="plan-json") from None
