"""Very many devices that are enrolled and silent cost a change set nothing, and what stands in it is enough."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

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
    return lines(found)


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


class Worker:
    """A pipeline, and the files of a chain that it stands for."""

    def __init__(self, use: str) -> None:
        self.pipeline = Pipeline(cloud_fragment(rs.plan_of({**USES, **PAIRS}[use]())))
        self.known: list[tuple[str, bytes]] = []

    def follow(self, chain: list[tuple[str, bytes]]) -> bool:
        """As `spark.task.state` does; False where what it knows is no part of that chain."""
        if self.known:
            first = self.known.index(chain[0]) if chain[0] in self.known else len(self.known)
            known = self.known[first:]
            if not known or chain[: len(known)] != known:
                return False
        else:
            known = chain[:1] if chain[0][0] == "base" else []
            for _, base in known:
                self.pipeline.restore(base)
        for _, changes in chain[len(known) :]:
            self.pipeline.apply_changes(changes)
        self.known = list(chain)
        return True


class Fleet:
    """What random devices say: each for a while, some again much later and late, some leave, some come back."""

    def __init__(self, draw: random.Random, inputs: list[str]) -> None:
        self.draw, self.inputs = draw, inputs
        self.reached: dict[str, int] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        self.floors, self.leaves = draw.random() < 0.4, draw.random() < 0.5

    def step(self, number: int) -> list[Callable[[Pipeline], list[tuple[str, Batch]]]]:
        draw, now, acts = self.draw, number * 3, []
        fresh = [f"{each:04x}" for each in range(number // 2, number // 2 + 4)]
        for _ in range(draw.randrange(1, 5)):
            name, source = draw.choice(self.inputs), draw.choice([*fresh, *fresh, *self.reached])
            begin = draw.choice([now, self.reached.get(source, now)])
            acts.append(self._rows(name, source, sorted(begin + draw.randrange(-6, 4) for _ in range(3))))
            if draw.random() < 0.6:
                self.reached[source] = max(begin + draw.randrange(-3, 4), self.reached.get(source, 0))
                acts.append(
                    partial(Pipeline.advance, input_name=name, frontier_us=self.reached[source] * SECOND, device=source)
                )
        if self.floors and draw.random() < 0.2:
            floor = (now - draw.randrange(9, 30)) * SECOND
            acts.append(partial(Pipeline.advance, input_name=draw.choice(self.inputs), frontier_us=floor))
        if self.leaves and draw.random() < 0.3:
            left = dict.fromkeys(draw.sample([*self.reached, *fresh], 1), now * SECOND)
            acts.append(partial(_leave, left=left, returned=draw.sample([*self.reached, *fresh], 1)))
        return acts

    def _rows(self, name: str, source: str, times: list[int]) -> Callable[[Pipeline], list[tuple[str, Batch]]]:
        lo = self.numbers.get((name, source), 0)
        self.numbers[name, source] = lo + len(times)
        rows = np.arange(lo, lo + len(times))
        values = {"device": np.array([source] * len(times), "T"), "cell": rows % 3, "x": rows}

        def push(pipeline: Pipeline) -> list[tuple[str, Batch]]:
            (schema,) = (each.schema for each in pipeline.fragment.inputs if each.name == name)
            content = {column: values[column] for column in schema.names}
            return pipeline.push(name, Batch.of(schema, content, [at * SECOND for at in times], lo=lo))

        return push


def _leave(pipeline: Pipeline, left: dict[str, int], returned: list[str]) -> list[tuple[str, Batch]]:
    pipeline.leave(left, returned)
    return []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("use", list(USES | PAIRS))
def test_workers_that_take_turns_with_chains_of_any_form_say_what_one_says_that_never_stored_anything(
    use: str, seed: int
) -> None:
    """Bases, deltas and several rounds of pieces; workers begin anew, or catch up from where they once were."""
    draw = random.Random(seed)
    whole, workers = Worker(use).pipeline, [Worker(use)]
    fleet, one, parts, turn = Fleet(draw, [each.name for each in whole.fragment.inputs]), workers[0], 1 + 2 * seed, 0
    chain: list[tuple[str, bytes]] = []
    for number in range(60):
        for act in fleet.step(number):
            assert lines(act(one.pipeline)) == lines(act(whole)), f"step {number}"
        assert one.pipeline.missing(9) == whole.missing(9)
        if not chain or (parts == 1 and draw.random() < 0.1):
            chain = [("base", one.pipeline.snapshot())]
        elif parts > 1 and (turn or draw.random() < 0.3):
            chain.append((f"piece {number}", one.pipeline.piece(turn, parts)))
            turn = (turn + 1) % parts
            chain = chain if turn else chain[-parts:]
        else:
            chain.append((f"delta {number}", one.pipeline.changes_since_snapshot()))
        one.known = list(chain)
        one = draw.choice([Worker(use), *workers])
        if not one.follow(chain):
            one = Worker(use)
            one.follow(chain)
        workers = [*(each for each in workers if each is not one), one][-3:]


def lines(found: list[tuple[str, Batch]]) -> list[str]:
    return [
        repr((name, at, *values))
        for name, batch in found
        for at, *values in zip(batch.time_us.tolist(), *(each.tolist() for each in batch.columns.values()), strict=True)
    ]


def test_pieces_say_who_had_left_before_the_first_of_them() -> None:
    one, fresh = pipeline_of("cells of all"), pipeline_of("cells of all")
    take(one, {"a": ([1], 2), "b": ([1], 2)}, {})
    one.leave({"b": 3 * SECOND}, [])
    one.snapshot()
    for part in range(2):
        fresh.apply_changes(one.piece(part, 2))
    found, expected = (lines(each.advance_devices("probe", {"a": 30 * SECOND})) for each in (fresh, one))
    assert found == expected
    assert len(found) == 1


@pytest.mark.parametrize("use", ["windows", "hopping", "sessions"])
def test_keys_that_stay_when_others_are_taken_out_keep_their_own_devices_frontiers(use: str) -> None:
    one, numbers = pipeline_of(use), dict[str, int]()
    take(one, {"a": ([1], 100), "b": ([21], 22)}, numbers)
    one.retain(("device",), lambda columns, _: columns["device"] == "b")
    fresh = pipeline_of(use)
    fresh.restore(one.snapshot())
    again = dict(numbers)
    for step in ({"c": ([101], 102)}, {"b": ([23], 60)}):
        assert take(one, step, numbers) == (found := take(fresh, step, again))
    assert found


def test_a_floor_of_one_input_lets_rows_go_that_only_it_had_held() -> None:
    pipeline = pipeline_of("union")
    first, second = (entry.name for entry in pipeline.fragment.inputs)
    schema = pipeline.fragment.inputs[0].schema
    content = {"device": ["a"], "cell": [0], "x": [1]}
    pipeline.push(first, Batch.of(schema, {name: content[name] for name in schema.names}, [5 * SECOND]))
    assert pipeline.advance_devices(first, {"a": 20 * SECOND}) == []
    assert len(pipeline.advance(second, 10 * SECOND)) == 1


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
    expected, found = (lines(each.advance_devices(second, {"a": 30 * SECOND})) for each in (whole, one))
    assert found == expected
    assert found
