"""Who goes back, and where to, when something between nodes has failed.

What fails alone is mended alone: an operator is started again where it is, then elsewhere; a broken link is relayed; a
node's vertices go to the nodes that keep their snapshots: to the one that their rows reach at the least cost, and among
equals to the least loaded. Only what failed goes back (R = F) and its inputs replay (E), unless the row's snapshots are
one cut through the region.
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
            case OperatorFailed(vertex, restarts, host):
                left = tuple(other for other in self.view.placements[vertex].hosts if other != host)
                if host and left:  # a live copy goes on: nothing goes back
                    self._keep(vertex, left)
                else:
                    self._operator(vertex, elsewhere=restarts >= RESTARTS_MAX)
            case StreamFailed(writer, reader):
                relay = self._relay(writer, reader)
                if relay is not None:
                    return RecoveryPlan(frozenset(), forwards={(writer, reader): relay})
                self._cut_off(writer, reader)
            case HostsFailed():
                for vertex, placed in self.view.placements.items():
                    if self.lost & {*placed.hosts}:
                        self._host(vertex)
                    elif self.lost & {*placed.keepers} or len(placed.keepers) < self._keepers(vertex):
                        self._keep(vertex, placed.hosts)
        return self._plan(self.reasons)

    def of_region(self) -> RecoveryPlan:
        """All of it goes back to the newest complete cut. Only where nothing that runs has failed nobody does."""
        placements = self.view.placements
        leaves = self.lost  # whose vertices go elsewhere
        if isinstance(self.failure, StreamFailed):
            writer, reader = self.failure.writer, self.failure.reader
            relay = self._relay(writer, reader)
            if relay is not None:
                return RecoveryPlan(frozenset(), forwards={(writer, reader): relay})
            beside = {node for vertex in placements for node in self._beside(vertex) | {*placements[vertex].hosts}}
            if not {writer, reader} <= beside:  # a keeper is not reached: no vertex waits for it
                return self._kept_elsewhere()
            hosting = [host for placed in placements.values() for host in placed.hosts]
            leaves = frozenset({reader if reader in hosting else writer})
        elif isinstance(self.failure, HostsFailed) and not any(leaves & {*each.hosts} for each in placements.values()):
            return self._kept_elsewhere()
        if len(self.alive) < self.view.threshold:
            why = f"{len(self.alive)} nodes are left, {self.view.threshold} are needed"
            return replace(self._plan(dict.fromkeys(placements, why)), bypasses=frozenset(placements))
        for vertex, placed in placements.items():
            homes = self._homes(vertex)
            if leaves & {*placed.hosts}:
                self.reasons[vertex] = "its host failed"
                self._move(vertex, homes - leaves)
            elif self._fails_here(vertex) or not homes >= {*placed.hosts}:
                self.reasons[vertex] = "failed again where it is, or has no cut there"
                self._move(vertex, homes - {*placed.hosts})
            if vertex not in self.moves:
                self.reasons[vertex] = "the region goes back"
                self._keep(vertex, placed.hosts)
        return self._plan(self.reasons)

    def _kept_elsewhere(self) -> RecoveryPlan:
        """What runs goes on; all nodes that are there keep it."""
        for vertex, placed in self.view.placements.items():
            self._keep(vertex, placed.hosts)
        return self._plan({})

    def _fails_here(self, vertex: str) -> bool:
        failure = self.failure
        return isinstance(failure, OperatorFailed) and failure.vertex == vertex and failure.restarts >= RESTARTS_MAX

    # Kinds of failure.

    def _operator(self, vertex: str, *, elsewhere: bool) -> None:
        """Where it is, if its newest snapshot is there too or nothing is said of it."""
        self.reasons[vertex] = "failed again where it is" if elsewhere else "failed"
        homes, here = self._homes(vertex), frozenset(self.view.placements[vertex].hosts)
        if self._forgets(vertex, homes):
            self.forgotten.add(vertex)
        elsewhere_possible = (homes or self.alive) - here
        if elsewhere_possible and (elsewhere or (vertex in self.view.having and homes and not homes & here)):
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
        if self.row.home is Home.LOCAL and not self.view.gone & {*placed.hosts}:
            self.reasons[vertex] = "its host failed, and has its snapshot"
            return
        self.reasons[vertex] = "its host failed"
        homes = self._homes(vertex)
        if self._forgets(vertex, homes):
            self.forgotten.add(vertex)
            self.reasons[vertex] = "its host and all its keepers failed"
        self._move(vertex, homes or self.alive)

    def _cut_off(self, writer: str, reader: str) -> None:
        """No way round: what reads there what is written here moves to a keeper that reaches all its neighbours. A
        sink does not move; then what writes to it does. A keeper that is not reached is another one from now on."""
        for vertex, placed in self.view.placements.items():
            if writer in placed.hosts and reader in placed.keepers:
                self._keep(vertex, placed.hosts)
        if not self._leave(reader, writer, "cut off from what it reads"):
            self._leave(writer, reader, "cut off from what reads it")

    def _leave(self, host: str, other: str, why: str) -> bool:
        """Move what runs on this host next to the other node. False: nothing does, or nobody can take it."""
        moved = False
        for vertex, placed in self.view.placements.items():
            beside = self._beside(vertex)
            if host not in placed.hosts or other not in beside:
                continue
            near = {
                node for node in self._homes(vertex) - {host} if all(self.view.reach(node, each) for each in beside)
            }
            if near:
                self.reasons[vertex] = why
                self._move(vertex, near)
                moved = True
        return moved

    def _beside(self, vertex: str) -> set[str]:
        """Nodes that it exchanges elements with, as far as this decision has come."""
        placements, inputs = self.view.placements, self.view.inputs
        others = {*inputs.get(vertex, ()), *(reader for reader, read in inputs.items() if vertex in read)}
        hosts = {host for other in others - {vertex} for host in (self.moves.get(other) or placements[other]).hosts}
        return hosts | self.view.ends.get(vertex, frozenset())

    def _far(self, vertex: str, node: str) -> int:
        """What it costs to bring the vertex's rows to this node and on. Who only calls is reached by its own calls."""
        cost = self.view.cost
        return sum(min(cost(each, node), cost(node, each)) for each in self._beside(vertex) - self.lost)

    # Parts of a decision.

    def _forgets(self, vertex: str, homes: frozenset[str]) -> bool:
        """Whether it begins without all that it had read."""
        return vertex not in self.view.stateless and (not homes or vertex in self.view.too_old)

    def _homes(self, vertex: str) -> frozenset[str]:
        """Nodes that are there and have its snapshot."""
        if self.row.include is Include.NOTHING:
            return frozenset()
        placed = self.view.placements[vertex]
        here = self.row.home is Home.LOCAL or self.row.of_region  # its host has it as well
        keepers = frozenset((*(placed.hosts if here else ()), *(() if self.row.home is Home.LOCAL else placed.keepers)))
        return self.view.having.get(vertex, keepers) & self.alive

    def _relay(self, writer: str, reader: str) -> str | None:
        if not self.view.relays:
            return None
        reach = self.view.reach
        near = {node for node in self.alive - {writer, reader} if reach(node, writer) and reach(node, reader)}
        return min(near, key=self._busy, default=None)

    def _busy(self, node: str) -> tuple[bool, int, str]:
        """Sorts a node with room before a full one, then the least loaded first."""
        load = self.hosting.get(node, 0)
        return (load >= self.view.room.get(node, load + 1), load, node)

    def _move(self, vertex: str, candidates: Iterable[str]) -> None:
        able = self.view.able.get(vertex, self.alive)
        free = [node for node in candidates if node in able and not self._busy(node)[0]]
        host = min(free, key=lambda node: (self._far(vertex, node), self._busy(node)), default=None)
        if host is None:  # nobody is left: it waits
            self.reasons.pop(vertex, None)
            self.forgotten.discard(vertex)
            return
        self.hosting[host] = self.hosting.get(host, 0) + 1
        self._keep(vertex, (host,))

    def _keep(self, vertex: str, hosts: tuple[str, ...]) -> None:
        """At these hosts, with as many keepers as there should be: those that are reached before those that are not,
        then the old ones, which have the older parts, then the nearest."""
        before, reach, cost = self.view.placements[vertex].keepers, self.view.reach, self.view.cost

        def wanted(node: str) -> tuple[bool, bool, int, tuple[bool, int, str]]:
            far = sum(cost(host, node) for host in hosts)
            return not all(reach(node, host) for host in hosts), node not in before, far, self._busy(node)

        others = sorted(self.alive - {*hosts}, key=wanted)
        self.moves[vertex] = Move(hosts, tuple(others[: self._keepers(vertex)]))

    def _keepers(self, vertex: str) -> int:
        """How many there should be. After a time with too few nodes there are more again."""
        placed = self.view.placements[vertex]
        others = len(self.alive - {*placed.hosts})
        if self.row.home is Home.REGION:
            return others
        return min(others, max(len(placed.keepers), self.row.copies if self.row.home is Home.PEERS else 0))

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
