"""Edges with several readers: nothing goes before all are through, and a batch is cut where a reader goes on."""

from __future__ import annotations

import numpy as np
import pytest

from shared.batch import NO_FRONTIER, Batch
from shared.identity import DeviceId, EdgeId
from shared.language.codecs import NONE
from shared.language.schema import Schema
from shared.spool.entry import DataEntry, Reason, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.outbox import Merging, Outbox, Reading
from shared.wire import codecs

EDGE = EdgeId(7)
SCHEMA = Schema.of({"x": "int64"})


def spooled(lo: int, hi: int) -> SpooledBatch:
    numbers = np.arange(lo, hi)
    batch = Batch.of(SCHEMA, {"x": numbers * 2}, numbers * 10, lo=lo, frontier_us=hi * 10)
    codec, payload = codecs.encode(batch, NONE)
    return SpooledBatch(EDGE, lo, hi, hi - lo, SCHEMA.id, 0, hi * 10, codec, payload)


def outbox(*ranges: tuple[int, int]) -> tuple[Outbox, Spool]:
    spool = Spool.create(
        MemoryDisk(), capacity_bytes=1 << 20, device=DeviceId(b"d" * 16), incarnation=1, evict=Evict.BLOCK
    )  # fmt: skip
    found = Outbox()
    found.serve(EDGE, [SCHEMA], spool, {"one": 1, "two": 1})
    for lo, hi in ranges:
        spool.append(spooled(lo, hi))
    spool.sync()
    return found, spool


def values(reading: Reading) -> list[list[int]]:
    found = []
    for entry in reading.pending(EDGE):
        assert isinstance(entry, DataEntry)
        batch = reading.read(entry)
        rows = codecs.decode(
            batch.codec, batch.payload, SCHEMA, lo=batch.lo, hi=batch.hi, frontier_us=batch.frontier_us, applied=0
        )
        assert (batch.lo, batch.rows) == (entry.lo, len(rows))
        found.append(rows.columns["x"].tolist())
    return found


def test_small_batches_are_joined_up_to_their_bounds_and_the_last_may_wait_for_more() -> None:
    found, spool = outbox((0, 2), (2, 3), (3, 5), (5, 9), (9, 10))
    reading = found.reading("one")
    reading.merge(EDGE, Merging(5, 1 << 16))
    assert [len(each) for each in values(reading)] == [5, 5]
    assert [value for batch in values(reading) for value in batch] == [2 * number for number in range(10)]
    spool.append(spooled(10, 12))
    spool.sync()
    reading.hold(EDGE, True)
    assert ([len(each) for each in values(reading)], reading.held_rows(EDGE)) == ([5, 5], 2)
    reading.hold(EDGE, False)
    assert ([len(each) for each in values(reading)], reading.held_rows(EDGE)) == ([5, 5, 2], 0)
    reading.go_on(EDGE, 4)  # whoever went on before has sent other batches
    assert [len(each) for each in values(reading)] == [1, 5, 2]
    reading.give_up(EDGE, 4, 5, Reason.QUARANTINED)
    assert [(entry.lo, entry.hi) for entry in reading.pending(EDGE)] == [(4, 5), (5, 10), (10, 12)]
    reading.merge(EDGE, Merging(100, 1))
    assert [len(each) for each in values(found.reading("two"))] == [2, 1, 2, 4, 1, 2], "others get them as they are"
    reading.merge(EDGE, None)
    assert [(entry.lo, entry.hi) for entry in reading.pending(EDGE)] == [(4, 5), (5, 9), (9, 10), (10, 12)]


@pytest.mark.covers("EC-7")
def test_what_the_slower_reader_may_ask_for_stays() -> None:
    found, _ = outbox((0, 3), (3, 5))
    found.reading("one").trim(EDGE, 5)
    assert (found.first(EDGE), found.through(EDGE)) == (0, 0), "the other has said nothing yet"
    found.reading("two").trim(EDGE, 3)
    assert (found.first(EDGE), found.through(EDGE)) == (3, 3)
    found.serve(EDGE, [SCHEMA], found.spool(EDGE), {"one": 1})
    assert found.first(EDGE) == 5, "who reads no more holds nothing back"


def test_readers_go_on_where_each_is_and_the_straddling_batch_is_cut() -> None:
    found, _ = outbox((0, 3), (3, 5))
    one, two = found.reading("one"), found.reading("two")
    assert values(one) == [[0, 2, 4], [6, 8]]
    one.go_on(EDGE, 2)
    two.go_on(EDGE, 4)
    assert (values(one), values(two)) == ([[4], [6, 8]], [[8]])
    one.go_on(EDGE, 0)
    assert values(one) == [[0, 2, 4], [6, 8]], "a restored reader asks again"


def test_a_copy_is_cut_at_both_ends_and_only_its_last_part_promises() -> None:
    found, _ = outbox((0, 3), (3, 5), (5, 8))
    parts = found.copies(EDGE, 1, 6)
    assert [(part.lo, part.hi, part.rows) for part in parts] == [(1, 3, 2), (3, 5, 2), (5, 6, 1)]
    assert [part.frontier_us for part in parts] == [30, 50, NO_FRONTIER]


def test_an_edge_that_starts_anew_knows_nothing_of_its_readers() -> None:
    found, spool = outbox((0, 3))
    found.reading("one").go_on(EDGE, 3)
    found.restart(EDGE, 2)
    assert (spool.head(EDGE), found.first(EDGE), found.reading("one").taken) == (2, 2, {})
    spool.append(spooled(2, 4))
    spool.sync()
    assert values(found.reading("one")) == [[4, 6]]


def test_what_was_made_just_now_is_not_gone() -> None:
    """A reader that asks before what it reads is durable must not be told that it is lost."""
    found, spool = outbox()
    spool.append(spooled(0, 3))
    assert (values(found.reading("one")), found.first(EDGE)) == ([], 0)
    spool.sync()
    found.reading("one").trim(EDGE, 3)
    found.reading("two").trim(EDGE, 3)
    assert found.first(EDGE) == 3


def test_what_a_newcomer_beside_an_older_reader_may_need_stays() -> None:
    found, _ = outbox((0, 3), (3, 5))
    found.reading("one").trim(EDGE, 5)
    found.reading("two").trim(EDGE, 3)
    found.serve(EDGE, [SCHEMA], found.spool(EDGE), {"one": 3})  # what read on the other node begins on this one
    assert (found.first(EDGE), found.through(EDGE)) == (3, 0), "not all that read there have said how far they are"
    found.reading("one").trim(EDGE, 5)
    assert found.first(EDGE) == 5
