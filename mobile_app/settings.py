"""The home directory of a node: what a person may set, and what enrolment left there.

settings.toml    a person's choices, all optional (below)
gateway.json     which gateway, its pinned keys, our incarnation; written by `resurge node enrol`
device.key       this device's private key
clock.json       event time's anchor (clock.py)
plan.bin         the newest plan (plans.py)
spool/ state/    what is not delivered yet, and the operators' state at that point; both encrypted
spool.key        the key they are encrypted with
results.sqlite   what came back
status.json      the running node's view state, for `resurge node status`
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mobile_app.storage import read_json, write_durably
from shared.errors import DamagedData, UsageError

SETTINGS_FILE = "settings.toml"
GATEWAY_FILE = "gateway.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """A person's choices; every one has a sensible default."""

    name: str = "node"  # what the operator sees
    spool_mb: int = 50  # disk space for what is not delivered yet
    evict: str = "query-aware"  # what goes first when the spool is full: query-aware, oldest, priority, or block
    loss_window_s: float = 5.0  # a kill or power cut loses at most the readings of this long
    encrypt: bool = True  # spool and state at rest; fixed when the spool is made
    relay: str = ""  # tcp://HOST:PORT of a relay, when there is no way to the gateway


def load_settings(home: Path) -> Settings:
    """The settings of a home; unknown names and wrong kinds are refused with what is known."""
    path = home / SETTINGS_FILE
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} is not TOML: {error}", code="settings-format") from error
    defaults = asdict(Settings())
    for name, value in given.items():
        if name not in defaults:
            known = ", ".join(field.name for field in fields(Settings))
            raise UsageError(f"setting {name!r} is not known (known: {known})", code="settings-name")
        expected = type(defaults[name])
        if not isinstance(value, expected) and not (expected is float and type(value) is int):
            raise UsageError(
                f"setting {name!r} is {value!r}; expected {expected.__name__}, like {defaults[name]!r}",
                code="settings-value",
            )
    settings = Settings(**given)
    if settings.spool_mb < 1 or settings.loss_window_s <= 0:
        raise UsageError("spool_mb is at least 1 and loss_window_s more than 0", code="settings-value")
    return settings


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway this home is enrolled with."""

    url: str
    key: bytes  # pinned: every WELCOME and plan is signed with it
    pin: bytes  # SHA-256 of its certificate; empty: plain HTTP
    incarnation: int


def load_gateway(home: Path) -> Gateway | None:
    """The enrolment, or None while the node is on its own."""
    kept = read_json(home / GATEWAY_FILE)
    if kept is None:
        return None
    try:
        return Gateway(
            str(kept["url"]), bytes.fromhex(kept["key"]), bytes.fromhex(kept["pin"]), int(kept["incarnation"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedData(
            f"{GATEWAY_FILE} in {str(home)!r} lacks a part; pair this device again", code="home-damaged"
        ) from error


def save_gateway(home: Path, gateway: Gateway) -> None:
    value = {
        "url": gateway.url, "key": gateway.key.hex(), "pin": gateway.pin.hex(), "incarnation": gateway.incarnation,
    }  # fmt: skip
    write_durably(home / GATEWAY_FILE, json.dumps(value).encode())
