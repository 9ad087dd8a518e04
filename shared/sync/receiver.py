"""The receiving end of an edge: takes each element once, in order, and says so only when it is durable.

Theory of operation. The driver hands over whole bodies (`receive`), then asks for a `step`: records to append
to the log and replies that rest on them. Many arrivals may share one step, and so one sync of the disk: that
is group commit. **A reply leaves only after the records of its step, and of every earlier step, are durable.**
That order is what lets the receiver answer a duplicate of something that is still on its way to the disk with
the same receipt, without remembering who waits for what.

Per (device, incarnation, edge) there is one number, the high water: everything below it was decided, by
data or by a tombstone, first writer wins. A numbered frame [lo, hi) meets one of four cases:

    hi <= high water        duplicate   acknowledged, nothing kept: retrying changes nothing
    lo == high water        next        kept, the high water moves to hi
    lo >  high water        gap         nothing kept, the receipt tells the device where to go on
    lo <  high water < hi   overlap     protocol error: boundaries froze at the first durable write, so a
                                      sender that cuts the same elements anew has lost its memory

An exchange is taken whole or not at all: it is parsed to the end before any high water moves. If the driver cannot
make a step durable it must call `abandon` (or start over): one that is ahead of the disk would acknowledge
what was lost. A window of remembered batch ids instead would be simpler to write and wrong after
the window (trap T5); a high water never expires while the device is enrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeKey
from shared.sync.exchange import (
    Announcements,
    DeviceEdges,
    Exchange,
    HighWater,
    IncomingEdge,
    LogRecord,
    Signatures,
)
from shared.sync.session import GatewaySession, GatewaySessions
from shared.sync.step import Step
from shared.wire.envelope import ENVELOPE_BYTES, is_envelope
from shared.wire.frame import claimed_source, encode
from shared.wire.messages import (
    Hint,
    PlanMessage,
    PlanWithheld,
    Receipt,
    Refusal,
    Result,
    bare_refusal,
)
from shared.wire.packed_deployment import NextDeployment
from shared.wire.passed import PassMessage

RESULTS_PER_REPLY_MAX = 256
RESULT_BYTES_PER_REPLY_MAX = 512 * 1024


class Downlink(Protocol):
    """What waits for a device. Asked in every exchange, so an answer should cost a look in memory."""

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        """(number, row) of the device's results after a number, ascending."""
        ...

    def plan(
        self, device: DeviceId, newer_than: int, operators: frozenset[str] | None
    ) -> PlanMessage | PlanWithheld | None:
        """A newer plan, or why this device does not get it; `operators` are those it has, None where it did not say."""
        ...

    def hint(self, device: DeviceId) -> Hint | None: ...

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> NextDeployment | None:
        """What a node of a fleet should run instead of the deployment it follows (its lease and version); without one
        in it, the question what that is. Only those are asked for that said what they follow."""
        ...


class Arrival(NamedTuple):
    """A body as it came; `handle` is the driver's, it comes back in the reply."""

    handle: object
    body: bytes | memoryview


class Reply(NamedTuple):
    """The answer to one arrival; `refused` is the code when nothing of it was kept, `introduced` who says HELLO in it,
    as far as it claims."""

    handle: object
    body: bytes
    refused: str | None = None
    introduced: bytes = b""


class ExchangeApplied(NamedTuple):
    device: DeviceId
    incarnation: int
    session: bytes
    counter: int
    elements: int
    duplicates: int
    gaps: int
    control_up: int = 0  # bytes that were not about an edge: the envelope and what was reported in it
    control_down: int = 0  # the same of the answer


def _nothing_passed(_: DeviceId) -> Iterable[PassMessage]:
    return ()


