"""Whom a node calls: one sender for each node that reads an edge of this one, for its coordinator, and for whoever it
has news for or wants to know whether it reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from shared.batch import NO_FRONTIER
from shared.errors import BrokenInvariant
from shared.hosting.here import Here
from shared.hosting.initiators import number_of
from shared.hosting.lanes import Lanes
from shared.hosting.messages import Heard
from shared.hosting.wiring import GATEWAY, EdgeSpec
from shared.identity import DeviceId, EdgeId
from shared.language.schema import Schema
from shared.plan.deployment import Peer
from shared.plan.topology import measured_cost
from shared.recovery.marks import Mark
from shared.spool.entry import SpooledBatch
from shared.sync.pacing import Pacing
from shared.sync.sender import Sender
from shared.sync.session import DeviceKeys, DeviceSession, GatewayKeys
from shared.wire.messages import MarkMessage
from shared.wire.status import NEIGHBOURS_MAX

# A keeper has answered for a snapshot when it has it: one that gets nothing else need not be asked often how far it is.
KEEPER_POLLS = 5
WITHIN_S = 0.02  # that rows wait for company before they go to the next node
ASK_S = 0.25  # between two questions to the coordinator while a vertex moves: who hears of it late, pauses longer


class PeerKeys(Protocol):
    """A node's long-term key, towards any of its peers."""

    def calling(self, peer: bytes) -> DeviceKeys:
        """To call the node that has this public key."""
        ...

    def answering(self) -> GatewayKeys: ...


