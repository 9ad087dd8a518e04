"""What one node is told to run: who its peers are, which queries they share, and where each vertex runs.

A deployment is whole and idempotent: a node compares it with what it does and changes the difference, so a lost or
repeated one costs nothing. It is versioned JSON over plans, which are data themselves, and every node of a fleet gets
the same one but for `node`. Decoding believes nothing: sizes are bounded before parsing, and what is decoded is checked
against the plans it is about. `lease` is the coordinator's term: a node refuses a lower one than it has seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from shared.errors import PeerError, UsageError
from shared.identity import DEVICE_ID_BYTES, DeviceId, device_id, is_small_order
from shared.moves import Move
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
MOVES_MAX = 100  # that a coordinator remembers
CAPACITY = 64  # vertices that a node hosts unless its peer entry says otherwise

_NODE = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[0-9a-f]{64}")
_CURVE = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")  # z85: 32 bytes
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


@dataclass(frozen=True, slots=True)
class Deployment:
    """One node's whole share; the same for all nodes of a fleet but for `node`."""

    node: str
    version: int
    lease: int
    peers: tuple[Peer, ...]
    queries: tuple[HostedQuery, ...]
    moves: tuple[Move, ...] = ()  # the newest last; for people, nothing is decided by them


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
            }
            for peer in deployment.peers
        ],
        "queries": [
            {
                "name": query.name, "incarnation": query.incarnation, "plan": encode_plan(query.plan).decode(),
                "row": query.row, "every": query.every, "sources": list(query.sources),
                "sink": query.sink,
                "placements": [
                    {
                        "vertex": placed.vertex, "hosts": list(placed.hosts),
                        "keepers": list(placed.keepers), "term": placed.term, "anew": placed.anew,
                    }
                    for placed in query.placements
                ],
            }
            for query in deployment.queries
        ],
    }  # fmt: skip
    if deployment.moves:  # before there were any to tell of, there was no such key
        document["moves"] = [
            {
                "at_us": move.at_us, "query": move.query, "vertex": move.vertex, "term": move.term,
                "before": list(move.before), "after": list(move.after), "why": move.why,
            }
            for move in deployment.moves
        ]  # fmt: skip
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


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
            moves = extra.pop("moves", [])
            if extra:
                raise _malformed("nothing but format, node, version, lease, peers, queries and moves")
            deployment = Deployment(
                _node_id(node),
                _number(version, 1, 2**53 - 1, "version"),
                _number(lease, 0, 2**32 - 1, "lease"),
                _each(peers, PEERS_MAX, "peers", _peer),
                _each(queries, QUERIES_MAX, "queries", _query),
                _each(moves, MOVES_MAX, "moves", _move),
            )
            check_deployment(deployment)
            return deployment
    raise _malformed("format, node, version, lease, peers and queries")


def _peer(value: object) -> Peer:
    match value:
        case {
            "node": node, "name": name, "public_key": str(key), "curve_key": str(curve_key), "addresses": addresses,
            "capacity": capacity, "operators": operators, **extra,
        } if not extra:  # fmt: skip
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
            )
    raise _malformed("each peer with node, name, public_key, curve_key, addresses, capacity and operators")


def _query(value: object) -> HostedQuery:
    match value:
        case {
            "name": name, "incarnation": incarnation, "plan": str(plan), "row": row, "every": every,
            "sources": sources, "sink": sink, "placements": placements, **extra,
        } if not extra:  # fmt: skip
            try:
                encoded = plan.encode()
            except UnicodeEncodeError:
                raise _malformed("plans in well-formed Unicode") from None
            return HostedQuery(
                _name(name, "a query's name"),
                _number(incarnation, 0, 2**32 - 1, "incarnation"),
                decode_plan(encoded),
                _name(row, "a row's name"),
                _number(every, 0, 2**53 - 1, "every"),
                _each(sources, PEERS_MAX, "sources", _node_id),
                _node_id(sink),
                _each(placements, PLACEMENTS_MAX, "placements", _placement),
            )
    raise _malformed("each query with name, incarnation, plan, row, every, sources, sink and placements")


def _placement(value: object) -> Placement:
    match value:
        case {
            "vertex": vertex, "hosts": hosts, "keepers": keepers, "term": term, "anew": bool(anew), **extra,
        } if not extra:  # fmt: skip
            return Placement(
                _name(vertex, "a vertex"),
                _each(hosts, PEERS_MAX, "hosts", _node_id),
                _each(keepers, PEERS_MAX, "keepers", _node_id),
                _number(term, 0, 2**32 - 1, "term"),
                anew,
            )
    raise _malformed("each placement with vertex, hosts, keepers, term and anew")


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
    for query in deployment.queries:
        _check_query(query, peers)
        _check_vertices(query, peers)
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


def _check_known(nodes: Iterable[str], peers: dict[str, Peer], where: str) -> None:
    for node, count in Counter(nodes).items():
        if node not in peers:
            raise UsageError(
                f"{where} the node {node}, which is not among the peers ({', '.join(peers)})", code="deployment-host"
            )
        if count > 1:
            raise UsageError(f"{where} the node {node} twice; name it once", code="deployment-host")
