"""`resurge region`: places where phones that stand together run a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.coordinator_api import ask_coordinator
from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home, Watch, done, present, table
from resurge.cli.own_modules import Modules

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="the region's name, which is its query's, too")]


@app.command()
def add(  # noqa: PLR0917 - options of a command
    name: Name,
    program: Annotated[Path, typer.Argument(help="the program that runs there; it has a .gather()")],
    to: Annotated[str, typer.Option("--to", help="the node where its results end")],
    source: Annotated[list[str] | None, typer.Option("--from", help="a node whose sensors feed it; repeatable")] = None,
    center: Annotated[str, typer.Option(help='the middle of a circle: "LATITUDE,LONGITUDE" in degrees')] = "",
    radius: Annotated[float, typer.Option(min=0, help="of the circle, in metres")] = 0.0,
    corner: Annotated[
        list[str] | None, typer.Option(help='in place of a circle: "LATITUDE,LONGITUDE" of each corner; repeatable')
    ] = None,
    dwell: Annotated[str, typer.Option(help="that a phone stays before it is a member")] = "30s",
    threshold: Annotated[int, typer.Option(min=1, help="members that it needs to run")] = 1,
    strategy: Annotated[str, typer.Option(help="of recovery; else all go back together")] = "",
    every: Annotated[int | None, typer.Option(min=1, help="elements between two snapshots")] = None,
    after: Annotated[
        list[str] | None, typer.Option(help="GATHER=REGION/SINK: what another region feeds; repeatable")
    ] = None,
    module: Modules = (),
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Let the nodes of a fleet form a region: the program runs while enough of them are there."""
    from resurge.cli.fleet_query import plan_of_file
    from shared.language.durations import microseconds
    from shared.plan.encoding import encode_plan

    plan: dict[str, Any] = json.loads(encode_plan(plan_of_file(program, module)))
    value = ask_coordinator(
        home, "add_region", name=name, plan=plan, sources=source or [], sink=to, center=center, radius_m=radius,
        corners=corner or [], dwell_s=microseconds(dwell) / 1e6, threshold=threshold, strategy=strategy, every=every,
        after=after or [],
    )  # fmt: skip
    done(f"{name} forms; it begins when {threshold} are in it (`resurge region list`)", value, as_json=as_json)


@app.command("list")
def list_regions(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Every region: how it is, who is in it, and where it is."""

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(("region", "state", "members", "strategy", "after", "where"), map(_row, value["regions"]))

    present(lambda: ask_coordinator(home, "regions"), picture, as_json=as_json, watch=watch)


@app.command()
def drop(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Form it no more: its members stop and delete what they kept for it. What ended in its sink stays there."""
    done(f"{name} is dropped", ask_coordinator(home, "drop_region", name=name), as_json=as_json)


def _row(region: dict[str, Any]) -> tuple[str, ...]:
    places = [f"{each['name']} ({each['place']})" for each in region["members"]]
    (latitude, longitude), corners = region["points"][0], len(region["points"])
    shape = f"{region['radius_m']:g} m" if corners == 1 else f"{corners} corners"
    members = f"{len(places)} of {region['threshold']} needed" + (f": {', '.join(places)}" if places else "")
    after = ", ".join(region["after"]) or "sensors"
    return region["name"], region["state"], members, region["strategy"], after, f"{latitude:g}, {longitude:g}; {shape}"
