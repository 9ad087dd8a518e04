"""`resurge person`: who may sign in to the dashboard, and links that sign in once.

These work on the gateway's home itself, whether it runs or not: they are the way back in for somebody locked out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home, ago, done, table

if TYPE_CHECKING:
    from cloud_backend.coordinator.people import People

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="the person's name")]
Role = Annotated[str, typer.Option(help="viewer, operator or admin")]


@app.command("list")
def list_people(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Everybody who may sign in."""
    from dataclasses import asdict

    from rich.console import Console

    with _people(home) as people:
        found = people.all()
    if as_json:
        print(json.dumps({"accounts": [asdict(each) for each in found]}))
        return
    rows = ((each.name, each.role, "yes" if each.has_password else "no", ago(each.created_us)) for each in found)
    Console().print(table(("person", "role", "password", "made"), rows))


@app.command()
def add(name: Name, role: Role = "viewer", home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Add a person, or change their role, and print a link that signs in once."""
    with _people(home) as people:
        people.put(name, role, _now_us())
        _audit(home, "person-put", name, role)
        path = f"/signin/once/{people.new_link(_now_us(), name=name, role=role)}"
    done(_address(home) + path, {"name": name, "role": role, "link": _address(home) + path}, as_json=as_json)


@app.command()
def link(
    name: Annotated[str, typer.Argument(help="the person's name")] = "admin",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs in as this person once, within the hour."""
    with _people(home) as people:
        role = next((each.role for each in people.all() if each.name == name), "admin" if name == "admin" else "viewer")
        _audit(home, "sign-in-link-made", name, role)
        path = f"/signin/once/{people.new_link(_now_us(), name=name, role=role)}"
    done(_address(home) + path, {"name": name, "link": _address(home) + path}, as_json=as_json)


@app.command()
def remove(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Remove a person and end their sessions."""
    with _people(home) as people:
        people.remove(name)
        _audit(home, "person-removed", name, "")
    done(f"{name} can sign in no more", {"removed": name}, as_json=as_json)


@contextmanager
def _people(home: Path) -> Iterator[People]:
    from cloud_backend.coordinator.people import FILE, People
    from cloud_backend.database import in_home
    from shared.errors import UsageError

    if not (home / "operator.token").exists():
        raise UsageError(
            f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up", code="gateway-home"
        )
    people = People(in_home(home, FILE))
    try:
        yield people
    finally:
        people.close()


def _audit(home: Path, action: str, subject: str, detail: str) -> None:
    from cloud_backend.coordinator.audit import FILE, AuditLog
    from cloud_backend.database import in_home
    from cloud_backend.gateway.keys import load_keys

    log = AuditLog(in_home(home, FILE), sign=load_keys(home).sign)
    try:
        log.append(_now_us(), person="command-line", role="admin", action=action, subject=subject, detail=detail)
    finally:
        log.close()


def _address(home: Path) -> str:
    from cloud_backend.gateway.address_file import read_address

    address = read_address(home)
    return f"{'https' if address['pin'] else 'http'}://127.0.0.1:{address['port']}"


def _now_us() -> int:
    return time.time_ns() // 1000
