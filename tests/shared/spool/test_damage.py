"""Damage to stored bytes is found, counted and given up by number; a wrong payload is never handed out."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

import pytest

from shared.errors import DamagedData
from shared.spool.disk import THREADED_BYTES, PosixDisk
from shared.spool.entry import DataEntry, Reason, Tombstone
from shared.spool.memory import MemoryDisk
from shared.spool.payloads import damaged, read_payload
from shared.spool.ring import Spool
from shared.spool.segment import JOURNAL_START, UNIT_BYTES
from tests.claims import Claim
from tests.shared.spool.story import DEVICE, EDGES, Account, batch_for, payload_for


def filled(*, close: bool, groups: int = 6) -> tuple[MemoryDisk, Spool]:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=4096, device=DEVICE, incarnation=1, journal_bytes=4096)
    for group in range(groups):
        for edge in EDGES[:2]:
            spool.append(batch_for(spool, edge, 5, 150 + 10 * group))
        spool.sync()
    if close:
        spool.close()
    return disk, spool


def copy(disk: MemoryDisk) -> MemoryDisk:
    other = MemoryDisk()
    for name, file in disk.files.items():
        other.replace(name, bytes(file.content))
    return other


def read_all(spool: Spool) -> tuple[dict[tuple[int, int], bytes], int]:
    """Every payload that can be read, and how many batches were found damaged while reading."""
    payloads: dict[tuple[int, int], bytes] = {}
    damaged = 0
    for edge in spool.edges():
        for entry in list(spool.pending(edge)):
            if isinstance(entry, DataEntry):
                try:
                    payloads[edge, entry.lo] = spool.read(entry).payload
                except DamagedData:
                    damaged += 1
    return payloads, damaged


def assert_only_right_payloads(spool: Spool) -> tuple[int, int]:
    payloads, damaged = read_all(spool)
    for (edge, lo), payload in payloads.items():
        assert payload == payload_for(edge, lo, lo + 5, len(payload))
    return len(payloads), damaged


def test_every_bit_flip_in_every_payload_is_detected(claim: Claim) -> None:
    disk, spool = filled(close=False)
    file = disk.files["spool"]
    flips = 0
    for edge in spool.edges():
        for entry in spool.pending(edge):
            assert isinstance(entry, DataEntry)
            left = entry.payload_bytes
            for first, units in entry.extents:
                start = spool._block.data_start + first * UNIT_BYTES
                for at in range(start, start + min(left, units * UNIT_BYTES)):
                    for bit in range(8):
                        file.content[at] ^= 1 << bit
                        assert read_payload(file, spool._block, entry) is None
                        assert damaged(file, spool._block, [entry]) == [entry]
                        file.content[at] ^= 1 << bit
                        flips += 1
                left -= units * UNIT_BYTES
    claim(f"{flips} flips, all detected")
    assert flips > 15_000


def test_a_batch_found_damaged_becomes_a_tombstone_and_the_rest_is_unharmed() -> None:
    disk, _ = filled(close=True)
    spool = Spool.open(disk)  # what was appended a moment ago is not read back
    victim = next(iter(spool.pending(EDGES[0])))
    assert isinstance(victim, DataEntry)
    disk.files["spool"].content[spool._block.data_start + victim.extents[0][0] * UNIT_BYTES] ^= 1
    with pytest.raises(DamagedData, match="spool-payload"):
        spool.read(victim)
    spool.sync()
    assert next(iter(spool.pending(EDGES[0]))) == Tombstone(EDGES[0], 0, 5, Reason.DAMAGED)
    again = Spool.open(disk)
    assert again.statistics().ledgered == {Reason.DAMAGED: 5}
    assert assert_only_right_payloads(again) == (11, 0)


def test_every_bit_flip_in_superblocks_and_index_of_a_closed_spool_is_detected() -> None:
    disk, _ = filled(close=True, groups=2)
    whole = len(read_all(Spool.open(disk))[0])
    flips = repaired = refused = 0
    for name, length in (("spool", 2 * 120), ("spool.index", None), ("spool.index.copy", None)):
        content = disk.files[name].content
        for at in range(length or len(content)):
            place = at if name != "spool" else at % 120 + at // 120 * 4096
            for bit in range(8):
                content[place] ^= 1 << bit
                try:
                    spool = Spool.open(disk)
                    assert spool.statistics().damage == 1
                    assert len(list(spool.pending(EDGES[0]))) + len(list(spool.pending(EDGES[1]))) == whole
                    repaired += 1
                except DamagedData:
                    refused += 1
                content[place] ^= 1 << bit
                flips += 1
    assert flips > 8_000
    assert repaired + refused == flips
    assert refused < 200  # only a flipped version number is refused; one damaged copy of anything is no loss


def test_a_repaired_spool_is_whole_again_after_the_next_change() -> None:
    disk, _ = filled(close=True)
    disk.files["spool"].content[3] ^= 1
    disk.files["spool.index"].content[9] ^= 1
    spool = Spool.open(disk)
    assert spool.statistics().damage == 2
    spool.append(batch_for(spool, EDGES[0], 5, 10))
    spool.close()
    assert Spool.open(disk).statistics().damage == 0


def test_every_bit_flip_in_the_journal_is_detected_or_shortens_the_last_group(claim: Claim) -> None:
    disk, original = filled(close=False, groups=4)
    heads = {edge: original.head(edge) for edge in original.edges()}
    used = original._journal._offset
    last_group = original._journal._synced - 2 * (used // 8)
    content = disk.files["spool"].content
    start = original._block.half_start(original._journal.generation)
    assert start in (JOURNAL_START, JOURNAL_START + original._block.half_bytes)
    detected = shortened = 0
    for at in range(used):
        for bit in range(0, 8, 1 if at % 4 == 0 else 3):
            content[start + at] ^= 1 << bit
            spool = Spool.open(disk)
            if spool.statistics().damage:
                detected += 1
                assert {edge: spool.head(edge) for edge in spool.edges()} == heads, "a number would be used twice"
            else:
                shortened += 1
                assert at >= last_group - 8
            assert_only_right_payloads(Spool.open(copy(disk)) if at % 64 == 0 and bit == 0 else spool)
            content[start + at] ^= 1 << bit
    claim(f"{detected + shortened} flips: {detected} detected, {shortened} cut off with the last group")
    assert detected > 2000
    assert shortened > 0


def test_any_truncation_is_refused_or_leaves_only_right_payloads() -> None:
    disk, _ = filled(close=False)
    for name in list(disk.files):
        size = len(disk.files[name].content)
        for length in range(0, size, 1 if name != "spool" else 97):
            cut = copy(disk)
            del cut.files[name].content[length:]
            try:
                assert_only_right_payloads(Spool.open(cut))
            except DamagedData:
                continue


def test_random_lengths_and_numbers_in_metadata_never_escape_as_anything_but_damage() -> None:
    disk, spool = filled(close=False)
    random = Random(9)
    data_start = spool._block.data_start
    opened = 0
    for _ in range(3000):
        cut = copy(disk)
        name = random.choice(["spool", "spool", "spool.index", "spool.index.copy"])
        content = cut.files[name].content
        end = min(len(content), data_start)
        for _ in range(random.randint(1, 6)):
            at = random.randrange(0, max(1, end - 8))
            content[at : at + 4] = random.choice([b"\xff" * 4, random.randbytes(4), bytes(4)])
        try:
            assert_only_right_payloads(Spool.open(cut))
            opened += 1
        except DamagedData:
            pass
    assert opened > 1000


def test_a_list_of_what_was_given_up_survives_damage_to_one_copy_and_damage_to_both_is_counted() -> None:
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=4096, device=DEVICE, incarnation=1, journal_bytes=4096)
    for _ in range(20):
        spool.append(batch_for(spool, EDGES[0], 5, 400))
        spool.append(batch_for(spool, EDGES[1], 5, 500))
    content = disk.files["spool.given-up"].content
    middle = len(content) // 2
    (written,) = struct.unpack_from("<I", content, 20)
    whole = Account.of(Spool.open(disk))
    assert written > 60
    for at in range(24 + written + 4):
        for places in ((at,), (middle + at,), (at, middle + at)):
            for place in places:
                content[place] ^= 0x40
            again = Spool.open(disk)
            if len(places) == 1:
                assert again.statistics().damage == 0
                assert Account.of(again) == whole
            else:
                assert again.statistics().damage >= 1
            assert_only_right_payloads(again)
            for place in places:
                content[place] ^= 0x40
    assert Spool.open(disk).statistics().damage == 0


@pytest.mark.parametrize("size", [700, 70_000], ids=["small", "with threads"])
def test_verifying_gives_up_exactly_what_is_damaged(tmp_path: Path, size: int) -> None:
    disk = PosixDisk(tmp_path)
    spool = Spool.create(disk, capacity_bytes=200 * size, device=DEVICE, incarnation=1)
    for turn in range(250):
        spool.append(batch_for(spool, EDGES[turn % 2], 5, size - turn % 7 * 64))
    spool.sync()
    for entry in list(spool.pending(EDGES[0]))[1::2]:
        spool.give_up(entry.edge, entry.lo, entry.hi, Reason.QUARANTINED)
    spool.sync()
    for _ in range(40):  # into the gaps, and so in several pieces
        spool.append(batch_for(spool, EDGES[1], 5, 3 * size // 2))
    spool.sync()
    batches = [e for edge in EDGES[:2] for e in spool.pending(edge) if isinstance(e, DataEntry)]
    chained = [entry for entry in batches if len(entry.extents) > 1]
    assert size < 70_000 or sum(e.payload_bytes for e in batches) > THREADED_BYTES
    assert chained
    victims = [*batches[3::31], chained[0]]
    with (tmp_path / "spool").open("r+b") as file:
        for entry in set(victims):
            first, units = entry.extents[-1]
            at = spool._block.data_start + first * UNIT_BYTES + min(units * UNIT_BYTES, entry.payload_bytes) // 2
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
    before = sum(t.hi - t.lo for t in spool.ledger)
    assert spool.verify() == len(batches)
    assert spool.statistics().damage == len(set(victims))
    spool.sync()
    left = [e for edge in EDGES[:2] for e in spool.pending(edge) if isinstance(e, DataEntry)]
    assert {(e.edge, e.lo) for e in left} == {(e.edge, e.lo) for e in batches} - {(e.edge, e.lo) for e in victims}
    assert sum(t.hi - t.lo for t in spool.ledger) - before == sum(e.hi - e.lo for e in set(victims))
    assert spool.verify() == len(left)
    assert_only_right_payloads_of(spool, left)
    spool.close()


def test_a_read_that_is_cut_short_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.create(PosixDisk(tmp_path), capacity_bytes=20_000, device=DEVICE, incarnation=1)
    for _ in range(5):
        spool.append(batch_for(spool, EDGES[0], 5, 700))
    spool.sync()
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, length, offset: read(file, min(length, 300), offset))
    assert spool.verify() == 5
    assert spool.statistics().damage == 0
    assert all(isinstance(entry, DataEntry) for entry in spool.pending(EDGES[0]))


def assert_only_right_payloads_of(spool: Spool, entries: list[DataEntry]) -> None:
    for entry in entries:
        assert spool.read(entry).payload == payload_for(entry.edge, entry.lo, entry.hi, entry.payload_bytes)
