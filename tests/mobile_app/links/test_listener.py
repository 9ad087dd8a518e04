"""The thread that hears of news: a nudge, nothing while at rest, and patience with one who cries wolf."""

from __future__ import annotations

import queue
import threading

import pytest

from mobile_app.condition.policy import DeviceCondition, may_wait
from mobile_app.links import listener as module
from mobile_app.links.link import LinkDown
from mobile_app.links.listener import Listener
from tests.patience import PATIENCE_S


class Gateway:
    """Answers each wait as the test says."""

    def __init__(self) -> None:
        self.asked: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bool | Exception] = queue.Queue()

    def wait(self, body: bytes) -> bool:
        self.asked.put(body)
        answer = self.answers.get(timeout=PATIENCE_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def next(self) -> bytes:
        return self.asked.get(timeout=PATIENCE_S)


@pytest.fixture
def world(monkeypatch):
    gateway, nudges = Gateway(), queue.Queue()
    monkeypatch.setattr(module, "PAUSE_S_MIN", 0.01)
    listener = Listener(gateway.wait, lambda: nudges.put(True))
    yield gateway, nudges, listener
    listener.close()
    gateway.answers.put(False)
    listener._thread.join(PATIENCE_S)
    assert not listener._thread.is_alive()


def test_news_nudges_once_and_nothing_is_asked_until_the_loop_says_so(world):
    gateway, nudges, listener = world
    listener.listen(b"one")
    assert gateway.next() == b"one"
    gateway.answers.put(False)
    assert gateway.next() == b"one"  # it waits on
    gateway.answers.put(True)
    nudges.get(timeout=PATIENCE_S)
    assert listener.heard()
    assert not listener.heard()
    assert gateway.asked.empty()
    listener.listen(b"two")
    assert gateway.next() == b"two"
    assert nudges.empty()


def test_at_rest_nothing_is_asked_again(world):
    gateway, _, listener = world
    listener.listen(b"one")
    assert gateway.next() == b"one"
    listener.rest()
    gateway.answers.put(False)
    listener.listen(b"two")
    assert gateway.next() == b"two"


def test_news_that_brought_nothing_is_believed_later_each_time(world, monkeypatch):
    gateway, nudges, listener = world
    pauses: list[float] = []
    monkeypatch.setattr(listener._changed, "wait_for", lambda _done, seconds: pauses.append(seconds), raising=False)
    for _ in range(10):
        listener.listen(b"one")  # as before: the exchange brought nothing
        assert gateway.next() == b"one"
        gateway.answers.put(True)
        nudges.get(timeout=PATIENCE_S)
    assert pauses == [min(module.PAUSE_S_MAX, pauses[0] * 2**number) for number in range(9)]
    listener.listen(b"two")  # something did come
    assert gateway.next() == b"two"
    assert len(pauses) == 9


def test_a_link_that_is_down_is_asked_again_after_a_pause(world):
    gateway, nudges, listener = world
    listener.listen(b"one")
    for _ in range(3):
        assert gateway.next() == b"one"
        gateway.answers.put(LinkDown("away"))
    assert gateway.next() == b"one"
    gateway.answers.put(True)
    nudges.get(timeout=PATIENCE_S)


def test_news_that_brought_something_is_believed_again_at_once_though_the_request_is_the_same(world, monkeypatch):
    gateway, nudges, listener = world
    monkeypatch.setattr(module, "PAUSE_S_MIN", PATIENCE_S)
    listener._pause_s = PATIENCE_S
    for _ in range(3):
        listener.listen(b"one")
        assert gateway.next() == b"one"
        gateway.answers.put(True)
        nudges.get(timeout=PATIENCE_S)
        listener.came()
    listener.listen(b"one")
    assert gateway.next() == b"one"
    gateway.answers.put(True)
    nudges.get(timeout=PATIENCE_S)
    listener.listen(b"one")  # nothing came of it: it rests
    listener.came()  # and then something did
    assert gateway.asked.get(timeout=PATIENCE_S / 2) == b"one"


def test_closing_ends_the_thread():
    listener = Listener(lambda _body: False, lambda: None)
    listener.close()
    listener._thread.join(PATIENCE_S)
    assert listener._thread not in threading.enumerate()


@pytest.mark.parametrize(
    ("condition", "watched", "expected"),
    [
        (DeviceCondition(), False, True),
        (DeviceCondition(battery=0.2, charging=False), False, False),
        (DeviceCondition(battery=0.2, charging=True), False, True),
        (DeviceCondition(battery=0.2, charging=False), True, True),
        (DeviceCondition(network="cellular"), False, False),
        (DeviceCondition(network="wifi", metered=True), False, False),
        (DeviceCondition(network="wifi", battery=0.9, charging=False), False, True),
    ],
)
def test_who_may_wait_by_policy(condition: DeviceCondition, watched: bool, expected: bool):
    assert may_wait(condition, watched=watched) is expected
