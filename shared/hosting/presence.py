"""Which nodes of a fleet are there: when each was heard, what it said, and whom it does not reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.hosting.kept_fleet import KeptFleet
from shared.plan.topology import Topology
from shared.wire.status import DeviceStatus

# A phone of a region that was silent for so long is asked whether it is there, and given up if it does not answer.
PING_S, PING_TIMEOUT_S = 30.0, 10.0
START_S = 30.0  # so much later if it has not spoken since the coordinator started: it may be starting, too


@dataclass(slots=True)
class _Heard:
    at: float
    status: DeviceStatus


class Presence:
    def __init__(self, kept: KeptFleet, silence_s: float, confirm_s: float, now: float) -> None:
        """`confirm_s` is the time within which a live node is heard once it was asked."""
        self._kept = kept
        self.silence_s, self._confirm_s = silence_s, confirm_s
        self._since = now  # nobody is silent before there was time to speak
        self._heard: dict[str, _Heard] = {}
        self.apart: dict[tuple[str, str], float] = {}  # (node, node it does not reach) -> since when
        self._reported: frozenset[tuple[str, str]] = frozenset()  # (node, node that it misses), as last seen
        self._doubted: dict[str, float] = {}  # members of regions that others miss: since when they are asked
        self.gone: frozenset[str] = frozenset()  # nodes that are out of the fleet for good

    def hear(self, node: str, now: float, status: DeviceStatus | None) -> None:
        """A node has spoken, and perhaps said how it is."""
        before = self._heard.get(node)
        self._heard[node] = _Heard(now, status or (DeviceStatus() if before is None else before.status))

    def spoken(self) -> frozenset[str]:
        """The nodes that were heard since the coordinator started, and the one it runs on."""
        return frozenset({self._kept.node, *self._heard})

    def awaits_first_words(self, now: float) -> bool:
        """Whether somebody who has not spoken yet since the coordinator began may still be there."""
        return self.has_unheard() and now < self._since + self.silence_s

    def wakes(self, silences: Iterable[float]) -> list[float]:
        """When a node would be silent for each of these times, or for too long to be there."""
        fleet = self._kept.fleet
        times = [self._since + self.silence_s] if self.has_unheard() else []
        times += [since + self._confirm_s for since in self._doubted.values()]
        last = [self.last_heard(peer.node) for peer in fleet.peers if peer.node != self._kept.node]
        allowed = {*silences, *((PING_S, PING_S + PING_TIMEOUT_S) if fleet.regions else ())}
        return times + [heard_at + silence_s for heard_at in last for silence_s in allowed]

    def status(self, node: str) -> DeviceStatus | None:
        heard = self._heard.get(node)
        return None if heard is None else heard.status

    def heard_at(self, node: str) -> float | None:
        """When a node spoke last; None when it did not since the coordinator started."""
        heard = self._heard.get(node)
        return None if heard is None else heard.at

    def last_heard(self, node: str) -> float:
        heard = self._heard.get(node)
        return self._since + START_S if heard is None else heard.at

    def has_unheard(self) -> bool:
        """Whether a node has not spoken since this coordinator started."""
        known = {self._kept.node, *self.gone}
        return any(peer.node not in self._heard for peer in self._kept.fleet.peers if peer.node not in known)

    def alive(self, now: float, silence_s: float | None = None) -> frozenset[str]:
        """The nodes that were heard of within this time; without one, the usual."""
        within_s = self.silence_s if silence_s is None else silence_s
        return frozenset(
            peer.node
            for peer in self._kept.fleet.peers
            if peer.node not in self.gone
            and (peer.node == self._kept.node or now - self.last_heard(peer.node) < within_s)
        )

    def behind(self, now: float) -> frozenset[str]:
        """The live nodes that have said that they run an older deployment than the newest."""
        version = self._kept.fleet.version
        found = [node for node, heard in self._heard.items() if heard.status.plan < version and node != self._kept.node]
        return frozenset(found) & self.alive(now) if found else frozenset()

    def topology(self, now: float) -> Topology:
        """The nodes that are heard, and their links but for those that nodes say do not work."""
        fleet = self._kept.fleet
        alive = self.alive(now)
        absent = [peer.node for peer in fleet.peers if peer.node not in alive]
        said = {node: heard.status for node, heard in self._heard.items() if node in alive}
        measured = {(node, other): cost for node, status in said.items() for other, cost in status.neighbours}
        peers = [
            replace(peer, position=said[peer.node].position)
            if peer.node in said and said[peer.node].position is not None
            else peer
            for peer in fleet.peers
        ]
        return Topology(peers, fleet.links, cloud=self.cloud, absent=absent, apart=tuple(self.apart), measured=measured)

    @property
    def cloud(self) -> str:
        """The node that runs beside it: the one it runs on, else one that said so and is there. Empty: none does."""
        beside = [
            node for node, heard in self._heard.items() if heard.status.offer is not None and heard.status.offer.cloud
        ]
        return self._kept.node or next((peer.node for peer in self._kept.fleet.peers if peer.node in beside), "")

    def called(self, nodes: frozenset[str]) -> frozenset[str]:
        """Those that others can send to. Where nobody has an address, they reach each other in some other way."""
        addressed = frozenset(peer.node for peer in self._kept.fleet.peers if peer.addresses)
        return nodes & addressed if addressed else nodes

    def note_apart(self, alive: frozenset[str], now: float) -> None:
        """Since when which live nodes do not reach each other, as they say. Who is heard here reaches this node."""
        said = {
            (node, other)
            for node in alive
            if (status := self.status(node)) is not None
            for other in status.unreachable
            if other in alive and other != self._kept.node
        }
        self.apart = {pair: self.apart.get(pair, now) for pair in said}

    def urgent(self, now: float) -> set[frozenset[str]]:
        """The live nodes that speak to each other by way of this one, as they say, two by two."""
        alive = self.alive(now)
        said = {node: status for node in alive if (status := self.status(node)) is not None}
        return {frozenset((node, other)) for node, status in said.items() for other in status.urgent if other in alive}

    def note_doubts(self, now: float) -> None:
        """Who is missed by a node that sends to it is asked, with all of its region. Who is heard then is there."""
        fleet = self._kept.fleet
        if not fleet.regions:
            return
        known = {peer.node for peer in fleet.peers}
        reported = frozenset(
            (node, other)
            for node in self.alive(now)
            if (status := self.status(node)) is not None
            for other in status.unreachable
            if other in known and other != self._kept.node
        )
        # Who has not answered is gone until it speaks: nobody sends to it any more, so nobody misses it.
        self._doubted = {node: since for node, since in self._doubted.items() if self.last_heard(node) <= since}
        for pair in sorted(reported):
            node = pair[1]
            if node in self._doubted or (pair in self._reported and now - self.last_heard(node) < self._confirm_s):
                continue
            # Phones often go together, and who reads only from one that has gone is missed by nobody.
            beside = [{*region.members} for region in fleet.regions if node in region.members]
            for each in {node}.union(*beside) - {self._kept.node}:
                self._doubted.setdefault(each, now)
        self._reported = reported

    def present(self, now: float) -> frozenset[str]:
        """The nodes that are there, where phones come and go: silent for less than a ping and its answer, not missed
        by one that sends to it after they were asked, too."""
        lost = {node for node in self._doubted if now >= self._confirmed_at(node)}
        return self.alive(now, max(PING_S + PING_TIMEOUT_S, self.silence_s)) - lost

    def _confirmed_at(self, node: str) -> float:
        """When a node that is missed is given up, unless it is heard. With those of its region who were missed while
        it was asked: a region that goes back for one after the other goes back twice."""
        since = self._doubted[node]
        beside = [{*region.members} for region in self._kept.fleet.regions if node in region.members]
        together = [
            at
            for other, at in self._doubted.items()
            if at < since + self._confirm_s and any(other in members for members in beside)
        ]
        return max([since, *together]) + self._confirm_s

    def pings(self, now: float) -> frozenset[str]:
        """The nodes to ask whether they are there. A coordinator that cannot call hears of them soon enough."""
        if not self._kept.fleet.regions:
            return frozenset()
        quiet = self.alive(now, PING_S + PING_TIMEOUT_S) - self.alive(now, PING_S)
        asked = [node for node in self._doubted if now < self._confirmed_at(node)]
        return frozenset((*quiet, *asked)) - {self._kept.node}
