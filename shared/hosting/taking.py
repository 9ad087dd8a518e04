"""What other nodes send, and where it goes: to a keeper, a sink, a carrier, a copy or a vertex. The answer says how far
each edge has come.

A receipt has two positions: `taken`, which is where to go on, and `through`, below which nothing will be asked for
again. `through` rises when a snapshot is permanent, and not before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from shared.errors import PeerError
from shared.hosting.calling import Calling
from shared.hosting.carrier import TERMS, Carrier
from shared.hosting.copies import Copy
from shared.hosting.here import CREDIT_BYTES, Here
from shared.hosting.initiators import cut_initiator, text_of
from shared.hosting.kept_snapshot import TAKES_CHANGES
from shared.hosting.messages import SinkTook
from shared.hosting.rows_lane import RowsLane
from shared.hosting.sink import Sink
from shared.hosting.state_lane import StateLane
from shared.hosting.vertices import Vertices
from shared.hosting.wiring import PASSED_ON, KeptSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.recovery.marks import Mark, MarkId
from shared.spool.entry import SpooledBatch
from shared.sync.exchange import NOT_READ, LogRecord
from shared.sync.outbox import cut
from shared.sync.session import GatewaySession
from shared.wire.frame import Frame, FrameType, decode_all, decode_one, encode
from shared.wire.messages import Data, LostRange, MarkMessage, PeerReceipt

BROADCAST = frozenset({FrameType.DATA, FrameType.TOMBSTONE, FrameType.MARK})  # what a broadcast of rows has
COPIES = 1 << 31  # the term of a copy that nothing here reads begins behind all terms of vertices


class Taking:
    """What stands behind the receiver of a node."""

    takes_marks = True

    def __init__(
        self,
        here: Here,
        calling: Calling,
        vertices: Vertices,
        lane: StateLane,
        rows: RowsLane,
        *,
        forget_edges: Callable[[], None],
    ) -> None:
        self._here, self._calling, self._vertices, self._lane, self._rows = here, calling, vertices, lane, rows
        self._forget_edges = forget_edges
        self._legs: dict[EdgeKey, frozenset[EdgeKey]] = {}  # of an edge whose input may come on others as well, all
        self._live_legs: set[EdgeKey] = set()  # those of them on which something came

    def high_water(self, key: EdgeKey) -> int:
        here = self._here
        copy = here.copies.get(key)
        readers = [instance.arrived(label) for instance, label in here.readers_of.get(key, ()) if not instance.failed]
        if key in here.sinks:
            readers.append(here.sinks[key].taken)
        if copy is not None:  # what reads it here reads the copy
            readers = [copy.taken, *([here.sinks[key].taken] if key in here.sinks else [])]
        readers += [carrier.taken for carrier in here.carriers_of.get(key, ()) if carrier.begun]
        if key in here.standby:
            here.roused.add(key)
        if here.keeper.reads(key) is not None:
            readers.append(here.keeper.taken.get(key, 0))
        return min(readers, default=NOT_READ)

    def edges_of(self, device: DeviceId, incarnation: int) -> Mapping[EdgeId, int]:  # noqa: ARG002
        return {}

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        here = self._here
        kept = here.keeper.reads(key)
        inputs = [instance.spec.inputs[label] for instance, label in here.readers_of.get(key, ())]
        edges = [leg for each in inputs for leg in each.arriving if leg.key == key]
        edges += [carrier.spec.reads for carrier in here.carriers_of.get(key, ())]
        edges += [spec.reads for spec in here.standby.get(key, ())]
        edges += [edge for _, _, edge in here.wiring.sinks if edge.key == key]
        edges += [leg for leg in here.copies[key].spec.legs if leg.key == key] if key in here.copies else []
        edges += [kept.edge] if kept is not None else []
        for edge in edges:
            return edge.carriers.get(carrier.hex(), NOT_READ)
        return NOT_READ if carrier.hex() in here.peers else None

    def receipt(self, key: EdgeKey) -> PeerReceipt:
        """How far this node has come with an edge."""
        here = self._here
        taken = max(0, self.high_water(key))
        through, term, load, credit = taken, 0, 0, CREDIT_BYTES
        if here.keeper.reads(key) is not None:
            # Pieces of a snapshot that is not whole yet are in memory only: a restart asks for them again.
            through, term, load = here.keeper.through.get(key, 0), here.memory.boot, TAKES_CHANGES
        if carriers := here.carriers_of.get(key, ()):
            through = min(carrier.through for carrier in carriers)
            term = sum(carrier.term for carrier in carriers) % TERMS
            # While its reader is gone, rows may find another way. One query does not wait for another's.
            waits = key not in here.readers_of and all(map(self._waits, carriers))
            credit = 0 if waits or any(here.full((carrier.edge,)) for carrier in carriers) else credit
        copy = here.copies.get(key)
        if copy is not None:
            term = 0 if key in here.readers_of else COPIES + here.memory.boot
            credit = 0 if copy.full else credit
        for instance, label in here.readers_of.get(key, ()):
            if copy is None:
                through = 0 if instance.unkept else min(through, instance.checkpoints.through(label))
            term += instance.term
            load += instance.checkpoints.load
            if instance.full(label) or (label not in instance.spec.back and here.full(instance.edges)):
                credit = 0
        readers, carried = self._speaks_for(key)
        return PeerReceipt(
            key.device, key.incarnation, key.edge, through, taken, term, credit, load, readers, carried
        )  # fmt: skip

    def _speaks_for(self, key: EdgeKey) -> tuple[int, int]:
        """For whom a receipt speaks, of an edge that several queries share."""
        sharers = self._here.wiring.sharers.get(key)
        if sharers is None:
            return 0, 0
        terms: dict[str, int] = {}
        for instance, _ in self._here.readers_of.get(key, ()):
            name = instance.spec.query.name
            terms[name] = terms.get(name, 0) + instance.term
        carriers = self._here.carriers_of.get(key, ())
        return sharers.readers(terms), sharers.carried(carrier.spec.query for carrier in carriers)

    def take(self, session: GatewaySession, record: LogRecord) -> None:
        """One frame of an exchange, in its place."""
        here = self._here
        key = record.key
        kept = here.keeper.reads(key)
        if kept is not None:
            try:
                self._take_piece(kept, record)
            except PeerError as error:  # altered, or of another vertex: the snapshot is not kept, the next one may be
                here.refuse(error)
        elif key in here.sinks:
            self._take_result(here.sinks[key], session, record)
        for carrier in here.carriers_of.get(key, ()):
            try:
                self._pass_on(carrier, session, record)
            except PeerError as error:  # it stays with its device until somebody can read it
                here.refuse(error)
                self._forget_edges()
        if key in here.copies and kept is None:
            self._copy(here.copies[key], session, record)
        for instance, label in here.readers_of.get(key, ()):
            if not instance.failed:
                self._vertices.guard(instance, functools.partial(self._vertices.take, instance, label, session, record))
        if key in here.copies:
            self._rows.go_on(key)
        if key in self._legs:
            self._live_legs.add(key)
            if len(self._legs[key] & self._live_legs) > 1:  # what came on one moves where the others must go on
                self._forget_edges()

    def rewire(self) -> None:
        """Who reads what arrives, after a deployment."""
        here = self._here
        here.readers_of = {}
        self._legs, self._live_legs = {}, set()
        for instance in here.instances.values():
            for label, each in instance.spec.inputs.items():
                for leg in each.arriving:
                    here.readers_of.setdefault(leg.key, []).append((instance, label))
                if len(each.arriving) > 1:
                    for leg in each.arriving:
                        others = frozenset(other.key for other in each.arriving)
                        self._legs[leg.key] = self._legs.get(leg.key, frozenset()) | others

    def _pass_on(self, carrier: Carrier, session: GatewaySession, record: LogRecord) -> None:
        """A frame of an edge that goes on from here."""
        edge = carrier.spec.makes
        if record.lo > carrier.taken or (record.kind == FrameType.DATA and self._here.full((edge.key.edge,))):
            self._forget_edges()  # it comes again: several may be under way when there is no more room for them
            return
        if record.kind == FrameType.DATA:
            data = Data.in_place(record.frame)
            batch = carrier.take(data, session.schema(record.key, data.schema_id))
            if batch is not None:
                for node in edge.readers:
                    self._calling.appended(node, batch)
            return
        frame, _ = decode_one(record.frame, digest=record.digest)
        match frame.type:
            case FrameType.TOMBSTONE:
                carrier.lose(LostRange.of(frame))
            case FrameType.FRONTIER:
                carrier.advance(frame.frontier_us)
                for node in edge.readers:
                    self._calling.senders[node].frontier(edge.key.edge, frame.frontier_us, self._here.now)
            case FrameType.MARK:
                message = MarkMessage.of(frame)
                mark = Mark(MarkId(message.number, text_of(message.initiator)), message.position)
                self._calling.send_mark(edge, PASSED_ON, mark, self._here.now)
            case _:
                pass  # a declaration: the session remembers it

    def _waits(self, carrier: Carrier) -> bool:
        """Whether who reads what a carrier passes on does not answer."""
        return any(self._calling.senders[node].disconnected for node in carrier.spec.makes.readers)

    def follow(self, carrier: Carrier) -> None:
        """A carrier goes on where its reader is."""
        if carrier.follow():
            for node in carrier.spec.makes.readers:
                self._calling.senders[node].begin_again(carrier.edge)
            self._forget_edges()

    def _take_piece(self, kept: KeptSpec, record: LogRecord) -> None:
        here = self._here
        if record.kind == FrameType.DATA:
            here.persist += here.keeper.take(record.key, record.hi, bytes(Data.in_place(record.frame).columns))
        elif record.kind == FrameType.TOMBSTONE:
            here.keeper.taken[kept.edge.key] = record.hi

    def _take_result(self, sink: Sink, session: GatewaySession, record: LogRecord) -> None:
        if record.kind in (FrameType.DATA, FrameType.TOMBSTONE):
            lost, data = record.kind == FrameType.TOMBSTONE, self._part(record, session, sink.taken)
            if data is not None:
                lo = max(record.lo, sink.taken)
                self._here.persist.append(sink.take(data, lo, record.hi, lost=lost))
                self._here.events.append(SinkTook(sink.query, sink.sink, lo, record.hi))

    def _copy(self, copy: Copy, session: GatewaySession, record: LogRecord) -> None:
        """Keep a frame of what comes into the region."""
        if record.kind in (FrameType.DATA, FrameType.TOMBSTONE):
            data = self._part(record, session, copy.taken)
            if data is not None:
                self._here.persist.append(copy.take(decode_one(data)[0], data))
            return
        frame, _ = decode_one(record.frame, digest=record.digest)
        if record.kind == FrameType.FRONTIER:
            copy.frontier_us = max(copy.frontier_us, frame.frontier_us)
        elif record.kind == FrameType.MARK:
            self._copy_mark(copy, frame, bytes(record.frame))

    def _copy_mark(self, copy: Copy, frame: Frame, data: bytes) -> None:
        """Keep the mark of a cut through the region, in its place."""
        message = MarkMessage.of(frame)
        mine = cut_initiator(copy.spec.query, copy.spec.incarnation)
        if text_of(message.initiator) == mine and message.position <= copy.taken:
            self._here.persist += copy.mark(message.number, frame, data)

    def take_rows(self, key: EdgeKey, data: bytes) -> None:
        """Rows of an edge that is copied here, as they were broadcast: frames one after the other."""
        here = self._here
        copy = here.copies[key]
        for frame in decode_all(data):
            if frame.type not in BROADCAST or frame.edge != key.edge:
                raise PeerError("what was broadcast are no rows of that edge", code="broadcast-rows")
            if frame.type is FrameType.MARK:
                self._copy_mark(copy, frame, encode(frame))
            elif frame.seq + frame.count <= copy.taken:
                continue
            elif frame.seq != copy.taken:
                break  # it begins within another batch: the rest comes in exchanges
            else:
                here.persist.append(copy.take(frame, encode(frame)))
            for instance, label in here.readers_of.get(key, ()):
                if not instance.failed:
                    taking = functools.partial(self._vertices.take_copied, instance, label, copy, frame)
                    self._vertices.guard(instance, taking)
        self._forget_edges()

    @staticmethod
    def _part(record: LogRecord, session: GatewaySession, taken: int) -> bytes | None:
        """Of a batch or tombstone what is behind `taken`, as a frame; None when nothing is."""
        if record.hi <= taken:
            return None
        if record.lo >= taken:
            return bytes(record.frame)
        frame, _ = decode_one(record.frame, digest=record.digest)
        if record.kind == FrameType.TOMBSTONE:
            return encode(replace(frame, seq=taken, count=record.hi - taken))
        data = Data.of(frame)
        batch = SpooledBatch(
            data.edge, data.lo, data.hi, data.rows, data.schema_id, data.applied, data.frontier_us, data.codec,
            bytes(data.columns),
        )  # fmt: skip
        batch = cut(batch, taken, data.hi, session.schema(record.key, data.schema_id))
        part = replace(
            data, lo=batch.lo, rows=batch.rows, codec=batch.codec, columns=batch.payload, frontier_us=batch.frontier_us
        )
        return encode(part.frame())

    def hear(self, frame: Frame) -> None:
        """What a node says of a snapshot, or of rows, that are broadcast."""
        try:
            of_rows = self._rows.hear(frame)
            self._vertices.answers += self._lane.hear(frame, self._here.now) if of_rows is None else of_rows
        except PeerError as error:
            self._here.refuse(error)

    def answers(self) -> list[bytes]:
        """What to add to the reply of the exchange that was taken last."""
        answers, self._vertices.answers = self._vertices.answers, []
        return answers
