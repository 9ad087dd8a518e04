"""The home directory of a node: what a person may set, and what enrolment left there.

settings.toml    a person's choices, all optional (below)
policy.json      what was changed on the screen since; it counts before settings.toml
consents.json    which sensors may be read, and by whom (home/consents.py)
health           why it stopped (condition/health.py)
recordings/      named recordings (recordings/store.py); exports/ copies of them for other programs
gateway.json     which gateway, its pinned keys, our incarnation; written by `resurge node enrol`
device.key       this device's private key
ran-unpaired     a node ran here before there was a gateway (node/stores.py)
clock.json       event time's anchor (home/clock.py)
plan.bin         the newest plan (node/plans.py)
spool/ state/    what is not delivered yet, and the operators' state at that point; both encrypted
spool.key        the key they are encrypted with
results.sqlite   what came back
status.json      the running node's view state, for `resurge node status`
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mobile_app.home.files import read_json, write_durably
from shared.errors import DamagedData, UsageError
from shared.plan.area import Area
from shared.plan.topology import LANES
from shared.wire.status import CAPACITY_MAX

SETTINGS_FILE = "settings.toml"
POLICY_FILE = "policy.json"
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
    wifi_only: bool = False  # exchange over Wi-Fi only
    metered: bool = True  # exchange over networks that cost money
    roaming: bool = False  # exchange while roaming
    battery_floor: float = 0.05  # below this share of a full battery nothing is read or sent, unless charging
    adaptive: bool = False  # read less often on a low battery, at rest and indoors
    pause_when_still: bool = False  # no positions while the phone lies still, where it has a motion sensor
    recordings_mb: int = 1000  # space for named recordings
    free_mb: int = 100  # stop a recording when less than this is left on the device
    area: str = ""  # the area of a region of its own, "lat, lon, metres"; a fleet's regions say theirs
    dwell_s: float = 60.0  # how long it has to stay inside that before it counts as there
    record: str = ""  # what a recording reads, "gps, accelerometer"; empty: every sensor that is allowed
    hosting: str = "no"  # part in the gateway's fleet: "no", "feeds" (its readings only), or "hosts" (computes, too)
    capacity: int = 64  # vertices that it hosts at most
    lane: str = ""  # how it reaches other nodes: wired, wifi, bluetooth or cellular; empty: wired
    fleet_spool_mb: int = 16  # disk space for readings that a fleet's nodes have not taken; fixed when it is made
    position: str = ""  # where a node stands that does not move, "lat, lon"; empty: not said


HOSTING = ("no", "feeds", "hosts")
POLICIES = (
    "name",
    "wifi_only",
    "metered",
    "roaming",
    "battery_floor",
    "adaptive",
    "pause_when_still",
    "recordings_mb",
    "free_mb",
    "record",
    "hosting",
)


def load_settings(home: Path) -> Settings:
    """The settings of a home; unknown names and wrong kinds are refused with what is known."""
    path = home / SETTINGS_FILE
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        given = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} is not TOML: {error}", code="settings-format") from error
    return _checked({**given, **(read_json(home / POLICY_FILE) or {})})


def change_policies(home: Path, changes: Mapping[str, Any]) -> Settings:
    """Change what may be changed while the node runs; durable when this returns."""
    fixed = sorted(set(changes) - set(POLICIES))
    if fixed:
        raise UsageError(
            f"{fixed[0]!r} cannot be changed here (can be: {', '.join(POLICIES)}); see settings.toml",
            code="settings-name",
        )
    changed = {**(read_json(home / POLICY_FILE) or {}), **changes}
    settings = _checked({**asdict(load_settings(home)), **changed})
    write_durably(home / POLICY_FILE, json.dumps(changed).encode())
    return settings


def checked(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with these instead, for one run."""
    return _checked({**asdict(settings), **changes})


def settings_toml(**values: str | float | bool) -> str:
    """The text of a settings.toml with these values, whatever characters a name has."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def _toml(value: str | float | bool) -> str:
    """A string of JSON is one of TOML, except that TOML wants DEL escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def policies(settings: Settings) -> dict[str, Any]:
    """The policies in force, for the screens."""
    values = {name: getattr(settings, name) for name in POLICIES}
    return values | {"record": recorded_sensors(settings)}


def area_of(settings: Settings) -> Area | None:
    """The area of a region of its own, or None."""
    if not settings.area.strip():
        return None
    try:
        lat, lon, radius_m = (float(part) for part in settings.area.split(","))
    except ValueError:
        raise UsageError(
            f"area {settings.area!r} is not three numbers; write latitude, longitude and metres", code="settings-value"
        ) from None
    if not (-90 <= lat <= 90 and -180 <= lon <= 180 and radius_m > 0):
        raise UsageError(f"area {settings.area!r} is no place on earth", code="settings-value")
    return Area(((lat, lon),), radius_m)


def position_of(settings: Settings) -> tuple[float, float] | None:
    """Where the node stands, or None."""
    if not settings.position.strip():
        return None
    try:
        lat, lon = (float(part) for part in settings.position.split(","))
    except ValueError:
        raise UsageError(
            f"position {settings.position!r} is not two numbers; write latitude and longitude", code="settings-value"
        ) from None
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise UsageError(f"position {settings.position!r} is no place on earth", code="settings-value")
    return lat, lon


def recorded_sensors(settings: Settings) -> list[str]:
    return [name.strip() for name in settings.record.split(",") if name.strip()]


def _checked(given: Mapping[str, Any]) -> Settings:
    defaults = asdict(Settings())
    for name, value in given.items():
        if name not in defaults:
            known = ", ".join(field.name for field in fields(Settings))
            raise UsageError(f"setting {name!r} is not known (known: {known})", code="settings-name")
        expected = type(defaults[name])
        if type(value) is not expected and not (expected is float and type(value) is int):
            raise UsageError(
                f"setting {name!r} is {value!r}; expected {expected.__name__}, like {defaults[name]!r}",
                code="settings-value",
            )
    settings = Settings(**given)
    if min(settings.spool_mb, settings.fleet_spool_mb) < 1 or settings.loss_window_s <= 0:
        raise UsageError(
            "spool_mb and fleet_spool_mb are at least 1, and loss_window_s more than 0", code="settings-value"
        )
    area_of(settings)
    position_of(settings)
    if not 0 <= settings.capacity <= CAPACITY_MAX:
        raise UsageError(f"capacity is a number of vertices from 0 to {CAPACITY_MAX}", code="settings-value")
    if settings.lane and settings.lane not in LANES:
        raise UsageError(f"lane is one of {', '.join(LANES)}, not {settings.lane!r}", code="settings-value")
    if not 0 <= settings.battery_floor <= 1 or settings.recordings_mb < 0 or settings.free_mb < 0:
        raise UsageError("battery_floor lies between 0 and 1; sizes are not negative", code="settings-value")
    if settings.hosting not in HOSTING:
        raise UsageError(f"hosting is one of {', '.join(HOSTING)}, not {settings.hosting!r}", code="settings-value")
    return settings


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway this home is enrolled with."""

    url: str
    key: bytes  # pinned: every WELCOME and plan is signed with it
    pin: bytes  # SHA-256 of its TLS key; empty: plain HTTP
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
