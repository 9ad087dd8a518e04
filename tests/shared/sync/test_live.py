"""A backlog leaves oldest first; its newest row is shown with the first exchange, and never again once it is through."""

from __future__ import annotations

import pytest

from shared.batch import Batch
from shared.identity import edge_id
from shared.spool.entry import SpooledBatch
from shared.sync.exchange import StatusReceived
from shared.sync.pacing import Pacing
from shared.wire import columns
from tests.shared.sync.builders import SCHEMA, Node, pair

EDGE = edge_id("trips")


def spool(node: Node, batches: int) -> None:
    for at in range(batches):
        batch = Batch.of(SCHEMA, {"value": [float(at), at + 0.5]}, [2 * at, 2 * at + 1], lo=2 * at)
        codec, payload = columns.encode(batch)
        node.sender.append(SpooledBatch(EDGE, batch.lo, batch.hi, 2, SCHEMA.id, 0, 2 * at + 1, codec, payload), 0.0)


def statuses(node: Node):
    return [event.status for event in node.gateway.events if isinstance(event, StatusReceived)]


def test_the_newest_row_comes_before_the_backlog_and_is_no_longer_said_behind_it():
    node = pair(pacing=Pacing(exchange_bytes_max=400))
    spool(node, 60)
    seen = []
    for at in range(200):
        body = node.step(at / 10)
        if body is None:
            continue
        node.sender.receive(node.gateway.exchange(body, at / 10).body, at / 10)
        seen += [(len(node.gateway.log), each.live) for each in statuses(node)[len(seen) :]]
    assert node.gateway.high_water(node.gateway.log[0].key) == 120
    logged, first = seen[0]
    assert not logged
    assert [(each.stream, each.time_us, dict(each.values)) for each in first] == [("trips", 119, {"value": 59.5})]
    assert seen[-1][1] == ()
    assert len(seen) < 6  # said once, not with each of the exchanges of the backlog


def test_who_is_not_behind_says_nothing_of_it():
    node = pair()
    node.talk()
    spool(node, 3)
    before = len(statuses(node))
    node.talk(100.0)
    assert node.gateway.log
    assert all(each.live == () for each in statuses(node)[before:])


def test_after_an_outage_the_first_exchange_has_the_newest_row_and_no_others():
    node = pair(pacing=Pacing(exchange_bytes_max=400))
    node.talk()
    spool(node, 60)
    assert node.step(100.0) is not None  # lost with the link
    node.sender.fail(101.0)
    spool_before = len(node.gateway.log)
    body = node.step(200.0)
    node.gateway.exchange(body, 200.0)
    assert [each.time_us for each in statuses(node)[-1].live] == [119]
    assert len(node.gateway.log) == spool_before
    assert len(body) < 600


@pytest.mark.parametrize("apart_s", [1.0, 50.0, 400.0])
def test_a_link_that_carries_one_exchange_and_breaks_still_carries_the_backlog(apart_s):
    """Each time it comes back one exchange is answered, and what follows is lost: every second one has rows at least,
    and where it comes back within the minute all but a few."""
    node = pair(pacing=Pacing(exchange_bytes_max=400), lifetime_s=1_000_000)
    node.talk()
    spool(node, 60)
    took = idle = 0
    now = 100.0
    assert node.step(now) is not None
    node.sender.fail(now)
    while node.spool.used_bytes:
        now += apart_s
        node.sender.hurry(now)
        before = len(node.gateway.log)
        body = node.step(now)
        node.sender.receive(node.gateway.exchange(body, now).body, now)
        took, idle = took + 1, idle + (len(node.gateway.log) == before)
        if node.step(now) is not None:
            node.sender.fail(now)
        assert took < 200, f"{len(node.gateway.log)} records after {took} exchanges"
    assert node.gateway.high_water(node.gateway.log[0].key) == 120
    assert 0 < idle <= took / 2
    assert idle <= 1 + took * apart_s / 60
