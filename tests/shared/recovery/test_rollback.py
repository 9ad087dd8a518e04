"""Who rolls back: Sonora's example, the determinism rule, and each precondition of replay identity broken alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.errors import UsageError
from shared.recovery.rollback import Merge, Rule, VertexManifest, rollback

EPOCHS = frozenset(range(6))


def at_five(*inputs: str, **facts: object) -> VertexManifest:
    return VertexManifest(inputs=inputs, position=5, snapshots=EPOCHS, **facts)  # type: ignore[arg-type]


# Sonora's Figure 5 as its text describes it: f failed, d e g h are downstream of it, a b c feed the set.
#
#   a -> d -> g        c -> f -> d, e
#   b -> e -> h
FIGURE_5 = {
    "a": at_five(),
    "b": at_five(),
    "c": at_five(),
    "f": at_five("c"),
    "d": at_five("a", "f"),
    "e": at_five("b", "f"),
    "g": at_five("d"),
    "h": at_five("e"),
}


@pytest.mark.covers("SO-29")
def test_figure_5_of_sonora() -> None:
    plan = rollback({"f"}, FIGURE_5, rule=Rule.SONORA)
    assert plan.rollback == set("defgh")
    assert plan.replay == {"a": 6, "b": 6, "c": 6}
    assert plan.epoch == 5


@pytest.mark.covers("SO-30")
def test_a_crash_in_a_deterministic_graph_rolls_back_exactly_what_failed() -> None:
    plan = rollback({"f"}, FIGURE_5, to=3)
    assert (plan.rollback, plan.replay, plan.epoch, plan.changed) == ({"f"}, {"c": 4}, 3, frozenset())


def test_full_rollback_takes_everything() -> None:
    assert rollback({"f"}, FIGURE_5, rule=Rule.FULL).rollback == set("abcdefgh")


@pytest.mark.covers("T10")
def test_an_arrival_merge_grows_the_set_by_exactly_its_changed_closure() -> None:
    graph = FIGURE_5 | {"e": at_five("b", "f", merge=Merge.ARRIVAL)}
    assert rollback({"f"}, graph).rollback == {"f"}  # e is not in R, so its merge order stands as recorded
    assert rollback({"e"}, graph).rollback == {"e", "h"}
    assert rollback({"e", "d"}, graph).rollback == {"d", "e", "h"}  # g reads only d, which repeats itself


PRECONDITIONS = {
    "deterministic": {"deterministic": False},
    "merges are ordered or logged": {"merge": Merge.ARRIVAL},
    "same code and numeric platform": {"same_code": False},
    "same config": {"same_config": False},
}


@pytest.mark.parametrize("broken", PRECONDITIONS.values(), ids=PRECONDITIONS.keys())
def test_breaking_one_precondition_takes_everything_that_reads_it(broken: dict[str, object]) -> None:
    graph = FIGURE_5 | {"f": at_five("c", **broken)}
    plan = rollback({"f"}, graph)
    assert plan.rollback == set("defgh")
    assert plan.changed == set("defgh")


def test_a_damaged_snapshot_lowers_the_epoch() -> None:
    graph = FIGURE_5 | {"f": replace(FIGURE_5["f"], snapshots=EPOCHS - {5, 4})}
    plan = rollback({"f"}, graph)
    assert (plan.rollback, plan.epoch, plan.replay) == ({"f"}, 3, {"c": 4})


@pytest.mark.covers("SO-29")
def test_a_lost_record_puts_its_vertex_into_the_set_but_not_that_vertex_s_readers() -> None:
    plan = rollback({"d"}, FIGURE_5, {("f", 5)}, to=3)
    assert plan.rollback == {"d", "f"}
    assert plan.replay == {"a": 4, "c": 4}
    assert plan.reasons["f"] == "record of epoch 5 lost, needed by d"


def test_a_lost_record_nobody_needs_again_changes_nothing() -> None:
    assert rollback({"d"}, FIGURE_5, {("f", 2), ("e", 5)}, to=3).rollback == {"d"}


def test_lost_records_up_to_the_sources_end_in_rolling_back_the_whole_branch() -> None:
    lost = {("f", 4), ("c", 4), ("a", 5)}
    assert rollback({"d"}, FIGURE_5, lost, to=3).rollback == set("acdf")


def test_a_rollback_below_what_was_kept_is_refused_with_the_remedy() -> None:
    graph = {"v": VertexManifest(position=9, snapshots=frozenset({7, 8, 9}))}
    with pytest.raises(UsageError, match=r"choose a later epoch.*\[rollback-beyond-horizon\]"):
        rollback({"v"}, graph, to=3)


def test_an_unknown_vertex_is_named() -> None:
    with pytest.raises(UsageError, match=r"no vertex 'trips' \(have: a, b"):
        rollback({"trips"}, FIGURE_5)
