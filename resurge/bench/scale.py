"""`resurge bench scale`: what a fleet costs that has outgrown one machine's defaults.

Devices that are enrolled and silent, publishing, the log in Kafka against a bare producer, whole pipelines from Kafka
against Structured Streaming and its Kafka connector, the data source against Parquet, two gateways against one.
Brokers, connector and PostgreSQL are fetched or found; a part whose servers are not to be had is in `not_reachable` and
has failed. Each part says on standard error when it begins and how long it took: all of it takes a quarter of an hour
on two cores that do nothing else, and three times that on busy ones.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from resurge.bench import _kafka_streaming
from resurge.bench._brokers import Cluster
from resurge.bench._downloads import NotReachable
from resurge.bench._postgres import PostgresServer
from resurge.bench._rounds import versions
from resurge.bench._scale_devices import checks_of_devices
from resurge.bench._scale_gateways import measure_gateways
from resurge.bench._scale_kafka import checks_of_kafka
from resurge.bench._scale_publish import checks_of_publishing
from resurge.bench._scale_spark import check_of_epochs, measure_source
from resurge.bench._structured_streaming import StructuredStreaming

Checks = list[dict[str, Any]]
PARTS = 5


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 2 if quick else rounds
    figures: dict[str, Any] = {}
    checks: Checks = []
    missing: list[str] = []

    seconds: dict[str, float] = {}
    loads: dict[str, list[float]] = {}  # of the last minute, before and after

    def part(name: str, measure: Callable[[], Checks]) -> None:
        say(f"{name}: begins, part {len(seconds) + 1} of {PARTS}")
        begun, load = time.monotonic(), os.getloadavg()[0]
        try:
            checks.extend(measure())
        except NotReachable as error:
            missing.append(f"{name}: {error}")
            checks.append({"name": name, "value": "not reachable", "goal": "measured", "ok": False})
        seconds[name] = round(time.monotonic() - begun, 1)
        say(f"{name}: took {seconds[name]:.0f} s")
        loads[name] = [round(load, 1), round(os.getloadavg()[0], 1)]

    given: dict[str, Any] = {"quick": quick, "rounds": rounds, "figures": figures}
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-")))
        part("devices", partial(checks_of_devices, root / "devices", **given))
        part("publishing", partial(checks_of_publishing, root / "publishing", **given))
        brokers = _Brokers(stack, root / "brokers")
        part("Kafka", lambda: checks_of_kafka(brokers.cluster(), **given))
        part("two gateways", lambda: _gateways(stack, root / "gateways", brokers, given))
        part("Spark", lambda: _spark(root / "spark", brokers, missing, given))
    return {
        "bench": "scale", "checks": checks, "figures": figures, "rounds": rounds, "not_reachable": missing,
        "seconds": seconds, "load": loads,
        "versions": versions("confluent-kafka", "pyspark", "numpy", "pyarrow"),
    }  # fmt: skip


class _Brokers:
    """Three of them, started when the first part asks."""

    def __init__(self, stack: ExitStack, root: Path) -> None:
        self._stack, self._root = stack, root
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._stack.enter_context(Cluster(self._root))
        return self._cluster


def _gateways(stack: ExitStack, root: Path, brokers: _Brokers, given: dict[str, Any]) -> Checks:
    cluster, postgres = brokers.cluster(), PostgresServer()
    stack.callback(postgres.remove)
    postgres.start()
    measure_gateways(root, cluster, postgres, **given)
    return []


def _spark(root: Path, brokers: _Brokers, missing: list[str], given: dict[str, Any]) -> Checks:
    from cloud_backend.spark.cluster.session import SparkRunner, open_session

    quick, rounds, figures = given["quick"], given["rounds"], given["figures"]
    unreachable: NotReachable | None = None
    try:
        settings = _kafka_streaming.settings()
        cluster = brokers.cluster()
    except NotReachable as error:  # what needs no download is measured all the same
        settings, unreachable = StructuredStreaming.SETTINGS, error
    session = open_session("local[2]", settings=settings)
    try:
        measure_source(root / "source", session, 2_000 if quick else 200_000, rounds, figures)
        checks: Checks = []
        if unreachable is not None:
            missing.append(f"from Kafka to results: {unreachable}")
            checks.append({"name": "from Kafka to results", "value": "not reachable", "goal": "measured", "ok": False})
            return checks
        runner = SparkRunner(session, root / "code")
        for rows, goal in [(2_000, 1.5)] if quick else [(10_000, 1.5), (200_000, 2.0)]:
            say(f"Spark: epochs of {rows} rows from Kafka")
            checks.append(check_of_epochs(root / str(rows), cluster, session, runner, rows, rounds, goal, figures))
        return checks
    finally:
        session.stop()
