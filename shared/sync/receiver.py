"""The receiving end of an edge: takes each element once, in order, and says so only when it is durable.

Theory of operation. The driver hands over whole bodies (`receive`), then asks for a `step`: records to append
to the log and replies that rest on them. Many arrivals may share one step, and so one sync of the disk: that
is group commit. **A reply leaves only after the records of its step, and of every earlier step, are durable.**
That order is what lets the receiver answer a duplicate of something that is still on its way to the disk with
the same receipt, without remembering who waits for what.

Per (device, incarnation, edge) there is one number, the high-water mark: everything below it was decided, by
data or by a tombstone, first writer wins. A numbered frame [lo, hi) meets one of four cases:

    hi <= mark            duplicate   acknowledged, nothing kept: retrying changes nothing
    lo == mark            next        kept, the mark moves to hi
    lo >  mark            gap         nothing kept, the receipt tells the device where to go on
    lo <  mark < hi       overlap     protocol error: boundaries froze at the first durable write, so a
                                      sender that cuts the same elements anew has lost its memory

An exchange is taken whole or not at all: it is parsed to the end before any mark moves. If the driver cannot
make a step durable it must call `abandon` (or start over): marks that are ahead of the disk would acknowledge
what was lost. A window of remembered batch ids instead of a mark would be simpler to write and wrong after
the window (trap T5); marks never expire while the device is enrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey, edge_id
from shared.sync.machine import Step
from shared.sync.session import GatewaySession, GatewaySessions
from shared.wire.envelope import is_envelope
from shared.wire.frame import HEADER_BYTES, FrameType, decode_one, encode, read_header
from shared.wire.messages import (
    DATA_PREFIX,
    Chain,
    Declare,
    Hint,
    Lost,
    PlanMessage,
    Preview,
    Receipt,
    Refusal,
    Result,
    Status,
    bare_refusal,
)

EDGES_PER_DEVICE_MAX = 1024
RESULTS_PER_REPLY_MAX = 256
RESULT_BYTES_PER_REPLY_MAX = 512 * 1024

_DATA, _TOMBSTONE, _FRONTIER = int(FrameType.DATA), int(FrameType.TOMBSTONE), int(FrameType.FRONTIER)
_DECLARE, _CHAIN, _PREVIEW = int(FrameType.DECLARE), int(FrameType.CHAIN), int(FrameType.PREVIEW)
_STATUS, _RESULT_RECEIPT = int(FrameType.STATUS), int(FrameType.RESULT_RECEIPT)


class HighWater(Protocol):
    """The index of the log: what must come next on an edge, counting what is appended and not yet durable."""

    def high_water(self, key: EdgeKey) -> int: ...


class Downlink(Protocol):
    """What waits for a device. Asked in every exchange, so an answer should cost a look in memory."""

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        """(number, row) of the device's results after a number, ascending."""
        ...

    def plan(self, device: DeviceId, newer_than: int) -> PlanMessage | None: ...

    def hint(self, device: DeviceId) -> Hint | None: ...


class Signatures(Protocol):
    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool: ...


class Arrival(NamedTuple):
    """A body as it came; `handle` is the driver's, it comes back in the reply."""

    handle: object
    body: bytes | memoryview


class Reply(NamedTuple):
    """The answer to one arrival; `refused` is the code when nothing of it was kept."""

    handle: object
    body: bytes
    refused: str | None = None


class LogRecord(NamedTuple):
    """A frame for the log, as received. `lo == hi` for what covers no elements."""

    frame: bytes
    key: EdgeKey
    lo: int
    hi: int
    kind: int


@dataclass(frozen=True, slots=True)
class StatusReceived:
    device: DeviceId
    incarnation: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PreviewReceived:
    preview: Preview


@dataclass(frozen=True, slots=True)
class ResultsAcknowledged:
    device: DeviceId
    through: int


@dataclass(frozen=True, slots=True)
class ExchangeApplied:
    device: DeviceId
    incarnation: int
    session: bytes
    counter: int
    elements: int
    duplicates: int
    gaps: int


class _Edge:
    """What the receiver remembers of one edge, beside the log."""

    __slots__ = ("frontier_us", "key", "mark")

    def __init__(self, key: EdgeKey, mark: int) -> None:
        self.key = key
        self.mark = mark
        self.frontier_us = NO_FRONTIER


class _Exchange:
    """An exchange being read: what it would change, kept apart until all of it is known to be good."""

    __slots__ = ("counts", "declared", "events", "frontiers", "marks", "plan_version", "records", "results_through")

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.marks: dict[int, int] = {}
        self.frontiers: dict[int, int] = {}
        self.declared: set[tuple[int, int]] = set()
        self.events: list[object] = []
        self.counts = [0, 0, 0]  # elements, duplicates, gaps
        self.results_through = 0
        self.plan_version: int | None = None


