"""A node sends rows of a query to the gateway with its own exchanges: under the query's numbers, whoever carries them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import UsageError
from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.codecs import NONE
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.composer import EdgePolicy
from shared.sync.events import ReceiptReceived
from shared.sync.exchange import NOT_READ
from shared.sync.outbox import Outbox
from shared.wire import codecs
from shared.wire.frame import FrameType
from tests.shared.sync.builders import SCHEMA, Gateway, Node

QUERY = EdgeKey(DeviceId(b"q" * 16), 7, edge_id("up"))


class CoordinatingGateway(Gateway):
    """It says who carries the query's edge under which term."""

    def __init__(self, known: dict[bytes, bytes], rng: Random) -> None:
        super().__init__(known, rng)
        self.terms: dict[DeviceId, int] = {}

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        if not self.terms:
            return None
        return self.terms.get(carrier, NOT_READ) if key == QUERY else NOT_READ

    def ranges(self, key: EdgeKey) -> list[tuple[int, int]]:
        return [(each.lo, each.hi) for each in self.log if each.key == key and each.kind == FrameType.DATA]


class Carrier(Node):
    """A node that makes the query's rows: each is a function of its number."""

    def carry(self, term: int, start: int = 0) -> None:
        self.made = Spool.create(
            MemoryDisk(), capacity_bytes=65_536, device=self.device, incarnation=1, evict=Evict.BLOCK
        )
        self.outbox = Outbox()
        self.outbox.serve(QUERY.edge, [SCHEMA], self.made, {"gateway": 0})
        self.outbox.restart(QUERY.edge, start)
        self.sender.carry(
            "up", {SCHEMA.id: SCHEMA}, QUERY, term=term, read=0, within_s=0.0, reading=self.outbox.reading("gateway")
        )  # fmt: skip

    def make(self, lo: int, hi: int) -> None:
        numbers = np.arange(lo, hi)
        batch = Batch.of(SCHEMA, {"value": numbers * 1.5}, numbers * 10, lo=lo)
        codec, payload = codecs.encode(batch, NONE)
        spooled = SpooledBatch(QUERY.edge, lo, hi, hi - lo, SCHEMA.id, 0, hi * 10, codec, payload)
        self.made.append(spooled)
        self.made.sync()
        self.sender.appended(spooled, 0.0)

    def talk(self, now: float = 0.0, rounds: int = 12) -> int:
        """Exchanges until there is nothing to say; how many there were."""
        for count in range(rounds):
            body = self.step(now)
            if body is None:
                return count
            self.sender.receive(self.gateway.exchange(body, now).body, now)
            self.events += self.sender.events()
        return rounds


@pytest.fixture
def known() -> dict[bytes, bytes]:
    return {}


def two(known: dict[bytes, bytes], **policies: EdgePolicy) -> tuple[CoordinatingGateway, Carrier, Carrier]:
    gateway = CoordinatingGateway(known, Random(1))
    return gateway, Carrier(gateway, known, Random(2), policies=policies), Carrier(gateway, known, Random(3))


def test_the_log_gets_each_number_once_though_another_node_goes_on_with_other_batches(
    known: dict[bytes, bytes],
) -> None:
    gateway, first, second = two(known, trips=EdgePolicy())
    gateway.terms = {first.device: 1}
    first.carry(term=1)
    first.make(0, 4)
    first.append(elements=3)
    first.talk()
    gateway.terms = {second.device: 2}
    second.carry(term=2)
    second.make(0, 3)  # it begins from an older snapshot and makes the same rows, in other batches
    second.make(3, 7)
    first.make(4, 6)  # and the first does not know yet that it is no more asked to
    first.talk(1.0)
    second.talk(1.0)
    assert gateway.ranges(QUERY) == [(0, 4), (4, 7)]
    own = EdgeKey(first.device, 1, edge_id("trips"))
    assert gateway.ranges(own) == [(0, 3)]
    assert ReceiptReceived(QUERY.edge, 7) in second.events
    assert second.made.statistics().batches == 0, "what is durable there is kept here no more"
    assert gateway.receiver.stale > 0


def test_who_is_no_more_asked_to_carry_an_edge_asks_now_and_then_and_its_own_rows_go_on(
    known: dict[bytes, bytes],
) -> None:
    gateway, first, second = two(known, trips=EdgePolicy(within_s=0.0))
    gateway.terms = {first.device: 1}
    first.carry(term=1)
    first.talk()
    gateway.terms = {second.device: 2}
    first.make(0, 4)
    assert first.talk(1.0) <= 2, "it does not ask again at once"
    first.append(elements=3, now=2.0)
    assert first.talk(2.0) <= 3
    assert gateway.ranges(EdgeKey(first.device, 1, edge_id("trips"))) == [(0, 3)]
    gateway.terms = {first.device: 1}
    first.sender.hurry(3.0)
    first.talk(3.0)
    assert gateway.ranges(QUERY) == [(0, 4)]


def test_the_number_of_an_edge_means_the_devices_own_and_the_querys(known: dict[bytes, bytes]) -> None:
    """Two devices: one has a stream of that name itself, the other carries the query's."""
    gateway, first, second = two(known, up=EdgePolicy(within_s=0.0))
    gateway.terms = {second.device: 1}
    first.append("up", elements=5)
    first.talk()
    second.carry(term=1)
    second.make(0, 2)
    second.talk()
    assert gateway.ranges(QUERY) == [(0, 2)]
    assert gateway.ranges(EdgeKey(first.device, 1, QUERY.edge)) == [(0, 5)]
    with pytest.raises(UsageError, match="sync-carried"):
        first.carry(term=1)


def test_a_stranger_to_the_fleet_is_refused(known: dict[bytes, bytes]) -> None:
    gateway, first, _ = two(known)
    first.carry(term=1)
    first.make(0, 2)
    first.talk()
    assert not gateway.ranges(QUERY)
    assert any(getattr(event, "code", "") == "sync-identity" for event in first.events)


def test_a_gateway_that_lost_its_log_is_told_what_is_gone(known: dict[bytes, bytes]) -> None:
    gateway, first, _ = two(known)
    gateway.terms = {first.device: 1}
    first.carry(term=1)
    first.make(0, 4)
    first.talk()
    gateway.log.clear()
    gateway.restart()
    first.make(4, 6)
    for now in (1.0, 70.0, 140.0):
        first.sender.hurry(now)
        first.talk(now)
    records = [(each.lo, each.hi, FrameType(each.kind)) for each in gateway.log if each.lo != each.hi]
    assert records == [(0, 4, FrameType.TOMBSTONE), (4, 6, FrameType.DATA)]
