"""The integer grid behind a column of floats.

A sensor counts: its floats are integers times a step (decimal digits, milliseconds with binary fractions, the
least significant bit of a converter, perhaps plus a calibration offset). Found again, the integers compress
several times better than the floats' bits. A grid need not be exact: what it predicts is corrected by a
number of representable steps (`adjust`, nearly always 0), so every column comes back bit for bit, -0.0 and
rounding quirks included. Values that no grid can carry (NaN with its payload, infinities, far outliers) are
exceptions, kept as they are beside it. The last resort is the grid of the bits themselves.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[Any]  # float32 or float64

SAMPLE_ROWS = 2048
PROBE_ROWS = 96
ADJUST_MAX = 127  # representable steps; beyond this a value is an exception
GRID_MAX = float(2**51)  # grid integers stay exact in a double, with room for the offset
DECIMALS = 12
# Clocks on phones give milliseconds or microseconds with binary fractions, so both kinds of digits are combined.
BINARY_BASES = (0, 3, 6, 9)
BINARY_DIGITS = 24
# A grid must save this many bits a value over the plain bits, or it is not worth its parameters.
WORTH_BITS = 0.25


class GridKind(IntEnum):
    BITS = 0  # ordered bits, without the low bits that are zero in every value
    RATIO = 1  # integer / divisor
    STEP = 2  # integer * step + offset


class Grid(NamedTuple):  # three times as fast to make as a frozen dataclass, and every column read makes one
    kind: GridKind
    narrow: bool = False  # doubles that all fit single precision: predict and correct in single
    shift: int = 0  # BITS: low bits dropped
    first: float = 0.0  # RATIO: the divisor; STEP: the step
    offset: float = 0.0  # STEP


class OnGrid(NamedTuple):
    """A column on its grid: integers, corrections (None: all zero), and where the exceptions are (None: nowhere)."""

    integers: Integers
    adjust: Integers | None
    exceptions: NDArray[np.bool_] | None


def ordered_bits(values: Floats) -> Integers:
    """Integers in the order of the floats, one per representable value; -0.0 is just below 0.0."""
    return _turned(values.view(np.int32 if values.dtype.itemsize == 4 else np.int64)).astype(np.int64, copy=False)


def from_ordered_bits(integers: Integers, dtype: np.dtype) -> Floats:
    return _turned(integers.astype(np.int32 if dtype.itemsize == 4 else np.int64, copy=False)).view(dtype)


def _turned(signed: NDArray[Any]) -> NDArray[Any]:
    """All bits but the sign's turned over where it is set: from a float's bits to its place in the order, and back."""
    width = 8 * signed.dtype.itemsize
    turned: NDArray[Any] = signed >> signed.dtype.type(width - 1)
    turned &= signed.dtype.type(2 ** (width - 1) - 1)
    turned ^= signed
    return turned


def place_on_grid(values: Floats, grid: Grid) -> OnGrid:
    """The column's integers on this grid. Any column fits any grid; a bad one only has many exceptions.
    Under `np.errstate(all="ignore")`."""
    if grid.kind is GridKind.BITS:
        return _place_bits(values, grid)
    held = values.astype(np.float32) if grid.narrow else values
    wide = values.astype(np.float64, copy=False)
    scaled = wide * grid.first if grid.kind is GridKind.RATIO else (wide - grid.offset) / grid.first
    rounded = np.rint(scaled, out=scaled)
    fits = np.abs(rounded) < GRID_MAX  # False for NaN
    if grid.narrow:
        fits &= held.astype(np.float64) == wide
    whole = bool(fits.all())
    integers = (rounded if whole else np.where(fits, rounded, 0.0)).astype(np.int64)
    predicted = _predict(integers, grid, held.dtype)
    bits = np.int32 if held.dtype.itemsize == 4 else np.int64
    if whole and bool((predicted.view(bits) == held.view(bits)).all()):  # as nearly always
        return OnGrid(integers, None, None)
    adjust = ordered_bits(held) - ordered_bits(predicted)
    if adjust.any():
        far = np.abs(adjust) > ADJUST_MAX
        if far.any():
            fits &= ~far
            whole = whole and bool(fits.all())
            adjust = np.where(fits, adjust, 0)
    if not whole:
        integers = fill_forward(integers, fits)
    return OnGrid(integers, adjust if adjust.any() else None, None if whole else ~fits)


def take_from_grid(on: OnGrid, grid: Grid, dtype: np.dtype) -> Floats:
    """The column again, but for its exceptions. Under `np.errstate(all="ignore")`, as `_predict`."""
    held = np.dtype(np.float32) if grid.narrow else dtype
    if grid.kind is GridKind.BITS:
        integers = on.integers
        if grid.shift:  # zeros into a magnitude, so ones where it stands turned over
            ones = (integers >> np.int64(63)) & np.int64((1 << grid.shift) - 1)
            integers = integers << np.int64(grid.shift) | ones
        return from_ordered_bits(integers, held).astype(dtype, copy=False)
    predicted = _predict(on.integers, grid, held)
    if on.adjust is not None:
        predicted = from_ordered_bits(ordered_bits(predicted) + on.adjust, held)
    return predicted.astype(dtype, copy=False)


def find_grid(values: Floats) -> Grid:
    """The cheapest grid for a column, judged on a sample. Under `np.errstate(all="ignore")`."""
    sample = _sample(values)
    finite = sample[np.isfinite(sample)]
    if not len(finite):
        return _bits_grid(sample)
    narrow = values.dtype.itemsize == 8 and bool(np.all(finite.astype(np.float32).astype(np.float64) == finite))
    held = finite.astype(np.float32) if narrow else finite
    best = _bits_grid(sample)
    best_cost = _cost(sample, best) - WORTH_BITS
    for grid in [*_ratio_grids(finite, held.dtype, narrow), *_step_grids(held, narrow)]:
        cost = _cost(sample, grid)
        if cost < best_cost - 1e-9:
            best, best_cost = grid, cost
    return best


def _cost(sample: Floats, grid: Grid) -> float:
    """Estimated bits a value on this grid; compares grids, predicts nothing."""
    on = place_on_grid(sample, grid)
    cost = bits_per_value(on.integers)
    if grid.kind is GridKind.BITS:
        # Of noise in full precision the exponents still have little information, however far apart they are.
        mantissa = (23 if grid.narrow or sample.dtype.itemsize == 4 else 52) - grid.shift
        cost = min(cost, _entropy(on.integers >> np.int64(max(mantissa, 0))) + max(mantissa, 0))
    if on.adjust is not None:
        cost += _entropy(on.adjust) + 2 * float((on.adjust != 0).mean())  # the entropy of a sample flatters noise
    if on.exceptions is not None:
        cost += float(on.exceptions.mean()) * (8 * sample.dtype.itemsize + 8)
    return cost


def bits_per_value(integers: Integers) -> float:
    """The best of the plain, first and second differences: by their length, or by how few different ones there are."""
    wide = integers.astype(np.float64)
    if len(wide) < 4:
        return float(np.log2(np.abs(wide) + 1).mean()) if len(wide) else 0.0
    plain = wide - np.median(wide)
    return min(_bits(difference) for difference in (plain, np.diff(wide), np.diff(wide, n=2)))


def _bits(wide: NDArray[np.float64]) -> float:
    length = float(np.log2(2 * np.abs(wide) + 1).mean())
    _, counts = np.unique(wide, return_counts=True)
    share = counts / len(wide)
    table = float(-(share * np.log2(share)).sum()) + len(counts) / len(wide) * length
    return min(length, table)


def fill_forward(integers: Integers, fits: NDArray[np.bool_]) -> Integers:
    """Exceptions take the integer before them, so that they cost nothing among the others."""
    last = np.maximum.accumulate(np.where(fits, np.arange(len(integers)), -1))
    first = integers[int(np.argmax(fits))] if fits.any() else np.int64(0)
    return np.where(last >= 0, integers[np.maximum(last, 0)], first)


def _predict(integers: Integers, grid: Grid, dtype: np.dtype) -> Floats:
    """What the grid says. Under `np.errstate(all="ignore")`: a stranger's grid may be anything."""
    wide = integers.astype(np.float64)
    if grid.kind is GridKind.RATIO:
        wide /= grid.first
    else:
        wide *= grid.first
        if grid.offset:
            wide += grid.offset
    return wide.astype(dtype, copy=False)


