"""A device that was cut off: what it has spooled since, whom it reaches again, and by which way its rows go on."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from shared.hosting.alternates import DETOUR_S, Alternates, onwards
from shared.hosting.calling import Calling
from shared.hosting.here import Here
from shared.hosting.instance import Instance
from shared.hosting.shares import readers
from shared.hosting.wiring import EdgeSpec
from shared.identity import EdgeId
from shared.plan.deployment import Deployment
from shared.sync.pacing import Pacing
from shared.wire.status import BackStatus

LOOK_S = 0.5  # that a device which is back looks around before it says whom it reaches


class Returning:
    def __init__(self, here: Here, calling: Calling, alternates: Alternates, pacing: Pacing) -> None:
        self._here, self._calling, self._alternates, self._pacing = here, calling, alternates, pacing
        self.edges: set[EdgeId] = set()  # of its own device, that were cut off, and what was spooled since
        self._stuck: set[EdgeId] = set()  # of those, what did not go on though whoever reads it answers
        self._again_at = float("-inf")  # when a node that was lost answered again
        self.looks_until: float | None = None  # who was lost is asked again, and has not all answered
        self._beside: frozenset[str] = frozenset()  # nodes by way of which others might be reached
        self._onward: frozenset[str] = frozenset()  # nodes that it could pass rows on to which do not go on
        self._said: BackStatus | None = None  # last
        self._ungoverned = False  # its coordinator, which is none of the fleet, does not answer

    def lost(self, node: str, now: float, *, spent: bool) -> None:
        """A node does not answer. `spent`: a greeting came twice and was refused, which says nothing of it."""
        if not spent:
            self.edges |= {spec.key.edge for spec in self._here.gathers() if node in spec.readers}
        if now < self._again_at + self._pacing.timeout_s:
            # What was not answered may have been asked before the network came back: it is asked again first.
            self.looks_until = now + LOOK_S
            self._calling.senders[node].hurry(now)

    def answers_again(self, node: str, now: float) -> None:
        """Whoever was lost with this node may be back as well. Each is asked at once, not when its turn comes: a device
        that names only the first who answered would be given another way without need."""
        self._again_at = now
        others = [sender for other, sender in self._calling.senders.items() if other != node]
        if self._here.coordinates(node) or not any(sender.reached for sender in others):
            self.looks_until = now + LOOK_S
        for sender in others:
            if not sender.reached:  # also one that was only asked while nobody could answer
                sender.fail(now)
                sender.hurry(now)

    def look_around(self, now: float) -> None:
        """While what its own device has spooled does not arrive, find out who can be reached."""
        here = self._here
        specs = {spec.key.edge: spec for spec in here.gathers()}
        self.edges = {edge for edge in self.edges if edge in specs and not self._has_arrived(specs[edge])}
        self._stuck &= self.edges
        lost = bool(self._stuck) or any(
            (sender := self._calling.senders.get(node)) is not None and sender.disconnected
            for edge in self.edges
            for node in specs[edge].readers
        )
        probed = self._others() if lost else self._calling.probed if self.edges else frozenset()
        self._calling.probe(probed | self._onward | self._beside, now)

    def _others(self) -> frozenset[str]:
        """The nodes that can be called, but for whoever coordinates."""
        here = self._here
        nodes = [node for node, peer in here.peers.items() if peer.addresses and not here.coordinates(node)]
        return frozenset(nodes) - {here.node}

    def reach_by_others(self, now: float) -> None:
        """While nobody coordinates, what vertices here send to a node that they do not reach goes by way of one that
        they do. Later it goes by way of whoever coordinates, if nothing comes of that."""
        calling = self._calling
        stuck = self._unreached_readers() if calling.is_cut_off else []
        if not stuck or not self.is_alone():
            self._beside = frozenset()
            for node in {*stuck} & {*calling.lanes.detours()}:
                if calling.lanes.turn(node, now):
                    calling.senders[node].hurry(now)
            return
        self._beside = self._others()
        if self._beside - calling.probed:
            calling.probe(calling.probed | self._beside, now)
        usual = self._beside & calling.senders.keys() - calling.lanes.broken()
        reached = [node for node in usual if calling.senders[node].reached]
        for node in stuck:
            if calling.lanes.detour(node, reached, now):
                calling.senders[node].hurry(now)

    def _unreached_readers(self) -> list[str]:
        """Nodes that do not answer, and read what a vertex here makes, or keep its snapshots."""
        here, calling = self._here, self._calling
        return [
            node
            for node, carried in calling.carried.items()
            if node in calling.senders
            and calling.senders[node].disconnected
            and any(
                spec.key.edge in here.state_edges or isinstance(here.makers.get(spec.key.edge, (None,))[0], Instance)
                for spec, _ in carried
            )
        ]

    def turn_elsewhere(self, now: float) -> bool:
        """While nobody coordinates, rows of its own device that wait too long go another way that is listed. True: what
        is deployed is to be applied again, with that way."""
        here = self._here
        if here.deployed is None or not self.is_alone():
            self._alternates.calm()
            self._onward = frozenset()
            return False
        turned = self._turn_carriers(here.deployed, now)
        for fed in here.wiring.fed:
            edge, query, route = fed.edge.key.edge, fed.query.name, fed.query.route(fed.edge.name, here.node)
            taken = max(min(here.outbox.reading(node).taken.get(edge, 0) for node in way) for way in fed.edge.ways)
            if route.alternates and self._alternates.look(query, edge, (taken, here.sources_spool.head(edge)), now):
                self.edges.add(edge)
                self._stuck.add(edge)
                reaches = functools.partial(self._reaches, fed.ends)
                turned |= self._alternates.turn(query, edge, route, reaches, now)
        return turned

    def _turn_carriers(self, deployed: Deployment, now: float) -> bool:
        """The same for rows that this node passes on, when whoever takes them next does not."""
        here = self._here
        turned, asked = False, set[str]()
        for carrier in here.carriers.values():
            spec, edge = carrier.spec, carrier.edge
            taken = min(here.outbox.reading(node).taken.get(edge, 0) for node in spec.makes.readers)
            if not self._alternates.look(spec.query, edge, (taken, carrier.taken), now, DETOUR_S):
                continue
            applied = self._alternates.applied(deployed)
            query = next(each for each in applied.queries if each.name == spec.query)
            route = query.route(spec.flow.runs.run.gather, spec.flow.device)
            ends = tuple(readers(query, route.gather))
            for _, onward in onwards(route, here.node):
                asked.update(onward[:1] or ends)
            reaches = functools.partial(self._reaches, ends)
            turned |= self._alternates.detour(query.name, edge, route, reaches, now, node=here.node)
        self._onward = frozenset(asked - {here.node})
        if self._onward - self._calling.probed:
            self._calling.probe(self._calling.probed | self._onward, now)
        return turned

    def _reaches(self, ends: Sequence[str], path: Sequence[str]) -> bool:
        """Whether it reaches the first node of a path, or of one without any those who read its rows."""
        first = path[:1] or [node for node in ends if node != self._here.node]
        return all((sender := self._calling.senders.get(node)) is not None and sender.reached for node in first)

    def is_alone(self) -> bool:
        """Whether whoever coordinates does not answer."""
        here, senders = self._here, self._calling.senders
        if not self._ungoverned and not any(sender.disconnected for sender in senders.values()):
            return False
        if not here.coordinator or here.coordinates(here.node):
            return False
        asked = [sender for node, sender in senders.items() if here.coordinates(node)]
        return all(sender.disconnected for sender in asked) if asked else self._ungoverned

    def _has_arrived(self, spec: EdgeSpec) -> bool:
        """Whether all ways that can be gone have all that there is of an edge."""
        edge, head = spec.key.edge, self._here.sources_spool.head(spec.key.edge)
        open_ways = [
            way
            for way in spec.ways
            if all((sender := self._calling.senders.get(node)) is not None and sender.reached for node in way)
        ]
        readers = [node for way in open_ways for node in way]
        return bool(readers) and all(self._here.outbox.reading(node).taken.get(edge, -1) >= head for node in readers)

    def back(self) -> BackStatus | None:
        """Said as long as rows from when its device was cut off have not arrived. While it looks around again, and when
        nobody listened meanwhile, it says what it said before, to which there is an answer already: to say nothing
        would mean that all has arrived, and whom it reaches right now may be the first of several."""
        if not self.edges:
            self._said = None
            return None
        senders = self._calling.senders
        near = tuple(sorted(node for node, sender in senders.items() if sender.reached))
        looks = self.looks_until is not None and self._here.now < self.looks_until and len(near) < len(senders)
        if not looks and not self.is_alone():
            self._said = BackStatus(tuple(query.name for query in self._here.queries()), near)
        return self._said

    def hear_governor(self, now: float, *, answers: bool) -> None:
        """Whether its coordinator answers, where that is none of the fleet."""
        if self._ungoverned and answers:
            self.looks_until = now + LOOK_S
        self._ungoverned = not answers

    def wake(self, now: float) -> None:
        if self.looks_until is not None and now >= self.looks_until:
            self.looks_until = None
