"""`resurge account`: who may sign in to the dashboard, and links that sign in once.

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

from resurge.cli.asking import DEFAULT_HOME, AsJson, Home, ago, done, table

if TYPE_CHECKING:
    from cloud_backend.coordinator.accounts import Accounts

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="the account's name")]
Role = Annotated[str, typer.Option(help="viewer, operator or admin")]


@app.command("list")
def list_accounts(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Every account."""
    from dataclasses import asdict

    from rich.console import Console

    with _accounts(home) as accounts:
        found = accounts.all()
    if as_json:
        print(json.dumps({"accounts": [asdict(each) for each in found]}))
        return
    rows = ((each.name, each.role, "yes" if each.has_password else "no", ago(each.created_us)) for each in found)
    Console().print(table(("account", "role", "password", "made"), rows))


@app.command()
def add(name: Name, role: Role = "viewer", home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Make an account, or change its role, and print a link that signs in once."""
    with _accounts(home) as accounts:
        accounts.put(name, role, _now_us())
        _audit(home, "account-put", name, role)
        path = f"/signin/once/{accounts.new_link(_now_us(), name=name, role=role)}"
    done(_address(home) + path, {"name": name, "role": role, "link": _address(home) + path}, as_json=as_json)


@app.command()
def link(
    name: Annotated[str, typer.Argument(help="the account's name")] = "admin",
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs in as this account once, within the hour."""
    with _accounts(home) as accounts:
        role = next(
            (each.role for each in accounts.all() if each.name == name), "admin" if name == "admin" else "viewer"
        )
        _audit(home, "account-link-made", name, role)
        path = f"/signin/once/{accounts.new_link(_now_us(), name=name, role=role)}"
    done(_address(home) + path, {"name": name, "link": _address(home) + path}, as_json=as_json)


@app.command()
def remove(name: Name, home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Remove an account and end its sessions."""
    with _accounts(home) as accounts:
        accounts.remove(name)
        _audit(home, "account-removed", name, "")
    done(f"{name} can sign in no more", {"removed": name}, as_json=as_json)


@contextmanager
def _accounts(home: Path) -> Iterator[Accounts]:
    from cloud_backend.coordinator.accounts import FILE, Accounts
    from shared.errors import UsageError

    if not (home / "operator.token").exists():
        raise UsageError(
            f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up", code="gateway-home"
        )
    accounts = Accounts(home / FILE)
    try:
        yield accounts
    finally:
        accounts.close()


def _audit(home: Path, action: str, subject: str, detail: str) -> None:
    from cloud_backend.coordinator.audit import FILE, AuditLog

    log = AuditLog(home / FILE)
    try:
        log.append(_now_us(), person="command-line", role="admin", action=action, subject=subject, detail=detail)
    finally:
        log.close()


def _address(home: Path) -> str:
    from cloud_backend.gateway.address import read_address

    address = read_address(home)
    return f"{'https' if address['pin'] else 'http'}://127.0.0.1:{address['port']}"


def _now_us() -> int:
    return time.time_ns() // 1000
