"""Nothing a rollback within the horizon could need is ever collected, and what is kept stays little."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.recovery.retention import HOUR_S, THINNING, Point, Retention, first_of_every, thinned, trims, within_bytes
from shared.recovery.rollback import Rule, VertexManifest, rollback
from tests.claims import Claim

NOON_S = 1_800_000_000.0
DAY_S = 24 * HOUR_S


def test_every_epoch_is_kept_for_a_while_and_the_newest_whatever_their_age() -> None:
    times = {epoch: NOON_S + 60.0 * epoch for epoch in range(1, 31)}
    assert first_of_every(times, Retention(keep=2), NOON_S + 60.0 * 30) == 20
    assert first_of_every(times, Retention(keep=2), NOON_S + DAY_S) == 29
    assert first_of_every({}, Retention(), NOON_S) == 0


@pytest.mark.covers("SO-31")
@pytest.mark.soak
def test_over_a_day_of_seconds_few_points_are_kept_and_none_is_far(claim: Claim) -> None:
    """As collection does it: every twenty epochs, judging only what is still there."""
    retention, kept, most = Retention(), dict[int, float](), 0
    for epoch in range(1, int(1.5 * DAY_S) + 1):
        now_s = NOON_S + epoch
        kept[epoch] = now_s
        if epoch % 20 == 0:
            first = first_of_every(kept, retention, now_s)
            points = thinned(kept, retention, now_s)
            kept = {each: at_s for each, at_s in kept.items() if each >= first or each in points}
            most = max(most, len(points))
    claim(f"{len(kept)} of {epoch} epochs kept after a day and a half, at most {most} points")
    assert most <= 130
    assert len(kept) < 600 + 20 + most + 1
    ordered = sorted(kept)
    assert now_s - kept[ordered[0]] >= DAY_S
    for before, after in itertools.pairwise(ordered):
        assert kept[after] - kept[before] <= max(1.0, 2 * (now_s - kept[before]) / THINNING)


def test_without_hours_there_are_no_points_not_even_of_this_second() -> None:
    times = {epoch: NOON_S + epoch / 100 for epoch in range(1, 31)}
    assert thinned(times, Retention(every_s=0.0, hours=0.0), NOON_S + 0.5) == []
    assert thinned(times, Retention(every_s=0.0, hours=1.0), NOON_S + 0.5) == [1]


@st.composite
def days(draw: st.DrawFn) -> tuple[dict[int, float], Retention]:
    gaps = draw(st.lists(st.floats(0.1, 20_000.0), min_size=1, max_size=60))
    times, at_s = {}, NOON_S
    for epoch, gap in enumerate(gaps, 1):
        at_s += gap
        times[epoch] = at_s
    every_s, hours = draw(st.floats(0.0, 5_000.0)), draw(st.floats(0.0, 48.0))
    return times, Retention(keep=2, every_s=every_s, hours=hours)


@given(days(), st.floats(0.0, 100_000.0), st.floats(0.0, 100_000.0))
def test_thinning_twice_keeps_what_thinning_once_would(
    day: tuple[dict[int, float], Retention], first_s: float, more_s: float
) -> None:
    times, retention = day
    early = max(times.values()) + first_s
    young = {epoch for epoch in times if early - times[epoch] <= retention.every_s}
    between = {epoch: times[epoch] for epoch in {*thinned(times, retention, early), *young}}
    later = early + more_s
    assert thinned(between, retention, later) == thinned(times, retention, later)


@given(days(), st.floats(0.0, 100_000.0))
def test_from_any_epoch_the_next_point_before_is_near(day: tuple[dict[int, float], Retention], later_s: float) -> None:
    times, retention = day
    now_s = max(times.values()) + later_s
    points = thinned(times, retention, now_s)
    for epoch, at_s in times.items():
        age_s = now_s - at_s
        if retention.every_s < age_s <= retention.hours * HOUR_S:
            near = max((each for each in points if each <= epoch), default=None)
            assert near is not None
            assert at_s - times[near] <= max(1.0, age_s / THINNING)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=12),
    st.sets(st.integers(1, 12)),
    st.integers(0, 5000),
)
def test_points_fit_into_their_bytes_and_savepoints_stay(
    sizes: list[tuple[int, int]], named: set[int], bytes_max: int
) -> None:
    log = [sum(each for _, each in sizes[index:]) for index in range(len(sizes))]
    points = {epoch: Point(NOON_S, files, log[epoch - 1]) for epoch, (files, _) in enumerate(sizes, 1)}
    left = within_bytes(points, named, Retention(bytes_max=bytes_max))
    assert named & points.keys() <= {*left}
    if left and not {*left} <= named:
        assert sum(points[epoch].file_bytes for epoch in left) + points[left[0]].log_bytes <= bytes_max
    gone = points.keys() - {*left}
    assert all(epoch in named for epoch in left if gone and epoch < max(gone))  # the oldest go first


@pytest.mark.covers("SO-31")
def test_an_edge_is_trimmed_only_to_its_slowest_reader_s_oldest_snapshot() -> None:
    inputs = {"a": (), "fast": ("a",), "slow": ("a",)}
    kept = {"a": range(8, 11), "fast": range(8, 11), "slow": range(2, 5)}
    answer = trims(inputs, kept, ())
    assert answer.records == {"a": 2, "fast": 8, "slow": 2}
    assert answer.log == 8


def test_the_log_is_trimmed_only_to_the_oldest_point() -> None:
    answer = trims({"a": (), "b": ("a",)}, {"a": range(8, 11), "b": range(8, 11)}, [3, 6])
    assert answer.records == {"a": 8, "b": 8}
    assert answer.log == 3


def test_a_reader_without_any_stable_snapshot_keeps_everything() -> None:
    answer = trims({"a": (), "b": ("a",)}, {"a": [10], "b": []}, ())
    assert answer.records["a"] == 0


@pytest.mark.covers("SO-31")
@given(st.data(), st.sampled_from(list(Rule)))
def test_after_collection_every_rollback_to_what_is_kept_still_finds_what_it_needs(
    data: st.DataObject, rule: Rule
) -> None:
    names = "abcde"
    inputs = {
        name: tuple(source for source in names[:index] if data.draw(st.booleans())) for index, name in enumerate(names)
    }
    position = data.draw(st.integers(3, 20))
    newest = range(position - data.draw(st.integers(0, min(6, position - 1))), position + 1)
    points = data.draw(st.sets(st.integers(1, newest[0])))
    answer = trims(inputs, dict.fromkeys(names, newest), points)
    manifests = {
        name: VertexManifest(
            inputs=inputs[name],
            position=position,
            snapshots=frozenset({*newest, *points}),
            deterministic=data.draw(st.booleans()),
        )
        for name in names
    }
    recorded_from = {name: answer.records[name] + 1 for name in names}
    failed, to = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(sorted({*newest, *points})))
    plan = rollback({failed}, manifests, to=to, rule=rule, recorded_from=recorded_from)
    assert plan.epoch == to
    for name in plan.rollback:  # each finds its input: recorded, made again, or in the log
        assert all(source in plan.rollback or to + 1 >= recorded_from[source] for source in inputs[name])
        assert inputs[name] or answer.log <= to
    if to in newest:
        assert plan.rollback == rollback({failed}, manifests, to=to, rule=rule).rollback  # no loss grew it
