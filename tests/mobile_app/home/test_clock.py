"""Event time: measured at the first start in a boot, following the wall clock slowly, never going back."""

from __future__ import annotations

import json

import pytest

from mobile_app.home.clock import SLEW_NOTICE_US, open_clock

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000


class World:
    """A boot clock and a wall clock that a test moves as it likes."""

    def __init__(self) -> None:
        self.boot_us, self.wall_us, self.boot_id = 5_000_000, 1_700_000_000_000_000, "boot-1"

    def pass_time(self, microseconds: int) -> None:
        self.boot_us += microseconds
        self.wall_us += microseconds

    def tick(self, microseconds: int) -> int:
        self.boot_us += microseconds
        return self.boot_us

    def open(self, home, **options):
        return open_clock(home, boot=lambda: self.boot_us, wall=lambda: self.wall_us, this_boot=self.boot_id, **options)


def test_event_time_starts_as_wall_time_and_follows_the_boot_clock(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    assert clock.now_us() == world.wall_us
    world.pass_time(7)
    assert clock.now_us() == world.wall_us


@pytest.mark.parametrize("jump_us", [-HOUR_US, HOUR_US])
def test_a_jump_of_the_wall_clock_does_not_move_event_time(tmp_path, jump_us):
    world = World()
    before = world.open(tmp_path).now_us()
    world.pass_time(1_000_000)
    world.wall_us += jump_us
    assert world.open(tmp_path).now_us() == before + 1_000_000


def test_a_reboot_measures_the_offset_anew(tmp_path):
    world = World()
    world.open(tmp_path)
    world.boot_us, world.boot_id = 100, "boot-2"
    world.wall_us += HOUR_US
    assert world.open(tmp_path).now_us() == world.wall_us


def test_a_reboot_into_the_past_goes_on_from_the_frontier_and_says_how_unsure_it_is(tmp_path):
    world = World()
    world.open(tmp_path)
    frontier_us = world.wall_us
    world.boot_us, world.boot_id = 100, "boot-2"
    world.wall_us -= HOUR_US
    clock = world.open(tmp_path, not_before_us=frontier_us)
    assert clock.now_us() == frontier_us
    assert clock.anchor.uncertainty_us >= HOUR_US


def test_compressed_time_runs_faster_and_survives_a_restart(tmp_path):
    world = World()
    start_us = world.open(tmp_path, speed=60.0).now_us()
    world.pass_time(2_000_000)
    assert world.open(tmp_path, speed=60.0).now_us() == start_us + 120_000_000


def test_compressed_time_never_runs_ahead_of_the_wall_clock(tmp_path):
    world = World()
    clock = world.open(tmp_path, speed=60.0)
    assert clock.now_us() < world.wall_us
    world.pass_time(2 * HOUR_US)
    assert clock.now_us() == world.wall_us


def test_a_change_of_speed_never_takes_event_time_back(tmp_path):
    world = World()
    world.open(tmp_path, speed=60.0)
    world.pass_time(2_000_000)
    reached_us = world.open(tmp_path, speed=60.0).now_us()
    assert world.open(tmp_path, speed=1.0).now_us() >= reached_us


def test_the_origin_stays_the_first_event_time_of_the_home(tmp_path):
    world = World()
    origin_us = world.open(tmp_path).anchor.origin_us
    world.boot_id, world.wall_us = "boot-2", world.wall_us + HOUR_US
    assert world.open(tmp_path).anchor.origin_us == origin_us


def follow_for(world, clock, microseconds, *, every_us=MINUTE_US, drift=0.0):
    """So much time in steps; event time is looked at in each. Returns how fast it ran at most and at least."""
    paces = []
    for _ in range(microseconds // every_us):
        before_us = clock.now_us()
        world.boot_us += every_us
        world.wall_us += round(every_us * (1 + drift))
        clock.follow()
        paces.append((clock.now_us() - before_us) / every_us)
    return max(paces), min(paces)


@pytest.mark.parametrize("wrong_us", [-20_000_000, 20_000_000])
def test_a_wrong_first_measurement_is_taken_in_slowly_and_wholly(tmp_path, wrong_us):
    """The phone booted without a network, and got the right time a minute later."""
    world = World()
    clock = world.open(tmp_path)
    world.pass_time(MINUTE_US)
    world.wall_us += wrong_us
    at_once_us = clock.now_us()
    clock.follow()
    assert clock.now_us() == at_once_us  # no step, and least of all back
    assert abs(clock.uncertainty_us - abs(wrong_us)) <= 10
    pace = 1 + wrong_us / abs(wrong_us) / 200
    assert follow_for(world, clock, HOUR_US) == (pytest.approx(pace), pytest.approx(pace))
    assert abs(world.wall_us - clock.now_us() - wrong_us // 10) <= 100  # 18 s of 20 in an hour
    follow_for(world, clock, HOUR_US)
    assert abs(world.wall_us - clock.now_us()) <= 10
    assert clock.uncertainty_us <= 10


def test_a_drifting_quartz_is_followed(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    follow_for(world, clock, 24 * HOUR_US, drift=20e-6)  # 1.7 s a day
    assert abs(world.wall_us - clock.now_us()) <= SLEW_NOTICE_US + 2000


def test_an_hour_put_in_by_mistake_and_taken_out_again_hardly_moves_event_time(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    world.wall_us += HOUR_US
    follow_for(world, clock, HOUR_US)
    world.wall_us -= HOUR_US
    clock.follow()
    assert 17_000_000 < clock.now_us() - world.wall_us < 19_000_000
    follow_for(world, clock, 2 * HOUR_US)
    assert abs(world.wall_us - clock.now_us()) <= 10


def test_a_reading_that_arrives_late_keeps_the_time_of_its_moment(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    stamps = []
    for number in range(30):
        world.pass_time(MINUTE_US)
        world.wall_us += (-1) ** number * 3_000_000  # a wall clock that cannot make up its mind
        stamps.append((world.boot_us, clock.at(world.boot_us)))
        clock.follow()
    assert [clock.at(boot_us) for boot_us, _ in stamps] == [event_us for _, event_us in stamps]
    assert sorted(event_us for _, event_us in stamps) == [event_us for _, event_us in stamps]


def test_a_start_in_the_middle_of_a_correction_goes_on_with_it(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    world.wall_us += 20_000_000
    follow_for(world, clock, HOUR_US // 2)
    again = world.open(tmp_path)
    assert again.now_us() == clock.now_us()
    follow_for(world, again, HOUR_US)
    assert abs(world.wall_us - again.now_us()) <= 10


def test_a_reboot_into_the_past_is_left_slowly_too(tmp_path):
    world = World()
    frontier_us = world.open(tmp_path).now_us()
    world.boot_us, world.boot_id, world.wall_us = 100, "boot-2", world.wall_us - 10_000_000
    clock = world.open(tmp_path, not_before_us=frontier_us)
    assert follow_for(world, clock, HOUR_US)[1] >= 0.99
    assert abs(world.wall_us - clock.now_us()) <= 10
    assert clock.uncertainty_us <= 10


def test_compressed_time_and_a_reading_that_took_too_long_correct_nothing(tmp_path):
    world = World()
    clock = world.open(tmp_path, speed=60.0)
    world.wall_us += HOUR_US
    anchor = clock.anchor
    follow_for(world, clock, 10 * MINUTE_US)
    assert clock.anchor == anchor
    (tmp_path / "slow").mkdir()
    slow = open_clock(
        tmp_path / "slow", boot=lambda: world.tick(300_000), wall=lambda: world.wall_us, this_boot="boot-1"
    )
    world.wall_us += HOUR_US
    anchor = slow.anchor
    world.boot_us += MINUTE_US
    slow.follow()
    assert slow.anchor == anchor


def test_a_small_difference_costs_no_write(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    written = (tmp_path / "clock.json").read_bytes()
    world.wall_us += SLEW_NOTICE_US
    follow_for(world, clock, HOUR_US)
    assert (tmp_path / "clock.json").read_bytes() == written


def test_a_clock_file_of_the_version_before_is_read(tmp_path):
    world = World()
    clock = world.open(tmp_path)
    kept = json.loads((tmp_path / "clock.json").read_text())
    del kept["slew_us"]
    (tmp_path / "clock.json").write_text(json.dumps(kept))
    world.pass_time(7)
    assert world.open(tmp_path).now_us() == clock.now_us()
