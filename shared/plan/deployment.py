"""What one node is told to run: who its peers are, which queries they share, and where each vertex runs.

A deployment is whole and idempotent: a node compares it with what it does and changes the difference, so a lost or
repeated one costs nothing. It is versioned JSON over plans, which are data themselves, and every node of a fleet gets
the same one but for `node`. Decoding believes nothing: sizes are bounded before parsing, and what is decoded is checked
against the plans it is about. `lease` is the coordinator's term: a node refuses a lower one than it has seen.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from shared.errors import PeerError, UsageError
from shared.identity import DEVICE_ID_BYTES, DeviceId, device_id, is_small_order
from shared.moves import Move
from shared.plan.area import Area
from shared.plan.cuts import region_vertices
from shared.plan.encoding import PLAN_BYTES_MAX, decode_plan, encode_plan
from shared.plan.graph import Plan
from shared.plan.wellformed import operator_references

FORMAT = 1
DEPLOYMENT_BYTES_MAX = 4 * PLAN_BYTES_MAX
PEERS_MAX = 1_000
QUERIES_MAX = 1_000
PLACEMENTS_MAX = 10_000  # of one query: as many as a plan has operators
ADDRESSES_MAX = 16
OPERATORS_MAX = 10_000
LINKS_MAX = 10_000
CORNERS_MAX = 1_000  # of a region's border
COST_MAX = 1_000_000
MOVES_MAX = 100  # that a coordinator remembers
PATHS_MAX = 8  # that rows of one device may take at once
RUN_MAX = 10_000  # operators that a node on the way applies
ABSENT_S_MAX = 30 * 86_400
RETIRED_MAX = 8  # plans of a query before it was edited
DYNAMIC = "dynamic"  # one path at a time, another one when it fails
CAPACITY = 64  # vertices that a node hosts unless its peer entry says otherwise

_NODE = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[0-9a-f]{64}")
_CURVE = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")  # z85: 32 bytes
_PATHS = re.compile(rf"paths:[2-{PATHS_MAX}]")
OPTIONAL = frozenset(
    {"place", "submitted", "routes", "absent_s", "forward", "retired", "cuts", "feeds", "shared"}
)  # keys of a query that came later
_ADDRESS = re.compile(r"tcp://[0-9A-Za-z.\-:\[\]_%]{1,253}:[0-9]{1,5}")

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one vertex runs. Node ids are the hex text of device ids."""

    vertex: str
    hosts: tuple[str, ...]  # more than one only where a row runs copies
    keepers: tuple[str, ...]  # nodes whose keeper reads its state edge
    term: int  # raised when it moves or rolls back
    anew: bool = False  # begin also where what the vertex had read is nowhere any more, and say what is lost
    to: str = ""  # a node that shall take the place of its first host: that one hands its state over
    handed: int | None = None  # the snapshot that was handed over for this term: how much of its inputs it has read

    @property
    def next_hosts(self) -> tuple[str, ...]:
        """Where it runs once it has moved."""
        return (*self.hosts[1:], self.to) if self.to else self.hosts

    @property
    def state_readers(self) -> tuple[str, ...]:
        """Who reads its state edge: its keepers, and who shall run it next."""
        return tuple(dict.fromkeys((*self.keepers, *(self.next_hosts if self.to else ()))))


@dataclass(frozen=True, slots=True)
class Peer:
    """A node as others reach it, and what it can host."""

    node: str
    name: str
    public_key: bytes  # Ed25519, 32 bytes; the node's id is its hash
    curve_key: str  # ZeroMQ CURVE public key, z85 text
    addresses: tuple[str, ...]  # "tcp://host:port", most wanted first; none: it only calls
    capacity: int = CAPACITY  # how many vertices it hosts at most
    operators: tuple[str, ...] = ()  # users' operator types it has: "name@version"
    lane: str = ""  # how it is connected, where no link says it; empty: by wire
    position: tuple[float, float] | None = None  # latitude and longitude in degrees


@dataclass(frozen=True, slots=True)
class Link:
    """Two nodes that exchange rows directly, and what that costs: a whole number, only compared with other links'."""

    nodes: tuple[str, str]
    lane: str
    cost: int


