"""Who goes back, and where to, when something between nodes has failed.

What fails alone is mended alone: an operator is started again where it is, then elsewhere; a broken link is relayed; a
node's vertices go to the nodes that keep their snapshots, each to another if that is less loaded. Only what failed goes
back (R = F) and its inputs replay (E), unless the row's snapshots are one cut through the region.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shared.recovery.failures import RESTARTS_MAX, Failure, HostsFailed, OperatorFailed, StreamFailed, View
from shared.recovery.rollback import Move, RecoveryPlan, Rule, rollback
from shared.recovery.strategies.row import Commit, Home, Include, Keep, Row

FIRST_CONTACT = 0  # where a replay begins is what the reader's first answer says


def recover(row: Row, failure: Failure, view: View) -> RecoveryPlan:
    if row.home is Home.STORE:
        return _by_manifest(row, failure, view)
    if row.commit is Commit.REGION:
        return _Recovery(row, view, failure).of_region()
    return _Recovery(row, view, failure).of_failed()


def _by_manifest(row: Row, failure: Failure, view: View) -> RecoveryPlan:
    failed = {failure.vertex} if isinstance(failure, OperatorFailed) else set()
    rule = Rule.FULL if row.keep is Keep.SOURCES else Rule.CHANGED
    return rollback(failed, view.manifests, view.lost_records, rule=rule)


class _Recovery:
    """One decision, vertex by vertex: each one placed counts as load for the next."""

    def __init__(self, row: Row, view: View, failure: Failure) -> None:
        self.row, self.view, self.failure = row, view, failure
        lost = failure.nodes if isinstance(failure, HostsFailed) else frozenset()
        self.lost = lost
        self.alive = view.alive - lost
        self.hosting = dict(view.hosting)
        self.reasons: dict[str, str] = {}
        self.moves: dict[str, Move] = {}
        self.forgotten: set[str] = set()

    def of_failed(self) -> RecoveryPlan:
        match self.failure:
            case OperatorFailed(vertex, restarts):
                self._operator(vertex, elsewhere=restarts >= RESTARTS_MAX)
            case StreamFailed(writer, reader):
                relay = self._relay(writer, reader)
                if relay is not None:
                    return RecoveryPlan(frozenset(), forwards={(writer, reader): relay})
                self._readers_of(writer, reader)
            case HostsFailed():
                for vertex, placed in self.view.placements.items():
                    if self.lost & {*placed.hosts}:
                        self._host(vertex)
                    elif self.lost & {*placed.keepers}:
                        self._keep(vertex, placed.hosts)
        return self._plan(self.reasons)

    def of_region(self) -> RecoveryPlan:
        """All of it goes back to the newest complete cut, which every node has. A broken link alone changes nothing."""
        if isinstance(self.failure, StreamFailed):
            relay = self._relay(self.failure.writer, self.failure.reader)
            return RecoveryPlan(
                frozenset(), forwards={(self.failure.writer, self.failure.reader): relay} if relay else {}
            )
        placements = self.view.placements
        if len(self.alive) < self.view.threshold:
            why = f"{len(self.alive)} nodes are left, {self.view.threshold} are needed"
            return replace(self._plan(dict.fromkeys(placements, why)), bypasses=frozenset(placements))
        for vertex, placed in placements.items():
            if self.lost & {*placed.hosts}:
                self.reasons[vertex] = "its host failed"
                self._move(vertex, self._homes(vertex) or self.alive)
            else:
                self.reasons[vertex] = "the region goes back"
                if self.lost & {*placed.keepers}:
                    self._keep(vertex, placed.hosts)
        return self._plan(self.reasons)

    # Kinds of failure.

    def _operator(self, vertex: str, *, elsewhere: bool) -> None:
        self.reasons[vertex] = "failed again where it is" if elsewhere else "failed"
        homes, here = self._homes(vertex), frozenset(self.view.placements[vertex].hosts)
        if not homes and self._needs_state(vertex):
            self.forgotten.add(vertex)
        elsewhere_possible = (homes or self.alive) - here
        if elsewhere and elsewhere_possible:
            self._move(vertex, elsewhere_possible)

    def _host(self, vertex: str) -> None:
        placed = self.view.placements[vertex]
        left = tuple(host for host in placed.hosts if host not in self.lost)
        if left:  # a live copy goes on: nothing goes back
            self._keep(vertex, left)
            return
        feeders = self.view.fed_by.get(vertex, frozenset())
        if feeders and feeders <= self.lost:
            return  # only the absent feed it: elsewhere it would fence off what they bring back
        if self.row.home is Home.LOCAL:
            self.reasons[vertex] = "its host failed, and has its snapshot"
            return
        self.reasons[vertex] = "its host failed"
        homes = self._homes(vertex)
        if not homes and self._needs_state(vertex):
            self.forgotten.add(vertex)
            self.reasons[vertex] = "its host and all its keepers failed"
        self._move(vertex, homes or self.alive)

    def _readers_of(self, writer: str, reader: str) -> None:
        """No way round: what reads there what is written here moves to a keeper that hears the writer."""
        for vertex, placed in self.view.placements.items():
            sources = {
                host for source in self.view.inputs.get(vertex, ()) for host in self.view.placements[source].hosts
            }
            near = {
                node for node in self._homes(vertex) - {reader} if all(self.view.reach(node, each) for each in sources)
            }
            if reader in placed.hosts and writer in sources and near:
                self.reasons[vertex] = "cut off from what it reads"
                self._move(vertex, near)

    # Parts of a decision.

    def _needs_state(self, vertex: str) -> bool:
        return vertex not in self.view.stateless

    def _homes(self, vertex: str) -> frozenset[str]:
        """Nodes that are there and have its snapshot."""
        if self.row.include is Include.NOTHING:
            return frozenset()
        placed = self.view.placements[vertex]
        keepers = frozenset(placed.hosts if self.row.home is Home.LOCAL else placed.keepers)
        return self.view.having.get(vertex, keepers) & self.alive

    def _relay(self, writer: str, reader: str) -> str | None:
        reach = self.view.reach
        near = {node for node in self.alive - {writer, reader} if reach(node, writer) and reach(node, reader)}
        return min(near, key=self._busy, default=None)

    def _busy(self, node: str) -> tuple[bool, int, str]:
        """Sorts a node with room before a full one, then the least loaded first."""
        load = self.hosting.get(node, 0)
        return (load >= self.view.room.get(node, load + 1), load, node)

    def _move(self, vertex: str, candidates: Iterable[str]) -> None:
        host = min(candidates, key=self._busy, default=None)
        if host is None:
            return  # nobody is left: it waits
        self.hosting[host] = self.hosting.get(host, 0) + 1
        self._keep(vertex, (host,))

    def _keep(self, vertex: str, hosts: tuple[str, ...]) -> None:
        """At these hosts, with as many keepers as before: the old ones first, they have the older parts."""
        before = self.view.placements[vertex].keepers
        others = sorted(self.alive - {*hosts}, key=lambda node: (node not in before, *self._busy(node)))
        self.moves[vertex] = Move(hosts, tuple(others[: len(before)]))

    def _plan(self, reasons: dict[str, str]) -> RecoveryPlan:
        members = frozenset(reasons)
        replay = {
            source: FIRST_CONTACT
            for vertex in sorted(members)
            for source in self.view.inputs.get(vertex, ())
            if source not in members
        }
        return RecoveryPlan(
            members, replay, reasons=reasons, moves=self.moves, forgotten=frozenset(self.forgotten),
            fences={vertex: self.view.placements[vertex].term + 1 for vertex in members},
        )  # fmt: skip
