"""A device's edge into a region: where it marks what it makes, and what has waited."""

from __future__ import annotations

from random import Random

from shared.hosting.source import Source
from shared.hosting.wiring import EdgeSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.language.schema import Schema
from shared.recovery.checkpoints import MOST_PENDING
from tests.shared.hosting.test_fleet_watch import query

SPEC = EdgeSpec("g", EdgeKey(DeviceId(b"d" * 16), 1, EdgeId(3)), Schema.of({"v": "float64"}), "d", {"d": 0}, {"h": 1})
EVERY = 500  # of the query


def source(*, first: int = 0, head: int = 0, row: str = "ecoc") -> Source:
    return Source(SPEC, query(row), 1, Random(0), first=first, head=head)


def taken(one: Source, through: int) -> list[int]:
    """Who reads it has a permanent snapshot of everything below this. Where the next marks are."""
    one.checkpoints.receipt(SPEC.label, through)
    one.settle()
    return [mark.position for mark in one.more_marks()]


def test_it_marks_behind_the_batch_with_which_enough_were_made() -> None:
    one = source()
    assert [mark.position for mark in one.elements(400, 400)] == []
    assert [mark.position for mark in one.elements(400, 800)] == [800]
    assert one.more_marks() == []


def test_what_has_waited_is_marked_as_earlier_snapshots_become_permanent() -> None:
    one = source()
    made = [mark.position for head in range(EVERY, 20 * EVERY + 1, EVERY) for mark in one.elements(EVERY, head)]
    assert made == [EVERY * number for number in range(1, MOST_PENDING + 1)]
    assert taken(one, 2 * EVERY) == [9 * EVERY, 10 * EVERY], "not where it stands: what is before that may never fit"
    assert [mark.position for mark in one.elements(EVERY, 21 * EVERY)] == []
    positions = [*made, 9 * EVERY, 10 * EVERY]
    while positions[-1] < 21 * EVERY:
        positions += taken(one, positions[-1])
    assert positions == [EVERY * number for number in range(1, 22)]


def test_started_again_it_marks_what_is_in_its_spool() -> None:
    one = source(first=1_200, head=3_400)
    assert [mark.position for mark in one.more_marks()] == [1_700, 2_200, 2_700, 3_200]
    assert [mark.position for mark in one.elements(300, 3_700)] == [3_700]


def test_under_a_strategy_that_marks_nothing_there_are_none() -> None:
    for row in ("none", "token"):
        one = source(head=10_000, row=row)
        assert one.more_marks() == one.elements(700, 10_700) == []
