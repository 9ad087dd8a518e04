"""Some phones together: one broadcasts its snapshots, the others keep them, on a medium that loses what it likes.

The machines are the product's (`StateLane`, `Keeper`, store). What carries is not: datagrams are lost at each receiver by
itself, come twice and in any order; exchanges arrive or their node is told that they did not. Somebody may forge blocks.
Members die and come back, others join, the sender dies. At the end every member that is there has what was sent last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from shared.hosting.keeper import Keeper, KeeperPersist
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.state_lane import StateLane
from shared.hosting.store import persist
from shared.hosting.wiring import STATE, EdgeSpec, KeptSpec
from shared.identity import DeviceId, EdgeKey, device_id, edge_id
from shared.plan.deployment import Peer
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.region.broadcast import Broadcast
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.outbox import Outbox
from shared.wire.broadcast import BLOCK_BYTES, Bitmap, Block
from shared.wire.envelope import ENVELOPE_BYTES
from shared.wire.frame import HEADER_BYTES, FrameType, decode_one
from shared.wire.messages import PeerReceipt
from tests.simulation.clock import Clock
from tests.simulation.disk import SimulatedDisk
from tests.simulation.keys import ToyKeys

QUERY = "q"
TERM = 3
EXCHANGE_BYTES = 2 * ENVELOPE_BYTES + 2 * HEADER_BYTES + 16  # of a question and its answer: how far is the edge?
TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What happens in a world."""

    seed: int = 0
    receivers: int = 7
    state_bytes: int = 100_000
    snapshots: int = 1
    loss: float = 0.0
    duplication: float = 0.0
    forged: float = 0.0  # per datagram, one of the same announcement whose bytes are somebody else's
    exchange_loss: float = 0.0
    deaths: int = 0  # members that die while a snapshot is on its way; they are taken out later
    restarts: int = 0  # members that stop and come back with what their disk has
    joins: int = 0
    sender_dies: bool = False


@dataclass(slots=True)
class Sent:
    """Bytes on the medium."""

    datagrams: int = 0
    exchanges: int = 0  # announcements, bitmaps, blocks in exchanges, and what every exchange costs
    pieces: int = 0  # whole snapshots on the state edge
    state: int = 0  # of the snapshots themselves

    @property
    def ratio(self) -> float:
        return (self.datagrams + self.exchanges + self.pieces) / self.state


@dataclass(slots=True)
class Outcome:
    violation: str = ""
    sent: Sent = field(default_factory=Sent)
    fired: int = 0
    lost: int = 0  # datagrams, counted at each receiver
    forged: int = 0
    refused: int = 0
    kept: int = 0  # snapshots, counted at each keeper


