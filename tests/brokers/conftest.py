"""One cluster of three brokers for all tests here: each test has topics of its own. One that kills a broker starts it
again before it ends; the fixture makes sure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner, open_session
from tests.brokers.cluster import Cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("brokers")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    """Real Spark workers, for all tests here that want some."""
    session = open_session("local[2]", name="resurge-brokers")
    yield SparkRunner(session, Path(tmp_path_factory.mktemp("code")), ["tests.spark.operators"])
    session.stop()


@pytest.fixture
def cluster(three_brokers: Cluster) -> Iterator[Cluster]:
    yield three_brokers
    three_brokers.start_all()


@pytest.fixture
def location(cluster: Cluster) -> Callable[..., str]:
    """Names a new log of so many partitions."""

    def name(partitions: int = 4) -> str:
        return f"kafka://{cluster.address}/test-{next(_numbers)}?partitions={partitions}"

    return name
