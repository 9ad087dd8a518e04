"""Broadcast as a lane for rows that enter a region: every node of it keeps a copy, so once over the air is enough.

    a batch is durable -> announcement and blocks (datagrams) -> bitmaps and receipts -> what is lacking, in exchanges
    datagrams, blocks that were lacking -> Receiving -> the copy and whoever reads it here -> the receipt

Nobody is asked before the blocks are sent, and the next rows do not wait until all have answered: a phone that computes
answers late. So rows may come before earlier ones; they wait here for those. The edge is as ever, and so are its
receipts; only a reader that a broadcast is for is not sent it meanwhile. Whoever a broadcast has not reached, or who
lags behind, is sent the edge in exchanges until it has come to where the others are: this lane saves bytes, and no
promise rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.errors import PeerError
from shared.hosting.copies import Copy
from shared.hosting.wiring import EdgeSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.plan.deployment import Peer
from shared.region.blocks import Blocks
from shared.region.broadcast import Broadcast, Question, Receiving, Sending, worth_it
from shared.region.tree import Feeding
from shared.spool.entry import DataEntry
from shared.sync.outbox import Outbox, cut
from shared.sync.session import GatewayKeys
from shared.wire.broadcast import Announce, Announcement, Bitmap, Block, LackedBlocks
from shared.wire.frame import Frame, FrameType, encode
from shared.wire.messages import Data, LostRange, MarkMessage, PeerReceipt

FEWEST = 2  # receivers that a broadcast is for
UNDER_WAY_MAX = 8  # broadcasts of an edge whose receivers have not all answered
ROWS_BYTES_MAX = 1 << 20  # in one of them, but for a batch that is larger alone
EARLY_BYTES_MAX = 16 << 20  # of rows that came before earlier ones


@dataclass(slots=True)
class _UnderWay:
    """Some numbers of an edge on their way to those who have all before them."""

    sending: Sending
    feedings: dict[str, Feeding] = field(default_factory=dict)
    fed: bool = False  # who lacks blocks is being sent them


class RowsLane:
    def __init__(
        self,
        device: DeviceId,
        keys: GatewayKeys,
        outbox: Outbox,
        peers: Mapping[str, Peer],
        *,
        say: Callable[[str, Sequence[bytes]], None],
        takes: Callable[[str, EdgeId], bool],
        answered_at: Callable[[str], float],
        marks: Callable[[EdgeSpec], Sequence[MarkMessage]],
        copy_of: Callable[[EdgeKey], Copy | None],
        take: Callable[[EdgeKey, bytes], None],
        receipt: Callable[[EdgeKey], PeerReceipt],
    ) -> None:
        """`say` puts frames into the next exchange with a node. `takes`: it answers, and has room on an edge. `marks`
        are those of an edge that not all have answered, by position: each goes before what stands behind it.
        `copy_of` is the copy of an edge that is kept here, `take` gives it rows and `receipt` says how far it is."""
        self._device, self._node, self._keys = device, device.hex(), keys
        self._outbox, self._peers = outbox, peers
        self._say, self._takes, self._answered_at, self._marks = say, takes, answered_at, marks
        self._copy_of, self._take, self._receipt = copy_of, take, receipt
        self._specs: dict[EdgeId, EdgeSpec] = {}
        self._under_way: dict[EdgeId, list[_UnderWay]] = {}
        self._front: dict[EdgeId, int] = {}  # up to where each edge was broadcast
        self._early: dict[EdgeKey, dict[int, tuple[Announcement, bytes]]] = {}  # by their first number
        self.receiving = Receiving(device, slot=lambda each: (each.key, each.n))
        self.is_open = False  # whether there is a link that broadcasts

    # --- sending ---------------------------------------------------------------------------------------------

    def rewire(self, specs: Iterable[EdgeSpec], kept: Iterable[EdgeKey], now: float) -> None:
        """These edges of its own are copied in whole regions, and of these it keeps a copy; others are no more."""
        self._specs = {spec.key.edge: spec for spec in specs}
        for edge in [*self._under_way]:
            spec = self._specs.get(edge)
            if spec is None:
                del self._under_way[edge]
                continue
            for each in self._under_way[edge]:
                each.sending.keep_to(spec.readers, now)
        stay = {*kept}
        self.receiving.keep_to(stay)
        self._early = {key: early for key, early in self._early.items() if key in stay}

    def _begin(self, spec: EdgeSpec, now: float) -> None:
        """Broadcast what is new of an edge to those who have all that is before it, or get it."""
        edge = spec.key.edge
        under_way = self._under_way.setdefault(edge, [])
        if len(under_way) >= UNDER_WAY_MAX or not all(each.sending.aired for each in under_way):
            return  # faster than the medium carries them they would only wait elsewhere
        readings = {node: self._outbox.reading(node) for node in spec.readers if node != self._node}
        group = {node for node, one in readings.items() if edge in one.broadcast and self._takes(node, edge)}
        others = {node: one.reaches(edge) for node, one in readings.items() if self._takes(node, edge)}
        reaches = {node: at for node, at in others.items() if at is not None and node not in group}
        if not group:
            self._front[edge] = max(reaches.values(), default=0)
        front, head = self._front[edge], self._outbox.spool(edge).head(edge)
        receivers = [*group, *(node for node, at in reaches.items() if at >= front)]
        if not self._outbox.first(edge) <= front < head:
            return
        data, hi = self._frames(spec, front)
        if len(receivers) < FEWEST or not worth_it(len(data), len(receivers)):
            for node in readings:
                self._leave_out(edge, node, now)
            return
        blocks = Blocks(data)
        announcement = Announcement(
            spec.key, self._device, spec.carriers[self._node], front, hi - front, len(data), blocks.root
        )
        announcement = replace(announcement, signature=self._keys.sign(announcement.signed()))
        for node in receivers:
            readings[node].broadcast.add(edge)
        sending = Sending(
            announcement, blocks, sorted(receivers), lambda node: self._takes(node, edge), now,
            answered_at=self._answered_at, at_once=True,
        )  # fmt: skip
        self._front[edge] = hi
        under_way.append(_UnderWay(sending))

    def _frames(self, spec: EdgeSpec, lo: int) -> tuple[bytes, int]:
        """Frames of what is durable from `lo` on, as exchanges carry them, and where they end."""
        spool, edge, term = self._outbox.spool(spec.key.edge), spec.key.edge, spec.carriers[self._node]
        device, incarnation = spec.key.device, spec.key.incarnation
        found: list[bytes] = []
        size, hi = 0, lo
        marks = [mark for mark in self._marks(spec) if mark.position >= lo]
        for entry in spool.pending(edge, after=lo):
            if isinstance(entry, DataEntry):
                whole = spool.read(entry)
                batch = self._outbox.leave(
                    cut(whole, max(lo, whole.lo), whole.hi, self._outbox.schema(edge, whole.schema_id))
                )
                frame = Data(
                    device, incarnation, edge, batch.lo, batch.hi, batch.rows, batch.schema_id, batch.applied,
                    batch.codec, batch.payload, batch.frontier_us, term,
                ).frame()  # fmt: skip
            else:
                reason = entry.reason.name.lower()
                frame = LostRange(device, incarnation, edge, max(lo, entry.lo), entry.hi, reason, term).frame()
            data = encode(frame)
            if hi > lo and size + len(data) > ROWS_BYTES_MAX:
                break
            while marks and marks[0].position <= hi:
                found.append(encode(marks.pop(0).frame()))
            found.append(data)
            size, hi = size + len(data), entry.hi
        return b"".join(found), hi

    def lost(self, node: str, now: float) -> None:
        """A node does not answer, or begins to read anew: it is sent what it lacks."""
        for edge in self._under_way:
            self._leave_out(edge, node, now)

    def _leave_out(self, edge: EdgeId, node: str, now: float) -> None:
        self._outbox.reading(node).broadcast.discard(edge)
        for each in self._under_way[edge]:
            each.feedings.pop(node, None)
            each.sending.keep_to([other for other in each.sending.receivers if other != node], now)

    def bitmap(self, node: str, bitmap: Bitmap, now: float) -> bool:
        """A node says what it has of something that was announced to it. False: of nothing that is sent here."""
        for under_way in self._under_way.values():
            for each in under_way:
                if each.sending.announcement.id == bitmap.id:
                    if len(each.sending.blocks) != bitmap.blocks:
                        text = "a bitmap of another number of blocks than was announced"
                        raise PeerError(text, code="broadcast-bitmap")
                    each.sending.bitmap(node, bitmap.bits, now)
                    if node in each.feedings:
                        each.feedings[node].bitmap(bitmap.bits, now)
                    return True
        return False

    # --- receiving -------------------------------------------------------------------------------------------

    def datagram(self, body: bytes | memoryview) -> bool:
        """Something that was broadcast. False: it is not about rows."""
        try:
            announcement = Announcement.of_datagram(body)
            if announcement is not None:
                self._expect(announcement)
                return True
            block = Block.of(body)
        except PeerError as error:
            self.receiving.refused[error.code] += 1
            return True
        if not self.receiving.gathers(block.id):
            return False
        self._complete(self.receiving.add(block))
        return True

    def hear(self, frame: Frame) -> list[bytes] | None:
        """An announcement, with receipt and bitmap in answer; or blocks that this node lacked. None: it is not about
        rows. PeerError where it is not from who may say so."""
        if frame.type is FrameType.BLOCK:
            lacked = LackedBlocks.of(frame)
            if not self.receiving.gathers(lacked.id):
                return None
            for block in lacked.blocks:
                self._complete(self.receiving.add(block))
            return []
        announcement = Announce.of(frame).announcement
        if self._copy_of(announcement.key) is None:
            return None
        self._expect(announcement)
        bitmap = self.receiving.bits(announcement, has_all=self._has(announcement))
        return [encode(self._receipt(announcement.key).frame()), encode(bitmap.frame())]

    def _expect(self, announcement: Announcement) -> None:
        """Take its blocks from now on, if it is of rows that are copied here and its sender has signed it."""
        copy = self._copy_of(announcement.key)
        if copy is None:
            raise PeerError("an announcement of what is not kept here", code="broadcast-unread")
        if self._has(announcement) or self.receiving.gathers(announcement.id):
            return
        sender = announcement.sender.hex()
        legs = [leg for leg in copy.spec.legs if leg.key == announcement.key]
        if sender not in self._peers or not any(leg.carriers.get(sender) == announcement.term for leg in legs):
            raise PeerError("an announcement by who does not send these rows", code="broadcast-sender")
        if not self._keys.verify(self._peers[sender].public_key, announcement.signed(), announcement.signature):
            raise PeerError("an announcement that its sender has not signed", code="broadcast-signature")
        self.receiving.announced(announcement)

    def _has(self, announcement: Announcement) -> bool:
        copy = self._copy_of(announcement.key)
        if copy is not None and copy.taken >= announcement.n + announcement.pieces:
            return True
        early = self._early.get(announcement.key, {}).get(announcement.n)
        return early is not None and early[0].id == announcement.id

    def _complete(self, found: tuple[Announcement, bytes] | None) -> None:
        if found is None:
            return
        announcement, data = found
        self.receiving.forget(announcement)
        held = sum(len(each) for early in self._early.values() for _, each in early.values())
        if held + len(data) <= EARLY_BYTES_MAX:
            self._early.setdefault(announcement.key, {})[announcement.n] = (announcement, data)
        self.go_on(announcement.key)

    def go_on(self, key: EdgeKey) -> None:
        """A copy has come further: what came before its turn may be next."""
        early, copy = self._early.get(key), self._copy_of(key)
        while early and copy is not None and (first := min(early)) <= copy.taken:
            announcement, data = early.pop(first)
            if announcement.n + announcement.pieces > copy.taken:
                try:
                    self._take(key, data)
                except PeerError as error:  # its sender signed what is no run of rows of that edge
                    self.receiving.refused[error.code] += 1
        if early is not None and not early:
            self._early.pop(key, None)

    # --- its time --------------------------------------------------------------------------------------------

    def next_wake(self) -> float | None:
        times: list[float | None] = []
        for under_way in self._under_way.values():
            for each in under_way:
                times.append(each.sending.next_wake())
                times += [feeding.next_wake() for feeding in each.feedings.values()]
        return min((time for time in times if time is not None), default=None)

    def step(self, now: float) -> list[Broadcast]:
        """What to broadcast now; what belongs into exchanges is said to their senders. Call it when all that was
        offered is durable."""
        datagrams: list[Broadcast] = []
        for edge, spec in self._specs.items() if self.is_open else ():
            self._begin(spec, now)
            for each in [*self._under_way[edge]]:
                sending = each.sending
                sending.wake(now)
                for message in sending.take():
                    if isinstance(message, Broadcast):
                        datagrams.append(message)
                    else:
                        self._ask(message)
                if sending.over:
                    self._feed(edge, each, now)
        return datagrams

    def _feed(self, edge: EdgeId, each: _UnderWay, now: float) -> None:
        """Nothing more is broadcast of it: who lacks blocks is sent those, and who did not even answer the rows."""
        sending = each.sending
        if not each.fed:
            each.fed = True
            each.feedings = {
                node: Feeding(sending.announcement, sending.blocks, node, now)
                for node in sending.missing
                if node in sending.bitmaps
            }
        for node, feeding in [*each.feedings.items()]:
            if (feed := feeding.take(now)) is not None:
                blocks, question = feed
                lacked = LackedBlocks(self._device, sending.announcement.id, tuple(blocks))
                self._ask(question, [encode(lacked.frame())] if blocks else [])
            if feeding.over:
                del each.feedings[node]
        if not each.feedings:
            self._under_way[edge].remove(each)
            for node in sending.missing:
                self._leave_out(edge, node, now)
            if not self._under_way[edge]:  # who has said that it has all has taken all, or lost it again
                for node in self._specs[edge].readers:
                    if self._outbox.reading(node).taken.get(edge, 0) < self._front[edge]:
                        self._leave_out(edge, node, now)

    def _ask(self, question: Question, frames: Iterable[bytes] = ()) -> None:
        self._say(question.node, [*frames, encode(Announce(self._device, question.announcement).frame())])
