"""Repeats, states that expire, silences and sequences, against their definitions in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from resurge.evaluate import whole_fragment
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.errors import UsageError
from shared.stream.stream import Stream

SECOND = 1_000_000
COLUMNS = {"x": "float64", "n": "int64", "tag": "str"}
Row = tuple[int, str, float, int, str]  # time, device, x, n, tag


def source(name: str = "a") -> Stream:
    return rs.sensor(name, every="1s", columns=COLUMNS)


def sample(seed: int, rows: int = 150) -> list[Row]:
    """A little out of time order, several rows of one time."""
    draw = np.random.default_rng(seed)
    times = (np.sort(draw.integers(0, 90, rows)) + draw.integers(0, 3, rows)) * SECOND // 2
    x = draw.choice([0.5, -0.0, 0.0, np.nan, 2.5], rows)
    tags = draw.choice(["p", "q"], rows)
    return [
        (int(times[at]), ("d1", "d2")[int(draw.integers(0, 2))], float(x[at]), int(draw.integers(0, 9)), str(tags[at]))
        for at in range(rows)
    ]


def given(rows: list[Row]) -> dict[str, list[object]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(("time", "device", "x", "n", "tag"))}


def got(stream: Stream, *names: str, **inputs: list[Row]) -> list[tuple[object, ...]]:
    out = rs.evaluate(stream, {name: given(rows) for name, rows in inputs.items()})["out"]
    return list(zip(*(out[name].tolist() for name in names), strict=True))


# --- distinct -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_distinct_drops_what_was_kept_less_than_within_before_or_after(seed: int) -> None:
    rows, within = sample(seed), 4 * SECOND
    kept: list[Row] = []
    for row in rows:
        same = [
            each
            for each in kept
            if each[1] == row[1] and (repr(each[2] + 0.0), each[4]) == (repr(row[2] + 0.0), row[4])
        ]
        if all(abs(row[0] - each[0]) >= within for each in same):
            kept.append(row)
    found = got(source().distinct("x", "tag", within="4s"), "time", "device", "n", a=rows)
    assert found == [(row[0], row[1], row[3]) for row in kept]
    assert 10 < len(kept) < len(rows)


def test_distinct_of_no_columns_compares_them_all() -> None:
    rows: list[Row] = [(0, "d", 1.0, 1, "p"), (1, "d", 1.0, 1, "p"), (2, "d", 1.0, 2, "p"), (3, "e", 1.0, 1, "p")]
    assert got(source().distinct(within="1s"), "time", a=rows) == [(0,), (2,), (3,)]


def test_a_regular_repeat_comes_through_once_in_each_stretch() -> None:
    rows: list[Row] = [(second * SECOND, "d", 1.0, 1, "p") for second in range(12)]
    assert got(source().distinct("tag", within="5s"), "time", a=rows) == [(0,), (5 * SECOND,), (10 * SECOND,)]


# --- state that expires -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_key_without_a_row_for_so_long_begins_anew(seed: int, keep: bool) -> None:
    rows, expire = sample(seed, 60), 3 * SECOND
    totals: dict[str, tuple[int, int]] = {}
    expected = []
    for time, device, _, n, _ in rows:
        total, last = totals.get(device, (0, time))
        if time - last >= expire:
            total, last = 0, time
        totals[device] = (total + n, max(last, time))
        expected.append((time, device, total + n))
    stream = source().state({"total": 0}, keep=keep, expire="3s", total=state.total + col.n)
    assert got(stream, "time", "device", "total", a=rows) == expected
    plainly = got(source().state({"total": 0}, keep=keep, total=state.total + col.n), "total", a=rows)
    assert plainly != [(total,) for *_, total in expected]


def test_a_state_that_is_no_sum_expires_too() -> None:
    rows: list[Row] = [(second * SECOND, "d", 1.0, n, "p") for second, n in ((0, 1), (1, 7), (9, 2), (10, 3))]
    first = rs.if_else(state.first < 0, col.n, state.first)
    assert got(source().state({"first": -1}, expire="5s", first=first), "first", a=rows) == [(1,), (1,), (2,), (2,)]


def test_expire_and_config_exclude_each_other() -> None:
    config = rs.stream("config", {"total": "int64"})
    with pytest.raises(UsageError) as caught:
        source().state({"total": 0}, config=config, expire="3s", total=state.total + col.n)
    assert caught.value.code == "state-expire"


# --- what is kept -----------------------------------------------------------------------------------------------------

VERBS = {
    "distinct": lambda x: x.distinct("n", within="10s"),
    "state": lambda x: x.state({"total": 0}, expire="10s", total=state.total + col.n),
}


@pytest.mark.parametrize("name", VERBS)
def test_memory_follows_what_still_counts_and_restores_change_nothing(name: str) -> None:
    """50,000 keys that come once each: a state of all of them would take megabytes."""
    stream = VERBS[name](rs.stream("x", {"k": "int64", "n": "int64"}).sync("x").key_by("k"))
    fragment = whole_fragment(rs.plan_of(stream))
    whole, cut, follower = Pipeline(fragment), Pipeline(fragment), Pipeline(fragment)
    follower.restore(cut.snapshot())
    out: list[list[object]] = [[], []]
    for step in range(100):
        numbers = np.arange(step * 500, step * 500 + 500)
        times = numbers * SECOND // 50
        columns = {"device": ["d"] * 500, "k": np.where(numbers % 7 == 0, numbers - 300, numbers), "n": numbers % 3}
        batch = Batch.of(fragment.inputs[0].schema, columns, times, lo=step * 500)
        for place, pipeline in enumerate((whole, cut)):
            made = [*pipeline.push("x", batch), *pipeline.advance_devices("x", {"d": int(times[-1])})]
            out[place] += [
                row for _, rows in made for row in zip(*(c.tolist() for c in rows.columns.values()), strict=True)
            ]
        if step % 3 == 0:
            follower.apply_changes(cut.changes_since_snapshot())
        if step % 7 == 0:
            follower.apply_changes(cut.changes_since_snapshot())
            state_bytes = follower.snapshot()
            cut, follower = Pipeline(fragment), Pipeline(fragment)
            cut.restore(state_bytes)
            follower.restore(state_bytes)
    assert out[0] == out[1]
    assert len(out[0]) > 40_000
    assert len(whole.snapshot()) < 400_000
    assert len(whole.distinct_keys(("k",))) < 5_000


@pytest.mark.parametrize("name", VERBS)
def test_a_late_row_finds_nothing_that_the_frontier_has_left_behind_whenever_it_was_swept(name: str) -> None:
    stream = VERBS[name](rs.stream("x", {"n": "int64"}))
    fragment = whole_fragment(rs.plan_of(stream))

    def run(frontiers: list[int]) -> list[object]:
        pipeline = Pipeline(fragment)

        def push(time: int, number: int) -> list[object]:
            batch = Batch.of(fragment.inputs[0].schema, {"device": ["d"], "n": [5]}, [time * SECOND], lo=number)
            return [
                value
                for _, rows in pipeline.push("x", batch)
                for value in rows.columns.values()
                for value in value.tolist()
            ]

        push(0, 0)
        for at in frontiers:
            pipeline.advance("x", at * SECOND)
        return push(1, 1)

    assert run([10]) == run([1, 3, 9, 10]) == run([9, 10])  # begins anew, and is no repeat
    assert run([9]) == run([1, 9]) != run([10])


# --- silences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_absent_has_a_row_for_every_silence(seed: int) -> None:
    rows, length = sample(seed, 60), 2 * SECOND
    expected = []
    for device in ("d1", "d2"):
        times = sorted(row[0] for row in rows if row[1] == device)
        began = times[0]
        for at, time in enumerate(times):
            if at + 1 == len(times) or times[at + 1] - time >= length:
                expected.append((time + length - 1, began, device, time))
                began = times[min(at + 1, len(times) - 1)]
    found = got(source().absent("2s"), "time", "window_start", "device", "silent_since", a=rows)
    assert found == sorted(expected)
    assert len(found) > 5


def test_a_silence_is_told_once_when_the_frontier_passes_its_end() -> None:
    fragment = whole_fragment(rs.plan_of(rs.stream("x", {"n": "int64"}).absent("10m")))
    pipeline = Pipeline(fragment)
    minute = 60 * SECOND
    pipeline.push("x", Batch.of(fragment.inputs[0].schema, {"device": ["d"], "n": [5]}, [minute], lo=0))
    told = [len(rows) for at in (2, 10, 11, 12, 60) for _, rows in pipeline.advance("x", at * minute)]
    assert told == [1]


# --- sequences --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_each_row_with_the_first_that_follows_within_the_time(seed: int) -> None:
    first, second, within = sample(seed, 60), sample(seed + 100, 40), 2 * SECOND
    pairs = []
    for number, row in enumerate(first):
        later = [(each[0], place) for place, each in enumerate(second) if each[1] == row[1] and each[0] > row[0]]
        if later and min(later)[0] - row[0] <= within:
            time, place = min(later)
            pairs.append((time, row[1], number, place))
    expected = [(time, device, first[number][0], second[place][3]) for time, device, number, place in sorted(pairs)]
    stream = source("a").extend(began=col.time).followed_by(source("b").select(other=col.n), within="2s")
    assert got(stream, "time", "device", "began", "other", a=first, b=second) == expected
    assert 5 < len(expected) < 60


def test_three_in_a_row_and_what_comes_too_late() -> None:
    s = SECOND
    streams = [rs.stream(name, {name: "int64"}) for name in "abc"]
    stream = streams[0].followed_by(streams[1], within="5s").followed_by(streams[2], within="5s")
    inputs = {
        "a": {"time": [0, 10 * s, 20 * s], "a": [1, 2, 3]},
        "b": {"time": [0, 4 * s, 15 * s, 26 * s], "b": [1, 2, 3, 4]},
        "c": {"time": [9 * s, 21 * s], "c": [1, 2]},
    }
    out = rs.evaluate(stream, inputs)["out"]
    assert [out[name].tolist() for name in ("time", "a", "b", "c")] == [[9 * s], [1], [2], [1]]


def test_rows_wait_only_as_long_as_something_may_follow() -> None:
    a, b = (rs.stream(name, {name: "int64"}) for name in "ab")
    fragment = whole_fragment(rs.plan_of(a.followed_by(b, within="5s")))
    pipeline = Pipeline(fragment)
    for number in range(2_000):
        batch = Batch.of(fragment.input("a").schema, {"device": ["d"], "a": [number]}, [number * SECOND], lo=number)
        pipeline.push("a", batch)
        for name in "ab":
            pipeline.advance(name, number * SECOND)
    assert len(pipeline.snapshot()) < 1_000
    assert not [rows for name in "ab" for _, rows in pipeline.advance(name, END_OF_TIME) if len(rows)]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: source().distinct("speed", within="1s"), "column-unknown"),
        (lambda: source().distinct("tag", within="soon"), "duration"),
        (lambda: source().absent("0s"), "duration"),
        (lambda: source().followed_by(source("b").sync("up").key_by("tag"), within="1s"), "graph-alphabet"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        wrong()
    assert caught.value.code == code
