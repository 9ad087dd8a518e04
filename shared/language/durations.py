"""Lengths of time as people write them: "250ms", "5s", "10m", "1h", "7d"."""

from __future__ import annotations

import datetime
import re

from shared.errors import UsageError

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
DURATION_US_MAX = 3_660 * UNITS_US["d"]  # ten years: beyond it a unit was mistaken

_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)")


def microseconds(duration: str | datetime.timedelta) -> int:
    """A duration in whole microseconds, more than zero and at most ten years."""
    if isinstance(duration, datetime.timedelta):
        length = duration // datetime.timedelta(microseconds=1)
    else:
        written = _WRITTEN.fullmatch(duration.strip()) if isinstance(duration, str) else None
        if written is None:
            raise UsageError(
                f"{duration!r} is not a duration; write a number and one of {', '.join(UNITS_US)}, like '5s'",
                code="duration",
            )
        length = round(float(written[1]) * UNITS_US[written[2]])
    if not 0 < length <= DURATION_US_MAX:
        raise UsageError(f"duration {duration!r} must be more than zero and at most ten years", code="duration")
    return length


def duration_text(length_us: int) -> str:
    """The shortest exact way to write a duration."""
    if length_us == 0:
        return "0s"
    for unit, size_us in reversed(UNITS_US.items()):
        if length_us % size_us == 0:
            return f"{length_us // size_us}{unit}"
    return f"{length_us}us"
