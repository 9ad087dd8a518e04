"""`resurge bench scale` on small inputs: every part runs against its peer, and the report has its form."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.processes.gateway_process import ROOT

pytestmark = [pytest.mark.brokers, pytest.mark.soak]


def test_every_part_is_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "resurge", "bench", "scale", "--quick", "--json"], cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=1200,
    )  # fmt: skip
    report = json.loads(done.stdout.splitlines()[-1])
    figures = report["figures"]
    assert report["not_reachable"] == []
    parts = ["devices", "publishing", "Kafka", "two gateways", "Spark"]
    assert [*report["seconds"]] == [*report["load"]] == parts
    assert [f"{name}: begins, part {number} of 5" in done.stderr for number, name in enumerate(parts, 1)] == [True] * 5
    assert figures["devices"]["active"] == 100
    assert set(figures["devices"]["roll_ms"]) == set(figures["devices"]["epoch_ms"]) == {"100", "400", "1600"}
    assert figures["publishing"]["us_per_row"]["set"] < figures["publishing"]["us_per_row"]["row by row"]
    assert figures["publishing"]["us_per_row"]["bare"] < figures["publishing"]["us_per_row"]["set"]
    assert sum(name.startswith("Kafka, ") for name in figures) == 3
    assert sum("context" in check for check in report["checks"]) == 3  # publishing, and Kafka in several partitions
    assert figures["from Kafka, epochs of 2000 rows"]["results_compared"] > 100
    assert figures["data source"]["rows"] == 8000
    assert len(figures["reported"]) == 3
    assert min(figures["reported"].values()) > 0
    goals = {check["name"]: check["goal"] for check in report["checks"]}
    assert goals["from Kafka, epochs of 2000 rows, times Structured Streaming with its connector"] == ">= 1.5"
    assert all(figures[f"{count} gateways"]["1 KB"]["exchanges_per_s"] > 0 for count in (1, 2))
