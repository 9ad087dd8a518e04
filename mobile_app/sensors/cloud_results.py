"""Results that came back, as an input of the device's own operators: they act as sensors.

Theory of operation. Results are durable in the home before the gateway hears that they arrived, each with its number
of the downlink. The computation reads a sink's rows in the order of these numbers and keeps, in its snapshot, how far
it has read. After a kill it reads on from there, so each result enters once, like a reading; nothing else must
be stored. Only sinks with commit="stable" feed operators here (the plan is refused otherwise): what the cloud may still
take back never enters.

A result is about a time long past, and nobody can promise that no older one follows. So it enters with the event
time at which the device reads it, unless its own is later; its window stays in its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mobile_app.node.results import KeptResult
from shared.batch import Batch
from shared.language.schema import dtype
from shared.plan.fragments import Input
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_END, WINDOW_START

ReadResults = Callable[[str, int], Sequence[tuple[int, KeptResult]]]  # sink, first number -> rows with their numbers


class CloudResults:
    """One sink's way in. `next` is the number of the downlink to read on from."""

    def __init__(self, entry: Input, device: str, read: ReadResults, *, first: int) -> None:
        self._entry = entry
        self._device = device
        self._read = read
        self.next = first
        self.malformed = 0
        self.readings = 0

    def read(self, not_before_us: int) -> Batch | None:
        """What came since, or None."""
        came = self._read(self._entry.name, self.next)
        if not came:
            return None
        lo, self.next = self.next, came[-1][0] + 1
        rows = [(number, result, self._values(result)) for number, result in came]
        kept = [(number, result, values) for number, result, values in rows if values is not None]
        self.malformed += len(rows) - len(kept)
        self.readings += len(kept)
        schema = self._entry.schema
        times = np.asarray([result.window_end_us for _, result, _ in kept], np.int64)
        return Batch(
            schema=schema,
            columns={
                field.name: np.asarray([values[field.name] for *_, values in kept], dtype(field.kind))
                for field in schema
            },
            time_us=np.maximum.accumulate(np.maximum(times, not_before_us)),
            seq=np.asarray([number for number, *_ in kept], np.int64),
            lo=lo,
            hi=self.next,
        )

    def _values(self, result: KeptResult) -> dict[str, object] | None:
        """The row by column name; None when a column is missing or of another kind."""
        about: dict[str, object] = {
            WINDOW_START: result.window_start_us,
            WINDOW_END: result.window_end_us,
            COMPLETE: result.complete,
            DEVICE: self._device,
            **dict(zip(self._entry.type.key, result.key, strict=False)),
            **result.values,
        }
        try:
            for field in self._entry.schema:
                np.asarray([about[field.name]]).astype(dtype(field.kind), casting="same_kind")
        except (KeyError, TypeError, ValueError):
            return None
        return about
