"""`resurge program`: what phones and Spark run, and deploying a changed one through the gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, done, present, table
from resurge.cli.own_modules import Modules

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.command()
def show(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """The version that is deployed, the one Spark runs, and how many devices run which."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        rows = [("deployed", f"version {value['version']}")]
        rows.append(("Spark", "not yet" if value["spark"] is None else f"version {value['spark']}"))
        for each in value["devices"]:
            version = "version unknown" if each["version"] is None else f"version {each['version']}"
            rows.append((_devices(each["devices"]), version))
        for each in value["groups"]:
            own = "the program of all" if each["version"] is None else f"its own, version {each['version']}"
            rows.append((f"group {each['name']}, {_devices(each['devices'])}", own))
        return table((f"program {value['name']}", ""), rows)

    present(lambda: api.get("/program"), picture, as_json=as_json, watch=watch)


@app.command()
def deploy(
    file: Annotated[Path, typer.Argument(help="the changed program: a Python file that uses resurge")],
    *,
    group: Annotated[str, typer.Option(help="for the phones of this group alone; default: for all, and Spark")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what it would mean")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    module: Modules = (),
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Say what changes, what starts anew and what state is kept; then, if that is wanted, do it."""
    from shared.plan.encoding import encode_plan
    from shared.stream.program import read_program

    api = Api(home)
    plan = json.loads(encode_plan(read_program(file, module).plan()))
    wanted = {"plan": plan, "group": group}
    found = api.post("/program", {**wanted, "dry_run": True})
    if not as_json:
        print(f"version {found['version']} in the place of {found['before']}:")
        for line in found["words"]:
            print(f"  {line}")
    if dry_run:
        print(json.dumps(found) if as_json else "nothing was changed (--dry-run)")
        return
    if not yes:
        typer.confirm("Deploy it?", abort=True, err=True)
    found = api.post("/program", {**wanted, "dry_run": False})
    done(f"version {found['version']} is deployed; `resurge program show` tells who runs it", found, as_json=as_json)


@app.command()
def withdraw(
    group: Annotated[str, typer.Argument(help="a group with a program of its own")],
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Have a group's phones run the program of all again."""
    Api(home).post(f"/groups/{group}/withdraw", {})
    done(f"the phones of group {group} take the program of all with their next exchange", {}, as_json=as_json)


def _devices(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"
