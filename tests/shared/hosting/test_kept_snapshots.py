"""Snapshots on their way to keepers, and what keepers make of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.engine.snapshots import decode_state, encode_state
from shared.errors import BrokenInvariant, DamagedData, PeerError
from shared.hosting import keeper as keeper_module
from shared.hosting import kept_snapshot
from shared.hosting.keeper import CHANGES, Keeper, KeeperPersist, KeepSnapshot, cut_of
from shared.hosting.kept_snapshot import STATES_MAX, Assembly, KeptSnapshot, digest_of, pieces
from shared.hosting.store import persist
from shared.hosting.wiring import STATE, EdgeSpec, KeptSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.spool.entry import SpooledBatch
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool

KEY = EdgeKey(DeviceId(b"q" * 16), 1, EdgeId(7))
EDGE = EdgeSpec("q/state v 2", KEY, STATE, "v", {"n": 2}, ("k",))
SPEC = KeptSpec("q", 1, "v", 2, EDGE)
BATCH = SpooledBatch(EdgeId(9), 3, 5, 2, 1, 0, 44, 0, b"rows")


def snapshot(number: int = 4, state: bytes = b"state", term: int = 2) -> KeptSnapshot:
    at = Permanent(MarkId(number, "s@1"), {"in": 10}, {"out": 5}, {"out": 3}, {"in": (8, 10)})
    return KeptSnapshot("q", 1, "v", term, at, state, {"out": [BATCH]})


VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.binary(max_size=3),
    lambda some: (
        st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=2) | st.integers(0, 3), some, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.covers("EC-8")
def test_a_snapshot_is_read_as_it_was_written_and_its_routes_are_elsewhere() -> None:
    """The operator's state, its places in its inputs and outputs, and what is in transfer; routes are the deployment's,
    so a vertex that is restored on another node is reached there."""
    found = KeptSnapshot.decode(snapshot().encode())
    assert found == snapshot()
    assert found.state == b"state"
    assert (found.permanent.inputs, found.permanent.heads) == ({"in": 10}, {"out": 5})
    assert (found.permanent.starts, found.ranges) == ({"out": 3}, {"out": [BATCH]})
    assert b"k" not in found.encode(), "its keeper, a node of its routes, is not in it"


@given(st.binary(max_size=200))
def test_other_bytes_are_damaged_and_nothing_else(data: bytes) -> None:
    with pytest.raises(DamagedData):
        KeptSnapshot.decode(data)


@given(st.integers(0, 11), VALUES)
def test_a_snapshot_with_something_else_in_it_is_damaged_or_can_be_kept(place: int, value: object) -> None:
    """It comes from another node, and a keeper that fails at it would keep nothing more."""
    said = decode_state(snapshot().encode())
    said[place] = value
    with suppress(DamagedData):
        found = KeptSnapshot.decode(encode_state(said))
        assert found.version >= (found.term, 0) or min(found.permanent.inputs.values()) < 0
        cut_of(found)


def test_pieces_give_the_whole_and_altered_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_snapshot, "PIECE_BYTES", 16)
    data = snapshot().encode()
    parts = pieces(data)
    assert len(parts) > 2
    assembly = Assembly()
    assert [assembly.add(part) for part in parts] == [None] * (len(parts) - 1) + [data]
    for part in parts[:-1]:
        assembly.add(part)
    with pytest.raises(PeerError, match="altered"):
        assembly.add(parts[-1][:-1] + b"!")
    assert assembly.add(parts[1]) is None, "a piece without those before it begins nothing"
    assert [assembly.add(part) for part in parts][-1] == data


@given(st.binary(max_size=80))
def test_hostile_pieces_are_refused_or_begin_nothing(piece: bytes) -> None:
    with suppress(PeerError):
        assert Assembly().add(piece) is None


def test_a_keeper_keeps_the_last_whole_snapshot_and_finds_it_on_its_disk() -> None:
    disk = MemoryDisk()
    keeper = Keeper(disk)
    keeper.keep_for([SPEC], {SPEC.identity})
    (piece,) = pieces(snapshot().encode())
    (item,) = keeper.take(KEY, 1, piece)
    assert item == KeepSnapshot(item.name, snapshot().encode())
    assert (keeper.taken[KEY], keeper.through[KEY]) == (1, 1)
    disk.replace(item.name, item.data)
    disk.replace("kept-other", b"not one")
    again = Keeper(disk)
    assert (again.newest(SPEC.identity), again.damaged) == (snapshot(), 1)
    (gone,) = again.keep_for([], set())
    assert gone.name == item.name
    assert again.newest(SPEC.identity) is None


def test_a_keeper_that_was_none_for_a_while_goes_on_where_it_was() -> None:
    keeper = Keeper(MemoryDisk())
    keeper.keep_for([SPEC], {SPEC.identity})
    (piece,) = pieces(snapshot().encode())
    keeper.take(KEY, 1, piece)
    keeper.keep_for([], {SPEC.identity})
    assert keeper.reads(KEY) is None
    keeper.keep_for([SPEC], {SPEC.identity})
    assert (keeper.taken[KEY], keeper.through[KEY]) == (1, 1), "the vertex may not have heard of it"
    later = replace(EDGE, key=replace(KEY, edge=EdgeId(8)))
    keeper.keep_for([replace(SPEC, term=3, edge=later)], {SPEC.identity})
    assert KEY not in keeper.taken, "of an earlier term nothing is asked again"


@pytest.mark.parametrize("other", [snapshot(term=1), KeptSnapshot("q", 1, "w", 2, snapshot().permanent, b"")])
def test_a_snapshot_of_another_vertex_or_term_is_refused(other: KeptSnapshot) -> None:
    keeper = Keeper(MemoryDisk())
    with pytest.raises(PeerError, match="another vertex or term"):
        keeper.keep(other.encode(), SPEC)
    assert keeper.held() == []


def changes(number: int, data: bytes, state: bytes, *between: bytes) -> KeptSnapshot:
    """What changed since the snapshot that was sent as `data`."""
    return replace(snapshot(number, state), onto=between, after=digest_of(data))


def stored(disk: MemoryDisk, items: list[KeeperPersist]) -> list[str]:
    """The files that are there after a step."""
    for item in items:
        persist(item, disk, cast(Spool, None))
    return disk.names()


def test_changes_are_read_as_they_were_written_and_only_with_what_they_are_changes_of() -> None:
    sent = changes(5, b"a whole one", b"more", b"between")
    found = KeptSnapshot.decode(sent.encode())
    assert found == sent
    whole = found.joined(snapshot())
    assert (whole.states, whole.after) == ((b"state", b"between", b"more"), b"")
    assert whole.since(digest_of(b"a whole one"), 1) == sent
    assert (whole.version, whole.size) == (sent.version, len(b"statebetweenmore") + len(BATCH.payload))
    with pytest.raises(BrokenInvariant, match="snapshot-onto"):
        whole.encode()


def test_a_keeper_puts_changes_to_what_it_has_and_finds_all_of_it_on_its_disk() -> None:
    disk = MemoryDisk()
    keeper = Keeper(disk)
    keeper.keep_for([SPEC], {SPEC.identity})
    first = snapshot().encode()
    second = changes(5, first, b"two", b"one").encode()
    third = changes(6, second, b"three").encode()
    for hi, data in enumerate((first, second, third), start=1):
        (piece,) = pieces(data)
        stored(disk, keeper.take(KEY, hi, piece))
        assert keeper.through[KEY] == hi
        again = Keeper(disk)
        assert again.held() == keeper.held()
        assert again.digest(SPEC.identity) == digest_of(data)
    (kept,) = again.held()
    assert (kept.states, kept.permanent.id) == ((b"state", b"one", b"two", b"three"), MarkId(6, "s@1"))
    assert len(disk.names()) == 3
    again.keep_for([SPEC], {SPEC.identity})
    assert again.keep(third, SPEC) == [], "it came before, and the answer was lost"
    whole = snapshot(7, b"all").encode()
    (kept_name,) = stored(disk, again.keep(whole, SPEC))
    assert disk.files[kept_name].content == whole, "a whole one takes the place of all"
    stored(disk, again.keep(changes(8, whole, b"eight").encode(), SPEC))
    assert stored(disk, again.keep_for([], set())) == []


def test_changes_of_anything_but_the_newest_are_refused_and_it_stays() -> None:
    keeper = Keeper(MemoryDisk())
    keeper.keep_for([SPEC], {SPEC.identity})
    with pytest.raises(PeerError, match="snapshot-base"):
        keeper.keep(changes(5, b"never came", b"two").encode(), SPEC)
    first = snapshot().encode()
    keeper.keep(first, SPEC)
    second = changes(5, first, b"two").encode()
    keeper.keep(second, SPEC)
    (piece,) = pieces(changes(6, first, b"three").encode())
    with pytest.raises(PeerError, match="snapshot-base"):
        keeper.take(KEY, 3, piece)
    assert (keeper.taken[KEY], keeper.through.get(KEY, 0)) == (3, 0), "that is how who sent them learns it"
    (kept,) = keeper.held()
    assert kept.states == (b"state", b"two")


def test_a_keeper_takes_no_more_changes_than_are_restored_from(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(MemoryDisk())
    last = snapshot().encode()
    keeper.keep(last, SPEC)
    for number in range(1, STATES_MAX):
        sent = changes(number, last, b"more").encode()
        keeper.keep(sent, SPEC)
        last = sent
    with pytest.raises(PeerError, match="snapshot-chain"):
        keeper.keep(changes(99, last, b"more").encode(), SPEC)
    assert keeper.digest(SPEC.identity) == digest_of(last), "what it has stays"
    whole = snapshot(100).encode()
    keeper.keep(whole, SPEC)
    monkeypatch.setattr(keeper_module, "SNAPSHOT_BYTES_MAX", 10)
    with pytest.raises(PeerError, match="snapshot-chain"):
        keeper.keep(changes(101, whole, b"much more").encode(), SPEC)


def test_a_file_of_changes_that_is_damaged_goes_with_the_others() -> None:
    disk = MemoryDisk()
    keeper = Keeper(disk)
    first = snapshot().encode()
    second = changes(5, first, b"two").encode()
    for data in (first, second, changes(6, second, b"three").encode()):
        stored(disk, keeper.keep(data, SPEC))
    disk.replace(sorted(name for name in disk.names() if name.startswith(CHANGES))[0], b"not one")
    again = Keeper(disk)
    assert (again.newest(SPEC.identity), again.damaged) == (snapshot(), 1)
    again.keep_for([SPEC], {SPEC.identity})
    assert len(stored(disk, again.keep(snapshot(7).encode(), SPEC))) == 1


def test_a_kill_between_a_whole_snapshot_and_the_going_of_older_changes_leaves_the_whole_one() -> None:
    disk = MemoryDisk()
    keeper = Keeper(disk)
    keeper.keep_for([SPEC], {SPEC.identity})
    first = snapshot().encode()
    second = changes(5, first, b"two").encode()
    for data in (first, second, changes(6, second, b"three").encode()):
        stored(disk, keeper.keep(data, SPEC))
    whole = snapshot(7, b"all").encode()
    stored(disk, keeper.keep(whole, SPEC)[:1])
    again = Keeper(disk)
    assert again.newest(SPEC.identity) == snapshot(7, b"all")
    fourth = changes(8, whole, b"eight").encode()
    stored(disk, again.keep(fourth, SPEC))
    last = Keeper(disk)
    assert [kept.states for kept in last.held()] == [(b"all", b"eight")]
    assert len(stored(disk, last.keep(snapshot(9).encode(), SPEC))) == 1, "with the next whole one they go"


def test_a_later_term_is_newer_and_in_one_term_what_has_read_more() -> None:
    def read(term: int, mark: int, left: int, right: int) -> KeptSnapshot:
        at = Permanent(MarkId(mark, "s@1"), {"left": left, "right": right}, {}, {})
        return KeptSnapshot("q", 1, "v", term, at, b"state", {})

    assert read(3, 1, 5, 5).version > read(2, 9, 50, 50).version
    assert read(2, 5, 10, 7).version > read(2, 5, 10, 3).version, "a mark of each of two sources has number 5"
    assert read(2, 4, 10, 7).version > read(2, 5, 10, 3).version
