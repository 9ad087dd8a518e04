"""Code that does not return is interrupted where it is, and never a step later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest

from mobile_app.node import watchdog
from mobile_app.node.watchdog import Watchdog
from shared.hosting.watching import OperatorHangs
from tests.claims import Claim
from tests.patience import let_pass, wait_until

CALLS = 10_000
NOBODY_INSIDE_S = 0.1  # twice as long as the watchdog waits
STEPS_MAX = 4_000  # about as long as it takes to be interrupted


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def dog(said: list[str]) -> Iterator[Watchdog]:
    one = Watchdog(0.05, said.append)
    yield one
    one.close()


def forever() -> None:
    while True:
        pass


def test_what_returns_in_time_is_left_alone(dog: Watchdog) -> None:
    assert dog.run(lambda: 7, "seven") == 7
    with pytest.raises(ZeroDivisionError):
        dog.run(lambda: 1 // 0, "wrong")
    let_pass(NOBODY_INSIDE_S)


def test_what_does_not_return_is_interrupted_again_and_again(dog: Watchdog) -> None:
    for _ in range(3):
        with pytest.raises(OperatorHangs, match=r"within 0.05 s and was interrupted \[operator-hangs\]"):
            dog.run(forever, "a loop")
        assert dog.run(lambda: 7, "seven") == 7


def test_an_operator_that_catches_exceptions_does_not_catch_this_one(dog: Watchdog) -> None:
    def stubborn() -> None:
        while True:
            try:
                forever()
            except Exception:
                continue

    with pytest.raises(OperatorHangs):
        dog.run(stubborn, "a loop")


def test_what_cannot_be_interrupted_is_said_and_interrupted_when_it_can_be(dog: Watchdog, said: list[str]) -> None:
    with pytest.raises(OperatorHangs):
        dog.run(lambda: [time.sleep(0.5), forever()], "a sleep")
    assert said == ["a sleep does not return and cannot be interrupted: until it does, this node is silent"]


def test_where_python_cannot_be_asked_to_it_is_said(
    dog: Watchdog, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_set_async_exc", lambda: None)
    assert dog.run(lambda: [wait_until(lambda: said), 7][1], "a loop") == 7


def test_while_nobody_looks_no_time_passes(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped, or a phone that sleeps, looks neither."""
    awake, wait = threading.Event(), dog._end.wait
    monkeypatch.setattr(dog._end, "wait", lambda seconds: awake.wait() and wait(seconds))
    assert dog.run(lambda: [time.sleep(0.2), awake.set(), 7][2], "a short work, stopped midway") == 7


def test_near_misses_never_reach_what_comes_after(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are interrupted while they end, thousands of times: the interruption comes inside or not at all."""
    dog = Watchdog(60.0, lambda _text: None)
    rng = Random("near misses")
    counted = {"returned": 0, "interrupted": 0, "raised": 0}
    escaped: list[BaseException] = []
    ended = False
    made, fired, raise_in = 0, 0, watchdog._raise_in

    def counted_raise_in(thread: int, kind: type[BaseException] | None) -> bool:
        nonlocal fired
        fired += kind is not None
        return raise_in(thread, kind)

    monkeypatch.setattr(watchdog, "_raise_in", counted_raise_in)

    def work(steps: int, raises: bool) -> int:
        for _ in range(steps):
            pass
        if raises:
            raise ArithmeticError
        return 7

    def calls() -> None:
        nonlocal ended, made
        try:
            # On a busy machine who interrupts gets its turn seldom.
            while made < CALLS or (min(counted.values()) <= CALLS // 50 and made < 100 * CALLS):
                made += 1
                steps, raises = rng.randrange(STEPS_MAX), rng.random() < 0.3
                try:
                    dog.run(partial(work, steps, raises), "work")
                    counted["returned"] += 1
                except OperatorHangs:
                    counted["interrupted"] += 1
                except ArithmeticError:
                    counted["raised"] += 1
                work(20, raises=False)  # where a late one would show
        except BaseException as error:
            escaped.append(error)
        finally:
            ended = True

    def interruptions() -> None:
        while not ended:
            dog._interrupt(dog._calls)
            time.sleep(0)

    between = sys.getswitchinterval()
    threads = [threading.Thread(target=calls), threading.Thread(target=interruptions)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(between)
        dog.close()
    missed = fired - counted["interrupted"]
    claim(f"{made} calls, {fired} interruptions, {missed} of them too late, {len(escaped)} escaped")
    assert not escaped
    assert sum(counted.values()) == made >= CALLS
    assert not dog._lock.locked()
    assert min(counted["returned"], counted["raised"], counted["interrupted"]) > CALLS // 50
