"""The spool's behaviour, one sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mobile_app.spool.cipher import SpoolCipher, new_key
from shared.errors import BrokenInvariant, DamagedData, PeerError, UsageError
from shared.identity import EdgeId
from shared.spool.contents import EdgeContents
from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry, Entry, Reason, Tombstone
from shared.spool.evict import Evict
from shared.spool.fresh import Fresh
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool, SpoolFull
from shared.spool.segment import CONTROL_BYTES, UNIT_BYTES
from tests.shared.spool.story import DEVICE, batch_for

GPS = EdgeId(1)
ALERTS = EdgeId(2)


def new_spool(capacity: int = 10_000, evict: Evict = Evict.QUERY_AWARE) -> Spool:
    return Spool.create(MemoryDisk(), capacity_bytes=capacity, device=DEVICE, incarnation=1, evict=evict)


def fill(spool: Spool, edge: EdgeId, batches: int, size: int = 904, **more: int) -> None:
    for _ in range(batches):
        spool.append(batch_for(spool, edge, 10, size, **more))
    spool.sync()


def kept(spool: Spool, edge: EdgeId) -> list[int]:
    return [entry.lo for entry in spool.pending(edge) if isinstance(entry, DataEntry)]


@pytest.mark.covers("NB-8")
def test_batches_come_back_in_order_and_leave_with_the_receipt() -> None:
    spool = new_spool()
    batches = [batch_for(spool, GPS, 5, 100)]
    spool.append(batches[0])
    batches.append(batch_for(spool, GPS, 7, 50))
    spool.append(batches[1])
    spool.sync()
    assert [spool.read(entry) for entry in spool.pending(GPS) if isinstance(entry, DataEntry)] == batches
    spool.trim(GPS, 5)
    assert kept(spool, GPS) == [5]
    spool.trim(GPS, 12)
    assert kept(spool, GPS) == []
    assert spool.head(GPS) == 12
    assert spool.statistics().used_bytes == 0


def test_who_has_all_that_is_here_is_not_answered_by_a_walk_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = new_spool()
    fill(spool, GPS, 5, 50)
    walked: list[int] = []
    entries = EdgeContents.entries

    def counted(self: EdgeContents, start: int) -> Iterator[Entry]:
        for entry in entries(self, start):
            walked.append(entry.lo)
            yield entry

    monkeypatch.setattr(EdgeContents, "entries", counted)
    assert list(spool.pending(GPS, after=spool.head(GPS))) == []
    assert walked == []
    assert [entry.lo for entry in spool.pending(GPS, after=35)] == [30, 40], "a number inside a batch is looked for"


def test_only_what_is_durable_is_pending() -> None:
    spool = new_spool()
    spool.append(batch_for(spool, GPS, 5, 100))
    assert spool.dirty
    assert list(spool.pending(GPS)) == []
    spool.sync()
    assert kept(spool, GPS) == [0]
    assert not spool.dirty


def test_an_evicted_range_is_not_pending_until_its_tombstone_is_durable() -> None:
    spool = new_spool()
    fill(spool, GPS, 10)
    spool.append(batch_for(spool, GPS, 10, 904))
    assert list(spool.pending(GPS)) == []
    spool.sync()
    assert next(iter(spool.pending(GPS))) == Tombstone(GPS, 0, 10, Reason.EVICTED)


def test_the_head_survives_an_empty_spool_a_close_and_a_crash() -> None:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=5000, device=DEVICE, incarnation=9)
    fill(spool, GPS, 3)
    spool.trim(GPS, 30)
    spool.sync()
    assert Spool.open(disk).head(GPS) == 30
    spool.close()
    again = Spool.open(disk)
    assert (again.head(GPS), again.incarnation, again.device) == (30, 9, DEVICE)
    assert kept(again, GPS) == []


def test_a_number_is_never_skipped_or_used_again() -> None:
    spool = new_spool()
    batch = batch_for(spool, GPS, 5, 10)
    spool.append(batch)
    with pytest.raises(BrokenInvariant, match="spool-numbering"):
        spool.append(batch)


def test_a_receipt_beyond_the_head_says_that_the_spool_is_an_old_copy() -> None:
    spool = new_spool()
    fill(spool, GPS, 1)
    with pytest.raises(PeerError, match="spool-trim-ahead"):
        spool.trim(GPS, 11)


def test_a_receipt_inside_a_batch_is_refused_and_trims_nothing() -> None:
    spool = new_spool()
    fill(spool, GPS, 2)
    with pytest.raises(PeerError, match="spool-trim-partial"):
        spool.trim(GPS, 15)
    assert kept(spool, GPS) == [0, 10]


@pytest.mark.covers("NB-7")
def test_oldest_gives_up_the_oldest_batch_of_any_edge() -> None:
    spool = new_spool(evict=Evict.OLDEST)
    fill(spool, ALERTS, 1)
    fill(spool, GPS, 10)
    assert kept(spool, ALERTS) == []
    assert list(spool.pending(ALERTS)) == [Tombstone(ALERTS, 0, 10, Reason.EVICTED)]


@pytest.mark.covers("NB-6")
def test_query_aware_keeps_the_rare_edge() -> None:
    spool = new_spool()
    fill(spool, ALERTS, 1)
    fill(spool, GPS, 30)
    assert kept(spool, ALERTS) == [0]
    assert kept(spool, GPS) == list(range(210, 300, 10))


@pytest.mark.covers("T6")
def test_query_aware_bytes_takes_from_the_edge_with_the_most_bytes() -> None:
    small, large = EdgeId(3), EdgeId(4)
    for evict, loser in ((Evict.QUERY_AWARE, small), (Evict.QUERY_AWARE_BYTES, large)):
        spool = new_spool(evict=evict)
        fill(spool, small, 20, size=4)
        fill(spool, large, 4, size=1904)
        fill(spool, ALERTS, 1)
        assert [t.edge for t in spool.ledger] == [loser]


@pytest.mark.covers("NB-24")
def test_priority_gives_up_what_matters_least_and_never_for_something_lesser() -> None:
    spool = new_spool(evict=Evict.PRIORITY)
    fill(spool, ALERTS, 5, priority=9)
    fill(spool, GPS, 4, priority=1)
    fill(spool, GPS, 1, priority=1, deadline=50)
    spool.append(batch_for(spool, ALERTS, 10, 904, priority=9))
    spool.sync()
    assert kept(spool, GPS) == [0, 10, 20, 30]  # nearest deadline first
    lesser = spool.append(batch_for(spool, GPS, 10, 5000, priority=0))
    assert lesser == Tombstone(GPS, 40, 60, Reason.EVICTED)
    spool.sync()
    assert len(kept(spool, GPS)) == 4
    assert len(kept(spool, ALERTS)) == 6


def test_block_refuses_and_does_not_use_up_the_number() -> None:
    spool = new_spool(evict=Evict.BLOCK)
    fill(spool, GPS, 10)
    with pytest.raises(SpoolFull, match="spool-full"):
        spool.append(batch_for(spool, GPS, 10, 904))
    assert spool.head(GPS) == 100
    spool.trim(GPS, 10)
    spool.append(batch_for(spool, GPS, 10, 904))
    assert len(list(spool.ledger)) == 0


@pytest.mark.covers("T6")
def test_a_batch_larger_than_the_spool_is_refused_and_entered_in_the_ledger() -> None:
    spool = new_spool()
    fill(spool, GPS, 2)
    refused = spool.append(batch_for(spool, GPS, 10, 10_001 - CONTROL_BYTES))
    assert refused == Tombstone(GPS, 20, 30, Reason.REJECTED)
    assert spool.head(GPS) == 30
    spool.sync()
    assert kept(spool, GPS) == [0, 10]
    spool.append(batch_for(spool, GPS, 10, 10_000 - CONTROL_BYTES))
    spool.sync()
    assert kept(spool, GPS) == [30]


def test_the_account_is_exact_to_the_byte() -> None:
    spool = new_spool()
    fill(spool, GPS, 10, size=1000 - CONTROL_BYTES)
    assert spool.statistics().used_bytes == spool.capacity_bytes
    assert list(spool.ledger) == []
    assert CONTROL_BYTES >= UNIT_BYTES - 1  # so rounding to units can never exceed the account


def test_tombstones_never_sent_grow_together_and_sent_ones_keep_their_ends() -> None:
    spool = new_spool()
    fill(spool, GPS, 13)
    assert next(iter(spool.pending(GPS))) == Tombstone(GPS, 0, 30, Reason.EVICTED)
    spool.sent(GPS, 40)
    fill(spool, GPS, 3)
    tombstones = [entry for entry in spool.pending(GPS) if isinstance(entry, Tombstone)]
    assert [(t.lo, t.hi) for t in tombstones] == [(0, 30), (30, 40), (40, 60)]
    assert [(t.lo, t.hi) for t in spool.ledger] == [(0, 60)]


def test_after_a_restart_every_boundary_is_kept() -> None:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=10_000, device=DEVICE, incarnation=1)
    fill(spool, GPS, 11)
    spool = Spool.open(disk)
    fill(spool, GPS, 2)
    assert [(t.lo, t.hi) for t in spool.pending(GPS) if isinstance(t, Tombstone)] == [(0, 10), (10, 20), (20, 30)]


def test_a_late_batch_expires() -> None:
    spool = new_spool()
    fill(spool, GPS, 1, deadline=100)
    fill(spool, GPS, 1, deadline=300)
    assert spool.expire(200) == [Tombstone(GPS, 0, 10, Reason.EXPIRED)]
    spool.sync()
    assert kept(spool, GPS) == [10]
    assert spool.statistics().ledgered == {Reason.EXPIRED: 10}


def test_what_was_delivered_cannot_be_given_up() -> None:
    spool = new_spool()
    fill(spool, GPS, 2)
    spool.trim(GPS, 10)
    with pytest.raises(BrokenInvariant):
        spool.give_up(GPS, 0, 10, Reason.QUARANTINED)


def test_an_edge_s_own_policy_makes_room_for_its_batches() -> None:
    spool = new_spool()
    fill(spool, GPS, 5)
    fill(spool, ALERTS, 5)
    spool.append(batch_for(spool, ALERTS, 10, 904), Evict.OLDEST)  # query-aware would have given up its own
    assert [(t.edge, t.lo, t.hi) for t in spool.ledger] == [(GPS, 0, 10)]


@pytest.mark.parametrize("policy", [Evict.OLDEST, Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES, Evict.PRIORITY])
def test_a_protected_edge_is_never_given_up_for_another(policy: Evict) -> None:
    spool = new_spool()
    spool.protect(GPS)
    fill(spool, GPS, 8)
    fill(spool, ALERTS, 2)
    for _ in range(6):
        spool.append(batch_for(spool, ALERTS, 10, 904), policy)
    assert {t.edge for t in spool.ledger} == {ALERTS}
    fill(spool, GPS, 2)  # the spool's own policy makes room for it
    assert isinstance(spool.append(batch_for(spool, ALERTS, 10, 904), policy), Tombstone)  # nothing is left that may go
    with pytest.raises(SpoolFull):
        spool.append(batch_for(spool, GPS, 10, 904), Evict.BLOCK)
    spool.sync()
    assert len(kept(spool, GPS)) == 10


def test_time_until_overwrite_follows_the_rate() -> None:
    spool = new_spool()
    fill(spool, GPS, 4)
    assert spool.time_until_overwrite(2000) == 3.0
    assert spool.time_until_overwrite(0) == math.inf


def test_statistics_tell_the_oldest_batch_and_count_per_edge() -> None:
    spool = new_spool()
    fill(spool, GPS, 1, spooled_us=500)
    fill(spool, ALERTS, 1, spooled_us=400)
    fill(spool, GPS, 1, spooled_us=600)
    statistics = spool.statistics()
    assert statistics.oldest_us == 400
    assert statistics.batches == 3
    assert [(e.edge, e.head, e.elements, e.batches) for e in statistics.edges] == [
        (GPS, 20, 20, 2),
        (ALERTS, 10, 10, 1),
    ]


def test_a_spool_on_a_real_disk_opens_again(tmp_path: Path) -> None:
    disk = PosixDisk(tmp_path)
    spool = Spool.create(disk, capacity_bytes=100_000, device=DEVICE, incarnation=1)
    fill(spool, GPS, 50)
    before = spool.statistics().edges
    spool._file.close()  # as a killed process leaves it
    again = Spool.open(disk)
    assert again.statistics().edges == before
    assert len(kept(again, GPS)) == 50
    again.close()
    with pytest.raises(UsageError, match="spool-exists"):
        Spool.create(disk, capacity_bytes=100_000, device=DEVICE, incarnation=1)
    assert (tmp_path / "spool").stat().st_size == again._block.file_bytes


def test_a_sealed_spool_hides_payloads_and_refuses_another_key(tmp_path: Path) -> None:
    disk = PosixDisk(tmp_path)
    cipher = SpoolCipher(new_key())
    spool = Spool.create(disk, capacity_bytes=100_000, device=DEVICE, incarnation=1, cipher=cipher)
    batch = batch_for(spool, GPS, 10, 300)
    spool.append(batch)
    spool.close()
    assert batch.payload not in (tmp_path / "spool").read_bytes()
    (entry,) = (again := Spool.open(disk, cipher)).pending(GPS)
    assert isinstance(entry, DataEntry)
    assert again.read(entry) == batch
    for other in (None, SpoolCipher(new_key())):
        with pytest.raises(UsageError, match="spool-key"):
            Spool.open(disk, other)


def test_a_sealed_payload_cannot_move_under_another_control_block() -> None:
    cipher = SpoolCipher(new_key())
    sealed = cipher.seal(b"reading", b"edge 1")
    assert cipher.open(sealed, b"edge 1") == b"reading"
    assert cipher.seal(b"reading", b"edge 1") != sealed
    for damaged, control in ((sealed, b"edge 2"), (sealed[:-1], b"edge 1"), (b"", b"edge 1")):
        with pytest.raises(DamagedData, match="spool-seal"):
            cipher.open(damaged, control)


def test_policies_are_named_by_the_words_of_plans() -> None:
    assert Evict.of_word("query-aware") is Evict.QUERY_AWARE
    with pytest.raises(UsageError, match="query-aware-bytes"):
        Evict.of_word("newest")


def test_what_a_ledger_or_pending_showed_does_not_change_when_more_is_given_up() -> None:
    spool = new_spool()
    fill(spool, GPS, 11)
    shown, pending = list(spool.ledger), next(iter(spool.pending(GPS)))
    for turn in range(200):  # over the ends of many records, with and without a sync
        spool.append(batch_for(spool, GPS, 10, 904))
        assert [(t.lo, t.hi) for t in spool.ledger] == [(0, 10 * (turn + 2))]
        if turn % 7 == 0:
            spool.sync()
            assert next(iter(spool.pending(GPS))) == Tombstone(GPS, 0, 10 * (turn + 2), Reason.EVICTED)
    assert shown == [pending] == [Tombstone(GPS, 0, 10, Reason.EVICTED)]


def test_a_batch_given_up_within_the_record_that_brought_it_is_found_given_up() -> None:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=10_000, device=DEVICE, incarnation=1)
    for turn in range(60):
        spool.append(batch_for(spool, (GPS, ALERTS)[turn % 3 == 2], 10, 904))
    spool.sync()
    again = Spool.open(disk)
    assert again.statistics().damage == 0
    assert list(again.ledger) == list(spool.ledger)
    for edge in (GPS, ALERTS):
        entries = [e for e in spool.pending(edge) if isinstance(e, DataEntry)]
        assert kept(again, edge) == [e.lo for e in entries]
        assert [again.read(e) for e in again.pending(edge) if isinstance(e, DataEntry)] == [
            spool.read(e) for e in entries
        ]
    assert [(e.edge, e.elements, e.batches, e.bytes) for e in again.statistics().edges] == [
        (e.edge, e.elements, e.batches, e.bytes) for e in spool.statistics().edges
    ]


# --- Promises: which share of an edge's numbers is kept as long as others can make room ---------------------------------


def given_up(spool: Spool, edge: EdgeId) -> int:
    return sum(each.hi - each.lo for each in spool.ledger if each.edge == edge)


POLICIES = [Evict.OLDEST, Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES, Evict.PRIORITY]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lossless_edge_is_kept_while_another_can_make_room(policy: Evict) -> None:
    spool = new_spool()
    spool.promise(GPS, 1.0)
    fill(spool, GPS, 5)
    fill(spool, ALERTS, 5)
    for _ in range(5):
        spool.append(batch_for(spool, GPS, 10, 904), policy)  # query-aware would have given up its own
    assert (given_up(spool, GPS), given_up(spool, ALERTS)) == (0, 50)
    entry = spool.append(batch_for(spool, ALERTS, 10, 904), policy)
    assert isinstance(entry, Tombstone)  # rather than a batch of the other, which promises more
    assert (given_up(spool, GPS), given_up(spool, ALERTS)) == (0, 60)


@pytest.mark.parametrize("policy", POLICIES)
def test_limited_loss_gives_up_its_share_and_not_one_number_more(policy: Evict) -> None:
    spool = new_spool()
    spool.promise(GPS, 1.0)
    spool.promise(ALERTS, 0.6)
    fill(spool, GPS, 5)
    fill(spool, ALERTS, 5)
    assert [each.may_lose for each in spool.statistics().edges] == [0, 20]
    for _ in range(2):
        spool.append(batch_for(spool, GPS, 10, 904), policy)
    assert (given_up(spool, GPS), given_up(spool, ALERTS)) == (0, 20)
    assert [each.may_lose for each in spool.statistics().edges] == [0, 0]
    spool.append(
        batch_for(spool, ALERTS, 5, 404), policy
    )  # 0.6 of 55 are 33, of 75 are 45: two may go of these, not five
    assert given_up(spool, GPS) + given_up(spool, ALERTS) > 20  # nothing could go within the promises: the policy chose
    assert min(each.may_lose for each in spool.statistics().edges) < 0


def test_when_only_promised_edges_are_left_the_policy_decides_and_the_ledger_says_so() -> None:
    spool = new_spool()
    spool.promise(GPS, 1.0)
    spool.promise(ALERTS, 1.0)
    fill(spool, GPS, 6)
    fill(spool, ALERTS, 4)
    spool.append(batch_for(spool, ALERTS, 10, 904))
    assert (given_up(spool, GPS), given_up(spool, ALERTS)) == (0, 10)  # query-aware: its own oldest
    spool.append(batch_for(spool, GPS, 10, 904), Evict.BLOCK)  # a protected one is made room for
    assert given_up(spool, GPS) + given_up(spool, ALERTS) == 20


def test_an_edge_that_blocks_waits_when_only_such_edges_are_left() -> None:
    spool = new_spool()
    for edge in (GPS, ALERTS):
        spool.promise(edge, 1.0)
        spool.protect(edge)
    fill(spool, GPS, 5)
    fill(spool, ALERTS, 5)
    with pytest.raises(SpoolFull):
        spool.append(batch_for(spool, GPS, 10, 904), Evict.BLOCK)
    assert list(spool.ledger) == []


def test_no_promise_is_broken_by_a_batch_that_would_not_fit_anyway() -> None:
    """What can go within the promises is not enough, and the new batch can be spared: nothing else goes for it."""
    spool = new_spool()
    spool.promise(GPS, 1.0)
    fill(spool, GPS, 9)
    fill(spool, ALERTS, 1)
    assert isinstance(spool.append(batch_for(spool, ALERTS, 10, 3000)), Tombstone)
    assert len(kept(spool, ALERTS)) == 1


def test_the_share_is_counted_over_the_ledger_of_all_reasons() -> None:
    spool = new_spool()
    spool.promise(ALERTS, 0.9)
    fill(spool, ALERTS, 5)
    assert spool.statistics().edges[0].may_lose == 5
    spool.give_up(ALERTS, 0, 10, Reason.EXPIRED)
    assert spool.statistics().edges[0].may_lose == -5


def test_shares_that_binary_cannot_hold_are_not_rounded_against_the_edge() -> None:
    spool = new_spool(capacity=100_000)
    for share, lose in ((0.9, 1), (0.95, 0), (0.7, 3), (0.1, 9), (1 / 3, 6)):
        spool.promise(GPS, share)
        if not spool.head(GPS):
            fill(spool, GPS, 1, size=10)
        assert spool.statistics().edges[0].may_lose == lose


def test_what_was_appended_lately_is_not_read_back_and_its_place_may_be_used_again() -> None:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=4_096, device=DEVICE, incarnation=1, evict=Evict.BLOCK)
    batches = []
    for number in range(20):  # the same units again and again
        batches.append(replace(batch_for(spool, GPS, 10, 1_500), payload=bytes([number]) * 1_500))
        spool.append(batches[-1])
        spool.sync()
        if number:
            spool.trim(GPS, batches[-2].hi)
            spool.sync()
    (entry,) = spool.pending(GPS)
    assert isinstance(entry, DataEntry)
    disk.files["spool"].content[spool._block.data_start :] = bytes(spool._block.data_units * UNIT_BYTES)
    assert spool.read(entry) == batches[-1]
    (entry,) = (again := Spool.open(disk)).pending(GPS)
    assert isinstance(entry, DataEntry)
    with pytest.raises(DamagedData, match="spool-payload"):
        again.read(entry)


def test_only_so_much_is_kept_in_memory_and_the_newest_has_to_do_without() -> None:
    fresh = Fresh(100)
    fresh.add(((0, 1),), b"a" * 60)
    fresh.add(((1, 1),), b"b" * 60)
    assert (fresh.get(((0, 1),)), fresh.get(((1, 1),)), fresh.get(())) == (b"a" * 60, None, None)
    fresh.forget([(0, 1), (7, 2)])
    fresh.add(((1, 1),), b"b" * 60)
    assert (fresh.get(((0, 1),)), fresh.get(((1, 1),))) == (None, b"b" * 60)
