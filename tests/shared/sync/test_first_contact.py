"""A spool restored from an older copy must be found out before its reused numbers are taken for duplicates."""

from __future__ import annotations

import copy

import pytest

from shared.sync.events import Refused
from shared.sync.persist import StoreContact
from shared.wire.envelope import MAC_BYTES
from shared.wire.frame import FrameType, decode_all
from tests.shared.sync.builders import Node, pair


def restored(*, behind: int) -> Node:
    """A node put back to before its last batches, which the gateway has."""
    node = pair()
    node.append()
    node.talk()
    node.spool.sync()
    older = copy.deepcopy(node.disk)
    for _ in range(behind):
        node.append()
    node.talk(1.0)
    node.disk = older
    node.boot(2.0)
    node.events.clear()
    return node


@pytest.mark.parametrize(("behind", "appended"), [(1, 1), (2, 1), (2, 2), (1, 2)])
def test_new_batches_under_used_numbers_are_kept_and_not_acknowledged_as_duplicates(behind: int, appended: int) -> None:
    node = restored(behind=behind)
    before = len(node.gateway.log)
    for _ in range(appended):
        node.append(now=2.0, payload=b"another element")
    for now in (2.0, 30.0, 90.0):
        node.talk(now, limit=5)
    assert len(list(node.spool.pending(node.edges["trips"]))) == appended, "nothing of it may be trimmed"
    assert len(node.gateway.log) == before
    assert any(isinstance(event, Refused) and event.code == "sync-sequence-behind" for event in node.events)


def test_a_limit_from_an_earlier_start_finds_it_out_after_more_was_numbered_offline() -> None:
    node = restored(behind=2)
    reaches = {number: node.spool.head(number) for number in node.edges.values()}
    for _ in range(4):
        node.append(now=2.0)
    node.spool.sync()
    node.boot(3.0, reaches=reaches)  # restarted before any contact: its own head is past the gateway's mark now
    node.talk(3.0, limit=5)
    assert len(list(node.spool.pending(node.edges["trips"]))) == 4
    assert any(isinstance(event, Refused) and event.code == "sync-sequence-behind" for event in node.events)


def test_the_first_exchange_carries_nothing_numbered_and_the_contact_is_stored_before_the_second() -> None:
    node = pair()
    node.append()
    hello = node.step()
    assert hello is not None
    node.sender.receive(node.gateway.exchange(hello).body, 0.0)
    first = node.step()
    assert first is not None
    assert {frame.type for frame in decode_all(first[24:-MAC_BYTES])}.isdisjoint({FrameType.DATA, FrameType.TOMBSTONE})
    node.sender.receive(node.gateway.exchange(first).body, 0.0)
    step = node.sender.step(0.0)
    assert StoreContact(node.edges["trips"]) in step.persist
    assert step.send
    assert node.gateway.log == [], "a question leaves no record"


def test_a_lost_reply_before_a_restart_is_no_reason_to_stop() -> None:
    node = pair()
    node.append()
    while node.gateway.log == []:
        body = node.step()
        assert body is not None
        reply = node.gateway.exchange(body)
        if not node.gateway.log:
            node.sender.receive(reply.body, 0.0)
    node.disk.crash()
    node.boot(1.0)
    node.append(now=1.0)
    node.talk(1.0)
    assert list(node.spool.pending(node.edges["trips"])) == []
    assert not any(isinstance(event, Refused) for event in node.events)
