"""Schema versions: read what an older or newer plan wrote, or say by name why it cannot be read.

Every batch carries the id of the schema it was written with and every session declares the schemas it uses, so a
reader always knows what it has. A phone may come back after weeks with batches of a plan two versions old; the
reader is tolerant where nothing is invented: columns it does not know are left out, columns it misses become the
empty value of their kind, numbers may grow wider. Anything else would be a guess. Then the batch is put in
quarantine, which the ledger counts; it is not lost, the log still has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.batch import Batch
from shared.errors import PeerError
from shared.stream.schema import Schema, dtype

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def widens(written: str, wanted: str) -> bool:
    """Whether every value of the one kind is a value of the other, exactly."""
    if written == wanted or (written, wanted) == ("float32", "float64"):
        return True
    if written in _SIGNED and wanted in _SIGNED:
        return _SIGNED.index(written) < _SIGNED.index(wanted)
    if written in _UNSIGNED and wanted in _UNSIGNED:
        return _UNSIGNED.index(written) < _UNSIGNED.index(wanted)
    if written in _UNSIGNED and wanted in _SIGNED:
        return _UNSIGNED.index(written) < _SIGNED.index(wanted)
    # 53 bits of a float64 hold every 32-bit integer
    return wanted == "float64" and written in (*_SIGNED[:3], *_UNSIGNED[:3])


def conflicts(written: Schema, wanted: Schema) -> list[str]:
    """Why a batch of one schema cannot be read as the other, column by column; empty when it can."""
    return [
        f"column {field.name!r} was written as {written.kind(field.name)} and is wanted as {field.kind}"
        for field in wanted
        if field.name in written and not widens(written.kind(field.name), field.kind)
    ]


def reader(written: Schema, wanted: Schema) -> Callable[[Batch], Batch]:
    """What turns batches of one schema into the other. Raises PeerError (schema-incompatible): quarantine them."""
    if written == wanted:
        return _unchanged
    why = conflicts(written, wanted)
    if why:
        raise PeerError(f"{'; '.join(why)}. Give the changed column a new name", code="schema-incompatible")

    def read(batch: Batch) -> Batch:
        columns = {field.name: _column(batch.columns, field.name, field.kind, len(batch)) for field in wanted}
        return Batch(
            schema=wanted, columns=columns, time_us=batch.time_us, seq=batch.seq, lo=batch.lo, hi=batch.hi,
            frontier_us=batch.frontier_us, applied=batch.applied,
        )  # fmt: skip

    return read


def _unchanged(batch: Batch) -> Batch:
    return batch


def _column(columns: Mapping[str, NDArray[Any]], name: str, kind: str, rows: int) -> NDArray[Any]:
    if name in columns:
        return columns[name].astype(dtype(kind), copy=False)
    # A float that was never measured is not a number; other kinds have no such value and get their zero.
    return np.full(rows, np.nan if kind.startswith("float") else "" if kind == "str" else 0, dtype=dtype(kind))
