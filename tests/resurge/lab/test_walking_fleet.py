"""The fleet that the figures about walking phones are measured on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import resurge as rs
from resurge.lab._virtual_fleet import PHONE, SINK
from resurge.lab._walking_fleet import Fed, WalkingFleet, one_query
from shared.batch import NO_FRONTIER, Batch
from shared.hosting.instance import Instance
from shared.language.codecs import COLUMNS, NONE
from shared.plan.graph import Plan
from shared.spool.entry import DataEntry, SpooledBatch
from shared.wire import codecs
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


def test_what_a_vertex_held_back_leaves_it_in_pieces_that_fit_a_frame() -> None:
    """Rows that wait for time to move are let through at once, and are more than a frame carries."""
    rows, batches = 40_000, 8
    each = Fed("q", counter(), lambda numbers: {"n": numbers}, upto=0)
    fleet = WalkingFleet(1, 1, (each,))
    phone, spec = fleet.nodes[PHONE], fleet.spec(each)
    for lo in range(0, batches * rows, rows):
        numbers = np.arange(lo, lo + rows)
        frontier_us = lo + rows + 1 if lo + rows == batches * rows else NO_FRONTIER
        batch = Batch.of(spec.schema, {"n": numbers}, numbers + 1, lo=lo, frontier_us=frontier_us)
        codec, payload = codecs.encode(batch, COLUMNS)
        spooled = SpooledBatch(spec.key.edge, lo, batch.hi, rows, spec.schema.id, 0, frontier_us, codec, payload)
        phone.host.offer(spec.key, spooled, fleet.now)
    phone.drive()
    (sink,) = fleet.nodes[SINK].host.sinks()
    fleet.until(
        lambda: sink.taken == batches * rows or bool(reader_of(fleet, each).failed), "the arrival of all rows", 0.1
    )
    assert (reader_of(fleet, each).failed, sink.taken) == ("", batches * rows)


def reader_of(fleet: WalkingFleet, each: Fed) -> Instance:
    found = fleet.reader(each)
    assert found is not None
    return found


def counter() -> Plan:
    return rs.plan_of(rs.sensor("counter", every="1ms", columns={"n": "int64"}).gather("counter").subscribe("all"))
