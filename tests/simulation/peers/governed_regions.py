"""Regions of simulated phones under a gateway that coordinates. The Wi-Fi is what the phones and node 0 share; the
gateway is reached over any network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Recovered
from shared.region.controller import RegionChanged
from tests.simulation.peers.checkers import Checker, Durable, Numbers, Promises, Terms
from tests.simulation.peers.governed import FollowsNothingOlder, GovernedWorld, SimulatedGateway, Store
from tests.simulation.peers.regions import Places, Positions, Strays, Walk
from tests.simulation.peers.world import Fault


class GovernedRegions(GovernedWorld, Places):
    """Regions of so many phones, in a line; results end on node 0, which is in none."""

    def __init__(
        self, phones: int, threshold: int, walks: Sequence[Walk] = (), *, faults: Sequence[Fault] = (), rows: int = 120,
        seed: int = 0, within_s: float = 60.0, row: str = "token", keep: bool = False, regions: int = 1,
    ) -> None:  # fmt: skip
        self.regions, self.phones, self.threshold = regions, phones, threshold
        self._away, self._low, self.states = set(), set(), []
        self.gone_back: list[Recovered] = []
        observers: list[Checker] = [Positions(), Promises(), Terms(), Durable(), FollowsNothingOlder(), Strays()]
        if regions == 1:
            observers.append(Numbers())  # which knows sinks by their own names only
        settings = self.settings_of(regions, phones, rows, row, faults=faults, seed=seed, within_s=within_s)
        super().__init__(replace(settings, settle_s=1.0), keep=keep, observers=observers)
        for walk in walks:
            self.clock.at(walk.at, self._walk, walk)

    def coordinator(self) -> Coordinator:
        return self.ruling.coordinator

    def coordinator_said(self, event: object) -> None:
        if isinstance(event, RegionChanged):
            self.states.append((round(self.clock.now, 2), event.region, event.state))
        elif isinstance(event, Recovered) and event.moves:
            self.gone_back.append(event)

    def _deploy(self) -> None:
        first = SimulatedGateway("gateway", self, Store())
        self.gateways.append(first)
        first.coordinator.set_fleet(
            [node.peer for node in self.nodes], [], regions=[self.region(number) for number in range(self.regions)]
        )
        first._keep()

    def _inject(self, fault: Fault) -> None:
        super()._inject(fault)
        if fault.kind == "wifi":
            pair = frozenset({fault.node, 0})
            self._parted[pair] = self._parted.get(pair, 0) + 1
            self.clock.after(fault.seconds, self._mend, self._parted, pair)