@dataclass(frozen=True, slots=True)
class Hop:
    """A node that passes a device's rows on. It applies what they lack of the first `upto` operators behind their
    gather; one with nothing to apply only carries them."""

    node: str
    upto: int = 0


@dataclass(frozen=True, slots=True)
class Route:
    """How the rows of a device come to the nodes that read a gather. Several paths: each row goes over all of them, and
    is taken once. One without hops goes there directly."""

    gather: str
    source: str
    upto: int = 0  # of the operators behind the gather, so many are the device's own
    paths: tuple[tuple[Hop, ...], ...] = ((),)
    alternates: tuple[tuple[Hop, ...], ...] = ()  # that the device may take by itself while nobody coordinates
    detours: tuple[tuple[Hop, ...], ...] = ()  # that leave its path behind a node, which may take them by itself then

    @property
    def plain(self) -> bool:
        """Whether rows go directly, as they were made."""
        return not self.upto and self.paths == ((),)

    def taking(self, alternate: int) -> Route:
        """The same with one of its alternates for its way; what it was is an alternate then, the last to be tried."""
        later, earlier = self.alternates[alternate + 1 :], self.alternates[:alternate]
        return replace(
            self, paths=(self.alternates[alternate],), alternates=(*later, *earlier, *self.paths)[:PATHS_MAX],
            detours=(),
        )  # fmt: skip

    def detouring(self, detour: int) -> Route:
        """The same with one of its detours for its way; what it was is a detour then, the last to be tried."""
        later, earlier = self.detours[detour + 1 :], self.detours[:detour]
        return replace(self, paths=(self.detours[detour],), detours=(*later, *earlier, *self.paths)[:PATHS_MAX])


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts through a region that goes back together: to `complete`, which every node of `holders` has."""

    complete: int = 0  # 0: there is none; the region would begin from nothing
    begun: int = 0  # the newest that sources were asked for; what is between the two is void when the region goes back
    holders: tuple[str, ...] = ()  # nodes that have been members since then: they have all that came into the region


@dataclass(frozen=True, slots=True)
class Feed:
    """What comes to a gather from another region: a sink of another query, in place of devices' rows."""

    gather: str
    query: str
    sink: str


@dataclass(frozen=True, slots=True)
class Spooling:
    """For which query a device gathers and spools. Queries that begin alike share it, and it stays theirs when the one
    that it is named after ends."""

    query: str
    incarnation: int
    submitted: bool


@dataclass(frozen=True, slots=True)
class HostedQuery:
    """A plan whose region side runs on peers."""

    name: str
    incarnation: int  # of the edges where devices met: their origin is the query, not a device
    plan: Plan
    row: str  # the name of the strategy's row
    every: int  # a mark every so many elements; 0 where the row never marks
    sources: tuple[str, ...]  # nodes whose device side feeds its gathers
    sink: str  # the node where what is subscribed in the region ends
    placements: tuple[Placement, ...]
    place: str = ""  # by which strategy it was placed first (`shared/plan/placing.py`); empty: spread
    submitted: bool = False  # while the fleet ran: its file says nothing of it
    routes: tuple[Route, ...] = ()  # of devices that do not send directly, or apply something themselves
    absent_s: int = 0  # that a node may be silent before anything moves; 0: as what is promised allows
    forward: str = DYNAMIC  # or "paths:K": what a device brings back goes over K paths
    retired: tuple[Plan, ...] = ()  # what the query was, as long as devices have rows that are part of the way through
    cuts: Cuts = Cuts()
    feeds: tuple[Feed, ...] = ()
    shared: Spooling | None = None  # another query's, which begins as this one does; its rows are spooled once

    @property
    def spooling(self) -> Spooling:
        """Its own, or the one that it shares."""
        return self.shared or Spooling(self.name, self.incarnation, self.submitted)

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes that run its vertices or keep their snapshots."""
        return tuple(dict.fromkeys(node for each in self.placements for node in (*each.hosts, *each.keepers)))

    def feed(self, gather: str) -> Feed | None:
        """Where a gather's rows come from, if not from devices."""
        return next((feed for feed in self.feeds if feed.gather == gather), None)

    def route(self, gather: str, source: str) -> Route:
        """The way of a device's rows; directly where nothing is said."""
        found = [route for route in self.routes if (route.gather, route.source) == (gather, source)]
        return found[0] if found else Route(gather, source)

    @property
    def paths(self) -> int:
        """Over how many paths rows go that cannot go directly."""
        return 1 if self.forward == DYNAMIC else int(self.forward.removeprefix("paths:"))


