"""`resurge audit`: who did what, and what needs attention now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, done, present, table

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
def verify(
    home: Home = DEFAULT_HOME,
    anchor: Annotated[Path | None, typer.Option(help="a file of heads that `audit anchor` kept elsewhere")] = None,
    as_json: AsJson = False,
) -> None:
    """Whether every line is as it was written, and every anchored one is still there."""
    api = Api(home)
    value = api.get("/audit/verify")
    heads = [] if anchor is None else _heads(anchor)
    for head in heads:
        value = api.get("/audit/verify", number=head["number"], hash=head["hash"])
    kept = f", {len(heads)} anchored ones among them" if anchor is not None else ""
    done(f"{value['lines']} lines, all as they were written{kept}", value | {"anchors": len(heads)}, as_json=as_json)


@app.command("anchor")
def keep_anchor(
    file: Annotated[Path | None, typer.Argument(help="append to this file; best one on another machine")] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Keep the newest line's number and hash somewhere else, so that a cut or rewritten audit log shows later. The log
    of readings has a chain and an anchor of its own: resurge log anchor."""
    head = Api(home).get("/audit/head")
    line = json.dumps(head, sort_keys=True)
    if file is not None:
        with file.open("a", encoding="utf-8") as anchors:
            anchors.write(line + "\n")
            anchors.flush()
            os.fsync(anchors.fileno())
    done(line if file is None else f"line {head['number']} is anchored in {file}", head, as_json=as_json)


def _heads(path: Path) -> list[dict[str, Any]]:
    """The heads of an anchor file, each with a signature of the key it names."""
    from cloud_backend.coordinator.audit import AuditHead
    from cloud_backend.gateway.keys import is_signed_by
    from shared.errors import DamagedData

    found = []
    for place, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            value = json.loads(text)
            head = AuditHead(int(value["number"]), bytes.fromhex(value["hash"]), bytes.fromhex(value["signature"]))
            key = bytes.fromhex(value["key"])
        except (ValueError, KeyError, TypeError):
            head, key = AuditHead(0, b"", None), b""
        if head.signature is None or not is_signed_by(key, head.message(), head.signature):
            raise DamagedData(
                f"line {place} of {path.name} is no head that a gateway signed; use the file as it was written",
                code="audit-anchor-file",
            )
        found.append(value)
    return found


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
