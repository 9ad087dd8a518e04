"""Why did it stop: conditions, incidents, and what a start makes of the last end."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobile_app.condition.health import INCIDENT_LASTS_US, ORDER, REMEDIES, SLOT_BYTES, Health


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(home: Path, clock: Clock, boot: str = "one") -> Health:
    return Health(home, wall_us=clock, boot=boot)


def codes(health: Health) -> list[str]:
    return [entry["code"] for entry in health.entries()]


def test_a_node_that_never_said_it_ended_was_killed(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.began()
    clock.now_us = 5_000_000
    health.note_alive()
    health.close()
    again = opened(tmp_path, clock)
    again.began()
    (entry,) = again.entries()
    assert (entry["code"], entry["since"], entry["over"]) == ("killed", 5_000_000, True)
    assert "battery optimisation" in entry["remedy"]


def test_after_a_reboot_nobody_is_accused_of_killing(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.began()
    health.close()
    again = opened(tmp_path, clock, boot="two")
    again.began()
    assert codes(again) == ["rebooted"]


def test_an_orderly_end_leaves_nothing_but_its_reason(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.began()
    health.hold({"not-paired": "no gateway"})
    health.ended()
    health.close()
    again = opened(tmp_path, clock)
    again.began()
    assert codes(again) == []
    again.ended("storage-full", "no room")
    again.close()
    last = opened(tmp_path, clock)
    last.began()
    assert codes(last) == ["storage-full"]


def test_a_condition_keeps_its_beginning_and_goes_when_it_is_over(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.hold({"no-network": "none"})
    clock.now_us += 60_000_000
    health.hold({"no-network": "still none", "battery-floor": "4 %"})
    assert [(entry["code"], entry["since"]) for entry in health.entries()] == [
        ("battery-floor", 61_000_000),
        ("no-network", 1_000_000),
    ]
    health.hold({})
    assert codes(health) == []


def test_an_incident_stays_for_a_day_or_until_it_is_dismissed(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.happened("clock-jump", "an hour")
    health.happened("storage-low", "full")
    assert codes(health) == ["storage-low", "clock-jump"]
    health.dismiss("storage-low")
    assert codes(health) == ["clock-jump"]
    clock.now_us += INCIDENT_LASTS_US + 1
    assert codes(health) == []


def test_a_torn_slot_costs_the_newest_words_and_nothing_else(tmp_path, clock):
    health = opened(tmp_path, clock)
    health.happened("clock-jump", "first")
    health.happened("storage-low", "second")
    health.close()
    stored = bytearray((tmp_path / "health").read_bytes())
    for start in (0, SLOT_BYTES):  # whichever slot is torn, the other one speaks
        torn = bytearray(stored)
        torn[start + 20] ^= 0xFF
        (tmp_path / "health").write_bytes(torn)
        assert codes(opened(tmp_path, clock))[-1] == "clock-jump"


def test_it_never_grows_so_that_it_can_be_written_on_a_full_disk(tmp_path, clock):
    health = opened(tmp_path, clock)
    for number in range(200):
        health.happened("clock-jump", f"{number} " + "ä" * 500)
    health.hold(dict.fromkeys(REMEDIES, "ü" * 500))
    assert (tmp_path / "health").stat().st_size == 2 * SLOT_BYTES
    assert len(opened(tmp_path, clock).entries()) >= len(REMEDIES)


def test_every_code_has_a_place_and_a_remedy():
    assert all(REMEDIES[code] for code in ORDER)
