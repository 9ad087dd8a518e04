"""A trip's day is the one in which it began, and a week is the seven days that end with a day.

A trip is known five minutes after its end, perhaps on the day after it began. Its row then takes the time at which it
began, and that day goes out again, corrected. A week is made of days as they stand now, so it is corrected as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

HOUR = 3_600_000_000
TRIP_HOURS_MAX = 24  # a longer one counts for the day in which it was under way so long before its end
WEEK_HOURS = 7 * 24
KEPT_HOURS = WEEK_HOURS + 2 * 24  # a day may still be corrected, and the weeks with it
CLOCK_HOURS = 4  # seven days end within a week less this: the day on which clocks go forward is an hour shorter
TOTALS = ("km", "co2e_g", "vehicle_pm25_mg", "vehicle_pm10_mg", "near_sites_s", "near_sites_pm25_mg", "unrecorded_km")


class TripByStart:
    """Trips in, the same out at the time at which they began."""

    def process(self, _port: str, row: Mapping[str, object]) -> Iterator[dict[str, object]]:
        began_us, end_us = int(row["began_us"]), int(row["window_end"])  # type: ignore[call-overload]
        time_us = max(began_us, end_us - TRIP_HOURS_MAX * HOUR)
        yield {"time": time_us, "trips": row["trips"], **{name: row[name] for name in TOTALS}}

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass


class Week:
    """One person's days in, as often as they are said; out the week that ends with each of them."""

    def __init__(self) -> None:
        self.days: dict[int, list[float]] = {}  # end of a day -> its trips and totals

    def process(self, _port: str, row: Mapping[str, object]) -> Iterator[dict[str, object]]:
        said_us = int(row["window_end"])  # type: ignore[call-overload]
        self.days[said_us] = [row["trips"], *(row[name] for name in TOTALS)]  # type: ignore[list-item]
        newest_us = max(self.days)
        self.days = {end: self.days[end] for end in sorted(self.days) if end > newest_us - KEPT_HOURS * HOUR}
        for end_us in self.days:
            if end_us >= said_us:
                held = [self.days[each] for each in self.days if each <= end_us and _within_week(each, end_us)]
                trips, *totals = (sum(column) for column in zip(*held, strict=True))
                yield {
                    "days": len(held), "trips": trips, **dict(zip(TOTALS, totals, strict=True)),
                    "window_start": end_us - WEEK_HOURS * HOUR, "window_end": end_us,
                }  # fmt: skip

    def snapshot(self) -> bytes:
        return json.dumps(list(self.days.items())).encode()

    def restore(self, state: bytes) -> None:
        self.days = {int(end): totals for end, totals in json.loads(state)}


def _within_week(day_end_us: int, end_us: int) -> bool:
    return day_end_us > end_us - (WEEK_HOURS - CLOCK_HOURS) * HOUR
