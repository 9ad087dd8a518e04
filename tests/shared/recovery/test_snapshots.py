"""PENDING -> COMPLETE -> STABLE -> COLLECTED, with Sonora's two traps closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import BrokenInvariant
from shared.recovery.marks import MarkedVertex
from shared.recovery.snapshots import Snapshots, SnapshotState

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


@pytest.mark.covers("T1", "SO-24")
def test_the_first_mark_counts_as_received() -> None:
    vertex = MarkedVertex(("x",))
    assert vertex.mark(1, "x", b"state")
    assert vertex.complete(1)


@pytest.mark.covers("SO-23", "SO-24")
def test_messages_ahead_of_the_second_mark_belong_to_the_snapshot() -> None:
    #   x: --m1--|1|--m3--          state is recorded at the first mark, after m1
    #   y: --m2-------m4--|1|--     m4 was sent before y's mark, so it is in flight
    vertex = MarkedVertex(("x", "y"))
    vertex.message("x", b"m1")
    vertex.message("y", b"m2")
    assert vertex.mark(1, "x", b"m1 m2")
    vertex.message("x", b"m3")
    vertex.message("y", b"m4")
    assert not vertex.complete(1)
    assert not vertex.mark(1, "y", b"never asked for")
    assert vertex.complete(1)
    assert vertex.snapshots[1].state == b"m1 m2"
    assert vertex.snapshots[1].in_flight == {"y": [b"m4"]}


@pytest.mark.covers("SO-24")
@given(st.data())
def test_state_and_messages_in_flight_are_exactly_what_was_sent_before_the_marks(data: st.DataObject) -> None:
    channels = {name: [f"{name}{i}".encode() for i in range(data.draw(st.integers(0, 4)))] for name in ("x", "y", "z")}
    before = {name: data.draw(st.integers(0, len(sent))) for name, sent in channels.items()}
    queues = {name: [*sent[: before[name]], None, *sent[before[name] :]] for name, sent in channels.items()}
    vertex = MarkedVertex(tuple(channels))
    held: list[bytes] = []
    while any(queues.values()):
        name = data.draw(st.sampled_from([name for name, queue in queues.items() if queue]))
        item = queues[name].pop(0)
        if item is None:
            vertex.mark(1, name, b" ".join(held))
        else:
            held.append(item)
            vertex.message(name, item)
    snapshot = vertex.snapshots[1]
    kept = snapshot.state.split() + [message for messages in snapshot.in_flight.values() for message in messages]
    assert vertex.complete(1)
    assert sorted(kept) == sorted(m for name, sent in channels.items() for m in sent[: before[name]])
