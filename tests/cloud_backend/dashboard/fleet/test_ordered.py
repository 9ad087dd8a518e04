"""A list in order, whatever is put in and out, in whatever amounts."""

from __future__ import annotations

import random

import pytest

from cloud_backend.dashboard.fleet.ordered import Ordered


@pytest.mark.parametrize("at_once", [1, 10, 300])
def test_it_is_in_order_whenever_somebody_looks(at_once: int) -> None:
    draw, kept, ordered = random.Random(at_once), list[tuple[int]](), Ordered[tuple[int]]()
    for _ in range(20):
        for _ in range(at_once):
            entry = (draw.randrange(10**6),)
            kept.append(entry)
            ordered.put(entry)
        for _ in range(draw.randrange(at_once)):
            ordered.drop(kept.pop(draw.randrange(len(kept))))
        assert len(ordered) == len(kept)
        assert ordered.entries() == sorted(kept)
