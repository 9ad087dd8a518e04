"""Rules on results: how they are written, and when they hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_backend.coordinator.result_rules import PHONES_MAX, ResultRule, holds_since, matches, rule_of
from cloud_backend.results.rows import ResultRow
from shared.errors import UsageError

MINUTE = 60_000_000


def row(minute: int, level: object, *, minutes: int = 1) -> ResultRow:
    start = minute * MINUTE
    return ResultRow("noise", "", ("a",), start, start + minutes * MINUTE, 1, False, True, {"level": level})


def rule(condition: str = "level > 80", during: str = "5m") -> ResultRule:
    return rule_of("noisy", "noise", condition, during=during)


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("level > 80", 80.5, True),
        ("level > 80", 80, False),
        ("level>=80", 80, True),
        ("level < -1.5", -2, True),
        ("level <= 3", 4, False),
        ("level = 3", 3, True),
        ("level != 3", 3, False),
        ("level == loud", "loud", True),
        ("level != 'loud'", "soft", True),
        ("level > 80", math.nan, False),
        ("level != 80", math.nan, False),
        ("level > 80", "81", False),
        ("level == loud", 3, False),
        ("other > 80", 90, False),
    ],
)
def test_a_row_fulfils_a_comparison(condition: str, value: object, expected: bool):
    assert matches(rule(condition), row(0, value)) is expected


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("Noisy!", "noise", "level > 80"), "alert-name"),
        (("noisy", "noise", "level over 80"), "alert-condition"),
        (("noisy", "noise", "level > loud"), "alert-condition"),
        (("noisy", "noise", "level > inf"), "alert-condition"),
    ],
)
def test_what_is_no_rule_is_refused(arguments: tuple[str, str, str], code: str):
    with pytest.raises(UsageError) as refused:
        rule_of(*arguments)
    assert refused.value.code == code


def test_times_and_phones_are_checked():
    with pytest.raises(UsageError) as refused:
        rule_of("noisy", "noise", "level > 80", during="soon")
    assert refused.value.code == "duration"
    with pytest.raises(UsageError) as refused:
        rule_of("noisy", "noise", "level > 80", phones=map(str, range(PHONES_MAX + 1)))
    assert refused.value.code == "alert-phones"


def test_it_holds_once_rows_in_a_row_cover_its_time():
    #  minute   0   1   2   3   4   5   6   7
    #  level   70  85  85  85  85  85  85  79
    levels = [70, 85, 85, 85, 85, 85, 85, 79]
    held = [holds_since(rule(), [row(m, levels[m]) for m in range(until, -1, -1)]) for until in range(8)]
    assert held == [None] * 5 + [1 * MINUTE, 2 * MINUTE, None]


def test_one_row_is_enough_without_a_time():
    assert holds_since(rule(during=""), [row(3, 85), row(2, 10)]) == 3 * MINUTE
    assert holds_since(rule(during=""), [row(3, 10), row(2, 85)]) is None
    assert holds_since(rule(), []) is None


def test_a_stretch_without_rows_is_no_time_that_it_held():
    assert holds_since(rule(), [row(30, 85), row(29, 85), row(3, 85), row(2, 85), row(1, 85)]) is None
    assert holds_since(rule(), [row(5, 85), row(4, 85), row(2, 85), row(1, 85)]) == 1 * MINUTE  # one left out


def test_rows_without_windows_count_by_their_times():
    points = [ResultRow("noise", "", (), t * MINUTE, t * MINUTE, 1, False, True, {"level": 85.0}) for t in (9, 7, 4, 1)]
    assert holds_since(rule(), points) == 4 * MINUTE
    assert holds_since(rule(), points[:2]) is None


def test_it_reads_no_more_rows_than_it_needs():
    read = []

    def rows():
        for minute in range(100, 0, -1):
            read.append(minute)
            yield row(minute, 85)

    assert holds_since(rule(), rows()) == 96 * MINUTE
    assert len(read) == 5


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 12))
def test_windows_without_gaps_hold_as_a_count_does(loud: list[bool], minutes: int):
    rows = [row(m, 90 if loud[m] else 10) for m in reversed(range(len(loud)))]
    tail = next((n for n, each in enumerate(reversed(loud)) if not each), len(loud))
    expected = tail > 0 and tail >= minutes
    assert (holds_since(rule(during=f"{minutes}m" if minutes else ""), rows) is not None) == expected


def test_a_rule_is_kept_as_text_and_read_again():
    kept = rule_of("noisy", "noise", "level > 80", during="5m", phones=["own", "ab"])
    assert ResultRule.decode(kept.encode()) == kept
    assert kept.words == "level > 80 for 5m"
