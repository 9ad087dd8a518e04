"""Very many devices that are enrolled and silent cost a change set nothing, and what stands in it is enough."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.batch import NO_FRONTIER, Batch
from shared.engine.active_set import ActiveSet
from shared.engine.pipeline import Pipeline
from shared.plan.placement import cloud_fragment
from shared.stream.stream import Stream

SECOND = 1_000_000
Step = dict[str, tuple[list[int], int]]  # device -> times of its rows in seconds, and its frontier after them


def probe(name: str = "probe") -> Stream:
    return rs.sensor(name, every="1s", columns={"cell": "int64", "x": "int64"}).sync(name, batch=10)


USES: dict[str, Callable[[], Stream]] = {
    "windows": lambda: probe().tumbling("10s", lateness="2s").aggregate(n=rs.count(), most=rs.max("x")),
    "hopping": lambda: probe().key_by("device", "cell").hopping("10s", every="5s").aggregate(n=rs.count()),
    "sessions": lambda: probe().session(gap="4s").aggregate(n=rs.count()),
    "sliding": lambda: probe().sliding("5s").aggregate(n=rs.sum("x")),
    "count windows": lambda: probe().tumbling(count=3).aggregate(n=rs.sum("x")),
    "state": lambda: probe().state({"n": 0}, keep=True, n=state.n + col.x),
    "expiring state": lambda: probe().state({"n": 0}, expire="8s", n=state.n + 1),
    "cells": lambda: probe().key_by("cell", idle_after="20s").tumbling("10s").aggregate(n=rs.count()),
    "cells of all": lambda: probe().key_by("cell").tumbling("10s").aggregate(n=rs.count()),
    "cells by arrival": lambda: probe().key_by("cell", merge="arrival", idle_after="9s").hopping("10s", every="5s").aggregate(n=rs.count()),
    "keys of a device": lambda: probe().key_by("device", "cell").state({"n": 0}, keep=True, n=state.n + 1).key_by("device").tumbling("5s").aggregate(n=rs.sum("n")),
    "union": lambda: probe().union(probe("other")),
    "latest": lambda: probe().with_latest(probe("other")),
    "combine": lambda: probe().combine(probe("other")),
}  # fmt: skip


def pipeline_of(use: str) -> Pipeline:
    return Pipeline(cloud_fragment(rs.plan_of(USES[use]())))


def take(pipeline: Pipeline, step: Step, numbers: dict[str, int]) -> list[str]:
    """What comes out of a step: its rows into every input, then its frontiers."""
    found = []
    for entry in pipeline.fragment.inputs:
        for device, (times, _) in step.items():
            lo = numbers.get(f"{entry.name} {device}", 0)
            numbers[f"{entry.name} {device}"] = lo + len(times)
            rows = np.arange(lo, lo + len(times))
            values = {"device": np.array([device] * len(times), "T"), "cell": rows % 3, "x": rows}
            content = {name: values[name] for name in entry.schema.names}
            found += pipeline.push(entry.name, Batch.of(entry.schema, content, [at * SECOND for at in times], lo=lo))
        found += pipeline.advance_devices(entry.name, {device: at * SECOND for device, (_, at) in step.items()})
    return [
        repr((name, at, *values))
        for name, batch in found
        for at, *values in zip(batch.time_us.tolist(), *(each.tolist() for each in batch.columns.values()), strict=True)
    ]


def changed_bytes(use: str, devices: int) -> int:
    pipeline, numbers = pipeline_of(use), dict[str, int]()
    take(pipeline, {f"{number:08x}": ([1, 3], 30) for number in range(devices)}, numbers)
    pipeline.snapshot()
    take(pipeline, {"00000001": ([31, 32], 40)}, numbers)
    pipeline.changes_since_snapshot()
    take(pipeline, {"00000001": ([41, 52], 60)}, numbers)
    return len(pipeline.changes_since_snapshot())


@pytest.mark.parametrize("use", USES)
def test_a_change_set_says_nothing_of_devices_that_are_silent(use: str) -> None:
    few, many = changed_bytes(use, 10), changed_bytes(use, 1_000)
    assert 0 < many <= few * 1.1, f"{few} bytes of 10 devices, {many} of 1000"


def steps(seed: int, count: int) -> list[Step]:
    """Most devices are silent in most steps; some come back, rows may be late."""
    draw = random.Random(seed)
    names = [f"{number:04x}" for number in range(40)]
    made: list[Step] = [{name: ([draw.randrange(5)], 5) for name in names[:30]}]
    for number in range(1, count):
        now = number * 4
        chosen = draw.sample(names, 4)
        made.append({name: (sorted(now + draw.randrange(-6, 4) for _ in range(3)), now + 2) for name in chosen})
    return made


@pytest.mark.parametrize("use", USES)
def test_whoever_goes_on_from_change_sets_or_pieces_says_the_same(use: str) -> None:
    """Deltas after a base, then a base in pieces while the worker changes, then only what the pieces say."""
    whole, one, numbers, again = pipeline_of(use), pipeline_of(use), dict[str, int](), dict[str, int]()
    parts, chain = 5, [b""]
    for number, step in enumerate(steps(3, 40)):
        expected, found = take(whole, step, numbers), take(one, step, again)
        assert found == expected, f"step {number}"
        assert one.missing(9) == whole.missing(9)
        if number == 0:
            chain = [one.snapshot()]
        else:
            turn = number % 8
            chain.append(one.piece(turn, parts) if turn < parts and number >= 8 else one.changes_since_snapshot())
            if turn == parts - 1 and number >= 8:
                chain = chain[-parts:]
        if number % 3 == 0:  # another worker goes on from what is stored
            one = pipeline_of(use)
            if number < 12:
                one.restore(chain[0])
            for each in chain[number < 12 :]:
                one.apply_changes(each)


class Plain:
    """The active set as it is defined, device by device."""

    def __init__(self, idle_after_us: int | None) -> None:
        self.idle = idle_after_us
        self.known: dict[str, int] = {}
        self.since: dict[str, int] = {}
        self.left: dict[str, int] = {}

    def common(self, before_us: int) -> tuple[int, int | None]:
        here = {name: at for name, at in self.known.items() if name not in self.left}
        if not here:
            return max(self.known.values()), min(self.known.values())
        if self.idle is None and len(here) == len(self.known):
            return min(here.values()), None
        limit = NO_FRONTIER if self.idle is None else max(here.values()) - self.idle
        active = [at for name, at in here.items() if max(at, self.since.get(name, at)) >= limit]
        waiting = [at for name, at in self.known.items() if name in here or self.left[name] > before_us]
        return min(active), min(waiting)


@pytest.mark.parametrize("seed", range(30))
def test_the_active_set_is_what_its_definition_says(seed: int) -> None:
    draw = random.Random(seed)
    idle = draw.choice([None, 5, 40])
    plain, own, follower = Plain(idle), ActiveSet(idle), ActiveSet(idle)
    names = [f"{number:x}" for number in range(25)]
    floor = NO_FRONTIER
    follower.load(*own.dump(), own.left)
    for step in range(60):
        name = draw.choice(names[: 2 + step // 2])
        match draw.randrange(6):
            case 0:
                left, back = {name: draw.randrange(step + 9)}, draw.sample(names, 2)
                own.leave(left, back)
                plain.left = {each: at for each, at in (plain.left | left).items() if each not in back}
            case 1 if not own.began(name):
                at = max(plain.known.setdefault(name, floor), floor)
                own.begin(name, step, at)
                plain.since[name] = step
            case 2 if seed % 3 == 0:
                floor = max(floor, draw.randrange(step + 1))
                own.reach({}, floor)
            case _:
                at = max(floor, draw.randrange(step + 30), plain.known.get(name, NO_FRONTIER))
                own.reach({name: at}, floor)
                plain.known[name] = at
        plain.known = {each: max(at, floor) for each, at in plain.known.items()}
        follower.apply(own.changes(), floor)
        for each in (own, follower) if plain.known else ():
            before = draw.randrange(-5, step + 20)
            assert each.common(before) == plain.common(before)
            limit = draw.randrange(step + 30)
            behind = sorted(name for name, at in plain.known.items() if at < limit)
            assert (each.behind(limit, 4), each.behind(limit, 99)) == (behind[:4], behind)
            assert [each.first_row_us(one) for one in names] == [plain.since.get(one) for one in names]


PAIRS: dict[str, Callable[[], Stream]] = {
    **{use: USES[use] for use in ("union", "latest", "combine")},
    "zip": lambda: probe().zip(probe("other")),
    "join": lambda: probe().join(probe("other"), within="10s"),
    "windows of a union": lambda: probe().union(probe("other")).tumbling("10s").aggregate(n=rs.count()),
}


@pytest.mark.parametrize("use", PAIRS)
def test_how_far_one_of_two_inputs_has_come_is_in_the_next_change_set(use: str) -> None:
    """Also where nothing follows from it yet: the other input comes as far later, perhaps at another worker."""
    whole, one = (Pipeline(cloud_fragment(rs.plan_of(PAIRS[use]()))) for _ in range(2))
    numbers, again = dict[str, int](), dict[str, int]()
    take(whole, {"a": ([1, 2, 14], 3)}, numbers)
    take(one, {"a": ([1, 2, 14], 3)}, again)
    chain = [one.snapshot(), one.changes_since_snapshot()]
    first, second = (entry.name for entry in one.fragment.inputs)
    for each in (whole, one):
        assert each.advance_devices(first, {"a": 30 * SECOND}) == []
    chain.append(one.changes_since_snapshot())
    one = Pipeline(cloud_fragment(rs.plan_of(PAIRS[use]())))
    one.restore(chain[0])
    for changes in chain[1:]:
        one.apply_changes(changes)
    expected, found = (each.advance_devices(second, {"a": 30 * SECOND}) for each in (whole, one))
    assert [(name, batch.time_us.tolist()) for name, batch in found] == [
        (name, batch.time_us.tolist()) for name, batch in expected
    ]
    assert found