@dataclass(frozen=True, slots=True)
class Region:
    """A place where phones meet, and what they compute while enough of them are there. Known to a coordinator only."""

    area: Area
    dwell_s: float  # that a phone stays before it is a member
    threshold: int  # members that it needs
    task: HostedQuery  # without placements; its feeds name regions
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.task.name


@dataclass(frozen=True, slots=True)
class NamedArea:
    """A region as its nodes know it: where it is, and what makes a phone one of its members."""

    name: str
    area: Area
    dwell_s: float
    threshold: int


@dataclass(frozen=True, slots=True)
class Deployment:
    """One node's whole share; the same for all nodes of a fleet but for `node`."""

    node: str
    version: int
    lease: int
    peers: tuple[Peer, ...]
    queries: tuple[HostedQuery, ...]
    moves: tuple[Move, ...] = ()  # the newest last; for people, nothing is decided by them
    links: tuple[Link, ...] = ()  # none: every node reaches all that have an address
    regions: tuple[Region, ...] = ()  # what feeds a region stands before it
    areas: tuple[NamedArea, ...] = ()  # of the regions, for nodes: who is told none need not say where it is


def query_origin(query: str) -> DeviceId:
    """The origin of edges where rows of several devices have met: 16 bytes of the query's name, like a device's id."""
    digest = hashlib.blake2b(query.encode(), digest_size=DEVICE_ID_BYTES, person=b"resurge-query")
    return DeviceId(digest.digest())


# --- Encoding -------------------------------------------------------------------------------------------------------


def encode_deployment(deployment: Deployment) -> bytes:
    """Canonical JSON: equal deployments give equal bytes."""
    document = {
        "format": FORMAT,
        "node": deployment.node,
        "version": deployment.version,
        "lease": deployment.lease,
        "peers": [
            {
                "node": peer.node, "name": peer.name, "public_key": peer.public_key.hex(),
                "curve_key": peer.curve_key, "addresses": list(peer.addresses),
                "capacity": peer.capacity, "operators": list(peer.operators),
                # What came later is written only where it is said, so that others' bytes stay as they were.
                **({"lane": peer.lane} if peer.lane else {}),
                **({"position": list(peer.position)} if peer.position is not None else {}),
            }
            for peer in deployment.peers
        ],
        "queries": [_query_document(query) for query in deployment.queries],
    }  # fmt: skip
    if deployment.regions:
        document["regions"] = [
            {
                "dwell_s": region.dwell_s, "threshold": region.threshold, "task": _query_document(region.task),
                "members": list(region.members),
            }
            | _area_document(region.area)
            for region in deployment.regions
        ]  # fmt: skip
    if deployment.areas:
        document["areas"] = [
            {"name": each.name, "dwell_s": each.dwell_s, "threshold": each.threshold} | _area_document(each.area)
            for each in deployment.areas
        ]
    if deployment.links:
        document["links"] = [
            {"nodes": list(link.nodes), "lane": link.lane, "cost": link.cost} for link in deployment.links
        ]
    if deployment.moves:  # before there were any to tell of, there was no such key
        document["moves"] = [
            {
                "at_us": move.at_us, "query": move.query, "vertex": move.vertex, "term": move.term,
                "before": list(move.before), "after": list(move.after), "why": move.why,
            }
            for move in deployment.moves
        ]  # fmt: skip
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _area_document(area: Area) -> dict[str, object]:
    return {"points": [list(point) for point in area.points], "radius_m": area.radius_m}


def _query_document(query: HostedQuery) -> dict[str, object]:
    return {
        "name": query.name, "incarnation": query.incarnation, "plan": encode_plan(query.plan).decode(),
        "row": query.row, "every": query.every, "sources": list(query.sources),
        "sink": query.sink,
        "placements": [_placement_document(placed) for placed in query.placements],
        **({"place": query.place} if query.place else {}),
        **({"submitted": True} if query.submitted else {}),
    } | _optional(query)  # fmt: skip


