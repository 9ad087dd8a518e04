"""One exchange as the gateway reads it: checked to the end before anything changes.

Frames are read in place: a header is unpacked where it lies, and a batch is logged from where it lies.
This runs for every exchange of every device, so there is no object per frame here but that record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.sync.ranges import Meeting, meet
from shared.sync.session import GatewaySession
from shared.wire.frame import HEADER_BYTES, Frame, FrameHeader, FrameType, frame_of, read_header
from shared.wire.messages import DATA_PREFIX, Chain, Declare, DeploymentMessage, LostRange, ResultReceipt, Status
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus

# What the index keeps of one installation for as long as it is enrolled. Real plans need a small part of it.
EDGES_PER_DEVICE_MAX = 256
DECLARED_BYTES_PER_DEVICE_MAX = 256 * 1024
DECLARATIONS_PER_SESSION_MAX = 1024
NOT_READ = -1

# A member of an IntEnum compares an order of magnitude slower than an int.
_DATA, _TOMBSTONE, _FRONTIER = int(FrameType.DATA), int(FrameType.TOMBSTONE), int(FrameType.FRONTIER)
_DECLARE, _CHAIN, _MARK = int(FrameType.DECLARE), int(FrameType.CHAIN), int(FrameType.MARK)
_BROADCAST = frozenset({FrameType.ANNOUNCE, FrameType.BLOCK})
_REPORTS = frozenset(
    map(int, (FrameType.STATUS, FrameType.RESULT_RECEIPT, FrameType.DEPLOYMENT, FrameType.PASS, *_BROADCAST))
)


class HighWater(Protocol):
    """What stands behind a receiver: the log's index, or the vertices that run on a node. It says what must come next
    on an edge, counting what is taken and not yet durable."""

    takes_marks: bool

    def high_water(self, key: EdgeKey) -> int:
        """NOT_READ: nothing here reads this edge."""
        ...

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """The term under which this carrier makes the edge now; None: it is not for it to send. A device's own
        elements have no term, which is 0."""
        ...

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:
        """The edges of one installation, each with the bytes of its declaration."""
        ...


class Signatures(Protocol):
    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool: ...


class LogRecord(NamedTuple):
    """A frame for the log, as received. `lo == hi` for what covers no elements."""

    frame: bytes | memoryview  # a view keeps the body it lies in until the record is written
    key: EdgeKey
    lo: int
    hi: int
    kind: int
    digest: bytes  # of the frame's payload


@dataclass(frozen=True, slots=True)
class StatusReceived:
    device: DeviceId
    incarnation: int
    status: DeviceStatus


@dataclass(frozen=True, slots=True)
class DeploymentShown:
    """What a node follows, as it was given it. Whoever coordinates must look whether it signed that."""

    device: DeviceId
    message: DeploymentMessage


@dataclass(frozen=True, slots=True)
class PassReceived:
    """A node has something for another one."""

    message: PassMessage


@dataclass(frozen=True, slots=True)
class ResultsAcknowledged:
    device: DeviceId
    through: int


class IncomingEdge:
    """What the receiver remembers of one edge beside the log."""

    __slots__ = ("chain_through", "form", "frontier_us", "high_water", "key")

    def __init__(self, key: EdgeKey, high_water: int) -> None:
        self.key = key
        self.high_water = high_water  # one for all who carry this edge, now or later
        self.frontier_us = NO_FRONTIER
        self.chain_through = 0
        self.form: int | None = None  # the schema that was declared last, as far as this receiver has heard


class DeviceEdges:
    """What the receiver remembers of one installation: the edges it carries and how much they take of the index."""

    __slots__ = ("by_slot", "declared_bytes")

    def __init__(self, declared_bytes: Mapping[EdgeId, int]) -> None:
        self.by_slot: dict[int, IncomingEdge] = {}  # of those that were spoken of since the gateway started
        self.declared_bytes: dict[int, int] = {
            int(edge): size for edge, size in declared_bytes.items()
        }  # by slot, of all there are


class Announcements:
    """What an exchange says beside its batches, by slot. Most say nothing, so it is made by the first that does."""

    __slots__ = (
        "chains", "declared", "declared_bytes", "deployment", "events", "forms", "frontiers", "new_edges", "operators",
        "plan_version", "report_bytes", "results_through", "said",
    )  # fmt: skip

    def __init__(self) -> None:
        self.frontiers: dict[int, int] = {}
        self.chains: dict[int, int] = {}
        self.declared: dict[tuple[int, int], Schema] = {}
        self.declared_bytes: dict[int, int] = {}
        self.forms: dict[int, int] = {}
        self.new_edges: dict[int, IncomingEdge] = {}
        self.events: list[object] = []
        self.results_through = 0
        self.plan_version: int | None = None
        self.deployment: tuple[int, int] | None = None
        self.report_bytes = 0  # of frames that are about no edge
        self.operators: frozenset[str] | None = None
        self.said: list[Frame] = []  # of what is broadcast between nodes


class Exchange:
    """What an exchange would change. `read` raises PeerError before anything has changed."""

    __slots__ = (
        "_edges", "_incoming", "_index", "_session", "_signatures", "announced", "duplicates", "elements", "gaps",
        "high_water", "records", "stale",
    )  # fmt: skip

    def __init__(
        self,
        session: GatewaySession,
        edges: DeviceEdges,
        incoming: Mapping[EdgeKey, IncomingEdge],
        index: HighWater,
        signatures: Signatures,
    ) -> None:
        self._session = session
        self._edges = edges
        self._incoming = incoming
        self._index = index
        self._signatures = signatures
        self.records: list[LogRecord] = []
        self.high_water: dict[int, int] = {}  # by slot, of every edge this exchange spoke of
        self.elements = self.duplicates = self.gaps = self.stale = 0
        self.announced: Announcements | None = None

    def read(self, frames: memoryview, digests: Iterable[bytes]) -> Exchange:
        """`digests` are those of the frames' payloads, in order."""
        session, edges = self._session, self._edges.by_slot
        device, current = session.device, session.incarnation
        offset = 0
        for digest in digests:
            header = read_header(frames, offset, digest)
            _, _, kind, _, _, _, _, incarnation, source, number, lo, count, length, _ = header
            start, offset = offset, offset + HEADER_BYTES + length
            data, slot = frames[start:offset], int(number)
            if source != device or (incarnation != current and kind not in _REPORTS):
                if not self._carries(header):
                    self.stale += 1
                    continue
                slot = session.slot(EdgeKey(source, incarnation, number))
            elif kind in _REPORTS:
                self._report(frame_of(header, bytes(data[HEADER_BYTES:])))
                continue
            edge = edges.get(slot) or self._new_edge(header, slot)
            if edge is None:
                self.stale += 1
                continue
            if kind == _DATA:
                if length < DATA_PREFIX.size or not count:
                    raise PeerError("a DATA frame covers at least one element and has a prefix", code="message-data")
                schema_id, _, rows = DATA_PREFIX.unpack_from(frames, start + HEADER_BYTES)
                if rows > count:
                    raise PeerError(f"{rows} rows in a range of {count} elements", code="message-data")
                if (slot, schema_id) not in session.declared:
                    self._check_declared(slot, schema_id)
                if self._is_next(edge, slot, lo, lo + count):
                    self.records.append(LogRecord(data, edge.key, lo, lo + count, kind, digest))
            elif kind == _TOMBSTONE:
                LostRange.of(frame_of(header, bytes(data[HEADER_BYTES:])))
                if self._is_next(edge, slot, lo, lo + count):
                    self.records.append(LogRecord(data, edge.key, lo, lo + count, kind, digest))
            elif kind == _DECLARE:
                self._declare(edge, slot, Declare.of(frame_of(header, bytes(data[HEADER_BYTES:]))), data, digest)
            elif kind == _FRONTIER:
                self._advance(edge, slot, data, header, digest)
            elif kind == _CHAIN:
                self._chain(edge, slot, Chain.of(frame_of(header, bytes(data[HEADER_BYTES:]))), data, digest)
            elif kind == _MARK and self._index.takes_marks:
                self._mark(edge, slot, lo, data, digest)
            else:
                raise PeerError(f"a frame of type {kind} does not travel this way", code="sync-direction")
        return self

    def _announce(self) -> Announcements:
        if self.announced is None:
            self.announced = Announcements()
        return self.announced

    def _carries(self, header: FrameHeader) -> bool:
        """Whether this session may send elements that are not its device's own; False where it may no longer."""
        key = EdgeKey(header.source, header.incarnation, header.edge)
        term = self._index.producer_term(self._session.device, key)
        if term is None:
            raise PeerError("a frame of another device in this session", code="sync-identity")
        return header.term == term

    def _new_edge(self, header: FrameHeader, slot: int) -> IncomingEdge | None:
        """One that no exchange before this has spoken of."""
        if self.announced is not None and (told := self.announced.new_edges.get(slot)) is not None:
            return told
        key = EdgeKey(header.source, header.incarnation, header.edge)
        incoming = self._incoming.get(key) or IncomingEdge(key, self._index.high_water(key))
        if incoming.high_water == NOT_READ:
            return None
        known, announced = self._edges.declared_bytes, self._announce()
        if slot not in known:
            announced.declared_bytes[slot] = 0
            if len(known) + sum(edge not in known for edge in announced.declared_bytes) > EDGES_PER_DEVICE_MAX:
                raise PeerError(f"more than {EDGES_PER_DEVICE_MAX} edges from one device", code="sync-edges")
        announced.new_edges[slot] = incoming
        return incoming

    def _mark(self, edge: IncomingEdge, slot: int, position: int, data: memoryview, digest: bytes) -> None:
        high_water = self.high_water.setdefault(slot, edge.high_water)
        if position <= high_water:  # behind a gap it comes again, with what is missing
            self.records.append(LogRecord(bytes(data), edge.key, position, position, _MARK, digest))

    def _check_declared(self, slot: int, schema_id: int) -> None:
        if self.announced is None or (slot, schema_id) not in self.announced.declared:
            raise PeerError("a batch came before the declaration of its schema; declare it", code="sync-undeclared")

    def _is_next(self, edge: IncomingEdge, slot: int, lo: int, hi: int) -> bool:
        """Whether this range is the one to keep; counts it, whatever it is."""
        high_water = self.high_water.get(slot, edge.high_water)
        if lo == high_water:
            self.elements += hi - lo
            self.high_water[slot] = hi
            return True
        meeting = meet(lo, hi, high_water)
        if meeting is Meeting.DUPLICATE:
            self.duplicates += 1
        elif meeting is Meeting.GAP or self._index.takes_marks or slot != edge.key.edge:
            # Two nodes that make one edge cut it into different batches. The receipt says where to go on, and the
            # sender cuts there.
            self.gaps += 1
        else:
            raise PeerError(
                f"range [{lo}, {hi}) overlaps what ends at {high_water}; batches are repeated whole or not at all",
                code="sync-overlap",
            )
        self.high_water[slot] = high_water
        return False

    def _declare(self, edge: IncomingEdge, slot: int, declare: Declare, data: memoryview, digest: bytes) -> None:
        if edge_id(declare.name) != edge.key.edge:
            raise PeerError("a DECLARE's name does not belong to its edge", code="message-declare")
        identity = (slot, declare.schema.id)
        high_water = self.high_water.setdefault(slot, edge.high_water)
        announced = self._announce()
        known = self._session.declared.get(identity) or announced.declared.get(identity)
        if known is not None and known != declare.schema:
            raise PeerError("two schemas of one edge have the same number; rename a column", code="sync-schema-number")
        # A form that the device goes back to takes the place of the one between: the log keeps one for each edge.
        if known is None or declare.schema.id != announced.forms.get(slot, edge.form):
            announced.declared[identity] = declare.schema
            announced.forms[slot] = declare.schema.id
            self._check_room(announced, slot, len(data))
            self.records.append(LogRecord(bytes(data), edge.key, high_water, high_water, _DECLARE, digest))

    def _check_room(self, announced: Announcements, slot: int, declaration_bytes: int) -> None:
        announced.declared_bytes[slot] = declaration_bytes
        if sum({**self._edges.declared_bytes, **announced.declared_bytes}.values()) > DECLARED_BYTES_PER_DEVICE_MAX:
            raise PeerError(
                f"the schemas of one device take more than {DECLARED_BYTES_PER_DEVICE_MAX} bytes", code="sync-schemas"
            )
        if len(self._session.declared | announced.declared) > DECLARATIONS_PER_SESSION_MAX:
            raise PeerError(f"more than {DECLARATIONS_PER_SESSION_MAX} schemas in one session", code="sync-schemas")

    def _advance(self, edge: IncomingEdge, slot: int, frame: memoryview, header: FrameHeader, digest: bytes) -> None:
        seq, frontier_us = header.seq, header.frontier_us
        high_water = self.high_water.setdefault(slot, edge.high_water)
        # Behind a gap it would promise for elements that are not here yet; repeated it would only fill the log.
        frontiers = self._announce().frontiers
        if seq <= high_water and frontier_us > frontiers.get(slot, edge.frontier_us):
            frontiers[slot] = frontier_us
            self.records.append(LogRecord(bytes(frame), edge.key, high_water, high_water, _FRONTIER, digest))

    def _chain(self, edge: IncomingEdge, slot: int, chain: Chain, data: memoryview, digest: bytes) -> None:
        high_water = self.high_water.setdefault(slot, edge.high_water)
        if chain.hi > high_water or chain.hi <= edge.chain_through:
            return  # it signs what is not here yet and comes again with it; or it is here already
        if chain.by != self._session.device:
            raise PeerError("a run of batches is signed in the name of another node", code="sync-chain-signer")
        if not self._signatures.verify(self._session.public_key, chain.signed(), chain.signature):
            raise PeerError("the signature over a run of batches is wrong", code="sync-chain-signature")
        self._announce().chains[slot] = chain.hi
        self.records.append(LogRecord(bytes(data), edge.key, high_water, high_water, _CHAIN, digest))

    def _report(self, frame: Frame) -> None:
        session, announced = self._session, self._announce()
        if frame.type in _BROADCAST:
            if not self._index.takes_marks:
                raise PeerError("snapshots are broadcast between nodes", code="sync-direction")
            announced.said.append(frame)
            return
        if frame.type is FrameType.PASS:
            if self._index.takes_marks:
                raise PeerError("only a gateway passes exchanges on so", code="sync-direction")
            announced.events.append(PassReceived(PassMessage.of(frame)))
            return
        announced.report_bytes += HEADER_BYTES + len(frame.payload)
        if frame.type is FrameType.DEPLOYMENT:
            announced.events.append(DeploymentShown(session.device, DeploymentMessage.of(frame)))
            return
        if frame.type is FrameType.RESULT_RECEIPT:
            through = ResultReceipt.of(frame).through
            announced.results_through = max(announced.results_through, through)
            announced.events.append(ResultsAcknowledged(session.device, through))
            return
        status = Status.of(frame).status
        announced.plan_version, announced.deployment = status.plan, status.deployment
        announced.operators = None if status.operators is None else frozenset(status.operators)
        announced.events.append(StatusReceived(session.device, session.incarnation, status))
