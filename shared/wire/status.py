"""What a device says of itself in a STATUS frame: the same class on the device, in the gateway and on the pages.

On the wire it is JSON. A key that this side does not know is ignored and a missing one has its default, so that a
device and a gateway of different versions understand each other. A value of another kind or out of its bounds is
refused by its name. Text is cut to its length and rid of what cannot be printed: a page shows it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from shared.errors import PeerError
from shared.wire.fleet_status import FleetStatus
from shared.wire.live import LiveReading, read_live
from shared.wire.untrusted_text import clean_text as cut_text

NUMBER_MAX = 1 << 53  # what JSON holds exactly everywhere
SECONDS_MAX = 1e10
SPEED_MAX = 1e6
POLL_S_MAX = 86_400.0
METRES_MAX = 1e8  # more than round the Earth
SENSORS_MAX = 64
WORD_CHARACTERS = 40
TEXT_CHARACTERS = 200
OPERATORS_MAX = 128
OPERATOR_CHARACTERS = 100  # of "name@version"
INSTANCES_MAX = 256
ADDRESSES_MAX = 16
CAPACITY_MAX = 10_000
NEIGHBOURS_MAX = 64
COST_MAX = 1_000_000
NO_PLAN = -1


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """A vertex that a node was told to run."""

    query: str
    vertex: str
    term: int
    state: str  # starting | running | failed | lost | behind
    why: str = ""
    lost: int = 0  # elements of its inputs that are nowhere any more
    snapshot: int | None = None  # elements of its inputs that its last permanent one has read
    snapshot_bytes: int | None = None
    cut: int = 0  # the newest cut through its region of which its keepers have its part, and its sinks all before it


@dataclass(frozen=True, slots=True)
class KeptStatus:
    """A snapshot that a node keeps, for itself or for others. A greater (term, number) is newer; the number is how many
    elements of its inputs it has read."""

    query: str
    vertex: str
    term: int
    number: int


@dataclass(frozen=True, slots=True)
class CutStatus:
    """How far a node has come with the cuts through a query's region. Numbers grow; 0 is none."""

    query: str
    begun: int  # its sources have sent the marks of this one
    complete: int  # it was told that this one is complete
    reached: int  # all who read its sources have everything before the marks of this one


@dataclass(frozen=True, slots=True)
class BackStatus:
    """A device was cut off from those who read it, and has rows from then."""

    queries: tuple[str, ...]  # that it feeds
    neighbours: tuple[str, ...]  # nodes that it reaches now


@dataclass(frozen=True, slots=True)
class TookStatus:
    """A device's rows go another way than it was told: it took one of the alternates while nobody coordinated."""

    query: str
    gather: str
    path: tuple[str, ...]  # nodes that pass them on


@dataclass(frozen=True, slots=True)
class HostOffer:
    """A node takes part in the fleet of its gateway: how other nodes reach it, and how many vertices it hosts. Its
    Ed25519 key is in the roster."""

    name: str
    curve_key: str
    addresses: tuple[str, ...]
    capacity: int
    lane: str = ""  # how it is connected; empty: by wire
    position: tuple[float, float] | None = None  # where it stands, if it does: latitude and longitude in degrees
    cloud: bool = False  # it runs beside the gateway: what goes to the cloud, or fits nowhere else, goes there
    passed: bool = False  # it takes what the gateway passes on for other nodes


