"""A fleet as a person writes it: its nodes, its coordinator, and the queries they share. TOML.

    coordinator = "laptop"
    hanging = "5s"                # an operator that has not returned by then is interrupted, and its vertex has failed
    cuts = "5m"                   # from one cut through a region that goes back together to the next

    [[node]]                      # `resurge fleet card` prints one for each node
    name = "laptop"
    public_key = "..."            # Ed25519, hex
    curve_key = "..."             # ZeroMQ CURVE, z85
    address = "tcp://192.0.2.7:7300"

    [[query]]
    name = "beats"
    program = "beats.py"          # beside this file
    strategy = "ecoc"             # not given: the cheapest that keeps what the program's gathers promise
    every = 500                   # elements between two snapshots
    sources = ["phone"]
    sink = "laptop"
    keepers = 1
    hosts = { ecg_band = "hub" }  # of the vertices that `resurge plan` lists; the others are spread over all nodes
    absent = "5m"                 # that a node may be silent before anything moves; else as what is promised allows
    forward = "dynamic"           # one way at a time for rows that cannot go directly; "paths:2": over two at once

    [[region]]
    query = "beats"               # it is not placed by this file, but runs while enough phones are here
    center = [47.37, 8.54]        # with a radius; or corners = [[47.37, 8.54], ...]
    radius = 20                   # metres
    dwell = "30s"                 # that a phone stays before it is a member
    threshold = 4                 # members that it needs
    after = [{ gather = "before", region = "other", sink = "out" }]   # what comes from regions listed before it

Every node reads the same file. What it says of nodes is whom they trust; what it says of queries counts on the
coordinator, and only until something has failed: from then on the coordinator knows better where a vertex runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import UsageError
from shared.hosting.asked_query import EVERY, FORWARDS, AskedQuery, absent_seconds, place_query
from shared.hosting.given import area_given, point_given
from shared.hosting.sharing import joined
from shared.identity import device_id
from shared.language.durations import microseconds
from shared.plan.deployment import (
    CAPACITY,
    COST_MAX,
    DYNAMIC,
    PLACEMENTS_MAX,
    Feed,
    HostedQuery,
    Link,
    Peer,
    Region,
)
from shared.plan.placing import SPREAD
from shared.plan.topology import LANES, Topology
from shared.recovery.strategies import OF_REGION, STRATEGIES
from shared.region.cuts import PERIOD_S
from shared.stream.program import load_program

NODE_KEYS = frozenset({"name", "public_key", "curve_key", "address", "capacity", "operators", "lane", "position"})
QUERY_KEYS = frozenset(
    {
        "name",
        "program",
        "strategy",
        "every",
        "sources",
        "sink",
        "keepers",
        "hosts",
        "incarnation",
        "place",
        "absent",
        "forward",
    }
)
LINK_KEYS = frozenset({"between", "lane", "cost"})
REGION_KEYS = frozenset({"query", "center", "radius", "corners", "dwell", "threshold", "after"})
HANGING_S, HANGING_S_MAX = 5.0, 60.0
CUTS_S_MIN, CUTS_S_MAX = 5.0, 86_400.0


@dataclass(frozen=True, slots=True)
class OfferedHost:
    """In a fleet's file's place: this node offers to host, and its gateway coordinates."""

    listen: str  # tcp://HOST:PORT where other nodes reach it; empty: it only calls, and hosts nothing
    coordinator: bytes  # the gateway's public key
    name: str = ""
    hanging_s: float = HANGING_S
    capacity: int = CAPACITY  # vertices that it hosts at most
    lane: str = ""  # how it is connected; empty: by wire
    position: tuple[float, float] | None = None  # where it stands, if it does
    cloud: bool = False  # it runs beside the gateway


@dataclass(frozen=True, slots=True)
class FleetFile:
    coordinator: Peer
    peers: tuple[Peer, ...]
    folder: Path
    queries: tuple[Mapping[str, Any], ...]
    hanging_s: float = HANGING_S
    links: tuple[Link, ...] = ()
    placed_later: tuple[Mapping[str, Any], ...] = ()  # regions: their queries run when enough phones are there
    cut_s: float = PERIOD_S  # between two cuts through a region that goes back together

    def peer(self, node: str) -> Peer:
        """This node as others know it; UsageError when the file does not."""
        found = next((peer for peer in self.peers if peer.node == node), None)
        if found is None:
            raise UsageError(
                f"this node ({node}) is not in the fleet's file; add the card that `resurge fleet card` prints",
                code="fleet-file",
            )
        return found

    @property
    def topology(self) -> Topology:
        return Topology(self.peers, self.links, cloud=self.coordinator.node)

    def hosted(self, running: Sequence[HostedQuery] = ()) -> tuple[HostedQuery, ...]:
        """The queries with a first placement of every vertex, beside those that were submitted and run."""
        placed = {_text(region, "query", "region") for region in self.placed_later}
        asked = [self._asked(each) for each in self.queries if each.get("name") not in placed]
        beside = [query for query in running if query.submitted and all(query.name != each.name for each in asked)]
        found: list[HostedQuery] = []
        for each in asked:
            found.append(place_query(each, self.topology, [*beside, *found])[0])
        return joined(found, running)

    def regions(self) -> tuple[Region, ...]:
        """The regions, none of which has members yet."""
        queries = {each.get("name"): each for each in self.queries}
        return tuple(self._region(given, queries) for given in self.placed_later)

    def _region(self, given: Mapping[str, Any], queries: Mapping[object, Mapping[str, Any]]) -> Region:
        name = _text(given, "query", "region")
        if extra := sorted(given.keys() - REGION_KEYS):
            raise _wrong(f"region {name!r} says {extra[0]!r}; known are {', '.join(sorted(REGION_KEYS))}")
        if name not in queries:
            raise _wrong(f"region {name!r} is about no [[query]] of this name")
        threshold = given.get("threshold", 1)
        if not _is_whole(threshold, 1, len(self.peers)):
            raise _wrong(f"`threshold` of region {name!r} is a whole number up to {len(self.peers)}, as many as nodes")
        dwell_s = microseconds(_text(given, "dwell", f"region {name!r}")) / 1e6 if "dwell" in given else 0.0
        asked = self._asked(queries[name])
        strategy = asked.strategy or OF_REGION
        row = STRATEGIES[strategy].row if strategy in STRATEGIES else None
        if row is None or not row.between_nodes:
            known = ", ".join(name for name, each in STRATEGIES.items() if each.row.between_nodes)
            raise _wrong(f"strategy {strategy!r} of region {name!r} is none of {known}")
        feeds = self._feeds(given.get("after", []), name)
        task = HostedQuery(
            name, asked.incarnation, asked.plan, strategy, 0 if row.of_region else asked.every or EVERY,
            asked.sources, asked.sink, (), feeds=feeds, absent_s=asked.absent_s,
        )  # fmt: skip
        return Region(area_given(given, name, "fleet-file", "radius"), dwell_s, threshold, task)

    def _feeds(self, given: object, name: str) -> tuple[Feed, ...]:
        """What other regions feed it. They stand before it: regions that wait for each other would never begin."""
        feeds = tuple(_feed(each, name) for each in (given if isinstance(given, list) else [given]))
        names = [_text(region, "query", "region") for region in self.placed_later]
        before = names[: names.index(name)]
        for feed in feeds:
            if feed.query not in before:
                raise _wrong(f"region {name!r} comes after {feed.query!r}, which is no region listed before it")
        return feeds

    def _asked(self, given: Mapping[str, Any]) -> AskedQuery:
        name = _text(given, "name", "query")
        if extra := sorted(given.keys() - QUERY_KEYS):
            raise _wrong(f"query {name!r} says {extra[0]!r}; known are {', '.join(sorted(QUERY_KEYS))}")
        every, incarnation, keepers = given.get("every"), given.get("incarnation", 1), given.get("keepers", 1)
        if (every is not None and not _is_whole(every, 1)) or not _is_whole(incarnation, 1):
            raise _wrong(f"`every` and `incarnation` of query {name!r} are whole numbers from 1 on")
        if not _is_whole(keepers, 0):
            raise _wrong(f"`keepers` of query {name!r} is a whole number from 0 on")
        hosts = given.get("hosts", {})
        return AskedQuery(
            name,
            load_program(self.folder / _text(given, "program", f"query {name!r}")),
            tuple(self.node(each, name) for each in _texts(given.get("sources", []), f"sources of {name!r}")),
            self.node(_text(given, "sink", f"query {name!r}"), name),
            _text(given, "strategy", f"query {name!r}") if "strategy" in given else "",
            every,
            keepers,
            _text(given, "place", f"query {name!r}") if "place" in given else SPREAD,
            fixed={vertex: self.node(host, name) for vertex, host in hosts.items()},
            incarnation=incarnation,
            absent_s=_absent_s(given, name),
            forward=_forward(given, name),
        )

    def node(self, name: object, query: str) -> str:
        """The id of a node that a query names."""
        for peer in self.peers:
            if peer.name == name:
                return peer.node
        raise _wrong(f"query {query!r} names the node {name!r}; there are {', '.join(p.name for p in self.peers)}")


def read_fleet(path: Path, operators: Sequence[str] = ()) -> FleetFile:
    """The fleet in a file. `operators` are those of this installation; nodes are taken to have the same unless their
    card says which."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the fleet's file {str(path)!r}: {error.strerror}", code="fleet-file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(f"{path.name} is not TOML: {error}") from None
    nodes, queries = value.get("node", []), value.get("query", [])
    if not isinstance(nodes, list) or not nodes or not all(isinstance(each, dict) for each in nodes):
        raise _wrong(f"{path.name} has no [[node]]; `resurge fleet card` prints one")
    if not isinstance(queries, list) or not all(isinstance(each, dict) for each in queries):
        raise _wrong("queries are written as [[query]]")
    peers = tuple(_peer(each, operators) for each in nodes)
    coordinator = next((peer for peer in peers if peer.name == value.get("coordinator")), None)
    if coordinator is None:
        raise _wrong(f"`coordinator` is one of {', '.join(peer.name for peer in peers)}")
    links = value.get("link", [])
    if not isinstance(links, list) or not all(isinstance(each, dict) for each in links):
        raise _wrong("links are written as [[link]]")
    regions = value.get("region", [])
    if not isinstance(regions, list) or not all(isinstance(each, dict) for each in regions):
        raise _wrong("regions are written as [[region]]")
    return FleetFile(
        coordinator, peers, path.resolve().parent, tuple(queries), _hanging_s(value),
        tuple(_link(each, peers) for each in links), tuple(regions), _cut_s(value),
    )  # fmt: skip


