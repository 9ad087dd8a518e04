"""`resurge contract`: what each sink promised, what was kept, and whether the signed reports are as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, done, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.command()
def show(
    sink: Annotated[str, typer.Argument(help="a sync edge; without one, all of them in this hour")] = "",
    home: Home = DEFAULT_HOME,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="how many reports of a sink, newest first")] = 24,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """What each sink promised and keeps now; of one sink, its signed reports too."""
    api = Api(home)
    if not sink:
        present(lambda: api.get("/contracts"), _overview, as_json=as_json, watch=watch)
        return
    present(lambda: api.get(f"/contracts/sinks/{sink}", limit=limit), _one, as_json=as_json, watch=watch)


@app.command()
def verify(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Whether every report is as it was signed, and bound to the one before it."""
    value = Api(home).get("/contracts/verify")
    done(f"{value['reports']} reports, all as they were signed", value, as_json=as_json)


def _overview(value: dict[str, Any]) -> RenderableType:
    return table(
        ("sink", "promise", "now", "kept", "99 % within", "longest", "strategy"),
        (
            (each["sink"], each["promise"], _verdict(each["now"]), *_measures(each["now"]), each["row"] or "none")
            for each in value["contracts"]
        ),
    )


def _one(value: dict[str, Any]) -> RenderableType:
    now = value["now"]
    now = [] if now is None else [{"from_us": None, "number": "now", "query": now["query"], **now["now"]}]
    return table(
        ("hour (UTC)", "verdict", "kept", "99 % within", "longest", "given up", "recovered", "report"),
        (
            (
                _hour(each["from_us"]),
                _verdict(each),
                *_measures(each),
                f"{each['ledgered']:,}",
                _recovered(each["query"]),
                str(each["number"]),
            )
            for each in (*now, *value["reports"])
        ),
    )


def _hour(from_us: int | None) -> str:
    from datetime import UTC, datetime

    return "now" if from_us is None else datetime.fromtimestamp(from_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _verdict(findings: dict[str, Any]) -> str:
    return str(findings["verdict"]) + (f": {', '.join(findings['why'])}" if findings["why"] else "")


def _recovered(query: dict[str, Any] | None) -> str:
    """How often and how long parts of a query were recovered; empty where devices send the stream themselves."""
    if query is None:
        return ""
    found = query["recovered"]
    if not found["count"]:
        return "0"
    kinds = ", ".join(f"{count} {kind}" for kind, count in found["kinds"].items())
    doubt = f", {found['not_measured']} not measured" if found["not_measured"] else ""
    return f"{kinds}: {found['seconds']:.1f} s{doubt}"


def _measures(findings: dict[str, Any]) -> tuple[str, str, str]:
    kept, p99_us, max_us = findings["kept"], findings["delay_p99_us"], findings["delay_max_us"]
    return (
        "" if kept is None else f"{100 * kept:.2f} %",
        "" if p99_us is None else f"{p99_us / 1e6:.1f} s",
        "" if max_us is None else f"{max_us / 1e6:.1f} s",
    )