@dataclass(frozen=True, slots=True)
class AdviceStatus:
    """What a device has measured that says how large its spool should be (`shared/spool/advice.py`)."""

    bytes_per_s: float  # that its streams fill the spool with
    outages: int  # of its gateway that it has seen
    p95_s: float | None = None  # of 100 outages, 95 were not longer; None before there were some
    p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class PaceStatus:
    """A device that plays time, faster or slower than it passes: when it was wall_us it was event_us there."""

    speed: float  # seconds of event time in a second
    wall_us: int
    event_us: int

    def now_us(self, wall_us: int) -> int:
        """What the device takes for now; never later than it is."""
        return min(wall_us, self.event_us + round((wall_us - self.wall_us) * self.speed))


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One line of a fleet page. None: the device did not say it, or has no such thing."""

    accuracy_m: float | None = None  # of its position
    advice: AdviceStatus | None = None  # how fast its spool fills, and how long its gateway was gone
    back: BackStatus | None = None  # it was cut off from nodes that read it, until all from then has arrived
    base: str = ""  # digest of the deployment it follows, in hex, on which the next one may build
    battery: int | None = None  # percent
    build: str = ""  # which app it is: title, version and id, where the app has operators of its own
    boot: int = 0  # how often it has started; what it ran in memory before is gone
    charging: bool | None = None
    clock_doubt_s: float | None = None  # how far its event time may be from its wall clock
    cuts: tuple[CutStatus, ...] = ()  # of queries whose region goes back together
    deployment: tuple[int, int] | None = None  # lease and version of the one it follows; (0, 0) before the first
    fleet: FleetStatus | None = None  # of a fleet's coordinator, to a gateway: where everything runs
    full_in_s: float | None = None  # until the spool must give something up, at the rate of the last minutes
    incarnation: int = 0
    instances: tuple[InstanceStatus, ...] = ()  # of queries that span several nodes
    kept: tuple[KeptStatus, ...] = ()
    lane: str = "gateway"
    late: int = 0  # rows that came too late for its windows
    leaving: str = ""  # why it reads nothing just now, in its own words
    live: tuple[LiveReading, ...] = ()  # what is newest of streams that are behind; kept by nobody
    malformed_results: int = 0  # results that came down and made no sense, since it started
    missing_sensors: tuple[str, ...] = ()
    neighbours: tuple[tuple[str, int], ...] = ()  # nodes that it sends to, each with what their answers say it costs
    offer: HostOffer | None = None  # to host vertices of the gateway's fleet
    offered: tuple[KeptStatus, ...] = ()  # snapshots with which its vertices may go on elsewhere, as they shall
    operators: tuple[str, ...] | None = None  # "name@version" of the operator types it can run
    overruns: int = 0  # readings that a sensor's queue had no room for, since it started
    pace: PaceStatus | None = None  # it plays time; None: event time is the time of day
    plan: int = NO_PLAN  # version of the plan it has
    position: tuple[float, float] | None = None  # latitude and longitude in degrees, where a region wants to know it
    poll_s: float | None = None  # it exchanges at least this often while it has a link
    produced: int | None = None  # elements numbered by this incarnation
    python: str = ""
    refusal: str = ""  # what the gateway or a plan last refused
    refused_sensors: tuple[str, ...] = ()  # of its plan's, those that its person keeps from it
    spool_bytes: int | None = None
    spool_capacity_bytes: int | None = None
    stamps: tuple[int, ...] = ()  # of rows it has that met operators which their query has no more
    took: tuple[TookStatus, ...] = ()  # ways of its own rows that it chose itself
    unreachable: tuple[str, ...] = ()  # nodes that it should send to and cannot reach
    urgent: tuple[str, ...] = ()  # nodes that it should send to, and does by way of the coordinator's node
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        """Every field that is not its default; lists for tuples."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: _plain(value) for name, (value, default) in values.items() if value != default}

    @staticmethod
    def from_json(values: Mapping[str, object]) -> DeviceStatus:
        """What a device said. Raises PeerError (message-status) that names the value which makes no sense."""
        found = {
            name: read(name, values[name]) for name, read in _READERS.items() if values.get(name) is not None
        }  # fmt: skip
        return DeviceStatus(**found)


def clean_text(text: str, characters: int = TEXT_CHARACTERS) -> str:
    """As much of a text as a status carries, without what cannot be printed."""
    return cut_text(text, characters)


