"""`resurge alert`: what needs attention, and rules on the rows of queries."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="what the rule is called")]


@app.command("list")
def list_alerts(home: Home = DEFAULT_HOME, as_json: AsJson = False, watch: Watch = False) -> None:
    """Alerts, those that are open first, and the rules on results."""
    api = Api(home)
    present(lambda: api.get("/alerts"), _picture, as_json=as_json, watch=watch)


@app.command()
def add(  # noqa: PLR0917 - typer makes options of them
    name: Name,
    query: Annotated[str, typer.Argument(help="the query, or a sink of the program")],
    condition: Annotated[str, typer.Argument(help="a column, a comparison and a value: 'level > 80'")],
    during: Annotated[str, typer.Option("--for", help="for how long, like 5m; left out: one row is enough")] = "",
    phone: Annotated[
        list[str] | None,
        typer.Option(help="who rings: own (whose row it is), a name or an id; may be repeated"),
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Watch the rows of a query, each key by itself, from its next row on."""
    fields = {"name": name, "sink": query, "condition": condition, "during": during, "phones": phone or []}
    added = Api(home).post("/alerts/results", fields)
    done(f"{added['name']} watches {added['sink']}: {added['words']}", added, as_json=as_json)


@app.command()
def remove(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Remove a rule on results; alerts that it opened end."""
    Api(home).delete(f"/alerts/results/{name}")
    done(f"{name} is removed", {"removed": name}, as_json=as_json)


def _picture(found: dict[str, Any]) -> Any:
    from rich.console import Group

    alerts = (
        (each["number"], each["kind"], each["detail"], ago(each["began_us"]),
         "open" if each["ended_us"] is None else f"over {ago(each['ended_us'])}")
        for each in found["alerts"]
    )  # fmt: skip
    rules = (
        (each["name"], each["sink"], each["words"], ", ".join(each["phones"]) or "none")
        for each in found["result_rules"]
    )  # fmt: skip
    return Group(
        table(("number", "kind", "what", "began", "state"), alerts),
        table(("rule", "query", "condition", "phones"), rules),
    )
