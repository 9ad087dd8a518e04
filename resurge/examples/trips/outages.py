"""When people lose the network: a file of lines, drawn onto the trips they really make.

    # who   when                  minutes
    *       mid-trip              20        every person, in the middle of each trip of half as long, or of the longest
    000     2008-10-24T02:30:00   20        one person, at a time of the recording as it is played (UTC)

An outage is in event time: the twenty minutes that a person spends without a network, however fast the run goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cloud_backend.results.rows import ResultRow
from shared.errors import UsageError

DEFAULT = "* mid-trip 20"
MID_TRIP = "mid-trip"
SECOND = 1_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Outage:
    start_us: int
    end_us: int


def outages_of(text: str, person: str, trips: Iterable[ResultRow]) -> list[Outage]:
    """A person's outages, in order and apart from each other; `trips` are the person's own."""
    found: list[Outage] = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] in ("*", person):
            found += _drawn(line, words, trips)
    apart: list[Outage] = []
    for outage in sorted(found, key=lambda each: each.start_us):
        if apart and outage.start_us <= apart[-1].end_us:
            apart[-1] = Outage(apart[-1].start_us, max(apart[-1].end_us, outage.end_us))
        else:
            apart.append(outage)
    return apart


def _drawn(line: str, words: Sequence[str], trips: Iterable[ResultRow]) -> list[Outage]:
    try:
        _, when, minutes = words
        length_us = round(float(minutes) * MINUTE)
        if when != MID_TRIP:
            start = datetime.fromisoformat(when)
            start_us = round((start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp() * SECOND)
            return [Outage(start_us, start_us + length_us)]
    except ValueError:
        raise UsageError(
            f"outage line {line!r} is not WHO WHEN MINUTES, like '* mid-trip 20' or '000 2008-10-24T02:30:00 20'",
            code="example-outages",
        ) from None
    lasted_us = {trip.window_start_us: round(float(trip.values["minutes"]) * MINUTE) for trip in trips}
    longest_us = max(lasted_us.values(), default=0)
    middles = [
        start_us + trip_us // 2
        for start_us, trip_us in lasted_us.items()
        if trip_us >= min(length_us / 2, longest_us)  # who makes short trips only loses the longest
    ]
    return [Outage(middle - length_us // 2, middle + length_us // 2) for middle in middles]
