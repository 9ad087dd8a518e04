"""The receiving end of edges between nodes: today's receiver, with a node's vertices behind it in place of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from shared.identity import DeviceId, EdgeKey
from shared.plan.deployment import Peer
from shared.sync.exchange import NOT_READ, DeviceEdges, Exchange, HighWater, IncomingEdge, LogRecord
from shared.sync.receiver import Downlink, Receiver
from shared.sync.session import Enrolment, GatewayKeys, GatewaySession, GatewaySessions
from shared.wire.frame import Frame, encode
from shared.wire.messages import PeerReceipt


class Reads(HighWater, Protocol):
    """What stands behind it."""

    def take(self, session: GatewaySession, record: LogRecord) -> None:
        """One frame of an exchange, in its place."""
        ...

    def receipt(self, key: EdgeKey) -> PeerReceipt:
        """How far this node has come with an edge."""
        ...

    def hear(self, frame: Frame) -> None:
        """What a node says of a snapshot that is broadcast."""
        ...

    def answers(self) -> list[bytes]:
        """What to add to the reply of the exchange that was taken last."""
        ...


class PeerReceiver(Receiver):
    """The receiving end of edges between nodes: what arrives is taken at once, and answered with what became of it."""

    def __init__(self, host: Reads, sessions: GatewaySessions, downlink: Downlink, signatures: GatewayKeys) -> None:
        super().__init__(host, sessions, downlink, signatures)
        self._host = host
        self._answers: dict[DeviceId, list[bytes]] = {}  # to each node's last exchange: its reply may be lost

    def _apply(self, session: GatewaySession, of_device: DeviceEdges, exchange: Exchange) -> None:
        super()._apply(session, of_device, exchange)
        self._persist.clear()  # the host says what is to be stored
        for record in exchange.records:
            self._host.take(session, record)
        for frame in () if exchange.announced is None else exchange.announced.said:
            self._host.hear(frame)
        self._answers[session.device] = self._host.answers()

    def _answers_to(self, session: GatewaySession) -> list[bytes]:
        return self._answers.get(session.device, [])

    def _receipts(self, edges: Mapping[int, IncomingEdge], slots: Iterable[int]) -> list[bytes]:
        keys = [edges[slot].key for slot in slots]
        read = [key for key in keys if self._host.high_water(key) != NOT_READ]
        return [encode(self._host.receipt(key).frame()) for key in read]


class Roster:
    """The nodes of the deployment are those who may call."""

    def __init__(self, peers: Mapping[str, Peer]) -> None:
        self._peers = peers

    def find(self, device: DeviceId) -> Enrolment | None:
        peer = self._peers.get(device.hex())
        return None if peer is None else Enrolment(peer.public_key, (1 << 32) - 1)


class NoDownlink:
    """A node that coordinates nothing has nothing for others."""

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:  # noqa: ARG002
        return ()

    def plan(self, device: DeviceId, newer_than: int, operators: frozenset[str] | None) -> None:  # noqa: ARG002
        return None

    def hint(self, device: DeviceId) -> None:  # noqa: ARG002
        return None

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> None:  # noqa: ARG002
        return None