def _placement_document(placed: Placement) -> dict[str, object]:
    document: dict[str, object] = {
        "vertex": placed.vertex, "hosts": list(placed.hosts), "keepers": list(placed.keepers), "term": placed.term,
        "anew": placed.anew,
    }  # fmt: skip
    if placed.to:  # before vertices could be moved there were no such keys
        document["to"] = placed.to
    if placed.handed is not None:
        document["handed"] = placed.handed
    return document


def _optional(query: HostedQuery) -> dict[str, object]:
    """What the first release did not say; not said where it is as it was then."""
    said: dict[str, object] = {}
    if query.routes:
        said["routes"] = [
            {
                "gather": route.gather, "source": route.source, "upto": route.upto, "paths": _paths(route.paths),
                **({"alternates": _paths(route.alternates)} if route.alternates else {}),
                **({"detours": _paths(route.detours)} if route.detours else {}),
            }
            for route in query.routes
        ]  # fmt: skip
    if query.absent_s:
        said["absent_s"] = query.absent_s
    if query.forward != DYNAMIC:
        said["forward"] = query.forward
    if query.retired:
        said["retired"] = [encode_plan(plan).decode() for plan in query.retired]
    if query.cuts != Cuts():
        said["cuts"] = [query.cuts.complete, query.cuts.begun, list(query.cuts.holders)]
    if query.feeds:
        said["feeds"] = [[feed.gather, feed.query, feed.sink] for feed in query.feeds]
    if query.shared is not None:
        said["shared"] = [query.shared.query, query.shared.incarnation, query.shared.submitted]
    return said


def _paths(paths: tuple[tuple[Hop, ...], ...]) -> list[list[list[object]]]:
    return [[[hop.node, hop.upto] for hop in path] for path in paths]


def decode_deployment(data: bytes) -> Deployment:
    """The deployment in these bytes, checked. PeerError where they are no deployment, UsageError where it makes no
    sense: a plan that is not well formed, a vertex that it does not have, a host that nobody knows."""
    if len(data) > DEPLOYMENT_BYTES_MAX:
        raise PeerError(
            f"a deployment has at most {DEPLOYMENT_BYTES_MAX} bytes, not {len(data)}", code="deployment-size"
        )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"a deployment is JSON text: {type(error).__name__}", code="deployment-json") from None
    match document:
        case {"format": int(found), **rest} if found == FORMAT and found is not True:
            pass
        case {"format": _}:
            raise PeerError(f"this side reads deployments of format {FORMAT}", code="deployment-format")
        case _:
            raise _malformed("an object with a format")
    match rest:
        case {"node": node, "version": version, "lease": lease, "peers": peers, "queries": queries, **extra}:
            moves, links, regions = extra.pop("moves", []), extra.pop("links", []), extra.pop("regions", [])
            areas = extra.pop("areas", [])
            if extra:
                raise _malformed(
                    "nothing but format, node, version, lease, peers, queries, moves, links, regions and areas"
                )
            deployment = Deployment(
                _node_id(node),
                _number(version, 1, 2**53 - 1, "version"),
                _number(lease, 0, 2**32 - 1, "lease"),
                _each(peers, PEERS_MAX, "peers", _peer),
                _each(queries, QUERIES_MAX, "queries", _query),
                _each(moves, MOVES_MAX, "moves", _move),
                _each(links, LINKS_MAX, "links", _link),
                _each(regions, QUERIES_MAX, "regions", _region),
                _each(areas, QUERIES_MAX, "areas", _named_area),
            )
            check_deployment(deployment)
            return deployment
    raise _malformed("format, node, version, lease, peers and queries")


def _peer(value: object) -> Peer:
    match value:
        case {
            "node": node, "name": name, "public_key": str(key), "curve_key": str(curve_key), "addresses": addresses,
            "capacity": capacity, "operators": operators, **extra,
        } if not extra.keys() - {"lane", "position"}:  # fmt: skip
            if not _KEY.fullmatch(key):
                raise _malformed("public_key as 64 hex digits")
            if not _CURVE.fullmatch(curve_key):
                raise _malformed("curve_key as 40 characters of z85")
            return Peer(
                _node_id(node),
                _name(name, "a peer's name"),
                bytes.fromhex(key),
                curve_key,
                _each(addresses, ADDRESSES_MAX, "addresses", _address),
                _number(capacity, 0, PLACEMENTS_MAX, "capacity"),
                _each(operators, OPERATORS_MAX, "operators", lambda each: _name(each, "an operator type")),
                _name(extra["lane"], "a lane") if "lane" in extra else "",
                _position(extra["position"]) if "position" in extra else None,
            )
    raise _malformed("each peer with node, name, public_key, curve_key, addresses, capacity and operators")


