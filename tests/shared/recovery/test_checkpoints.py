"""The machine of snapshots between nodes, one rule at a time."""

from __future__ import annotations

from random import Random

import pytest

from shared.errors import BrokenInvariant, UsageError
from shared.recovery.checkpoints import (
    MOST_PENDING,
    Checkpoints,
    Covered,
    Extend,
    Freeze,
    Hold,
    Mark,
    MarkId,
    Permanent,
    Store,
)
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Align, Commit, Home, Include, Keep, Row, Trigger


def machine(
    strategy: str,
    inputs: str = "",
    outputs: str = "",
    *,
    back: str = "",
    every: int = 10,
    permanent: Permanent | None = None,
    seed: int = 0,
    name: str = "v",
) -> Checkpoints:
    return Checkpoints(
        STRATEGIES[strategy].row,
        inputs.split(),
        outputs.split(),
        frozenset(back.split()),
        every,
        name=name,
        random=Random(seed),
        permanent=permanent,
    )


def k(number: int, initiator: str = "s") -> MarkId:
    return MarkId(number, initiator)


def test_one_that_no_keeper_can_have_is_passed_over_and_a_later_one_may_be_stored() -> None:
    one = machine("uncoordinated", inputs="in", every=10)
    frozen = []
    while len(frozen) < 3:
        freeze = one.elements(10, edge="in")
        if freeze is not None:
            one.froze(freeze.id, {"in": 10 + 10 * len(frozen)}, {}, size=100)
            frozen.append(freeze.id)
    assert one.events() == [Store(frozen[0], {}, {})]
    one.unstorable(frozen[1])
    assert one.events() == [], "it is not the one that is being stored"
    one.unstorable(frozen[0])
    assert one.events() == [Store(frozen[2], {}, {})]
    assert frozen[0] not in one.pending
    assert not one.is_new(frozen[0]), "nobody freezes for it again"
    assert one.permanent.id is None
    one.stored(frozen[2])
    (permanent,) = one.events()
    assert permanent == one.permanent
    assert (one.permanent.id, one.through("in"), one.pending) == (frozen[2], 30, ())


@pytest.mark.covers("EC-19")
def test_a_source_begins_a_snapshot_every_so_many_elements_and_marks_each_output_at_its_head() -> None:
    source = machine("ecoc", outputs="a b", every=10)
    assert source.elements(9) is None
    freeze = source.elements(1)
    assert freeze == Freeze(MarkId(1, "v@0"))
    marks = source.froze(freeze.id, {}, {"a": 10, "b": 4}, size=100)
    assert marks == [("a", Mark(freeze.id, 10)), ("b", Mark(freeze.id, 4))]
    assert source.pending == (freeze.id,)
    assert source.events() == []


@pytest.mark.covers("EC-20")
def test_a_vertex_without_outputs_stores_at_once_and_then_answers_upstream() -> None:
    sink = machine("ecoc", inputs="a")
    sink.elements(5, edge="a")
    assert sink.mark("a", Mark(k(1), 5)) == Freeze(k(1))
    assert sink.froze(k(1), {"a": 5}, {}, size=10) == []
    assert sink.events() == [Store(k(1), {}, {})]
    assert sink.through("a") == 0, "not before its keeper has it"
    sink.stored(k(1))
    assert sink.events() == [Permanent(k(1), {"a": 5}, {}, {})]
    assert sink.through("a") == 5


@pytest.mark.covers("EC-21")
def test_a_pending_snapshot_is_stored_without_transfer_state_once_every_reader_has_its_own() -> None:
    vertex = machine("ecoc", inputs="a", outputs="b c")
    vertex.elements(5, edge="a")
    vertex.mark("a", Mark(k(1), 5))
    vertex.froze(k(1), {"a": 5}, {"b": 5, "c": 3}, size=10)
    vertex.receipt("b", 5)
    vertex.receipt("c", 2)
    assert vertex.events() == []
    vertex.receipt("c", 3)
    assert vertex.events() == [Store(k(1), {}, {})]


@pytest.mark.covers("EC-18")
def test_an_uncoordinated_snapshot_carries_what_its_outputs_retain_and_comes_at_a_jittered_time() -> None:
    gaps = []
    for seed in range(300):
        vertex = machine("uncoordinated", inputs="a", outputs="b", every=10, seed=seed)
        count = 1
        while vertex.elements(1, edge="a") is None:
            count += 1
        gaps.append(count)
    assert (min(gaps), max(gaps)) == (5, 15)
    id = MarkId(1, "v@0")
    vertex.receipt("b", 3)
    assert vertex.froze(id, {"a": 9}, {"b": 9}, size=10) == [], "nobody is asked to follow"
    assert vertex.events() == [Store(id, {"b": (3, 9)}, {})]
    vertex.stored(id)
    assert vertex.events() == [Permanent(id, {"a": 9}, {"b": 9}, {"b": 3})]
    assert vertex.through("a") == 9


