"""The tasks that Spark runs, in this process: vertices, hash ranges, epochs and state files, and the same bits."""

from __future__ import annotations

import pytest

from cloud_backend.spark.evaluate import evaluate as evaluate_by_tasks
from cloud_backend.spark.session import LocalRunner
from resurge.evaluate import as_columns, evaluate, plan_of
from shared.batch import END_OF_TIME
from tests.conformance.programs import case
from tests.conformance.running import bits


@pytest.mark.covers("SO-14", "SO-7")
@pytest.mark.parametrize("seed", range(60))
def test_tasks_give_the_rows_of_the_numpy_engine(seed: int) -> None:
    made = case(seed, rows=150)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    plan = plan_of(made.stream)
    given = {name: as_columns(plan, name, columns) for name, columns in made.inputs.items()}
    found = evaluate_by_tasks(plan, given, frontier_us=END_OF_TIME, runner=LocalRunner())
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, expected))