class Receiver:
    """The gateway's end of every edge of every device: one machine, one owner of the index."""

    def __init__(
        self,
        index: HighWater,
        sessions: GatewaySessions,
        downlink: Downlink,
        signatures: Signatures,
        *,
        passed: Callable[[DeviceId], Iterable[PassMessage]] = _nothing_passed,
    ) -> None:
        """`passed` is what other nodes have for one, which then is gone from there."""
        self._index = index
        self._passed = passed
        self._sessions = sessions
        self._downlink = downlink
        self._signatures = signatures
        self._devices: dict[tuple[DeviceId, int], DeviceEdges] = {}
        self._incoming: dict[EdgeKey, IncomingEdge] = {}
        self.stale = 0  # frames of those who may no longer send what they sent
        self.replayed = 0  # exchanges that had come before
        self._persist: list[LogRecord] = []
        self._send: list[Reply] = []
        self._events: list[object] = []

    # --- the five calls --------------------------------------------------------------------------------

    def receive(self, message: Arrival, now: float) -> None:
        """Take one body. Its reply is in the next step; a refused body changes nothing."""
        handle, body = message
        introduced = b""
        try:
            if not is_envelope(body):
                introduced = claimed_source(body)
                self._send.append(Reply(handle, self._sessions.greet(body, now), introduced=introduced))
                return
            session, counter, fresh, overtaken, frames, digests = self._sessions.open(body, now)
        except PeerError as error:
            self._send.append(Reply(handle, bare_refusal(error.code, error.message), error.code, introduced))
            return
        edges = self._edges(session)
        exchange = None
        try:
            if overtaken:
                raise PeerError("a later exchange came first; send again what is in this one", code="session-overtaken")
            if fresh:
                exchange = Exchange(session, edges, self._incoming, self._index, self._signatures)
                exchange.read(frames, digests)
        except PeerError as error:
            refusal = encode(Refusal(session.device, error.code, error.message).frame())
            self._send.append(Reply(handle, session.seal(counter, (refusal,)), error.code))
            return
        if exchange is None:  # a replay learns of all edges, as if its reply had not been lost
            self.replayed += 1
            again = self._receipts(edges.by_slot, edges.by_slot) + self._answers_to(session)
            self._send.append(Reply(handle, session.seal(counter, again)))
            return
        self._apply(session, edges, exchange)
        self.stale += exchange.stale
        answer = self._receipts(edges.by_slot, exchange.high_water) + self._answers_to(session)
        control_down = ENVELOPE_BYTES + self._tell(session, answer)
        self._add_results(session, answer)
        if session.deployment is not None:
            answer += [encode(message.frame()) for message in self._passed(session.device)]
        control_up = len(body) - len(frames)
        if exchange.announced is not None:
            control_up += exchange.announced.report_bytes
        self._events.append(
            ExchangeApplied(
                session.device, session.incarnation, session.id, counter, exchange.elements, exchange.duplicates,
                exchange.gaps, control_up, control_down,
            )
        )  # fmt: skip
        self._send.append(Reply(handle, session.seal(counter, answer)))

    def wake(self, now: float) -> None:
        self._sessions.expire(now)

    def next_wake(self) -> float | None:
        """None: the receiver waits for nobody."""
        return None

    def step(self, now: float) -> Step[LogRecord, Reply]:  # noqa: ARG002 - one of the five calls
        """Everything received since the last step: append and sync `persist`, then send `send`."""
        if not self._send:
            return Step()
        step = Step(tuple(self._persist), tuple(self._send))
        self._persist, self._send = [], []
        return step

    def events(self) -> list[object]:
        events, self._events = self._events, []
        return events

    # -----------------------------------------------------------------------------------------------------

    def abandon(self, index: HighWater | None = None) -> None:
        """A step could not be made durable: forget every high water and go on from what the disk really holds. `index`
        is given where that is behind another one by now."""
        self._index = index or self._index
        self.forget_edges()
        self._sessions.forget_declarations()
        self._persist.clear()
        self._send.clear()
        self._events.clear()

    def forget_devices(self, is_over: Callable[[DeviceId], bool]) -> None:
        """Ask the index anew for the edges of these devices: somebody else may have written them meanwhile. Only while
        nothing of them is under way."""
        for owner in [owner for owner in self._devices if is_over(owner[0])]:
            del self._devices[owner]
        for key in [key for key in self._incoming if is_over(key.device)]:
            del self._incoming[key]

    def forget_edges(self) -> None:
        """Ask the index anew for every edge: it may have gone back, or read others."""
        self._devices.clear()
        self._incoming.clear()

    def _edges(self, session: GatewaySession) -> DeviceEdges:
        owner = (session.device, session.incarnation)
        edges = self._devices.get(owner)
        if edges is None:
            edges = self._devices[owner] = DeviceEdges(self._index.edges_of(*owner))
        return edges

    def _apply(self, session: GatewaySession, of_device: DeviceEdges, exchange: Exchange) -> None:
        edges = of_device.by_slot
        if exchange.announced is not None:
            self._announce(session, of_device, exchange.announced)
        for slot, high_water in exchange.high_water.items():
            edges[slot].high_water = high_water
        self._persist += exchange.records

    def _announce(self, session: GatewaySession, of_device: DeviceEdges, announced: Announcements) -> None:
        edges = of_device.by_slot
        edges.update(announced.new_edges)
        self._incoming.update((edge.key, edge) for edge in announced.new_edges.values())
        of_device.declared_bytes.update(announced.declared_bytes)
        for slot, frontier_us in announced.frontiers.items():
            edges[slot].frontier_us = frontier_us
        for slot, through in announced.chains.items():
            edges[slot].chain_through = through
        for slot, form in announced.forms.items():
            edges[slot].form = form
        session.declared |= announced.declared
        session.results_through = max(session.results_through, announced.results_through)
        if announced.plan_version is not None:
            session.plan_version, session.operators = announced.plan_version, announced.operators
            session.deployment = announced.deployment
        self._events += announced.events

    def _tell(self, session: GatewaySession, frames: list[bytes]) -> int:
        """Behind the receipts, what the device should do; returns its bytes."""
        device = session.device
        told: list[bytes] = []
        plan = self._downlink.plan(device, session.plan_version, session.operators)
        if plan is not None:
            told.append(encode(plan.frame()))
        if session.deployment is not None:
            deployment = self._downlink.next_deployment(device, session.deployment)
            if deployment is not None:
                told.append(encode(deployment.frame()))
        hint = self._downlink.hint(device)
        if hint is not None:
            told.append(encode(hint.frame()))
        frames += told
        return sum(map(len, told))

    def _add_results(self, session: GatewaySession, frames: list[bytes]) -> None:
        """Behind all that, the results that wait for the device."""
        device, size = session.device, 0
        for seq, row in self._downlink.results(device, session.results_through, RESULTS_PER_REPLY_MAX):
            frame = encode(Result(device, seq, row).frame())
            size += len(frame)
            if size > RESULT_BYTES_PER_REPLY_MAX:
                break
            frames.append(frame)

    def _answers_to(self, session: GatewaySession) -> list[bytes]:  # noqa: ARG002 - vertices answer marks
        """What else the reply to a session's last exchange says."""
        return []

    def _receipts(self, edges: Mapping[int, IncomingEdge], slots: Iterable[int]) -> list[bytes]:
        """What is durable of each of these edges once this step's records are. Vertices answer otherwise."""
        frames = []
        for slot in slots:
            edge = edges[slot]
            frames.append(Receipt.encoded(edge.key.device, edge.key.incarnation, edge.key.edge, edge.high_water))
        return frames
