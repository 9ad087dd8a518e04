"""One Spark session for the whole run: starting a JVM costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    session = open_session("local[2]", name="resurge-tests")
    yield session
    session.stop()


# Workers are reused and import a package once: all operator modules of the tests must be in one zip.
OPERATOR_MODULES = ["tests.spark.operators", "tests.spark.frame_operators", "tests.conformance.programs"]


@pytest.fixture(scope="session")
def runner(spark: object, tmp_path_factory: pytest.TempPathFactory) -> SparkRunner:
    """Our code shipped to the session's workers, the tests' operators included."""
    return SparkRunner(spark, Path(tmp_path_factory.mktemp("code")), OPERATOR_MODULES)  # type: ignore[arg-type]