class Member:
    def __init__(self, number: int, world: RegionWorld) -> None:
        self.number, self.world = number, world
        self.keys = ToyKeys(world.identities, world.known)
        self.device = device_id(self.keys.public_key)
        self.id = self.device.hex()
        self.peer = Peer(self.id, f"phone{number}", self.keys.public_key, "0" * 40, ())
        self.disk = SimulatedDisk(world.rng)
        self.up = True
        self.start()

    def start(self) -> None:
        self.up = True
        self._persist: list[KeeperPersist] = []
        self._wake_at = float("inf")
        self.keeper = Keeper(self.disk)
        self.outbox = Outbox()
        self.spool = Spool.create(
            MemoryDisk(), capacity_bytes=4 << 20, device=self.device, incarnation=1, evict=Evict.BLOCK
        )
        self.lane = StateLane(
            self.device, self.keys, self.keeper, self.outbox, self.world.peers, say=self._say, reached=self._reaches,
            store=self._persist.extend, taken=lambda: None, released=self._released, receipt=self._receipt,
        )  # fmt: skip
        self.lane.is_open = True
        self._say_later: list[tuple[str, Sequence[bytes]]] = []

    def stop(self) -> None:
        self.up = False
        self.disk.crash()

    def rewire(self, state: EdgeSpec) -> None:
        if self.id in state.readers:
            self.keeper.keep_for([KeptSpec(QUERY, 1, "v", TERM, state)], [(QUERY, 1, "v")])
        made = {state.key.edge: state} if self.id in state.carriers else {}
        self.lane.rewire(made, self.world.clock.now)
        self.drive()

    def _say(self, node: str, frames: Sequence[bytes]) -> None:
        self._say_later.append((node, frames))

    def _receipt(self, key: EdgeKey) -> PeerReceipt:
        through = self.keeper.through.get(key, 0)
        return PeerReceipt(key.device, key.incarnation, key.edge, through, through)

    def _reaches(self, node: str) -> bool:
        return node in self.world.by_id and self.world.by_id[node].up

    def _released(self, state: EdgeSpec) -> None:
        for node in state.readers:
            self.world.clock.after(0.05, self.world.send_pieces, node)

    def drive(self) -> None:
        """Durable before sent, as every driver has it."""
        world = self.world
        while self.up:
            datagrams = self.lane.step(world.clock.now)
            stored, said = [*self._persist], [*self._say_later]
            self._persist.clear()
            self._say_later.clear()
            for item in stored:
                persist(item, self.disk, self.spool)
            for each in datagrams:
                world.broadcast(each)
            for node, frames in said:
                world.exchange(self, node, frames)
            world.look(self)
            if not (datagrams or stored or said):
                break
        wakes = self.lane.next_wake()
        if self.up and wakes is not None and (wakes < self._wake_at or self._wake_at <= world.clock.now):
            self._wake_at = max(wakes, world.clock.now + 0.001)
            world.clock.at(self._wake_at, self._wake, self.lane)

    def _wake(self, lane: StateLane) -> None:
        if self.up and lane is self.lane:
            self._wake_at = float("inf")
            self.drive()