def _query(value: object) -> HostedQuery:
    match value:
        case {
            "name": name, "incarnation": incarnation, "plan": str(plan), "row": row, "every": every,
            "sources": sources, "sink": sink, "placements": placements, **extra,
        } if not extra.keys() - OPTIONAL and extra.get("submitted", True) is True:  # fmt: skip
            return HostedQuery(
                _name(name, "a query's name"),
                _number(incarnation, 0, 2**32 - 1, "incarnation"),
                _plan(plan),
                _name(row, "a row's name"),
                _number(every, 0, 2**53 - 1, "every"),
                _each(sources, PEERS_MAX, "sources", _node_id),
                _node_id(sink),
                _each(placements, PLACEMENTS_MAX, "placements", _placement),
                _name(extra["place"], "how a query is placed") if "place" in extra else "",
                "submitted" in extra,
                _each(extra.get("routes", []), PEERS_MAX, "routes", _route),
                _number(extra.get("absent_s", 0), 0, ABSENT_S_MAX, "absent_s"),
                _forward(extra.get("forward", DYNAMIC)),
                _each(extra.get("retired", []), RETIRED_MAX, "retired", _plan),
                _cuts(extra["cuts"]) if "cuts" in extra else Cuts(),
                _each(extra.get("feeds", []), PEERS_MAX, "feeds", _feed),
                _spooling(extra["shared"]) if "shared" in extra else None,
            )
    raise _malformed("each query with name, incarnation, plan, row, every, sources, sink and placements")


def _plan(value: object) -> Plan:
    try:
        return decode_plan(value.encode() if isinstance(value, str) else b"")
    except UnicodeEncodeError:
        raise _malformed("plans in well-formed Unicode") from None


def _forward(value: object) -> str:
    if value == DYNAMIC or (isinstance(value, str) and _PATHS.fullmatch(value)):
        return str(value)
    raise _malformed(f'forward as "{DYNAMIC}" or "paths:K", K from 2 to {PATHS_MAX}')


def _route(value: object) -> Route:
    match value:
        case {"gather": gather, "source": source, "upto": upto, "paths": paths, **extra} if extra.keys() <= {
            "alternates",
            "detours",
        }:
            return Route(
                _name(gather, "a gather"),
                _node_id(source),
                _number(upto, 0, RUN_MAX, "upto"),
                _each(paths, PATHS_MAX, "paths", _path),
                _each(extra.get("alternates", []), PATHS_MAX, "alternates", _path),
                _each(extra.get("detours", []), PATHS_MAX, "detours", _path),
            )
    raise _malformed("each route with gather, source, upto, paths and perhaps alternates and detours")


def _path(value: object) -> tuple[Hop, ...]:
    return _each(value, PEERS_MAX, "a path", _hop)


def _cuts(value: object) -> Cuts:
    match value:
        case [complete, begun, holders]:
            most = _number(begun, 0, 2**53 - 1, "begun")
            return Cuts(_number(complete, 0, most, "complete"), most, _each(holders, PEERS_MAX, "holders", _node_id))
    raise _malformed("cuts as complete, begun and holders")


def _feed(value: object) -> Feed:
    match value:
        case [gather, query, sink]:
            return Feed(_name(gather, "a gather"), _name(query, "a query's name"), _name(sink, "a sink"))
    raise _malformed("each feed as gather, query and sink")


def _spooling(value: object) -> Spooling:
    match value:
        case [query, incarnation, bool(submitted)]:
            return Spooling(
                _name(query, "a query's name"), _number(incarnation, 0, 2**32 - 1, "incarnation"), submitted
            )
    raise _malformed("shared as a query, its incarnation and whether it was submitted")