def _feed(given: object, name: str) -> Feed:
    match given:
        case {"gather": str(gather), "region": str(region), "sink": str(sink), **extra} if not extra:
            return Feed(gather, region, sink)
    raise _wrong(f"`after` of region {name!r} lists {{ gather, region, sink }}")


def _absent_s(given: Mapping[str, Any], name: str) -> int:
    if "absent" not in given:
        return 0
    seconds = absent_seconds(_text(given, "absent", f"query {name!r}"))
    if seconds is None:
        raise _wrong(f'`absent` of query {name!r} is a duration from 1 s to 30 days, like "5m"')
    return seconds


def _forward(given: Mapping[str, Any], name: str) -> str:
    said = given.get("forward", DYNAMIC)
    if said not in FORWARDS:
        raise _wrong(f'`forward` of query {name!r} is "{DYNAMIC}" or "{FORWARDS[1]}" to "{FORWARDS[-1]}"')
    return str(said)


def _hanging_s(value: Mapping[str, Any]) -> float:
    if "hanging" not in value:
        return HANGING_S
    seconds = microseconds(_text(value, "hanging", "fleet")) / 1e6
    if not 0 < seconds <= HANGING_S_MAX:
        raise _wrong(f'`hanging` is a duration of at most {HANGING_S_MAX:g} s, like "5s"')
    return seconds