def _place_bits(values: Floats, grid: Grid) -> OnGrid:
    fits: NDArray[np.bool_] | None = None
    held = values
    if grid.narrow:
        held = values.astype(np.float32)
        fits = held.astype(np.float64) == values
        held = np.where(fits, held, np.float32(0))
    integers = ordered_bits(held)
    if grid.shift:
        negative = integers < 0
        magnitude = np.where(negative, ~integers, integers)
        low = (magnitude & np.int64((1 << grid.shift) - 1)) == 0
        fits = low if fits is None else fits & low
        shift_outages = magnitude >> np.int64(grid.shift)
        integers = np.where(negative, ~shift_outages, shift_outages)
    if fits is None or fits.all():
        return OnGrid(integers, None, None)
    return OnGrid(fill_forward(integers, fits), None, ~fits)


def _bits_grid(sample: Floats) -> Grid:
    """Bits, in single precision where nearly all doubles fit it, without the low bits that are always zero."""
    narrow = False
    if sample.dtype.itemsize == 8:
        narrow = bool((sample.astype(np.float32).astype(np.float64) == sample).mean() > 0.9)
    stored = sample.astype(np.float32) if narrow else sample
    finite = stored[np.isfinite(stored)]
    if not len(finite):
        return Grid(GridKind.BITS)
    used = int(np.bitwise_or.reduce(finite.view(np.uint32 if finite.dtype.itemsize == 4 else np.uint64)))
    shift = (used & -used).bit_length() - 1 if used else 0
    return Grid(GridKind.BITS, narrow=narrow, shift=min(shift, 8 * stored.dtype.itemsize - 2))


