"""One exchange as the gateway reads it: checked to the end before anything changes.

Frames are read in place: a header is unpacked where it lies, and a lone batch is logged from where it lies.
This runs for every exchange of every device, so there is no object per frame here but that record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey, edge_id
from shared.sync.ranges import Meeting, meet
from shared.sync.session import GatewaySession
from shared.wire.frame import HEADER_BYTES, FrameType, decode_one, read_header
from shared.wire.messages import DATA_PREFIX, Chain, Declare, Lost, Preview, ResultReceipt, Status

EDGES_PER_DEVICE_MAX = 1024

# A member of an IntEnum compares an order of magnitude slower than an int.
_DATA, _TOMBSTONE, _FRONTIER = int(FrameType.DATA), int(FrameType.TOMBSTONE), int(FrameType.FRONTIER)
_DECLARE, _CHAIN, _PREVIEW = int(FrameType.DECLARE), int(FrameType.CHAIN), int(FrameType.PREVIEW)
_REPORTS = frozenset({int(FrameType.STATUS), int(FrameType.RESULT_RECEIPT)})
_NEXT, _DUPLICATE, _GAP = int(Meeting.NEXT), int(Meeting.DUPLICATE), int(Meeting.GAP)


class HighWater(Protocol):
    """The index of the log: what must come next on an edge, counting what is appended and not yet durable."""

    def high_water(self, key: EdgeKey) -> int: ...


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
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PreviewReceived:
    preview: Preview


@dataclass(frozen=True, slots=True)
class ResultsAcknowledged:
    device: DeviceId
    through: int


class EdgeMark:
    """What the receiver remembers of one edge beside the log."""

    __slots__ = ("chain_through", "frontier_us", "key", "mark")

    def __init__(self, key: EdgeKey, mark: int) -> None:
        self.key = key
        self.mark = mark
        self.frontier_us = NO_FRONTIER
        self.chain_through = 0


def next_batch(
    session: GatewaySession, edges: Mapping[int, EdgeMark], frames: memoryview, digest: bytes
) -> LogRecord | None:
    """The record of an exchange that is one batch, the next on an edge known here; None where it is anything else.

    That is nearly every exchange of a device that is not behind. What is taken here `Exchange` takes too, with the
    same effect, for three times the price; what is not goes to it.
    """
    kind, _, _, _, incarnation, source, number, lo, count, length, _ = read_header(frames, 0, digest)
    edge = edges.get(number)
    if (
        edge is None
        or lo != edge.mark
        or kind != _DATA
        or source != session.device
        or incarnation != session.incarnation
        or length < DATA_PREFIX.size
    ):
        return None
    schema_id, _, rows = DATA_PREFIX.unpack_from(frames, HEADER_BYTES)
    if not 0 < count >= rows or (number, schema_id) not in session.declared:
        return None
    return LogRecord(frames, edge.key, lo, lo + count, kind, digest)


class Exchange:
    """What an exchange would change. `read` raises PeerError before anything has changed."""

    __slots__ = (
        "_edges", "_index", "_session", "_signatures", "chains", "declared", "duplicates", "elements", "events",
        "frontiers", "gaps", "marks", "plan_version", "records", "results_through",
    )  # fmt: skip

    def __init__(
        self, session: GatewaySession, edges: dict[int, EdgeMark], index: HighWater, signatures: Signatures
    ) -> None:
        self._session = session
        self._edges = edges
        self._index = index
        self._signatures = signatures
        self.records: list[LogRecord] = []
        self.marks: dict[int, int] = {}  # of every edge this exchange spoke of
        self.frontiers: dict[int, int] = {}
        self.chains: dict[int, int] = {}
        self.declared: set[tuple[int, int]] = set()
        self.events: list[object] = []
        self.elements = self.duplicates = self.gaps = 0
        self.results_through = 0
        self.plan_version: int | None = None

    def read(self, frames: memoryview, digests: Iterable[bytes]) -> Exchange:
        """`digests` are those of the frames' payloads, in order."""
        session, edges = self._session, self._edges
        device, current = session.device, session.incarnation
        offset = 0
        for digest in digests:
            kind, _, _, _, incarnation, source, number, lo, count, length, frontier = read_header(
                frames, offset, digest
            )
            start, offset = offset, offset + HEADER_BYTES + length
            if source != device:
                raise PeerError("a frame of another device in this session", code="sync-identity")
            if kind in _REPORTS:
                self._report(frames, start)
                continue
            if incarnation != current:
                raise PeerError("a frame of another incarnation in this session", code="sync-identity")
            edge = edges.get(number) or self._new_edge(number)
            if kind == _DATA:
                if length < DATA_PREFIX.size or not count:
                    raise PeerError("a DATA frame covers at least one element and has a prefix", code="message-data")
                schema_id, _, rows = DATA_PREFIX.unpack_from(frames, start + HEADER_BYTES)
                if rows > count:
                    raise PeerError(f"{rows} rows in a range of {count} elements", code="message-data")
                self._check_declared(number, schema_id)
                self._number(edge, LogRecord(bytes(frames[start:offset]), edge.key, lo, lo + count, kind, digest))
            elif kind == _TOMBSTONE:
                Lost.of(decode_one(frames, start)[0])
                self._number(edge, LogRecord(bytes(frames[start:offset]), edge.key, lo, lo + count, kind, digest))
            elif kind == _DECLARE:
                self._declare(edge, frames, start, digest)
            elif kind == _FRONTIER:
                self._advance(edge, frames[start:offset], lo, frontier, digest)
            elif kind == _CHAIN:
                self._chain(edge, frames, start, digest)
            elif kind == _PREVIEW:
                self.events.append(PreviewReceived(Preview.of(decode_one(frames, start)[0])))
            else:
                raise PeerError(f"a frame of type {kind} does not travel this way", code="sync-direction")
        return self

    def _new_edge(self, number: int) -> EdgeMark:
        if len(self._edges) >= EDGES_PER_DEVICE_MAX:
            raise PeerError(f"more than {EDGES_PER_DEVICE_MAX} edges from one device", code="sync-edges")
        key = EdgeKey(self._session.device, self._session.incarnation, EdgeId(number))
        edge = self._edges[number] = EdgeMark(key, self._index.high_water(key))
        return edge

    def _check_declared(self, number: int, schema_id: int) -> None:
        identity = (number, schema_id)
        if identity not in self._session.declared and identity not in self.declared:
            raise PeerError("a batch came before the declaration of its schema; declare it", code="sync-undeclared")

    def _number(self, edge: EdgeMark, record: LogRecord) -> None:
        number, lo, hi = edge.key.edge, record.lo, record.hi
        mark = self.marks.get(number, edge.mark)
        meeting = meet(lo, hi, mark)
        if meeting == _NEXT:
            self.records.append(record)
            self.elements += hi - lo
            mark = hi
        elif meeting == _DUPLICATE:
            self.duplicates += 1
        elif meeting == _GAP:
            self.gaps += 1
        else:
            raise PeerError(
                f"range [{lo}, {hi}) overlaps what ends at {mark}; batches are repeated whole or not at all",
                code="sync-overlap",
            )
        self.marks[number] = mark

    def _declare(self, edge: EdgeMark, frames: memoryview, start: int, digest: bytes) -> None:
        frame, end = decode_one(frames, start)
        declare = Declare.of(frame)
        if edge_id(declare.name) != edge.key.edge:
            raise PeerError("a DECLARE's name does not belong to its edge", code="message-declare")
        identity = (int(edge.key.edge), declare.schema.id)
        mark = self.marks.setdefault(edge.key.edge, edge.mark)
        if identity not in self._session.declared and identity not in self.declared:
            self.declared.add(identity)
            self.records.append(LogRecord(bytes(frames[start:end]), edge.key, mark, mark, _DECLARE, digest))

    def _advance(self, edge: EdgeMark, frame: memoryview, seq: int, frontier_us: int, digest: bytes) -> None:
        number = edge.key.edge
        mark = self.marks.setdefault(number, edge.mark)
        # Behind a gap it would promise for elements that are not here yet; repeated it would only fill the log.
        if seq <= mark and frontier_us > self.frontiers.get(number, edge.frontier_us):
            self.frontiers[number] = frontier_us
            self.records.append(LogRecord(bytes(frame), edge.key, mark, mark, _FRONTIER, digest))

    def _chain(self, edge: EdgeMark, frames: memoryview, start: int, digest: bytes) -> None:
        frame, end = decode_one(frames, start)
        chain = Chain.of(frame)
        number = edge.key.edge
        mark = self.marks.setdefault(number, edge.mark)
        if chain.hi > mark or chain.hi <= edge.chain_through:
            return  # it signs what is not here yet and comes again with it; or it is here already
        if not self._signatures.verify(self._session.public_key, chain.signed(), chain.signature):
            raise PeerError("the signature over a run of batches is wrong", code="sync-chain-signature")
        self.chains[number] = chain.hi
        self.records.append(LogRecord(bytes(frames[start:end]), edge.key, mark, mark, _CHAIN, digest))

    def _report(self, frames: memoryview, start: int) -> None:
        frame, _ = decode_one(frames, start)
        session = self._session
        if frame.type is FrameType.RESULT_RECEIPT:
            through = ResultReceipt.of(frame).through
            self.results_through = max(self.results_through, through)
            self.events.append(ResultsAcknowledged(session.device, through))
            return
        status = Status.of(frame)
        version = status.values.get("plan")
        if isinstance(version, int) and not isinstance(version, bool):
            self.plan_version = version
        self.events.append(StatusReceived(session.device, session.incarnation, status.values))