def _cut_s(value: Mapping[str, Any]) -> float:
    if "cuts" not in value:
        return PERIOD_S
    seconds = microseconds(_text(value, "cuts", "fleet")) / 1e6
    if not CUTS_S_MIN <= seconds <= CUTS_S_MAX:
        raise _wrong(f'`cuts` is a duration from {CUTS_S_MIN:g} s to a day, like "5m"')
    return seconds


def _peer(given: Mapping[str, Any], operators: Sequence[str]) -> Peer:
    name = _text(given, "name", "node")
    if extra := sorted(given.keys() - NODE_KEYS):
        raise _wrong(f"node {name!r} says {extra[0]!r}; known are {', '.join(sorted(NODE_KEYS))}")
    try:
        key = bytes.fromhex(_text(given, "public_key", f"node {name!r}"))
    except ValueError:
        key = b""
    if len(key) != 32:
        raise _wrong(f"public_key of node {name!r} is 64 hex digits, as its card says")
    address = given.get("address", "")
    own = _texts(given.get("operators", list(operators)), f"operators of {name!r}")
    capacity = given.get("capacity", CAPACITY)
    if not _is_whole(capacity, 0, PLACEMENTS_MAX):
        raise _wrong(
            f"`capacity` of node {name!r} is a whole number up to {PLACEMENTS_MAX}: so many vertices run there"
        )
    return Peer(
        device_id(key).hex(), name, key, _text(given, "curve_key", f"node {name!r}"), (address,) if address else (),
        capacity, tuple(own), _lane(given, f"node {name!r}") if "lane" in given else "", _position(given, name),
    )  # fmt: skip


