"""The region cut into vertices and run one by one gives what it gives in one piece, also when vertices are restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.batch import END_OF_TIME, Batch
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.reference.programs import COLUMNS, Program, program
from tests.reference.region_run import BEGINNING_OF_TIME, Devices, OnePipeline, Scattered, VertexByVertex
from tests.reference.test_programs import by_key

QUICK, MANY = 30, 2_000
Rows = list[dict[str, Any]]


def programs(wanted: int) -> Iterator[tuple[int, Program, Plan]]:
    seed = 3
    while wanted:
        made = program(seed)
        if ".gather(" in made.text:
            names: dict[str, Any] = {"rs": rs, "col": col, "state": state}
            exec(made.text, names)
            yield seed, made, rs.plan_of(names["out"].subscribe("out"))
            wanted -= 1
        seed += 4


def steps(made: Program, plan: Plan, draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Batches of each device and source, in random pieces, with the frontiers that they allow."""
    given: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for source, columns in made.inputs.items():
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            given.setdefault((row["device"], source), []).append(row)
    places = dict.fromkeys(given, 0)
    schemas = {entry.name: entry.schema for entry in Devices(plan, ()).fragment.inputs}
    while places:
        device, source = list(places)[int(draw.integers(len(places)))]
        lo, rows = places[device, source], given[device, source]
        hi = min(len(rows), lo + int(draw.integers(1, 12)))
        columns = {name: [row[name] for row in rows[lo:hi]] for name in COLUMNS}
        times = [row["time"] for row in rows[lo:hi]]
        yield "rows", (device, source, Batch.of(schemas[source], columns, times, lo=lo))
        places[device, source] = hi
        if hi == len(rows):
            del places[device, source]
        elif draw.random() < 0.5:
            yield "time", (device, source, min(row["time"] for row in rows[hi:]))


def run(made: Program, plan: Plan, draw: np.random.Generator) -> tuple[Rows, Rows, Rows, int]:
    """What the whole gave, the vertices, and the vertices over slow edges; and how many were restored meanwhile."""
    names = sorted({device for columns in made.inputs.values() for device in columns["device"]})
    devices, whole, parts, scattered = (
        Devices(plan, names),
        OnePipeline(plan),
        VertexByVertex(plan),
        Scattered(plan, draw),
    )
    for side in (whole, parts, scattered):
        for output in devices.fragment.outputs:
            for name in names:
                side.advance(output.name, BEGINNING_OF_TIME, name)
    for kind, what in steps(made, plan, draw):
        if kind == "rows":
            for edge, batch in devices.push(*what):
                for side in (whole, parts, scattered):
                    side.push(edge, batch)
        else:
            device, source, frontier_us = what
            for side in (whole, parts, scattered):
                side.advance(source, frontier_us, device)
        if parts.vertices and draw.random() < 0.3:
            parts.restore(str(draw.choice(list(parts.vertices))))
    for entry in devices.fragment.outputs:
        for side in (whole, parts, scattered):
            side.advance(entry.name, END_OF_TIME)
    scattered.drain()
    rows = [as_rows(side.received.get("out", [])) for side in (whole, parts, scattered)]
    return rows[0], rows[1], rows[2], parts.restored + scattered.restored


def as_rows(batches: list[Batch]) -> Rows:
    rows: Rows = []
    for batch in batches:
        columns = {"time": batch.time_us.tolist(), **{name: each.tolist() for name, each in batch.columns.items()}}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows


def by_text(rows: Rows, key: tuple[str, ...]) -> dict[str, str]:
    """Each key's rows in order, as text: NaN is itself there, and -0.0 is not 0.0."""
    return {repr(values): repr([sorted(row.items()) for row in each]) for values, each in by_key(rows, key).items()}


@pytest.mark.parametrize("count", [QUICK, pytest.param(MANY, marks=pytest.mark.soak)])
def test_vertices_one_by_one_give_the_rows_of_the_whole(count: int, claim: Claim) -> None:
    rows = restored = vertices = 0
    for seed, made, plan in programs(count):
        wanted, found, late, kills = run(made, plan, np.random.default_rng(seed))
        key = plan.sink("out").type.key
        assert by_text(found, key) == by_text(wanted, key), f"program {seed}\n{made.text}"
        assert by_text(late, key) == by_text(wanted, key), f"program {seed}\n{made.text}"
        evaluated = rs.evaluate(plan, made.inputs)["out"]
        columns = {name: values.tolist() for name, values in evaluated.items()}
        at_once = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        assert by_text(found, key) == by_text(at_once, key), f"program {seed}\n{made.text}"
        rows += len(wanted)
        restored += kills
        vertices += len(VertexByVertex(plan).vertices)
    assert rows > 10 * count
    assert restored > count
    assert vertices > count
    claim(f"{count} programs, {vertices} vertices, {restored} restored, {rows} rows, none differs")
