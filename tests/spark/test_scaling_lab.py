"""The lab of points per worker: processor time is that of Spark's Python workers, and of nobody else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from resurge.lab import _figure, sonora_scaling

pytestmark = pytest.mark.spark


@pytest.mark.covers("SO-37")
def test_points_are_counted_over_the_processor_time_of_workers(
    spark: Any, runner: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_figure, "FIGURES", None)
    monkeypatch.setattr(sonora_scaling, "open_session", lambda *_: spark)
    monkeypatch.setattr(sonora_scaling, "SparkRunner", lambda *_: runner)  # the session's workers have its code already
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(sonora_scaling, "WARM", 1)
    monkeypatch.setattr(sonora_scaling, "EPOCHS", 2)
    report = sonora_scaling.run(rows=4_000, workers=(1, 2))
    json.dumps(report)
    assert [shape["name"] for shape in report["shapes"][:1] if not shape["holds"]] == []
    assert set(report["points_per_second"]) == set(report["efficiency"]) == {1, 2}
    used, own = sonora_scaling.worker_seconds(), time.process_time()
    assert used > 0
    while time.process_time() - own < 0.1:  # work of this process is not theirs
        pass
    assert sonora_scaling.worker_seconds() - used < 0.05
