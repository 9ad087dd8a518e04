"""What all windows that close by the frontier share: lateness, each key's frontier, and the rows they put out."""

from __future__ import annotations

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.frontiers import load_times
from shared.engine.keys import KeyIndex
from shared.engine.operator import ChangesByPart
from shared.engine.pools import Aggregation
from shared.engine.rows import Constant, Numbering, Progress, Rows, beyond
from shared.engine.snapshots import Value
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_END, WINDOW_START

_TRUE = Constant(True, "bool")


class KeyedWindows(ChangesByPart):
    """Each key closes by the frontier of its device where the key has one, else by the common one."""

    def __init__(self, aggregation: Aggregation, key: KeyIndex, *, lateness_us: int, complete: bool) -> None:
        super().__init__(1)
        self.aggregation = aggregation
        self.key: KeyIndex = key
        self.lateness_us = lateness_us
        self.complete = complete  # whether the output says so
        self.device_place = key.names.index(DEVICE) if DEVICE in key.names else None
        self.numbering = Numbering()
        self.late_dropped = 0
        self._own = np.empty(0, np.int64)  # by key: its device's own frontier, but for the devices that moved since
        self._moved: dict[str, None] = {}
        self._of_device: dict[str, list[int]] = {}  # the keys below that number

    def accepted(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """The rows that count, and among them the late ones that correct windows. The others are counted."""
        frontier = self.frontiers_of(rows)
        behind = rows.time < frontier
        if not behind.any():
            return rows, None
        too_late = beyond(rows.time, frontier, self.lateness_us)
        if too_late.any():
            self.late_dropped += int(np.count_nonzero(too_late))
            kept = np.flatnonzero(~too_late)
            rows, behind = rows.take(kept), behind[kept]
        late = np.flatnonzero(behind)
        return rows, (rows.take(late) if len(late) else None)

    def frontiers_of(self, rows: Rows) -> np.ndarray | int:
        """The frontier that holds for each row."""
        devices = rows.columns.get(DEVICE) if self.device_place is not None else None
        return self.frontier.of_rows(devices, len(rows))

    def advance(self, port: int, progress: Progress) -> tuple[list[Rows], Progress | None]:
        if self.device_place is not None and progress.devices:
            self._moved.update(dict.fromkeys(progress.devices))
        return super().advance(port, progress)

    def key_frontiers(self, first: int = 0) -> np.ndarray:
        """The frontier of each key from this number on; one number where keys do not differ. Costs a step for each new
        key and each device that moved, not for those that are silent."""
        if self.device_place is None or not self.frontier.devices:
            return np.asarray(self.frontier.floor_us)
        known = self.frontier.devices
        fresh = [str(key[self.device_place]) for key in self.key.values[len(self._own) :]]
        if fresh:
            for number, name in enumerate(fresh, len(self._own)):
                self._of_device.setdefault(name, []).append(number)
            own = np.fromiter((known.get(name, NO_FRONTIER) for name in fresh), np.int64, len(fresh))
            self._own = np.concatenate((self._own, own))
        for name in self._moved:
            numbers = self._of_device.get(name)
            if numbers is not None:
                self._own[numbers] = known.get(name, NO_FRONTIER)
        self._moved.clear()
        return np.maximum(self._own[first:], self.frontier.floor_us)

    def load_frontiers(self, state: Value) -> None:
        super().load_frontiers(state)
        _, (_, devices, _, *some) = state
        if some:
            self._moved.update(dict.fromkeys(load_times(devices)))
        else:
            self._own, self._moved, self._of_device = np.empty(0, np.int64), {}, {}

    def window_rows(
        self, keys: np.ndarray, start: np.ndarray, end: np.ndarray, results: dict[str, np.ndarray], time: np.ndarray
    ) -> Rows:
        """Output rows, one per window."""
        columns = self.key.columns(keys)
        columns[WINDOW_START] = start
        columns[WINDOW_END] = end
        columns.update(results)
        if self.complete:
            columns[COMPLETE] = self.completes(end)
        return self.numbering.rows(columns, time)

    def completes(self, end: np.ndarray) -> np.ndarray:
        """Whether nobody was missing when windows went out that end there."""
        limit = self.frontier.complete_us
        return _TRUE.column(len(end)) if limit is None else end <= limit

    def outward(self, progress: Progress) -> Progress:
        if not self.lateness_us:
            return progress
        held = {name: at - self.lateness_us for name, at in progress.devices.items()}
        return Progress(max(progress.floor_us - self.lateness_us, NO_FRONTIER), held, progress.complete_us)
