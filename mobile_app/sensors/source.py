"""What the node asks of a sensor, and what it gets.

Real sensors deliver when they like; the node only ever asks "everything with an event time before `until_us`
that I have not had yet". So a source may buffer, replay a file or compute, and the loop looks the same. A source
that cannot be had (no such hardware) raises `SensorMissing` when it is opened; the rest runs. What may come and go
while the node runs (a permission, an API that answers with errors) is a `trouble`: said, retried, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shared.batch import NO_FRONTIER, Batch
from shared.errors import UsageError
from shared.language.schema import Schema, dtype


class SensorMissing(UsageError):
    """This device has no such sensor, or may not read it. The node says so and runs what it can."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Readings in ascending event time; columns are of equal length. No earlier one than frontier_us follows."""

    time_us: np.ndarray
    columns: Mapping[str, np.ndarray]
    frontier_us: int
    overruns: int = 0  # readings before these that the sensor's queue had no room for
    unreadable: int = 0  # rows of the file that make no sense, in all
    note: str = ""  # what a person should know of the source, although it delivers
    over: bool = False  # a file that had ended before this run began: nothing comes from it

    def __len__(self) -> int:
        return len(self.time_us)


class Source(Protocol):
    """One sensor. Event times of successive reads never go back."""

    @property
    def trouble(self) -> str:
        """Empty while it delivers; otherwise what is wrong and what to do."""
        ...

    def read(self, until_us: int) -> Samples:
        """Readings before until_us not handed out yet: all, or the oldest of them when there are very many."""
        ...

    def at(self, time_us: np.ndarray) -> Samples:
        """The reading at each of these ascending times, stamped with it; none where the source has nothing yet."""
        ...

    def sample_every(self, period_us: int) -> None:
        """Ask for this spacing from now on: a plan's rate, or a hint to slow down."""
        ...

    def close(self) -> None:
        """Let go of the hardware. Nothing is read from it afterwards; saying it again changes nothing."""
        ...


class SoftwareSource:
    """The part of a source that is never in trouble and holds no hardware: computed, recorded or appended."""

    trouble = ""

    def close(self) -> None:
        """There is nothing to let go of."""


def shaped(samples: Samples, schema: Schema, *, lo: int = 0, frontier_us: int = NO_FRONTIER) -> Batch:
    """These samples as a batch of the schema, numbered from `lo` on. What the source does not know is NaN, or refused
    where NaN cannot be."""
    if not any(field.name in samples.columns for field in schema):
        raise SensorMissing(
            f"the source has none of the columns {', '.join(schema.names)} (it has: {', '.join(samples.columns)}); "
            "choose another source, or name its columns as the program does",
            code="sensor-column",
        )
    columns: dict[str, np.ndarray] = {}
    for field in schema:
        if field.name in samples.columns:
            columns[field.name] = np.asarray(samples.columns[field.name]).astype(dtype(field.kind), copy=False)
        elif field.kind in ("float32", "float64"):
            columns[field.name] = np.full(len(samples), np.nan, dtype=field.kind)
        else:
            raise SensorMissing(
                f"the source has no column {field.name!r} of kind {field.kind} "
                f"(it has: {', '.join(sorted(samples.columns))}); choose another source or drop the column",
                code="sensor-column",
            )
    hi = lo + len(samples)
    times = np.asarray(samples.time_us, np.int64)
    return Batch(schema, columns, times, np.arange(lo, hi, dtype=np.int64), lo, hi, frontier_us)
