"""The hash that decides where state lives never changes and spreads keys evenly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_backend.spark.slots import SLOTS, Range, covers_all, demand_inside, even_ranges, slot_of_text, slots_of
from shared.errors import BrokenInvariant

TEXT = np.dtypes.StringDType()


def test_slots_of_known_keys_are_frozen() -> None:
    # State on disk is divided by these numbers: a change here needs a format version and a migration.
    assert [slot_of_text(text) for text in ("", "a", "device", "ångström", "ab\0", "ab")] == FROZEN_TEXT
    numbers = np.array([0, 1, -1, 2**62], np.int64)
    assert slots_of({"k": numbers}, ("k",), 4).tolist() == FROZEN_NUMBERS


FROZEN_TEXT = [753, 868, 307, 448, 195, 860]
FROZEN_NUMBERS = [718, 966, 758, 674]


@settings(deadline=None)
@given(st.lists(st.text(), max_size=30))
def test_a_text_key_has_the_same_slot_alone_and_in_any_company(texts: list[str]) -> None:
    together = slots_of({"k": np.array(texts, TEXT)}, ("k",), len(texts)).tolist()
    assert together == [slot_of_text(text) for text in texts]


def test_keys_spread_over_the_slots() -> None:
    counts = np.bincount(slots_of({"k": np.arange(200_000)}, ("k",), 200_000), minlength=SLOTS)
    assert counts.min() > 100
    assert counts.max() < 300


def test_equal_floats_share_a_slot() -> None:
    column = np.array([0.0, -0.0, np.nan, -np.nan])
    slots = slots_of({"k": column}, ("k",), 4)
    assert slots[0] == slots[1]
    assert slots[2] == slots[3]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_even_ranges_cover_every_slot_once(count: int) -> None:
    assert covers_all(even_ranges(count))
    assert len(even_ranges(count)) == count


def test_halves_cover_the_whole_and_a_gap_is_seen() -> None:
    first, second = Range(0, SLOTS).halves()
    assert covers_all([second, first])
    assert not covers_all([first])
    assert Range.parse(str(first)) == first


def test_a_misplaced_row_is_refused() -> None:
    with pytest.raises(BrokenInvariant, match=r"\[spark-misplaced-row\]"):
        demand_inside(np.array([3, 600], np.uint16), Range(0, 512))