def test_of_several_that_may_be_stored_the_newest_is_and_the_older_ones_are_passed_over() -> None:
    vertex = machine("ecoc", inputs="a", outputs="b")
    for number, position in ((1, 5), (2, 10), (3, 15)):
        vertex.mark("a", Mark(k(number), position))
        vertex.froze(k(number), {"a": position}, {"b": position}, size=10)
    vertex.receipt("b", 12)
    assert vertex.events() == [Store(k(2), {}, {})]
    vertex.receipt("b", 15)
    assert vertex.events() == [], "one store at a time"
    vertex.stored(k(2))
    assert [type(event) for event in vertex.events()] == [Permanent, Store]
    assert vertex.pending == (k(3),)
    vertex.stored(k(2))
    assert vertex.events() == [], "said again"


def test_a_mark_that_comes_again_under_ecoc_finds_its_snapshot() -> None:
    vertex = machine("ecoc", inputs="a b", outputs="c")
    assert vertex.mark("a", Mark(k(1), 5)) == Freeze(k(1))
    vertex.froze(k(1), {"a": 5, "b": 2}, {"c": 7}, size=10)
    assert vertex.mark("a", Mark(k(1), 5)) == Covered()
    assert vertex.mark("b", Mark(k(1), 6)) == Freeze(MarkId(2, "v@0")), "by another path it needs one of its own"


@pytest.mark.covers("EC-25")
def test_the_five_rules_of_extending() -> None:
    vertex = machine("extended-ecoc", inputs="a b loop", outputs="c", back="loop c")
    at = {"a": 5, "b": 2, "loop": 1}
    for edge, count in at.items():
        vertex.elements(count, edge=edge, size=10 * count)
    assert vertex.mark("a", Mark(k(2), 5)) == Freeze(k(2)), "5: nothing is pending"
    vertex.froze(k(2), at, {"c": 8}, size=100)
    assert vertex.mark("loop", Mark(k(2), 1)) == Extend(k(2), 0), "1: pending, on a cycle: the permanent one's position"
    vertex.elements(4, edge="b", size=40)
    assert vertex.mark("b", Mark(k(2), 6)) == Extend(k(2), 2), "2: pending: its position"
    assert vertex.mark("b", Mark(k(3), 6)) == Extend(k(3), 2), "4: 40 bytes since the older one are less than 100"
    assert vertex.mark("b", Mark(k(1), 6)) == Freeze(k(1)), "not to a newer id"
    vertex.froze(k(1), {**at, "b": 6}, {"c": 12}, size=100)
    vertex.receipt("c", 8)
    vertex.stored(k(2))
    assert vertex.mark("b", Mark(k(2), 6)) == Extend(k(2), 2), "3: permanent: its position"
    vertex.elements(20, edge="b", size=200)
    assert vertex.mark("b", Mark(k(4), 26)) == Freeze(k(4)), "5: 200 bytes are more than a snapshot costs"


@pytest.mark.covers("EC-25")
def test_an_extended_snapshot_waits_for_the_least_answer_and_carries_what_is_retained() -> None:
    vertex = machine("extended-ecoc", inputs="a", outputs="b")
    vertex.mark("a", Mark(k(1), 5))
    vertex.froze(k(1), {"a": 5}, {"b": 20}, size=10)
    vertex.extended("b", k(1), 12)
    vertex.extended("b", k(1), 16)
    vertex.receipt("b", 11)
    assert vertex.events() == []
    vertex.receipt("b", 13)
    assert vertex.events() == [Store(k(1), {"b": (13, 20)}, {})]
    vertex.receipt("b", 20)  # trims the spool; what goes into the store was copied
    vertex.stored(k(1))
    assert vertex.events() == [Permanent(k(1), {"a": 5}, {"b": 20}, {"b": 13})]


@pytest.mark.covers("EC-26")
def test_load_is_a_moving_average_plus_that_of_readers_off_the_cycle() -> None:
    vertex = machine("extended-ecoc", inputs="a", outputs="b loop", back="loop")
    vertex.mark("a", Mark(k(1), 5))
    vertex.froze(k(1), {"a": 5}, {"b": 5, "loop": 5}, size=100)
    vertex.elements(85, edge="a", size=850)
    vertex.mark("a", Mark(k(2), 90))
    vertex.froze(k(2), {"a": 90}, {"b": 9, "loop": 9}, size=200)
    assert vertex.load == 125
    vertex.receipt("b", 0, load=70)
    vertex.receipt("loop", 0, load=1_000)
    assert vertex.load == 195


@pytest.mark.covers("EC-23")
def test_after_a_restart_only_the_permanent_snapshot_is_known_and_marks_go_again_to_a_new_reader() -> None:
    vertex = machine("ecoc", inputs="a", outputs="b")
    for number in (1, 2):
        vertex.mark("a", Mark(k(number), 5 * number))
        vertex.froze(k(number), {"a": 5 * number}, {"b": 5 * number}, size=10)
    vertex.receipt("b", 5)
    vertex.stored(k(1))
    assert vertex.marks_to_send("b") == [Mark(k(2), 10)]
    again = machine("ecoc", inputs="a", outputs="b", permanent=vertex.permanent)
    assert again.pending == ()
    assert again.through("a") == 5
    assert again.mark("a", Mark(k(2), 10)) == Freeze(k(2)), "its writer sends the mark again"


