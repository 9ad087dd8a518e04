"""How much each of those that make something on a node may have there that nobody has taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from shared.hosting.here import CREDIT_BYTES, Here, reserved_bytes
from shared.identity import EdgeId

MINE, THEIRS, SNAPSHOTS = EdgeId(1), EdgeId(2), EdgeId(3)
SHARE = reserved_bytes() // 2  # of one vertex and one edge that is passed on


def is_full(edge: EdgeId, **used: int) -> bool:
    """`used` are bytes by the name of an edge above."""
    by_edge = {EdgeId(globals()[name.upper()]): size for name, size in used.items()}
    made = SimpleNamespace(used_bytes=sum(by_edge.values()), used_by=lambda edge: by_edge.get(edge, 0))
    here = SimpleNamespace(made=made, instances={"v": SimpleNamespace(edges=(MINE,))}, carriers={THEIRS: None})
    here._used_by = lambda edges: Here._used_by(cast(Here, here), edges)
    return Here.full(cast(Here, here), (edge,))


def test_one_alone_may_have_all_but_the_share_of_the_other() -> None:
    most = CREDIT_BYTES - SHARE
    assert not is_full(MINE, mine=most)
    assert is_full(MINE, mine=most + 1)
    assert not is_full(THEIRS, mine=most + 1), "its share is free"


@pytest.mark.parametrize("others", [{"mine": CREDIT_BYTES}, {"snapshots": 2 * CREDIT_BYTES}])
def test_within_its_share_one_always_may_go_on(others: dict[str, int]) -> None:
    assert not is_full(THEIRS, theirs=SHARE, **others)
    assert is_full(THEIRS, theirs=SHARE + 1, **others)
