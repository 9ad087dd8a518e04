"""Windows in a time zone, as a program writes them. The zone's clock is read here, where the program is written, and
travels in the plan: a phone without zone data, a replay years later and a changed law all compute by the same clock.
"""

from __future__ import annotations

import datetime
import functools
import zoneinfo
from collections.abc import Callable

from shared.errors import UsageError
from shared.language.windows import CalendarWindow

UNITS = {"1d": "day", "1w": "week", "1mo": "month"}
# What travels, 5 KB at most: the first offset holds before these years, the last one after them.
FIRST_YEAR, LAST_YEAR = 1970, 2099
_DAY_S = 86_400


def calendar_window(size: str | None, count: int | None, zone: str) -> CalendarWindow:
    """The window of a size like "1d" in this zone."""
    if count is not None or size not in UNITS:
        given = f"count={count}" if size is None else repr(size)
        raise UsageError(
            f"zone= goes with days, weeks (from Monday) or months: '1d', '1w' or '1mo', not {given}. Shorter windows "
            "and counts are the same in every zone: leave zone= out",
            code="window-zone",
        )
    return CalendarWindow(UNITS[size], zone, offsets(zone))


def refuse_zone(verb: str, zone: str | None) -> None:
    if zone is not None:
        raise UsageError(
            f"{verb} windows know no zone: they have one length, and local days do not. Use tumbling('1d', "
            f"zone={zone!r}), and a window over its rows for several days",
            code="window-zone",
        )


@functools.lru_cache(maxsize=64)
def offsets(zone: str) -> tuple[tuple[int, int], ...]:
    """Since when (seconds since 1970) the zone's clock is how many seconds ahead of UTC."""
    try:
        known = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise UsageError(
            f"{zone!r} is no time zone known here; write one like 'Europe/Berlin'. Where none is known, install the "
            "package tzdata",
            code="window-zone",
        ) from None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

    def ahead(at_s: int) -> int:
        moment = (epoch + datetime.timedelta(seconds=at_s)).astimezone(known)
        return int((moment.utcoffset() or datetime.timedelta()).total_seconds())

    first, last = (
        int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()) for year in (FIRST_YEAR, LAST_YEAR + 1)
    )
    found = [(first, ahead(first))]
    for day in range(first, last, _DAY_S):  # no clock was changed twice within a day since 1970
        after = ahead(day + _DAY_S)
        if after != found[-1][1]:
            found.append((_changed_at(ahead, day, day + _DAY_S), after))
    return tuple(found)


def _changed_at(ahead: Callable[[int], int], before: int, after: int) -> int:
    """The first second with the later offset, between two moments of different offsets."""
    old = ahead(before)
    while after - before > 1:
        middle = (before + after) // 2
        if ahead(middle) == old:
            before = middle
        else:
            after = middle
    return after
