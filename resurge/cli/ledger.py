"""`resurge ledger`: every range that was given up, who gave it up, and why.

Two kinds of entry. A tombstone in the log is a disposition: the range was never delivered, and the account counts it
as ledgered. A quarantined batch was delivered and is counted as that; the entry says which vertex did not use it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home

if TYPE_CHECKING:
    from cloud_backend.log.reader import Reader

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def _ledger() -> None:
    """List every range that was given up, and why."""


@app.command("list")
def list_ledger(
    home: Home = DEFAULT_HOME,
    store: Annotated[Path | None, typer.Option(help="the Spark job's store; else beside the gateway's home")] = None,
    device: Annotated[str, typer.Option(help="only devices whose id starts with this")] = "",
    as_json: AsJson = False,
) -> None:
    """Read the tombstones from the log and what Spark has quarantined, oldest first."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from cloud_backend.log.reader import Reader
    from cloud_backend.log.verify import ledger
    from shared.errors import UsageError

    if not (home / "log").is_dir():
        raise UsageError(f"no log in {str(home)!r}; give the gateway's --home", code="gateway-home")
    reader = Reader(home / "log")
    found: list[dict[str, Any]] = [
        {
            "kind": "tombstone",
            "device": entry.key.device.hex(),
            "incarnation": entry.key.incarnation,
            "edge": f"{entry.key.edge:016x}",
            "lo": entry.lo,
            "hi": entry.hi,
            "elements": entry.hi - entry.lo,
            "reason": entry.reason,
            "received_us": entry.received_us,
        }
        for entry in ledger(reader.read(reader.start, reader.valid_end()))
        if entry.key.device.hex().startswith(device.lower())
    ]
    names = _edge_names(reader)
    for row in found:
        row["edge"] = names.get(row["edge"], row["edge"])
    left_out = [row for row in _quarantined(home, store) if row["device"].startswith(device.lower())]
    total = sum(row["elements"] for row in found)
    if as_json:
        print(json.dumps({"ledgered": total, "ranges": found, "quarantined": left_out}))
        return
    table = Table("device", "incarnation", "edge", "from", "to", "elements", "reason")
    for row in found + left_out:
        reason = row["reason"]
        if row["kind"] == "quarantined":
            reason = f"quarantined by vertex {row['vertex']} after delivery: {reason}"
        shown = [str(row[name]) for name in ("incarnation", "edge", "lo", "hi", "elements")]
        table.add_row(row["device"][:12], *shown, escape(reason))
    Console().print(table)
    print(f"{total} elements in {len(found)} ranges were given up")
    if left_out:
        elements = sum(row["elements"] for row in left_out)
        print(f"{elements} elements in {len(left_out)} batches were delivered and then quarantined by Spark")


def _quarantined(home: Path, store: Path | None) -> list[dict[str, Any]]:
    """What the job's manifest says was left out; nothing where no job has run."""
    from cloud_backend.spark.manifest.manifest import ManifestLog
    from cloud_backend.spark.manifest.quarantine import quarantine
    from cloud_backend.spark.storage.store import Store
    from shared.errors import UsageError

    if store is not None and not (store / "manifest").is_dir():
        raise UsageError(
            f"there is no job store at {str(store)!r}; give its directory with --store", code="job-no-store"
        )
    for place in [store] if store else [home.parent / "spark", home.parent / "store"]:
        if (place / "manifest").is_dir():
            return quarantine(ManifestLog(Store(place)).state)
    return []


def _edge_names(reader: Reader) -> dict[str, str]:
    """What devices called their edges, by number."""
    from shared.wire.frame import decode_one
    from shared.wire.messages import Declare

    declared = (Declare.of(decode_one(frame)[0]) for frame in reader.declarations())
    return {f"{declare.edge:016x}": declare.name for declare in declared}
