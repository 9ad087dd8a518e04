"""The regions of a fleet: who is in which of them, their cuts, and what members that go hand over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from shared.errors import UsageError
from shared.hosting.fleet_check import check_fleet
from shared.hosting.fleet_events import CutComplete, Unplaced
from shared.hosting.kept_fleet import KeptFleet
from shared.hosting.presence import Presence
from shared.moves import MoveRequest
from shared.recovery.strategies import STRATEGIES
from shared.region.controller import Nodes, RegionController, State
from shared.region.cuts import RegionCuts
from shared.region.member import MEMBERS, Place
from shared.wire.fleet_status import BYPASS, CHECKPOINT, DEPARTURE, FAILURE, START

STAYS = MEMBERS - {Place.LEAVING}


class FleetRegions:
    def __init__(self, kept: KeptFleet, presence: Presence, cut_s: float) -> None:
        """`cut_s` is the time between two cuts through a region that goes back together."""
        self._kept, self._presence = kept, presence
        self.cuts = RegionCuts(cut_s)
        self.controller = RegionController(kept.fleet.regions)
        self.departing: dict[tuple[str, str], str] = {}  # vertices that are moved because their node goes, and why

    def look(self, now: float) -> None:
        """Who is in which region, and which of them run."""
        if not self._kept.fleet.regions:
            return
        regions, queries = self.controller.look(
            self._kept.fleet.regions, self._kept.fleet.queries, self._nodes(now), now
        )
        changed = self.controller.events()
        self._kept.events += changed
        for each in changed:
            if each.state is State.STARTING:
                self._kept.remember(each.region, START, f"begins with {each.members} members", now)
            elif each.state is State.BYPASSED:
                self._kept.remember(each.region, BYPASS, f"stops: too few members are left ({each.members})", now)
        present = self._presence.present(now)
        for before, after in zip(self._kept.fleet.regions, regions, strict=True):
            for node in sorted({*before.members} - {*after.members}):
                kind, text = (DEPARTURE, "has left") if node in present else (FAILURE, "does not answer any more")
                self._kept.remember(before.name, kind, f"{self._kept.name(node)} {text}", now)
        if queries != self._kept.fleet.queries:
            fleet = replace(self._kept.fleet, version=self._kept.fleet.version + 1, regions=regions, queries=queries)
            try:
                check_fleet(fleet, self._kept.node)
            except UsageError as error:  # the nodes that are there cannot run it: it waits for others
                self._kept.events.append(Unplaced(regions[0].name, (), error.message))
                return
            for query in self._kept.fleet.queries:
                if query not in queries:
                    self.cuts.give_up(query.name, now)
            self._kept.fleet = fleet
            self._kept.store()
        elif regions != self._kept.fleet.regions:
            self._kept.fleet = replace(self._kept.fleet, regions=regions)
            self._kept.note()

    def _nodes(self, now: float) -> Nodes:
        peers = self._kept.fleet.peers
        others = self._presence.called(frozenset(peer.node for peer in peers if peer.node != self._kept.node))
        return Nodes(
            self._presence.status, self._presence.present(now),
            {peer.node: peer.position for peer in peers if peer.position is not None},
            {peer.node: peer.capacity for peer in peers if peer.capacity and peer.node in others},
            {peer.node: frozenset(peer.operators) for peer in peers},
            frozenset(other for _, other in self._presence.apart) | self._strayed(now),
            self.cuts.under_way, self._kept.fleet.version,
        )  # fmt: skip

    def _strayed(self, now: float) -> frozenset[str]:
        """The fewest members whose Wi-Fi explains who of a region speaks to whom in it over the urgent lane. From one
        region to another that is the usual one: each has a Wi-Fi of its own. Who has left, or is no member, explains
        its own lanes: those that it spoke with stay."""
        pairs = self._presence.urgent(now)
        if not pairs:
            return frozenset()
        place = self.controller.place
        names = [region.name for region in self._kept.fleet.regions]
        pairs = {pair for pair in pairs if any(all(place(name, node) in STAYS for node in pair) for name in names)}
        found: set[str] = set()
        while pairs:
            lanes = Counter(node for pair in pairs for node in pair)
            found.add(max(sorted(lanes), key=lanes.__getitem__))
            pairs = {pair for pair in pairs if not pair & found}
        return frozenset(found)

    def move_departing(self, move: Callable[[MoveRequest, float], object], now: float) -> None:
        """Hand over what runs on members that go, without anybody going back."""
        fleet = self._kept.fleet
        departures = self.controller.departures(fleet.regions, fleet.queries, self._nodes(now))
        for each in departures if fleet.regions else ():
            try:
                move(MoveRequest(each.query, each.vertex, each.to), now)
            except UsageError:  # it does not run just now: asked again when something is heard
                continue
            self.departing[each.query, each.vertex] = f"{self._kept.name(each.leaving)} leaves the region"

    def look_at_cuts(self, now: float) -> None:
        """Begin or complete cuts. That is no other deployment: nodes are told in a HINT, which is small."""
        alive = self._presence.alive(now)
        queries = tuple(
            replace(
                query, cuts=self.cuts.look(query, self._presence.status, alive, now, version=self._kept.fleet.version)
            )
            if STRATEGIES[query.row].row.of_region
            else query
            for query in self._kept.fleet.queries
        )
        for before, after in zip(self._kept.fleet.queries, queries, strict=True):
            if after.cuts.complete > before.cuts.complete:
                self._kept.events.append(CutComplete(after.name, after.cuts.complete))
                self._kept.remember(after.name, CHECKPOINT, f"cut {after.cuts.complete} is complete", now)
        if queries != self._kept.fleet.queries:
            self._kept.fleet = replace(self._kept.fleet, queries=queries)
            self._kept.note()
