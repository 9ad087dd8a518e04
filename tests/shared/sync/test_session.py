from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from shared.errors import PeerError
from shared.identity import DeviceId
from shared.sync import session as module
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions, SessionState
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import Hello, Welcome
from tests.shared.sync.builders import Gateway, Node, pair


@pytest.fixture
def node() -> Node:
    return pair()


def hello_of(node: Node) -> Hello:
    return Hello.of(decode_one(DeviceSession(node.keys, node.device, 1).hello())[0])


def opened(node: Node, now: float = 0.0) -> DeviceSession:
    session = DeviceSession(node.keys, node.device, 1)
    session.welcome(decode_one(node.gateway.sessions.greet(session.hello(), now))[0], now)
    return session


def test_both_ends_agree_on_keys_that_differ_by_direction(node: Node) -> None:
    session = opened(node)
    body = session.seal([])
    gateway_end, counter, fresh, _, frames, _ = node.gateway.sessions.open(body, 0.0)
    assert (counter, fresh, bytes(frames)) == (1, True, b"")
    assert gateway_end.keys.up != gateway_end.keys.down
    yes = encode(Frame(FrameType.RECEIPT, node.device))
    assert session.open(gateway_end.seal(1, [yes])) == yes
    with pytest.raises(PeerError, match="envelope-seal"):
        session.open(body)  # its own words reflected back at it


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"signature": bytes(64)}, "device-unknown"),
        ({"incarnation": 2}, "device-unknown"),  # the signature covers it
        ({"device": DeviceId(bytes(16))}, "device-unknown"),
        ({"gateway": bytes(16)}, "device-unknown"),
        ({"ephemeral": bytes(32)}, "device-unknown"),
    ],
)
def test_a_hello_that_was_altered_is_refused(node: Node, change: dict[str, object], code: str) -> None:
    with pytest.raises(PeerError, match=code):
        node.gateway.sessions.greet(encode(replace(hello_of(node), **change).frame()), 0.0)


def test_an_unknown_and_a_revoked_device_are_refused(node: Node) -> None:
    body = encode(hello_of(node).frame())
    enrolled = node.gateway.enrolments.pop(node.device)
    with pytest.raises(PeerError, match="device-unknown"):
        node.gateway.sessions.greet(body, 0.0)
    node.gateway.enrolments[node.device] = Enrolment(enrolled.public_key, 1, revoked=True)
    with pytest.raises(PeerError, match="device-revoked"):
        node.gateway.sessions.greet(body, 0.0)


def test_an_incarnation_that_was_never_enrolled_is_refused_and_an_older_one_may_drain(node: Node) -> None:
    later = DeviceSession(node.keys, node.device, 2).hello()
    with pytest.raises(PeerError, match="device-incarnation"):
        node.gateway.sessions.greet(later, 0.0)
    node.gateway.enrolments[node.device] = Enrolment(node.keys.public_key, 2)
    node.gateway.sessions.greet(later, 0.0)
    node.gateway.sessions.greet(encode(hello_of(node).frame()), 0.0)


def test_a_welcome_from_another_gateway_is_refused(node: Node) -> None:
    session = DeviceSession(node.keys, node.device, 1)
    body = session.hello()
    welcome = Welcome.of(decode_one(node.gateway.sessions.greet(body, 0.0))[0])
    with pytest.raises(PeerError, match="session-gateway-signature"):
        session.welcome(replace(welcome, signature=bytes(64)).frame(), 0.0)
    assert session.state is SessionState.GREETING


def test_a_late_welcome_to_the_hello_before_is_dropped_without_alarm(node: Node) -> None:
    session = DeviceSession(node.keys, node.device, 1)
    late = node.gateway.sessions.greet(session.hello(), 0.0)
    newer = node.gateway.sessions.greet(session.hello(), 0.0)
    assert not session.welcome(decode_one(late)[0], 0.0)
    assert session.welcome(decode_one(newer)[0], 0.0)
    assert session.state is SessionState.OPEN


def test_a_repeated_exchange_is_answered_but_not_fresh(node: Node) -> None:
    body = opened(node).seal([])
    assert node.gateway.sessions.open(body, 0.0)[2]
    assert not node.gateway.sessions.open(body, 0.0)[2]


