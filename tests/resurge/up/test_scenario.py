"""The story of a run follows from its length and its phones."""

from __future__ import annotations

import pytest

from mobile_app.links.outages import parse_outages
from resurge.up.scenario import kills, phone_stories, shift_outages


@pytest.mark.parametrize("length_s", [20, 60, 300])
def test_three_phones_have_at_least_three_outages_that_end_before_the_run(length_s):
    stories = phone_stories(3, length_s)
    assert sum(story.outage_count for story in stories) >= 3
    for story in stories:
        schedule = parse_outages(story.outages)
        for tenths in range(10 * length_s):  # a phone that always has something to say
            (schedule.refused if schedule.down(tenths / 10) else schedule.answered)()
        assert schedule.felt == schedule.begun(length_s) == story.outage_count


def test_a_phone_that_arrives_late_has_its_outages_all_the_same():
    [story, *_] = phone_stories(1, 30)
    schedule = parse_outages(story.outages)
    assert not schedule.down(15.0), "it has never got through"
    schedule.answered()
    assert schedule.down(15.1)


def test_one_phone_sits_behind_the_relay():
    assert [story.behind_relay for story in phone_stories(3, 60)] == [False, True, False]


def test_names_and_seeds_are_never_shared():
    stories = phone_stories(20, 60)
    assert len({story.name for story in stories}) == len({story.seed for story in stories}) == 20


def test_a_run_without_end_draws_other_outages_for_each_phone():
    schedules = [parse_outages(story.outages) for story in phone_stories(3, None)]
    seconds = [tuple(second for second in range(600) if schedule.down(second)) for schedule in schedules]
    assert all(0 < len(down) < 600 for down in seconds)
    assert len(set(seconds)) == 3


def test_chaos_kills_each_kind_once_and_leaves_time_to_recover():
    assert sorted(kill.target for kill in kills(60)) == ["gateway", "phone", "relay", "spark"]
    assert max(kill.latest_s for kill in kills(60)) < 60 * 0.75


def test_spark_is_killed_once_it_has_something_to_lose_and_in_any_case_once():
    [spark] = [kill for kill in kills(100) if kill.target == "spark"]
    assert [spark.due(at_s, results) for at_s, results in ((49, 5), (51, 0), (51, 1), (75, 0))] == [
        False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outages", "by_s", "left"),
    [
        #  0    5    10   15   20
        #       xxxxxx    xxxxxx
        ("5+5,15+5", 0, "5.0+5.0,15.0+5.0"),
        ("5+5,15+5", 7, "0.0+3.0,8.0+5.0"),
        ("5+5,15+5", 12, "3.0+5.0"),
        ("5+5,15+5", 20, ""),
        ("5+5~,15+5~", 7, "0.0+3.0~,8.0+5.0~"),
        ("random:3", 9, "random:3"),
    ],
)
def test_a_phone_that_starts_again_gets_what_is_left_of_its_schedule(outages, by_s, left):
    assert shift_outages(outages, by_s) == left
