"""docs/dataframes.md, run from top to bottom on a home like the one that `resurge up` leaves."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resurge as rs
from cloud_backend.coordinator.roster import Roster
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from tests.cloud_backend.dataframes.test_stream_rows import Writer
from tests.docs.test_examples import examples
from tests.spark.slow_workers import until_its_worker_starts

pytestmark = pytest.mark.spark


def made_trial(home: Path) -> None:
    """Three phones that stood at one of two places, then drove off."""
    plan = rs.plan_of(
        rs.sensor("gps", every="1s").sync("gps", batch=20)
        .tumbling("10s").aggregate(km=rs.path_km("lat", "lon"), points=rs.count()).sync_back("my_trips"),
        name="trial",
    )  # fmt: skip
    (edge,) = plan.edges
    roster = Roster(home / "gateway" / "roster.sqlite")
    writer = Writer(home / "gateway")
    for number in range(3):
        key = bytes([number + 1]) * 32
        roster.enrol(roster.new_code(1), key, f"phone-{number}", 2)
        device = next(entry.device for entry in roster.entries() if entry.public_key == key)
        writer.declare(device, "gps", edge.schema)
        speed = np.where(np.arange(60) < 30, 0.1, 12.0)
        lat = 47.0 + number % 2 * 0.1 + np.cumsum(np.where(speed > 1, 1e-4, 0))
        values = {"lat": lat, "lon": np.full(60, 8.5), "speed": speed}
        writer.send(
            device, "gps", edge.schema, **{name: values.get(name, np.full(60, 5.0)) for name in edge.schema.names}
        )
    roster.close()
    results = Results(home / "results.sqlite")
    settings = JobSettings(epoch_s=0.0, balance=False)
    JobManager(writer.path, home / "spark", plan, results=results, runner=LocalRunner(), settings=settings).drain()
    results.close()


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark  # the page's own session is this one
    (tmp_path / "trial" / "gateway").mkdir(parents=True)
    made_trial(tmp_path / "trial")
    monkeypatch.chdir(tmp_path)
    for command in (
        ["results", "delta", "my_trips", "--to", "trips"],
        ["results", "iceberg", "my_trips", "--to", "lake"],
    ):
        subprocess.run([sys.executable, "-m", "resurge", *command, "--home", "trial/gateway"], check=True)
    names: dict[str, Any] = {"__name__": "page"}
    ran = 0
    for line, code, expected in examples("docs/dataframes.md"):
        # The session of all tests was started elsewhere, so places that are relative on the page are not in here.
        placed = re.sub(r'"(trial/|fixes)', rf'"{tmp_path}/\1', code)
        said = io.StringIO()
        run = compile(placed, f"docs/dataframes.md:{line}", "exec")
        with contextlib.redirect_stdout(said):
            until_its_worker_starts(partial(exec, run, names))
        ran += 1
        if expected is not None:
            assert said.getvalue() == expected, f"line {line}"
        if "a stop near" in code:
            assert said.getvalue().count("a stop near [47.") == 2
    assert ran == 9
