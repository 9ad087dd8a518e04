"""What comes down to a phone and changes what goes up: a gateway and a node as processes, and a job over the log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.balance import Overload
from cloud_backend.spark.control.driver import JobManager, JobSettings
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.stream.program import load_program
from tests.patience import wait_until
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import EVERY_US, NodeHome, log_rows

pytestmark = pytest.mark.processes

# What comes back stands in the spool again, as readings do, and goes up as a stream of its own.
PROGRAM = """
import resurge as rs
from resurge import col

up = rs.sensor("gps", every="1s").sync("raw", batch=20, within="20s")
pace = up.key_by("device").tumbling("60s").aggregate(fixes=rs.count(), top=rs.max("speed"))
back = pace.sync_back("pace", commit="stable")
back.where(col.fixes > 0).sync("heard", batch=1, within="1s")
"""
KILLS = 2
HEARD = 6


class World:
    """A job in this process over the log of a gateway, which follows what the job says."""

    def __init__(self, root: Path, gateway: GatewayProcess, plan: Plan, overload: Overload) -> None:
        self.gateway = gateway
        (self.heard_names,) = [sorted(edge.schema.names) for edge in plan.edges if edge.name == "heard"]
        self.phone = NodeHome(root / "phone", gateway, seed=7)
        self.job = JobManager(
            gateway.home / "log", root / "store", plan, results=Results(root / "results.sqlite"), runner=LocalRunner(),
            settings=JobSettings(epoch_s=0.0, balance=False, overload=overload),
        )  # fmt: skip

    def times(self) -> list[int]:
        return [time_us for _, time_us, _ in log_rows(self.gateway.home / "log", self.phone.device, "raw")]

    def heard(self) -> list[tuple[float, ...]]:
        """Window, number and top of each result that came up again."""
        found = log_rows(self.gateway.home / "log", self.phone.device, "heard")
        rows = [dict(zip(self.heard_names, values, strict=True)) for _, _, values in found]
        return [(row["window_start"], row["fixes"], row["top"]) for row in rows]


@contextmanager
def world(root: Path, overload: Overload) -> Iterator[World]:
    program, file = root / "program.py", root / "plan.bin"
    program.write_text(PROGRAM)
    plan = load_program(program)
    file.write_bytes(encode_plan(plan))
    options = ("--plan", str(file), "--results", str(root / "results.sqlite"))
    with GatewayProcess(root / "gateway", *options, "--hints", str(root / "store" / "hints.json")) as gateway:
        found = World(root, gateway, plan, overload)
        try:
            yield found
        finally:
            if found.phone.running is not None:
                found.phone.running.end()


@pytest.mark.covers("SO-35")
def test_a_phone_reads_less_often_while_the_job_is_behind(tmp_path: Path, claim):
    """The job looks once, and then works off nothing."""
    with world(tmp_path, Overload(backlog_bytes_max=4000)) as found:
        found.phone.start()
        wait_until(lambda: len(found.times()) > 400, "a backlog in the log")
        (before,) = {after - at for at, after in itertools.pairwise(found.times())}
        while found.job.status()["sampling_rate"] == 1.0:
            found.job.step()

        def slower() -> list[int]:
            gaps = [after - at for at, after in itertools.pairwise(found.times())]
            return gaps[-20:] if min(gaps[-20:]) > EVERY_US else []

        gaps = wait_until(slower, "readings that are further apart")
        found.job.drain()
        asked = found.job.status()["sampling_rate"]
    assert before == EVERY_US
    assert asked == 1.0
    claim(f"a reading every {before / 1e6:g} s, then every {min(gaps) / 1e6:g} s")


@pytest.mark.covers("SO-15")
def test_results_are_readings_of_the_phone_again_each_once_whoever_is_killed(tmp_path: Path, claim):
    with world(tmp_path, Overload()) as found:
        found.phone.start()
        for killed in range(KILLS + 1):
            wanted = (killed + 1) * HEARD // (KILLS + 1)
            wait_until(lambda wanted=wanted: found.job.drain() or len(found.heard()) >= wanted, f"{wanted} came back")
            if killed < KILLS:
                found.phone.running.kill()
                found.gateway.kill()
                found.gateway.start()
                found.phone.start()
        found.phone.running.terminate()
        heard = found.heard()
        said = {
            (row.window_start_us, row.values["fixes"], row.values["top"])
            for row in Results(tmp_path / "results.sqlite").current()
        }
    assert len(heard) >= HEARD
    assert len(set(heard)) == len(heard), "a result came up twice"
    assert set(heard) <= said
    claim(f"{len(heard)} of {len(said)} results came up again, after {KILLS} kills of node and gateway")
