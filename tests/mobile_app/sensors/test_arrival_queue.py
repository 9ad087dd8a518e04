"""Readings that come when they like: order, frontiers, thinning, overrun. Times are event times, one to one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_app.sensors import arrival_queue as module
from mobile_app.sensors.arrival_queue import Arrivals
from mobile_app.sensors.polling import PolledValue
from mobile_app.sensors.readings import Readings
from mobile_app.sensors.source import SensorMissing


def arrivals(every_us: int = 10, from_us: int = 0, held_back_us: int = 0) -> Arrivals:
    return Arrivals(
        ("x",), every_us=every_us, from_us=from_us, event_time=lambda boot_us: boot_us, held_back_us=held_back_us
    )


def test_readings_from_after_the_read_wait_for_the_next():
    queue = arrivals()
    queue.extend([(5, (1.0,)), (15, (2.0,)), (25, (3.0,))])
    assert queue.read(20).columns["x"].tolist() == [1.0, 2.0]
    assert queue.read(30).columns["x"].tolist() == [3.0]
    assert len(queue.read(40)) == 0


def test_the_frontier_waits_a_turn_for_what_is_still_on_its_way():
    """
    reads        |100      |200           (asleep)          |5000     |5250
    readings  90 .          .  1000 2000 (in the sensor hub) . arrive  .
    frontier   90|      100|                            200 |    2000 |
    """
    queue = arrivals()
    queue.append(90, (0.0,))
    assert queue.read(100).frontier_us == 90
    assert queue.read(200).frontier_us == 100
    assert queue.read(5000).frontier_us == 200
    queue.extend([(1000, (1.0,)), (2000, (2.0,))])
    samples = queue.read(5250)
    assert samples.time_us.tolist() == [1000, 2000]
    assert samples.frontier_us == 5000
    assert queue.late == 0


def test_what_comes_later_still_is_kept_at_the_frontier_and_counted():
    queue = arrivals(held_back_us=50)
    queue.read(100)
    queue.read(200)  # frontier 50
    queue.append(20, (7.0,))
    samples = queue.read(300)
    assert samples.time_us.tolist() == [50]
    assert samples.columns["x"].tolist() == [7.0]
    assert queue.late == 1


def test_a_faster_sensor_is_thinned_and_a_jittering_one_is_not():
    twice = arrivals(every_us=20)
    twice.extend([(time_us, (0.0,)) for time_us in range(0, 2000, 10)])
    assert len(twice.read(2000)) == pytest.approx(100, abs=2)
    jitter = arrivals(every_us=20)
    jitter.extend([(20 * step + (step * 7) % 9 - 4 + 10, (0.0,)) for step in range(100)])
    assert len(jitter.read(3000)) == 100


def test_a_node_that_does_not_come_keeps_the_newest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUEUE_MAX", 100)
    queue = arrivals(every_us=1)
    queue.extend([(time_us, (float(time_us),)) for time_us in range(250)])
    assert queue.overrun == 150
    assert queue.read(1000).columns["x"].tolist() == [float(time_us) for time_us in range(150, 250)]
    assert queue.overrun == 150


def test_samples_tell_of_each_overrun_once_and_the_readings_sum_them_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUEUE_MAX", 100)
    queue, readings = arrivals(every_us=1), Readings()
    source = readings.watch("x", queue, 1)  # type: ignore[arg-type]
    queue.extend([(time_us, (0.0,)) for time_us in range(250)])
    assert [source.read(1000).overruns, source.read(2000).overruns] == [150, 0]
    queue.extend([(time_us, (0.0,)) for time_us in range(2000, 2107)])
    source.read(3000)
    assert readings.states()["x"]["overruns"] == 157


def test_on_request_the_newest_reading_answers():
    queue = arrivals(every_us=0)
    assert len(queue.at(np.asarray([5]))) == 0
    queue.extend([(5, (1.0,)), (6, (2.0,))])
    assert len(queue.read(10)) == 0
    assert queue.at(np.asarray([11, 12])).columns["x"].tolist() == [2.0, 2.0]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3)), max_size=40),
    st.lists(st.integers(1, 300), min_size=1, max_size=10),
)
def test_times_never_go_back_and_never_before_a_frontier_given_out(readings, steps):
    queue, frontier, last, until = arrivals(every_us=5), 0, 0, 0
    waiting = [(time_us, (float(delay),)) for time_us, delay in readings]
    for step in steps:
        until += step
        queue.extend(waiting[:5])
        del waiting[:5]
        samples = queue.read(until)
        times = samples.time_us.tolist()
        assert times == sorted(times)
        assert all(last <= time_us < max(until, last + 1) and time_us >= frontier for time_us in times)
        assert frontier <= samples.frontier_us <= until
        frontier, last = samples.frontier_us, times[-1] if times else last


def test_a_polled_value_is_asked_once_a_period_and_missed_periods_are_not_made_up():
    asked: list[int] = []
    source = PolledValue(lambda: {"level": asked.append(0) or len(asked)}, ("level",), every_us=100, from_us=0)
    times = [
        time_us for until in (50, 100, 120, 140, 1000, 1010, 1101) for time_us in source.read(until).time_us.tolist()
    ]
    assert times == [49, 119, 999, 1100]
    assert source.at(np.asarray([2000])).columns["level"].tolist() == [5]


def test_a_polled_value_that_cannot_be_had_is_a_trouble_and_no_end():
    answers: list[object] = [SensorMissing("no permission", code="sensor-refused"), None, {"level": 1.0}]

    def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, SensorMissing):
            raise answer
        return answer

    source = PolledValue(ask, ("level",), every_us=10, from_us=0)
    assert (len(source.read(20)), source.trouble) == (0, "no permission")
    assert (len(source.read(40)), source.trouble) == (0, "")
    assert len(source.read(60)) == 1
