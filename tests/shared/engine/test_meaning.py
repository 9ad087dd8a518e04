"""Each operator against its definition, written out in plain Python over small random streams."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.engine.time_windows import TimeWindows
from shared.plan.placement import device_fragment
from shared.stream.stream import Stream

SECOND = 1_000_000
COLUMNS = {"x": "float64", "n": "int64", "tag": "str"}
Row = tuple[int, str, float, int, str]  # time, device, x, n, tag


def source(name: str = "a") -> Stream:
    return rs.sensor(name, every="1s", columns=COLUMNS)


def sample(seed: int, rows: int = 120) -> list[Row]:
    draw = np.random.default_rng(seed)
    times = (np.sort(draw.integers(0, 40, rows)) + draw.integers(0, 3, rows)) * SECOND // 2
    x = draw.standard_normal(rows) * 100
    x[draw.random(rows) < 0.1] = np.nan
    return [
        (
            int(time),
            "d1" if draw.random() < 0.5 else "d2",
            float(value),
            int(draw.integers(-9, 9)),
            str(draw.choice(["p", "q", "é"])),
        )
        for time, value in zip(times, x, strict=True)
    ]


def given(rows: list[Row]) -> dict[str, list[object]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(("time", "device", "x", "n", "tag"))}


def got(stream: Stream, *names: str, **inputs: list[Row]) -> list[tuple[object, ...]]:
    out = rs.evaluate(stream, {name: given(rows) for name, rows in inputs.items()})["out"]
    return [tuple(_plain(value) for value in row) for row in zip(*(out[name].tolist() for name in names), strict=True)]


def _plain(value: object) -> object:
    return "missing" if isinstance(value, float) and math.isnan(value) else value


def values(rows: list[Row]) -> list[float]:
    return [row[2] for row in rows if not math.isnan(row[2])]


def left_sum(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:
        total += number
    return total


def windows_of(rows: list[Row], size: int, hop: int) -> dict[tuple[int, str], list[Row]]:
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        first = (row[0] - size) // hop + 1
        for start in range(first * hop, row[0] + 1, hop):
            found.setdefault((start, row[1]), []).append(row)
    return dict(sorted(found.items()))


AGGREGATES: dict[str, tuple[object, Callable[[list[Row]], object]]] = {
    "count": (rs.count(), len),
    "present": (rs.count("x"), lambda rows: len(values(rows))),
    "whole": (rs.sum("n"), lambda rows: sum(row[3] for row in rows)),
    "low": (rs.min("x"), lambda rows: min(values(rows), default="missing")),
    "high": (rs.max("x"), lambda rows: max(values(rows), default="missing")),
    "tag": (rs.min("tag"), lambda rows: min(row[4] for row in rows)),
    "oldest": (rs.first("n"), lambda rows: min(enumerate(rows), key=lambda pair: (pair[1][0], pair[0]))[1][3]),
    "newest": (rs.last("n"), lambda rows: max(enumerate(rows), key=lambda pair: (pair[1][0], pair[0]))[1][3]),
    "kinds": (rs.distinct("tag"), lambda rows: len({row[4] for row in rows})),
    "top": (
        rs.top_k("tag", 1),
        lambda rows: min(Counter(row[4] for row in rows).items(), key=lambda pair: (-pair[1], pair[0]))[0],
    ),
}


@pytest.mark.covers("SO-4", "SO-5")
@pytest.mark.parametrize("hop", [5, 2, 3])
@pytest.mark.parametrize("name", AGGREGATES)
def test_time_windows_hold_the_rows_that_their_definition_says(name: str, hop: int) -> None:
    aggregate, expected = AGGREGATES[name]
    rows = sample(3)
    stream = source().hopping("5s", every=f"{hop}s").aggregate(answer=aggregate)
    column = "answer_1" if name == "top" else "answer"
    reference = [
        (start, device, expected(content))
        for (start, device), content in windows_of(rows, 5 * SECOND, hop * SECOND).items()
    ]
    assert got(stream, "window_start", "device", column, a=rows) == reference


def test_floating_sums_are_left_folds_in_stream_order() -> None:
    rows = sample(4)
    stream = source().tumbling("5s").aggregate(total=rs.sum("x"), average=rs.mean("x"))
    reference = []
    for (start, _), content in windows_of(rows, 5 * SECOND, 5 * SECOND).items():
        total = left_sum(values(content))
        reference.append((start, total, total / len(values(content)) if values(content) else "missing"))
    assert got(stream, "window_start", "total", "average", a=rows) == reference


@pytest.mark.parametrize("window", ["tumbling", "hopping", "sliding", "count_sliding", "session"])
def test_variance_quantile_way_and_waves_agree_with_numpy(window: str) -> None:
    rows = [row for row in sample(5) if row[1] == "d1"]
    opened = {
        "tumbling": lambda: source().tumbling("5s"),
        "hopping": lambda: source().hopping("5s", every="1s"),
        "sliding": lambda: source().sliding("5s"),
        "count_sliding": lambda: source().sliding(count=8),
        "session": lambda: source().session(gap="1s"),
    }[window]()
    asked = {"v": rs.variance("x"), "s": rs.std("x"), "q": rs.quantile("x", 0.3), "w": rs.dft("x", 2), "c": rs.count()}
    found = got(opened.aggregate(**asked), "window_start", "window_end", "c", "v", "s", "q", "w_1", a=rows)
    assert found
    checked = 0
    for start, end, count, variance, deviation, quantile, wave in found:
        inside = [row for row in rows if start <= row[0] < end]
        if len(inside) != count:
            continue  # several rows at one time: the span's bounds do not say which
        checked += 1
        known = values(sorted(inside, key=lambda row: row[0])) if window == "sliding" else values(inside)
        padded = [
            0.0 if math.isnan(row[2]) else row[2]
            for row in (sorted(inside, key=lambda row: row[0]) if window == "sliding" else inside)
        ]
        assert wave == pytest.approx(abs(np.fft.fft(padded)[1 % len(padded)]), rel=1e-6, abs=1e-6)
        if known:
            assert variance == pytest.approx(np.var(known), rel=1e-9, abs=1e-9)
            assert deviation == pytest.approx(np.std(known), rel=1e-7, abs=1e-6)
            assert quantile == pytest.approx(np.quantile(known, 0.3))
    assert checked > 1


def test_sessions_end_where_nothing_comes_for_the_gap() -> None:
    #  0 1 2 . . 5 . . . . 10     gap 3 s
    rows = [(at * SECOND, "d", float(at), at, "p") for at in (0, 5, 1, 2, 10)]
    stream = source().session(gap="3s").aggregate(n=rs.count(), total=rs.sum("n"))
    assert got(stream, "window_start", "window_end", "n", "total", a=rows) == [
        (0, 5 * SECOND, 3, 3), (5 * SECOND, 8 * SECOND, 1, 5), (10 * SECOND, 13 * SECOND, 1, 10),
    ]  # fmt: skip


def test_a_row_between_two_sessions_makes_them_one() -> None:
    rows = [(at * SECOND, "d", float(at), at, "p") for at in (0, 4, 2)]
    stream = source().session(gap="3s").aggregate(n=rs.count(), newest=rs.last("n"))
    assert got(stream, "window_start", "window_end", "n", "newest", a=rows) == [(0, 7 * SECOND, 3, 4)]


@pytest.mark.covers("SO-5")
@pytest.mark.parametrize(("size", "hop"), [(4, 4), (4, 2), (4, 1)])
def test_count_windows_take_each_keys_rows_in_turn(size: int, hop: int) -> None:
    rows = sample(7)
    reference = []
    seen: dict[str, list[Row]] = {}
    for row in rows:
        mine = seen.setdefault(row[1], [])
        mine.append(row)
        if len(mine) >= size and (len(mine) - size) % hop == 0:
            content = mine[-size:]
            times = [one[0] for one in content]
            reference.append(
                (
                    row[1],
                    min(times),
                    max(times) + 1,
                    sum(one[3] for one in content),
                    max(values(content), default="missing"),
                )
            )
    stream = source().hopping(count=size, every_count=hop).aggregate(s=rs.sum("n"), m=rs.max("x"))
    assert got(stream, "device", "window_start", "window_end", "s", "m", a=rows) == reference


@pytest.mark.covers("SO-5")
def test_sliding_by_time_gives_one_window_per_row() -> None:
    rows = sample(8)
    reference = []
    ordered = sorted(enumerate(rows), key=lambda pair: (pair[1][0], pair[1][1], pair[0]))
    for place, (_, row) in enumerate(ordered):
        content = [one for _, one in ordered[: place + 1] if one[1] == row[1] and one[0] > row[0] - 2 * SECOND]
        reference.append((row[0], row[1], len(content), sum(one[3] for one in content)))
    stream = source().sliding("2s").aggregate(n=rs.count(), s=rs.sum("n"))
    assert got(stream, "time", "device", "n", "s", a=rows) == reference


@pytest.mark.covers("SO-2")
def test_zip_pairs_by_number_and_combine_by_time() -> None:
    left = [(at * SECOND, "d", 0.0, at, "p") for at in (1, 2, 5)]
    right = [(at * SECOND, "d", 0.0, 10 * at, "q") for at in (2, 3)]
    a, b = source("a").select("n"), source("b").select("n")
    assert got(a.zip(b), "time", "n", "n_right", a=left, b=right) == [(2 * SECOND, 1, 20), (3 * SECOND, 2, 30)]
    assert got(a.combine(b), "time", "n", "n_right", a=left, b=right) == [
        (2 * SECOND, 2, 20), (3 * SECOND, 2, 30), (5 * SECOND, 5, 30),
    ]  # fmt: skip


@pytest.mark.covers("SO-4")
def test_join_gives_every_pair_within_the_interval() -> None:
    left, right = sample(9, 60), sample(10, 60)
    reference = sorted(
        (max(one[0], other[0]), one[1], place, number, one[3], other[3])
        for place, one in enumerate(left)
        for number, other in enumerate(right)
        if one[1] == other[1] and one[0] - SECOND <= other[0] <= one[0] + SECOND // 2
    )
    stream = source("a").select("n").join(source("b").select("n"), before="1s", after="500ms")
    found = got(stream, "time", "device", "n", "n_right", a=left, b=right)
    assert found == [(time, device, n, m) for time, device, _, _, n, m in reference]


def test_with_latest_takes_the_last_row_at_that_time_or_defaults() -> None:
    left = [(at * SECOND, "d", 0.0, at, "p") for at in (1, 2, 5)]
    right = [(at * SECOND, "d", 0.0, 10 * at, "q") for at in (2, 3)]
    a, b = source("a").select("n"), source("b").select("n")
    assert got(a.with_latest(b), "n", "n_right", a=left, b=right) == [(2, 20), (5, 30)]
    assert got(a.with_latest(b, defaults={"n": -1}), "n", "n_right", a=left, b=right) == [(1, -1), (2, 20), (5, 30)]


def test_with_latest_takes_no_row_older_than_its_tolerance() -> None:
    left, right = sample(13, 60), sample(14, 25)
    reference: list[tuple[object, ...]] = []
    for row in sorted(left, key=lambda one: (one[0], one[1])):
        before = [(one[0], place, one[3]) for place, one in enumerate(right) if one[1] == row[1] and one[0] <= row[0]]
        fresh = before and row[0] - max(before)[0] <= SECOND
        reference.append((row[0], row[1], row[3], max(before)[2] if fresh else None))
    a, b = source("a").select("n"), source("b").select("n")
    kept = got(a.with_latest(b, tolerance="1s"), "time", "device", "n", "n_right", a=left, b=right)
    assert kept == [row for row in reference if row[3] is not None]
    filled = got(
        a.with_latest(b, tolerance="1s", defaults={"n": -99}), "time", "device", "n", "n_right", a=left, b=right
    )
    assert filled == [row if row[3] is not None else (*row[:3], -99) for row in reference]
    assert 0 < len(kept) < len(filled) == len(left)


def test_a_left_join_keeps_rows_without_a_pair_at_their_own_time_in_order() -> None:
    left, right = sample(15, 40), sample(16, 15)
    reference: list[tuple[object, ...]] = []
    for place, one in enumerate(left):
        pairs = [
            (max(one[0], other[0]), one[1], place, number, one[3], other[3], "yes")
            for number, other in enumerate(right)
            if one[1] == other[1] and one[0] - SECOND <= other[0] <= one[0] + SECOND // 2
        ]
        reference += pairs or [(one[0], one[1], place, -1, one[3], 0, "")]
    b = source("b").select("n", found="yes")
    stream = source("a").select("n").join(b, before="1s", after="500ms", left=True)
    found = got(stream, "time", "device", "n", "n_right", "found", a=left, b=right)
    assert found == [(row[0], row[1], *row[4:]) for row in sorted(reference)]  # type: ignore[type-var]
    assert {row[4] for row in found} == {"yes", ""}


def test_windows_after_a_left_join_wait_for_the_rows_that_it_holds() -> None:
    left = [(at * SECOND, "d", 1.0, at, "p") for at in range(8)]
    right = [(at * SECOND, "d", 1.0, at, "p") for at in (2, 3)]
    joined = source("a").select("n").join(source("b").select("n"), after="5s", left=True)
    stream = joined.tumbling("1s").aggregate(rows=rs.count())
    plan = rs.plan_of(stream)
    pipeline = Pipeline(device_fragment(plan), device="d")
    for name, rows in (("a", left), ("b", right)):
        schema = pipeline.fragment.input(name).schema
        given_columns = {"x": [row[2] for row in rows], "n": [row[3] for row in rows], "tag": [row[4] for row in rows]}
        pipeline.push(name, Batch.of(schema, given_columns, [row[0] for row in rows]))
    found = []
    for at in range(14):
        for name in ("a", "b"):
            found += [made.columns["rows"].tolist() for _, made in pipeline.advance(name, at * SECOND) if len(made)]
    assert pipeline.late() == {}
    # a row of second s pairs with those of s .. s + 5: 0, 1 and 2 with 2 and 3 both, 3 with 3, the others with none
    assert [rows for made in found for rows in made] == [3, 4, 1, 1, 1, 1]


def test_a_join_on_other_columns_is_keyed_by_them() -> None:
    left, right = sample(17, 40), sample(18, 40)
    reference = sorted(
        (max(one[0], other[0]), one[4], one[3], other[3])
        for one in left
        for other in right
        if one[4] == other[4] and abs(one[0] - other[0]) <= SECOND
    )
    a, b = source("a").select("n", "tag").sync("a"), source("b").select("n", label=col.tag).sync("b")
    for stream in (
        a.join(b, within="1s", on={"tag": "label"}),
        a.join(b.select("n", tag=col.label), within="1s", on="tag"),
        a.key_by("tag").join(b.select("n", tag=col.label), within="1s", on=["tag"]),
    ):
        assert stream.key == ("tag",)
        assert sorted(got(stream, "time", "tag", "n", "n_right", a=left, b=right)) == reference  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda a, b: a.join(b, within="1s", on=[]), "join-on"),
        (lambda a, b: a.join(b, within="1s", on={"tag": "n"}), "join-on"),
        (lambda a, b: a.join(b, within="1s", on="nobody"), "column-unknown"),
        (lambda a, b: a.join(b, within="1s", on={"x": "x"}), "key-kind"),
        (lambda a, b: a.join(b, within="1s", on=[col.tag]), "column-name"),
        (lambda a, b: a.join(b, within="1s", defaults={"n": 1}), "join-left"),
        (lambda a, b: a.join(b, within="1s", left=True, defaults={"m": 1}), "latest-defaults"),
        (lambda a, b: a.join(b, within="1s", left=True, defaults={"n": 1.5}), "latest-defaults"),
        (lambda a, b: a.with_latest(b, tolerance="soon"), "duration"),
    ],
)
def test_a_join_that_cannot_be_is_refused_at_its_line(wrong: Callable[[Stream, Stream], Stream], code: str) -> None:
    with pytest.raises(rs.UsageError) as caught:
        wrong(source("a"), source("b"))
    assert caught.value.code == code
    assert "test_meaning.py" in str(caught.value)


def some(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[3] > 2]


CONDITIONAL = {
    "rows": (rs.count(where=col.n > 2), lambda rows: len(some(rows))),
    "values": (rs.count("x", where=col.n > 2), lambda rows: len(values(some(rows)))),
    "texts": (rs.count("tag", where=col.n > 2), lambda rows: len(some(rows))),
    "whole": (rs.sum("n", where=col.n > 2), lambda rows: sum(row[3] for row in some(rows))),
    "least": (rs.min("n", where=col.n > 2), lambda rows: min((row[3] for row in some(rows)), default=0)),
    "word": (rs.max("tag", where=col.n > 2), lambda rows: max((row[4] for row in some(rows)), default="")),
    "small": (rs.min("tag", where=col.n > 2), lambda rows: min((row[4] for row in some(rows)), default="")),
    "lowest": (rs.min("x", where=col.n > 2), lambda rows: min(values(some(rows)), default="missing")),
    "early": (
        rs.first("tag", where=col.n > 2),
        lambda rows: min(some(rows), key=lambda row: row[0])[4] if some(rows) else "",
    ),
    "kinds": (rs.distinct("tag", where=col.n > 2), lambda rows: len({row[4] for row in some(rows)})),
    "middle": (
        rs.median("n", where=col.n > 2),
        lambda rows: float(np.median([row[3] for row in some(rows)])) if some(rows) else "missing",
    ),
    "often": (rs.top_k("n", 1, where=col.n > 2), None),
    "share": (rs.count(where=col.n > 2) / rs.count(), lambda rows: len(some(rows)) / len(rows)),
    "spread": (rs.max("n") - rs.min("n") + 1, lambda rows: max(r[3] for r in rows) - min(r[3] for r in rows) + 1),
    "either": (
        rs.if_else(rs.count() > 2, rs.sum("n"), -1) * 2,
        lambda rows: 2 * (sum(row[3] for row in rows) if len(rows) > 2 else -1),
    ),
}


@pytest.mark.parametrize("opened", ["tumbling", "hopping", "session", "count", "sliding", "sliding_time"])
def test_aggregates_of_some_rows_and_arithmetic_on_aggregates(opened: str) -> None:
    rows = [row for row in sample(19) if row[1] == "d1"]
    stream = source().where(col.device == "d1")
    windows = {
        "tumbling": lambda: stream.tumbling("2s"),
        "hopping": lambda: stream.hopping("3s", every="2s"),
        "session": lambda: stream.session("1s"),
        "count": lambda: stream.tumbling(count=4),
        "sliding": lambda: stream.sliding(count=3),
        "sliding_time": lambda: stream.sliding("2s"),
    }[opened]()
    expected = {name: entry for name, entry in CONDITIONAL.items() if entry[1] is not None}
    made = windows.aggregate(**{name: entry[0] for name, entry in CONDITIONAL.items()}, window=rs.count())
    found = got(made, "window_start", "window_end", "window", *expected, a=rows)
    assert [column.name for column in made.schema][-1] == "complete"
    assert not [column.name for column in made.schema if "." in column.name]
    by_count = opened in ("count", "sliding")
    ordered = sorted(rows, key=lambda row: row[0])
    seen = 0
    for place, (start, end, count, *answers) in enumerate(found):
        if by_count:
            begin = place if opened == "sliding" else place * 4
            content = rows[begin : begin + int(str(count))]
        elif opened == "sliding_time":
            content = [row for row in ordered[: place + 1] if row[0] >= int(str(start))]
        else:
            content = [row for row in rows if int(str(start)) <= row[0] < int(str(end))]
        assert len(content) == count
        assert answers == [entry[1](content) for entry in expected.values()]  # type: ignore[operator]
        seen += len(some(content)) == 0
    assert seen or opened == "session"  # windows in which no row fits are among them


def test_a_condition_on_floats_leaves_the_sums_bits_alone() -> None:
    rows = sample(20)
    made = source().tumbling("5s").aggregate(
        total=rs.sum("x", where=col.n > 2), mean=rs.mean("x", where=col.n > 2), way=rs.path_km("x", "n", where=col.n > 2)
    )  # fmt: skip
    filtered = source().where(col.n > 2).tumbling("5s").aggregate(
        total=rs.sum("x"), mean=rs.mean("x"), way=rs.path_km("x", "n")
    )  # fmt: skip
    names = ("device", "window_start", "total", "mean", "way")
    kept = set(got(filtered, *names, a=rows))
    found = got(made, *names, a=rows)
    assert kept <= set(found)
    assert {row for row in found if row not in kept} <= {(*row[:2], 0.0, "missing", 0.0) for row in found}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda a: a.where(rs.count() > 1), "aggregate-place"),
        (lambda a: a.extend(n=rs.sum("n")), "aggregate-place"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.count(where=rs.count() > 1)), "aggregate-place"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.count(where=col.n)), "aggregate-where"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.count(where=col.nobody > 1)), "column-unknown"),
        (lambda a: a.tumbling("1s").aggregate(n=col.n), "aggregate-type"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.count() + col.n), "column-unknown"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.top_k("n", 2) + 1), "aggregate-type"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.min("tag") + 1), "expression-type"),
        (lambda a: a.tumbling("1s").aggregate(n=rs.sum("tag", where=col.n > 1)), "aggregate-type"),
    ],
)
def test_an_aggregate_in_the_wrong_place_is_refused(wrong: Callable[[Stream], Stream], code: str) -> None:
    with pytest.raises(rs.UsageError) as caught:
        wrong(source())
    assert caught.value.code == code


@pytest.mark.covers("SO-41")
def test_daily_views_add_up_the_last_days_and_a_late_row_changes_its_own_day_alone() -> None:
    day = 86_400 * SECOND
    rows = [(at * day // 4, "d", float(at), at, "p") for at in (0, 1, 3, 5, 6, 8, 9, 13)]
    stream = source("a").daily(3, lateness="9d").aggregate(n=rs.count(), total=rs.sum("n"))
    reference = []
    for last in range(6):  # days of UTC
        inside = [row for row in rows if (last - 2) * day <= row[0] < (last + 1) * day]
        reference.append(((last + 1) * day, len(inside), sum(row[3] for row in inside)))
    assert got(stream, "window_end", "n", "total", a=rows) == [row for row in reference if row[1]]
    pipeline = Pipeline(device_fragment(rs.plan_of(stream)), device="d")
    schema = pipeline.fragment.input("a").schema

    def push(at: int, number: int) -> list[tuple[int, int]]:
        batch = Batch.of(schema, {"x": [0.0], "n": [1], "tag": ["p"]}, [at], lo=number)
        outputs = [made for _, made in pipeline.push("a", batch) if len(made)]
        return [
            pair for made in outputs for pair in zip(made.time_us.tolist(), made.columns["n"].tolist(), strict=True)
        ]

    for number, at in enumerate((0, day, 2 * day, 3 * day)):
        push(at, number)
    pipeline.advance("a", 4 * day)
    pipeline.changes_since_snapshot()
    assert push(day + 7, 4) == [(2 * day - 1, 3), (3 * day - 1, 4), (4 * day - 1, 4)]  # three windows, corrected
    (windows,) = (operator for operator in pipeline._operators if isinstance(operator, TimeWindows))
    assert [number for number, pane in windows.panes.items() if pane.touched] == [1]
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(rs.UsageError, match="number of days"):
            source("a").daily(wrong)  # type: ignore[arg-type]


@pytest.mark.covers("SO-4")
def test_union_is_ordered_by_time_device_and_input() -> None:
    left, right = sample(11, 40), sample(12, 40)
    tagged = [(row[0], row[1], 0, place, row[3]) for place, row in enumerate(left)]
    tagged += [(row[0], row[1], 1, place, row[3]) for place, row in enumerate(right)]
    stream = source("a").union(source("b"))
    assert got(stream, "time", "device", "n", a=left, b=right) == [(row[0], row[1], row[4]) for row in sorted(tagged)]


@pytest.mark.covers("SO-6")
def test_a_stateful_stream_shows_the_state_after_each_row() -> None:
    rows = sample(13)
    sums: dict[str, int] = {}
    reference = []
    for row in rows:
        sums[row[1]] = sums.get(row[1], 0) + row[3]
        reference.append((row[1], sums[row[1]]))
    assert got(source().state({"s": 0}, s=rs.state.s + col.n), "device", "s", a=rows) == reference


@pytest.mark.covers("SO-13")
def test_significant_keeps_what_differs_enough_from_the_last_kept() -> None:
    rows = [
        (at * SECOND, "d", value, at, "p") for at, value in enumerate([1.0, 1.4, 1.6, 1.0, math.nan, math.nan, 9.0])
    ]
    assert got(source().significant("x", change=0.5), "n", a=rows) == [(0,), (2,), (3,), (4,), (6,)]
    places = [(at * SECOND, "d", value, 0, "p") for at, value in enumerate([0.0, 0.0001, 0.0002, 0.001])]
    far = source().extend(lat=col.x, lon=0.0).significant("lat", "lon", metres=20)
    assert got(far, "time", a=places) == [(0,), (2 * SECOND,), (3 * SECOND,)]


def test_integers_wrap_and_division_by_zero_gives_zero() -> None:
    top = 2**63 - 1
    rows = [(0, "d", 0.0, top, "p"), (1, "d", 0.0, 5, "p")]
    stream = source().extend(
        wrapped=col.n + 1, divided=col.n // (col.n - 5), rest=col.n % (col.n - 5), real=col.x / col.x
    )
    assert got(stream, "wrapped", "divided", "rest", "real", a=rows) == [
        (-(2**63), 1, 5, "missing"),
        (6, 0, 0, "missing"),
    ]
    assert got(source().tumbling("1s").aggregate(s=rs.sum("n")), "s", a=rows) == [(top + 5 - 2**64,)]


def test_no_rows_give_no_windows() -> None:
    stream = source().tumbling("1s").aggregate(n=rs.count())
    assert got(stream, "n", a=[]) == []
    assert got(source().where(col.n > 99).sliding(count=3).aggregate(n=rs.count()), "n", a=sample(1)) == []


def test_a_million_rows_at_once_equal_a_thousand_at_a_time() -> None:
    draw = np.random.default_rng(2)
    rows = 1_000_000
    columns = {
        "time": np.arange(rows) * 1000,
        "x": draw.standard_normal(rows),
        "n": draw.integers(0, 9, rows),
        "tag": np.full(rows, "t", np.dtypes.StringDType()),
    }
    stream = source().key_by("device", "n").tumbling("10s").aggregate(m=rs.mean("x"), h=rs.max("x"))
    whole = rs.evaluate(stream, {"a": columns})["out"]
    acc: dict[tuple[int, int], float] = {}
    for time, n, x in zip(
        (columns["time"][:50_000] // 10_000_000).tolist(), columns["n"].tolist(), columns["x"].tolist(), strict=False
    ):
        acc[time, n] = acc.get((time, n), 0.0) + x
    counts = Counter(
        zip((columns["time"][:50_000] // 10_000_000).tolist(), columns["n"][:50_000].tolist(), strict=True)
    )
    reference = [acc[key] / counts[key] for key in sorted(acc)]
    assert whole["m"][: len(reference)].tolist() == reference
    assert len(whole["m"]) == 9 * 100


def test_a_power_means_the_same_in_every_batch_and_with_constants_alone() -> None:
    stream = rs.stream("a", {"x": "float64"})
    powers = stream.select(root=col.x**0.5, constant=rs.call("sqrt", 4.0) ** 3)
    for x in ([-math.inf], [-math.inf, -0.0, 4.0] * 3):
        out = rs.evaluate(powers, {"a": {"time": list(range(len(x))), "x": x}})["out"]
        assert [value.hex() for value in out["root"].tolist()] == [math.pow(value, 0.5).hex() for value in x]
        assert out["constant"].tolist() == [8.0] * len(x)
