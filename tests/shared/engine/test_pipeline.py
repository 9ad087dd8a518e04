"""A pipeline closes windows by frontiers, and goes on from its bytes as if nothing had happened."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from resurge.evaluate import plan_of, whole_fragment
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.snapshots import decode_state, encode_state
from shared.errors import DamagedData, UsageError
from shared.language.codecs import COLUMNS as PACKED
from shared.language.codecs import NONE
from shared.plan.placement import cloud_fragment, device_fragment
from shared.stream.formulas import col
from shared.stream.functions import count, max, mean, quantile, std, sum
from shared.stream.functions import min as least
from shared.stream.sources import sensor
from shared.stream.stream import Stream
from shared.wire import codecs

COLUMNS = {"value": "float64", "group": "int32"}
SECOND = 1_000_000


def readings() -> Stream:
    return sensor("probe", every="1s", columns=COLUMNS)


def pipeline_of(stream: Stream) -> Pipeline:
    return Pipeline(whole_fragment(plan_of(stream)))


def batch(
    pipeline: Pipeline,
    times: list[int],
    values: list[float],
    groups: list[int],
    *,
    lo: int = 0,
    device: str = "a",
    frontier: int | None = None,
) -> Batch:
    entry = pipeline.fragment.input("probe")
    columns = {"value": values, "group": groups, "device": [device] * len(times)}
    made = Batch.of(entry.schema, columns, times, lo=lo)
    return made if frontier is None else Batch.of(entry.schema, columns, times, lo=lo, frontier_us=frontier)


def rows(outputs: list[tuple[str, Batch]], *names: str) -> list[tuple[object, ...]]:
    return [row for _, out in outputs for row in zip(*(out.columns[name].tolist() for name in names), strict=True)]


WINDOW = ("group", "window_start", "n")


@pytest.mark.covers("EC-1")
@pytest.mark.parametrize("codec", [NONE, PACKED])
def test_an_element_is_a_time_a_number_and_a_payload_and_each_stays_what_it_is(codec: str) -> None:
    pipeline = pipeline_of(readings().where(col.value > 0).select(value=col.value * 10))
    times = [10 * SECOND, 10 * SECOND, 12 * SECOND]
    ((_, out),) = pipeline.push("probe", batch(pipeline, times, [1.0, -1.0, 3.0], [0, 0, 0], lo=40))
    kind, payload = codecs.encode(out, codec)
    back = codecs.decode(kind, payload, out.schema, lo=out.lo, hi=out.hi, frontier_us=out.frontier_us)
    for found in (out, back):
        assert (found.lo, found.hi, found.seq.tolist()) == (40, 43, [40, 42]), "numbers of the edge, dropped ones too"
        assert found.time_us.tolist() == [10 * SECOND, 12 * SECOND], "two elements of one time have two numbers"
        assert {name: column.tolist() for name, column in found.columns.items()} == {
            "device": ["a", "a"], "value": [10.0, 30.0],
        }  # fmt: skip


@pytest.mark.covers("EC-1")
def test_when_a_reading_was_made_is_payload_and_survives_an_operator_that_gives_its_own_time() -> None:
    made = sensor("probe", every="1s", columns={**COLUMNS, "made_us": "int64"})
    pipeline = pipeline_of(made.tumbling("10s").aggregate(first=least("made_us"), last=max("made_us")))
    entry = pipeline.fragment.input("probe")
    columns = {"value": [1.0, 2.0], "group": [0, 0], "device": ["a", "a"], "made_us": [7, 9]}
    taken = Batch.of(entry.schema, columns, [SECOND, 2 * SECOND], lo=5, frontier_us=20 * SECOND)
    out = pipeline.push("probe", taken) + pipeline.advance("probe", 20 * SECOND)
    assert rows(out, "first", "last") == [(7, 9)]
    ((_, result),) = [each for each in out if len(each[1])]
    assert result.time_us.tolist() == [10 * SECOND - 1], "the last moment of the window"


@pytest.mark.covers("SO-4", "SO-5")
def test_a_window_goes_out_when_the_frontier_reaches_its_end() -> None:
    # |--- 0..10 s ---|--- 10..20 s ---|
    #   1   2      9     11
    pipeline = pipeline_of(readings().key_by("device", "group").tumbling("10s").aggregate(n=count()))
    assert (
        rows(
            pipeline.push(
                "probe", batch(pipeline, [1 * SECOND, 2 * SECOND, 9 * SECOND, 11 * SECOND], [1.0] * 4, [7, 8, 7, 7])
            ),
            *WINDOW,
        )
        == []
    )
    assert rows(pipeline.advance("probe", 10 * SECOND - 1), *WINDOW) == []
    assert rows(pipeline.advance("probe", 10 * SECOND), *WINDOW) == [(7, 0, 2), (8, 0, 1)]
    assert rows(pipeline.advance("probe", END_OF_TIME), *WINDOW) == [(7, 10 * SECOND, 1)]


def test_windows_keyed_by_device_close_on_that_devices_frontier_only() -> None:
    pipeline = pipeline_of(readings().key_by("device").tumbling("10s").aggregate(n=count()))
    pipeline.push("probe", batch(pipeline, [1 * SECOND], [1.0], [1], device="a"))
    pipeline.push("probe", batch(pipeline, [2 * SECOND], [1.0], [1], device="b"))
    assert rows(pipeline.advance("probe", 30 * SECOND, device="b"), "device", "n") == [("b", 1)]
    assert rows(
        pipeline.push(
            "probe",
            batch(pipeline, [8 * SECOND, 12 * SECOND], [1.0] * 2, [1] * 2, lo=1, device="a", frontier=12 * SECOND),
        ),
        "device",
        "n",
    ) == [("a", 2)]
    assert rows(pipeline.advance_devices("probe", {"a": 20 * SECOND, "b": 40 * SECOND}), "device", "n") == [("a", 1)]


def test_windows_across_devices_wait_for_the_slowest_active_device() -> None:
    stream = readings().sync("up").key_by("group", idle_after="60s").tumbling("10s").aggregate(n=count())
    pipeline = pipeline_of(stream)
    pipeline.push("probe", batch(pipeline, [1 * SECOND], [1.0], [1], device="a"))
    pipeline.push("probe", batch(pipeline, [2 * SECOND], [1.0], [1], device="b"))
    assert rows(pipeline.advance("probe", 30 * SECOND, device="b"), "n") == []
    assert rows(pipeline.advance("probe", 10 * SECOND, device="a"), "n", "complete") == [(2, True)]


def test_an_idle_device_leaves_and_its_return_corrects_the_window() -> None:
    stream = readings().sync("up").key_by("group", idle_after="60s").tumbling("10s", lateness="1h").aggregate(n=count())
    pipeline = pipeline_of(stream)
    pipeline.push("probe", batch(pipeline, [1 * SECOND], [1.0], [1], device="a"))
    pipeline.push("probe", batch(pipeline, [2 * SECOND], [1.0], [1], device="b"))
    pipeline.advance("probe", 3 * SECOND, device="a")
    assert rows(pipeline.advance("probe", 80 * SECOND, device="b"), "window_start", "n", "complete") == [(0, 2, False)]
    again = pipeline.push("probe", batch(pipeline, [5 * SECOND], [1.0], [1], lo=1, device="a"))
    assert rows(again, "window_start", "n") == [(0, 3)]


def test_a_row_beyond_the_lateness_is_dropped_and_counted() -> None:
    pipeline = pipeline_of(readings().tumbling("10s", lateness="5s").aggregate(n=count()))
    pipeline.push("probe", batch(pipeline, [1 * SECOND], [1.0], [1], frontier=20 * SECOND))
    assert rows(
        pipeline.push("probe", batch(pipeline, [14 * SECOND, 16 * SECOND], [1.0] * 2, [1] * 2, lo=1)),
        "window_start",
        "n",
    ) == [(10 * SECOND, 1)]
    assert list(pipeline.late().values()) == [1]


def test_a_late_row_that_joins_two_sessions_sends_one_with_bounds_around_both() -> None:
    pipeline = pipeline_of(readings().session("3s", lateness="1h").aggregate(n=count(), total=sum("value")))
    session = ("window_start", "window_end", "n", "total")
    two = pipeline.push("probe", batch(pipeline, [0, 5 * SECOND], [1.0, 2.0], [1, 1], frontier=60 * SECOND))
    assert rows(two, *session) == [(0, 3 * SECOND, 1, 1.0), (5 * SECOND, 8 * SECOND, 1, 2.0)]
    joined = pipeline.push("probe", batch(pipeline, [5 * SECOND // 2], [4.0], [1], lo=2))
    assert rows(joined, *session) == [(0, 8 * SECOND, 3, 7.0)]
    within = pipeline.push("probe", batch(pipeline, [4 * SECOND], [8.0], [1], lo=3))
    assert rows(within, *session) == [(0, 8 * SECOND, 4, 15.0)]


def test_a_pane_that_ended_and_came_back_is_told_whole_in_the_changes() -> None:
    stream = readings().key_by("device", "group").tumbling("10s").aggregate(n=count())
    pipeline, follower = pipeline_of(stream), pipeline_of(stream)
    pipeline.push("probe", batch(pipeline, [SECOND, 2 * SECOND], [1.0] * 2, [1, 2], device="a"))
    follower.restore(pipeline.snapshot())
    pipeline.advance("probe", 10 * SECOND, device="a")
    pipeline.push("probe", batch(pipeline, [3 * SECOND], [1.0], [1], device="b"))
    follower.apply_changes(pipeline.changes_since_snapshot())
    assert follower.snapshot() == pipeline.snapshot()
    assert rows(follower.advance("probe", 10 * SECOND, device="b"), *WINDOW) == [(1, 0, 1)]


def sample(rows: int) -> tuple[list[int], list[float], list[int]]:
    draw = np.random.default_rng(5)
    times = np.sort(draw.integers(0, 60 * SECOND, rows)) + draw.integers(-SECOND, SECOND, rows)
    values = draw.standard_normal(rows) * 10.0 ** draw.integers(-6, 6, rows)
    values[draw.random(rows) < 0.05] = np.nan
    return times.tolist(), values.tolist(), draw.integers(0, 5, rows).tolist()


def heavy() -> Stream:
    return (
        readings().where(col.group < 4).key_by("device", "group").hopping("10s", every="3s")
        .aggregate(n=count(), s=sum("value"), m=mean("value"), d=std("value"), x=max("value"), q=quantile("value", 0.3))
    )  # fmt: skip


def everything(outputs: list[tuple[str, Batch]]) -> list[tuple[object, ...]]:
    return [
        row
        for _, out in outputs
        for row in zip(
            *(
                np.asarray(column).astype("T").tolist() if column.dtype.kind == "f" else column.tolist()
                for column in out.columns.values()
            ),
            strict=True,
        )
    ]


@pytest.mark.covers("EC-3")
@pytest.mark.parametrize("seed", range(5))
def test_neither_batching_nor_restoring_changes_a_bit(seed: int) -> None:
    times, values, groups = sample(2_000)
    whole = pipeline_of(heavy())
    expected = everything(
        whole.push("probe", batch(whole, times, values, groups)) + whole.advance("probe", END_OF_TIME)
    )
    draw = np.random.default_rng(seed)
    cuts = [0, *sorted(draw.integers(0, 2_000, 20).tolist()), 2_000]
    pipeline = pipeline_of(heavy())
    mirror = pipeline_of(heavy())  # follows by change sets alone
    mirror.restore(pipeline.snapshot())
    found: list[tuple[str, Batch]] = []
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        later = times[stop:]
        frontier = min(later) if later else None
        found += pipeline.push(
            "probe", batch(pipeline, times[start:stop], values[start:stop], groups[start:stop], lo=start)
        )
        if frontier is not None:
            found += pipeline.advance("probe", frontier)
        mirror.apply_changes(pipeline.changes_since_snapshot())
        if number % 3 == 0:  # kill, and go on from the mirror's bytes
            state = mirror.snapshot()
            pipeline, mirror = pipeline_of(heavy()), pipeline_of(heavy())
            pipeline.restore(state)
            mirror.restore(state)
    found += pipeline.advance("probe", END_OF_TIME)
    assert everything(found) == expected


def test_change_sets_grow_with_the_change_not_with_the_state() -> None:
    pipeline = pipeline_of(readings().key_by("device", "group").tumbling("10s").aggregate(n=count(), m=mean("value")))
    keys = 20_000
    pipeline.push("probe", batch(pipeline, [SECOND] * keys, [1.0] * keys, list(range(keys))))
    whole = len(pipeline.snapshot())
    pipeline.push("probe", batch(pipeline, [SECOND] * 10, [1.0] * 10, list(range(10)), lo=keys))
    assert len(pipeline.changes_since_snapshot()) < whole / 100


def test_a_damaged_or_foreign_snapshot_is_refused() -> None:
    pipeline = pipeline_of(heavy())
    state = bytearray(pipeline.snapshot())
    other = pipeline_of(readings().where(col.value > 0))
    with pytest.raises(DamagedData, match="another plan"):
        other.restore(bytes(state))
    state[-1] ^= 1
    with pytest.raises(DamagedData, match="snapshot-checksum"):
        pipeline.restore(bytes(state))
    with pytest.raises(DamagedData, match="snapshot-truncated"):
        pipeline.restore(b"RS")


def test_state_values_survive_their_bytes() -> None:
    values = [None, True, -1, 2**80, -0.0, float("inf"), "grüße", b"\x00", (1, [2.5]), {"a": 1, 3: ("x",)}]
    assert decode_state(encode_state(values)) == values
    column = np.array(["", "é", "日本"], np.dtypes.StringDType())
    assert decode_state(encode_state(column)).tolist() == column.tolist()


def test_device_and_cloud_parts_give_what_the_whole_gives() -> None:
    stream = (
        readings()
        .where(col.value > 0)
        .sync("up")
        .key_by("device", "group")
        .tumbling("10s")
        .aggregate(n=count(), s=sum("value"))
    )
    plan = plan_of(stream)
    times, values, groups = sample(500)
    device, cloud = Pipeline(device_fragment(plan), device="a"), Pipeline(cloud_fragment(plan))
    entry = device.fragment.input("probe")
    ((name, sent),) = device.push("probe", Batch.of(entry.schema, {"value": values, "group": groups}, times))
    assert name == "up"
    assert "device" not in sent.columns
    assert (sent.lo, sent.hi) == (0, 500)
    received = Batch(
        cloud.fragment.input("up").schema,
        {**sent.columns, "device": np.full(len(sent), "a", np.dtypes.StringDType())},
        sent.time_us,
        sent.seq,
        sent.lo,
        sent.hi,
    )
    found = everything(cloud.push("up", received) + cloud.advance("up", END_OF_TIME))
    whole = pipeline_of(stream)
    assert found == everything(
        whole.push("probe", batch(whole, times, values, groups)) + whole.advance("probe", END_OF_TIME)
    )


def test_a_filter_that_keeps_nothing_still_covers_its_range() -> None:
    device = Pipeline(device_fragment(plan_of(readings().where(col.value > 9).sync("up"))))
    entry = device.fragment.input("probe")
    ((_, sent),) = device.push(
        "probe", Batch.of(entry.schema, {"value": [1.0], "group": [1]}, [5], lo=41, frontier_us=6)
    )
    assert (len(sent), sent.lo, sent.hi, sent.frontier_us) == (0, 41, 42, 6)


def test_an_unknown_input_is_named() -> None:
    pipeline = pipeline_of(heavy())
    with pytest.raises(UsageError, match="has: probe"):
        pipeline.advance("prob", 0)
