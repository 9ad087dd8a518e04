"""The fleet that the figures about walking phones are measured on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge.lab._virtual_fleet import PHONE
from resurge.lab._walking_fleet import WalkingFleet, one_query
from shared.language.codecs import COLUMNS, NONE
from shared.spool.entry import DataEntry
from shared.wire.columns import CODEC_COLUMNS


@pytest.mark.parametrize(("codec", "packed"), [(COLUMNS, True), (NONE, False)])
def test_what_a_phone_filters_waits_as_packed_as_it_came(codec: str, packed: bool) -> None:
    each = replace(one_query()[0], codec=codec)
    fleet = WalkingFleet(1, 1, (each,))
    fleet.away = True
    fleet.make(each)
    spool = fleet.nodes[PHONE].spool
    (entry,) = spool.pending(fleet.spec(each).key.edge)
    assert isinstance(entry, DataEntry)
    waiting = spool.read(entry)
    assert (waiting.codec == CODEC_COLUMNS) == packed
    assert 0 < waiting.rows < each.batch, "its filter was applied"
