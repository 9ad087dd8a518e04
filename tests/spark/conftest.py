"""One Spark session for the whole run: starting a JVM costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_backend.spark.session import SparkRunner, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    session = open_session("local[2]", name="resurge-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def runner(spark: object, tmp_path_factory: pytest.TempPathFactory) -> SparkRunner:
    """Our code shipped to the session's workers, the test operators included."""
    return SparkRunner(spark, Path(tmp_path_factory.mktemp("code")), ["tests.spark.operators"])  # type: ignore[arg-type]
