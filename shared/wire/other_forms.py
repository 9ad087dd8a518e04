"""Reading a batch of another form of its stream: one that a phone made under an older or a newer program.

Nothing is invented: columns that are not wanted are left out, numbers grow wider where every value stays what it is,
and a column that the batch lacks is NaN, or what the program states with `.sync(missing=...)`. Anything else is
refused, and the batch goes to quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shared.batch import Batch
from shared.errors import PeerError
from shared.language.expressions import Value
from shared.language.schema import Schema, dtype
from shared.language.widening import MISSING_ITSELF, conflicts


def read_as(batch: Batch, wanted: Schema, missing: Mapping[str, Value]) -> Batch:
    """The batch with the columns that are wanted. `missing`: what stands in for columns that it lacks. Raises PeerError
    (ingest-schema) where that would be a guess."""
    written = batch.schema
    if written == wanted:
        return batch
    why = conflicts(written, wanted)
    why += [
        f"column {field.name!r} is not in it, and the program states no value for that"
        for field in wanted
        if field.name not in written and field.kind not in MISSING_ITSELF and field.name not in missing
    ]
    if why:
        raise PeerError(f"it has another form than the program's stream: {'; '.join(why)}", code="ingest-schema")
    columns = {
        field.name: batch.columns[field.name].astype(dtype(field.kind), copy=False)
        if field.name in written
        else np.full(len(batch), missing.get(field.name, np.nan), dtype=dtype(field.kind))
        for field in wanted
    }
    return replace(batch, schema=wanted, columns=columns)
