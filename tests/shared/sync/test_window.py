"""Several exchanges under way to a reading node: lost, doubled and overtaken ones change nothing but the time it takes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest

from shared.hosting.peer_receiver import NoDownlink, PeerReceiver
from shared.identity import DeviceId, EdgeId, EdgeKey, device_id, edge_id
from shared.language.schema import Schema
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.events import Refused
from shared.sync.exchange import LogRecord
from shared.sync.outbox import Outbox
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival
from shared.sync.sender import WIDENED_AFTER, Sender
from shared.sync.session import DeviceSession, Enrolment, GatewaySession, GatewaySessions
from shared.wire.frame import FrameType, stored_header
from shared.wire.messages import MarkMessage, PeerReceipt
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus
from tests.simulation.keys import ToyKeys

SCHEMA = Schema.of({"x": "float64"})
WINDOW, BATCHES = 3, 40
PACING = Pacing(
    poll_s=1.0, timeout_s=2.0, backoff_s_min=0.1, backoff_s_max=0.5, window=WINDOW, exchange_bytes_max=1000
)  # fmt: skip


class Reader:
    """Takes what is next on one edge, and remembers what it was told in which order."""

    takes_marks = True

    def __init__(self, node: bytes, keys: ToyKeys) -> None:
        self._peer = Enrolment(node, 1)
        self.taken, self.reads, self.statuses = 0, True, 0
        self.heard: list[tuple[str, int]] = []
        self.credit = 1 << 20
        self.receiver = PeerReceiver(self, GatewaySessions(keys, self), NoDownlink(), keys)

    def find(self, device: DeviceId) -> Enrolment:
        return self._peer

    def high_water(self, key: EdgeKey) -> int:
        return self.taken

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int:
        return 0

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        return {}

    def take(self, session: GatewaySession, record: LogRecord) -> None:
        if record.kind == FrameType.DATA:
            assert record.lo == self.taken, "a number twice, or left out"
            self.taken = record.hi
            self.heard.append(("rows", record.hi))
        elif record.kind == FrameType.MARK:
            self.heard.append(("mark", record.lo))
        elif record.kind == FrameType.FRONTIER:
            self.heard.append(("time", stored_header(record.frame).frontier_us))

    def receipt(self, key: EdgeKey) -> PeerReceipt:
        return PeerReceipt(key.device, key.incarnation, key.edge, self.taken, self.taken, 1, self.credit, 0)

    def answers(self) -> list[bytes]:
        return []


class Pair:
    def __init__(self, seed: int = 0) -> None:
        rng = Random(seed)
        known: dict[bytes, bytes] = {}
        caller, answerer = ToyKeys(rng, known), ToyKeys(rng, known)
        caller.gateway_key = answerer.public_key
        device = device_id(caller.public_key)
        self.edge = edge_id("rows")
        self.spool = Spool.create(
            MemoryDisk(), capacity_bytes=1 << 20, device=device, incarnation=1, evict=Evict.BLOCK
        )  # fmt: skip
        self.outbox = Outbox()
        self.outbox.serve(self.edge, [SCHEMA], self.spool, {"reader": 1})
        self.key = EdgeKey(device, 1, self.edge)
        self.sender = Sender(
            self.outbox.reading("reader"), DeviceSession(caller, device, 1), pacing=PACING, rng=rng
        )  # fmt: skip
        self.sender.carry("rows", {SCHEMA.id: SCHEMA}, self.key, term=0, read=1, within_s=0.0)
        self.reader = Reader(caller.public_key, answerer)

    def append(self, batches: int, now: float) -> int:
        for _ in range(batches):
            lo = self.spool.head(self.edge)
            batch = SpooledBatch(self.edge, lo, lo + 4, 4, SCHEMA.id, 0, lo, 0, bytes(300))
            self.spool.append(batch)
            self.sender.appended(batch, now)
        self.spool.sync()
        return self.spool.head(self.edge)

    def mark(self, now: float) -> int:
        position = self.spool.head(self.edge)
        key = self.key
        self.sender.mark(MarkMessage(key.device, key.incarnation, key.edge, position, 1 + position, 5), now)
        return position

    def answers(self, body: bytes, now: float) -> list[bytes]:
        self.reader.receiver.receive(Arrival("handle", body), now)
        return [bytes(reply.body) for reply in self.reader.receiver.step(now).send]

    def sent(self, now: float) -> list[bytes]:
        self.sender.wake(now)
        bodies: list[bytes] = []
        while step := self.sender.step(now):
            bodies += step.send
        return bodies

    def meet(self) -> None:
        """A greeting, the question how far it is, and some batches that go well."""
        for _ in range(2 * WIDENED_AFTER + 1):
            self.append(1, 0.0)
            while self.reader.taken < self.spool.head(self.edge):
                for body in self.sent(0.0):
                    for answer in self.answers(body, 0.0):
                        self.sender.receive(answer, 0.0)


def test_a_node_that_is_no_gateway_passes_nothing_on_for_others() -> None:
    pair = Pair()
    pair.meet()
    pair.sender.pass_on(PassMessage(pair.key.device, 1, DeviceId(b"o" * 16), b"rows"), 0.1)
    for body in pair.sent(0.1):
        for answer in pair.answers(body, 0.1):
            pair.sender.receive(answer, 0.1)
    assert [event.code for event in pair.sender.events() if isinstance(event, Refused)] == ["sync-direction"]


def test_a_backlog_keeps_as_many_under_way_as_the_window_says_and_single_batches_one() -> None:
    pair = Pair()
    pair.meet()
    head = pair.append(1, 0.1)
    assert len(pair.sent(0.1)) == 1
    pair.append(1, 0.1)
    assert not pair.sent(0.2), "there is no backlog: it waits for company and for the answer"
    pair = Pair()
    pair.meet()
    head = pair.append(BATCHES, 0.1)
    bodies = pair.sent(0.1)
    assert (len(bodies), pair.sender.under_way) == (WINDOW, WINDOW)
    while bodies:
        for answer in pair.answers(bodies.pop(0), 0.1):
            pair.sender.receive(answer, 0.1)
        bodies += pair.sent(0.1)
    assert pair.reader.taken == head
    assert not pair.outbox.reading("reader").ahead, "nothing is under way any more"


def test_what_comes_while_exchanges_are_under_way_follows_them_once_it_is_worth_one() -> None:
    """Else who makes rows as fast as they are taken would wait for all answers, and then have much to send."""
    pair = Pair()
    pair.meet()
    pair.append(1, 0.1)
    assert len(pair.sent(0.1)) == 1
    pair.append(1, 0.1)
    assert not pair.sent(0.1), "too little to be worth one"
    pair.append(1, 0.1)
    assert len(pair.sent(0.1)) == 1
    assert pair.sender.next_wake() > 0.1, "nothing more is due"
    pair.append(2, 0.1)
    assert len(pair.sent(0.1)) == 1
    head = pair.append(2, 0.1)
    assert (pair.sent(0.1), pair.sender.under_way) == ([], WINDOW)
    pair.sender.fail(0.1)
    assert [pair.reader.taken < head, *(pair.answers(body, 5.0) != [] for body in pair.sent(5.0))] == [True, True]


def test_exchanges_grow_while_answers_are_quick_and_are_small_again_when_one_is_lost() -> None:
    pair = Pair()
    pair.sender.pace(replace(PACING, growth=4))
    pair.meet()
    pair.append(2 * BATCHES, 0.1)
    first = pair.sent(0.1)
    assert len(first[0]) > 3 * PACING.exchange_bytes_max, "it has grown while it met its reader"
    for body in first:
        pair.sender.receive(pair.answers(body, 0.1)[0], 0.1)
    slow = pair.sent(0.1)
    pair.sender.receive(pair.answers(slow[0], 0.1)[0], 0.1 + PACING.timeout_s / 2)
    assert pair.sender._grown == 2, "who answers late is sent half as much at once"
    pair.append(BATCHES, 1.2)
    assert pair.sent(1.2)
    pair.sender.fail(1.2)
    (again,) = pair.sent(5.0)
    assert len(again) < 2 * PACING.exchange_bytes_max
    assert Pacing().grown(1, 0.0) == 1, "to a gateway they never grow"


def test_when_one_is_lost_the_others_are_waited_for_and_nothing_is_taken_out_of_place() -> None:
    pair = Pair()
    pair.meet()
    before, head = pair.reader.taken, pair.append(BATCHES, 0.1)
    _, second, third = pair.sent(0.1)
    (answer,) = pair.answers(second, 0.1)
    pair.sender.receive(answer, 0.1)
    assert pair.reader.taken == before
    assert (pair.sender.under_way, pair.sent(0.1)) == (1, []), "what follows would not be taken either"
    pair.sender.receive(pair.answers(third, 0.1)[0], 0.1)
    now = 0.1
    while pair.reader.taken < head and now < 5.0:
        now += 0.1
        for body in pair.sent(now):
            for reply in pair.answers(body, now):
                pair.sender.receive(reply, now)
    assert pair.reader.taken == head


def test_an_overtaken_exchange_is_not_answered_as_if_it_had_been_taken() -> None:
    """Its reply would acknowledge a mark that nobody has seen."""
    pair = Pair()
    pair.meet()
    pair.append(BATCHES, 0.1)
    first, second, _ = pair.sent(0.1)
    pair.answers(second, 0.1)  # and its answer is lost
    (answer,) = pair.answers(first, 0.1)
    pair.sender.receive(answer, 0.1)
    assert pair.sender.under_way == 0
    assert len(pair.sent(0.1)) == 1, "it comes again at once, alone"
    (again,) = pair.answers(first, 0.1)
    assert again == answer, "and so it stays"


def test_a_reader_without_room_is_asked_again_at_the_next_poll_only() -> None:
    pair = Pair()
    pair.meet()
    pair.append(BATCHES, 0.1)
    bodies = pair.sent(0.1)
    pair.reader.credit = 0
    for body in bodies:
        pair.sender.receive(pair.answers(body, 0.1)[0], 0.1)
    assert pair.sent(0.2) == []
    assert pair.sender.next_wake() >= 1.0
    pair.reader.credit = 1 << 20
    (body,) = pair.sent(1.2)  # a question
    pair.sender.receive(pair.answers(body, 1.2)[0], 1.2)
    assert len(pair.sent(1.3)) > 1


def test_a_reader_without_room_gets_the_marks_that_stand_where_it_is() -> None:
    """It is snapshotted then, and what it has made goes."""
    pair = Pair()
    pair.meet()
    pair.reader.credit = 0
    pair.append(1, 0.1)
    (body,) = pair.sent(0.1)
    pair.sender.receive(pair.answers(body, 0.1)[0], 0.1)
    position, taken = pair.mark(0.2), pair.reader.taken
    assert position == taken
    pair.append(2, 0.2)
    pair.mark(0.2)
    (body,) = pair.sent(1.2)
    pair.sender.receive(pair.answers(body, 1.2)[0], 1.2)
    assert pair.reader.heard[-1] == ("mark", position)
    assert pair.reader.taken == taken


@pytest.mark.parametrize("loss", [0.0, 0.15])
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 150), marks=pytest.mark.soak)])
def test_whatever_is_lost_doubled_or_overtaken_each_number_is_taken_once_and_marks_and_time_come_through(
    seeds: range, loss: float
) -> None:
    assert max(drained(seed, loss) for seed in seeds) > 1, "never was more than one under way"


def drained(seed: int, loss: float) -> int:
    """How many were under way at most until everything had come through."""
    rng = Random(seed)
    pair = Pair(seed)
    pair.meet()
    under_way: list[tuple[float, bool, bytes]] = []
    marks: set[int] = set()
    head, now, most = 0, 0.1, 0
    frontier_us = 0

    def carry(body: bytes, *, up: bool) -> None:
        for _ in range(2 if rng.random() < loss / 2 else 1):
            if rng.random() >= loss:
                under_way.append((now + rng.choice((0.01, 0.01, 0.01, 0.05)), up, body))

    while now < 300.0:
        if now < 2.0:
            head = pair.append(rng.randint(0, 4), now)
            frontier_us += 10
            pair.sender.frontier(pair.edge, frontier_us, now)
            if rng.random() < 0.2:
                marks.add(pair.mark(now))
            pair.sender.status(DeviceStatus(boot=int(now * 10)))
        for body in pair.sent(now):
            carry(body, up=True)
        most = max(most, pair.sender.under_way)
        for each in sorted(under_way):
            if each[0] <= now:
                under_way.remove(each)
                if each[1]:
                    for answer in pair.answers(each[2], now):
                        carry(answer, up=False)
                else:
                    pair.sender.receive(each[2], now)
        now += 0.02
        told = {position for kind, position in pair.reader.heard if kind == "mark"}
        last_us = max([at for kind, at in pair.reader.heard if kind == "time"], default=0)
        if now > 2.0 and (pair.reader.taken, told, last_us) == (head, marks, frontier_us):
            break
    assert pair.reader.taken == head
    assert told == marks
    assert last_us == frontier_us
    assert most <= WINDOW
    return most


def test_who_does_not_answer_is_asked_often_and_with_little_and_gets_rows_as_soon_as_it_does() -> None:
    pair = Pair()
    pair.meet()
    pair.sender.pace(replace(PACING, probe_s=0.4, probe_for_s=30.0))
    head = pair.append(BATCHES, 0.1)
    first = pair.sent(0.1)
    assert not pair.sent(1.9), "rows are on their way, and nobody knows yet that they are lost"
    bodies: list[bytes] = []
    asked_at = []
    now = 2.1
    while now < 12.0:
        if sent := pair.sent(now):
            bodies += sent
            asked_at.append(now)
        now += 0.01
    gaps = [later - before for before, later in itertools.pairwise(asked_at)]
    assert max(gaps) < 0.85
    assert max(map(len, bodies)) < 500 < max(map(len, first)), "no rows before an answer"
    late, last = bodies[-2:]  # one that took long counts as well
    for answer in pair.answers(late, now):
        pair.sender.receive(answer, now)
    assert not pair.sender.disconnected
    for answer in pair.answers(last, now):
        pair.sender.receive(answer, now)
    bodies = pair.sent(now)
    assert max(map(len, bodies)) > 500, "now they go"
    while bodies:
        for answer in pair.answers(bodies.pop(0), now):
            pair.sender.receive(answer, now)
        bodies += pair.sent(now)
    assert pair.reader.taken == head


def test_after_a_while_a_radio_rests_until_the_network_changes() -> None:
    pair = Pair()
    pair.meet()
    pair.sender.pace(replace(PACING, probe_s=0.2, probe_for_s=5.0))
    pair.append(1, 0.1)
    asked = [now for now in (0.1 + step / 100 for step in range(2_000)) if pair.sent(now)]
    early, late = (len([now for now in asked if low < now < low + 4]) for low in (2.5, 14.0))
    assert early > 10 > 3 * late
    pair.sender.chase(20.2)
    assert pair.sent(20.2), "at once"
