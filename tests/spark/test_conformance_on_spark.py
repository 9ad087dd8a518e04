"""Random programs give on Spark, bit for bit, the rows of the numpy engine. The seeds cover every verb; soak has more."""

from __future__ import annotations

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.evaluate import evaluate as evaluate_on_spark
from resurge.evaluate import as_columns, evaluate, plan_of
from shared.batch import END_OF_TIME
from tests.conformance.programs import case, covering
from tests.conformance.running import bits

SMALL = 120
SEEDS = sorted(covering(range(60), SMALL))
MORE = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(60) if seed not in SEEDS]


@pytest.fixture(scope="module")
def shipped(runner: SparkRunner) -> SparkRunner:
    return runner


@pytest.mark.spark
@pytest.mark.parametrize("seed", [*SEEDS, *MORE])
def test_spark_gives_the_rows_of_the_numpy_engine(seed: int, shipped: SparkRunner) -> None:
    made = case(seed, rows=SMALL)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    plan = plan_of(made.stream)
    given = {name: as_columns(plan, name, columns) for name, columns in made.inputs.items()}
    found = evaluate_on_spark(plan, given, frontier_us=END_OF_TIME, runner=shipped)
    assert sorted(map(repr, bits(found["out"]))) == sorted(map(repr, expected))


def test_the_seeds_on_spark_use_every_verb() -> None:
    used = set().union(*(case(seed, rows=SMALL).verbs for seed in SEEDS))
    assert used >= {
        "where", "extend", "significant", "significant_metres", "state", "state_config", "apply_rows", "union", "zip", "combine",
        "join", "with_latest", "sync", "key_by", "key_by_nothing", "tumbling", "hopping", "hopping_odd", "sliding", "session",
        "count", "count_hopping", "count_sliding", "aggregate", "apply_window", "machine", "ports", "map",
        "join_left", "join_on", "as_of", "as_of_left", "of_some", "first_of_some", "ratio", "previous", "text", "calendar",
    }  # fmt: skip
