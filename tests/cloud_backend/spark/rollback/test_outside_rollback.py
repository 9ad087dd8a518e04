"""What is outside the rollback set does not notice a rollback: asserted on the manifest, which is all that counts."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from cloud_backend.spark.manifest.lineage import Physical
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from tests.spark.worlds import World, cells_plan

EPOCHS, FAILS_AFTER, LOST = 12, 7, 4
STEPS_PER_EPOCH = 4  # rounds of work between two cuts: an epoch through three vertices, and one to spare
DELAY_MAX = 2


def _commits(store: Path) -> dict[Physical, list[tuple[int, int]]]:
    """Per physical vertex, what it committed in the order of the manifest: (epoch, newest cut by then)."""
    found: dict[Physical, list[tuple[int, int]]] = defaultdict(list)
    newest = 0
    entries = Store(store)
    for number in entries.entry_numbers():
        entry = json.loads(entries.entry(number) or b"{}")
        if entry["kind"] == "cut":
            newest = entry["epoch"]
        elif entry["kind"] == "commit":
            for text, committed in entry["ranges"].items():
                found[entry["vertex"], Range.parse(text)].append((committed["epoch"], newest))
    return found


@pytest.mark.parametrize(
    ("vertex", "how"), [("mine", "state lost"), ("cells", "rolled back by hand"), ("everything", "state lost")]
)
@pytest.mark.covers("SO-30")
def test_ranges_outside_the_rollback_set_run_every_epoch_once_and_at_most_two_late(
    tmp_path: Path, vertex: str, how: str
) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.driver()
    for epoch in range(1, EPOCHS + 1):
        world.append(20)
        for _ in range(STEPS_PER_EPOCH):  # the log grew once, so only the first of them cuts
            driver.step()
        if epoch == FAILS_AFTER:
            failed = min(driver.manifest.vertices[vertex])
            if how == "state lost":
                for lost in range(FAILS_AFTER - LOST + 1, FAILS_AFTER + 1):
                    (part,) = driver.manifest.vertices[vertex][failed].commits[lost].state
                    (driver.store.files / part.chain[-1]).unlink()
                state.forget_all()
            else:
                roll_back(driver.store.root, vertex, FAILS_AFTER - LOST, ranges=[failed])
    driver.drain()
    world.check(least_rows=50)

    undone = {physical for past in driver.manifest.rollbacks for physical in past.entry.rollback}
    assert (vertex, failed) in undone
    commits = _commits(world.store_dir)
    outside = commits.keys() - undone
    assert outside
    for physical in outside:
        assert [epoch for epoch, _ in commits[physical]] == list(range(1, EPOCHS + 1)), physical
        assert max(newest - epoch for epoch, newest in commits[physical]) <= DELAY_MAX, physical
    again = [epoch for epoch, _ in commits[vertex, failed]]
    assert len(again) == EPOCHS + LOST