def reportable_operators(references: Iterable[str]) -> tuple[str, ...] | None:
    """These as a status says them. None where they do not fit: a shorter list would deny what is there."""
    said = tuple(sorted(references))
    fits = len(said) <= OPERATORS_MAX and all(clean_text(each, OPERATOR_CHARACTERS) == each for each in said)
    return said if fits else None


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, KeptStatus):
        return [value.query, value.vertex, value.term, value.number]
    if isinstance(value, BackStatus):
        return [list(value.queries), list(value.neighbours)]
    if isinstance(value, InstanceStatus):
        said = [value.query, value.vertex, value.term, value.state, value.why, value.lost]
        if value.cut:
            return [*said, value.snapshot, value.snapshot_bytes, value.cut]
        return said if value.snapshot is None else [*said, value.snapshot, value.snapshot_bytes]
    if isinstance(value, CutStatus):
        return [value.query, value.begun, value.complete, value.reached]
    if isinstance(value, TookStatus):
        return [value.query, value.gather, list(value.path)]
    if isinstance(value, PaceStatus):
        return [value.speed, value.wall_us, value.event_us]
    if isinstance(value, AdviceStatus):
        return [value.bytes_per_s, value.outages, value.p95_s, value.p99_s]
    if isinstance(value, HostOffer):
        said = [value.name, value.curve_key, list(value.addresses), value.capacity]
        # What came later is said only where there is something to say.
        more = {"lane": value.lane, "position": value.position, "cloud": value.cloud, "passed": value.passed}
        later = {name: _plain(each) for name, each in more.items() if each}
        return [*said, later] if later else said
    return value.to_json() if isinstance(value, FleetStatus | LiveReading) else value


def _refused(name: str, expected: str) -> PeerError:
    return PeerError(f"{name} of a STATUS is {expected}", code="message-status")


