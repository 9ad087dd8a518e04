"""A delay is a failure when a recovery begun later would be too late."""

from __future__ import annotations

import pytest

from shared.recovery.delays import REMEMBERED, DelayWatch


@pytest.mark.covers("EC-15")
def test_recovery_begins_when_the_delay_left_is_as_long_as_a_recovery_takes() -> None:
    watch = DelayWatch(bound_s=60.0, recovery_s=10.0)
    assert not watch.must_recover(50.0), "a temporary failure: still in time"
    assert watch.next_look(20.0, now=100.0) == 130.0
    assert watch.must_recover(50.1)
    watch.began(now=0.0)
    assert not watch.must_recover(55.0), "one is under way"
    assert watch.next_look(55.0, now=5.0) is None
    watch.ended(now=25.0)
    assert not watch.must_recover(35.0)
    assert watch.must_recover(35.1), "it took 25 s, as measured"


def test_a_slow_recovery_is_forgotten_after_enough_faster_ones() -> None:
    watch = DelayWatch(60.0, 10.0)
    for took in (30.0, *[2.0] * REMEMBERED):
        watch.began(0.0)
        watch.ended(took)
        watch.ended(99.0)  # said again
    assert watch.recovery_s == 2.0


def test_a_promise_shorter_than_a_recovery_leaves_no_time_to_wait() -> None:
    watch = DelayWatch(5.0, 10.0)
    assert not watch.must_recover(0.0)
    assert watch.must_recover(0.1)
    assert watch.next_look(0.0, now=7.0) == 7.0
