"""A batch of an older or newer program, read as the one at hand wants it."""

from __future__ import annotations

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import PeerError
from shared.language.schema import Schema
from shared.wire.other_forms import read_as

OLD = Schema.of({"n": "int32", "x": "float32", "word": "str"})
WIDE = Schema.of({"word": "str", "n": "int64", "x": "float64"})


def batch() -> Batch:
    rows = {"n": [2**31 - 1, -5], "x": [1.5, np.nan], "word": ["a", "ü"]}
    return Batch.of(OLD, rows, [10, 20], lo=7, frontier_us=30)


def test_numbers_grow_wider_and_the_order_of_columns_is_the_wanted_one():
    read = read_as(batch(), WIDE, {})
    assert read.schema == WIDE
    assert tuple(read.columns) == WIDE.names
    assert [read.columns["n"].dtype, read.columns["x"].dtype] == [np.int64, np.float64]
    assert read.columns["n"].tolist() == [2**31 - 1, -5]
    assert read.columns["word"].tolist() == ["a", "ü"]
    assert (read.lo, read.hi, read.frontier_us, read.seq.tolist()) == (7, 9, 30, [7, 8])


def test_a_column_that_it_lacks_is_nan_or_what_the_program_states():
    more = Schema.of({"n": "int32", "speed": "float64", "level": "float32", "steps": "int16", "mode": "str"})
    read = read_as(batch(), more, {"level": -1.0, "steps": -1, "mode": "none"})
    assert np.isnan(read.columns["speed"]).all()
    assert read.columns["level"].tolist() == [-1.0, -1.0]
    assert read.columns["steps"].tolist() == [-1, -1]
    assert read.columns["mode"].tolist() == ["none", "none"]
    assert {name: values.dtype.kind for name, values in read.columns.items()}["mode"] == "T"


def test_columns_that_nobody_wants_are_left_out():
    assert tuple(read_as(batch(), Schema.of({"n": "int32"}), {}).columns) == ("n",)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"n": "int16"}, "column 'n' was written as int32 and is wanted as int16"),
        ({"x": "int64"}, "column 'x' was written as float32 and is wanted as int64"),
        ({"n": "int32", "steps": "int64"}, "column 'steps' is not in it, and the program states no value for that"),
        ({"n": "int32", "on": "bool"}, "column 'on' is not in it"),
    ],
)
def test_what_would_be_a_guess_is_refused_by_column(wanted, why):
    with pytest.raises(PeerError) as refused:
        read_as(batch(), Schema.of(wanted), {})
    assert refused.value.code == "ingest-schema"
    assert why in refused.value.message