def _hop(value: object) -> Hop:
    match value:
        case [node, upto]:
            return Hop(_node_id(node), _number(upto, 0, RUN_MAX, "upto"))
    raise _malformed("each hop as its node and upto")


def _placement(value: object) -> Placement:
    match value:
        case {
            "vertex": vertex, "hosts": hosts, "keepers": keepers, "term": term, "anew": bool(anew), **extra,
        } if extra.keys() <= {"to", "handed"}:  # fmt: skip
            return Placement(
                _name(vertex, "a vertex"),
                _each(hosts, PEERS_MAX, "hosts", _node_id),
                _each(keepers, PEERS_MAX, "keepers", _node_id),
                _number(term, 0, 2**32 - 1, "term"),
                anew,
                _node_id(extra["to"]) if "to" in extra else "",
                _number(extra["handed"], 0, 2**53 - 1, "handed") if "handed" in extra else None,
            )
    raise _malformed("each placement with vertex, hosts, keepers, term, anew and perhaps to and handed")


def _link(value: object) -> Link:
    match value:
        case {"nodes": [one, other], "lane": lane, "cost": cost, **extra} if not extra:
            return Link((_node_id(one), _node_id(other)), _name(lane, "a lane"), _number(cost, 1, COST_MAX, "cost"))
    raise _malformed("each link with two nodes, lane and cost")


def _region(value: object) -> Region:
    match value:
        case {
            "points": points, "radius_m": int() | float() as radius_m, "dwell_s": int() | float() as dwell_s,
            "threshold": threshold, "task": task, "members": members, **extra,
        } if not extra and math.isfinite(radius_m) and math.isfinite(dwell_s):  # fmt: skip
            area = Area(_each(points, CORNERS_MAX, "points", _position), float(radius_m))
            return Region(
                area, float(dwell_s), _number(threshold, 1, PEERS_MAX, "threshold"), _query(task),
                _each(members, PEERS_MAX, "members", _node_id),
            )  # fmt: skip
    raise _malformed("each region with points, radius_m, dwell_s, threshold, task and members")


def _named_area(value: object) -> NamedArea:
    match value:
        case {
            "name": name, "points": points, "radius_m": int() | float() as radius_m,
            "dwell_s": int() | float() as dwell_s, "threshold": threshold, **extra,
        } if not extra and math.isfinite(radius_m) and math.isfinite(dwell_s):  # fmt: skip
            corners = _each(points, CORNERS_MAX, "points", _position)
            if not corners or len(corners) == 2:
                raise _malformed("an area as a circle or three corners or more")
            return NamedArea(
                _name(name, "a region's name"), Area(corners, float(radius_m)), float(dwell_s),
                _number(threshold, 1, PEERS_MAX, "threshold"),
            )  # fmt: skip
    raise _malformed("each area with name, points, radius_m, dwell_s and threshold")


def _position(value: object) -> tuple[float, float]:
    match value:
        case [float(latitude), float(longitude)] if is_position(latitude, longitude):
            return latitude, longitude
    raise _malformed("a position as latitude and longitude in degrees")


def is_position(latitude: float, longitude: float) -> bool:
    """Whether these are degrees of a place on Earth."""
    return math.isfinite(latitude) and math.isfinite(longitude) and abs(latitude) <= 90 and abs(longitude) <= 180


def _move(value: object) -> Move:
    match value:
        case {
            "at_us": at_us, "query": query, "vertex": vertex, "term": term, "before": before, "after": after,
            "why": why, **extra,
        } if not extra:  # fmt: skip
            return Move(
                _number(at_us, 0, 2**53 - 1, "at_us"),
                _name(query, "a query's name"),
                _name(vertex, "a vertex"),
                _number(term, 0, 2**32 - 1, "term"),
                _each(before, PEERS_MAX, "before", lambda each: _name(each, "a node's name")),
                _each(after, PEERS_MAX, "after", lambda each: _name(each, "a node's name")),
                _name(why, "why a vertex moved"),
            )
    raise _malformed("each move with at_us, query, vertex, term, before, after and why")


