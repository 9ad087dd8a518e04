"""Exchanges between two nodes that whoever coordinates passes on: only between nodes of the roster, and never for ever."""

from __future__ import annotations

import pytest

from shared.errors import PeerError
from shared.hosting import passed_by_gateway, passing
from shared.hosting.messages import Answer, Ask, Unreachable
from shared.hosting.passed_by_gateway import HELLO, TELL_S, TOLD, WAITING_S, ByGateway, GatewayPassing, PassedEnd
from shared.hosting.passing import Passing
from shared.identity import DEVICE_ID_BYTES, DeviceId
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.wire.frame import HEADER_BYTES, Frame, FrameType
from shared.wire.passed import NOBODY, PassMessage
from tests.shared.sync.builders import Node, pair

ONE, OTHER, THIRD = "aa" * 16, "bb" * 16, "cc" * 16
NODES = frozenset({ONE, OTHER, THIRD})


def id_of(node: str) -> DeviceId:
    return DeviceId(bytes.fromhex(node))


def question(number: int = 1, body: bytes = b"rows", *, by: str = ONE, to: str = OTHER) -> PassMessage:
    return PassMessage(id_of(by), number, id_of(to), body)


def gateway(*nodes: str) -> GatewayPassing:
    """Where these have said that they take what is passed on, and have heard that it is."""
    found = GatewayPassing()
    for node in nodes or NODES:
        found.offered(node, 1, 0.0)
        assert [each.number for each in found.fetch(node, 0.0)] == [HELLO]
    return found


def test_nobody_answers_for_another_and_what_nobody_answers_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "OPEN_MAX", 2)
    by: Passing[str] = Passing()
    for node in NODES:
        by.called(node, f"to {node[:2]}")
    sent = [by.question(ONE, "to aa", number, OTHER, NODES) for number in range(3)]
    first, second, third = [int(each.number) for each in sent if each is not None]
    assert by.answer(THIRD, second) is None
    assert by.answer(OTHER, first) is None, "forgotten"
    answered = by.answer(OTHER, third)
    assert answered == ("to aa", 2, "")
    assert by.question("dd" * 16, "", 1, OTHER, NODES) is None, "a stranger asks"
    assert by.question(ONE, "to aa", 1, "dd" * 16, NODES) is None, "a stranger is asked"
    assert (by.passed, by.refused) == (1, 4)


@pytest.mark.covers("MS-31")
def test_a_question_waits_at_the_gateway_for_the_other_end_and_its_answer_goes_back() -> None:
    by = gateway()
    assert by.take(question(7), NODES, 1.0) == OTHER
    assert by.has(OTHER)
    (asked,) = by.fetch(OTHER, 1.1)
    assert (asked.other, asked.body) == (id_of(ONE), b"rows")
    assert not by.has(OTHER)
    assert by.take(PassMessage(id_of(THIRD), asked.number, NOBODY, b"forged"), NODES, 1.2) == ""
    assert by.take(PassMessage(id_of(OTHER), asked.number, NOBODY, b"receipt"), NODES, 1.2) == ONE
    assert by.fetch(ONE, 1.3) == [PassMessage(id_of(ONE), 7, NOBODY, b"receipt")]
    assert by.take(PassMessage(id_of(OTHER), asked.number, NOBODY, b"again"), NODES, 1.3) == ""
    assert by.passed == 1


@pytest.mark.covers("MS-31")
def test_a_stranger_and_who_was_taken_out_are_passed_nothing() -> None:
    by = gateway(ONE, OTHER)
    assert by.take(question(to=THIRD), NODES, 0.0) == "", "it has not said that it takes anything"
    assert by.take(question(), NODES, 0.0) == OTHER
    by.part({OTHER})
    assert by.fetch(OTHER, 0.1) == []
    assert by.take(question(), NODES - {OTHER}, 0.2) == ""
    assert by.take(question(by=OTHER, to=ONE), NODES - {OTHER}, 0.2) == ""


FRAME = HEADER_BYTES + DEVICE_ID_BYTES


def test_what_is_not_fetched_is_bounded_in_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_by_gateway, "WAITING_BYTES_MAX", 2 * FRAME + 10)
    monkeypatch.setattr(passed_by_gateway, "ALL_BYTES_MAX", 2 * FRAME + 14)
    by = gateway()
    for number in range(4):
        by.take(question(number, b"%d234" % number), NODES, 1.0)
    assert [each.body for each in by.fetch(OTHER, 1.0)] == [b"2234", b"3234"], "the oldest go"
    by.take(question(1, b"12345678"), NODES, 2.0)
    by.take(question(2, b"87654321", to=THIRD), NODES, 3.0)
    assert not by.fetch(OTHER, 3.0), "of all the oldest"
    assert by.fetch(THIRD, 3.0 + WAITING_S) == [], "who asked has asked again"
    assert by.take(question(3, b"12345678"), NODES, 9.0) == OTHER
    assert by.fetch(OTHER, 9.0), "what was dropped takes no room"


