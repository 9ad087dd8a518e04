"""The coordinator inside the gateway: drives the machine of `shared/hosting/coordinate.py` behind the exchanges.

Nodes that are paired here and offer to host are the fleet. They say in their STATUS how they are, and get what they
should run in the answer; rows go between them without the gateway. Whatever the coordinator decides is durable before
the lock is let go, so nothing that is not is ever told to a node.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.roster import Roster
from shared.errors import PeerError, UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Deposed, Learned, Recovered, Unplaced
from shared.hosting.fleet_watch import FleetWatch
from shared.hosting.leaving import Left
from shared.hosting.passed_by_gateway import GatewayPassing
from shared.hosting.requests import answer
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.moves import MoveRequest, Recovery
from shared.plan.cuts import synced_outputs
from shared.plan.deployment import HostedQuery, Peer
from shared.plan.topology import LANES
from shared.sync.exchange import DeploymentShown, HighWater, StatusReceived
from shared.sync.receiver import ExchangeApplied
from shared.wire.fleet_status import FleetStatus
from shared.wire.messages import CutOrder
from shared.wire.packed_deployment import NextDeployment
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus, HostOffer

SILENCE_S, SILENCE_S_MIN = 15.0, 10.0  # nodes speak every three seconds at least (mobile_app/node/governed.py)
CONFIRM_S = 6.0  # it cannot call them: who is missed has so long to speak, which is twice as long as it may be silent
LEASE_STEPS = 1000  # two that begin from copies of one home do not take the same lease
_log = logging.getLogger("resurge.fleet")


class Control(NamedTuple):
    """Bytes of exchanges with one node that were about no edge, since the gateway started."""

    up: int
    down: int
    since: float


class LogAndFleet:
    """What stands behind the gateway's receiver: the log, and the coordinator, who says which node carries what queries
    sync to it."""

    takes_marks = False

    def __init__(self, log: HighWater, fleet: GatewayFleet) -> None:
        self._log, self._fleet = log, fleet

    def high_water(self, key: EdgeKey) -> int:
        return self._log.high_water(key)

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:
        return self._log.edges_of(device, incarnation)

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        return self._fleet.producer_term(carrier, key)


class GatewayFleet:
    def __init__(
        self, store: FleetStore, sign: Callable[[bytes], bytes], roster: Roster, *, clock_us: Callable[[], int]
    ) -> None:
        self._store, self._roster, self._clock_us = store, roster, clock_us
        self._lock = threading.Lock()
        now = time.monotonic()
        self._coordinator = Coordinator(
            "", sign, stored=store.load(), lease=1 + secrets.randbelow(LEASE_STEPS),
            lease_step=1 + secrets.randbelow(LEASE_STEPS), silence_s=SILENCE_S, silence_s_min=SILENCE_S_MIN,
            now=now, clock_us=clock_us, confirm_s=CONFIRM_S,
        )  # fmt: skip
        self._watch = FleetWatch(None, self._coordinator, clock_us())
        self._offers: dict[str, tuple[HostOffer, tuple[str, ...]]] = {}  # as they were taken
        self._control: dict[str, Control] = {}
        self.passing = GatewayPassing()  # exchanges between nodes whose usual lane is broken
        self._passed_to: frozenset[str] = frozenset()  # nodes that take what is passed on
        self._roster_seen = -1  # when it was last asked who is revoked
        self._part()
        self._keep()

    # -- asked and told by the receiver ----------------------------------------------------------------------------

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> NextDeployment | None:
        with self._lock:
            return self._coordinator.next_deployment(device, follows)

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """Without the lock: it is asked for every frame, and looks at one fleet, as it was or as it is now."""
        return self._coordinator.producer_term(carrier, key)

    def orders(self, device: DeviceId) -> tuple[CutOrder, ...]:
        """What a node has not heard of cuts through its regions."""
        if not self._offers:
            return ()
        with self._lock:
            return self._coordinator.orders(device.hex())

    def passed(self, device: DeviceId) -> Sequence[PassMessage]:
        """What other nodes have for one."""
        if device.hex() not in self._passed_to:
            return ()
        with self._lock:
            return self.passing.fetch(device.hex(), time.monotonic())

    def has_passed(self, device: DeviceId) -> bool:
        """Whether other nodes have something for one."""
        return self.passing.has(device.hex())

    def pass_on(self, message: PassMessage) -> DeviceId | None:
        """A node has something for another one, which now should hear that; None where it is not passed on."""
        with self._lock:
            told = self.passing.take(message, self._passed_to, time.monotonic())
        return DeviceId(bytes.fromhex(told)) if told else None

    def notice(self, event: object) -> None:
        """What an exchange brought."""
        if isinstance(event, ExchangeApplied) and not self._offers:
            return  # most gateways have no fleet, and this is asked of every exchange
        now = time.monotonic()
        match event:
            case StatusReceived(device, _, status) if status.offer is not None:
                with self._lock:
                    self._offer(device, status.offer, status)
                    self._coordinator.heard(device, now, status)
                    self._keep()
                    if self._coordinator.fleet.regions and device.hex() in self._passed_to:
                        self.passing.offered(device.hex(), status.boot, now)
            case DeploymentShown(device, message):
                with self._lock:
                    self._coordinator.shown(device, message, now)
                    self._keep()
            case ExchangeApplied(device=device, control_up=up, control_down=down) if device.hex() in self._offers:
                with self._lock:
                    before = self._control.get(device.hex(), Control(0, 0, now))
                    self._control[device.hex()] = before._replace(up=before.up + up, down=before.down + down)
                    self._coordinator.heard(device, now)

    def tick(self) -> None:
        """Every half second."""
        with self._lock:
            now = time.monotonic()
            self._part()
            self._coordinator.wake(now)
            self._keep()
            self._watch.look(now, self._clock_us())

    def _part(self) -> None:
        """Who was revoked is out of the fleet."""
        if not self._coordinator.fleet.peers or self._roster_seen == (changes := self._roster.changes()):
            return
        self._roster_seen = changes
        gone = {device.hex() for device in self._roster.revoked()}
        for node in gone & self._offers.keys():
            del self._offers[node]
            self._control.pop(node, None)
        self._passed_to -= gone
        self.passing.part(gone)
        self._coordinator.part_with(gone)

    def _offer(self, device: DeviceId, offer: HostOffer, status: DeviceStatus) -> None:
        """A node is a member as soon as it says how it is reached."""
        node, operators = device.hex(), status.operators or ()
        known = any(peer.node == node for peer in self._coordinator.fleet.peers)
        if known and self._offers.get(node) == (offer, operators):
            return
        enrolled = self._roster.find(device)
        if enrolled is None or enrolled.revoked or self._coordinator.deposed:
            return
        self._roster_seen = -1  # it may have been enrolled again
        self._part()
        self._offers[node] = (offer, operators)
        self._passed_to = self._passed_to | {node} if offer.passed else self._passed_to - {node}
        others = [peer for peer in self._coordinator.fleet.peers if peer.node != node]
        taken = {peer.name for peer in others}
        name = offer.name if offer.name not in taken else f"{offer.name} {node[:4]}"
        lane = offer.lane if offer.lane in LANES else ""
        peer = Peer(
            node, name, enrolled.public_key, offer.curve_key, offer.addresses, offer.capacity, operators, lane,
            offer.position,
        )  # fmt: skip
        try:
            fleet = self._coordinator.fleet
            peers = [peer if each.node == node else each for each in fleet.peers]  # its place decides among equals
            self._coordinator.set_fleet(
                peers if peer in peers else [*others, peer], fleet.queries, fleet.links, fleet.regions
            )
        except (UsageError, PeerError) as error:
            _log.warning("the offer of %s to host is refused: %s", name, error)

    def _keep(self) -> None:
        """Make what was decided durable, and tell people of it. With the lock."""
        coordinator = self._coordinator
        for item in coordinator.step().persist:
            try:
                self._store.store(item.data, coordinator.fleet.lease)
            except UsageError as error:
                coordinator.depose(error.message)
        for event in coordinator.events():
            self._say(event)

    def _say(self, event: object) -> None:
        match event:
            case Recovered(_, query, moves, why):
                names = {peer.node: peer.name for peer in self._coordinator.fleet.peers}
                moved = ", ".join(f"{vertex} to {names.get(node, node[:8])}" for vertex, node in moves.items())
                _log.warning("%s: %s (%s)", query, moved or "nothing moves", why)
            case Unplaced(query, vertices, why):
                _log.warning("%s: %s waits, %s", query, ", ".join(vertices), why)
            case Learned(node, lease, version):
                text = (
                    f"{node} follows deployment {version} of lease {lease}, which was forgotten here; going on above it"
                )
                _log.warning("%s", text)
                self._roster.audit(self._clock_us(), "fleet-learned", detail=text)
            case Left(nodes, ended):
                left = f"{', '.join(nodes) or 'nobody'} left the fleet" + (
                    f"; {', '.join(ended)} ended with that" if ended else ""
                )
                _log.warning("%s", left)
                self._roster.audit(self._clock_us(), "fleet-left", detail=left)
            case Deposed(why):
                _log.error("this gateway coordinates its fleet no more: %s", why)
                self._roster.audit(self._clock_us(), "fleet-deposed", detail=why)
            case _:
                pass

    # -- what people want ------------------------------------------------------------------------------------------

    def ask(
        self, call: str, arguments: Mapping[str, Any], *, checked: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """What a coordinating node answers, too: queries, submit, edit, drop (`shared/hosting/requests.py`). What
        changed is durable when this returns. UsageError where it cannot be."""
        with self._lock:
            self._check_rules()
            said = answer(self._coordinator, call, arguments, time.monotonic(), checked=checked)
            self._keep()
            self._check_rules()
            return said

    def runs(self, name: str) -> bool:
        """Whether a query of this name is on its nodes."""
        return any(query.name == name for query in self._coordinator.fleet.queries)

    def synced(self) -> dict[str, str]:
        """The streams that its nodes send to the cloud, each with its query."""
        fleet = self._coordinator.fleet
        tasks = [*fleet.queries, *(region.task for region in fleet.regions)]
        return {output.name: query.name for query in tasks for output in synced_outputs(query.plan)}

    def syncing(self) -> tuple[HostedQuery, ...]:
        """The queries that run now and send streams to the cloud."""
        return tuple(query for query in self._coordinator.fleet.queries if synced_outputs(query.plan))

    def recoveries(self) -> tuple[Recovery, ...]:
        """The last times that a vertex began again, the oldest first."""
        with self._lock:
            return self._coordinator.recoveries()

    def move(self, request: MoveRequest) -> MoveRequest:
        """Have a vertex moved, or say what that would do; the answer is in `status`, under the id that it gets."""
        named = replace(request, id=secrets.token_hex(8))
        with self._lock:
            self._check_rules()
            self._coordinator.asked([named], time.monotonic())
            self._keep()
        return named

    def _check_rules(self) -> None:
        if self._coordinator.deposed:
            raise UsageError(
                f"this gateway coordinates no more: {self._coordinator.deposed}", code="coordinator-deposed"
            )

    def status(self) -> FleetStatus | None:
        """Where everything runs; None while nobody offered to host anything."""
        with self._lock:
            if not self._coordinator.fleet.peers:
                return None
            return self._watch.status(time.monotonic(), self._clock_us())

    @property
    def deposed(self) -> str:
        return self._coordinator.deposed

    @property
    def lease(self) -> int:
        return self._coordinator.fleet.lease

    def control(self) -> dict[str, dict[str, float]]:
        """By node, bytes that coordinating took: up, down, and both per second."""
        now = time.monotonic()
        return {
            node: {"up": each.up, "down": each.down, "per_s": (each.up + each.down) / max(1.0, now - each.since)}
            for node, each in self._control.items()
        }

    def close(self) -> None:
        self._store.close()