def _each(value: object, most: int, what: str, one: Callable[[object], Entry]) -> tuple[Entry, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise _malformed(f"{what} as a list of at most {most}")
    return tuple(map(one, value))


def _node_id(value: object) -> str:
    if not isinstance(value, str) or not _NODE.fullmatch(value):
        raise _malformed("node ids as 32 hex digits")
    return value


def _address(value: object) -> str:
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value) or int(value.rpartition(":")[2]) > 65_535:
        raise _malformed("addresses like tcp://host:port")
    return value


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise _malformed(f"{what} as 1 to 200 printable characters")
    return value


def _number(value: object, least: int, most: int, what: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _malformed(f"{what} as a whole number from {least} to {most}")
    return value


def _malformed(expected: str) -> PeerError:
    return PeerError(f"malformed deployment: expected {expected}", code="deployment-json")


# --- Checks ---------------------------------------------------------------------------------------------------------


def check_deployment(deployment: Deployment) -> None:
    """UsageError where peers, queries or placements contradict each other or the plans."""
    peers = _known_peers(deployment)
    for name, count in Counter(query.name for query in deployment.queries).items():
        if count > 1:
            raise UsageError(f"two queries are called {name!r}; each needs its own name", code="deployment-query")
    for link in deployment.links:
        names = [peers[node].name for node in link.nodes if node in peers]
        if len({*link.nodes} & peers.keys()) < 2:
            raise UsageError(
                f"a link is between two different nodes of the fleet (of this one there are: {', '.join(names)})",
                code="deployment-link",
            )
    for query in deployment.queries:
        _check_query(query, peers)
        _check_vertices(query, peers)
        _check_routes(query, peers)
        _check_feeds(query, deployment.queries)
    _check_regions(deployment.regions, peers)
    hosting = Counter(host for query in deployment.queries for placed in query.placements for host in placed.hosts)
    for node, count in hosting.items():
        if count > peers[node].capacity:
            raise UsageError(
                f"{peers[node].name!r} would host {count} vertices and has room for {peers[node].capacity}; place some "
                "elsewhere",
                code="deployment-capacity",
            )


def _known_peers(deployment: Deployment) -> dict[str, Peer]:
    peers = {peer.node: peer for peer in deployment.peers}
    if len(peers) < len(deployment.peers):
        raise UsageError("two peers have the same node id; list each node once", code="deployment-peer")
    for peer in deployment.peers:
        if device_id(peer.public_key).hex() != peer.node or is_small_order(peer.public_key):
            raise UsageError(
                f"the id of peer {peer.name!r} is not that of its key; take both from its enrolment",
                code="deployment-peer",
            )
    if deployment.node not in peers:
        raise UsageError(
            f"this deployment is for the node {deployment.node}, which is not among its peers", code="deployment-peer"
        )
    return peers


def _check_query(query: HostedQuery, peers: dict[str, Peer]) -> None:
    _check_known(query.sources, peers, f"query {query.name!r} takes rows from")
    _check_known([query.sink], peers, f"query {query.name!r} ends on")
    for placed in query.placements:
        where = f"vertex {placed.vertex!r} of query {query.name!r}"
        if not placed.hosts:
            raise UsageError(f"{where} has no host; name at least one", code="deployment-host")
        _check_known(placed.hosts, peers, f"{where} runs on")
        _check_known(placed.keepers, peers, f"{where} is kept by")
        if placed.to:
            _check_known(placed.next_hosts, peers, f"{where} moves to")


def _check_vertices(query: HostedQuery, peers: dict[str, Peer]) -> None:
    placed = {each.vertex: each for each in query.placements}
    if len(placed) < len(query.placements):
        (twice, _), *_ = Counter(each.vertex for each in query.placements).most_common(1)
        raise UsageError(
            f"vertex {twice!r} of query {query.name!r} is placed twice; name all its hosts in one placement",
            code="deployment-vertex",
        )
    known = {vertex.name: vertex for vertex in region_vertices(query.plan)}
    for name in (*placed, *known):
        if name not in known or name not in placed:
            what = "is not in its plan" if name not in known else "has no placement"
            raise UsageError(
                f"vertex {name!r} of query {query.name!r} {what} (the plan has: {', '.join(known)})",
                code="deployment-vertex",
            )
    for name, vertex in known.items():
        if vertex.merge == "arrival":  # a reader's permanent snapshot would hold what a replay does not give again
            raise UsageError(
                f"vertex {name!r} of query {query.name!r} merges by arrival, which no strategy "
                "between nodes can replay; write merge='logged'",
                code="deployment-arrival",
            )
        needed = {reference for node in vertex.operators for reference in operator_references(node)}
        for host in placed[name].hosts:
            lacking = sorted(needed - set(peers[host].operators))
            if lacking:
                raise UsageError(
                    f"{peers[host].name!r} lacks the operator type {lacking[0]}, which vertex {name!r} needs; install "
                    "its package there, or place the vertex elsewhere",
                    code="deployment-operator",
                )


def _check_routes(query: HostedQuery, peers: dict[str, Peer]) -> None:
    gathers = {edge.name for edge in query.plan.gathers}
    for (gather, source), count in Counter((route.gather, route.source) for route in query.routes).items():
        if count > 1 or gather not in gathers or source not in query.sources:
            raise UsageError(
                f"query {query.name!r} has {count} routes for gather {gather!r} of the node {source}; each source has "
                "at most one for each of its gathers",
                code="deployment-route",
            )
    for route in query.routes:
        # Paths that share a node would fail together, and it could not tell their rows apart.
        every = (*route.paths, *route.alternates)
        hops = [hop.node for path in every for hop in path]
        if not route.paths or route.source in hops or sum(not path for path in every) > 1:
            raise UsageError(
                f"a route of query {query.name!r} has no path, or comes back to where it begins",
                code="deployment-route",
            )
        for detour in route.detours:
            nodes, way = [hop.node for hop in detour], [hop.node for hop in route.paths[0]]
            same = next((at for at, node in enumerate(nodes) if [node] != way[at : at + 1]), len(nodes))
            if not same or len(route.paths) > 1 or route.source in nodes:
                raise UsageError(
                    f"a detour of query {query.name!r} begins otherwise than the one path that it leaves",
                    code="deployment-route",
                )
            hops += nodes[same:]
        _check_known(hops, peers, f"gather {route.gather!r} of query {query.name!r} is passed on by")


def _check_regions(regions: tuple[Region, ...], peers: dict[str, Peer]) -> None:
    known: dict[str, Region] = {}
    for region in regions:
        if not region.area.points or len(region.area.points) == 2:
            raise UsageError(
                f"region {region.name!r} is a circle, or has three corners or more", code="deployment-region"
            )
        if region.name in known or region.task.placements:
            raise UsageError(f"region {region.name!r} is there twice, or has places already", code="deployment-region")
        for feed in region.task.feeds:
            if feed.query not in known or feed.gather not in {edge.name for edge in region.task.plan.gathers}:
                raise UsageError(
                    f"region {region.name!r} is fed by {feed.query!r}, which is no region before it, or has no gather "
                    f"{feed.gather!r}",
                    code="deployment-region",
                )
        _check_known(region.task.sources, peers, f"region {region.name!r} takes rows from")
        _check_known([region.task.sink], peers, f"region {region.name!r} ends on")
        known[region.name] = region


def _check_feeds(query: HostedQuery, queries: Iterable[HostedQuery]) -> None:
    gathers = {edge.name for edge in query.plan.gathers}
    for feed in query.feeds:
        upstream = [each for each in queries if each.name == feed.query and each is not query]
        sinks = {
            output.name
            for each in upstream
            for vertex in region_vertices(each.plan)
            for output in vertex.fragment.outputs
            if output.kind == "subscribe"
        }
        twice = [each.gather for each in query.feeds].count(feed.gather) > 1
        if feed.gather not in gathers or feed.sink not in sinks or twice:
            raise UsageError(
                f"gather {feed.gather!r} of query {query.name!r} is fed once, by a sink of another query; not by "
                f"{feed.sink!r} of {feed.query!r}",
                code="deployment-feed",
            )


def _check_known(nodes: Iterable[str], peers: dict[str, Peer], where: str) -> None:
    for node, count in Counter(nodes).items():
        if node not in peers:
            raise UsageError(
                f"{where} the node {node}, which is not among the peers ({', '.join(peers)})", code="deployment-host"
            )
        if count > 1:
            raise UsageError(f"{where} the node {node} twice; name it once", code="deployment-host")
