"""A node that passes rows on: who sends to it must notice when it begins again."""

from __future__ import annotations

import itertools
from unittest.mock import Mock

import pytest

from shared.hosting.carrier import Carrier
from shared.hosting.taking import Taking
from shared.wire.frame import FrameType

EDGE = 7


def test_no_two_carriers_of_a_node_have_the_same_number_so_that_one_made_again_is_noticed() -> None:
    """A phone that was away while the way was taken from a hub and given back hears of neither."""
    epochs = itertools.count(1)
    first = Carrier(Mock(), Mock(), Mock(), epochs)
    numbers = [first.term]
    first.reader_restored()
    numbers.append(first.term)
    again = Carrier(Mock(), Mock(), Mock(), epochs)
    numbers.append(again.term)
    again.reader_restored()
    numbers.append(again.term)
    assert len({*numbers}) == len(numbers)


class _Reader:
    """An outbox with one reader, which is at `taken`; the node has rows from `first` on."""

    def __init__(self, taken: int, first: int) -> None:
        self.taken, self._first = {EDGE: taken}, first
        self.restarted: list[int] = []

    def reading(self, _node: str) -> _Reader:
        return self

    def first(self, _edge: int) -> int:
        return self._first

    def restart(self, _edge: int, at: int) -> None:
        self.restarted.append(at)
        self._first = at

    def go_on(self, _edge: int, _at: int) -> None: ...


@pytest.mark.parametrize(("taken", "goes_on_at"), [(40, []), (60, []), (10, [10]), (90, [90])])
def test_a_carrier_goes_back_with_its_reader_behind_what_it_has_and_ahead_of_it(
    taken: int, goes_on_at: list[int]
) -> None:
    reader, spool = _Reader(50, 40), Mock(head=lambda _edge: 60)
    spec = Mock(makes=Mock(key=Mock(edge=EDGE), readers={"host": 1}))
    carrier = Carrier(spec, reader, spool, itertools.count(1))  # type: ignore[arg-type]
    assert carrier.follow(), "it begins where its reader is"
    before, reader.taken[EDGE], reader._first = carrier.term, taken, 40
    reader.restarted.clear()
    assert carrier.follow() == bool(goes_on_at)
    assert reader.restarted == goes_on_at
    assert (carrier.term != before) == bool(goes_on_at), "who sends to it asks where it is"


def test_a_node_without_room_leaves_rows_where_they_came_from() -> None:
    """Several exchanges of several devices may be under way when its room is used up."""
    forgotten: list[bool] = []
    carrier, here = Mock(taken=40), Mock(full=lambda _: True)
    taking = Taking(here, Mock(), Mock(), Mock(), Mock(), forget_edges=lambda: forgotten.append(True))
    taking._pass_on(carrier, Mock(), Mock(lo=40, hi=50, kind=FrameType.DATA))
    assert not carrier.take.called
    assert forgotten == [True], "the receipt says where it stands, and they come again"
