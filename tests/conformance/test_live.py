"""The same random programs in a `Live` program: rows come one by one as time goes, and the answers are those of `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from resurge.evaluate import evaluate
from tests.conformance.programs import Case, case
from tests.conformance.running import bits

SEEDS = 40
MORE = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(SEEDS, 60)]


def in_time(made: Case) -> dict[str, dict[str, np.ndarray]]:
    """Each input's rows of one device, in order of time: in a live program no earlier row may follow."""
    found = {}
    for name, columns in made.inputs.items():
        order = np.argsort(columns["time"], kind="stable")
        found[name] = {column: values[order] for column, values in columns.items() if column != "device"}
    return found


@pytest.mark.parametrize("seed", [*range(SEEDS), *MORE])
def test_rows_one_by_one_give_the_rows_of_evaluate(seed: int) -> None:
    made = case(seed, rows=60, device_only=True)
    inputs = in_time(made)
    devices = {name: {**columns, "device": ["local"] * len(columns["time"])} for name, columns in inputs.items()}
    expected = evaluate(made.stream, devices)["out"]
    got: dict[str, list[np.ndarray]] = {name: [values[:0]] for name, values in expected.items()}

    def take(columns):  # type: ignore[no-untyped-def]
        for name, values in columns.items():
            got[name].append(values.copy())

    live = rs.Live(made.stream.subscribe(take, name="out"))
    listed = {name: {column: values.tolist() for column, values in columns.items()} for name, columns in inputs.items()}
    turns = [(time, name, row) for name, columns in listed.items() for row, time in enumerate(columns["time"])]
    for _, name, row in sorted(turns):
        live.append(name, **{column: values[row] for column, values in listed[name].items()})
    live.close()
    assert bits({name: np.concatenate(pieces) for name, pieces in got.items()}) == bits(expected)


def test_the_programs_that_run_here_use_the_verbs_about_time() -> None:
    used = set().union(*(case(seed, rows=60, device_only=True).verbs for seed in range(SEEDS)))
    assert used >= {
        "distinct_within",
        "state_expire",
        "followed_by",
        "absent",
        "calendar",
        "session",
        "join",
        "previous",
    }