class RegionWorld:
    def __init__(self, settings: Loss) -> None:
        self.settings = settings
        self.rng = Random(f"region {settings.seed}")
        self.identities = Random("phones")
        self.known: dict[bytes, bytes] = {}
        self.peers: dict[str, Peer] = {}
        self.clock = Clock()
        self.outcome = Outcome()
        self.members: list[Member] = []
        self.by_id: dict[str, Member] = {}
        self.data: dict[int, bytes] = {}  # by the number behind it on the state edge, what was sent
        self.head = 0
        self._phase = (b"", 0)
        for number in range(settings.receivers + 1):
            self._join(number)
        self._rewire()
        for snapshot in range(settings.snapshots):
            self.clock.at(1.0 + 60.0 * snapshot, self._snapshot)
        last = 1.0 + 60.0 * (settings.snapshots - 1)
        soon = [last + self.rng.uniform(0.0, 0.4) for _ in range(settings.deaths + settings.restarts + settings.joins)]
        for at, time in enumerate(soon):
            what = self._die if at < settings.deaths else self._restart
            self.clock.at(time, self._arrive if at >= settings.deaths + settings.restarts else what)
        if settings.sender_dies:
            self.clock.at(last + self.rng.uniform(0.0, 0.4), self._sender_dies)

    def _join(self, number: int) -> None:
        member = Member(number, self)
        self.members.append(member)
        self.by_id[member.id] = member
        self.peers[member.id] = member.peer

    @property
    def sender(self) -> Member:
        return self.members[0]

    def _edge(self) -> EdgeSpec:
        name = f"{QUERY}/state v {TERM}"
        key = EdgeKey(DeviceId(b"q" * 16), 1, edge_id(name))
        readers = {node: 0 for node in self.peers if node != self.sender.id}
        return EdgeSpec(name, key, STATE, "v", {self.sender.id: TERM}, readers)

    def _rewire(self) -> None:
        self.state = self._edge()
        for member in self.members:
            if member.up:
                member.rewire(self.state)

    def _snapshot(self, again: bytes = b"") -> None:
        if not self.sender.up:
            return
        state = self.rng.randbytes(self.settings.state_bytes)
        at = Permanent(MarkId(self.head + 1, "s@1"), {"in": 10 * self.head}, {}, {})
        data = again or KeptSnapshot(QUERY, 1, "v", TERM, at, state).encode()
        self.head += 1
        self.data[self.head] = data
        self.outcome.sent.state += 0 if again else len(data)
        if not self.sender.lane.begin(self.state, (self.head - 1, self.head), data, self.clock.now):
            self.sender._released(self.state)
        self.sender.drive()

    # --- what happens to them ----------------------------------------------------------------------------------------

    def _others(self) -> list[Member]:
        return [member for member in self.members[1:] if member.up and member.id in self.peers]

    def _die(self) -> None:
        self.outcome.fired += 1
        gone = self.rng.choice(self._others())
        gone.stop()
        self.sender.lane.lost(gone.id, self.clock.now)
        self.sender.drive()
        self.clock.after(20.0, self._take_out, gone)

    def _take_out(self, gone: Member) -> None:
        del self.peers[gone.id]
        self._rewire()

    def _restart(self) -> None:
        self.outcome.fired += 1
        member = self.rng.choice(self._others())
        member.stop()
        self.clock.after(self.rng.uniform(0.1, 2.0), self._back, member)

    def _back(self, member: Member) -> None:
        member.start()
        member.rewire(self.state)
        self.clock.after(0.1, self.send_pieces, member.id)  # its receipt says that it has taken nothing

    def _arrive(self) -> None:
        """A new member: those who run vertices give it what it lacks."""
        self.outcome.fired += 1
        self._join(len(self.members))
        self._rewire()
        if self.head:
            self._snapshot(self.data[self.head])

    def _sender_dies(self) -> None:
        self.outcome.fired += 1
        self.sender.stop()

    # --- what carries ------------------------------------------------------------------------------------------------

    def broadcast(self, message: Broadcast) -> None:
        settings, rng = self.settings, self.rng
        self.outcome.sent.datagrams += len(message.body)
        self._check_sent(message)
        bodies = [message.body]
        if rng.random() < settings.forged:
            block = Block.of(message.body)
            self.outcome.forged += 1
            bodies.append(block._replace(data=rng.randbytes(len(block.data))).datagram())
        for node in message.nodes:
            for body in bodies:
                if rng.random() < settings.loss:
                    self.outcome.lost += 1
                    continue
                for _ in range(2 if rng.random() < settings.duplication else 1):
                    self.clock.after(rng.uniform(0.001, 0.03), self._hear, self.by_id[node], body)

    def _hear(self, member: Member, body: bytes) -> None:
        if member.up:
            member.lane.datagram(body, self.clock.now)
            member.drive()

    def exchange(self, sender: Member, node: str, frames: Sequence[bytes]) -> None:
        """Frames one way, bitmaps back; or the sender hears that nothing came."""
        self.outcome.sent.exchanges += sum(map(len, frames)) + EXCHANGE_BYTES
        to = self.by_id[node]
        if not to.up or self.rng.random() < self.settings.exchange_loss:
            self.clock.after(TIMEOUT_S, self._unanswered, sender, node)
            return
        self.clock.after(self.rng.uniform(0.002, 0.05), self._asked, sender, to, frames)

    def _asked(self, sender: Member, to: Member, frames: Sequence[bytes]) -> None:
        if not to.up:
            self.clock.after(TIMEOUT_S, self._unanswered, sender, to.id)
            return
        answers = [answer for frame in frames for answer in to.lane.hear(decode_one(frame)[0], self.clock.now)]
        to.drive()
        self.outcome.sent.exchanges += sum(map(len, answers))
        self.clock.after(self.rng.uniform(0.002, 0.05), self._answered, sender, to.id, answers)

    def _answered(self, sender: Member, node: str, answers: Sequence[bytes]) -> None:
        if sender.up:
            for frame in (decode_one(answer)[0] for answer in answers):
                if frame.type is FrameType.BITMAP:
                    sender.lane.bitmap(node, Bitmap.of(frame), self.clock.now)
            sender.drive()

    def _unanswered(self, sender: Member, node: str) -> None:
        if sender.up:
            sender.lane.lost(node, self.clock.now)
            sender.drive()

    def send_pieces(self, node: str) -> None:
        """The state edge goes on: who has not taken it gets all of it."""
        to = self.by_id[node]
        if not self.sender.up or not to.up or node not in self.peers or self.sender.outbox.is_held(self.state.key.edge):
            return
        key = self.state.key
        if to.keeper.through.get(key, 0) < self.head:
            self.outcome.sent.pieces += len(self.data[self.head]) + EXCHANGE_BYTES
            to._persist.extend(to.keeper.take_whole(key, self.head, self.data[self.head]))
            to.drive()

    # --- checkers ----------------------------------------------------------------------------------------------------

    def _check_sent(self, message: Broadcast) -> None:
        """ResendsWhatOneLacks: a phase sends what at least one that answered lacks, and each block to those."""
        if not self.sender.outbox.is_held(self.state.key.edge):
            return
        sending = self.sender.lane._under_way[self.state.key.edge].sending
        number, phase = Block.of(message.body).number, (sending.announcement.id, len(sending.phases.done))
        if phase != self._phase:
            self._phase = phase
            lacking = 0
            for bits in sending.bitmaps.values():
                lacking |= ((1 << len(sending.blocks)) - 1) & ~bits
            if lacking != sending._sent:
                self._violate(f"ResendsWhatOneLacks: {sending._sent.bit_count()} blocks, {lacking.bit_count()} lack")
        if not message.nodes:
            self._violate(f"ResendsWhatOneLacks: block {number} to nobody")

    def look(self, member: Member) -> None:
        """KeptIsDurable: what a receipt says is on the disk. OnlyWhatWasSent: and it is what the sender sent."""
        through = member.keeper.through.get(self.state.key, 0)
        if through:
            kept = member.keeper.newest((QUERY, 1, "v"))
            if kept is None or kept.encode() != self.data[through]:
                self._violate(f"OnlyWhatWasSent: phone{member.number} keeps something else as number {through}")
            elif self.data[through] not in member.disk.durable().values():
                self._violate(f"KeptIsDurable: phone{member.number} says {through}, and it is not on its disk")
        if member.lane.receiving.refused["snapshot-piece"]:
            self._violate(f"NoUnhashedBlock: phone{member.number} put together what nobody sent")

    def _violate(self, what: str) -> None:
        self.outcome.violation = self.outcome.violation or what

    def run(self) -> Outcome:
        outcome, settings = self.outcome, self.settings
        until = 60.0 * settings.snapshots + 60.0
        while self.clock.run_one(until) and not outcome.violation:
            pass
        alive = self._others()
        kept = [member.keeper.newest((QUERY, 1, "v")) for member in alive]
        outcome.kept = sum(one is not None and one.encode() == self.data[self.head] for one in kept)
        outcome.refused = sum(sum(member.lane.receiving.refused.values()) for member in self.members)
        if self.sender.up and outcome.kept < len(alive):
            self._violate(f"CopiesEverywhere: {outcome.kept} of {len(alive)} have what was sent last")
        # Every phase but the last gained what it cost, and nobody gains more than all of it.
        most = (settings.receivers + settings.joins + 2) * outcome.sent.state * 1.05 * (1 + settings.joins)
        if settings.forged == 0 and outcome.sent.datagrams > most:
            self._violate(f"BytesBounded: {outcome.sent.datagrams} bytes for {outcome.sent.state}")
        return outcome


def run(settings: Loss) -> Outcome:
    return RegionWorld(settings).run()


def drawn(seed: int) -> Loss:
    """A world from a seed."""
    rng = Random(f"drawn {seed}")
    return Loss(
        seed, receivers=rng.randint(2, 9), state_bytes=rng.choice((3_000, 20_000, 60_000, BLOCK_BYTES * 64 - 200)),
        snapshots=rng.randint(1, 3), loss=rng.choice((0.0, 0.01, 0.1, 0.25, 0.4)), duplication=rng.choice((0.0, 0.1)),
        forged=rng.choice((0.0, 0.0, 0.02)), exchange_loss=rng.choice((0.0, 0.0, 0.05)), deaths=rng.randint(0, 1),
        restarts=rng.randint(0, 1), joins=rng.randint(0, 1), sender_dies=rng.random() < 0.1,
    )  # fmt: skip
