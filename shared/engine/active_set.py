"""Which devices a merge of all devices waits for, and how far each has come.

Very many may be enrolled and few active, so nothing here goes through all of them one by one: times lie in arrays, by
a device's place, and a change set names only the devices of which something changed. Places follow from the order of
arrival and are this process's own; what is stored goes by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.frontiers import NameGroups, dump_times, load_times
from shared.engine.snapshots import Value

_PLACES_MIN = 16


class ActiveSet:
    """A device whose frontier is more than `idle_after_us` behind the greatest is not active until it catches up."""

    def __init__(self, idle_after_us: int | None) -> None:
        self.idle_after_us = idle_after_us
        self.left: dict[str, int] = {}  # device -> when it left for good
        self._clear()

    def _clear(self) -> None:
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._at = np.empty(0, np.int64)  # by place: how far each has come
        self._since = np.empty(0, np.int64)  # its first row's time: a device without a frontier is not yet idle
        self._away: tuple[np.ndarray, np.ndarray] | None = None  # places of those that left, and when; None: see `left`
        self._sorted: list[str] = []
        self._by_name = np.empty(0, np.int64)  # the places of these
        self._changed: dict[str, None] | None = None  # since the last dump; None: there was none
        self._left_changed = True
        self._groups: NameGroups | None = None
        self._again: list[str] = []  # the next change set says these, too

    def __len__(self) -> int:
        return len(self._names)

    # -- what is known of devices ------------------------------------------------------------------------------------

    def leave(self, left: Mapping[str, int], returned: Iterable[str]) -> bool:
        """These devices left at these times, those are back. Whether that is news."""
        news = {name: at for name, at in left.items() if self.left.get(name) != at}
        back = [name for name in returned if name in self.left or name in news]
        self.left.update(news)
        for name in back:
            self.left.pop(name, None)
        if news or back:
            self._away, self._left_changed = None, True
        return bool(news or back)

    def began(self, name: str) -> bool:
        """Whether a row of the device came."""
        place = self._places.get(name)
        return place is not None and self._since[place] != NO_FRONTIER

    def begin(self, name: str, first_row_us: int, frontier_us: int) -> None:
        """The first row of a device came."""
        place = self._place(name, frontier_us)
        self._since[place] = first_row_us
        self._note(name)

    def first_row_us(self, name: str) -> int | None:
        return int(self._since[self._places[name]]) if self.began(name) else None

    def reach(self, frontiers_us: Mapping[str, int], floor_us: int) -> bool:
        """These devices have come so far, and all at least to the floor. Whether one of these is news."""
        news = False
        for name, at in frontiers_us.items():
            place = self._places.get(name)
            if place is None:
                place = self._place(name, at)
            elif self._at[place] >= at:
                continue
            self._at[place] = at
            self._note(name)
            news = True
        if floor_us > NO_FRONTIER:
            known = self._at[: len(self)]
            np.maximum(known, floor_us, out=known)
        return news

    def _place(self, name: str, at_us: int) -> int:
        """A device's place; one that is not known gets the next."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self._names)
            self._names.append(name)
            if place >= len(self._at):
                more = np.full(max(_PLACES_MIN, place), NO_FRONTIER, np.int64)
                self._at, self._since = np.append(self._at, more), np.append(self._since, more)
            self._at[place] = at_us
            if name in self.left:
                self._away = None
            if self._groups is not None:
                self._groups.add(name)
        return place

    def _note(self, name: str) -> None:
        if self._changed is not None:
            self._changed[name] = None

    # -- what follows from it ----------------------------------------------------------------------------------------

    def common(self, before_us: int) -> tuple[int, int | None]:
        """The frontier of the active devices, and up to where nobody is missing where that is less: one that left
        counts until the common frontier, which was at `before_us`, has passed that time. There must be a device."""
        at, since = self._at[: len(self)], self._since[: len(self)]
        places, times = self._gone()
        waiting = at[places[times > before_us]]
        if len(places):
            here = np.ones(len(at), bool)
            here[places] = False
            if not here.any():  # all have left: as far as they had come
                return int(at.max()), int(at.min())
            at, since = at[here], since[here]
        elif self.idle_after_us is None:
            return int(at.min()), None
        limit = NO_FRONTIER if self.idle_after_us is None else max(int(at.max()) - self.idle_after_us, NO_FRONTIER)
        active = at[np.maximum(at, since) >= limit]
        return int(active.min()), int(min(at.min(), waiting.min(initial=at.min())))

    def _gone(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of the devices that left, and when."""
        if self._away is None:
            known = [name for name in self.left if name in self._places]
            places = np.array([self._places[name] for name in known], np.int64)
            self._away = places, np.array([self.left[name] for name in known], np.int64)
        return self._away

    def behind(self, common_us: int, most: int) -> list[str]:
        """The devices that have not come so far, in order, so many at most."""
        late = self._at[: len(self)] < common_us
        if not late.any():
            return []
        if len(self._sorted) < len(self):
            self._sorted += self._names[len(self._sorted) :]
            self._sorted.sort()
            self._by_name = np.array([self._places[name] for name in self._sorted], np.int64)
        return [self._sorted[place] for place in np.flatnonzero(late[self._by_name])[:most].tolist()]

    # -- state -------------------------------------------------------------------------------------------------------

    def say_again(self, part: int, parts: int) -> None:
        """The next change set also says one part of so many of all devices."""
        if self._groups is None:
            self._groups = NameGroups(self._names)
        self._again = self._groups.part(part, parts)
        self._left_changed |= part == 0

    def dump(self) -> tuple[Value, Value]:
        """How far each device has come, and the time of the first row of those that had one."""
        self._said()
        began = np.flatnonzero(self._since[: len(self)] != NO_FRONTIER)
        names = (self._names[place] for place in began.tolist())
        first_rows = dict(zip(names, self._since[began].tolist(), strict=True))
        return dump_times(dict(zip(self._names, self._at[: len(self)].tolist(), strict=True))), dump_times(first_rows)

    def changes(self) -> Value:
        """Names, how far they have come and the times of their first rows, of the devices of which something changed
        since the last dump; and who left, where that changed."""
        names = list(dict.fromkeys((*(self._changed or ()), *self._again)))
        left = dump_times(self.left) if self._left_changed else None
        places = np.array([self._places[name] for name in names], np.int64)
        self._said()
        return [np.array(names, np.dtypes.StringDType()), self._at[places], self._since[places], left]

    @property
    def is_said(self) -> bool:
        """Whether it was ever dumped or loaded, so that a change set is enough."""
        return self._changed is not None

    def _said(self) -> None:
        self._changed, self._again, self._left_changed = {}, [], False

    def load(self, at: Value, since: Value, left: Value) -> None:
        self._clear()
        self.left = load_times(left)
        known = load_times(at)
        self._names = list(known)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._at = np.array(list(known.values()), np.int64)
        self._since = np.full(len(known), NO_FRONTIER, np.int64)
        for name, first in load_times(since).items():
            self._since[self._place(name, NO_FRONTIER)] = first
        self._said()

    def apply(self, changes: Value, floor_us: int) -> None:
        names, at, since, left = changes
        if left is not None:
            self.left, self._away = load_times(left), None
        places = [self._place(name, NO_FRONTIER) for name in names.tolist()]
        self._at[places], self._since[places] = at, since
        self.reach({}, floor_us)
        self._said()
