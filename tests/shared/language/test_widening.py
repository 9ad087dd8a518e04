"""Which kinds hold every value of which others."""

from __future__ import annotations

import numpy as np
import pytest

from shared.language.schema import KINDS, Schema
from shared.language.widening import conflicts, widens

NUMBERS = [kind for kind in KINDS if kind not in ("str", "bool")]


@pytest.mark.parametrize("narrow", NUMBERS)
@pytest.mark.parametrize("wide", NUMBERS)
def test_a_kind_widens_exactly_where_numpy_says_that_no_value_is_lost(narrow, wide):
    limits = [np.finfo(narrow).max] if narrow.startswith("float") else [np.iinfo(narrow).min, np.iinfo(narrow).max]
    limits += [] if narrow.startswith("float") else [np.iinfo(narrow).max - 1]
    if narrow.startswith("float") and not wide.startswith("float"):
        kept = False
    elif wide.startswith("float"):  # by size: the largest value and its neighbour stay apart
        kept = (wide == "float64" and (narrow == "float32" or np.dtype(narrow).itemsize <= 4)) or narrow == wide
    else:
        kept = all(np.iinfo(wide).min <= int(limit) <= np.iinfo(wide).max for limit in limits)
    assert widens(narrow, wide) == kept


def test_text_and_truth_widen_to_themselves_only():
    for kind in ("str", "bool"):
        assert [other for other in KINDS if widens(kind, other)] == [kind]
        assert [other for other in KINDS if widens(other, kind)] == [kind]


def test_only_columns_that_both_have_can_be_in_conflict():
    written = Schema.of({"a": "int64", "b": "float32", "c": "str"})
    wanted = Schema.of({"a": "int32", "b": "float64", "d": "bool"})
    assert conflicts(written, wanted) == ["column 'a' was written as int64 and is wanted as int32"]
