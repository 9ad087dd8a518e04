"""Where time windows begin and end, and into which panes they divide time.

Windows are numbered in order of time; a *pane* is a stretch in which no window begins or ends. The operator that folds
rows (shared.engine.time_windows) asks only this: windows of one length at equal steps, or days, weeks and months of a
local calendar. Numbers depend on the window's definition alone, so a state means the same to whoever restores it.
"""

from __future__ import annotations

import bisect
from typing import Protocol

import numpy as np

from shared.language.windows import CalendarWindow, TimeWindow

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_THURSDAY = 3  # days since Monday, of 1 January 1970


class WindowBounds(Protocol):
    """What the operator asks. A window holds the panes `panes_of`, and a pane is part of the windows `windows_of`."""

    hops: int  # the most windows that one row is part of

    def start(self, window: int) -> int: ...

    def end(self, window: int) -> int: ...

    def ended(self, at: int) -> int:
        """The last window that ends at this time or before."""

    def windows_at(self, time: int) -> list[int]:
        """The windows that a row of this time is part of."""

    def pane_at(self, time: int) -> int: ...

    def panes_at(self, time: np.ndarray) -> np.ndarray: ...

    def pane_start(self, pane: int) -> int: ...

    def windows_of(self, pane: int) -> range: ...

    def panes_of(self, window: int) -> range: ...


class Steps:
    """Window n is [n * hop, n * hop + size)."""

    def __init__(self, window: TimeWindow) -> None:
        self.size, self.hop = window.size_us, window.hop_us
        self.rest = self.size % self.hop  # a second pane per hop where the size is no multiple of it
        self.hops = self.size // self.hop

    def start(self, window: int) -> int:
        return window * self.hop

    def end(self, window: int) -> int:
        return window * self.hop + self.size

    def ended(self, at: int) -> int:
        return (at - self.size) // self.hop

    def windows_at(self, time: int) -> list[int]:
        last = time // self.hop
        return [window for window in range(last - self.hops, last + 1) if time < self.end(window)]

    def pane_at(self, time: int) -> int:
        if not self.rest:
            return time // self.hop
        pane, into = divmod(time, self.hop)
        return 2 * pane + (into >= self.rest)

    def panes_at(self, time: np.ndarray) -> np.ndarray:
        panes: np.ndarray = time // self.hop
        return 2 * panes + (time - panes * self.hop >= self.rest) if self.rest else panes

    def pane_start(self, pane: int) -> int:
        return pane // 2 * self.hop + (self.rest if pane % 2 else 0) if self.rest else pane * self.hop

    def windows_of(self, pane: int) -> range:
        if not self.rest:
            return range(pane - self.hops + 1, pane + 1)
        hop_number, second = divmod(pane, 2)
        return range(hop_number - self.hops + second, hop_number + 1)

    def panes_of(self, window: int) -> range:
        if not self.rest:
            return range(window, window + self.hops)
        return range(2 * window, 2 * (window + self.hops) + 1)


class Calendar:
    """Window n is the n-th local day, week or month since 1970, and one pane.

    The *wall* of a moment is the latest local time that the clock had shown up to then, so it never goes back: where
    an hour is repeated over midnight, the new day has begun at the first midnight. A date that the clock skips is a
    window of no length.
    """

    hops = 1

    def __init__(self, window: CalendarWindow) -> None:
        self.unit = window.unit
        froms, ahead = np.array(window.offsets, np.int64).T * _SECOND
        # Time is divided at froms[1:]; before each piece the clock had come to `shown`.
        self._cuts = froms[1:]
        self._ahead = ahead
        shown = np.maximum.accumulate(self._cuts - 1 + ahead[:-1])
        self._shown = np.append(np.iinfo(np.int64).min, shown)
        # The wall as each piece but the first begins. Lists are for single moments: the end of time fits no array.
        self._opens: list[int] = np.maximum(self._cuts + ahead[1:], shown).tolist()
        self._cut_list: list[int] = self._cuts.tolist()

    def start(self, window: int) -> int:
        wall = self._first_day(window) * _DAY
        piece = bisect.bisect_left(self._opens, wall)  # the last one that begins before the clock shows it
        at = wall - int(self._ahead[piece])
        return at if piece == len(self._cuts) else min(at, self._cut_list[piece])  # a gap swallowed it: right after

    def end(self, window: int) -> int:
        return self.start(window + 1)

    def ended(self, at: int) -> int:
        return self.pane_at(at) - 1

    def windows_at(self, time: int) -> list[int]:
        return [self.pane_at(time)]

    def pane_at(self, time: int) -> int:
        piece = bisect.bisect_right(self._cut_list, time)
        wall = max(time + int(self._ahead[piece]), int(self._shown[piece]))
        return int(self._numbers(np.array([wall // _DAY]))[0])

    def panes_at(self, time: np.ndarray) -> np.ndarray:
        pieces = self._cuts.searchsorted(time, "right")
        return self._numbers(np.maximum(time + self._ahead[pieces], self._shown[pieces]) // _DAY)

    def pane_start(self, pane: int) -> int:
        return self.start(pane)

    def windows_of(self, pane: int) -> range:
        return range(pane, pane + 1)

    def panes_of(self, window: int) -> range:
        return range(window, window + 1)

    def _numbers(self, days: np.ndarray) -> np.ndarray:
        if self.unit == "week":
            return (days + _THURSDAY) // 7
        if self.unit == "month":
            return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return days

    def _first_day(self, window: int) -> int:
        if self.unit == "week":
            return window * 7 - _THURSDAY
        if self.unit == "month":
            return int(np.datetime64(window, "M").astype("datetime64[D]").astype(np.int64))
        return window
