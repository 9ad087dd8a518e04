"""A fleet as a person writes it: its nodes, its coordinator, and the queries they share. TOML.

    coordinator = "laptop"
    hanging = "5s"                # an operator that has not returned by then is interrupted, and its vertex has failed

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

Every node reads the same file. What it says of nodes is whom they trust; what it says of queries counts on the
coordinator, and only until something has failed: from then on the coordinator knows better where a vertex runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.contracts.costs import Host
from shared.contracts.promises import of_fleet
from shared.errors import UsageError
from shared.identity import device_id
from shared.language.durations import microseconds
from shared.plan.cuts import region_vertices
from shared.plan.deployment import CAPACITY, HostedQuery, Peer, Placement
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home
from shared.stream.program import load_program

EVERY = 500
HANGING_S, HANGING_S_MAX = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class FleetFile:
    coordinator: Peer
    peers: tuple[Peer, ...]
    folder: Path
    queries: tuple[Mapping[str, Any], ...]
    hanging_s: float = HANGING_S

    def peer(self, node: str) -> Peer:
        """This node as others know it; UsageError when the file does not."""
        found = next((peer for peer in self.peers if peer.node == node), None)
        if found is None:
            raise UsageError(
                f"this node ({node}) is not in the fleet's file; add the card that `resurge fleet card` prints",
                code="fleet-file",
            )
        return found

    def hosted(self) -> tuple[HostedQuery, ...]:
        """The queries with a first placement of every vertex."""
        return tuple(self._query(each) for each in self.queries)

    def _query(self, given: Mapping[str, Any]) -> HostedQuery:
        name = _text(given, "name", "query")
        known = {"name", "program", "strategy", "every", "sources", "sink", "keepers", "hosts", "incarnation"}
        if extra := sorted(given.keys() - known):
            raise _wrong(f"query {name!r} says {extra[0]!r}; known are {', '.join(sorted(known))}")
        plan = load_program(self.folder / _text(given, "program", f"query {name!r}"))
        vertices = region_vertices(plan)
        if not vertices:
            raise _wrong(f"query {name!r} has nothing to run in a region; its program needs .gather(...)")
        hosts = given.get("hosts", {})
        if unknown := sorted(hosts.keys() - {vertex.name for vertex in vertices}):
            names = ", ".join(vertex.name for vertex in vertices)
            raise _wrong(f"query {name!r} places {unknown[0]!r}; its vertices are {names}")
        sink = self._node(_text(given, "sink", f"query {name!r}"), name)
        sources = tuple(self._node(each, name) for each in _texts(given.get("sources", []), f"sources of {name!r}"))
        able = [peer.node for peer in self.peers if peer.capacity and peer.addresses]
        near = [node for node in able if node != self.coordinator.node] or able
        strategy, elements = self._strategy(given, name, plan, able)
        copies = given.get("keepers", 1)
        if type(copies) is not int or not 0 <= copies < len(able):
            raise _wrong(f"query {name!r} wants {copies!r} keepers; there are {len(able) - 1} nodes for it")
        row = STRATEGIES[strategy].row if strategy in STRATEGIES else None  # which strategies there are is said later
        placed = []
        for at, vertex in enumerate(vertices):
            host = self._node(hosts[vertex.name], name) if vertex.name in hosts else near[at % len(near)]
            first = able.index(host) if host in able else 0
            others = [able[(first + 1 + step) % len(able)] for step in range(len(able))]
            near_it = [host, *(node for node in others if node != host)]
            live = row.copies if row is not None and row.home is Home.NOWHERE else 1
            kept = 0 if row is not None and row.home in (Home.NOWHERE, Home.LOCAL) else copies
            placed.append(Placement(vertex.name, tuple(near_it[:live]), tuple(near_it[live : live + kept]), 1))
        every, incarnation = given.get("every", elements), given.get("incarnation", 1)
        if type(every) is not int or every < 1 or type(incarnation) is not int or incarnation < 1:
            raise _wrong(f"`every` and `incarnation` of query {name!r} are whole numbers from 1 on")
        return HostedQuery(name, incarnation, plan, strategy, every, sources, sink, tuple(placed))

    @staticmethod
    def _strategy(given: Mapping[str, Any], name: str, plan: Plan, able: Sequence[str]) -> tuple[str, int]:
        """Its name, and the elements between two snapshots. Where it is not given, what was promised picks it."""
        if "strategy" in given:
            return _text(given, "strategy", f"query {name!r}"), EVERY
        choice = of_fleet(plan, [Host(node, region="fleet") for node in able])
        if choice.row is None:
            raise UsageError(f"query {name!r} promises what cannot be kept: {choice.refused}", code="contract-refused")
        bounded = any(edge.contract.delay_us_max is not None for edge in plan.gathers)
        return choice.row.name, choice.every if bounded and choice.every else EVERY

    def _node(self, name: object, query: str) -> str:
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
    return FleetFile(coordinator, peers, path.resolve().parent, tuple(queries), _hanging_s(value))


def _hanging_s(value: Mapping[str, Any]) -> float:
    if "hanging" not in value:
        return HANGING_S
    seconds = microseconds(_text(value, "hanging", "fleet")) / 1e6
    if not 0 < seconds <= HANGING_S_MAX:
        raise _wrong(f'`hanging` is a duration of at most {HANGING_S_MAX:g} s, like "5s"')
    return seconds


def _peer(given: Mapping[str, Any], operators: Sequence[str]) -> Peer:
    name = _text(given, "name", "node")
    known = {"name", "public_key", "curve_key", "address", "capacity", "operators"}
    if extra := sorted(given.keys() - known):
        raise _wrong(f"node {name!r} says {extra[0]!r}; known are {', '.join(sorted(known))}")
    try:
        key = bytes.fromhex(_text(given, "public_key", f"node {name!r}"))
    except ValueError:
        key = b""
    if len(key) != 32:
        raise _wrong(f"public_key of node {name!r} is 64 hex digits, as its card says")
    address = given.get("address", "")
    own = _texts(given.get("operators", list(operators)), f"operators of {name!r}")
    return Peer(
        device_id(key).hex(), name, key, _text(given, "curve_key", f"node {name!r}"), (address,) if address else (),
        given.get("capacity", CAPACITY), tuple(own),
    )  # fmt: skip


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
