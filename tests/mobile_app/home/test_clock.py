"""Event time: measured once per boot, never going back."""

from __future__ import annotations

import pytest

from mobile_app.home.clock import open_clock

HOUR_US = 3_600_000_000


class World:
    """A boot clock and a wall clock that a test moves as it likes."""

    def __init__(self) -> None:
        self.boot_us, self.wall_us, self.boot_id = 5_000_000, 1_700_000_000_000_000, "boot-1"

    def pass_time(self, microseconds: int) -> None:
        self.boot_us += microseconds
        self.wall_us += microseconds

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
