"""Snapshots on their way to keepers, and what keepers make of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import DamagedData, PeerError
from shared.hosting import kept_snapshot
from shared.hosting.keeper import Keeper, KeepSnapshot
from shared.hosting.kept_snapshot import Assembly, KeptSnapshot, pieces
from shared.hosting.wiring import STATE, EdgeSpec, KeptSpec
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.spool.entry import SpooledBatch
from shared.spool.memory import MemoryDisk

KEY = EdgeKey(DeviceId(b"q" * 16), 1, EdgeId(7))
EDGE = EdgeSpec("q/state v 2", KEY, STATE, "v", {"n": 2}, ("k",))
SPEC = KeptSpec("q", 1, "v", 2, EDGE)
BATCH = SpooledBatch(EdgeId(9), 3, 5, 2, 1, 0, 44, 0, b"rows")


def snapshot(number: int = 4, state: bytes = b"state", term: int = 2) -> KeptSnapshot:
    at = Permanent(MarkId(number, "s@1"), {"in": 10}, {"out": 5}, {"out": 3}, {"in": (8, 10)})
    return KeptSnapshot("q", 1, "v", term, at, state, {"out": [BATCH]})


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
    item = keeper.take(KEY, 1, piece)
    assert item == KeepSnapshot(item.name if item else "", snapshot().encode())
    assert (keeper.taken[KEY], keeper.through[KEY]) == (1, 1)
    assert item is not None
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


def test_a_later_term_is_newer_and_in_one_term_what_has_read_more() -> None:
    def read(term: int, mark: int, left: int, right: int) -> KeptSnapshot:
        at = Permanent(MarkId(mark, "s@1"), {"left": left, "right": right}, {}, {})
        return KeptSnapshot("q", 1, "v", term, at, b"state", {})

    assert read(3, 1, 5, 5).version > read(2, 9, 50, 50).version
    assert read(2, 5, 10, 7).version > read(2, 5, 10, 3).version, "a mark of each of two sources has number 5"
    assert read(2, 4, 10, 7).version > read(2, 5, 10, 3).version
