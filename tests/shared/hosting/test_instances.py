"""What a vertex makes, by number, whatever the steps in which its input came."""

from __future__ import annotations

from random import Random
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resurge as rs
from shared.batch import Batch
from shared.hosting import instance as instance_module
from shared.hosting.instance import Instance, Made
from shared.hosting.vertices import Vertices
from shared.hosting.wiring import VertexSpec, wire
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Deployment, HostedQuery, Peer, Placement
from shared.wire.frame import FrameType

NODE = "ab" * 16
READINGS, ANSWERS = 30, 5
SECOND = 1_000_000


def union() -> VertexSpec:
    """The vertex of the third stream process where readings, in order of all devices, meet answers as they come."""
    plan = rs.load_program("resurge/examples/peers/one_attenuated.py")
    placed = tuple(Placement(vertex.name, (NODE,), (), 1) for vertex in region_vertices(plan))
    query = HostedQuery("q", 1, plan, "none", 100, (NODE,), NODE, placed)
    peer = Peer(NODE, "node", b"k" * 32, "0" * 40, ())
    wired = wire(Deployment(NODE, 1, 1, (peer,), (query,)))
    (found,) = (spec for spec in wired.vertices if spec.vertex.merge == "logged")
    return found


SPEC = union()
LABELS = {spec.input: label for label, spec in SPEC.inputs.items()}
SCHEMAS = {name: SPEC.inputs[label].edge.schema for name, label in LABELS.items()}
GATHER, FEEDBACK = "test_a", "feedback answers"


def rows(name: str, lo: int, hi: int) -> Batch:
    """Readings, and answers that count a second later: between readings, or at the time of one."""
    numbers = np.arange(lo, hi)
    if name == GATHER:
        time_us, columns = SECOND + numbers * SECOND // 10, {"v": numbers * 1.0}
    else:
        time_us = SECOND + numbers * 2 * SECOND // 10 + np.where(numbers % 2, 0, 300)
        columns = {"answer": np.ones(len(numbers), bool), "v": -1.0 - numbers}
    return Batch.of(SCHEMAS[name], columns, time_us, lo=lo, frontier_us=int(time_us[-1]))


def made_of(steps: list[tuple[str, int]]) -> list[tuple[float, ...]]:
    instance = Instance(SPEC, Random(0))
    at = {GATHER: 0, FEEDBACK: 0}
    out: list[tuple[float, ...]] = []
    for name, count in steps:
        batch = rows(name, at[name], at[name] + count)
        at[name] += count
        for made in instance.take(LABELS[name], batch, 0):
            if isinstance(made, Made) and made.batch is not None:
                kept = made.batch
                out += zip(kept.seq.tolist(), kept.time_us.tolist(), kept.columns["v"].tolist(), strict=True)
    return out


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[str, int]]:
    steps = []
    for name, all_rows in ((GATHER, READINGS), (FEEDBACK, ANSWERS)):
        left = all_rows
        while left:
            steps.append((name, draw(st.integers(1, left))))
            left -= steps[-1][1]
    return draw(st.permutations(steps))


def test_only_inputs_that_are_ahead_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "HELD_BYTES_MAX", 100)
    instance = Instance(SPEC, Random(0))
    instance.take(LABELS[FEEDBACK], rows(FEEDBACK, 0, ANSWERS), 0)
    instance.take(LABELS[GATHER], rows(GATHER, 0, READINGS), 0)
    assert instance.full(LABELS[GATHER]), "its rows wait for answers"
    assert not instance.full(LABELS[FEEDBACK]), "without them nothing would ever go on"


WHOLE = made_of([(GATHER, READINGS), (FEEDBACK, ANSWERS)])


@pytest.mark.covers("T10")
@given(schedules())
def test_rows_merged_as_they_come_have_the_same_numbers_in_all_steps(steps: list[tuple[str, int]]) -> None:
    assert len(WHOLE) > ANSWERS, "answers and readings"
    assert made_of(steps) == WHOLE


def test_rows_that_were_broadcast_wait_in_their_copy_while_there_is_no_room_for_what_is_made_of_them() -> None:
    full = [True]
    here = Mock(full=lambda _: full[0], instances={})
    instance, copy = Mock(), Mock(last=(3, 7))
    instance.spec.back = frozenset()
    vertices = Vertices(here, Mock(), Mock(), Mock(), forget_edges=Mock())
    vertices.take_copied(instance, "g", copy, Mock(type=FrameType.DATA))
    assert not instance.take.called
    assert not vertices.catches_up, "its readers are waited for"
    full[0] = False
    assert vertices.catches_up
    assert vertices._behind == {(instance, "g"): (3, 7)}, "it is read from there"