class Receiver:
    """The gateway's end of every edge of every device: one machine, one owner of the index."""

    def __init__(self, index: HighWater, sessions: GatewaySessions, downlink: Downlink, signatures: Signatures) -> None:
        self._index = index
        self._sessions = sessions
        self._downlink = downlink
        self._signatures = signatures
        self._devices: dict[tuple[DeviceId, int], dict[int, _Edge]] = {}
        self._persist: list[LogRecord] = []
        self._send: list[Reply] = []
        self._events: list[object] = []

    # --- the five calls --------------------------------------------------------------------------------

    def receive(self, message: Arrival, now: float) -> None:
        """Take one body. Its reply is in the next step; a refused body changes nothing."""
        handle, body = message
        try:
            if not is_envelope(body):
                self._send.append(Reply(handle, self._sessions.greet(body, now)))
                return
            session, counter, fresh, frames = self._sessions.open(body, now)
        except PeerError as error:
            self._send.append(Reply(handle, bare_refusal(error.code, error.message), error.code))
            return
        edges = self._edges(session)
        try:
            exchange = self._read(session, edges, frames) if fresh else None
        except PeerError as error:
            refusal = encode(Refusal(session.device, error.code, error.message).frame())
            self._send.append(Reply(handle, session.seal(counter, (refusal,)), error.code))
            return
        if exchange is not None:
            self._apply(session, counter, edges, exchange)
        # A replay learns the marks too: its reply is as good as the one that got lost.
        touched = edges if exchange is None else exchange.marks
        self._send.append(Reply(handle, session.seal(counter, self._answer(session, edges, touched, fresh))))

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

    def abandon(self, index: HighWater) -> None:
        """A step could not be made durable: forget every mark and go on from what the disk really holds."""
        self._index = index
        self._devices.clear()
        self._sessions.forget_declarations()
        self._persist.clear()
        self._send.clear()
        self._events.clear()

    def _edges(self, session: GatewaySession) -> dict[int, _Edge]:
        owner = (session.device, session.incarnation)
        edges = self._devices.get(owner)
        if edges is None:
            edges = self._devices[owner] = {}
        return edges

    def _edge(self, session: GatewaySession, edges: dict[int, _Edge], number: int) -> _Edge:
        edge = edges.get(number)
        if edge is None:
            if len(edges) >= EDGES_PER_DEVICE_MAX:
                raise PeerError(f"more than {EDGES_PER_DEVICE_MAX} edges from one device", code="sync-edges")
            key = EdgeKey(session.device, session.incarnation, EdgeId(number))
            edge = edges[number] = _Edge(key, self._index.high_water(key))
        return edge

    def _read(self, session: GatewaySession, edges: dict[int, _Edge], frames: memoryview) -> _Exchange:
        """What this exchange would change. Raises PeerError before anything has changed."""
        exchange = _Exchange()
        offset, end = 0, len(frames)
        while offset < end:
            kind, _, _, _, incarnation, source, number, seq, count, length, frontier = read_header(frames, offset)
            start, offset = offset, offset + HEADER_BYTES + length
            if source != session.device:
                raise PeerError("a frame of another device in this session", code="sync-identity")
            if kind == _STATUS or kind == _RESULT_RECEIPT:
                self._take_report(session, exchange, frames, start)
                continue
            if incarnation != session.incarnation:
                raise PeerError("a frame of another incarnation in this session", code="sync-identity")
            edge = self._edge(session, edges, number)
            if kind == _DATA:
                self._check_data(session, exchange, frames, start, number, count, length)
                self._take_numbered(exchange, edge, frames[start:offset], kind, seq, count)
            elif kind == _TOMBSTONE:
                Lost.of(decode_one(frames, start)[0])
                self._take_numbered(exchange, edge, frames[start:offset], kind, seq, count)
            elif kind == _DECLARE:
                self._take_declaration(session, exchange, edge, frames, start)
            elif kind == _FRONTIER:
                self._take_frontier(exchange, edge, frames[start:offset], seq, frontier)
            elif kind == _CHAIN:
                self._take_chain(session, exchange, edge, frames, start)
            elif kind == _PREVIEW:
                exchange.events.append(PreviewReceived(Preview.of(decode_one(frames, start)[0])))
            else:
                raise PeerError(f"a frame of type {kind} does not travel this way", code="sync-direction")
        return exchange

    def _check_data(
        self, session: GatewaySession, exchange: _Exchange, frames: memoryview, start: int, number: int, count: int,
        length: int,
    ) -> None:  # fmt: skip
        if length < DATA_PREFIX.size or not count:
            raise PeerError("a DATA frame covers at least one element and has a prefix", code="message-data")
        schema_id, _, rows = DATA_PREFIX.unpack_from(frames, start + HEADER_BYTES)
        if rows > count:
            raise PeerError(f"{rows} rows in a range of {count} elements", code="message-data")
        if (number, schema_id) not in session.declared and (number, schema_id) not in exchange.declared:
            raise PeerError("a batch came before the declaration of its schema; declare it", code="sync-undeclared")

    def _take_numbered(
        self, exchange: _Exchange, edge: _Edge, frame: memoryview, kind: int, lo: int, count: int
    ) -> None:
        number = edge.key.edge
        mark = exchange.marks.get(number, edge.mark)
        hi = lo + count
        if lo == mark:
            exchange.records.append(LogRecord(bytes(frame), edge.key, lo, hi, kind))
            exchange.counts[0] += count
            mark = hi
        elif hi <= mark:
            exchange.counts[1] += 1
        elif lo > mark:
            exchange.counts[2] += 1
        else:
            raise PeerError(
                f"range [{lo}, {hi}) overlaps what ends at {mark}; batches are repeated whole or not at all",
                code="sync-overlap",
            )
        exchange.marks[number] = mark

    def _take_declaration(
        self, session: GatewaySession, exchange: _Exchange, edge: _Edge, frames: memoryview, start: int
    ) -> None:
        frame, end = decode_one(frames, start)
        declare = Declare.of(frame)
        if edge_id(declare.name) != edge.key.edge:
            raise PeerError("a DECLARE's name does not belong to its edge", code="message-declare")
        identity = (int(edge.key.edge), declare.schema.id)
        exchange.marks.setdefault(edge.key.edge, edge.mark)
        if identity not in session.declared:
            exchange.declared.add(identity)
            exchange.records.append(LogRecord(bytes(frames[start:end]), edge.key, edge.mark, edge.mark, _DECLARE))

    def _take_frontier(self, exchange: _Exchange, edge: _Edge, frame: memoryview, seq: int, frontier_us: int) -> None:
        number = edge.key.edge
        mark = exchange.marks.setdefault(number, edge.mark)
        # Behind a gap it would promise for elements that are not here yet; repeated it would only fill the log.
        if seq <= mark and frontier_us > exchange.frontiers.get(number, edge.frontier_us):
            exchange.frontiers[number] = frontier_us
            exchange.records.append(LogRecord(bytes(frame), edge.key, mark, mark, _FRONTIER))

    def _take_chain(
        self, session: GatewaySession, exchange: _Exchange, edge: _Edge, frames: memoryview, start: int
    ) -> None:
        frame, end = decode_one(frames, start)
        chain = Chain.of(frame)
        mark = exchange.marks.setdefault(edge.key.edge, edge.mark)
        if chain.hi > mark:
            return  # it signs batches behind a gap; it comes again with them
        if not self._signatures.verify(session.public_key, chain.signed(), chain.signature):
            raise PeerError("the signature over a run of batches is wrong", code="sync-chain-signature")
        exchange.records.append(LogRecord(bytes(frames[start:end]), edge.key, mark, mark, _CHAIN))

    def _take_report(self, session: GatewaySession, exchange: _Exchange, frames: memoryview, start: int) -> None:
        frame, _ = decode_one(frames, start)
        if frame.type is FrameType.RESULT_RECEIPT:
            exchange.results_through = max(exchange.results_through, frame.seq)
            exchange.events.append(ResultsAcknowledged(session.device, frame.seq))
            return
        status = Status.of(frame)
        version = status.values.get("plan")
        if isinstance(version, int) and not isinstance(version, bool):
            exchange.plan_version = version
        exchange.events.append(StatusReceived(session.device, session.incarnation, status.values))

    def _apply(self, session: GatewaySession, counter: int, edges: dict[int, _Edge], exchange: _Exchange) -> None:
        for number, mark in exchange.marks.items():
            edges[number].mark = mark
        for number, frontier_us in exchange.frontiers.items():
            edges[number].frontier_us = frontier_us
        session.declared |= exchange.declared
        session.results_through = max(session.results_through, exchange.results_through)
        if exchange.plan_version is not None:
            session.plan_version = exchange.plan_version
        self._persist += exchange.records
        self._events += exchange.events
        self._events.append(ExchangeApplied(session.device, session.incarnation, session.id, counter, *exchange.counts))

    def _answer(
        self, session: GatewaySession, edges: dict[int, _Edge], touched: Mapping[int, object], fresh: bool
    ) -> list[bytes]:
        device, incarnation = session.device, session.incarnation
        frames = [
            encode(Receipt(device, incarnation, EdgeId(number), edges[number].mark).frame()) for number in touched
        ]
        if not fresh:
            return frames
        plan = self._downlink.plan(device, session.plan_version)
        if plan is not None:
            frames.append(encode(plan.frame()))
        hint = self._downlink.hint(device)
        if hint is not None:
            frames.append(encode(hint.frame()))
        size = 0
        for seq, row in self._downlink.results(device, session.results_through, RESULTS_PER_REPLY_MAX):
            frame = encode(Result(device, seq, row).frame())
            size += len(frame)
            if size > RESULT_BYTES_PER_REPLY_MAX:
                break
            frames.append(frame)
        return frames
