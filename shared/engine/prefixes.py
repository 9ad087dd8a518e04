"""Prefix sums that start again at anchors; see shared.engine.sliding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from shared.engine.pools import Aggregation
from shared.engine.snapshots import Value
from shared.stream.expressions import TIME

ANCHOR = 4096

Transform = Callable[[np.ndarray, int], np.ndarray]  # finite values and the number of the first -> what is summed


class Channel:
    """Prefix sums of one thing over one key's rows: sums[i] covers the rows before history row i, since the anchor.

    `column` None counts. With several rows of sums (one per frequency) the first axis is the frequency.
    """

    __slots__ = ("clean", "column", "integer", "sums", "transform")

    def __init__(self, column: str, kind: type, transform: Transform | None, frequencies: int = 0) -> None:
        self.column = column
        self.transform = transform
        self.clean = True  # every value of the last extension was finite
        self.integer = kind is np.int64
        self.sums: np.ndarray = np.zeros((frequencies, 1) if frequencies else (1,), kind)

    def extend(self, columns: Mapping[str, np.ndarray], before: int, number: int) -> None:
        """Adds the rows from place `before` on; the first of them has this number within the key."""
        values = columns[self.column][before:]
        if not self.integer:
            wide = values.astype(np.float64, copy=False)
            # A finite sum of squares proves every value finite, at the price of one pass.
            self.clean = math.isfinite(wide.dot(wide))
            values = wide if self.clean else np.where(np.isfinite(wide), wide, 0.0)
        if self.transform is not None:
            values = self.transform(values, number)
        held = self.sums.shape[-1]
        sums = np.empty((*self.sums.shape[:-1], held + len(columns[self.column]) - before), self.sums.dtype)
        sums[..., :held] = self.sums
        sums[..., held:] = values
        # A strict left fold that starts from the last prefix: the same bits however the rows were cut.
        tail = sums[..., held - 1 :]
        np.add.accumulate(tail, axis=-1, out=tail)
        self.sums = sums

    def anchor(self) -> None:
        """Starts again from zero; what is still needed from before is kept relative to the new start."""
        self.sums = self.sums - self.sums[..., -1:]

    def keep(self, first: int) -> None:
        self.sums = self.sums[..., first:]

    def over(self, starts: np.ndarray, ends: np.ndarray, *, by_one: bool) -> np.ndarray:
        """The sum over rows starts .. ends, both included. `by_one`: each span is the one before, one row on."""
        if by_one and len(ends):
            count = len(ends)
            low, high = int(starts[0]), int(ends[0]) + 1  # no gather needed
            slid: np.ndarray = self.sums[..., high : high + count] - self.sums[..., low : low + count]
            return slid
        gathered: np.ndarray = self.sums[..., ends + 1] - self.sums[..., starts]
        return gathered

    def dump(self) -> Value:
        if self.sums.ndim == 1:
            return self.sums
        return [self.sums.shape[0], np.ascontiguousarray(self.sums).view(np.float64).reshape(-1)]

    def load(self, state: Value) -> None:
        if isinstance(state, list):
            frequencies, flat = state
            self.sums = flat.view(np.complex128).reshape(frequencies, -1)
        else:
            self.sums = state


class SpreadChannel(Channel):
    """Sums of x - a and of (x - a)**2 for variance. a changes at anchors, to the last value before, so that a signal
    that drifts far from its beginning keeps its precision; the sums still needed are moved to the new a exactly as the
    algebra says."""

    __slots__ = ("last", "reference")

    def __init__(self, column: str) -> None:
        super().__init__(column, np.float64, None, frequencies=3)  # the values' count, first and second sums
        self.reference = math.nan
        self.last = math.nan

    def extend(self, columns: Mapping[str, np.ndarray], before: int, number: int) -> None:
        values = columns[self.column][before:].astype(np.float64, copy=False)
        known = np.isfinite(values)
        self.clean = everything = bool(known.all())
        if not known.any():
            added = np.zeros((3, len(values)))
        else:
            present = values if everything else values[known]
            if math.isnan(self.reference):
                self.reference = float(present[0])
            self.last = float(present[-1])
            away = values - self.reference
            if not everything:
                away = np.where(known, away, 0.0)
            added = np.stack((known.astype(np.float64), away, away * away))
        held = self.sums.shape[1]
        sums = np.concatenate((self.sums, added), axis=1)
        tail = sums[:, held - 1 :]
        np.add.accumulate(tail, axis=1, out=tail)
        self.sums = sums

    def anchor(self) -> None:
        count, first, second = self.sums - self.sums[:, -1:]
        if not math.isnan(self.last):
            shift = self.reference - self.last
            second = second + 2.0 * shift * first + count * (shift * shift)
            first = first + count * shift
            self.reference = self.last
        self.sums = np.stack((count, first, second))

    def dump(self) -> Value:
        return [self.reference, self.last, np.ascontiguousarray(self.sums).reshape(-1)]

    def load(self, state: Value) -> None:
        self.reference, self.last, flat = state
        self.sums = flat.reshape(3, -1)


def modulation(size: int, bins: int) -> Transform:
    """Values times exp(-2 pi i k n / size), n being the row's number: what a discrete Fourier transform sums."""
    table = np.exp(-2j * np.pi * np.arange(size) / size)

    def modulated(values: np.ndarray, number: int) -> np.ndarray:
        numbers = (number + np.arange(len(values))) % size
        waves: np.ndarray = table[(np.arange(bins)[:, None] * numbers) % size]
        product: np.ndarray = values * waves
        return product

    return modulated


def channels_of(aggregation: Aggregation, size: int) -> list[Channel]:
    """One channel for each different thing that the aggregates sum; `spans` finds them by `channel_key`."""
    channels: list[Channel] = []
    for kind, column, bins in channel_keys(aggregation, size):
        if kind == "whole":
            channels.append(Channel(column, np.int64, None))
        elif kind == "float":
            channels.append(Channel(column, np.float64, None))
        elif kind == "spread":
            channels.append(SpreadChannel(column))
        else:
            channels.append(Channel(column, np.complex128, modulation(size, bins), frequencies=bins))
    return channels


def channel_keys(aggregation: Aggregation, size: int) -> list[tuple[str, str, int]]:
    return list(
        dict.fromkeys(
            key for place in range(len(aggregation.aggregates)) if (key := channel_key(aggregation, place, size))
        )
    )


def channel_key(aggregation: Aggregation, place: int, size: int) -> tuple[str, str, int] | None:
    """Which channel answers the aggregate at this place; None where no prefix sum does."""
    aggregate, fields = aggregation.aggregates[place]
    column = aggregate.columns[0] if aggregate.columns else TIME
    if column == TIME:
        return None
    floats = aggregation.schema.kind(column).startswith("float")
    match aggregate.function:
        case "sum" | "mean":
            whole = aggregate.function == "sum" and not floats
            return ("whole" if whole else "float", column, 0)
        case "variance" | "std":
            return ("spread", column, 0)
        case "dft" if size and len(fields) <= size:
            return ("dft", column, len(fields))
    return None
