"""Days, weeks and months of a place, against the calendar of Python's own zoneinfo."""

from __future__ import annotations

import datetime
import json
import zoneinfo

import numpy as np
import pytest

import resurge as rs
from resurge import col
from resurge.evaluate import plan_of, whole_fragment
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.errors import UsageError
from shared.language.windows import CalendarWindow, check_window
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment
from shared.stream import zones
from shared.stream.stream import Stream

SECOND = 1_000_000
HOUR = 3600 * SECOND
# Half hours, a gap at midnight (Cairo, Beirut), midnight twice (Havana), a day left out (Apia), far from UTC.
ZONES = (
    "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "America/Havana", "Pacific/Apia",
    "Pacific/Kiritimati", "Africa/Casablanca", "Australia/Lord_Howe", "UTC",
)  # fmt: skip


def days(size: str = "1d", zone: str = "Europe/Berlin", lateness: str | None = None) -> Stream:
    source = rs.sensor("a", every="1s", columns={"n": "int64"})
    return source.tumbling(size, zone=zone, lateness=lateness).aggregate(rows=rs.count(), n=rs.sum("n"))


def at(zone: str, *moment: int) -> int:
    return int(datetime.datetime(*moment, tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()) * SECOND  # type: ignore[misc]


def begins(time_us: int, zone: str, unit: str) -> datetime.date:
    """The first date of the day, week or month that a moment is in."""
    day = datetime.datetime.fromtimestamp(time_us // SECOND, zoneinfo.ZoneInfo(zone)).date()
    if unit == "1w":
        return day - datetime.timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "1mo" else day


def moments(zone: str) -> np.ndarray:
    """Around every change of the clock since 1990, and anywhere else."""
    draw = np.random.default_rng(5)
    changes = [at_s for at_s, _ in zones.offsets(zone) if 631_152_000 < at_s < 2_500_000_000]
    near = [at_s + hours * 3600 + off for at_s in changes for hours in (-25, -1, 0, 1, 24) for off in (-1, 0, 1)]
    return np.array([*near, *draw.integers(0, 2_500_000_000, 200)], np.int64) * SECOND


@pytest.mark.parametrize("unit", ["1d", "1w", "1mo"])
@pytest.mark.parametrize("zone", ZONES)
def test_each_window_holds_the_rows_of_one_local_date(zone: str, unit: str) -> None:
    times = moments(zone)
    expected: dict[datetime.date, list[int]] = {}
    for time in times.tolist():
        expected.setdefault(begins(time, zone, unit), []).append(time)
    found = rs.evaluate(days(unit, zone), {"a": {"time": times, "n": np.ones(len(times), np.int64)}})["out"]
    assert found["rows"].tolist() == [len(expected[day]) for day in sorted(expected)]
    for start, end, day in zip(
        found["window_start"].tolist(), found["window_end"].tolist(), sorted(expected), strict=True
    ):
        assert all(start <= time < end for time in expected[day])
        assert begins(start, zone, unit) == day  # its first moment is of that date, the one before is not
        assert begins(start - 1, zone, unit) < day
        assert begins(end - 1, zone, unit) == day


def test_a_day_has_23_or_25_hours_where_the_clock_changes() -> None:
    times = [at("Europe/Berlin", 2024, 3, 31, 12), at("Europe/Berlin", 2024, 10, 27, 12)]
    found = rs.evaluate(days(), {"a": {"time": times, "n": [1, 1]}})["out"]
    assert ((found["window_end"] - found["window_start"]) // HOUR).tolist() == [23, 25]


def test_an_hour_repeated_over_midnight_belongs_to_the_day_that_had_begun() -> None:
    """In 2010 Newfoundland's clocks went from 00:01 back to 23:01: the new day had begun at the first midnight."""
    change = 1_289_097_060 * SECOND
    found = rs.evaluate(
        days(zone="America/St_Johns"),
        {"a": {"time": [change - 61 * SECOND, change - 1, change, change + HOUR], "n": [1] * 4}},
    )["out"]
    assert found["rows"].tolist() == [1, 3]
    assert found["window_start"].tolist()[1] == change - 60 * SECOND


def test_beyond_the_table_the_first_and_last_offset_hold() -> None:
    times = [at("UTC", 1900, 1, 1, 12), at("UTC", 2150, 7, 1, 12)]
    found = rs.evaluate(days(), {"a": {"time": times, "n": [1, 1]}})["out"]
    ahead = [(-start % (24 * HOUR)) // HOUR for start in found["window_start"].tolist()]
    assert ahead == [1, 1]  # winter time on both sides, also in July 2150


def parts(plan: Plan, times: list[int], *, frontier: int | None = None) -> list[tuple[int, int]]:
    """Rows of one device pushed one by one through kills and restores, as a phone does."""
    fragment = device_fragment(plan)
    pipeline = Pipeline(fragment, device="ann")
    found = []
    for number, time in enumerate(times):
        batch = Batch.of(fragment.inputs[0].schema, {"n": [number]}, [time], lo=number)
        found += pipeline.push("a", batch)
        restored = Pipeline(fragment, device="ann")
        restored.restore(pipeline.snapshot())
        pipeline = restored
        if frontier is not None:
            found += pipeline.advance("a", frontier)
    found += pipeline.advance("a", END_OF_TIME)
    return [
        (start, rows)
        for _, batch in found
        for start, rows in zip(batch.columns["window_start"].tolist(), batch.columns["rows"].tolist(), strict=True)
    ]


def test_row_by_row_with_restores_it_is_the_same() -> None:
    times = sorted(moments("Europe/Berlin").tolist())[::20]
    whole = rs.evaluate(days(), {"a": {"time": times, "n": [0] * len(times)}})["out"]
    assert parts(plan_of(days()), times) == list(
        zip(whole["window_start"].tolist(), whole["rows"].tolist(), strict=True)
    )


def test_a_late_row_corrects_its_day_within_lateness_and_is_counted_beyond() -> None:
    noon = at("Europe/Berlin", 2024, 3, 31, 12)
    midnight = at("Europe/Berlin", 2024, 4, 1)
    start = at("Europe/Berlin", 2024, 3, 31)
    plan = plan_of(days(lateness="1d"))
    assert parts(plan, [noon, noon + HOUR], frontier=midnight) == [(start, 1), (start, 2)]
    assert parts(plan_of(days()), [noon, noon + HOUR], frontier=midnight) == [(start, 1)]


@pytest.mark.parametrize("unit", ["1d", "1w", "1mo"])
def test_the_end_of_time_is_no_day_of_any_calendar(unit: str) -> None:
    """Devices come to their end one after the other, and a window may be asked for that ends after all time."""
    fragment = whole_fragment(plan_of(days(unit)))
    pipeline = Pipeline(fragment)
    noon = at("Europe/Berlin", 2024, 3, 31, 12)
    batch = Batch.of(fragment.inputs[0].schema, {"device": ["ann", "bob"], "n": [1, 2]}, [noon, noon + HOUR], lo=0)
    found = pipeline.push("a", batch)
    for device in ("ann", "bob"):
        found += pipeline.advance_devices("a", {device: END_OF_TIME})
    found += pipeline.push("a", Batch.of(fragment.inputs[0].schema, {"device": ["cy"], "n": [3]}, [noon], lo=2))
    found += pipeline.advance_devices("a", {"cy": END_OF_TIME})
    found += pipeline.advance_devices("a", {"dan": END_OF_TIME})  # with no window left
    found += pipeline.advance("a", END_OF_TIME)
    assert [n for _, batch in found for n in batch.columns["n"].tolist()] == [1, 2, 3]


def test_devices_close_their_days_by_their_own_frontier() -> None:
    plan = plan_of(days())
    pipeline = Pipeline(whole_fragment(plan))
    noon, midnight = at("Europe/Berlin", 2024, 3, 31, 12), at("Europe/Berlin", 2024, 4, 1)
    schema = whole_fragment(plan).inputs[0].schema
    pipeline.push("a", Batch.of(schema, {"device": ["ann", "bob"], "n": [1, 2]}, [noon, noon], lo=0))
    assert not [batch for _, batch in pipeline.advance_devices("a", {"ann": midnight - 1, "bob": noon}) if len(batch)]
    (batch,) = [batch for _, batch in pipeline.advance_devices("a", {"ann": midnight}) if len(batch)]
    assert batch.columns["device"].tolist() == ["ann"]


def test_the_zone_travels_in_the_plan_and_nobody_asks_for_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = sorted(moments("Europe/Berlin").tolist())[::20]
    expected = parts(plan_of(days()), times)
    data = encode_plan(plan_of(days()))
    (window,) = [node["fields"]["window"] for node in json.loads(data)["nodes"] if node["operator"] == "window"]
    assert (window["window"], window["unit"], window["zone"]) == ("calendar", "day", "Europe/Berlin")
    assert [1_711_846_800, 7200] in window["offsets"]
    assert len(data) < 8_000

    def unknown(*_: object) -> None:
        raise zoneinfo.ZoneInfoNotFoundError

    monkeypatch.setattr(zoneinfo, "ZoneInfo", unknown)
    assert parts(decode_plan(data), times) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.tumbling("1d", zone="Europe/Atlantis"),
        lambda x: x.tumbling("1d", zone="../../etc/passwd"),
        lambda x: x.tumbling("1h", zone="Europe/Berlin"),
        lambda x: x.tumbling("7d", zone="Europe/Berlin"),
        lambda x: x.tumbling(count=3, zone="Europe/Berlin"),
        lambda x: x.hopping("1d", every="1h", zone="Europe/Berlin"),
        lambda x: x.sliding("1d", zone="Europe/Berlin"),
        lambda x: check_window(CalendarWindow("year", "Here", ((0, 0),))),
        lambda x: check_window(CalendarWindow("day", "Here", ())),
        lambda x: check_window(CalendarWindow("day", "Here", ((0, 0), (0, 3600)))),
        lambda x: check_window(CalendarWindow("day", "Here", ((0, 10**6),))),
        lambda x: check_window(CalendarWindow("day", "Here", ((2**62, 0),))),
        lambda x: check_window(CalendarWindow("day", "Here", tuple((at, 0) for at in range(1001)))),
    ],
)
def test_what_no_calendar_has_is_refused(wrong) -> None:
    with pytest.raises(UsageError) as caught:
        wrong(rs.sensor("a", every="1s", columns={"n": "int64"}))
    assert caught.value.code == "window-zone"


@pytest.mark.parametrize("unit", ["1d", "1w", "1mo"])
def test_time_may_end_before_any_row_has_come(unit: str) -> None:
    none = rs.stream("x", {"v": "float64"}).where(col.v > 0)
    out = rs.evaluate(
        none.tumbling(unit, zone="Asia/Kathmandu").aggregate(n=rs.count()), {"x": {"time": [0], "v": [-1.0]}}
    )
    assert out["out"]["n"].tolist() == []
