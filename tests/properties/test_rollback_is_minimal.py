"""The rollback set is the smallest consistent undo, against brute force over every subset and epoch."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UsageError
from shared.recovery.rollback import Merge, Rule, VertexManifest, rollback

EPOCHS = 4


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, VertexManifest]:
    names = "abcdef"[: draw(st.integers(1, 6))]
    graph = {}
    for index, name in enumerate(names):
        inputs = tuple(earlier for earlier in names[:index] if draw(st.booleans()))
        graph[name] = VertexManifest(
            inputs=inputs,
            position=draw(st.integers(2, EPOCHS)),
            snapshots=frozenset({0}) | draw(st.frozensets(st.integers(1, EPOCHS))),
            deterministic=draw(st.booleans()),
            merge=draw(st.sampled_from(Merge)),
            same_code=draw(st.integers(0, 3)) > 0,
        )
    return graph


def changed(name: str, members: set[str], graph: dict[str, VertexManifest]) -> bool:
    manifest = graph[name]
    return name in members and (
        not manifest.repeats_itself or any(changed(source, members, graph) for source in manifest.inputs)
    )


def consistent(
    members: set[str], epoch: int, graph: dict[str, VertexManifest], lost: set[tuple[str, int]], rule: Rule
) -> bool:
    for name, manifest in graph.items():
        if name in members:
            if epoch not in manifest.snapshots:
                return False
            for source in manifest.inputs:
                needed = {(source, e) for e in range(epoch + 1, manifest.position + 1)}
                if source not in members and needed & lost:
                    return False
        else:
            touched = [source for source in manifest.inputs if source in members]
            if rule is Rule.SONORA and touched:
                return False
            if any(changed(source, members, graph) for source in touched):
                return False
    return True


@pytest.mark.covers("SO-29", "SO-30")
@given(graph=graphs(), data=st.data(), rule=st.sampled_from([Rule.CHANGED, Rule.SONORA]))
def test_rollback_is_the_smallest_consistent_undo(
    graph: dict[str, VertexManifest], data: st.DataObject, rule: Rule
) -> None:
    names = sorted(graph)
    failed = set(data.draw(st.sets(st.sampled_from(names), min_size=1)))
    lost = set(data.draw(st.sets(st.tuples(st.sampled_from(names), st.integers(1, EPOCHS)), max_size=6)))
    to = data.draw(st.integers(0, EPOCHS))
    ceiling = min(to, max(graph[name].position for name in failed))
    answers = [
        (len(members), -epoch, members, epoch)
        for size in range(len(failed), len(names) + 1)
        for members in map(set, combinations(names, size))
        if failed <= members
        for epoch in range(ceiling + 1)
        if consistent(members, epoch, graph, lost, rule)
    ]
    if not answers:
        with pytest.raises(UsageError):
            rollback(failed, graph, lost, to=to, rule=rule)
        return
    _, _, members, epoch = min(answers, key=lambda answer: answer[:2])
    plan = rollback(failed, graph, lost, to=to, rule=rule)
    assert (set(plan.rollback), plan.epoch) == (members, epoch)
    assert set(plan.replay) == {source for name in members for source in graph[name].inputs} - members