class Calling:
    def __init__(
        self,
        here: Here,
        incarnation: int,
        keys: PeerKeys,
        *,
        random: Random,
        pacing: Pacing,
        report_s: float | None,
        gateway: Sender | None,
        fed: Callable[[], set[str]],
    ) -> None:
        """`gateway` is this device's own sender, `fed` says to whom a snapshot that was broadcast is passed on."""
        self._here, self._incarnation, self._keys = here, incarnation, keys
        self._random = random
        self._pacing = pacing
        self._reports = pacing if report_s is None else replace(pacing, poll_s=report_s)
        self._for_keepers = replace(pacing, poll_s=KEEPER_POLLS * pacing.poll_s)
        self._fed = fed
        self.gateway = gateway
        self.lanes = Lanes(here)
        self.senders: dict[str, Sender] = {}
        self.carried: Mapping[str, Sequence[tuple[EdgeSpec, int]]] = {}
        self.behind: frozenset[str] = frozenset()  # nodes that are called to tell them of a newer deployment
        self.pinged: dict[str, float] = {}  # nodes that a coordinator here asks if they are there: since when
        self.probed: frozenset[str] = frozenset()  # nodes that are called only to know who can be reached
        self.news = 0  # the newest deployment that a peer has spoken of
        self.ask_at: float | None = None  # while a vertex moves

    def call(self, behind: frozenset[str], now: float) -> None:
        """These nodes run an older deployment than this one, where the coordinator is. They are called, and a node that
        hears of a newer one asks for it at once, not only at its next poll."""
        if behind == self.behind:
            return
        new, self.behind = (behind - self.behind) & self._here.peers.keys(), behind
        for node in self.senders.keys() - self.called():
            del self.senders[node]
        for node in sorted(new):
            self.sender(node, now).hurry(now)

    def ping(self, nodes: frozenset[str], now: float) -> None:
        """Ask these nodes whether they are there, where the coordinator is. Who answers is told of as `Heard`."""
        here = self._here
        if nodes == self.pinged.keys():
            return
        new = (nodes - self.pinged.keys()) & here.peers.keys() - {here.node}
        self.pinged = {node: self.pinged.get(node, now) for node in sorted(nodes & here.peers.keys() - {here.node})}
        for node in self.senders.keys() - self.called():
            del self.senders[node]
        for node in sorted(new):
            self.sender(node, now).hurry(now)

    def meet(self, peers: Sequence[Peer], now: float) -> None:
        """Whom a node knows before its first deployment: it asks the coordinator among them for one."""
        if not self._here.memory.version:
            self._here.peers.update((peer.node, peer) for peer in peers)
            self.carry({}, now)

    @property
    def moves_under_way(self) -> bool:
        """Whether a vertex of its fleet is on its way to another node."""
        return self.ask_at is not None

    def ask_while(self, moves: bool, now: float) -> None:
        """While a vertex moves, the coordinator is asked often."""
        self.ask_at = now + ASK_S if moves else None

    def wake(self, now: float) -> None:
        if self.ask_at is not None and now >= self.ask_at:
            self.ask_at = now + ASK_S
            for node, sender in self.senders.items():
                if self._here.peers[node].public_key == self._here.coordinator and not sender.disconnected:
                    sender.hurry(now)

    def answer(self, node: str, body: bytes | memoryview, now: float, *, urgent: bool = False) -> None:
        """What a node that was called says. Of no bytes: the usual lane to it works again."""
        if (sender := self.senders.get(node)) is not None:
            if self.lanes.answered(node, urgent=urgent):
                sender.chase(now)
            if body:
                sender.receive(body, now)
            if sender.answered_at >= self.pinged.get(node, math.inf):
                del self.pinged[node]
                self._here.events.append(Heard(DeviceId(bytes.fromhex(node))))

    def probe(self, nodes: frozenset[str], now: float) -> None:
        """Call these only to know who can be reached."""
        if nodes != self.probed:
            self.probed = nodes
            self.carry(self.carried, now)

    def let_go(self, fed: set[str]) -> None:
        """These were called to feed them a snapshot, and are no more."""
        for node in fed - self.called() if fed else ():
            self.senders.pop(node, None)

    def carry(self, carried: Mapping[str, Sequence[tuple[EdgeSpec, int]]], now: float) -> None:
        self.carried = carried
        self._carry_to_gateway(carried.get(GATEWAY, ()), now)
        called = self.called()
        for node in [node for node in self.senders if node not in called]:
            del self.senders[node]
        for node in sorted(called):
            sender = self.sender(node, now)
            wanted = {spec.name for spec, _ in carried.get(node, ())}
            for name in sender.carried():
                if name not in wanted:
                    sender.drop(name)
            for spec, term in carried.get(node, ()):
                sender.carry(
                    spec.name, self.schemas(spec), spec.key, term=term, read=spec.readers[node], within_s=WITHIN_S
                )
                sender.frontier(spec.key.edge, self.frontier_of(spec), now)
            only_keeps = node in carried and all(spec.key.edge in self._here.state_edges for spec, _ in carried[node])
            if not self._here.coordinates(node):
                sender.pace(self._for_keepers if only_keeps else self._pacing)
            sender.hurry(now)

    def called(self) -> set[str]:
        """The nodes that this one calls: readers of its edges, the coordinator, whoever it has news for, and those it
        wants to know if it reaches."""
        here = self._here
        others = {
            node for node, peer in here.peers.items() if peer.public_key == here.coordinator or node in self.behind
        }
        others |= (self.probed | self.pinged.keys() | self._fed()) & here.peers.keys()
        return (self.carried.keys() - {GATEWAY}) | (others - {here.node})

    def _carry_to_gateway(self, carried: Sequence[tuple[EdgeSpec, int]], now: float) -> None:
        """What goes to the cloud goes with the exchanges of this node's own device."""
        sender = self.gateway
        if sender is None:
            return
        wanted = {spec.name for spec, _ in carried}
        for name in sender.carried():
            if name not in wanted:
                sender.drop(name)
        reading = self._here.outbox.reading(GATEWAY)
        for spec, term in carried:
            reading.merge(spec.key.edge, spec.batch)
            sender.carry(
                spec.name, self.schemas(spec), spec.key, term=term, read=spec.readers[GATEWAY],
                within_s=spec.within_s or WITHIN_S, rows=0 if spec.batch is None else spec.batch.rows, reading=reading,
                alone=len(spec.carriers) == 1,
            )  # fmt: skip
            sender.frontier(spec.key.edge, self.frontier_of(spec), now)
            if spec.key.edge not in reading.taken:
                sender.hurry(now)  # where it goes on must be known before its vertex counts as running

    def to(self, node: str) -> Sender:
        """The sender to a reader."""
        if node != GATEWAY:
            return self.senders[node]
        if self.gateway is None:
            raise BrokenInvariant("rows go to the cloud from a node without a gateway", code="hosting-unpaired")
        return self.gateway

    def sender(self, node: str, now: float) -> Sender:
        here = self._here
        sender = self.senders.get(node)
        if sender is None:
            session = DeviceSession(self._keys.calling(here.peers[node].public_key), here.device, self._incarnation)
            sender = self.senders[node] = Sender(
                here.outbox.reading(node), session, rng=self._random,
                pacing=self._reports if here.coordinates(node) else self._pacing,
                plan_version=here.memory.version, now=now,
            )  # fmt: skip
        return sender

    def schemas(self, spec: EdgeSpec) -> dict[int, Schema]:
        """The forms in which rows travel on an edge that goes out from here."""
        carrier = self._here.carriers.get(spec.key.edge)
        flow = self._here.wiring.flows.get(spec.key) if carrier is None else carrier.spec.flow
        return {spec.schema.id: spec.schema} if flow is None else flow.schemas()

    def frontier_of(self, spec: EdgeSpec) -> int:
        """How far time has come on an edge that is made here: a new reader must hear it, also where nothing moves."""
        here = self._here
        if spec.key.edge in here.carriers:
            return here.carriers[spec.key.edge].frontier_us(spec)
        maker = here.makers.get(spec.key.edge)
        if maker is None:  # a state edge has no time
            return NO_FRONTIER
        return maker[0].frontier_us(spec)

    def needed(self) -> set[str]:
        """The nodes that this one must reach for the fleet to work."""
        others = self.behind | self.probed | self.pinged.keys() | self._fed()
        return {node for node in self.senders if node in self.carried or node not in others}

    def appended(self, node: str, batch: SpooledBatch) -> None:
        self.to(node).appended(batch, self._here.now)

    def send_mark(self, edge: EdgeSpec, term: int, mark: Mark, now: float) -> None:
        if edge.to_sink:
            return  # what a sink has is durable: its receipt is the answer to all marks, and comes with its rows
        number = number_of(mark.id.initiator)
        message = MarkMessage(
            edge.key.device, edge.key.incarnation, edge.key.edge, mark.position, mark.id.number, number, term
        )
        for node in edge.readers:
            if node != GATEWAY:  # so is what the log has
                self.senders[node].mark(message, now)

    def tell(self, node: str, frames: Sequence[bytes]) -> None:
        here = self._here
        if node in here.peers:
            self.sender(node, here.now).say(frames, here.now)

    def answers_us(self, node: str) -> bool:
        return node in self.senders and not self.senders[node].disconnected

    def takes(self, node: str, edge: EdgeId) -> bool:
        """Whether a node answers, and has room for more of an edge."""
        return node in self.senders and self.senders[node].takes(edge)

    def marks(self, spec: EdgeSpec) -> list[MarkMessage]:
        """The marks of an edge that a reader of it has not answered, by position."""
        found = {
            mark for node in spec.readers if node in self.senders for mark in self.senders[node].marks(spec.key.edge)
        }
        return sorted(found, key=lambda mark: (mark.position, mark.number))

    def answered_at(self, node: str) -> float:
        """When a node last took an exchange."""
        return self.senders[node].answered_at if node in self.senders else -math.inf

    def release(self, state: EdgeSpec) -> None:
        """A state edge goes on as others do: who lacks something of it is sent that."""
        for node in state.readers:
            if node in self.senders:
                self.senders[node].look(state.key.edge, self._here.now)

    def hear_of(self, version: int, now: float) -> None:
        """A peer runs this deployment: if it is news, the coordinator is asked for it at once. Once only, as nobody but
        the coordinator's word is believed."""
        here = self._here
        if version > max(here.version, self.news):
            self.news = version
            for node, sender in self.senders.items():
                if here.peers[node].public_key == here.coordinator:
                    sender.hurry(now)

    def neighbours(self) -> tuple[tuple[str, int], ...]:
        """The nodes that it sends to and reaches, each with what that costs, as their answers say. In few steps: it is
        told to the coordinator when it changes."""
        times = {
            node: sender.answer_s for node, sender in self.senders.items() if sender.reached and node != self._here.node
        }
        found = [(node, measured_cost(answer_s)) for node, answer_s in sorted(times.items()) if answer_s is not None]
        return tuple(found[:NEIGHBOURS_MAX])

    def unreachable(self) -> tuple[str, ...]:
        """Nodes that it must reach, and does not, or only by way of another one."""
        missed = {*self.unanswering(), *self.lanes.detours()}
        return tuple(sorted(missed & self.needed())) if missed else ()

    def urgent(self) -> tuple[str, ...]:
        """Nodes that it must reach, and does by way of the node that coordinates."""
        urgent = {*self.lanes.urgent()}
        return tuple(sorted(node for node in urgent & self.needed() if self.senders[node].reached)) if urgent else ()

    def unanswering(self) -> tuple[str, ...]:
        """Nodes that it calls and that do not answer."""
        return tuple(node for node, sender in self.senders.items() if sender.disconnected)

    @property
    def is_cut_off(self) -> bool:
        """Whether somebody whom it should reach does not answer."""
        missed = self.unanswering()
        return bool(missed) and not self.needed().isdisjoint(missed)