def _link(given: Mapping[str, Any], peers: Sequence[Peer]) -> Link:
    if extra := sorted(given.keys() - LINK_KEYS):
        raise _wrong(f"a link says {extra[0]!r}; known are {', '.join(sorted(LINK_KEYS))}")
    ends = _texts(given.get("between"), "the ends of a link, `between`,")
    found = [peer.node for end in ends for peer in peers if peer.name == end]
    if len({*ends}) != 2 or len(found) != 2:
        raise _wrong(f"a link is between two nodes of {', '.join(peer.name for peer in peers)}, not {ends}")
    what = f"link between {ends[0]} and {ends[1]}"
    lane, cost = _lane(given, what) if "lane" in given else "wired", given.get("cost")
    if cost is not None and not _is_whole(cost, 1, COST_MAX):
        raise _wrong(f"`cost` of the {what} is a whole number from 1 to {COST_MAX}")
    return Link((found[0], found[1]), lane, LANES[lane] if cost is None else cost)


def _lane(given: Mapping[str, Any], what: str) -> str:
    lane = _text(given, "lane", what)
    if lane not in LANES:
        raise _wrong(f"`lane` of the {what} is one of {', '.join(LANES)}, not {lane!r}")
    return lane


def _position(given: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    if given.get("position") is None:
        return None
    point = point_given(given["position"])
    if point is None:
        raise _wrong(f"`position` of node {name!r} is [latitude, longitude] in degrees")
    return point


def _is_whole(value: object, least: int, most: int = 2**32) -> bool:
    return type(value) is int and least <= value <= most


def _text(given: Mapping[str, Any], key: str, what: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise _wrong(f"a {what} has a text {key!r}")
    return value


def _texts(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _wrong(f"{what} are a list of texts")
    return value


def _wrong(message: str) -> UsageError:
    return UsageError(message, code="fleet-file")
