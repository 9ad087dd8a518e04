"""Which hash range a row belongs to: a fixed hash of its key columns, the same on every platform and version.

The hash space is divided into SLOTS equal slots. A physical vertex owns a half-open run of them, so ranges
split and merge by moving a boundary and never by hashing again. Python's own `hash` is seeded per process and Spark's
differs between releases; neither may decide where state lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cloud_backend.spark.storage.text_columns import Coded
from shared.errors import BrokenInvariant, UsageError

SLOTS = 1024
_SHIFT = np.uint64(64 - 10)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Slots [lo, hi). `since` tells a range from an earlier one of the same slots that was split or merged away."""

    lo: int
    hi: int
    since: int = 1

    def __str__(self) -> str:
        return f"{self.lo}-{self.hi}" + (f"@{self.since}" if self.since != 1 else "")

    @staticmethod
    def parse(text: str) -> Range:
        """The range that prints as this text; UsageError for anything else."""
        slots, _, since = text.partition("@")
        lo, _, hi = slots.partition("-")
        try:
            return Range(int(lo), int(hi), int(since or 1))
        except ValueError:
            raise UsageError(f"{text!r} is not a range of slots like 0-512", code="spark-range") from None

    def same_slots(self, other: Range) -> bool:
        return (self.lo, self.hi) == (other.lo, other.hi)

    def overlaps(self, other: Range) -> bool:
        return self.lo < other.hi and other.lo < self.hi

    def halves(self) -> tuple[Range, Range]:
        middle = (self.lo + self.hi) // 2
        return Range(self.lo, middle), Range(middle, self.hi)


WHOLE = Range(0, SLOTS)


def even_ranges(count: int) -> tuple[Range, ...]:
    """The slots divided evenly among `count` ranges."""
    edges = [SLOTS * index // count for index in range(count + 1)]
    return tuple(Range(lo, hi) for lo, hi in itertools.pairwise(edges))


def slots_of(columns: Mapping[str, np.ndarray], key: Sequence[str], rows: int) -> np.ndarray:
    """The slot of every row, as uint16. Without key columns every row is in slot 0."""
    if not key:
        return np.zeros(rows, np.uint16)
    mixed = np.zeros(rows, np.uint64)
    with np.errstate(over="ignore"):
        for name in key:
            mixed = _mix(mixed * _FNV_PRIME + _hash(columns[name]) + _GOLDEN)
    return (mixed >> _SHIFT).astype(np.uint16)


def slot_of_text(value: str) -> int:
    """The slot of one row whose key is a single text column."""
    return int(slots_of({"key": np.array([value], np.dtypes.StringDType())}, ("key",), 1)[0])


def demand_inside(slots: np.ndarray, range_: Range) -> None:
    """Raise unless every row belongs to the range: a misplaced row would meet another key's state."""
    if len(slots) and not (range_.lo <= int(slots.min()) and int(slots.max()) < range_.hi):
        raise BrokenInvariant(
            f"a row of slot {int(slots.min())}..{int(slots.max())} reached the task of range {range_}",
            code="spark-misplaced-row",
        )


def _hash(column: np.ndarray) -> np.ndarray:
    if isinstance(column.dtype, np.dtypes.StringDType):
        return _hash_text(column)
    if column.dtype.kind == "f":
        wide = column.astype(np.float64)
        wide = np.where(wide == 0, 0.0, wide)  # -0.0 and 0.0 are one key
        wide = np.where(np.isnan(wide), np.nan, wide)  # so are all NaNs
        return _mix(wide.view(np.uint64))
    if column.dtype.kind == "u":
        return _mix(column.astype(np.uint64))
    return _mix(column.astype(np.int64).view(np.uint64))


def _hash_text(column: np.ndarray) -> np.ndarray:
    """FNV-1a over the UTF-8 bytes, one byte position of all distinct texts at a time."""
    if not len(column):
        return np.zeros(0, np.uint64)
    coded = Coded.of(column)
    encoded = [text.encode() for text in coded.values]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    width = int(lengths.max())
    padded = b"".join(text.ljust(width, b"\0") for text in encoded)
    letters = np.frombuffer(padded, np.uint8).reshape(len(encoded), width)
    hashed = np.full(len(encoded), _FNV_OFFSET)
    with np.errstate(over="ignore"):
        for position in range(width):
            inside = position < lengths
            hashed[inside] = (hashed[inside] ^ letters[inside, position]) * _FNV_PRIME
    return np.take(_mix(hashed), coded.codes)


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every input bit reaches the high bits that choose the slot."""
    with np.errstate(over="ignore"):
        values = values + _GOLDEN
        values = (values ^ (values >> np.uint64(30))) * _MIX_1
        values = (values ^ (values >> np.uint64(27))) * _MIX_2
        mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def slots_of_partition(partition: int, partitions: int) -> Range:
    """The devices' slots whose batches are in this partition of the log, of so many."""
    return Range(SLOTS * partition // partitions, SLOTS * (partition + 1) // partitions)


def covers_all(ranges: Iterable[Range]) -> bool:
    """True when the ranges follow each other without gap or overlap over every slot."""
    expected = 0
    for range_ in sorted(ranges):
        if range_.lo != expected or range_.hi <= range_.lo:
            return False
        expected = range_.hi
    return expected == SLOTS
