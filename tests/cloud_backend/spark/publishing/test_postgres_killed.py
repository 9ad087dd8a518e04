"""PostgreSQL killed while a job publishes into it, and started again: the results are those of a run without it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from tests.claims import Claim
from tests.patience import PATIENCE_S
from tests.postgres import PostgresServer
from tests.spark.worlds import World, cells_plan

AFTER = "after COMMIT"  # it is durable, and the job does not hear so
STEPS = (
    "INSERT INTO incoming", "SELECT a.sink", "INSERT INTO answers", "INSERT INTO downlinks", "INSERT INTO epochs",
    "COMMIT", AFTER,
)  # fmt: skip


class Killer:
    """Kills the server when a publication comes to a step, and starts it again beside it."""

    def __init__(self, server: PostgresServer, results: Results) -> None:
        self._server = server
        self._kept = results._database._kept
        self.wanted: str | None = None
        self.killed: list[str] = []
        self._starting: threading.Thread | None = None
        self._execute, self._commit = self._kept.execute, self._kept.commit
        self._executemany = self._kept.executemany
        self._kept.execute = self._step(self._execute)
        self._kept.executemany = self._step(self._executemany)
        self._kept.commit = self._at_commit

    def _step(self, work):
        def run(query: str, *arguments):
            if self.wanted is not None and query.startswith(self.wanted):
                self._kill()
            return work(query, *arguments)

        return run

    def _at_commit(self) -> None:
        if self.wanted == AFTER:
            self._commit()
        if self.wanted in ("COMMIT", AFTER):
            self._kill()
        self._commit()

    def _kill(self) -> None:
        assert self.wanted is not None
        self.killed.append(self.wanted)
        self.wanted = None
        self._server.kill()
        self._starting = threading.Thread(target=self._server.start)
        self._starting.start()

    def settle(self) -> None:
        if self._starting is not None:
            self._starting.join(PATIENCE_S)


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_results_are_each_there_once_whenever_the_server_is_killed(tmp_path: Path, rounds: int, claim: Claim) -> None:
    server = PostgresServer()
    try:
        server.start()
        world = World(tmp_path, cells_plan())
        world.results.close()
        world.results = Results(server.url(), patience_s=PATIENCE_S)
        killer = Killer(server, world.results)
        driver = world.started(1)
        for step in STEPS * rounds:
            killer.wanted = step
            world.append()
            driver.drain()
            killer.settle()
        rows, digest = world.check(least_rows=50)
        assert killer.killed == list(STEPS * rounds)
        assert server.starts == len(killer.killed) + 1
        plain = World(tmp_path / "plain", cells_plan())
        again = plain.started(1)
        for _ in killer.killed:
            plain.append()
            again.drain()
        assert world.results.digest() == plain.results.digest()
        for device in plain.ids:  # and each went down once
            told = [(seq, row.content()) for seq, row in world.results.downlink(device.hex(), 0, limit=100_000)]
            assert told == [(seq, row.content()) for seq, row in plain.results.downlink(device.hex(), 0, limit=100_000)]
            assert [seq for seq, _ in told] == list(range(1, len(told) + 1))
        claim(
            f"{len(killer.killed)} kills of PostgreSQL while publishing, {rows} rows compared, {digest} = {plain.results.digest()}"
        )
        world.results.close()
        plain.results.close()
    finally:
        server.remove()
