"""Positions that pause while the phone lies still, under a clock of our own."""

from __future__ import annotations

import numpy as np
import pytest

from mobile_app.sensors.source import Samples
from mobile_app.sensors.still import LOOK_EVERY_S, LOOK_S, STILL_S, PausesWhenStill

HOME = (47.0, 8.0)


class Receiver:
    """A positioning receiver and the phone's motion sensor; it moves when told."""

    def __init__(self) -> None:
        self.on, self.on_s, self.now = True, 0.0, 0.0
        self.asked, self.motion_there, self.has_fired, self.starts = False, True, False, 1
        self.fixes: list[tuple[float, float, float, float]] = []
        self.trouble = "no position for 5 min"
        self.closed = False

    # the source
    def read(self, until_us: int) -> Samples:
        fixes, self.fixes = self.fixes if self.on else [], []
        columns = dict(zip(("lat", "lon", "accuracy", "speed"), np.asarray(fixes, float).reshape(-1, 4).T, strict=True))
        return Samples(np.arange(len(fixes)), columns, until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return Samples(time_us[:0], {}, 0)

    def sample_every(self, period_us: int) -> None:
        assert self.on

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        assert self.on
        self.on = False

    def go_on(self) -> None:
        assert not self.on
        self.on = True
        self.starts += 1

    # the motion sensor
    def motion(self) -> Receiver:
        return self

    def arm(self) -> bool:
        self.asked, self.has_fired = self.motion_there, False
        return self.motion_there

    def disarm(self) -> None:
        self.asked = False

    def fired(self) -> bool:
        return self.has_fired

    def move(self) -> None:
        """What the hardware does: it speaks once, to whoever has asked."""
        if self.asked:
            self.asked, self.has_fired = False, True


class World:
    def __init__(self) -> None:
        self.phone = Receiver()
        self.wanted = True
        self.source = PausesWhenStill(self.phone, is_wanted=lambda: self.wanted, now=lambda: self.phone.now)

    def pass_time(
        self, seconds: float, *, turn_s: float = 5.0, fix: tuple[float, ...] | None = (*HOME, 5.0, 0.0)
    ) -> None:
        end = self.phone.now + seconds
        while self.phone.now < end:
            self.phone.now += turn_s
            self.phone.on_s += turn_s * self.phone.on
            if fix is not None:
                self.phone.fixes.append(fix)
            self.source.read(0)


@pytest.fixture
def world() -> World:
    return World()


def test_after_five_minutes_without_motion_the_receiver_rests(world):
    world.pass_time(STILL_S - 10)
    assert world.phone.on
    world.pass_time(20)
    assert not world.phone.on
    assert world.source.is_paused
    assert world.source.trouble == ""  # silence is what was asked for


def test_motion_starts_it_again_at_once(world):
    world.pass_time(400)
    world.phone.move()
    world.pass_time(5)
    assert world.phone.on
    assert world.source.trouble == "no position for 5 min"
    world.pass_time(STILL_S + 10)
    assert not world.phone.on  # and it lies still again


def test_a_phone_on_the_way_is_not_asked_for_motion_every_few_seconds(world):
    asked = 0
    for _ in range(120):  # ten minutes of walking: every asked-for motion is seen at once
        before = world.phone.asked
        world.pass_time(5, fix=None)
        asked += world.phone.asked and not before
        world.phone.move()
    assert world.phone.on
    assert asked <= 5


@pytest.mark.parametrize("fix", [(*HOME, 5.0, 1.5), "away"])
def test_a_train_that_the_motion_sensor_does_not_feel_is_seen_in_the_positions(world, fix):
    for minute in range(20):
        place = (HOME[0] + minute * 0.001, HOME[1], 5.0, np.nan)
        world.pass_time(60, fix=place if fix == "away" else fix)
    assert world.phone.on
    assert world.phone.starts == 1


def test_fixes_that_wander_within_their_accuracy_are_no_motion(world):
    for minute in range(10):
        world.pass_time(60, fix=(HOME[0] + 0.002 * (minute % 2), HOME[1], 300.0, 0.0))
    assert not world.phone.on


def test_it_looks_every_quarter_of_an_hour_whatever_the_sensor_says(world):
    world.pass_time(6 * 3600)
    share = world.phone.on_s / world.phone.now
    expected = LOOK_S / (LOOK_EVERY_S + LOOK_S)
    assert share == pytest.approx(expected, abs=0.03)
    while world.phone.on:
        world.pass_time(5)
    elsewhere = (HOME[0] + 0.01, HOME[1], 5.0, 0.0)  # it was carried away, and the sensor did not notice
    while not world.phone.on:
        world.pass_time(5, fix=elsewhere)
    world.pass_time(STILL_S - 20, fix=elsewhere)
    assert world.phone.on


def test_a_phone_without_a_motion_sensor_never_pauses(world):
    world.phone.motion_there = False
    world.pass_time(3600)
    assert world.phone.on


def test_it_is_the_persons_choice_and_ends_with_it(world):
    world.wanted = False
    world.pass_time(3600)
    assert world.phone.on
    assert not world.phone.asked
    world.wanted = True
    world.pass_time(400)
    assert not world.phone.on
    world.wanted = False
    world.pass_time(5)
    assert world.phone.on
    assert not world.phone.asked


def test_what_is_read_on_request_pauses_too(world):
    for _ in range(100):
        world.phone.now += 5
        world.source.at(np.arange(3))
    assert not world.phone.on


def test_another_period_and_the_end_leave_nothing_behind(world):
    world.pass_time(400)
    world.source.sample_every(5_000_000)
    assert world.phone.on
    world.pass_time(400)
    world.source.close()
    assert world.phone.closed
    assert not world.phone.asked


def test_only_what_can_be_paused_is_taken():
    with pytest.raises(TypeError):
        PausesWhenStill(object(), is_wanted=lambda: True, now=lambda: 0.0)
