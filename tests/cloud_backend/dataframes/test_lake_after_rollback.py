"""A table of a lake of a job that is rolled back and taken forward again: it says what the results say, wherever whoever
writes it dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cloud_backend.dataframes.lake import keep_up
from cloud_backend.results.rows import encode_key
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from tests.claims import Claim
from tests.cloud_backend.dataframes.lakes import LAKES, lake_table, rows_of
from tests.spark.worlds import World, cells_plan


class Killed(BaseException):
    pass


class Writer:
    """Brings the table level, and dies at every second step: in turn before its commit, and after it and before it
    could remember anything."""

    def __init__(self, world: World, lake: str, directory: Path, step: int) -> None:
        self._world, self._lake, self._directory, self._step = world, lake, directory, step
        self._calls = self.kills = 0

    def level(self) -> str:
        while True:
            table = lake_table(self._lake, self._directory, "cells")
            self._merge = table.merge
            table.merge = self._dying  # type: ignore[method-assign]
            try:
                for _ in keep_up(self._world.results, "cells", table, ["cell"], step=self._step):
                    pass
            except Killed:
                self.kills += 1
                continue
            return self._compared()

    def _dying(self, *arguments: Any) -> None:
        self._calls += 1
        if self._calls % 4 == 1:
            raise Killed
        self._merge(*arguments)
        if self._calls % 4 == 3:
            raise Killed

    def _compared(self) -> str:
        """What the table says, once it was seen to be what the results say."""
        found = sorted(
            (row["_key"], row["_window_end"].timestamp() * 1e6, row["devices"], row["total"].hex())
            for row in rows_of(self._lake, self._directory, "cells")
        )
        assert found == sorted(
            (encode_key(row.key), row.window_end_us, row.values["devices"], float(row.values["total"]).hex())
            for row in self._world.results.current()
            if row.sink == "cells"
        )
        return repr(found)


@pytest.mark.parametrize(
    ("epochs", "step", "kills"), [(4, 7, 4), pytest.param(16, 3, 60, marks=pytest.mark.soak)], ids=["few", "many"]
)
@pytest.mark.parametrize("lake", LAKES)
def test_a_table_equals_the_results_after_a_rollback_and_its_undo(
    tmp_path: Path, lake: str, epochs: int, step: int, kills: int, claim: Claim
) -> None:
    world = World(tmp_path, cells_plan())
    writer = Writer(world, lake, tmp_path / "table", step)
    driver = world.started(epochs)
    before = writer.level()
    done = roll_back(world.store_dir, "mine", 1, fixed=cells_plan(factor=7.0))
    driver.drain()
    wrong = writer.level()
    assert wrong != before  # the other program says something else
    assert done.entry is not None
    undo(world.store_dir, done.entry)
    driver.drain()
    assert writer.level() == before
    rows, digest = world.check(least_rows=20)
    assert writer.kills >= kills
    claim(f"{lake}: {writer.kills} kills, 1 rollback, 1 undo, {rows} rows, digest {digest}")
