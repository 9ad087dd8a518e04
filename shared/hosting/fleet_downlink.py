"""What a coordinator says to the nodes that call: each gets its deployment, signed, and word of cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.hosting.kept_fleet import KeptFleet
from shared.hosting.presence import Presence
from shared.hosting.reign import Reign
from shared.identity import DeviceId
from shared.plan.deployment import Deployment, NamedArea, encode_deployment
from shared.recovery.strategies import STRATEGIES
from shared.region.cuts import RegionCuts
from shared.wire.frame import HEADER_BYTES
from shared.wire.messages import CutOrder, DeploymentMessage, Hint, PlanMessage
from shared.wire.packed_deployment import NextDeployment, PackedDeployment, base_digest

OFFERS, OFFER_S = 4, 10.0  # so often a deployment is sent with every answer, then so far apart
SHORTENED = 2  # of those, so many are only what differs from what the node said that it follows
BASES = 8  # fleets before this one that are remembered for that
MOVES_SENT = 16  # of the moves it remembers, so many go to every node: enough for somebody who looks there


@dataclass(slots=True)
class _Sent:
    """What was made for nodes of one fleet."""

    stored: int
    plans: dict[str, PlanMessage] = field(default_factory=dict)
    deployments: dict[tuple[str, str], NextDeployment] = field(default_factory=dict)  # by node and its base
    offered: dict[str, tuple[int, float]] = field(default_factory=dict)  # how often a node was sent it, and when


class FleetDownlink:
    def __init__(
        self, kept: KeptFleet, presence: Presence, reign: Reign, cuts: RegionCuts, sign: Callable[[bytes], bytes]
    ) -> None:
        self._kept, self._presence, self._reign, self._cuts, self._sign = kept, presence, reign, cuts, sign
        self._sent = _Sent(kept.stored)
        self.deployment_bytes = 0  # that went to other nodes
        self._before: dict[tuple[int, int], Deployment] = {}  # by lease and version, as the last nodes were told it

    def deployment(self, node: str) -> tuple[Deployment, bytes]:
        """What this node should do."""
        fleet = self._kept.fleet
        areas = tuple(NamedArea(each.name, each.area, each.dwell_s, each.threshold) for each in fleet.regions)
        moves = fleet.moves[-MOVES_SENT:]
        deployment = replace(fleet, node=node, moves=moves, regions=(), areas=areas)
        self._before[fleet.lease, fleet.version] = deployment
        while len(self._before) > BASES:
            del self._before[next(iter(self._before))]
        return deployment, encode_deployment(deployment)

    def plan(self, device: DeviceId, newer_than: int, operators: frozenset[str] | None) -> PlanMessage | None:  # noqa: ARG002
        """For nodes that do not say which lease they follow: they take a deployment as a plan."""
        fleet = self._kept.fleet
        node, status = device.hex(), self._presence.status(device.hex())
        newer = fleet.version > newer_than and self._reaches(node)
        if not newer or self._reign.deposed or (status is not None and status.deployment is not None):
            return None
        message = self._of_this_fleet().plans.get(node)
        if message is None:
            _, encoded = self.deployment(node)
            signed = PlanMessage.signed(fleet.version, encoded)
            message = self._sent.plans[node] = PlanMessage(device, fleet.version, encoded, self._sign(signed))
        return message

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> NextDeployment | None:
        """What a node should run instead of what it follows; without a deployment, the question what that is."""
        node, fleet = device.hex(), self._kept.fleet
        if not self._reign.knows(follows, fleet):
            return DeploymentMessage(device) if self._reign.asks(node, self._kept.judged_at) else None
        if self._reign.deposed or follows == (fleet.lease, fleet.version) or not self._reaches(node):
            return None
        if not self._is_due(node):
            return None
        status = self._presence.status(node)
        said = "" if status is None else status.base
        base = self._base(node, follows, said)
        message = self._sent.deployments.get((node, said and base_digest(base).hex()))
        if message is None:
            _, encoded = self.deployment(node)
            signature = self._sign(DeploymentMessage.signed(fleet.lease, fleet.version, encoded))
            whole = DeploymentMessage(device, fleet.lease, fleet.version, encoded, signature)
            message = PackedDeployment.pack(whole, base) if said else whole
            self._sent.deployments[node, said and base_digest(base).hex()] = message
        if node != self._kept.node:
            self.deployment_bytes += HEADER_BYTES + len(message.frame().payload)
        return message

    def _base(self, node: str, follows: tuple[int, int], said: str) -> bytes:
        """What the node follows, where it is remembered here and has the digest that the node said; else nothing."""
        count, _ = self._of_this_fleet().offered.get(node, (0, 0.0))
        before = self._before.get(follows)
        if before is None or count > SHORTENED:
            return b""
        encoded = encode_deployment(replace(before, node=node))
        return encoded if base_digest(encoded).hex() == said else b""

    def _of_this_fleet(self) -> _Sent:
        if self._sent.stored != self._kept.stored:
            self._sent = _Sent(self._kept.stored)
        return self._sent

    def _is_due(self, node: str) -> bool:
        """A node that refuses a deployment is not sent it with every answer."""
        count, at = self._of_this_fleet().offered.get(node, (0, 0.0))
        if count >= OFFERS and self._kept.judged_at < at + OFFER_S:
            return False
        self._sent.offered[node] = (count + 1, self._kept.judged_at)
        return True

    def _reaches(self, node: str) -> bool:
        return bool(self._kept.fleet.version) and any(peer.node == node for peer in self._kept.fleet.peers)

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:  # noqa: ARG002
        return ()

    def hint(self, device: DeviceId) -> Hint | None:
        """What a node has not heard of cuts through the regions that it is in."""
        orders = self.orders(device.hex())
        return Hint(device, {}, cuts=orders) if orders else None

    def orders(self, node: str) -> tuple[CutOrder, ...]:
        status = self._presence.status(node)
        if status is None or not status.cuts or self._reign.deposed:
            return ()
        said = {each.query: each for each in status.cuts}
        asked = [(query, said[query.name]) for query in self._kept.fleet.queries if query.name in said]
        orders = [self._cuts.order(query, each) for query, each in asked if STRATEGIES[query.row].row.of_region]
        return tuple(each for each in orders if each is not None)