@pytest.mark.covers("EC-17")
def test_without_snapshots_everything_taken_may_be_forgotten() -> None:
    for name in ("none", "ring", "rep-2"):
        vertex = machine(name, inputs="a", outputs="b", every=1)
        assert vertex.elements(7, edge="a") is None
        assert vertex.through("a") == 7
        assert vertex.marks_to_send("b") == []


@pytest.mark.covers("T1")
def test_a_token_holds_early_edges_and_the_first_mark_counts() -> None:
    vertex = machine("token", inputs="a b", outputs="c")
    assert vertex.mark("a", Mark(k(1), 5)) == Hold()
    assert vertex.mark("b", Mark(k(1), 3)) == Freeze(k(1))
    assert vertex.froze(k(1), {"a": 5, "b": 3}, {"c": 8}, size=10) == [("c", Mark(k(1), 8))]
    assert vertex.events() == [Store(k(1), {}, {})]
    vertex.stored(k(1))
    assert vertex.events() == [], "the others may still lack theirs"
    vertex.region_complete(k(1))
    assert vertex.permanent.inputs == {"a": 5, "b": 3}


@pytest.mark.covers("SO-24")
def test_a_token_records_edges_on_a_cycle_instead_of_holding_them() -> None:
    vertex = machine("token", inputs="a loop wide", outputs="c", back="loop wide c")
    assert vertex.mark("a", Mark(k(1), 5)) == Freeze(k(1), ("loop", "wide")), "the state of the first mark"
    assert vertex.froze(k(1), {"a": 5, "loop": 2, "wide": 0}, {"c": 7}, size=10) == [("c", Mark(k(1), 7))], "passed on"
    assert vertex.events() == []
    assert vertex.mark("loop", Mark(k(1), 4)) == Covered()
    assert vertex.mark("loop", Mark(k(1), 4)) == Covered(), "that it has come is known"
    assert vertex.events() == [], "the other recording goes on"
    assert vertex.mark("wide", Mark(k(1), 9)) == Covered()
    assert vertex.events() == [Store(k(1), {}, {"loop": (2, 4), "wide": (0, 9)})]


@pytest.mark.covers("T1")
def test_marks_that_record_freeze_at_the_first_and_end_each_recording_at_its_own() -> None:
    row = Row("r", Trigger.COORDINATOR, Align.RECORD, Include.STATE, Commit.REGION, Home.STORE, Keep.SOURCES)
    vertex = Checkpoints(row, ("a", "b"), (), frozenset(), 10, name="v", random=Random(0))
    assert vertex.mark("a", Mark(k(1), 5)) == Freeze(k(1), ("b",))
    vertex.froze(k(1), {"a": 5, "b": 1}, {}, size=10)
    assert vertex.mark("b", Mark(k(1), 3)) == Covered()
    assert vertex.events() == [Store(k(1), {}, {"b": (1, 3)})]


def test_a_coordinator_s_request_is_heard_once() -> None:
    source = machine("token", outputs="a")
    assert source.request(k(1, "region")) == Freeze(k(1, "region"))
    source.froze(k(1, "region"), {}, {"a": 3}, size=1)
    assert source.request(k(1, "region")) is None


def test_a_source_begins_no_more_snapshots_while_too_many_are_pending() -> None:
    source = machine("ecoc", outputs="a", every=1)
    for head in range(1, MOST_PENDING + 1):
        freeze = source.elements(1)
        assert freeze is not None
        source.froze(freeze.id, {}, {"a": head}, size=1)
    assert source.elements(1) is None
    source.receipt("a", 3)
    source.stored(source.pending[2])
    assert source.elements(1) is not None


def test_a_snapshot_comes_when_it_was_asked_for_and_never_goes_back() -> None:
    vertex = machine("ecoc", inputs="a", permanent=Permanent(k(1), {"a": 5}, {}, {}))
    with pytest.raises(BrokenInvariant, match=r"\[checkpoint-turn\]"):
        vertex.froze(k(2), {"a": 6}, {}, size=1)
    vertex.mark("a", Mark(k(2), 6))
    with pytest.raises(BrokenInvariant, match=r"\[checkpoint-turn\]"):
        vertex.elements(1, edge="a")
    with pytest.raises(BrokenInvariant, match=r"\[checkpoint-position\]"):
        vertex.froze(k(2), {"a": 4}, {}, size=1)


def test_a_row_that_cannot_work_here_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\[strategy-needs-acyclic\]"):
        machine("ecoc", inputs="a loop", back="loop")
    for name in ("partial", "full"):
        with pytest.raises(UsageError, match=r"\[strategy-needs-job\]"):
            machine(name, inputs="a")
