"""`resurge results`: what sinks say, kept in tables elsewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import time
from typing import Annotated

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def _results() -> None:
    """Keep tables elsewhere level with what sinks say."""


@app.command()
def delta(
    sink: Annotated[str, typer.Argument(metavar="{sink}", help="a sink of the program, or a query's name")],
    to: Annotated[str, typer.Option(help="the Delta table: a directory, made when it is not there")],
    home: Home = DEFAULT_HOME,
    every: Annotated[float, typer.Option(metavar="S", help="look again after so many seconds; 0: once", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Bring a Delta table level with a sink: corrections replace, what was taken back goes. Killed, it goes on."""
    from shared.errors import UsageError

    if importlib.util.find_spec("deltalake") is None:
        raise UsageError("Delta tables need a package: pip install 'resurge[lake]'", code="dataframe-library")
    from cloud_backend.coordinator.backup import Places
    from cloud_backend.database import Served, in_home
    from cloud_backend.dataframes.delta import keep_up, place
    from cloud_backend.dataframes.epoch_rows import key_names
    from cloud_backend.results.store import FILE, Results

    places = Places.of_home(home)
    kept = in_home(home, FILE)
    if not isinstance(kept, Served) and not places.results.is_file():
        raise UsageError(f"no results beside {str(home)!r}; give the gateway's --home", code="gateway-home")
    results = Results(kept.url if isinstance(kept, Served) else places.results)
    if sink not in results.sinks():
        there = ", ".join(results.sinks()) or "none yet"
        raise UsageError(f"no results have come for a sink {sink!r} ({there})", code="dataframe-sink")
    names = key_names([places.store, *sorted(places.jobs.glob("*"))], sink)
    said = gone = 0
    with contextlib.suppress(KeyboardInterrupt):  # the table has whole steps only: any moment is good to stop
        while True:
            for step in keep_up(results, sink, to, names):
                said, gone = said + step.said, gone + step.gone
            if not every:
                break
            time.sleep(every)
    if as_json:
        print(json.dumps({"sink": sink, "table": to, "said": said, "gone": gone, "change": place(to, sink)}))
    else:
        print(f"{to} is level with {sink}: {said:,} rows said, {gone:,} taken back")