def _count(least: int, most: int) -> Callable[[str, object], int]:
    def read(name: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _refused(name, f"a whole number from {least} to {most}")
        return value

    return read


def _seconds(most: float) -> Callable[[str, object], float]:
    def read(name: str, value: object) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not 0 <= value <= most:  # type: ignore[arg-type, operator]
            raise _refused(name, f"a number of seconds from 0 to {most:g}")
        return float(value)  # type: ignore[arg-type]

    return read


def _text(characters: int) -> Callable[[str, object], str]:
    def read(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise _refused(name, "a text")
        return clean_text(value, characters)

    return read


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refused(name, "true or false")
    return value


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _refused(name, "a list of names")
    return tuple(clean_text(each, WORD_CHARACTERS) for each in value[:SENSORS_MAX])


def _operators(name: str, value: object) -> tuple[str, ...]:
    said = tuple(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else None
    if said is None or reportable_operators(said) is None:  # not cut: the gateway would withhold plans for what is gone
        raise _refused(name, f"a list of at most {OPERATORS_MAX} operator types")
    return tuple(sorted(said))


def _instances(name: str, value: object) -> tuple[InstanceStatus, ...]:
    expected = "a list of [query, vertex, term, state, why, lost, snapshot, snapshot_bytes]"
    if not isinstance(value, list) or len(value) > INSTANCES_MAX:
        raise _refused(name, expected)
    found = []
    for each in value:
        match each:
            case [str(query), str(vertex), int(term), str(state), str(why), int(lost), *rest] if (
                0 <= term < 1 << 32 and 0 <= lost <= NUMBER_MAX
            ):
                named = InstanceStatus(clean_text(query), clean_text(vertex), term, clean_text(state, WORD_CHARACTERS))
                number, size, cut = _snapshot(name, rest, expected)
                found.append(
                    replace(named, why=clean_text(why), lost=lost, snapshot=number, snapshot_bytes=size, cut=cut)
                )
            case _:
                raise _refused(name, expected)
    return tuple(found)


def _snapshot(name: str, said: list[object], expected: str) -> tuple[int | None, int | None, int]:
    """The last permanent one of a vertex, none before there was one; and its part of a cut."""
    match said:
        case []:
            return None, None, 0
        case [int(number) | (None as number), int(size) | (None as size), *rest] if (
            0 <= (number or 0) <= NUMBER_MAX and 0 <= (size or 0) <= NUMBER_MAX
        ):
            match rest:
                case []:
                    return number, size, 0
                case [int(cut), *_] if 0 <= cut <= NUMBER_MAX:
                    return number, size, int(cut)
    raise _refused(name, expected)


def _cuts(name: str, value: object) -> tuple[CutStatus, ...]:
    expected = "a list of [query, begun, complete, reached]"
    if not isinstance(value, list) or len(value) > INSTANCES_MAX:
        raise _refused(name, expected)
    found = []
    for each in value:
        match each:
            case [str(query), int(begun), int(complete), int(reached)] if all(
                0 <= number <= NUMBER_MAX for number in (begun, complete, reached)
            ):
                found.append(CutStatus(clean_text(query), int(begun), int(complete), int(reached)))
            case _:
                raise _refused(name, expected)
    return tuple(found)


def _position(name: str, value: object) -> tuple[float, float]:
    match value:
        case [int() | float() as latitude, int() | float() as longitude] if (
            abs(latitude) <= 90 and abs(longitude) <= 180 and not isinstance(latitude, bool)
        ):
            return float(latitude), float(longitude)
    raise _refused(name, "[latitude, longitude] in degrees")


def _metres(name: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= METRES_MAX:  # type: ignore[operator]
        raise _refused(name, f"a number of metres from 0 to {METRES_MAX:g}")
    return float(value)  # type: ignore[arg-type]


def _fleet(name: str, value: object) -> FleetStatus:
    try:
        return FleetStatus.from_json(value)
    except ValueError as error:
        raise _refused(name, f"a fleet as its coordinator tells it: {error}") from None


def _live(name: str, value: object) -> tuple[LiveReading, ...]:
    try:
        return read_live(value)
    except ValueError as error:
        raise _refused(name, str(error)) from None


def _kept(name: str, value: object) -> tuple[KeptStatus, ...]:
    expected = "a list of [query, vertex, term, number]"
    if not isinstance(value, list) or len(value) > INSTANCES_MAX:
        raise _refused(name, expected)
    found = []
    for each in value:
        match each:
            case [str(query), str(vertex), int(term), int(number)] if 0 <= term < 1 << 32 and 0 <= number <= NUMBER_MAX:
                found.append(KeptStatus(clean_text(query), clean_text(vertex), term, number))
            case _:
                raise _refused(name, expected)
    return tuple(found)


def _advice(name: str, value: object) -> AdviceStatus:
    match value:
        case [rate, outages, p95_s, p99_s, *_]:
            lengths = (None if each is None else _seconds(SECONDS_MAX)(name, each) for each in (p95_s, p99_s))
            return AdviceStatus(_seconds(float(NUMBER_MAX))(name, rate), _count(0, NUMBER_MAX)(name, outages), *lengths)
    raise _refused(name, "[bytes per second, outages, p95, p99]")


def _back(name: str, value: object) -> BackStatus:
    match value:
        case [list(queries), list(neighbours)]:
            return BackStatus(_names(name, queries), _names(name, neighbours))
    raise _refused(name, "[queries, neighbours]")


def _took(name: str, value: object) -> tuple[TookStatus, ...]:
    expected = "a list of [query, gather, nodes]"
    if not isinstance(value, list) or len(value) > INSTANCES_MAX:
        raise _refused(name, expected)
    found = []
    for each in value:
        match each:
            case [str(query), str(gather), list(path)]:
                found.append(TookStatus(clean_text(query), clean_text(gather), _names(name, path)))
            case _:
                raise _refused(name, expected)
    return tuple(found)


def _stamps(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > INSTANCES_MAX:
        raise _refused(name, f"a list of at most {INSTANCES_MAX} numbers")
    return tuple(map(partial(_count(0, (1 << 32) - 1), name), value))


def _deployment(name: str, value: object) -> tuple[int, int]:
    match value:
        case [int(lease), int(version)] if 0 <= lease < 1 << 32 and 0 <= version <= NUMBER_MAX:
            return int(lease), int(version)
    raise _refused(name, "[lease, version]")


def _pace(name: str, value: object) -> PaceStatus:
    match value:
        case [int() | float() as speed, int(wall_us), int(event_us)] if (
            not isinstance(speed, bool)
            and 0 < speed <= SPEED_MAX
            and 0 <= wall_us <= NUMBER_MAX
            and 0 <= event_us <= NUMBER_MAX
        ):
            return PaceStatus(float(speed), int(wall_us), int(event_us))
    raise _refused(name, "[event seconds per second, wall time, event time]")


def _offer(name: str, value: object) -> HostOffer:
    match value:
        case [str(called), str(curve_key), list(addresses), int(capacity), *_] if (
            called
            and len(addresses) <= ADDRESSES_MAX
            and all(isinstance(each, str) and len(each) <= TEXT_CHARACTERS for each in addresses)
            and 0 <= capacity <= CAPACITY_MAX
        ):
            said = tuple(clean_text(each) for each in addresses)
            later = value[4] if len(value) > 4 and isinstance(value[4], dict) else {}
            position = None if later.get("position") is None else _position(name, later["position"])
            return HostOffer(
                clean_text(called, WORD_CHARACTERS), clean_text(curve_key), said, int(capacity),
                _text(WORD_CHARACTERS)(name, later.get("lane", "")), position,
                _truth(name, later.get("cloud", False)), _truth(name, later.get("passed", False)),
            )  # fmt: skip
    raise _refused(name, "[name, curve key, addresses, capacity, {lane, position, cloud, passed}]")


def _neighbours(name: str, value: object) -> tuple[tuple[str, int], ...]:
    if isinstance(value, list) and len(value) <= NEIGHBOURS_MAX:
        found = [(clean_text(each[0], WORD_CHARACTERS), int(each[1])) for each in value if _is_neighbour(each)]
        if len(found) == len(value):
            return tuple(found)
    raise _refused(name, f"a list of at most {NEIGHBOURS_MAX} [node, cost]")


def _is_neighbour(value: object) -> bool:
    match value:
        case [str(), int(cost)]:
            return 0 < cost <= COST_MAX and not isinstance(cost, bool)
    return False


_READERS: dict[str, Callable[[str, object], Any]] = {
    "accuracy_m": _metres,
    "advice": _advice,
    "back": _back,
    "base": _text(WORD_CHARACTERS),
    "battery": _count(0, 100),
    "build": _text(TEXT_CHARACTERS),
    "boot": _count(0, NUMBER_MAX),
    "charging": _truth,
    "clock_doubt_s": _seconds(SECONDS_MAX),
    "cuts": _cuts,
    "deployment": _deployment,
    "fleet": _fleet,
    "full_in_s": _seconds(SECONDS_MAX),
    "incarnation": _count(0, (1 << 32) - 1),
    "instances": _instances,
    "kept": _kept,
    "lane": _text(WORD_CHARACTERS),
    "late": _count(0, NUMBER_MAX),
    "leaving": _text(TEXT_CHARACTERS),
    "live": _live,
    "malformed_results": _count(0, NUMBER_MAX),
    "missing_sensors": _names,
    "neighbours": _neighbours,
    "offer": _offer,
    "offered": _kept,
    "operators": _operators,
    "overruns": _count(0, NUMBER_MAX),
    "pace": _pace,
    "plan": _count(NO_PLAN, NUMBER_MAX),
    "position": _position,
    "poll_s": _seconds(POLL_S_MAX),
    "produced": _count(0, NUMBER_MAX),
    "python": _text(WORD_CHARACTERS),
    "refusal": _text(TEXT_CHARACTERS),
    "refused_sensors": _names,
    "spool_bytes": _count(0, NUMBER_MAX),
    "spool_capacity_bytes": _count(0, NUMBER_MAX),
    "stamps": _stamps,
    "took": _took,
    "unreachable": _names,
    "urgent": _names,
    "version": _text(WORD_CHARACTERS),
}
