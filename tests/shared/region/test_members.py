"""Who is in a region: positions, dwelling, leaving."""

from __future__ import annotations

import pytest

from shared.plan.area import Area
from shared.region.controller import RegionChanged, State
from shared.region.member import Members, Place, Seen

STOP = Area(((1.3521, 103.8198),), 20.0)
HERE, NEAR, AWAY = (1.3521, 103.8198), (1.35222, 103.8198), (1.3524, 103.8198)  # 0, 13 and 33 metres


def test_a_circle_and_a_polygon_know_who_is_inside() -> None:
    assert [STOP.contains(point) for point in (HERE, NEAR, AWAY)] == [True, True, False]
    square = Area(((0.0, 179.9999), (0.0, -179.9999), (0.0002, -179.9999), (0.0002, 179.9999)))
    assert square.contains((0.0001, 180.0)), "also where degrees begin again"
    assert not square.contains((0.0001, 179.9998))
    assert not square.contains((0.0003, 180.0))
    notched = Area(((0.0, 0.0), (0.0, 0.0004), (0.0004, 0.0004), (0.0002, 0.0002), (0.0004, 0.0)))
    assert notched.contains((0.0001, 0.0002))
    assert not notched.contains((0.0003, 0.0002)), "in the notch"


@pytest.mark.covers("MS-5")
def test_a_phone_that_stays_becomes_a_member_and_one_that_passes_by_does_not() -> None:
    members = Members(STOP, dwell_s=30.0)
    assert members.look("a", Seen(HERE), 0.0) is Place.DWELLING
    assert members.look("b", Seen(HERE), 10.0) is Place.DWELLING
    assert members.next_wake() == 30.0
    assert members.look("b", Seen(AWAY), 20.0) is Place.OUTSIDE
    assert members.look("a", Seen(NEAR), 30.0) is Place.IDLE
    assert members.look("b", Seen(HERE), 31.0) is Place.DWELLING, "it begins to dwell anew"
    assert members.look("c", Seen(None), 60.0) is Place.OUTSIDE, "who does not say where it is, is not here"


def test_a_fix_that_may_be_on_either_side_of_the_border_decides_nothing() -> None:
    square = Area(((0.0, 0.0), (0.0, 0.001), (0.001, 0.001), (0.001, 0.0)))  # 111 metres wide
    assert [round(area.border_m(point)) for area, point in ((STOP, NEAR), (STOP, AWAY), (square, (0.0005, 0.0001)))] == [
        7, 13, 11,
    ]  # fmt: skip
    assert [STOP.side(NEAR, metres) for metres in (5.0, 10.0)] == [True, None]
    assert [square.side((0.0005, -0.0001), metres) for metres in (5.0, 20.0)] == [False, None]
    members = Members(STOP, dwell_s=0.0)
    assert members.look("a", Seen(AWAY, accuracy_m=20.0), 0.0) is Place.OUTSIDE
    assert members.look("a", Seen(HERE, accuracy_m=5.0), 1.0) is Place.IDLE
    assert members.look("a", Seen(AWAY, accuracy_m=20.0), 2.0) is Place.IDLE
    assert members.look("a", Seen(AWAY, accuracy_m=5.0), 3.0) is Place.OUTSIDE


@pytest.mark.covers("MS-32")
def test_who_is_inside_and_not_reached_is_tried_for_a_while_and_then_departs() -> None:
    members = Members(STOP, 30.0, registered=("a",))
    lost = Seen(HERE, hosts=True, reached=False)
    assert members.look("a", lost, 0.0) is Place.URGENT
    assert members.next_wake() == 15.0
    assert members.look("a", Seen(HERE, hosts=True), 10.0) is Place.HOSTING, "it was rebuilt"
    assert [members.look("a", lost, now) for now in (20.0, 34.9, 35.0)] == [Place.URGENT, Place.URGENT, Place.LEAVING]
    assert members.look("a", Seen(HERE, reached=False), 36.0) is Place.OUTSIDE, "what it ran has been handed over"
    assert members.look("a", Seen(HERE), 37.0) is Place.DWELLING, "reached again, it stays anew"


@pytest.mark.covers("MS-30")
def test_who_goes_is_leaving_while_it_runs_something_and_then_outside() -> None:
    members = Members(STOP, 30.0, registered=("a", "b"))
    assert members.look("a", Seen(HERE, hosts=True), 0.0) is Place.HOSTING, "a restarted coordinator knows it"
    assert members.look("a", Seen(None, hosts=True), 1.0) is Place.HOSTING
    assert members.look("a", Seen(HERE, hosts=True, reached=False), 2.0) is Place.URGENT
    assert members.look("a", Seen(AWAY, hosts=True, reached=False), 3.0) is Place.LEAVING
    assert members.look("a", Seen(AWAY), 4.0) is Place.OUTSIDE
    assert members.look("b", Seen(HERE), 4.0) is Place.IDLE
    assert members.look("b", Seen(HERE, leaving=True), 5.0) is Place.OUTSIDE, "it says so itself"
    members.lost("a")
    assert members.look("a", Seen(HERE), 6.0) is Place.DWELLING


def test_a_region_that_changes_is_told_in_words() -> None:
    assert str(RegionChanged("stop2", State.RUNNING, 5)) == "region stop2 is running, 5 members"
