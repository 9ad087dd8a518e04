"""Joining and leaving an area: dwell, borders, and a network that is gone although the device is not."""

from __future__ import annotations

import pytest

from mobile_app.condition.region_membership import Area, Departed, Rebuild, RegionMembership, Register

AREA = Area(47.37, 8.54, 300.0)
IN = (47.3701, 8.5401)
OUT = (47.38, 8.54)  # 1.1 km north


def stayed() -> RegionMembership:
    presence = RegionMembership(AREA, dwell_s=60.0, attempts_max=3, rebuild_every_s=5.0)
    presence.position(0.0, *IN)
    assert presence.wake(60.0) == [Register()]
    return presence


@pytest.mark.covers("MS-5")
def test_a_device_registers_only_when_it_has_stayed():
    """in 0 s, out 50 s, in 55 s: it passed by. It registers at 115 s."""
    presence = RegionMembership(AREA, dwell_s=60.0)
    assert presence.position(0.0, *IN) == []
    assert presence.next_wake() == 60.0
    assert presence.position(50.0, *OUT) == []
    assert presence.position(55.0, *IN) == []
    assert presence.position(70.0, *IN) == []
    assert presence.wake(114.0) == []
    assert presence.position(115.0, *IN) == [Register()]
    assert presence.wake(200.0) == []


def test_a_fix_whose_uncertainty_crosses_the_border_decides_nothing():
    presence = stayed()
    assert presence.position(70.0, *OUT, 2000.0) == []
    assert presence.registered
    late = RegionMembership(AREA, dwell_s=0.0)
    assert late.position(0.0, *IN, 500.0) == []
    assert not late.inside


def test_leaving_the_area_is_said_once_and_coming_back_takes_the_dwell_time_again():
    presence = stayed()
    assert presence.position(100.0, *OUT) == [Departed("left")]
    assert presence.position(101.0, *OUT) == []
    assert presence.position(110.0, *IN) == []
    assert presence.wake(170.0) == [Register()]


@pytest.mark.covers("MS-32")
def test_a_lost_link_inside_the_area_is_rebuilt_a_few_times_before_the_device_counts_as_departed():
    presence = stayed()
    assert presence.link_lost(100.0) == [Rebuild(1)]
    assert presence.link_lost(100.5) == []
    assert presence.wake(104.0) == []
    assert presence.wake(105.0) == [Rebuild(2)]
    assert presence.wake(110.0) == [Rebuild(3)]
    assert presence.wake(115.0) == [Departed("unreachable")]
    assert not presence.registered


def test_a_link_that_comes_back_ends_the_attempts():
    presence = stayed()
    presence.link_lost(100.0)
    presence.link_rebuilt()
    assert presence.wake(200.0) == []
    assert presence.registered
    assert presence.link_lost(300.0) == [Rebuild(1)]


def test_a_lost_link_outside_is_a_departure_and_before_registration_it_is_nothing():
    presence = stayed()
    presence._inside_since = None  # positions stopped, the last one was outside by less than its uncertainty
    assert presence.link_lost(100.0) == [Departed("left")]
    assert RegionMembership(AREA, dwell_s=60.0).link_lost(0.0) == []
