"""`resurge ledger`: every range that was given up, who gave it up, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cloud_backend.log.reader import Reader

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

DEFAULT_HOME = Path(".resurge/gateway")


@app.callback()
def _ledger() -> None:
    """List every range that was given up, and why."""


@app.command("list")
def list_ledger(
    home: Annotated[Path, typer.Option(help="the gateway's home")] = DEFAULT_HOME,
    device: Annotated[str, typer.Option(help="only devices whose id starts with this")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
) -> None:
    """Read the tombstones from the log, oldest first."""
    from rich.console import Console
    from rich.table import Table

    from cloud_backend.log.reader import Reader
    from cloud_backend.log.verify import ledger
    from shared.errors import UsageError

    if not (home / "log").is_dir():
        raise UsageError(f"no log in {str(home)!r}; give the gateway's --home", code="gateway-home")
    reader = Reader(home / "log")
    found = [
        {
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
        row["edge"] = names.get(str(row["edge"]), row["edge"])
    total = sum(int(str(row["elements"])) for row in found)
    if as_json:
        print(json.dumps({"ledgered": total, "ranges": found}))
        return
    table = Table("device", "incarnation", "edge", "from", "to", "elements", "reason")
    for row in found:
        shown = [str(row[name]) for name in ("incarnation", "edge", "lo", "hi", "elements", "reason")]
        table.add_row(str(row["device"])[:12], *shown)
    Console().print(table)
    print(f"{total} elements in {len(found)} ranges were given up")


def _edge_names(reader: Reader) -> dict[str, str]:
    """What devices called their edges, by number."""
    from shared.wire.frame import decode_one
    from shared.wire.messages import Declare

    declared = (Declare.of(decode_one(frame)[0]) for frame in reader.declarations())
    return {f"{declare.edge:016x}": declare.name for declare in declared}