def _ratio_grids(finite: Floats, dtype: np.dtype, narrow: bool) -> list[Grid]:
    """integer / (10**e * 2**j) for the fewest digits that hold nearly every probed value."""
    nonzero = finite[finite != 0]
    source = nonzero if len(nonzero) else finite
    probe = source[:: max(1, len(source) // PROBE_ROWS)].astype(np.float64)
    precision = 4 * float(np.finfo(dtype).eps)
    grids: list[Grid] = []
    for digits in range(DECIMALS + 1):
        if _on_integers(probe * 10.0**digits, precision):
            grids.append(Grid(GridKind.RATIO, narrow=narrow, first=10.0**digits))
            break
    for digits in BINARY_BASES:
        for binary in range(1, BINARY_DIGITS + 1):
            divisor = 10.0**digits * 2.0**binary
            if _on_integers(probe * divisor, precision):
                grids.append(Grid(GridKind.RATIO, narrow=narrow, first=divisor))
                break
    return grids


def _on_integers(scaled: NDArray[np.float64], precision: float) -> bool:
    """Whether nearly all are integers as far as their precision tells, and it tells something for most."""
    size = np.abs(scaled)
    near = np.abs(scaled - np.rint(scaled)) <= size * precision
    telling = size * precision < 0.1
    return bool(near.mean() >= 0.97 and telling.mean() >= 0.5 and size.max() < GRID_MAX)


def _step_grids(held: Floats, narrow: bool) -> list[Grid]:
    """integer * step + offset: the step from the gaps between distinct values, refined over growing spans."""
    distinct = np.unique(held).astype(np.float64)
    if len(distinct) < 4:
        return []
    resolution = float(np.spacing(held.dtype.type(np.abs(distinct).max())))
    gaps = np.diff(distinct)
    gaps = gaps[gaps > 3 * resolution]
    if len(gaps) < 2:
        return []
    grids: list[Grid] = []
    for guess in {float(gaps.min()), _common_step(gaps, resolution)}:
        for fraction in (1, 2, 3):
            step = _refine(distinct, guess / fraction, resolution)
            if step is None:
                continue
            offset = _offset(distinct, step)
            grids.append(Grid(GridKind.STEP, narrow=narrow, first=_centre(held, step)))
            if abs(1 / step - round(1 / step)) < 1e-3:  # a gain such as 200 per millivolt, and exact as a divisor
                grids.append(Grid(GridKind.RATIO, narrow=narrow, first=float(round(1 / step))))
            if offset:
                grids.append(Grid(GridKind.STEP, narrow=narrow, first=step, offset=offset))
    return grids


def _centre(held: Floats, step: float) -> float:
    """The middle of the steps that reproduce every value exactly, when there are any; else the step itself."""
    distinct = np.unique(np.abs(held))
    distinct = distinct[distinct > 0.5 * step]
    wide = distinct.astype(np.float64)
    count = np.rint(wide / step)
    half = np.spacing(distinct).astype(np.float64) / 2
    lo, hi = float(((wide - half) / count).max()), float(((wide + half) / count).min())
    return (lo + hi) / 2 if lo <= hi else step


def _common_step(gaps: NDArray[np.float64], resolution: float) -> float:
    """The greatest common divisor of the smaller gaps, within their precision."""
    step = 0.0
    for gap in np.sort(gaps)[:64].tolist():
        a, b = max(step, gap), min(step, gap)
        while b > 4 * resolution:
            a, b = b, abs(a - round(a / b) * b)
        if a > 4 * resolution:
            step = a
    return step or float(gaps.min())


def _refine(distinct: NDArray[np.float64], step: float, resolution: float) -> float | None:
    """Fit the step over ever wider spans around the middle, as far as the error allows to count steps."""
    if not 2 * resolution < step < np.inf:
        return None
    relative = distinct - distinct[len(distinct) // 2]
    span = 16.0
    while True:
        near = np.abs(relative) <= span * step
        count = np.rint(relative[near] / step)
        weight = float((count * count).sum())
        if weight > 0:
            step = float((relative[near] * count).sum() / weight)
        if near.all() or not resolution < step < np.inf:
            break
        span *= 3
    return step if resolution < step < np.inf else None


def _offset(distinct: NDArray[np.float64], step: float) -> float:
    """Where the grid passes closest to all values, relative to zero; 0.0 when it passes through zero."""
    phase = distinct / step
    angle = 2 * np.pi * (phase - np.rint(phase))
    mean = float(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean())) / (2 * np.pi)
    return 0.0 if abs(mean) < 1e-6 else mean * step


def _sample(values: Floats) -> Floats:
    """Two contiguous runs, so that differences mean something; all of a short column."""
    if len(values) <= SAMPLE_ROWS:
        return values
    half = SAMPLE_ROWS // 2
    middle = len(values) // 2
    return np.concatenate((values[:half], values[middle : middle + half]))


def _entropy(integers: Integers) -> float:
    _, counts = np.unique(integers, return_counts=True)
    share = counts / counts.sum()
    return float(-(share * np.log2(share)).sum())
