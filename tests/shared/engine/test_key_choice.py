"""A pipeline that forgot some keys goes on as one that never met them. Every operator kind, by random programs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from resurge.evaluate import as_columns, plan_of, whole_fragment
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from tests.conformance.programs import DEVICES, KEYS, case
from tests.conformance.running import bits

KEPT = DEVICES[0]


def mine(columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    assert len(columns["device"]) == rows
    kept: np.ndarray = columns["device"] == KEPT
    return kept


def pushed(pipeline: Pipeline, inputs: Mapping[str, Mapping[str, np.ndarray]], half: int) -> list[tuple[str, Batch]]:
    found: list[tuple[str, Batch]] = []
    for entry in pipeline.fragment.inputs:
        if entry.name not in inputs:
            continue
        given = inputs[entry.name]
        middle = len(given["time"]) // 2
        part = slice(0, middle) if half == 0 else slice(middle, None)
        piece = {name: column[part] for name, column in given.items()}
        found += pipeline.push(entry.name, Batch.of(entry.schema, piece, piece["time"], lo=0 if half == 0 else middle))
        if half == 0:  # something closes before and something stays open
            times = given["time"][middle:]
            found += pipeline.advance(entry.name, int(times.min()) if len(times) else END_OF_TIME)
    if half == 1:
        for entry in pipeline.fragment.inputs:
            found += pipeline.advance(entry.name, END_OF_TIME)
    return found


def of_kept(found: list[tuple[str, Batch]]) -> list[tuple[object, ...]]:
    rows = []
    for _, batch in found:
        columns = {"time": batch.time_us, **batch.columns}
        rows += [row for row, kept in zip(bits(columns), batch.columns["device"] == KEPT, strict=True) if kept]
    return sorted(rows, key=repr)


def stays_with_devices(seed: int) -> bool:
    """Whether a device's rows meet no other device's on their way."""
    made = case(seed, rows=120)
    by_device = "device" in KEYS[seed % len(KEYS)] and "device" in made.stream.schema
    return by_device and "key_by_computed" not in made.verbs


@pytest.mark.parametrize("seed", [seed for seed in range(60) if stays_with_devices(seed)])
def test_it_goes_on_as_if_it_had_never_met_the_other_keys(seed: int) -> None:
    made = case(seed, rows=120)
    plan = plan_of(made.stream)
    fragment = whole_fragment(plan)
    inputs = {name: as_columns(plan, name, columns) for name, columns in made.inputs.items()}
    everyone, alone = Pipeline(fragment), Pipeline(fragment)
    pushed(everyone, inputs, 0)
    before = len(everyone.snapshot())
    everyone.retain(("device",), mine)
    assert everyone.distinct_keys(("device",)) in ([], [(KEPT,)])
    assert len(everyone.snapshot()) <= before
    again = Pipeline(fragment)
    again.restore(everyone.snapshot())  # what was retained is a whole state of its own
    only = {
        name: {column: values[given["device"] == KEPT] for column, values in given.items()}
        for name, given in inputs.items()
    }
    pushed_alone = pushed_like(alone, inputs, only)
    assert of_kept(pushed(again, inputs, 1)) == of_kept(pushed_alone)


def pushed_like(
    pipeline: Pipeline, inputs: Mapping[str, Mapping[str, np.ndarray]], only: Mapping[str, Mapping[str, np.ndarray]]
) -> list[tuple[str, Batch]]:
    """The second half's answers of a pipeline that got the kept device's rows alone, with everyone's frontiers."""
    found: list[tuple[str, Batch]] = []
    for half in (0, 1):
        found = []
        for entry in pipeline.fragment.inputs:
            if entry.name not in inputs:
                continue
            middle = len(inputs[entry.name]["time"]) // 2
            own = inputs[entry.name]["device"] == KEPT
            first = int(np.count_nonzero(own[:middle]))
            part = slice(0, first) if half == 0 else slice(first, None)
            piece = {name: column[part] for name, column in only[entry.name].items()}
            numbers = np.flatnonzero(own)[part]
            lo = int(numbers[0]) if len(numbers) else 0
            found += pipeline.push(entry.name, Batch.of(entry.schema, piece, piece["time"], lo=lo))
            if half == 0:
                times = inputs[entry.name]["time"][middle:]
                found += pipeline.advance(entry.name, int(times.min()) if len(times) else END_OF_TIME)
    for entry in pipeline.fragment.inputs:
        found += pipeline.advance(entry.name, END_OF_TIME)
    return found
