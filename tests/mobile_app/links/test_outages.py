"""Outage schedules: text, files and seeded draws."""

from __future__ import annotations

import pytest

from mobile_app.links.outages import parse_outages
from shared.errors import UsageError


def test_a_written_schedule_is_down_in_its_spans_only():
    outages = parse_outages("10+8,30+12")
    states = [(second, outages.down(second)) for second in (0, 9.9, 10, 17.9, 18, 29, 30, 41.9, 42, 1000)]
    assert [second for second, down in states if down] == [10, 17.9, 30, 41.9]


def test_an_exchange_that_meets_an_outage_half_way_is_seen():
    outages = parse_outages("10+8")
    assert not outages.overlap(0, 9)
    assert outages.overlap(8, 11)
    assert outages.overlap(17, 25)
    assert not outages.overlap(18, 25)


def test_outages_are_counted_as_they_begin():
    outages = parse_outages("10+8,30+12")
    assert [outages.begun(second) for second in (0, 11, 20, 31, 50)] == [0, 1, 1, 2, 2]


def test_a_schedule_can_be_a_file_with_comments(tmp_path):
    path = tmp_path / "tunnel.txt"
    path.write_text("# the tunnel\n5+2\n9+1.5  # and the garage\n")
    outages = parse_outages(str(path))
    assert [second for second in (0, 5, 8, 9, 10, 11) if outages.down(second)] == [5, 9, 10]


def test_a_drawn_schedule_is_the_same_for_the_same_seed():
    first, second = parse_outages("random:7"), parse_outages("random:7")
    assert [first.down(step / 4) for step in range(2000)] == [second.down(step / 4) for step in range(2000)]
    assert first.begun(500) > 10


@pytest.mark.parametrize("text", ["ten+5", "5-3", "10+8,12+2", "nowhere.txt"])
def test_a_malformed_schedule_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="outages-format"):
        parse_outages(text)


def test_an_outage_that_must_be_felt_waits_for_an_exchange_and_lets_one_through_before_the_next():
    schedule = parse_outages("10+1~,12+1~,30+1")
    assert not schedule.down(10.4), "nothing got through since the start"
    schedule.answered()
    assert schedule.down(10.5)
    assert schedule.down(15), "nobody has tried yet"
    schedule.refused()
    assert not schedule.down(15.1), "the second would begin, but nothing got through since the first"
    schedule.answered()
    assert schedule.down(15.2)
    schedule.refused()
    assert schedule.down(15.3) is False
    assert schedule.down(30.5)
    assert not schedule.down(31.5), "others end when they end"
    assert (schedule.felt, schedule.begun(40)) == (2, 3)
