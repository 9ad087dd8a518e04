"""A node of a fleet: its host and, on one node of the fleet, the coordinator beside it."""

from __future__ import annotations

from typing import TypeAlias

from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import StoreFleet
from shared.hosting.host import Host
from shared.hosting.messages import Ask, Heard, HostMessage
from shared.hosting.store import HostPersist
from shared.region.broadcast import Broadcast
from shared.sync.exchange import DeploymentShown, StatusReceived
from shared.sync.receiver import Reply
from shared.sync.step import Step
from shared.wire.messages import DeploymentMessage
from shared.wire.packed_deployment import PackedDeployment
from shared.wire.status import DeviceStatus

LOOK_S = 0.1  # a node at work is woken many times a second, mostly by what changes nothing that is said of it

NodePersist: TypeAlias = HostPersist | StoreFleet


class FleetNode:
    """The five calls over both. What the coordinator decides is stored before anybody, also this node, hears of it."""

    def __init__(self, host: Host, coordinator: Coordinator | None = None) -> None:
        self.host = host
        self.coordinator = coordinator
        self._said: DeviceStatus | None = None
        self._looked_at = float("-inf")
        self._stirred = True  # something came, happened or was stored here since
        self._offered: DeploymentMessage | None = None  # which this node took or refused
        self._events: list[object] = []

    def receive(self, message: HostMessage, now: float) -> None:
        self._stirred = True
        self.host.receive(message, now)
        self._pass_on(now)

    def wake(self, now: float) -> None:
        self.host.wake(now)
        if self.coordinator is not None:
            self.coordinator.wake(now)
        self._notice(now)

    def next_wake(self) -> float | None:
        times = [self.host.next_wake()] + ([] if self.coordinator is None else [self.coordinator.next_wake()])
        return min((time for time in times if time is not None), default=None)

    def step(self, now: float) -> Step[NodePersist, Ask | Reply | Broadcast]:
        persist: list[NodePersist] = []
        coordinator = self.coordinator
        if coordinator is not None:
            persist += coordinator.step().persist
            self._follow(coordinator, now)
            self.host.order(coordinator.orders(self.host.node), now)
            self.host.call(coordinator.behind(now), now)
            self.host.ping(coordinator.pings(now), now)
        step = self.host.step(now)
        self._stirred |= bool(step.persist)
        self._notice(now)
        return Step((*persist, *step.persist), step.send)

    def _follow(self, coordinator: Coordinator, now: float) -> None:
        """This node takes its own coordinator's word as the others do."""
        message = coordinator.next_deployment(self.host.device, self.host.follows)
        if isinstance(message, PackedDeployment):
            message = message.whole(self.host.followed().deployment)
        if message is None or message == self._offered:
            return
        self._offered = message if message.deployment else None
        self._stirred = True
        if message.deployment:
            self.host.deploy_from(message, now)
        else:
            coordinator.shown(self.host.device, self.host.followed(), now)

    def events(self) -> list[object]:
        events, self._events = self._events, []
        return events

    def _notice(self, now: float) -> None:
        self._pass_on(now)
        if self.coordinator is None:
            return
        if self._stirred or now >= self._looked_at + LOOK_S:
            self._stirred, self._looked_at = False, now
            status = self.host.status()
            if status != self._said:  # nobody sends it to itself
                self._said = status
                self.coordinator.heard(self.host.device, now, status)
        self._events += self.coordinator.events()

    def _pass_on(self, now: float) -> None:
        """What the host says is for the coordinator here, or for whoever drives this node."""
        for event in self.host.events():
            self._stirred = True
            if isinstance(event, DeploymentShown):
                if self.coordinator is not None:
                    self.coordinator.shown(event.device, event.message, now)
            elif isinstance(event, Heard | StatusReceived):
                if self.coordinator is not None:
                    said = event.status if isinstance(event, StatusReceived) else None
                    self.coordinator.heard(event.device, now, said)
            else:
                self._events.append(event)
