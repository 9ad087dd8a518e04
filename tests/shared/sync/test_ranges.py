from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sync.ranges import Meeting, RangeSet, meet

#   mark 10:   ....done....|
CASES = [
    (10, 12, Meeting.NEXT),  #        |--|
    (4, 8, Meeting.DUPLICATE),  # |--|
    (8, 10, Meeting.DUPLICATE),  #  |--|
    (11, 12, Meeting.GAP),  #          |-|
    (9, 11, Meeting.OVERLAP),  #     |--|
    (0, 11, Meeting.OVERLAP),
]


@pytest.mark.covers("T5", "EC-16")
@pytest.mark.parametrize(("lo", "hi", "expected"), CASES)
def test_a_range_meets_a_mark_in_one_of_four_ways(lo: int, hi: int, expected: Meeting) -> None:
    assert meet(lo, hi, 10) is expected


@given(st.integers(0, 20), st.integers(1, 10), st.integers(0, 30))
def test_how_a_range_meets_a_mark_follows_from_the_set_of_its_elements(lo: int, count: int, mark: int) -> None:
    known, elements = set(range(mark)), set(range(lo, lo + count))
    meeting = meet(lo, lo + count, mark)
    assert (meeting is Meeting.DUPLICATE) == (elements <= known)
    assert (meeting is Meeting.OVERLAP) == bool(elements & known and elements - known)
    assert (meeting is Meeting.NEXT) == (not elements & known and lo == mark)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=20))
def test_a_range_set_is_a_set(ranges: list[tuple[int, int]]) -> None:
    ours, plain = RangeSet(), set[int]()
    for lo, length in ranges:
        added = set(range(lo, lo + length)) - plain
        assert ours.add(lo, lo + length) == len(added)
        plain |= added
    assert len(ours) == len(plain)
    assert {element for low, high in ours for element in range(low, high)} == plain
    assert all(a[1] < b[0] for a, b in zip(list(ours), list(ours)[1:], strict=False)), "ranges touch"
    for lo in range(0, 45, 5):
        missing = {element for low, high in ours.missing(lo, lo + 7) for element in range(low, high)}
        assert missing == set(range(lo, lo + 7)) - plain
        assert ours.covers(lo, lo + 7) == (not missing)
        assert (lo in ours) == (lo in plain)
