"""A Delta table of a job that is rolled back and taken forward again: it says what the results say, wherever whoever
writes it dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cloud_backend.dataframes import delta
from cloud_backend.results.rows import encode_key
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan

STEP = 7  # answers in one transaction


class Killed(BaseException):
    pass


class Writer:
    """Brings the table level, and dies at every second step: in turn before its transaction, and after it and before it
    could remember anything."""

    def __init__(self, world: World, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world, self._table = world, table
        self._merge, self._calls, self.kills = delta._merge, 0, 0
        monkeypatch.setattr(delta, "_merge", self._dying)

    def level(self) -> str:
        while True:
            try:
                for _ in delta.keep_up(self._world.results, "cells", self._table, ["cell"], step=STEP):
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
            for row in DeltaTable(self._table).to_pyarrow_table().to_pylist()
        )
        assert found == sorted(
            (encode_key(row.key), row.window_end_us, row.values["devices"], float(row.values["total"]).hex())
            for row in self._world.results.current()
            if row.sink == "cells"
        )
        return repr(found)


def test_a_table_equals_the_results_after_a_rollback_and_its_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    world = World(tmp_path, cells_plan())
    writer = Writer(world, str(tmp_path / "table"), monkeypatch)
    driver = world.started(4)
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
    assert writer.kills >= 4
    claim(f"{writer.kills} kills, 1 rollback, 1 undo, {rows} rows, digest {digest}")
