"""How far time has come on one input, by device, and how that becomes bytes without saying every device each time.

A device that is silent keeps its place in here for as long as it is enrolled, so there may be very many. A change set
says those that moved. A state that is handed out in pieces says one group of devices with each piece: a name's group
follows from the name alone, so whoever writes the next piece goes on with the same groups.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.rows import Progress
from shared.engine.snapshots import Value

_GROUPS = 64  # as many as a state has pieces at most


class Frontiers:
    """How far time has come on one input, by device."""

    __slots__ = ("_again", "_changed", "_groups", "complete_us", "devices", "floor_us", "greatest_us")

    def __init__(self) -> None:
        self.floor_us = NO_FRONTIER
        self.devices: dict[str, int] = {}
        self.complete_us: int | None = None
        self.greatest_us = NO_FRONTIER  # of the floor and all devices
        self._changed: dict[str, None] | None = None  # since the last dump; None: there was none
        self._groups: NameGroups | None = None
        self._again: list[str] = []  # the next change set says these, too

    def advance(self, progress: Progress) -> bool:
        """Takes the news; False where there was none. Frontiers never go back."""
        moved = False
        if progress.floor_us > self.floor_us:
            self._raise_floor(progress.floor_us)
            moved = True
        if progress.devices:
            changed, groups = self._changed, self._groups
            for name, at in progress.devices.items():
                if at > self.of(name):
                    if groups is not None and name not in self.devices:
                        groups.add(name)
                    self.devices[name] = at
                    moved = True
                    if changed is not None:
                        changed[name] = None
                    self.greatest_us = max(self.greatest_us, at)
        self.complete_us = progress.complete_us
        return moved

    def _raise_floor(self, floor_us: int) -> None:
        self.floor_us = floor_us
        self.greatest_us = max(self.greatest_us, floor_us)
        if self.devices:
            self.devices = {name: at for name, at in self.devices.items() if at > floor_us}
            self._groups = None

    def of(self, device: str) -> int:
        """The frontier of one device."""
        own = self.devices.get(device)
        return self.floor_us if own is None or own < self.floor_us else own

    def of_rows(self, devices: np.ndarray | None, rows: int) -> np.ndarray | int:
        """The frontier of each row's device; a plain number where they cannot differ."""
        if not self.devices or devices is None:
            return self.floor_us
        if devices.strides == (0,) and rows:
            return self.of(devices[0])
        return np.fromiter(map(self.of, devices.tolist()), np.int64, rows)

    # -- state -------------------------------------------------------------------------------------------------------

    def say_again(self, part: int, parts: int) -> None:
        """The next change set also says one part of so many of all devices."""
        if self._groups is None:
            self._groups = NameGroups(self.devices)
        self._again = self._groups.part(part, parts)

    def dump(self, *, since_mark: bool = False) -> Value:
        """All devices, or those that moved since the last dump; then a fourth value says that there may be others."""
        changed, again = self._changed, self._again
        self._changed, self._again = {}, []
        if not since_mark or changed is None or not self.devices:
            return [self.floor_us, dump_times(self.devices), self.complete_us]
        known = self.devices
        some = {name: known[name] for each in (changed, again) for name in each if name in known}
        return [self.floor_us, dump_times(some), self.complete_us, True]

    def load(self, state: Value) -> None:
        floor, dumped, complete, *some = state
        devices = load_times(dumped)
        if not some:
            self.floor_us, self.greatest_us, self.devices, self._groups = int(floor), int(floor), {}, None
        elif floor > self.floor_us:
            self._raise_floor(int(floor))
        if self._groups is not None:
            for name in devices.keys() - self.devices.keys():
                self._groups.add(name)
        self.devices.update(devices)
        self.greatest_us = max(self.greatest_us, max(devices.values(), default=NO_FRONTIER))
        self.complete_us = complete
        self._changed, self._again = {}, []


def dump_times(times_us: Mapping[str, int]) -> Value:
    """A time of each name, as columns: that takes a third of what a map takes. Without names it is a map, as it always
    was."""
    if not times_us:
        return {}
    names = np.array(list(times_us), np.dtypes.StringDType())
    return [names, np.fromiter(times_us.values(), np.int64, len(times_us))]


def load_times(state: Value) -> dict[str, int]:
    """What `dump_times` gave, or a map of an earlier version."""
    if isinstance(state, dict):
        return dict(state)
    names, times_us = state
    return dict(zip(names.tolist(), times_us.tolist(), strict=True))


class NameGroups:
    """Names in groups, the same in every process."""

    def __init__(self, names: Iterable[str]) -> None:
        self._groups: list[list[str]] = [[] for _ in range(_GROUPS)]
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self._groups[zlib.crc32(name.encode("utf-8", "surrogatepass")) % _GROUPS].append(name)

    def part(self, part: int, parts: int) -> list[str]:
        """One part of so many; together they are all names."""
        return [name for group in self._groups[part::parts] for name in group]


def least(several: Sequence[Frontiers], names: Iterable[str] | None = None) -> Progress:
    """What holds on all of several inputs, of all devices or of these."""
    floor = min(one.floor_us for one in several)
    if names is None:
        names = {name for one in several for name in one.devices}
    devices = {name: min(one.of(name) for one in several) for name in sorted(names)}
    completes = [one.complete_us for one in several if one.complete_us is not None]
    return Progress(floor, devices, min(completes) if completes else None)