def test_what_has_no_body_takes_room_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_by_gateway, "WAITING_BYTES_MAX", 10 * FRAME)
    by = gateway()
    for number in range(1000):
        by.take(question(number, b""), NODES, 1.0)
    assert len(by.fetch(OTHER, 1.0)) == 10


def test_what_waited_too_long_for_one_node_goes_when_something_comes_for_another() -> None:
    by = gateway()
    by.take(question(1), NODES, 1.0)
    by.take(question(2, to=THIRD), NODES, 1.0 + WAITING_S)
    assert not by.has(OTHER), "it is not told of what it would not be given"
    assert by.has(THIRD)


def test_an_answer_to_who_is_out_of_the_fleet_is_kept_for_nobody() -> None:
    by = gateway()
    by.take(question(7), NODES, 1.0)
    (asked,) = by.fetch(OTHER, 1.1)
    by.part({ONE})
    assert by.take(PassMessage(id_of(OTHER), asked.number, NOBODY, b"receipt"), NODES - {ONE}, 1.2) == ""
    assert not by.has(ONE)


def test_a_node_is_told_some_times_that_its_gateway_passes_on_and_then_seldom() -> None:
    by = GatewayPassing()

    def told(now: float, boot: int = 1) -> int:
        by.offered(ONE, boot, now)
        return len(by.fetch(ONE, now))

    assert [told(0.0) for _ in range(TOLD + 2)] == [1] * TOLD + [0, 0]
    assert [told(TELL_S), told(TELL_S), told(TELL_S, boot=2)] == [1, 0, 1]


class Ends:
    """A node with its session at a gateway, which has what it said."""

    def __init__(self) -> None:
        self.node: Node = pair(pacing=Pacing(poll_s=1.0))
        self.node.talk()
        self.end = PassedEnd(self.node.device)

    def said(self) -> list[PassMessage]:
        self.node.gateway.events.clear()
        self.node.talk()
        return [event.message for event in self.node.gateway.events if hasattr(event, "message")]


def test_a_node_asks_and_answers_with_its_own_exchanges() -> None:
    ends = Ends()
    device, sender = ends.node.device, ends.node.sender
    for number in range(2):
        assert ends.end.ask(Ask(OTHER, b"%d" % number, follows=number > 0, by="gateway"), sender, 0.0) is None
    ends.end.reply(Reply(ByGateway(9), b"receipt"), sender, 0.0)
    assert ends.said() == [
        PassMessage(device, 1, id_of(OTHER), b"0"),
        PassMessage(device, 2, id_of(OTHER), b"1"),
        PassMessage(device, 9, NOBODY, b"receipt"),
    ]
    assert ends.said() == [], "each once"
    assert ends.end.arrived(PassMessage(device, 2, NOBODY, b"second"), 0.0) == Answer(OTHER, b"second", urgent=True)
    ends.end.ask(Ask(OTHER, b"2", by="gateway"), sender, 0.0)
    assert ends.end.arrived(PassMessage(device, 1, NOBODY, b"late"), 0.0) is None, "another question counts by now"
    assert ends.end.arrived(PassMessage(device, 5, id_of(OTHER), b"rows"), 0.0) == Arrival(ByGateway(5), b"rows")
    too_large = bytes(passed_by_gateway.PASSED_BYTES_MAX + 1)
    assert ends.end.ask(Ask(OTHER, too_large, by="gateway"), sender, 0.0) == Unreachable(OTHER)


def test_of_what_waits_for_the_next_exchange_the_oldest_goes_and_none_survives_an_outage() -> None:
    ends = Ends()
    device, sender = ends.node.device, ends.node.sender
    for number in range(3):
        sender.pass_on(PassMessage(device, number, id_of(OTHER), bytes(3 << 20)), 0.0)
    assert [message.number for message in ends.said()] == [2]
    body = ends.node.step(5.0)
    assert body is not None
    sender.pass_on(PassMessage(device, 4, id_of(OTHER), b"rows"), 5.0)
    sender.fail(5.0)
    sender.pass_on(PassMessage(device, 5, id_of(OTHER), b"rows"), 5.0)
    ends.node.gateway.events.clear()
    ends.node.talk(50.0)
    assert not [event for event in ends.node.gateway.events if hasattr(event, "message")]


def test_a_pass_without_a_node_is_refused() -> None:
    with pytest.raises(PeerError, match="message-pass"):
        PassMessage.of(Frame(FrameType.PASS, id_of(ONE), b"short"))
