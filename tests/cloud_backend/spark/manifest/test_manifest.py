"""Entries are put once, fold to one truth, and fence a driver that lost its term."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from cloud_backend.spark.control.collection import forget_history
from cloud_backend.spark.manifest.entries import Commit, Cut, Division, PlanChange, Rollback, Term
from cloud_backend.spark.manifest.lineage import Committed, RecordFile, StatePart
from cloud_backend.spark.manifest.manifest import SUMMARY_EVERY, Fenced, Manifest, ManifestLog
from cloud_backend.spark.slots import Range, even_ranges
from cloud_backend.spark.storage.store import Store
from shared.errors import BrokenInvariant, DamagedData

LEFT, RIGHT = even_ranges(2)


def committed(epoch: int, *, term: int = 0, digest: str = "d", state: tuple[str, ...] = ("base",)) -> Committed:
    outputs = {("out", "reader"): RecordFile(f"file{epoch}.{term}", 1, 10, digest)}
    return Committed(epoch, term, outputs, (StatePart(Range(0, 1024), state, (1,)),), 1, 1, 0.1, "c", 1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.create()
    return store


def start(store: Store, *vertices: str) -> tuple[ManifestLog, int]:
    log = ManifestLog(store)
    term = log.take_over("driver")
    log.try_append(PlanChange(1, dict.fromkeys(vertices, 2)), term=term)
    return log, term


def commit(log: ManifestLog, term: int, vertex: str, epoch: int, **facts: object) -> None:
    ranges = {range_: committed(epoch, **facts) for range_ in log.state.ranges_at(vertex, epoch)}  # type: ignore[arg-type]
    assert log.try_append(Commit(vertex, ranges), term=term)


def test_a_reopened_manifest_is_the_same(store: Store) -> None:
    log, term = start(store, "a")
    log.try_append(Cut(1, {"0": 0}, {"0": 100}), term=term)
    commit(log, term, "a", 1)
    assert ManifestLog(store).state == log.state
    assert Manifest.from_json(json.loads(json.dumps(log.state.to_json()))) == log.state


def test_a_summary_spares_reading_history(store: Store) -> None:
    log, _ = start(store, "a")
    store.put_summary(log.state.n, json.dumps(log.state.to_json()).encode())
    store.remove_history(log.state.n)
    assert ManifestLog(store).state == log.state


@pytest.mark.covers("SO-32")
def test_of_two_drivers_racing_one_commit_wins_and_the_other_sees_it(store: Store) -> None:
    first, term = start(store, "a")
    second = ManifestLog(store)
    first.try_append(Cut(1, {}, {}), term=term)
    assert second.try_append(Cut(1, {}, {"0": 5}), term=term) is None
    assert second.catch_up() == 1
    assert second.state == first.state


@pytest.mark.covers("T12", "SO-32")
def test_a_driver_that_lost_its_term_is_fenced(store: Store) -> None:
    old, old_term = start(store, "a")
    ManifestLog(store).take_over("standby")
    assert old.try_append(Cut(1, {}, {}), term=old_term) is None
    old.catch_up()
    with pytest.raises(Fenced, match=r"driver 'standby' holds term 2"):
        old.try_append(Cut(1, {}, {}), term=old_term)


def test_a_rolled_back_range_keeps_its_records_readable_unless_they_change(store: Store) -> None:
    log, term = start(store, "a")
    for epoch in (1, 2):
        commit(log, term, "a", epoch)
    log.try_append(Rollback((("a", LEFT),), 1, changed=False, reason="damaged state"), term=term)
    assert log.state.frontier_of("a") == {LEFT: 1, RIGHT: 2}
    record = log.state.record_at("a", 2)
    assert record is not None
    assert [each.stale for _, each in record] == [True, False]
    log.try_append(Rollback((("a", RIGHT),), 1, changed=True, reason="bug"), term=term)
    assert log.state.record_at("a", 2) is None


def test_a_commit_out_of_order_is_refused(store: Store) -> None:
    log, term = start(store, "a")
    with pytest.raises(BrokenInvariant, match="committed epoch 2 at position 0"):
        commit(log, term, "a", 2)


def test_a_cascade_rolls_its_readers_back_in_the_same_entry(store: Store) -> None:
    log, term = start(store, "a", "b")
    for epoch in (1, 2):
        commit(log, term, "a", epoch)
        commit(log, term, "b", epoch)
    log.try_append(Rollback((("a", LEFT),), 0, changed=False, reason="x"), term=term)
    ranges = {LEFT: committed(1, term=1, digest="other")}
    log.try_append(Commit("a", ranges, (("b", RIGHT, 0),)), term=term)
    assert log.state.frontier_of("b") == {LEFT: 2, RIGHT: 0}
    assert log.state.vertices["b"][RIGHT].term == 1


def test_a_split_takes_over_at_an_epoch_boundary(store: Store) -> None:
    log, term = start(store, "a")
    commit(log, term, "a", 1)
    log.try_append(Division("a", (LEFT,), LEFT.halves(), 2), term=term)
    assert log.state.ranges_at("a", 1) == [LEFT, RIGHT]
    assert log.state.ranges_at("a", 2) == [*LEFT.halves(), RIGHT]
    assert log.state.vertices["a"][LEFT.halves()[0]].parents == (LEFT,)
    commit(log, term, "a", 2)
    assert log.state.position("a") == 2


def tear(store: Store, number: int, left: bytes) -> Path:
    path = store.root / "manifest" / f"{number:012d}.json"
    path.write_bytes(left)
    return path


@pytest.mark.parametrize("left", [b"", b'{"n": 3, "te', b"\0" * 200, b'{"n":3,"term":1,"kind":"cut","owner":"\xff'])
def test_half_an_entry_at_the_end_is_set_aside_by_the_next_writer_and_by_nobody_else(
    store: Store, left: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log, _ = start(store, "a")
    torn = tear(store, log.state.n + 1, left)
    reader = ManifestLog(store)
    assert reader.torn
    assert reader.state == log.state
    assert torn.read_bytes() == left  # readers change nothing
    driver = ManifestLog(store)
    term = driver.take_over("the next one")
    assert driver.try_append(Cut(1, {}, {}), term=term) == 4
    assert store.set_aside() == [3]
    assert torn.with_suffix(".torn").read_bytes() == left
    assert "manifest entry 3 was torn" in caplog.text
    assert ManifestLog(store).state == driver.state


def test_a_driver_that_finds_its_number_torn_goes_on(store: Store) -> None:
    log, term = start(store, "a")
    tear(store, 3, b'{"n"')
    assert log.try_append(Cut(1, {}, {}), term=term) is None
    assert log.catch_up() == 0
    assert log.try_append(Cut(1, {}, {}), term=term) == 3
    assert ManifestLog(store).state == log.state


def test_half_an_entry_that_others_follow_stays_an_error(store: Store) -> None:
    log, term = start(store, "a")
    for epoch in (1, 2):
        log.try_append(Cut(epoch, {}, {}), term=term)
    tear(store, 3, b'{"n": 3, "te')
    with pytest.raises(DamagedData, match=r"entry 3 is not whole, and others follow it.*\[manifest-damaged\]"):
        ManifestLog(store)
    assert store.set_aside() == []


def test_of_two_drivers_that_find_half_an_entry_neither_sets_the_others_aside(store: Store) -> None:
    start(store, "a")
    tear(store, 3, b"{")
    first, second = ManifestLog(store), ManifestLog(store)
    assert first.try_append(Term("first"), term=2) == 3
    assert second.torn  # it looked before the first one wrote
    assert second.try_append(Term("second"), term=2) is None
    assert second.catch_up() == 1
    assert (second.state.owner, store.set_aside()) == ("first", [3])


def test_history_that_two_summaries_cover_is_forgotten_once_it_is_old(store: Store) -> None:
    log, term = start(store, "a")
    while log.state.n < 3 * SUMMARY_EVERY:
        log.try_append(Cut(log.state.last_cut + 1, {}, {}), term=term)
    forget_history(log, entries=50)
    assert len(store.entry_numbers()) == log.state.n  # nothing of it was published yet
    store.put_note("published", {"n": log.state.n})
    forget_history(log, entries=50)
    assert store.entry_numbers()[0] == 2 * SUMMARY_EVERY
    assert ManifestLog(store).state.last_cut == log.state.last_cut


def test_a_full_disk_leaves_no_entry_and_no_leftover(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log, term = start(store, "a")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="no space left"):
            log.try_append(Cut(1, {}, {}), term=term)
        with pytest.raises(OSError, match="no space left"):
            store.write_file("a", "base", b"x")
    assert store.object_names() == []
    assert [path.name for path in (store.root / "manifest").iterdir() if path.name.startswith(".")] == []
    assert log.try_append(Cut(1, {}, {}), term=term)
