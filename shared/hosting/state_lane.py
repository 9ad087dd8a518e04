"""Broadcast as a lane for state edges: what a vertex's snapshot is sent on where its row keeps it in the whole region.

    keep -> pieces on the state edge, held -> Sending (datagrams, bitmaps) -> the tree -> the edge goes on
    datagrams, blocks of a parent -> Receiving -> keeper -> disk -> the receipt of the state edge

The snapshot is on the state edge as ever, and so is its receipt; only nobody is sent the edge while it is broadcast. A
reader that got it by broadcast says in its receipt that it has taken it, and there is nothing left to send. Whatever
broadcasting does not reach gets the pieces: this lane saves bytes, and no promise rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shared.errors import PeerError
from shared.hosting.keeper import Keeper, KeeperPersist
from shared.hosting.wiring import EdgeSpec, KeptSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.plan.deployment import Peer
from shared.region.blocks import Blocks
from shared.region.broadcast import Broadcast, Question, Receiving, Sending, worth_it
from shared.region.tree import Feeding, children
from shared.sync.outbox import Outbox
from shared.sync.session import GatewayKeys
from shared.wire.broadcast import Announce, Announcement, Bitmap, LackedBlocks
from shared.wire.frame import Frame, FrameType, encode
from shared.wire.messages import PeerReceipt

TREE_S = 5.0  # that the tree may take; as long who runs the vertex feeds the rest; then its edge goes on
TREE_ASK_S = 1.0


@dataclass(slots=True)
class _UnderWay:
    """A snapshot of a vertex that runs here, on its way to its keepers."""

    sending: Sending
    state: EdgeSpec
    until: float | None = None  # of its way down the tree
    ask_at: float = 0.0
    by_itself: bool = False  # the tree did not reach all


class StateLane:
    def __init__(
        self,
        device: DeviceId,
        keys: GatewayKeys,
        keeper: Keeper,
        outbox: Outbox,
        peers: Mapping[str, Peer],
        *,
        say: Callable[[str, Sequence[bytes]], None],
        reached: Callable[[str], bool],
        store: Callable[[Sequence[KeeperPersist]], None],
        taken: Callable[[], None],
        released: Callable[[EdgeSpec], None],
        receipt: Callable[[EdgeKey], PeerReceipt],
    ) -> None:
        """`say` puts frames into the next exchange with a node, `reached` says whether it answers. `taken`: a state
        edge was taken without its elements. `released`: a state edge goes on as others do. `receipt` is that of an edge
        which is kept here."""
        self._device, self._node, self._keys = device, device.hex(), keys
        self._keeper, self._outbox, self._peers = keeper, outbox, peers
        self._say, self._reached, self._store, self._taken, self._released = say, reached, store, taken, released
        self._receipt = receipt
        self._under_way: dict[EdgeId, _UnderWay] = {}
        self._feedings: dict[tuple[bytes, str], Feeding] = {}
        self._to_feed: set[bytes] = set()  # announcements whose children are to be fed once all of it is here
        self.receiving = Receiving(device)
        self.is_open = False  # whether there is a link that broadcasts

    # --- sending ---------------------------------------------------------------------------------------------

    def begin(self, state: EdgeSpec, span: tuple[int, int], data: bytes, now: float) -> bool:
        """Broadcast these elements of a state edge, if that costs less than sending them to each."""
        others = [node for node in state.readers if node != self._node]
        if not self.is_open or not worth_it(len(data), len(others)):
            self._end(state.key.edge)
            return False
        blocks = Blocks(data)
        lo, hi = span
        term = state.carriers[self._node]
        announcement = Announcement(state.key, self._device, term, lo, hi - lo, len(data), blocks.root)
        announcement = replace(announcement, signature=self._keys.sign(announcement.signed()))
        self._outbox.hold(state.key.edge)
        self._under_way[state.key.edge] = _UnderWay(Sending(announcement, blocks, others, self._reached, now), state)
        return True

    def rewire(self, states: Mapping[EdgeId, EdgeSpec], now: float) -> None:
        """These are the state edges that are made here, with those who read them; others are no more."""
        for edge in [*self._under_way]:
            if edge not in states:
                self._end(edge)
                continue
            under_way = self._under_way[edge]
            under_way.state = states[edge]
            under_way.sending.keep_to(states[edge].readers, now)
        self.receiving.keep_to(self._keeper.read_edges())
        self._feedings = {at: each for at, each in self._feedings.items() if at[1] in self._peers}

    def _end(self, edge: EdgeId) -> None:
        under_way = self._under_way.pop(edge, None)
        if under_way is not None:
            self._outbox.release(edge)
            self._released(under_way.state)

    def calls(self) -> set[str]:
        """Nodes that are fed here."""
        return {child for _, child in self._feedings}

    def lost(self, node: str, now: float) -> None:
        """A node does not answer."""
        for under_way in self._under_way.values():
            under_way.sending.lost(node, now)

    def bitmap(self, node: str, bitmap: Bitmap, now: float) -> None:
        """A node says what it has of something that was announced to it."""
        feeding = self._feedings.get((bitmap.id, node))
        sendings = [each.sending for each in self._under_way.values() if each.sending.announcement.id == bitmap.id]
        blocks = {len(sending.blocks) for sending in sendings} | ({feeding.blocks} if feeding is not None else set())
        if blocks and blocks != {bitmap.blocks}:
            raise PeerError("a bitmap of another number of blocks than was announced", code="broadcast-bitmap")
        for sending in sendings:
            sending.bitmap(node, bitmap.bits, now)
        if feeding is not None:
            feeding.bitmap(bitmap.bits, now)

    # --- receiving -------------------------------------------------------------------------------------------

    def datagram(self, body: bytes | memoryview, now: float) -> None:
        """Something that was broadcast."""
        self._complete(self.receiving.datagram(body), now)

    def hear(self, frame: Frame, now: float) -> list[bytes]:
        """An announcement, with receipt and bitmap in answer; or blocks that this node lacked. PeerError where they
        are not for this node, or not from who may say so."""
        if frame.type is FrameType.BLOCK:
            for block in LackedBlocks.of(frame).blocks:
                self._complete(self.receiving.add(block), now)
            return []
        said = Announce.of(frame)
        announcement = said.announcement
        spec = self._keeps(announcement)
        if not self._has(announcement):
            kept = self._keeper.latest(spec.identity)
            data = b"" if kept is None or kept.onto or kept.term != announcement.term else kept.encode()
            if len(data) == announcement.length and Blocks(data).root == announcement.root:
                self._complete((announcement, data), now)  # it came before, to be kept by others as well
            else:
                self.receiving.announced(announcement)
        if said.feed:
            self._to_feed = {announcement.id, *(self._to_feed if len(self._to_feed) < len(self._peers) else ())}
            self._feed(announcement, now)
        bitmap = self.receiving.bits(announcement, has_all=self._has(announcement))
        return [encode(self._receipt(announcement.key).frame()), encode(bitmap.frame())]

    def _keeps(self, announcement: Announcement) -> KeptSpec:
        """What it is a snapshot of, where this node keeps that and its host has signed it."""
        spec = self._keeper.reads(announcement.key)
        if spec is None:
            raise PeerError("an announcement of what is not kept here", code="broadcast-unread")
        sender = announcement.sender.hex()
        if spec.edge.carriers.get(sender) != announcement.term or sender not in self._peers:
            raise PeerError("an announcement by who does not run that vertex", code="broadcast-sender")
        key = self._peers[sender].public_key
        if not self._keys.verify(key, announcement.signed(), announcement.signature):
            raise PeerError("an announcement that its sender has not signed", code="broadcast-signature")
        return spec

    def _has(self, announcement: Announcement) -> bool:
        return self._keeper.through.get(announcement.key, 0) >= announcement.n + announcement.pieces

    def _complete(self, found: tuple[Announcement, bytes] | None, now: float) -> None:
        if found is None:
            return
        announcement, data = found
        self.receiving.forget(announcement)
        if self._keeper.reads(announcement.key) is None or self._has(announcement):
            return
        try:
            items = self._keeper.take_whole(announcement.key, announcement.n + announcement.pieces, data)
        except PeerError as error:  # its sender signed what is no snapshot of that vertex
            self.receiving.refused[error.code] += 1
            return
        self._store(items)
        self._taken()
        self._feed(announcement, now)

    def _feed(self, announcement: Announcement, now: float) -> None:
        """Feed those below this node, if it has all of it and was asked to."""
        spec = self._keeper.reads(announcement.key)
        if announcement.id not in self._to_feed or spec is None or not self._has(announcement):
            return
        self._to_feed.discard(announcement.id)
        kept = self._keeper.latest(spec.identity)
        blocks = None if kept is None or kept.onto else Blocks(kept.encode())
        if blocks is not None and blocks.root == announcement.root:
            self._begin_feeding(announcement, blocks, spec.edge, now)

    def _begin_feeding(self, announcement: Announcement, blocks: Blocks, state: EdgeSpec, now: float) -> None:
        order = [node for node in state.readers if node not in state.carriers]
        for child in children(order, self._node):
            at = (announcement.id, child)
            if at not in self._feedings and child in self._peers:
                self._feedings[at] = Feeding(announcement, blocks, child, now)

    # --- its time --------------------------------------------------------------------------------------------

    def next_wake(self) -> float | None:
        times: list[float | None] = [each.next_wake() for each in self._feedings.values()]
        for each in self._under_way.values():
            times.append(each.sending.next_wake() if each.until is None else min(each.until, each.ask_at))
        return min((time for time in times if time is not None), default=None)

    def step(self, now: float) -> list[Broadcast]:
        """What to broadcast now; what belongs into exchanges is said to their senders."""
        datagrams: list[Broadcast] = []
        for edge, under_way in [*self._under_way.items()]:
            sending = under_way.sending
            sending.wake(now)
            for each in sending.take():
                if isinstance(each, Broadcast):
                    datagrams.append(each)
                else:
                    self._ask(each)
            if sending.over:
                self._go_down_the_tree(edge, under_way, now)
        for at, feeding in [*self._feedings.items()]:
            if (feed := feeding.take(now)) is not None:
                blocks, question = feed
                frames = [encode(LackedBlocks(self._device, at[0], tuple(blocks)).frame())] if blocks else []
                self._ask(question, frames)
            if feeding.over:
                del self._feedings[at]
        return datagrams

    def _go_down_the_tree(self, edge: EdgeId, under_way: _UnderWay, now: float) -> None:
        sending = under_way.sending
        waits = [node for node in sending.missing if node in sending.bitmaps]  # others did not even answer
        if under_way.until is None:
            under_way.until, under_way.ask_at = now + TREE_S, now + TREE_ASK_S
            if waits:
                self._begin_feeding(sending.announcement, sending.blocks, under_way.state, now)
        if not waits or (now >= under_way.until and under_way.by_itself):
            self._end(edge)
        elif now >= under_way.until:
            under_way.by_itself, under_way.until = True, now + TREE_S
            for node in waits:
                self._feedings[sending.announcement.id, node] = Feeding(sending.announcement, sending.blocks, node, now)
        elif now >= under_way.ask_at:
            under_way.ask_at = now + TREE_ASK_S
            for node in waits:
                self._ask(Question(node, sending.announcement))

    def _ask(self, question: Question, frames: Iterable[bytes] = ()) -> None:
        announce = Announce(self._device, question.announcement, question.feed)
        self._say(question.node, [*frames, encode(announce.frame())])
