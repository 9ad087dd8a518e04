"""What an exchange carries up: the oldest entries of each edge, strictly in order, as much as may go at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from shared.batch import NO_FRONTIER
from shared.errors import DamagedData
from shared.identity import DeviceId, EdgeId
from shared.language.schema import Schema
from shared.spool.entry import DataEntry, Entry, Tombstone
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from shared.sync.events import Refused
from shared.sync.outbox import Reading
from shared.sync.session import DeviceSession
from shared.sync.signed_runs import SignedRun
from shared.wire.frame import Frame, Parts, encode, encode_parts
from shared.wire.messages import FORGOTTEN, Data, Declare, Frontier, LostRange, MarkMessage
from shared.wire.status import DeviceStatus


@dataclass(frozen=True, slots=True)
class EdgePolicy:
    """How an edge is kept and sent: higher priority first, at latest after `within_s`, at once when `rows` wait.

    `evict` is what makes room for its batches, None the spool's own policy; with `block` they are never given up.
    `kept_min` is which share of its numbers is not given up as long as other edges can make room.
    """

    within_s: float = 60.0
    rows: int = 0  # 0: no limit by count
    priority: int = 0
    evict: Evict | None = None
    kept_min: float = 0.0


@dataclass(slots=True)
class OutgoingEdge:
    """What the sender knows of one of its edges."""

    number: EdgeId
    name: str
    policy: EdgePolicy
    origin: DeviceId  # whose elements these are: this device's, or those of a query where several devices met
    incarnation: int
    store: Spool | Reading  # where they wait: this device's own spool, or what a reader has not taken of an outbox
    term: int = 0  # of the vertex that makes them; a device's own sources have none
    schemas: dict[int, Schema] = field(default_factory=dict)
    waiting_since: float | None = None
    waiting_rows: int = 0
    waiting_bytes: int = 0
    acknowledged: int = 0
    reach: int = 0  # the gateway may have at most this much of it at the first contact
    met: bool = False  # the gateway has said how much it has
    frontier_us: int = NO_FRONTIER
    frontier_sent_us: int = NO_FRONTIER
    run: SignedRun | None = None
    marks: list[MarkMessage] = field(default_factory=list)  # that the reader has not answered, by position
    read: int = 0  # changes when another vertex reads it there, as the deployment says
    reader_term: int | None = None  # of the vertex that reads it, as its last receipt said
    credit: int | None = None  # bytes that the reader has room for; the gateway sets no limit


@dataclass(slots=True)
class Outstanding:
    """What was sent and is not answered yet."""

    deadline: float
    sent_at: float = 0.0
    counter: int = 0  # its number in the session
    hello: bool = False
    numbered: list[tuple[Frame, bytes]] = field(default_factory=list)  # without its payload, which has this digest
    declared: dict[int, int] = field(default_factory=dict)  # edge -> schema, the last one said
    asked: set[EdgeId] = field(default_factory=set)  # how much the gateway has of these
    frontiers: dict[EdgeId, int] = field(default_factory=dict)
    status: DeviceStatus | None = None
    poll_s: float = 0.0  # the next exchange comes at the latest so long after this one
    results_through: int = 0
    left: set[EdgeId] = field(default_factory=set)  # edges whose backlog did not fit
    damaged: bool = False  # a batch failed its check in the spool
    shows: bool = False  # it goes without rows, so that what is newest is there soon
    marks: list[MarkMessage] = field(default_factory=list)
    reached: dict[EdgeId, int] = field(default_factory=dict)  # where these edges are if all that was sent is taken


class Composer:
    """Writes the frames of exchanges, and remembers what the other side already knows. `under_way` are the exchanges
    that are not answered yet: what is in them is not said again. `to_node`: the other side is a node, no gateway."""

    def __init__(
        self, session: DeviceSession, under_way: Sequence[Outstanding], events: list[object], *, to_node: bool
    ) -> None:
        self._to_node = to_node
        self._session = session
        self._under_way = under_way
        self._events = events
        self.declared: dict[int, int] = {}  # edge -> the schema that counts there, in this session
        self.forgotten: dict[EdgeId, tuple[int, int]] = {}  # acknowledged once, and lost by the gateway
        self.one_at_a_time = False  # something in an exchange was poison: find out what
        self._crowded_out: set[EdgeId] = set()  # edges for whose rows the last exchange had no room

    def compose(self, edges: Iterable[OutgoingEdge], outstanding: Outstanding, budget: int) -> list[bytes | Parts]:
        """The frames to send now, noted in `outstanding`; dearer edges first. Of those that are as dear, the ones that
        had no room the last time: behind an edge that always has more than fits, the others would wait for ever."""
        frames: list[bytes | Parts] = []
        crowded_out = set()
        for edge in sorted(
            edges, key=lambda edge: (-edge.policy.priority, edge.number not in self._crowded_out, edge.name)
        ):
            before = len(outstanding.numbered)
            budget = self._fill(edge, outstanding, frames, budget)
            if edge.number in outstanding.left and len(outstanding.numbered) == before and edge.credit != 0:
                crowded_out.add(edge.number)
        self._crowded_out = crowded_out
        return frames

    def _fill(self, edge: OutgoingEdge, outstanding: Outstanding, frames: list[bytes | Parts], budget: int) -> int:
        """Add what fits of one edge; returns the bytes left. At least one entry goes whatever its size."""
        session = self._session
        origin, incarnation = edge.origin, edge.incarnation
        # A FRONTIER that promises nothing is logged nowhere; its receipt says how much the reader has.
        question = Frontier(origin, incarnation, edge.number, edge.reach, NO_FRONTIER, edge.term)
        before = len(frames)
        if not edge.met:
            # Who begins to read it now may not have been there when it was declared, and then nobody kept it.
            self.declared.pop(int(edge.number), None)
            frames.append(encode(question.frame()))
            outstanding.asked.add(edge.number)
            edge.waiting_since, edge.waiting_rows, edge.waiting_bytes = None, 0, 0
            return budget
        if edge.run is not None and (chain := edge.run.signed(session.keys.sign)) is not None:
            frames.append(encode(chain.frame()))
        if edge.number in self.forgotten:
            lo, hi = self.forgotten[edge.number]
            frames.append(encode(LostRange(origin, incarnation, edge.number, lo, hi, FORGOTTEN, edge.term).frame()))
        if isinstance(edge.store, Reading) and edge.store.waits(edge.number):
            if edge.waiting_since is None and (edge.marks or edge.frontier_us > edge.frontier_sent_us):
                edge.waiting_since = outstanding.sent_at
            if len(frames) == before and not self._under_way:
                frames.append(encode(question.frame()))
            return budget
        complete = True
        marks = iter([mark for mark in edge.marks if not any(mark in other.marks for other in self._under_way)])
        mark = next(marks, None)
        for entry in edge.store.pending(edge.number):
            # Also to a reader without room: what it makes is let go only once it was snapshotted.
            while mark is not None and mark.position <= entry.lo:
                self._mark(mark, outstanding, frames)
                mark = next(marks, None)
            size = entry.payload_bytes if isinstance(entry, DataEntry) else 0
            if budget <= 0 or edge.credit == 0 or (outstanding.numbered and (size > budget or self.one_at_a_time)):
                complete = False
                break
            if isinstance(entry, DataEntry) and entry.schema_id not in edge.schemas:
                # Its declaration was not handed back at start. Better to wait for it than to give the batch up.
                text = f"no declaration for a batch of edge {edge.name!r}"
                self._events.append(Refused("sync-schema-unknown", text))
                break
            frame, schema_id = self._numbered(edge, entry, outstanding)
            if frame is None:
                complete = False
                break
            if schema_id is not None:
                frames += self._declaration(edge, schema_id, outstanding)
            parts = encode_parts(frame)
            frames.append(parts)
            outstanding.numbered.append((replace(frame, payload=b""), parts.digest))
            budget -= len(parts.header) + len(parts.payload)
            if isinstance(edge.store, Spool):
                edge.store.sent(edge.number, entry.hi)
            else:
                edge.store.ahead[edge.number] = entry.hi
        if complete:
            edge.waiting_since, edge.waiting_rows, edge.waiting_bytes = None, 0, 0
            while mark is not None:
                self._mark(mark, outstanding, frames)
                mark = next(marks, None)
        else:
            outstanding.left.add(edge.number)
        said_us = max(
            [edge.frontier_sent_us, *(other.frontiers.get(edge.number, NO_FRONTIER) for other in self._under_way)]
        )
        held = isinstance(edge.store, Reading) and edge.store.held_rows(edge.number) > 0
        if complete and edge.frontier_us > said_us and not held:  # of rows that stay here it would promise too much
            head = edge.store.head(edge.number)
            message = Frontier(origin, incarnation, edge.number, head, edge.frontier_us, edge.term)
            frames.append(encode(message.frame()))
            outstanding.frontiers[edge.number] = edge.frontier_us
        if isinstance(edge.store, Reading):
            outstanding.reached[edge.number] = edge.store.ahead.get(edge.number, 0)
        if len(frames) == before and self._to_node and not self._under_way:
            # While nothing flows its snapshots go on becoming permanent, and it may begin again.
            frames.append(encode(question.frame()))
        return budget

    @staticmethod
    def _mark(mark: MarkMessage, outstanding: Outstanding, frames: list[bytes | Parts]) -> None:
        frames.append(encode(mark.frame()))
        outstanding.marks.append(mark)

    def _declaration(self, edge: OutgoingEdge, schema_id: int, outstanding: Outstanding) -> list[bytes]:
        """The frame that declares this schema, unless it counts there now or when this exchange arrives. One that was
        replaced is declared again: the log keeps the newest of an edge alone."""
        schema, number = edge.schemas[schema_id], int(edge.number)
        said = (
            other.declared[number] for other in (outstanding, *reversed(self._under_way)) if number in other.declared
        )
        if schema.id == next(said, self.declared.get(number)):
            return []
        outstanding.declared[number] = schema.id
        self.declared.pop(number, None)  # unless this is answered nobody knows which one counts
        return [encode(Declare(edge.origin, edge.incarnation, edge.number, edge.name, schema, edge.term).frame())]

    def _numbered(
        self, edge: OutgoingEdge, entry: Entry, outstanding: Outstanding
    ) -> tuple[Frame | None, int | None]:  # fmt: skip
        """The entry as a frame, with the number of its schema; no frame when it cannot go now."""
        origin, incarnation = edge.origin, edge.incarnation
        if isinstance(entry, Tombstone):
            reason = entry.reason.name.lower()
            return LostRange(origin, incarnation, entry.edge, entry.lo, entry.hi, reason, edge.term).frame(), None
        try:
            batch = edge.store.read(entry)
        except DamagedData as error:
            self._events.append(Refused(error.code, error.message))
            outstanding.damaged = True  # a tombstone took its place
            return None, None
        data = Data(
            origin, incarnation, batch.edge, batch.lo, batch.hi, batch.rows, batch.schema_id, batch.applied,
            batch.codec, batch.payload, batch.frontier_us, edge.term,
        )  # fmt: skip
        return data.frame(), batch.schema_id
