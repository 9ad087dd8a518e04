"""A result in words: what it is about, when that was, what stands first, and what the rest is.

The rules know nothing of any program: text columns name the row, columns that say most (`quantities.py`) come first
and are the same for all rows of a sink, numbers that are zero are left out, and places are given as pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from mobile_app.screens.words import number_text
from mobile_app.screens.words.quantities import PLAIN, Quantity, quantity

Row = dict[str, Any]
DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
SHORT_US = 600_000_000  # windows shorter than this are given with seconds, unless they begin and end on minutes
MINUTE_US = 60_000_000
LEADING_MAX = 3
BEGAN, ENDED = TIMES = ("began_us", "ended_us")
LASTED = ("minutes", "seconds", "duration_s", "duration_min", "duration_h", "lasted_s")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def has_position(row: Row) -> bool:
    return is_number(row["values"].get("lat")) and is_number(row["values"].get("lon"))


def when(row: Row) -> tuple[int, int]:
    """From when to when: what the row says of it in `began_us` and `ended_us`, or its window."""
    began, ended = row["values"].get(BEGAN), row["values"].get(ENDED)
    if is_number(began) and is_number(ended):
        return int(began), int(ended)
    return int(row["window_start_us"]), int(row["window_end_us"])


def _is_place(column: str) -> bool:
    return column in ("lat", "lon") or column.endswith(("_lat", "_lon"))


# --- which columns --------------------------------------------------------------------------------------------------


def measured(rows: Sequence[Row]) -> dict[str, Quantity]:
    """The columns of these rows that hold a number other than zero somewhere, what says most first."""
    found: dict[str, Any] = {}
    for row in rows:
        for column, value in row["values"].items():
            if is_number(value) and value and math.isfinite(value) and not _is_place(column) and column not in TIMES:
                found[column] = max(found.get(column, value), value, key=abs)
    quantities = {column: quantity(column, value) for column, value in found.items()}
    order = sorted(found, key=lambda column: (quantities[column].rank, -abs(found[column]), column))
    return {column: quantities[column] for column in order}


def leading(rows: Sequence[Row], most: int = LEADING_MAX, *, rank_max: int = PLAIN) -> list[str]:
    """What every row of a list tells."""
    return [column for column, of in measured(rows).items() if of.rank <= rank_max][:most]


def line(values: dict[str, Any], columns: Sequence[str]) -> str:
    """3.4 km · 11 min · 19 g CO2e"""
    return "  ·  ".join(quantity(column, values[column]).text(values[column]) for column in columns if column in values)


def facts(row: Row, without: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(what, how much) of all that the row says, zeros and the columns named left out."""
    values = row["values"]
    parts = [
        (quantity(column, values[column]).label, quantity(column, values[column]).value(values[column]))
        for column in measured([row])
        if column not in without and not _is_all(column, values)
    ]
    parts += [
        (number_text.words(column), "yes" if value else "no")
        for column, value in values.items()
        if isinstance(value, bool)
    ]
    return parts + _places(values)


def _is_all(column: str, values: dict[str, Any]) -> bool:
    """A part that is the whole, like `km_bike` of a ride by bike, tells nothing new."""
    unit = quantity(column).unit
    return column.startswith(f"{unit}_") and unit in values and values[unit] == values[column]


def _places(values: dict[str, Any]) -> list[tuple[str, str]]:
    parts = []
    for column, lat in values.items():
        if column == "lat" or column.endswith("_lat"):
            stem = column.removesuffix("lat")
            lon = values.get(f"{stem}lon")
            if is_number(lat) and is_number(lon):
                here = "To" if "from_lat" in values else "Place"
                parts.append((number_text.words(stem) or here, f"{lat:.4f}°, {lon:.4f}°"))
    return parts


# --- what it is called, and when ------------------------------------------------------------------------------------


def name(row: Row, rows: Sequence[Row]) -> str:
    """What the row says of itself in words, and parts of its key in which rows differ; empty when there is nothing."""
    texts = [value for value in row["values"].values() if isinstance(value, str) and value]
    others = [other["key"] for other in rows]
    for place, part in enumerate(row["key"]):
        if any(len(key) > place and key[place] != part for key in others):
            texts.append(str(part))
    return " · ".join(number_text.words(part) for part in texts)


def is_report(row: Row) -> bool:
    """Whether it is about whole days."""
    return _days(row)[0] > 0


def _days(row: Row) -> tuple[int, tzinfo | None]:
    """How many whole days it is about, none if it is not, and whose they are: UTC's, or those of the clock here, of
    which one in spring and one in autumn are an hour shorter and longer."""
    start, end = row["window_start_us"], row["window_end_us"]
    days = round((end - start) / DAY_US)
    if end > start and start % DAY_US == 0 and end % DAY_US == 0:
        return days, UTC
    if abs(end - start - days * DAY_US) > HOUR_US:
        return 0, None
    here = datetime.fromtimestamp(end / 1e6, UTC).astimezone()
    return (days if end % MINUTE_US == here.hour == here.minute == 0 else 0), None


def day(row: Row, now_us: int) -> str:
    """The day, or the days, that the row is about: Today, Mon 16 November, 7 days to Mon 16 November."""
    if not is_report(row):
        return date(when(row)[0], now_us)
    days, zone = _days(row)
    last = date(row["window_end_us"] - 1, now_us, zone) + (_utc(row["window_end_us"]) if zone is UTC else "")
    return last if days == 1 else f"{days} days to {last[:1].lower() + last[1:] if last.startswith(NEAR) else last}"


def _utc(time_us: int) -> str:
    """Where days are UTC's and the clock on the wall is another one, a report says so."""
    offset = datetime.fromtimestamp(time_us / 1e6, UTC).astimezone().utcoffset()
    return " (UTC)" if offset else ""


NEAR = ("Today", "Yesterday")


def date(time_us: int, now_us: int, zone: tzinfo | None = None) -> str:
    then, now = (datetime.fromtimestamp(at / 1e6, UTC).astimezone(zone) for at in (time_us, now_us))
    ago = (now.date() - then.date()).days
    if 0 <= ago < len(NEAR):
        return NEAR[ago]
    year = "" if then.year == now.year else f" {then.year}"
    return f"{then.strftime('%A')} {then.day} {then.strftime('%B')}{year}"


def times(row: Row) -> str:
    """From when to when on that day. How long it lasted is believed before its window, which may have waited on."""
    start, end = when(row)
    lasted = next((column for column in LASTED if is_number(row["values"].get(column))), "")
    if lasted and BEGAN not in row["values"]:
        end = min(end, start + round(row["values"][lasted] * quantity(lasted).factor * 1e6))
    seconds = not lasted and 0 < end - start < SHORT_US and bool(start % MINUTE_US or end % MINUTE_US)
    begin = number_text.clock_time(start, seconds=seconds)
    return begin if end <= start else f"{begin} \u2013 {number_text.clock_time(end, seconds=seconds)}"


# --- corrections ----------------------------------------------------------------------------------------------------


def former(row: Row, columns: Sequence[str]) -> str:
    """What of these columns it said before it was corrected, where it was something else."""
    before, now = row.get("former") or {}, row["values"]
    changed = [column for column in columns if column in before and line(before, [column]) != line(now, [column])]
    return line(before, changed)
