"""Nothing a rollback within the horizon could need is ever collected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.recovery.retention import Retention, snapshots_to_keep, trims
from shared.recovery.rollback import Rule, VertexManifest, rollback


def test_the_newest_snapshots_and_those_within_the_horizon_are_kept() -> None:
    assert snapshots_to_keep(range(1, 21), Retention(keep=2, horizon=5)) == [15, 16, 17, 18, 19, 20]
    assert snapshots_to_keep([1, 2, 90], Retention(keep=2, horizon=5)) == [2, 90]
    assert snapshots_to_keep([], Retention()) == []


@pytest.mark.covers("SO-31")
def test_an_edge_is_trimmed_only_to_its_slowest_reader_s_oldest_snapshot() -> None:
    inputs = {"a": (), "fast": ("a",), "slow": ("a",)}
    stable = {"a": range(1, 11), "fast": range(1, 11), "slow": range(1, 5)}
    answer = trims(inputs, stable, Retention(keep=1, horizon=2))
    assert answer.records == {"a": 2, "fast": 8, "slow": 2}
    assert answer.log == 8
    assert answer.snapshots["slow"] == {1}


def test_a_reader_without_any_stable_snapshot_keeps_everything() -> None:
    answer = trims({"a": (), "b": ("a",)}, {"a": range(1, 11)}, Retention(keep=1, horizon=0))
    assert answer.records["a"] == 0


@pytest.mark.covers("SO-31")
@given(st.data(), st.sampled_from(list(Rule)))
def test_after_collection_every_rollback_inside_the_horizon_still_finds_what_it_needs(
    data: st.DataObject, rule: Rule
) -> None:
    names = "abcde"
    inputs = {
        name: tuple(source for source in names[:index] if data.draw(st.booleans())) for index, name in enumerate(names)
    }
    position = data.draw(st.integers(3, 20))
    retention = Retention(keep=data.draw(st.integers(1, 3)), horizon=data.draw(st.integers(0, 6)))
    stable = {name: range(1, position + 1) for name in names}
    answer = trims(inputs, stable, retention)
    manifests = {
        name: VertexManifest(
            inputs=inputs[name],
            position=position,
            snapshots=frozenset(stable[name]) - answer.snapshots[name],
            deterministic=data.draw(st.booleans()),
        )
        for name in names
    }
    lost = {(name, epoch) for name in names for epoch in range(1, answer.records[name] + 1)}
    failed = data.draw(st.sampled_from(names))
    plan = rollback({failed}, manifests, lost, to=max(position - retention.horizon, 1), rule=rule)
    assert plan.epoch == max(position - retention.horizon, 1)
    assert plan.rollback == rollback({failed}, manifests, to=plan.epoch, rule=rule).rollback  # no loss grew it
    if any(not inputs[name] for name in plan.rollback):
        assert answer.log <= plan.epoch
