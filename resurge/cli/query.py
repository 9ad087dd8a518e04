"""`resurge query`: ask the streams something beside the program; each query runs as a Spark job of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="the query's name")]
Sql = Annotated[str | None, typer.Argument(help="SELECT ... FROM stream ...; `resurge stream list` names the streams")]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="a plan, as `resurge plan FILE --json` prints it")]
Format = Annotated[str, typer.Option("--format", help="csv, parquet, geojson or gpx")]


@app.command("list")
def list_queries(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Every query, and what its job does."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(
            ("query", "state", "rows", "by", "submitted", "text"),
            (
                (
                    each["name"], each["state"] + (f": {each['error']}" if each["error"] else ""), f"{each['rows']:,}",
                    each["person"], ago(each["submitted_us"]), each["text"][:200],
                )
                for each in value["queries"]
            ),
        )  # fmt: skip

    present(lambda: api.get("/queries"), picture, as_json=as_json, watch=watch)


@app.command()
def explain(
    sql: Sql = None,
    plan: PlanFile = None,
    name: Annotated[str, typer.Option("--name", help="what its sink would be called")] = "query",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """What a query means: graph, vertices, and why; nothing runs."""
    value = Api(home).post("/queries/explain", {"name": name, **_asked(sql, plan)})
    print(json.dumps(value) if as_json else value["explanation"])


@app.command()
def submit(
    name: Name, sql: Sql = None, plan: PlanFile = None, home: Home = DEFAULT_HOME, as_json: AsJson = False
) -> None:
    """Run a query; its rows appear under its name within an epoch or two."""
    value = Api(home).post("/queries", {"name": name, **_asked(sql, plan)})
    done(f"{name} is wanted; `resurge query list --watch` shows how it comes up", value, as_json=as_json)


@app.command()
def stop(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Pause it: it keeps its place in the log and what it published."""
    done(f"{name} stops after the epoch at hand", Api(home).post(f"/queries/{name}/stop"), as_json=as_json)


@app.command()
def resume(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Go on where it stopped."""
    done(f"{name} goes on", Api(home).post(f"/queries/{name}/resume"), as_json=as_json)


@app.command()
def drop(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Forget it, its job and its results."""
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
                    *each["key"], ago(each["window_end_us"]), "yes" if each["complete"] else "no",
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
