"""The two stages of Sonora's recovery experiment, scaled down: 9 physical vertices feed 23, all to all.

Bytes are what tasks really read: state files and slices of recorded outputs. They do not depend on where tasks run, so
these experiments run them in this process, one after the other; times are of its processor.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import resurge as rs
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.control.schedule import parse_physical
from cloud_backend.spark.manifest.lineage import Physical
from cloud_backend.spark.rollback.roll_back import RolledBack, roll_back
from cloud_backend.spark.slots import Range
from cloud_backend.spark.task import state
from resurge import col
from resurge.bench._spark_world import KINDS, World
from shared.plan.graph import Plan
from shared.recovery.rollback import Rule

FIRST, SECOND = "by device", "users"
RANGES = {FIRST: 9, SECOND: 23}


ROWS, USERS = 20_000, 2_000  # rows of an epoch, and users they are about
KEPT = 0.1  # share of rows the first stage lets through


def parameters(epochs: int, **more: object) -> dict[str, object]:
    """What the numbers depend on, and why it was chosen so; part of every report."""
    return {
        "epochs": epochs,
        "rows_an_epoch": ROWS,
        "users": USERS,
        "ranges": RANGES,
        "share_kept_by_first_stage": KEPT,
        "whole_snapshot_every_epoch": True,
        **more,
        "why": "9 and 23 vertices are the paper's. The share the first stage keeps is our choice: the first runs kept "
        "0.9 of the rows, and 0.1 was chosen after seeing them, so that raw input outweighs processed input. What "
        "partial rollback saves depends on this share; sonora-rollback reports several.",
    }


def two_stages(kept: float = KEPT) -> Plan:
    """The first stage filters, so that raw input outweighs processed as in the paper; the second keeps a day's sums per
    user."""
    up = rs.sensor("points", every="1s", columns=KINDS).sync("points", batch=5000)
    users = up.where(col.x > 1.0 - kept).key_by("user").tumbling("24h").aggregate(n=rs.count(), total=rs.sum("x"))
    return rs.plan_of(users.subscribe(SECOND), name="sonora")


@dataclass(frozen=True)
class Recovery:
    rolled_back: RolledBack
    bytes_read: int
    state_bytes: int  # of `bytes_read`, the snapshots
    failed_s: float  # of processor time, until the vertex that failed is where it was (the paper's R-time)
    seconds: float  # the same, until all that rolled back are (RC-time)
    epochs: int
    predicted: float  # bytes, by what was measured before the failure: |R| S + r lost_epochs


@contextmanager
def running(epochs: int, kept: float = KEPT) -> Iterator[tuple[World, JobManager]]:
    """A job that has committed so many epochs. As in the paper every checkpoint is whole (a chain of one base)."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        world = World(Path(directory), ROWS, users=USERS, plan=two_stages(kept))
        driver = world.driver(LocalRunner(), ranges_of=RANGES, chain_max=1)
        for _ in range(epochs):
            world.append(world.epoch_columns())
            driver.drain()
        yield world, driver


def fail_first_stage(driver: JobManager, lost_epochs: int, rule: Rule) -> Recovery:
    """One physical vertex of the first stage loses its last epochs; everything the rule asks for runs again."""
    failed: Range = min(driver.manifest.vertices[FIRST])
    position = driver.manifest.position(SECOND)
    terms = {
        (vertex, range_): lineage.term
        for vertex, lineages in driver.manifest.vertices.items()
        for range_, lineage in lineages.items()
    }
    state.forget_all()
    rolled_back = roll_back(driver.store.root, FIRST, position - lost_epochs, ranges=[failed], rule=rule)
    predicted = model(driver, map(parse_physical, rolled_back.plan.rollback), position - lost_epochs, lost_epochs)
    gc.collect()
    gc.disable()  # a look through all that was made so far takes as long as what is measured
    try:
        begun, failed_s = time.process_time(), 0.0
        while driver.step():
            if not failed_s and driver.manifest.vertices[FIRST][failed].position >= position:
                failed_s = time.process_time() - begun
        took = time.process_time() - begun
    finally:
        gc.enable()
    again = [
        committed
        for (vertex, range_), term in terms.items()
        for committed in driver.manifest.vertices[vertex][range_].commits.values()
        if committed.term > term and committed.epoch > position - lost_epochs
    ]
    replayed, restored = (sum(getattr(each, name) for each in again) for name in ("bytes_read", "state_bytes_read"))
    return Recovery(rolled_back, replayed + restored, restored, failed_s, took, len(again), predicted)


def model(driver: JobManager, rollback: Iterable[Physical], to: int, lost_epochs: int) -> float:
    """The paper's |R| S + r T: what these vertices should read to recover. S is the size of the snapshots before the
    ones they go back to, r what an epoch read on average up to there. Nothing of the epochs that run again is in it."""
    lineages = [driver.manifest.lineage(physical) for physical in rollback]
    sizes = [lineage.commits[to - 1].state_bytes for lineage in lineages]
    rates = [statistics.mean(lineage.commits[epoch].bytes_read for epoch in range(1, to + 1)) for lineage in lineages]
    return sum(sizes) + lost_epochs * sum(rates)
