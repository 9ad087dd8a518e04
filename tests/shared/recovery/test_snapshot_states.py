"""PENDING -> COMPLETE -> STABLE -> COLLECTED, with Sonora's two traps closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import BrokenInvariant
from shared.recovery.snapshot_states import Snapshots, SnapshotState

GRAPH = {"a": (), "b": (), "n": ("a", "b"), "i": ("n",), "v": ("i",)}


@pytest.mark.covers("T2", "SO-25")
def test_a_vertex_is_not_stable_while_one_above_it_still_waits() -> None:
    snapshots = Snapshots(GRAPH)
    for name in GRAPH:
        snapshots.begin(name, 1)
    snapshots.complete("a", 1)
    assert snapshots.complete("i", 1) == []
    assert snapshots.complete("v", 1) == []
    assert snapshots.state("v", 1) is SnapshotState.COMPLETE
    assert snapshots.complete("b", 1) == ["b"]
    assert snapshots.complete("n", 1) == ["n", "i", "v"]
    assert snapshots.stable_everywhere() == 1


@pytest.mark.covers("SO-25")
@given(st.permutations(sorted(GRAPH)))
def test_stable_anywhere_means_stable_everywhere_above(order: list[str]) -> None:
    snapshots = Snapshots(GRAPH)
    for name in order:
        snapshots.complete(name, 1)
        for vertex, inputs in GRAPH.items():
            if snapshots.state(vertex, 1) is SnapshotState.STABLE:
                assert all(snapshots.state(source, 1) is SnapshotState.STABLE for source in inputs)
    assert snapshots.stable_everywhere() == 1


def test_only_stable_snapshots_are_collected() -> None:
    snapshots = Snapshots(GRAPH)
    snapshots.complete("n", 1)
    with pytest.raises(BrokenInvariant, match=r"\[snapshot-not-stable\]"):
        snapshots.collect("n", 1)


def test_rolling_back_takes_stability_from_what_is_downstream_and_catching_up_gives_it_back() -> None:
    snapshots = Snapshots(GRAPH)
    for epoch in (1, 2):
        for name in GRAPH:
            snapshots.complete(name, epoch)
    snapshots.roll_back("n", 1)
    assert snapshots.state("n", 2) is None
    assert snapshots.state("v", 2) is SnapshotState.COMPLETE
    assert snapshots.state("a", 2) is SnapshotState.STABLE
    assert snapshots.stable_everywhere() == 1
    assert snapshots.complete("n", 2) == ["n", "i", "v"]
