"""Batches of the log that this worker has decoded, for the next query that reads them.

Queries over one log read the same records, each in a job and in epochs of its own. Decoding is most of what that costs.
What a batch holds follows from its frame and from what the plan wants of its edge, so it is kept under both, the frame
by its header and the SHA-256 of its payload, which the log's reader has computed while it checked the record. Nothing
kept can be out of date: other bytes have another hash, and of what was erased nobody reads the frame any more.

The batch that was used longest ago goes first. One slice that is larger than the room keeps its first part and not its
last: the next query reads it from its beginning too, and would meet none of what the end had left.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shared.batch import Batch
from shared.language.expressions import Value
from shared.language.schema import Schema
from shared.wire.frame import HEADER_BYTES

KEPT_BYTES_MAX = 64 * 1024 * 1024  # in one worker
_ENTRY_BYTES = 1500  # of the objects around the columns: measured of a batch with three
FORMS_MAX = 4096  # then numbers are given anew; what is kept under the former ones goes as nobody uses it

Form = tuple[str, str, Schema, tuple[tuple[str, str], ...], bool]  # log, edge, and what the plan wants of it
Key = tuple[int, bytes, bytes, int]  # number of the form, the frame's header, its payload's hash, the frontier


@dataclass(slots=True)
class _Kept:
    batch: Batch
    bytes: int
    reading: int  # the last that used it


class DecodedBatches:
    """Kept by a process, whose threads share it."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._forms: dict[Form, int] = {}
        self._numbers = itertools.count()
        self._readings = itertools.count()
        self._lock = threading.Lock()

    def of(self, log: str, edge: str, wanted: Schema, missing: Mapping[str, Value], *, met: bool) -> Reading:
        """For one pass over a slice of the log, by a reader that wants this of an edge."""
        # As text: 0.0 equals -0.0 and 1 equals True, which a column tells apart, and a NaN equals no other one.
        stated = tuple(sorted((name, repr(value)) for name, value in missing.items()))
        form = (log, edge, wanted, stated, met)
        with self._lock:
            if form not in self._forms:
                if len(self._forms) >= FORMS_MAX:
                    self._forms.clear()
                self._forms[form] = next(self._numbers)
            return Reading(self, self._forms[form], next(self._readings))

    def find(self, key: Key, reading: int) -> Batch | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            found.reading = reading
            self._kept.move_to_end(key)
            return found.batch

    def keep(self, key: Key, batch: Batch, reading: int) -> None:
        size = _bytes_of(batch)
        with self._lock:
            while self._kept and self._bytes + size > self._bytes_max:
                oldest = next(iter(self._kept))
                if self._kept[oldest].reading == reading:
                    return
                self._bytes -= self._kept.pop(oldest).bytes
            if size <= self._bytes_max and key not in self._kept:
                self._kept[key] = _Kept(batch, size, reading)
                self._bytes += size


@dataclass(frozen=True, slots=True)
class Reading:
    batches: DecodedBatches
    form: int
    number: int

    def find(self, frame: bytes | memoryview, digest: bytes, frontier_us: int) -> Batch | None:
        """The batch of a frame, where another reading has decoded it."""
        return self.batches.find(self._key(frame, digest, frontier_us), self.number)

    def keep(self, frame: bytes | memoryview, digest: bytes, frontier_us: int, batch: Batch) -> None:
        self.batches.keep(self._key(frame, digest, frontier_us), batch, self.number)

    def _key(self, frame: bytes | memoryview, digest: bytes, frontier_us: int) -> Key:
        return self.form, bytes(frame[:HEADER_BYTES]), digest, frontier_us


def _bytes_of(batch: Batch) -> int:
    """About what a batch takes in memory; a column that says the same on every row takes one value."""
    columns = (batch.time_us, batch.seq, *batch.columns.values())
    return _ENTRY_BYTES + sum(_column_bytes(column) for column in columns)


def _column_bytes(column: np.ndarray) -> int:
    one = column[:1] if column.strides == (0,) else column
    text = 4 * int(np.strings.str_len(one).sum()) if isinstance(one.dtype, np.dtypes.StringDType) else 0
    return one.nbytes + text
