"""Windows as data: which rows of one key are aggregated together, and when the answer goes out.

*Stream order* is the order in which rows stand in a stream: ascending sequence number on one edge, and what the merge
mode decides where several meet. A frontier f says that no row with time < f follows.

TimeWindow(size, hop): one for every start that is a multiple of hop (from the epoch, 1970) and has a row with
    start <= time < start + size. window_start, window_end = start, start + size. Goes out when frontier >= window_end.
CalendarWindow(unit, zone, offsets): one for every day, week (from Monday) or month of a place's own calendar that has a
    row. It begins at the first moment at which the local clock has shown that date, and ends where the next begins: a
    day may have 23 or 25 hours. `offsets` is the clock's whole story: (from, seconds ahead of UTC) in seconds since
    1970; the first holds for all time before it, the last for all time after it. Goes out when frontier >= window_end.
SlidingTimeWindow(size): one for every row, of time t: the rows up to this one, by (time, stream order), with time >
    t - size. window_start, window_end = t - size + 1, t + 1. Goes out when frontier > t.
SessionWindow(gap): rows each less than gap after the one before, by time. window_start, window_end = first time, last
    time + gap. Goes out when frontier >= window_end.
CountWindow(size, hop): rows number n * hop .. n * hop + size - 1 of the key in stream order, n = 0, 1, ...
    window_start, window_end = least time, greatest time + 1. Goes out with its last row; one that never fills never
    goes out.

window_start is inclusive, window_end exclusive, both microseconds. A window without rows does not exist. An output
row's own event time is window_end - 1 (a session's too), so it falls inside its window. Windows that go out together
are ordered by (window_end, window_start, key); sliding windows by their row; count windows by the row that filled them.
Keys sort column by column, False before True, text by code point.

End of stream is frontier = END_OF_TIME: it closes every time, sliding and session window.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from shared.errors import UsageError
from shared.language.durations import duration_text

CALENDAR_UNITS = ("day", "week", "month")
OFFSETS_MAX = 1000
OFFSET_S_MAX = 26 * 3600  # clocks were never further from UTC
OFFSET_FROM_S_MAX = 2**40  # far beyond any calendar, and safe to multiply
COUNT_MAX = 1_000_000
PANES_MAX = 100_000  # size / hop: one row may fall into that many windows


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Tumbling where hop == size, hopping where hop < size."""

    size_us: int
    hop_us: int


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """Tumbling, by the calendar of a time zone."""

    unit: str
    zone: str
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SlidingTimeWindow:
    size_us: int


@dataclass(frozen=True, slots=True)
class SessionWindow:
    gap_us: int


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Tumbling where hop == size, hopping where 1 < hop < size, sliding where hop == 1."""

    size: int
    hop: int


Window: TypeAlias = TimeWindow | CalendarWindow | SlidingTimeWindow | SessionWindow | CountWindow


def check_window(window: Window) -> None:
    """UsageError where a window makes no sense; called before anything runs, also for plans that arrive as JSON."""
    match window:
        case TimeWindow(size_us, hop_us):
            if not (size_us > 0 and hop_us > 0):
                raise UsageError("a window's size and hop must be more than zero", code="window-size")
            if hop_us > size_us:
                raise UsageError(
                    f"window hop {duration_text(hop_us)} is longer than its size {duration_text(size_us)}; rows "
                    f"between windows would be dropped. Use hop <= {duration_text(size_us)}, or .where(...) if gaps "
                    "are intended",
                    code="window-hop",
                )
            if size_us // hop_us > PANES_MAX:
                raise UsageError(
                    f"a row would fall into {size_us // hop_us} windows; at most {PANES_MAX}. Use a longer hop, or "
                    "sliding(...)",
                    code="window-hop",
                )
        case CalendarWindow():
            _check_calendar(window)
        case CountWindow(size, hop):
            if not (isinstance(size, int) and isinstance(hop, int)):
                raise UsageError(f"a window holds a whole number of rows, not {size} every {hop}", code="window-size")
            if not 0 < size <= COUNT_MAX:
                raise UsageError(f"a window holds 1 to {COUNT_MAX} rows, not {size}", code="window-size")
            if not 0 < hop <= size:
                raise UsageError(
                    f"window hop of {hop} rows must lie between 1 and its size {size}; rows between windows would be "
                    "dropped",
                    code="window-hop",
                )
        case SlidingTimeWindow(length_us) | SessionWindow(length_us):
            if length_us <= 0:
                raise UsageError("a window's length must be more than zero", code="window-size")


def _check_calendar(window: CalendarWindow) -> None:
    if window.unit not in CALENDAR_UNITS:
        raise UsageError(f"a calendar has {', '.join(CALENDAR_UNITS)}, no {window.unit!r}", code="window-zone")
    times = [at for at, _ in window.offsets]
    if not 0 < len(times) <= OFFSETS_MAX or any(later <= at for at, later in pairwise(times)):
        raise UsageError(
            f"zone {window.zone!r} needs 1 to {OFFSETS_MAX} offsets in order of time, not {len(times)}",
            code="window-zone",
        )
    if any(abs(ahead) > OFFSET_S_MAX for _, ahead in window.offsets) or max(map(abs, times)) > OFFSET_FROM_S_MAX:
        raise UsageError(f"zone {window.zone!r} has an offset that no clock ever had", code="window-zone")


def text_of(window: Window) -> str:
    """The window as a person would write it."""
    match window:
        case TimeWindow(size_us, hop_us):
            if hop_us == size_us:
                return f"tumbling {duration_text(size_us)}"
            return f"hopping {duration_text(size_us)} every {duration_text(hop_us)}"
        case CalendarWindow(unit, zone):
            return f"each {unit} in {zone}"
        case SlidingTimeWindow(size_us):
            return f"sliding {duration_text(size_us)}"
        case SessionWindow(gap_us):
            return f"session gap {duration_text(gap_us)}"
        case CountWindow(size, hop):
            if hop == size:
                return f"tumbling {size} rows"
            return f"sliding {size} rows" if hop == 1 else f"hopping {size} rows every {hop}"
