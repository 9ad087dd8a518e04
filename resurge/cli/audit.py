"""`resurge audit`: who did what, and what needs attention now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.asking import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Limit = Annotated[int, typer.Option(min=1, max=1000, help="how many, newest first")]


@app.command("list")
def list_lines(home: Home = DEFAULT_HOME, limit: Limit = 30, watch: Watch = False, as_json: AsJson = False) -> None:
    """Who did what, newest first."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(
            ("when", "who", "did", "to", "detail"),
            (
                (ago(each["at_us"]), each["person"], each["action"], each["subject"], each["detail"])
                for each in value["lines"]
            ),
        )

    present(lambda: api.get("/audit", limit=limit), picture, as_json=as_json, watch=watch)


@app.command()
def verify(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Whether every line is as it was written."""
    value = Api(home).get("/audit/verify")
    done(f"{value['lines']} lines, all as they were written", value, as_json=as_json)


@app.command()
def alerts(home: Home = DEFAULT_HOME, limit: Limit = 30, watch: Watch = False, as_json: AsJson = False) -> None:
    """What needs attention now, and what did."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(
            ("alert", "began", "ended", "detail"),
            (
                (
                    each["kind"], ago(each["began_us"]), "open" if each["ended_us"] is None else ago(each["ended_us"]),
                    each["detail"],
                )
                for each in value["alerts"]
            ),
        )  # fmt: skip

    present(lambda: api.get("/alerts", limit=limit), picture, as_json=as_json, watch=watch)
