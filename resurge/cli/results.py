"""`resurge results`: what sinks say, sent to receivers and kept in tables elsewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cloud_backend.dataframes.lake import LakeTable

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def _results() -> None:
    """Keep receivers and tables elsewhere level with what sinks say."""


@app.command()
def follow(
    name: Annotated[str, typer.Argument(help="what to call the receiver")],
    sink: Annotated[str, typer.Argument(help="a sink of the program, or a query's name")],
    url: Annotated[str, typer.Argument(help="http(s)://HOST/PATH, or mqtt(s)://[USER@]HOST[:PORT]/TOPIC")],
    *,
    private: Annotated[bool, typer.Option("--private", help="it is on a private network, and that is meant")] = False,
    retained: Annotated[bool, typer.Option("--retained", help="the broker keeps the last row of each topic")] = False,
    new_only: Annotated[bool, typer.Option("--new-only", help="only what is answered from now on")] = False,
    password_file: Annotated[Path | None, typer.Option(help="with the password of the broker's user")] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Send each answer of a sink to a receiver, at least once, in order, with its identity and revision."""
    password = "" if password_file is None else password_file.read_text(encoding="utf-8").strip()
    body = {
        "name": name, "sink": sink, "url": url, "private": private, "retained": retained, "new_only": new_only,
        "password": password,
    }  # fmt: skip
    added = Api(home).post("/followers", body)
    signed = f"; bodies are signed with {added['secret']}, shown this once" if added["secret"] else ""
    done(f"{name} is sent {sink}{signed}", added, as_json=as_json)


@app.command()
def followers(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Who is sent results, and how that goes."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        rows = (
            (each["name"], each["sink"], each["url"], _state(each), f"{each['delivered']:,}", ago(each["delivered_us"]))
            for each in value["followers"]
        )
        return table(("receiver", "sink", "address", "state", "rows", "last taken"), rows)

    present(lambda: api.get("/followers"), picture, as_json=as_json, watch=watch)


def _state(each: dict[str, Any]) -> str:
    return f"failing: {each['problem']}" if each["state"] == "failing" else str(each["state"])


@app.command()
def unfollow(
    name: Annotated[str, typer.Argument(help="a receiver")], home: Home = DEFAULT_HOME, as_json: AsJson = False
) -> None:
    """Send a receiver nothing more."""
    Api(home).delete(f"/followers/{name}")
    done(f"{name} is sent nothing more", {"removed": name}, as_json=as_json)


Followed = Annotated[str, typer.Argument(metavar="{sink}", help="a sink of the program, or a query's name")]
Every = Annotated[float, typer.Option(metavar="S", help="look again after so many seconds; 0: once", min=0)]


@app.command()
def delta(
    sink: Followed,
    to: Annotated[str, typer.Option(help="the Delta table: a directory, made when it is not there")],
    home: Home = DEFAULT_HOME,
    every: Every = 0,
    as_json: AsJson = False,
) -> None:
    """Bring a Delta table level with a sink: corrections replace, what was taken back goes. Killed, it goes on."""
    _require("deltalake", "Delta tables")
    os.environ.setdefault("RUST_LOG", "error")  # what its stores warn of is said in one line where it fails
    from cloud_backend.dataframes.delta import DeltaLake

    _keep_level(sink, DeltaLake(to), to, home=home, every=every, as_json=as_json)


@app.command()
def iceberg(
    sink: Followed,
    *,
    to: Annotated[str, typer.Option(help="a directory, made when it is not there; with --catalog: NAMESPACE.TABLE")],
    catalog: Annotated[str, typer.Option(help="one that pyiceberg is configured for; else there is one in --to")] = "",
    home: Home = DEFAULT_HOME,
    every: Every = 0,
    as_json: AsJson = False,
) -> None:
    """Bring an Iceberg table level with a sink, as a Delta table."""
    _require("pyiceberg", "Iceberg tables")
    from cloud_backend.dataframes.iceberg import IcebergTable

    _keep_level(sink, IcebergTable(to, sink, catalog), to, home=home, every=every, as_json=as_json)


def _require(package: str, what: str) -> None:
    from shared.errors import UsageError

    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{what} need a package: pip install 'resurge[lake]'", code="dataframe-library")


def _keep_level(sink: str, kept: LakeTable, to: str, *, home: Path, every: float, as_json: bool) -> None:
    from cloud_backend.coordinator.backup import Places
    from cloud_backend.database import Served, in_home
    from cloud_backend.dataframes.epoch_rows import key_names
    from cloud_backend.dataframes.lake import keep_up
    from cloud_backend.results.store import FILE, Results
    from shared.errors import UsageError

    places = Places.of_home(home)
    where = in_home(home, FILE)
    if not isinstance(where, Served) and not places.results.is_file():
        raise UsageError(f"no results beside {str(home)!r}; give the gateway's --home", code="gateway-home")
    results = Results(where.url if isinstance(where, Served) else places.results)
    if sink not in results.sinks():
        there = ", ".join(results.sinks()) or "none yet"
        raise UsageError(f"no results have come for a sink {sink!r} ({there})", code="dataframe-sink")
    names = key_names([places.store, *sorted(places.jobs.glob("*"))], sink)
    said = gone = 0
    with contextlib.suppress(KeyboardInterrupt):  # the table has whole steps only: any moment is good to stop
        while True:
            for step in keep_up(results, sink, kept, names):
                said, gone = said + step.said, gone + step.gone
            if not every:
                break
            time.sleep(every)
    if as_json:
        print(json.dumps({"sink": sink, "table": to, "said": said, "gone": gone, "change": kept.place(sink)}))
    else:
        print(f"{to} is level with {sink}: {said:,} rows said, {gone:,} taken back")
