"""Exact and relaxed consistency on positions (EC-13): relaxed and deterministic gives a lossless stream."""

from __future__ import annotations

import itertools

import pytest

from shared.recovery.consistency import EdgeCut, inconsistencies


def delivered(cut: EdgeCut, total: int = 8) -> list[tuple[int, str]]:
    """What the reader gets when it reads on: what is retained, and what the producer makes again and then anew.
    Of one that is not deterministic it may already have taken what now is made otherwise."""
    old = dict.fromkeys(range(cut.start, cut.end), "first")
    again = "first" if cut.deterministic else "second"
    for number in range(cut.produced, total):
        old.setdefault(number, again if number < cut.end else "first")
        if not cut.deterministic and cut.produced <= number < cut.end:
            old[number] = "second"
    return [(number, old[number]) for number in range(cut.consumed, total) if number in old]


@pytest.mark.covers("EC-13")
def test_relaxed_consistency_with_determinism_is_exactly_what_loses_nothing() -> None:
    wanted = {True: 0, False: 0}
    for produced, start, end, consumed in itertools.product(range(6), repeat=4):
        if start > end or consumed > end:
            continue  # a reader is never ahead of what was ever sent
        for deterministic in (True, False):
            cut = EdgeCut("e", produced, start, end, consumed, deterministic)
            whole = delivered(cut) == [(number, "first") for number in range(consumed, 8)]
            if cut.lossless:
                assert whole, cut
            if cut.exact:
                assert cut.relaxed
                assert cut.lossless
            if not cut.relaxed and deterministic and produced >= end:
                assert not whole or consumed >= produced, cut
            wanted[cut.lossless] += 1
    assert min(wanted.values()) > 100


def test_each_way_to_be_inconsistent_is_named() -> None:
    cuts = [
        EdgeCut("fine", 5, 2, 5, 2), EdgeCut("made again", 4, 2, 5, 3), EdgeCut("gone", 5, 4, 5, 2),
        EdgeCut("unretained", 7, 2, 5, 2), EdgeCut("differs", 4, 2, 5, 3, deterministic=False),
    ]  # fmt: skip
    assert inconsistencies(cuts) == [
        "gone: the reader needs [2, 4), which nobody retains",
        "unretained: [5, 7) was produced and is not retained",
        "differs: [4, 5) is made again and may differ",
    ]
    assert [cut.exact for cut in cuts] == [True, False, False, False, False]
