"""The Spark session, and running tasks on it: one Spark job for a set of tasks, one Spark task for each.

Task i is partition i; its specification is the partition's only element and its outcome comes back as text. That is one
stage without a shuffle: rows are shuffled by the record files, not by Spark. It is an RDD and not a DataFrame because
there is nothing to plan: the same job through `mapInArrow` costs a third to a half more before any task runs
(docs/decisions/0012).
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloud_backend.spark.cluster import shipping
from cloud_backend.spark.cluster.faults import ClusterFault, fault_in
from cloud_backend.spark.storage.files import is_uri
from cloud_backend.spark.storage.hadoop import settings_of_session
from cloud_backend.spark.task.specification import (
    Outcome,
    Specification,
    outcomes_from_json,
    outcomes_to_json,
)
from shared.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_FAILURES_MAX = 4


def open_session(
    master: str = "local[*]", *, name: str = "resurge", settings: dict[str, str] | None = None
) -> SparkSession:
    """A session with what epoch jobs need: Arrow, reused workers, no UI, nothing adaptive."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    if master.startswith("local[") and "," not in master:
        master = f"{master[:-1]},{TASK_FAILURES_MAX}]"  # in local mode Spark retries no task unless the master says so
    builder = SparkSession.builder.master(master).appName(name)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",  # a coalesced partition would put two ranges into one task
        "spark.sql.shuffle.partitions": "2",
        "spark.python.worker.reuse": "true",
        # Else a worker started in a source tree would import that instead of the zip that was shipped to it.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.session.timeZone": "UTC",
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
        "spark.scheduler.mode": "FAIR",  # jobs share the executors; a long epoch of one must not hold up the others
    }
    for key, value in (defaults | (settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class SparkRunner:
    """Runs tasks on a session's executors with our code shipped to them."""

    def __init__(
        self, session: SparkSession, code_directory: Path, operator_modules: Sequence[str] = (), *, check: bool = True
    ) -> None:
        self.session = session
        self._modules = tuple(operator_modules)
        code_directory.mkdir(parents=True, exist_ok=True)
        archive, self.code = shipping.write_zip(code_directory, shipping.source_files(operator_modules))
        session.sparkContext.addPyFile(str(archive))
        if check:
            self._check_executors()

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        """The outcomes in the order of the specifications. Raises TimeoutError once `timeout_s` has passed."""
        if not specs:
            return []
        texts = [json.dumps(self._shipped(spec).to_json()) for spec in specs]
        return [outcomes_from_json(json.loads(text)) for text in self._one_task_each(texts, _run, timeout_s)]

    def _shipped(self, spec: Specification) -> Specification:
        """The specification with what a worker must know before it can open the store and the plan."""
        hadoop = settings_of_session() if is_uri(spec.store) else {}
        return replace(spec, modules=self._modules, hadoop=hadoop)

    def _one_task_each(
        self, elements: Sequence[str], answer: Callable[[str], str], timeout_s: float | None = None
    ) -> list[str]:
        tasks = self.session.sparkContext.parallelize(elements, len(elements))
        return self._within(tasks.map(answer).collect, timeout_s)

    def _within(self, collect: Callable[[], list[Any]], timeout_s: float | None) -> list[Any]:
        """What the job gives; cancelled, and TimeoutError, once the time has passed. ClusterFault where it is none of
        the tasks'."""
        if timeout_s is None:
            return collect()
        import threading

        context = self.session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
        tag = f"resurge-{uuid.uuid4().hex[:12]}"
        expired = threading.Event()

        idle = threading.Event()

        def cancel() -> None:
            expired.set()
            try:
                if not self._runs_something():
                    idle.set()
            finally:  # whatever became of the question, the job ends
                context.cancelJobsWithTag(tag)

        timer = threading.Timer(timeout_s, cancel)
        context.addJobTag(tag)
        timer.start()
        try:
            return collect()
        except Exception as error:
            if idle.is_set():
                raise ClusterFault(f"no executor took the tasks within {timeout_s:g} s") from error
            if not expired.is_set() and (fault := fault_in(str(error))) is not None:
                raise ClusterFault(fault) from error
            if expired.is_set():
                raise TimeoutError(f"a Spark job took more than {timeout_s:g} s and was cancelled") from error
            raise
        finally:
            timer.cancel()
            context.removeJobTag(tag)

    def _runs_something(self) -> bool:
        """Whether any task of the application runs anywhere."""
        tracker = self.session.sparkContext.statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(stage is not None and stage.numActiveTasks for stage in stages)

    def _check_executors(self) -> None:
        count = max(2, self.session.sparkContext.defaultParallelism)
        for text in self._one_task_each([json.dumps(self._modules)] * count, _report):
            report = json.loads(text)
            if report["code"] != self.code:
                raise UsageError(
                    f"executor on {report['host']} runs code {report['code']}, the driver {self.code}; "
                    "restart it so that it fetches the driver's zip",
                    code="spark-executor-code",
                )


# What runs in an executor's Python worker. Functions of this module travel by name: the worker takes them from the zip.


def _report(modules: str) -> str:
    """What an executor is: asked once, before it gets work. Fails by itself where numpy or pyarrow is missing."""
    import socket

    import numpy
    import pyarrow

    archive = next((part for part in Path(shipping.__file__).parents if part.suffix == ".zip"), None)
    code = (
        archive.stem.removeprefix("resurge-")
        if archive
        else shipping.code_hash(shipping.source_files(json.loads(modules)))
    )
    return json.dumps(
        {"host": socket.gethostname(), "code": code, "numpy": numpy.__version__, "pyarrow": pyarrow.__version__}
    )


def _run(text: str) -> str:
    from pyspark import TaskContext

    from cloud_backend.spark.task import task

    context = TaskContext.get()
    attempt = context.attemptNumber() if context else 0
    spec = Specification.from_json(json.loads(text) | {"attempt": attempt})
    return json.dumps(outcomes_to_json(task.run(spec)))


class LocalRunner:
    """Runs tasks one after the other in this process: the same tasks, without a JVM."""

    def __init__(self, code: str = "local") -> None:
        self.code = code

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:  # noqa: ARG002
        from cloud_backend.spark.task import task

        # Through JSON and back, because that is what a task gets on an executor.
        sent = [Specification.from_json(json.loads(json.dumps(spec.to_json()))) for spec in specs]
        return [outcomes_from_json(json.loads(json.dumps(outcomes_to_json(task.run(spec))))) for spec in sent]
