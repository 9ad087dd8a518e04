from __future__ import annotations

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import PeerError
from shared.stream.schema import KINDS, Schema, dtype
from shared.sync.schemas import conflicts, reader, widens

OLD = Schema.of({"lat": "float32", "count": "uint16", "gone": "int8"})
NEW = Schema.of({"count": "int64", "lat": "float64", "mode": "str", "speed": "float64", "ok": "bool"})


def test_an_older_batch_is_read_with_empty_values_for_what_it_lacks() -> None:
    batch = Batch.of(OLD, {"lat": [1.5, 2.5], "count": [7, 65_535], "gone": [1, 2]}, [10, 20], lo=5, frontier_us=20)
    read = reader(OLD, NEW)(batch)
    assert read.schema == NEW
    assert (read.lo, read.hi, read.frontier_us, read.seq.tolist()) == (5, 7, 20, [5, 6])
    assert read.columns["lat"].tolist() == [1.5, 2.5]
    assert read.columns["count"].tolist() == [7, 65_535]
    assert read.columns["mode"].tolist() == ["", ""]
    assert np.isnan(read.columns["speed"]).all()
    assert read.columns["ok"].tolist() == [False, False]
    assert {name: column.dtype for name, column in read.columns.items()} == {f.name: dtype(f.kind) for f in NEW}


def test_the_same_schema_is_read_as_it_is() -> None:
    batch = Batch.of(OLD, {"lat": [1.0], "count": [1], "gone": [1]}, [1])
    assert reader(OLD, OLD)(batch) is batch


def test_a_column_that_changed_its_meaning_is_refused_by_name() -> None:
    changed = Schema.of({"lat": "str", "count": "uint8"})
    assert len(conflicts(OLD, changed)) == 2
    with pytest.raises(
        PeerError, match=r"column 'lat' was written as float32 and is wanted as str.*schema-incompatible"
    ):
        reader(OLD, changed)


@pytest.mark.parametrize("written", KINDS)
@pytest.mark.parametrize("wanted", KINDS)
def test_a_kind_widens_only_where_every_extreme_survives(written: str, wanted: str) -> None:
    if not widens(written, wanted) or "str" in (written, wanted) or "bool" in (written, wanted):
        assert widens(written, wanted) == (written == wanted) or "str" not in (written, wanted)
        return
    kind = dtype(written)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    extremes = np.array([limits.min, limits.max], dtype=kind)
    assert extremes.astype(dtype(wanted)).astype(kind).tolist() == extremes.tolist()
