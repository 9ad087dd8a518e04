"""The job's own process: killed, restarted, taken over by a standby. Each start is a JVM, so all of it is for soak."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from cloud_backend.spark.job import FENCED_EXIT
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.storage.store import Store
from shared.plan.encoding import encode_plan
from tests.claims import Claim
from tests.patience import PATIENCE_S, SPARK_PATIENCE_S, wait_until
from tests.postgres import PostgresServer
from tests.spark.worlds import World, cells_plan

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]


@contextmanager
def job(world: World, *options: str, master: str = "local[2]") -> Iterator[subprocess.Popen[str]]:
    (world.root / "plan").write_bytes(encode_plan(world.plan))
    command = [
        sys.executable, "-m", "cloud_backend.spark.job", "--log", str(world.log_dir), "--store", str(world.store_dir),
        "--plan", str(world.root / "plan"), "--results", str(world.root / "results.sqlite"), "--master", master,
        "--epoch-s", "0.2", "--no-balance", *options,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ready(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    said: dict[str, object] = json.loads(process.stdout.readline())
    assert said["ready"]
    return said


def await_epoch(world: World, epoch: int, vertex: str = "everything") -> None:
    def reached() -> bool:
        state = ManifestLog(Store(world.store_dir)).state
        return vertex in state.vertices and state.position(vertex) >= epoch

    wait_until(reached, f"epoch {epoch}", patience_s=SPARK_PATIENCE_S)


def last_cut(world: World) -> int:
    return ManifestLog(Store(world.store_dir)).state.last_cut


def test_three_kills_of_the_driver_change_nothing(tmp_path: Path, claim: Claim) -> None:
    world = World(tmp_path, cells_plan())
    for kill in range(3):
        world.append()
        with job(world) as process:
            ready(process)
            await_epoch(world, kill, "mine")  # somewhere in the middle of things
            os.killpg(process.pid, signal.SIGKILL)
    world.append()
    with job(world, "--drain") as process:
        ready(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SPARK_PATIENCE_S) == 0
    rows, digest = world.check(least_rows=50)
    claim(f"3 kills, {rows} rows compared, digest {digest[:12]}")


def test_kills_of_the_driver_and_of_postgresql_change_nothing(tmp_path: Path, claim: Claim) -> None:
    """A real job publishes to a real server: both are killed, the server while an epoch is being published or about to
    be. The job waits for the server, and one that is started again goes on."""
    server = PostgresServer()
    try:
        server.start()
        world = World(tmp_path, cells_plan())
        world.results.close()
        world.results = Results(server.url(), patience_s=PATIENCE_S)
        published = ("--results", server.url())
        driver_kills = server_kills = 0
        for _ in range(2):
            world.append()
            with job(world, *published) as process:
                ready(process)
                for _ in range(3):
                    cut = last_cut(world)
                    world.append()
                    await_epoch(world, cut + 1)
                    server.kill()
                    server_kills += 1
                    server.start()
                    assert process.poll() is None, "the job did not wait for its server"
                cut = last_cut(world)
                world.append()
                await_epoch(world, cut + 1, "mine")
                os.killpg(process.pid, signal.SIGKILL)
                driver_kills += 1
        world.append()
        with job(world, "--drain", *published) as process:
            ready(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SPARK_PATIENCE_S) == 0
        rows, digest = world.check(least_rows=50)
        claim(
            f"{server_kills} kills of PostgreSQL, {driver_kills} of the driver, {rows} rows compared, digest {digest}"
        )
    finally:
        server.remove()


def test_ctrl_c_finishes_the_round_and_stops(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    world.append()
    with job(world, "--drain") as process:
        ready(process)
        await_epoch(world, 1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everything that the job started gets it, too
        assert process.wait(SPARK_PATIENCE_S) == 0
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["stopped"]
    world.check(least_rows=10)


@pytest.mark.covers("SO-32", "T12")
def test_a_standby_takes_over_and_the_old_driver_is_fenced(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    world.append()
    with job(world) as first:
        ready(first)
        await_epoch(world, 1)
        os.kill(first.pid, signal.SIGSTOP)  # a long pause: its lease runs out
        world.append()
        with job(world, "--standby") as second:
            said = ready(second)
            assert said["term"] == 2
            await_epoch(world, 2)
            os.kill(first.pid, signal.SIGCONT)
            world.append()
            assert first.wait(SPARK_PATIENCE_S) == FENCED_EXIT
            await_epoch(world, 3)
            second.send_signal(signal.SIGTERM)
            assert second.wait(SPARK_PATIENCE_S) == 0
    world.check(least_rows=50)
