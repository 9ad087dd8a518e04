"""What comes to the vertices of a node, in its order, and what they make of it.

    rows, time, marks, losses -> Instance -> rows and marks to whoever reads them; snapshots

Whatever an operator raises is the failure of its vertex alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shared.batch import NO_FRONTIER, Batch
from shared.errors import PeerError, ResurgeError
from shared.hosting.calling import Calling
from shared.hosting.copies import Copy, name_of
from shared.hosting.here import Here
from shared.hosting.initiators import number_of, text_of
from shared.hosting.instance import Gone, Instance, Item, Made, Rows, Time
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.messages import Connected, InstanceFailed
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.watching import Result, Watch
from shared.hosting.wiring import GATEWAY, VertexSpec
from shared.identity import EdgeId
from shared.language.codecs import COLUMNS, NONE
from shared.language.schema import Schema
from shared.recovery.consistency import EdgeCut, inconsistencies
from shared.recovery.marks import Extend, Freeze, Mark, MarkId
from shared.spool.entry import Reason, SpooledBatch
from shared.sync.exchange import LogRecord
from shared.sync.session import GatewaySession
from shared.wire import codecs
from shared.wire import messages as wire_messages
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import DATA_PREFIX, FORGOTTEN, Data, LostRange, MarkMessage
from shared.wire.status import TEXT_CHARACTERS

# Frames that are taken only where an edge goes on from what was taken. Declarations and marks come as well from a node
# that has not heard yet that its reader began again with less.
GO_ON = frozenset(map(int, (FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER)))

PIECE_BYTES_MAX = 1 << 20  # of what a vertex puts out at once, as it is in memory
TURN_BYTES = 32 << 10  # of a copy that a vertex reads in one turn, and at least one batch


class Vertices:
    def __init__(
        self,
        here: Here,
        calling: Calling,
        snapshots: SnapshotsUnderWay,
        watch: Watch,
        *,
        forget_edges: Callable[[], None],
    ) -> None:
        """`watch` runs users' code. `forget_edges`: what was taken is not what would come next."""
        self._here, self._calling, self._snapshots = here, calling, snapshots
        self.watch, self._forget_edges = watch, forget_edges
        self.answers: list[bytes] = []  # to marks of the exchange that is being taken
        # Inputs of vertices that began here and have not read all that a copy has: where they are in it.
        self._behind: dict[tuple[Instance, str], tuple[int, int]] = {}
        self._had: set[EdgeId] = set()  # edges on which something was made that all who read them have

    def take(self, instance: Instance, label: str, session: GatewaySession, record: LogRecord) -> None:
        if (instance, label) in self._behind:  # it is in the copy that this input is read from
            self._took(instance, label, goes_on=record.kind in GO_ON)
            return
        if record.kind == FrameType.DATA and self._has_no_room(instance, label, self._here.copies.get(record.key)):
            return
        if record.lo > instance.arrived(label) or not self._take_frame(instance, label, session, record):
            self._forget_edges()  # the receipt says where it stands, and what was left comes again
            return
        self._took(instance, label, goes_on=record.kind in GO_ON)

    def take_copied(self, instance: Instance, label: str, copy: Copy, frame: Frame) -> None:
        """A frame that a copy has just taken, for who reads it here."""
        if frame.type is FrameType.DATA and self._has_no_room(instance, label, copy):
            pass
        elif (instance, label) not in self._behind:
            item = self._copied(instance, label, copy, frame)
            if item is not None and not self.go_on(instance, label, item):
                return
        self._took(instance, label, goes_on=True)

    def _has_no_room(self, instance: Instance, label: str, copy: Copy | None) -> bool:
        """Whether rows have to wait for those who read what is made of them: packed ones may be many times as large as
        their exchange. They come again, or are read from the copy that was taken of them."""
        if not self._here.full(instance.edges) or label in instance.spec.back:
            return False
        if copy is None:
            self._forget_edges()
        else:
            self._behind.setdefault((instance, label), copy.last)
        return True

    def _copied(self, instance: Instance, label: str, copy: Copy, frame: Frame) -> Item | None:
        """What a frame of a copy is to an instance; None where it has that."""
        if frame.type is not FrameType.DATA:
            return self._item(instance, label, frame)
        data = Data.of(frame)
        return self._rows(instance, label, data, copy.spec.runs.wire_schema(data.applied))

    def _took(self, instance: Instance, label: str, *, goes_on: bool) -> None:
        begins = not instance.confirmed
        if goes_on:
            instance.confirm(label)
        if begins and instance.confirmed:
            self._here.events.append(Connected(instance.query, instance.vertex, instance.term))
        self._snapshots.input_went_on(instance)

    def _take_frame(self, instance: Instance, label: str, session: GatewaySession, record: LogRecord) -> bool:
        """False: it cannot be taken yet."""
        item: Item | None
        if record.kind == FrameType.DATA:
            data = Data.in_place(record.frame)
            item = self._rows(instance, label, data, session.schema(record.key, data.schema_id))
        else:
            item = self._item(instance, label, decode_one(record.frame, digest=record.digest)[0])
        return item is None or self.go_on(instance, label, item, record)

    @staticmethod
    def _rows(instance: Instance, label: str, data: Data, schema: Schema) -> Rows | None:
        """The part of a batch that has not come to the instance; None when it has all of it."""
        arrived = instance.arrived(label)
        if data.hi <= arrived:
            return None
        spec = instance.spec.inputs[label]
        expected = spec.edge.schema if spec.runs is None else spec.runs.wire_schema(data.applied)
        if schema != expected:
            raise PeerError("a batch of other columns than the deployment says", code="hosting-schema")
        batch = codecs.decode_data(data, schema)
        return Rows(batch if batch.lo >= arrived else batch.after(arrived), DATA_PREFIX.size + len(data.columns))

    @staticmethod
    def _item(instance: Instance, label: str, frame: Frame) -> Item | None:
        """What a frame without rows is to an instance; None where it has that, or needs nothing of it."""
        arrived = instance.arrived(label)
        match frame.type:
            case FrameType.TOMBSTONE if frame.seq + frame.count > arrived:
                return Gone(frame.seq + frame.count, LostRange.of(frame).reason == FORGOTTEN)
            case FrameType.FRONTIER:
                return Time(frame.frontier_us)
            case FrameType.MARK:
                message = MarkMessage.of(frame)
                return Mark(MarkId(message.number, text_of(message.initiator)), message.position)
        return None  # a declaration: the session remembers it

    def go_on(self, instance: Instance, label: str, item: Item, record: LogRecord | None = None) -> bool:
        """Take what comes next on an input, unless it waits behind a mark; and what waited for this. False: it cannot
        be taken yet."""
        if instance.waits(label):
            instance.put_aside(label, item)
            return True
        if not self._process(instance, label, item, record):
            return False
        self._go_on_waiting(instance)
        return True

    def _go_on_waiting(self, instance: Instance) -> None:
        """What was put aside, as far as there is room for what it makes."""
        while not self._here.full(instance.edges) and (waiting := instance.next_waiting()) is not None:
            if not self._process(instance, *waiting, None):
                raise PeerError("what waited behind a mark cannot be taken", code="hosting-behind")

    def _process(self, instance: Instance, label: str, item: Item, record: LogRecord | None) -> bool:
        match item:
            case Rows(batch, size):
                self.leave(instance, self.watched(instance.spec, functools.partial(instance.take, label, batch, size)))
            case Gone(hi, forgotten):
                if forgotten and not instance.begins_with(label, forgotten=True):
                    if instance.keeps_state and not instance.spec.placement.anew:
                        instance.behind = True
                        lost = EdgeCut(label, hi, hi, hi, instance.taken[label])
                        raise PeerError(
                            f"its snapshot is too old for {'; '.join(inconsistencies([lost]))}", code="hosting-behind"
                        )
                    if not self._go_on_without(instance):
                        return False
                if (freeze := instance.lose(label, hi, forgotten=forgotten)) is not None:
                    self.leave(instance, [freeze])
            case Time(frontier_us):
                advancing = functools.partial(instance.advance, label, frontier_us)
                self.leave(instance, [*self.watched(instance.spec, advancing)])
            case Mark():
                answer = instance.mark(label, item)
                if isinstance(answer, Freeze):
                    self.leave(instance, [answer])
                elif isinstance(answer, Extend) and record is not None:
                    key, number = record.key, number_of(item.id.initiator)
                    extend = wire_messages.Extend(
                        key.device, key.incarnation, key.edge, answer.wait, item.id.number, number
                    )
                    self.answers.append(encode(extend.frame()))
        return True

    def _go_on_without(self, instance: Instance) -> bool:
        """Its newest snapshots are gone and so is what it had read since: its edges go on where their readers are,
        behind one number that says so. False while a reader has not said where it is. Nothing else waits for readers:
        round a cycle each vertex reads what the one before it makes, and if all waited, none would begin."""
        here = self._here
        if not here.is_connected(instance):
            return False
        for name, edge in instance.spec.outputs.items():
            number = edge.key.edge
            taken = max([instance.heads[name], *(here.outbox.reading(node).taken[number] for node in edge.readers)])
            here.outbox.restart(number, taken)
            for node in edge.readers:
                here.outbox.reading(node).go_on(number, taken)
            here.made.give_up(number, taken, taken + 1, Reason.FORGOTTEN)
            instance.heads[name] = taken + 1
        return True

    def begin(self, instance: Instance) -> None:
        """A vertex that begins here takes what belongs to its snapshot. What copies have that came since follows in
        turns: a node that went on with it until it is done would be taken for a silent one."""
        for label, rows in instance.recorded():
            self.go_on(instance, label, rows)
        for copy in {name_of(copy.spec): copy for copy in self._here.copies.values()}.values():
            label = copy.spec.edge.label
            if label not in instance.spec.inputs:
                continue
            if copy.first > instance.arrived(label):
                self.go_on(instance, label, Gone(copy.first, forgotten=True))
            self._behind[instance, label] = (0, 0)

    @property
    def catches_up(self) -> bool:
        """Whether a vertex here has not taken all that is here, and may: where there is no room for what it makes, its
        readers are waited for."""
        waiting = [instance for instance, _ in self._behind]
        waiting += [one for one in self._here.instances.values() if one.resumes and not one.failed]
        return any(not self._here.full(one.edges) for one in waiting)

    def catch_up(self) -> None:
        """What was put aside, and a turn of what copies have for vertices that began again, for one of their inputs."""
        for instance in self._here.instances.values():
            if instance.resumes and not instance.failed:
                self.guard(instance, functools.partial(self._go_on_waiting, instance))
        running = {*self._here.instances.values()}
        for instance, label in [each for each in self._behind if each[0] not in running or each[0].failed]:
            del self._behind[instance, label]
        turns = ((each, at) for each, at in self._behind.items() if not self._here.full(each[0].edges))
        turn = next(turns, None)
        if turn is None:
            return
        (instance, label), at = turn
        del self._behind[instance, label]
        self.guard(instance, functools.partial(self._read_on, instance, label, at))

    def _read_on(self, instance: Instance, label: str, at: tuple[int, int]) -> None:
        copy = next((each for each in self._here.copies.values() if each.spec.edge.label == label), None)
        left = TURN_BYTES
        while copy is not None and (found := copy.next_frame(at)) is not None:
            if left <= 0 or self._here.full(instance.edges):
                self._behind[instance, label] = at  # the others first, and who reads what is made
                return
            frame, at = found
            left -= len(frame.payload)
            if (item := self._copied(instance, label, copy, frame)) is not None:
                self.go_on(instance, label, item)
        if copy is not None and copy.frontier_us > NO_FRONTIER:
            self.go_on(instance, label, Time(copy.frontier_us))

    def synced(self) -> None:
        """What was made can be trimmed from now on: of what their readers have, no receipt comes."""
        while self._had:
            edge = self._had.pop()
            if edge in self._here.makers:
                self._here.outbox.trim(edge)

    def hand_over(self, instance: Instance) -> None:
        """A vertex that shall go on elsewhere is snapshotted now, once for each node that it should go to."""
        placed = instance.spec.placement
        to = placed.to if placed.hosts[0] == self._here.node else ""
        if to == instance.offered_to:
            return
        instance.offered_to, instance.offered = to, None
        if to:
            freeze = instance.checkpoints.hand_over()
            instance.offered = sum(instance.taken.values())
            self.leave(instance, [freeze])
        else:
            instance.checkpoints.keep_on()

    def guard(self, instance: Instance, run: Callable[[], None]) -> None:
        """Whatever an operator raises is its instance's failure alone."""
        try:
            run()
        except Exception as error:  # a user's code, or a batch that its plan does not fit
            self._fail(instance, said(error))

    def whole(self, instance: Instance, kept: KeptSnapshot) -> KeptSnapshot | None:
        """A snapshot that builds on others, by itself. None where its operators failed at that, and so has it."""
        try:
            return self.watched(instance.spec, functools.partial(instance.whole, kept))
        except Exception as error:  # a user's code
            self._fail(instance, said(error))
            return None

    def watched(self, spec: VertexSpec, work: Callable[[], Result]) -> Result:
        """Run what may hang. It may be interrupted anywhere, so it touches nothing but its own instance."""
        return self.watch.run(work, f"{spec.vertex.name!r} of query {spec.query.name!r}")

    def _fail(self, instance: Instance, why: str) -> None:
        instance.failed = why[:TEXT_CHARACTERS]
        self._forget_edges()  # it takes nothing more
        self._here.events.append(InstanceFailed(instance.query, instance.vertex, instance.term, instance.failed))

    def leave(self, instance: Instance, made: Sequence[Made | Freeze]) -> None:
        for each in made:
            if isinstance(each, Freeze):
                for mark in self.watched(instance.spec, functools.partial(instance.freeze, each)):
                    self._calling.send_mark(
                        instance.spec.outputs[mark.output], instance.term, mark.mark, self._here.now
                    )
            else:
                self.put_out(instance, each)
        self._snapshots.checkpoint(instance)

    def put_out(self, instance: Instance, made: Made) -> None:
        here = self._here
        edge = instance.spec.outputs[made.output]
        for rows in () if made.batch is None else pieces(made.batch):
            # Nodes of a fleet are near: bytes cost less than time. What goes to the cloud stays in its log.
            codec, payload = codecs.encode(rows, COLUMNS if GATEWAY in edge.readers else NONE)
            batch = SpooledBatch(
                edge.key.edge, rows.lo, rows.hi, len(rows), rows.schema.id, 0, rows.frontier_us, codec, payload
            )
            here.made.append(batch)
            for node in edge.readers:
                self._calling.appended(node, batch)
            if here.outbox.through(edge.key.edge) >= rows.hi:  # its readers had that before this instance began
                self._had.add(edge.key.edge)
        for node in edge.readers:
            if made.frontier_us > NO_FRONTIER:
                self._calling.to(node).frontier(edge.key.edge, made.frontier_us, here.now)


def pieces(batch: Batch) -> Iterator[Batch]:
    """A batch as several that fit a frame each: what a vertex was waiting to release may be much. Only the last one may
    promise that nothing earlier follows."""
    size = batch.time_us.nbytes + sum(column.nbytes for column in batch.columns.values())
    rows = max(1, len(batch) * PIECE_BYTES_MAX // max(size, 1))
    for start in range(0, len(batch), rows):
        part = batch.slice(start, start + rows)
        yield part if part.hi == batch.hi else replace(part, frontier_us=NO_FRONTIER)


def said(error: Exception) -> str:
    if isinstance(error, ResurgeError):
        return str(error)
    return f"{type(error).__name__}: {error}"