@pytest.mark.covers("T12")
def test_an_older_session_is_fenced_when_a_newer_one_is_used_not_when_it_is_opened(node: Node) -> None:
    old = opened(node)
    node.gateway.sessions.open(old.seal([]), 0.0)
    recorded = encode(hello_of(node).frame())
    for _ in range(20):
        node.gateway.sessions.greet(recorded, 0.0)  # somebody repeats an old HELLO: no harm
    node.gateway.sessions.open(old.seal([]), 0.0)
    assert len(node.gateway.sessions) < 10
    new = opened(node)
    node.gateway.sessions.open(new.seal([]), 0.0)
    with pytest.raises(PeerError, match="session-unknown"):
        node.gateway.sessions.open(old.seal([]), 0.0)


def test_a_session_ends_with_its_lifetime_or_its_enrolment(node: Node) -> None:
    session = opened(node)
    assert session.is_open(3599.0)
    assert not session.is_open(3600.0)
    with pytest.raises(PeerError, match="session-expired"):
        node.gateway.sessions.open(session.seal([]), 3600.0)
    session = opened(node)
    assert node.gateway.sessions.revoke(node.device) == 1
    with pytest.raises(PeerError, match="session-unknown"):
        node.gateway.sessions.open(session.seal([]), 0.0)


def test_sessions_of_devices_that_go_to_another_gateway_end_and_those_of_others_do_not() -> None:
    node = pair()
    session = opened(node)
    node.gateway.sessions.end(lambda device: device != node.device)
    assert node.gateway.sessions.open(session.seal([]), 0.0).fresh
    node.gateway.sessions.end(lambda device: device == node.device)
    with pytest.raises(PeerError, match="session-unknown"):
        node.gateway.sessions.open(session.seal([]), 0.0)


def test_expired_sessions_are_forgotten() -> None:
    node = pair(lifetime_s=10)
    opened(node)
    node.gateway.sessions.expire(11.0)
    assert len(node.gateway.sessions) == 0


def test_a_gateway_that_restarted_knows_no_session() -> None:
    node = pair()
    session = opened(node)
    gateway = Gateway({}, Random(2))
    sessions = GatewaySessions(gateway.keys, gateway)
    with pytest.raises(PeerError, match="session-unknown"):
        sessions.open(session.seal([]), 0.0)


def test_recorded_hellos_do_not_push_out_the_session_a_slow_device_waits_for(node: Node) -> None:
    recorded = [DeviceSession(node.keys, node.device, 1).hello() for _ in range(50)]
    for body in recorded:
        node.gateway.sessions.greet(body, 0.0)
    slow = opened(node)
    answers = {node.gateway.sessions.greet(body, second) for second in range(60) for body in recorded}
    assert len(answers) == len(recorded)  # each the answer it had, no new session
    assert len(node.gateway.sessions) == len(recorded) + 1
    assert node.gateway.sessions.open(slow.seal([]), 60.0).fresh
    for body in recorded:
        with pytest.raises(PeerError, match="hello-spent"):
            node.gateway.sessions.greet(body, 61.0)
    assert len(node.gateway.sessions) == 1


def test_a_hello_repeated_by_the_network_opens_one_session(node: Node) -> None:
    session = DeviceSession(node.keys, node.device, 1)
    body = session.hello()
    first, second = (node.gateway.sessions.greet(body, 0.0) for _ in range(2))
    assert first == second
    session.welcome(decode_one(second)[0], 0.0)
    assert node.gateway.sessions.open(session.seal([]), 0.0).fresh


def test_sessions_that_nobody_used_are_forgotten_soon_and_in_any_number(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = node.gateway.sessions
    monkeypatch.setattr(module, "PENDING_PER_DEVICE_MAX", 10)
    monkeypatch.setattr(module, "SPENT_MAX", 15)
    for _ in range(30):
        sessions.greet(DeviceSession(node.keys, node.device, 1).hello(), 0.0)
    assert len(sessions) == 10
    assert len(sessions._spent) == 15
    used = opened(node, 1.0)
    sessions.open(used.seal([]), 1.0)
    sessions.greet(DeviceSession(node.keys, node.device, 1).hello(), 2.0)
    sessions.expire(module.PENDING_S + 1.5)
    assert len(sessions) == 2
    sessions.expire(module.PENDING_S + 2.0)
    assert len(sessions) == 1  # the one in use
    assert sessions.open(used.seal([]), module.PENDING_S + 2.0).fresh
    assert sessions.revoke(node.device) == 1
    assert not sessions._devices
    assert not sessions._pending


def test_waiting_sessions_of_all_devices_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PENDING_MAX", 7)
    node = pair()
    for _ in range(20):
        node.gateway.sessions.greet(DeviceSession(node.keys, node.device, 1).hello(), 0.0)
    assert len(node.gateway.sessions) == 7
