"""Whatever breaks, the results are those of a run in which nothing broke. Without a JVM; tests/spark does it on Spark."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cloud_backend.log.kafka.topics import Unreachable
from cloud_backend.spark.cluster.faults import ClusterFault, fault_in
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.control.schedule import ready_steps
from cloud_backend.spark.manifest.entries import Division, Rollback
from cloud_backend.spark.manifest.manifest import Manifest
from cloud_backend.spark.manifest.quarantine import quarantine
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.file_names import piece_in
from cloud_backend.spark.task import state, task
from resurge.cli import ledger
from resurge.up import account
from shared.errors import ResurgeError, UsageError
from shared.recovery.retention import Retention
from tests.claims import Claim
from tests.spark.schedules import Killed, Schedule, killed_at
from tests.spark.worlds import World, cells_plan, trips_plan


@pytest.mark.covers("SO-32")
def test_a_driver_killed_at_any_durable_call_is_resumed_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    points = rows = 0
    for call in range(0, 400):
        world = World(tmp_path / str(call), trips_plan(), devices=2)
        world.append(20, batches=1)
        driver = world.driver()
        with killed_at(monkeypatch, call) as died, contextlib.suppress(Killed):
            driver.drain()
        if not died:
            break
        points += 1
        state.forget_all()
        world.driver().drain()
        rows += world.check(least_rows=4)[0]
    claim(f"{points} points, {rows} rows compared")
    assert points >= 10


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 12))])
def test_random_schedules_without_a_jvm(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    claim(Schedule(tmp_path, seed, lambda _: LocalRunner(), monkeypatch, rounds=4).run())


class Cluster(LocalRunner):
    """A cluster that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        self.asked = 0

    def run(self, specs, *, timeout_s=None):  # type: ignore[no-untyped-def]
        self.asked += 1
        if self.fault:
            raise ClusterFault(self.fault)
        return super().run(specs, timeout_s=timeout_s)


def test_what_the_cluster_is_to_blame_for_is_tried_again_without_a_person(tmp_path: Path, claim: Claim) -> None:
    cluster = Cluster()
    world = World(tmp_path, cells_plan(), make_runner=lambda _: cluster)
    now = 1_700_000_000.0
    driver = world.driver(clock=lambda: now)
    world.append()
    driver.drain()
    cluster.fault = "no executor took the tasks within 120 s"
    waits = []
    world.append()
    asked = cluster.asked
    for _ in range(200):  # far more often than three times
        driver.step()
        now += 1.0
        waits.append(driver.failures.waiting())
    # One job each time, and not one for every range; the pause between two doubles up to a minute.
    refused = cluster.asked - asked
    assert 5 <= refused <= 9
    assert all("cluster: no executor took the tasks" in reason for reason in waits[0].values())
    assert driver.status()["parked"]
    cluster.fault = ""
    now += 60.0
    driver.drain()
    assert driver.failures.waiting() == {}
    rows, digest = world.check(least_rows=20)
    claim(f"{refused} jobs the cluster did not run, {rows} rows compared, digest {digest[:12]} as wanted")


@pytest.mark.parametrize("code", ["kafka-unreachable", "store-unreachable"])
def test_brokers_or_a_store_that_are_away_park_no_range_for_good(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    world = World(tmp_path, cells_plan())
    now = 1_700_000_000.0
    driver = world.driver(clock=lambda: now)
    world.append()
    driver.drain()
    world.append()
    tries: list[int] = []

    def away(_: object) -> None:
        tries.append(1)
        raise ResurgeError("partition 0 of 'walks.log' was not delivered for 60 s", code=code)

    with monkeypatch.context() as patched:
        patched.setattr(task, "_read", away)
        for _ in range(200):  # far more often than three times
            driver.step()
            now += 1.0
        assert all("cluster: partition 0" in reason for reason in driver.failures.waiting().values())
        assert driver.status()["parked"]
    now += 60.0
    driver.drain()
    assert driver.failures.waiting() == {}
    rows, digest = world.check(least_rows=20)
    claim(f"{len(tries)} tasks that read nothing, {rows} rows compared, digest {digest[:12]} as wanted")


@pytest.mark.parametrize("asked", ["ends", "size", "bounded", "read"])
def test_brokers_that_are_away_whenever_the_next_epoch_is_cut_do_not_end_the_job(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(1)
    world.append()
    before = driver.manifest.last_cut

    def away(*_: object) -> None:
        raise Unreachable("a partition has no leader", code="kafka-unreachable")

    with monkeypatch.context() as patched:
        patched.setattr(driver._reader, asked, away)
        assert not driver.step()
    assert driver.manifest.last_cut == before
    driver.drain()
    assert driver.manifest.last_cut == before + 1
    world.check(least_rows=20)


def test_a_task_that_hangs_is_not_the_clusters_fault() -> None:
    assert fault_in("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)") is not None
    assert fault_in("Job aborted: Master removed our application: FAILED") is not None
    assert fault_in("a Spark job took more than 120 s and was cancelled") is None
    assert fault_in("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)") is None


def lose_state(world: World, driver: JobManager, vertex: str, *, damage: str = "lost") -> Range:
    """The first range of a vertex finds its state of epoch 3 gone, as the next epoch comes; which range that is."""
    lineages = driver.manifest.vertices[vertex]
    broken = min(lineages)
    (part,) = lineages[broken].commits[3].state
    path = driver.store.files / part.chain[-1]
    path.unlink() if damage == "lost" else path.write_bytes(b"?" * path.stat().st_size)
    state.forget_all()
    world.append()
    driver.drain()
    return broken


@pytest.mark.parametrize("damage", ["lost", "damaged"])
@pytest.mark.covers("SO-28", "SO-30")
def test_a_broken_state_file_rolls_back_exactly_its_range(tmp_path: Path, damage: str) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(3)
    broken = lose_state(world, driver, "cells", damage=damage)
    (past,) = driver.manifest.rollbacks
    assert past.entry.rollback == (("cells", broken),)
    assert past.entry.predicted == (f"cells {broken}",)  # an all-deterministic plan rolls back exactly what failed
    assert driver.events.cascades == 0
    world.check(least_rows=50)


@pytest.mark.parametrize("how", ["split", "merged", "split twice"])
def test_a_state_file_lost_before_new_ranges_wrote_their_own_is_made_again_by_the_old_ones(
    tmp_path: Path, how: str
) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.driver()
    for _ in range(4):
        world.append()
        driver.drain()
    first, second = sorted(driver.manifest.ranges_at("cells", 5))
    if how == "merged":
        _divide(driver, [first, second], [Range(first.lo, second.hi, 5)])
        world.append()
        driver.drain()  # the merged range's state is the old ranges' files and a delta each
    else:
        _divide(driver, [first], [replace(half, since=5) for half in first.halves()])
    if how == "split twice":
        half = min(driver.manifest.ranges_at("cells", 5))
        _divide(driver, [half], [replace(quarter, since=5) for quarter in half.halves()])
    for epoch in (3, 4):
        (part,) = driver.manifest.vertices["cells"][first].commits[epoch].state
        (driver.store.files / part.chain[-1]).unlink(missing_ok=True)
    state.forget_all()
    world.append()
    driver.drain()
    assert ("cells", first) in driver.manifest.rollbacks[-1].entry.rollback
    assert len(driver.manifest.rollbacks) <= 2
    assert driver.manifest.position("everything") == driver.manifest.last_cut
    world.check(least_rows=50)


@pytest.mark.parametrize("corrected", [True, False])
def test_what_ran_under_other_operators_is_expected_to_change_its_readers(tmp_path: Path, corrected: bool) -> None:
    """The plan that each commit ran is recorded: one that only has another name changes nothing."""
    world = World(tmp_path, cells_plan())
    driver = world.started(3)
    fixed = cells_plan(factor=7.0) if corrected else replace(cells_plan(), name="renamed")
    roll_back(world.store_dir, "mine", 2, fixed=fixed)
    driver.drain()
    broken = lose_state(world, driver, "mine")
    mended = driver.manifest.rollbacks[-1].entry
    assert mended.rollback == (("mine", broken),)
    assert (set(mended.predicted) > {f"mine {broken}"}) == corrected


def test_an_asked_rollback_gives_up_nothing_whole_for_a_snapshot_that_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(), settings=replace(_forgetful(), chain_max=3))
    driver = world.driver()
    for _ in range(8):
        world.append()
        driver.drain()
    lineage = driver.manifest.vertices["mine"][min(driver.manifest.vertices["mine"])]
    assert min(driver.manifest.cuts) > 1  # no start from nothing
    oldest = min(lineage.commits)
    (part,) = lineage.commits[oldest].state
    (driver.store.files / part.chain[0]).unlink()
    standing = [epoch for epoch, each in lineage.commits.items() if part.chain[0] not in each.state_files()]
    whole = roll_back(driver.store.root, "mine", min(standing), dry_run=True)
    assert whole.plan.epoch == min(standing)
    with pytest.raises(UsageError, match="rollback-beyond-horizon"):
        roll_back(driver.store.root, "mine", min(standing) - 1)
    roll_back(driver.store.root, "mine", min(standing))
    driver.drain()
    assert not driver.failures.waiting()
    world.check(least_rows=50)


@pytest.mark.parametrize("place", [0, -1])
def test_a_lost_piece_of_a_base_is_survived_like_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(state, "PIECE_BYTES", 100)
    monkeypatch.setattr(state, "PIECES_MAX", 3)
    world = World(tmp_path, cells_plan(), settings=replace(_forgetful(), chain_max=3))
    driver = world.driver()
    rotations = set[str]()
    for _ in range(60):
        if len(rotations) == 2 and min(driver.manifest.cuts) > 1:
            break
        world.append()
        driver.drain()
        lineage = driver.manifest.vertices["mine"][min(driver.manifest.vertices["mine"])]
        (part,) = lineage.commits[lineage.position].state
        if piece_in(part.chain[0]) is not None:
            rotations.add(part.chain[0])
    assert min(driver.manifest.cuts) > 1  # no start from nothing
    (driver.store.files / part.chain[place]).unlink()
    state.forget_all()
    world.append()
    driver.drain()
    assert len(driver.manifest.rollbacks) == 1
    assert not driver.failures.waiting()
    world.check(least_rows=50)


def _divide(driver: JobManager, old: list[Range], new: list[Range]) -> None:
    assert driver._append(Division("cells", tuple(old), tuple(new), new[0].since))


def test_a_lost_record_runs_its_producer_again_and_nobody_else(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(2)
    world.append()
    driver.step()  # epoch 3 is cut and "mine" has run it; nobody has read its records yet
    committed = driver.manifest.vertices["mine"][min(driver.manifest.vertices["mine"])].commits[3]
    (record,) = [record for (_, reader), record in committed.outputs.items() if reader]
    (driver.store.files / record.file).unlink()
    driver.drain()
    (past,) = driver.manifest.rollbacks
    assert past.entry.rollback == (("mine", min(driver.manifest.vertices["mine"])),)
    assert past.entry.to == 2
    world.check(least_rows=50)


def test_a_poison_batch_is_quarantined_and_the_job_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(faults=tmp_path / "faults"))
    driver = world.driver()
    world.append()
    world.append(poison=2)
    world.append()
    driver.drain()
    (quarantined,) = driver.events.quarantined
    assert quarantined.device == world.ids[2].hex()
    assert (quarantined.lo, quarantined.hi) == (30, 45)
    assert quarantined.reason == "ValueError: cannot bear 666"
    assert driver.status()["quarantined_count"] == 1
    assert driver.manifest.position("everything") == driver.manifest.last_cut
    mine = [row for row in world.results.latest("mine") if row.key == (world.ids[2].hex(),)]
    # The batch held seconds 30 to 44: one window is gone, its neighbours are there.
    assert [row.window_start_us // 1_000_000 for row in mine] == [0, 10, 20, 40, 50, 60, 70, 80]


def test_a_quarantined_batch_is_in_the_ledger_and_still_counts_as_delivered(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(faults=tmp_path / "faults"), settings=_forgetful())
    driver = world.driver()
    world.append(poison=2)
    for _ in range(8):
        world.append()
        driver.drain()
    assert 1 not in driver.manifest.vertices["mine"][min(driver.manifest.vertices["mine"])].commits  # collected
    command = ["list", "--home", str(tmp_path), "--store", str(world.store_dir)]
    answer = CliRunner().invoke(ledger.app, [*command, "--json"])
    said = json.loads(answer.stdout.splitlines()[-1])
    assert (said["ledgered"], said["ranges"]) == (0, [])
    (entry,) = said["quarantined"]
    assert (entry["kind"], entry["vertex"], entry["device"]) == ("quarantined", "mine", world.ids[2].hex())
    assert (entry["incarnation"], entry["lo"], entry["hi"], entry["edge"]) == (1, 0, 15, "walk")
    assert account.count(world.log_dir, []).of_others == sum(world.next)
    shown = " ".join(CliRunner().invoke(ledger.app, command, env={"COLUMNS": "200"}).stdout.split())
    assert "quarantined by vertex mine after delivery: ValueError: cannot bear 666" in shown
    assert "15 elements in 1 batches were delivered and then quarantined by Spark" in shown


def test_a_corrected_operator_takes_a_quarantined_batch_back_in(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(faults=tmp_path / "faults"))
    driver = world.driver()
    world.append(poison=2)
    driver.drain()
    assert len(quarantine(driver.manifest)) == 1
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "cured").touch()
    roll_back(driver.store.root, "mine", 0)
    driver.drain()
    assert quarantine(Manifest.from_json(driver.manifest.to_json())) == []
    world.check(least_rows=10)


def test_an_operator_bug_found_later_is_undone_while_the_rest_goes_on(tmp_path: Path, claim: Claim) -> None:
    world = World(tmp_path, cells_plan(factor=7.0))
    driver = world.started(4)
    before = driver.manifest.position("mine")
    fixed = cells_plan()
    said = roll_back(driver.store.root, "mine", 1, dry_run=True, fixed=fixed)
    assert said.entry is None
    assert {name.split()[0] for name in said.plan.rollback} == {"mine", "cells", "everything"}
    assert said.cost["replay_bytes"] > 0
    roll_back(driver.store.root, "mine", 0, fixed=fixed)
    world.append()
    driver.drain()
    world.plan = fixed
    assert driver.manifest.position("mine") == before + 1
    rows, _ = world.check(least_rows=100)
    revisions = [row.revision for row in world.results.current()]
    assert max(revisions) >= 1 << 32
    claim(f"{rows} rows compared after correction")


def test_rolling_back_a_middle_vertex_leaves_what_is_above_it_alone(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(4)
    commits = driver.events.commits
    said = roll_back(driver.store.root, "cells", 2)
    assert said.plan.replay == dict.fromkeys(said.plan.replay, 3)
    assert {name.split()[0] for name in said.plan.replay} == {"mine"}
    driver.drain()
    # Two epochs of `cells` ran again; their output was the same, so the cascade stopped there.
    assert driver.events.commits - commits == 2
    assert driver.events.cascades == 0
    world.check(least_rows=50)


def test_a_rollback_of_one_range_moves_only_it(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(3)
    target = max(driver.manifest.vertices["mine"])
    roll_back(driver.store.root, "mine", 1, ranges=[target])
    driver._catch_up()
    positions = driver.manifest.frontier_of("mine")
    assert positions[target] == 1
    assert all(at == 3 for range_, at in positions.items() if range_ != target)
    driver.drain()
    world.check(least_rows=50)


@pytest.mark.covers("T11")
def test_stable_results_cannot_be_undone(tmp_path: Path) -> None:
    import resurge as rs

    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    plan = rs.plan_of(up.tumbling("10s").aggregate(n=rs.count()).sync_back("firm", commit="stable"))
    world = World(tmp_path, plan)
    driver = world.driver()
    world.append()
    driver.drain()
    world.check(least_rows=10)
    with pytest.raises(UsageError, match=r"choose --to 1 or later \[rollback-past-stable\]"):
        roll_back(driver.store.root, "firm", 0)


@pytest.mark.covers("T11")
def test_results_that_must_be_stable_wait_for_the_ranges_of_their_snapshot_and_others_do_not(tmp_path: Path) -> None:
    import resurge as rs

    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    counted = up.tumbling("10s").aggregate(n=rs.count())
    plan = rs.plan_of(counted.sync_back("firm", commit="stable"), counted.subscribe("quick"))
    world = World(tmp_path, plan)
    driver = world.driver()
    world.append()
    driver._catch_up()
    driver._cut()
    first, second = ready_steps(driver.manifest, driver.graph)
    driver._run([first])
    driver.publication.publish(driver.manifest_log, driver.term, driver.snapshots)
    assert world.results.sinks().keys() == {"quick"}
    driver._run([second])
    driver.publication.publish(driver.manifest_log, driver.term, driver.snapshots)
    assert world.results.sinks().keys() == {"firm", "quick"}
    driver.drain()
    world.check(least_rows=10)


@pytest.mark.covers("T10")
def test_an_arrival_merge_that_fails_takes_exactly_what_reads_it(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan(merge="arrival"))
    driver = world.started(3)
    broken = lose_state(world, driver, "cells")
    (past,) = driver.manifest.rollbacks
    readers = {f"everything {range_}" for range_ in driver.manifest.vertices["everything"]}
    assert set(past.entry.predicted) == {f"cells {broken}"} | readers
    assert driver.manifest.position("everything") == 4
    assert driver.manifest.frontier_of("mine") == dict.fromkeys(driver.manifest.vertices["mine"], 4)


def _forgetful() -> JobSettings:
    return JobSettings(
        epoch_s=0.0, balance=False, collect_every=2, chain_max=2, retention=Retention(keep=3, every_s=0.0, hours=0.0)
    )


def test_a_rollback_that_moves_nobody_parks_instead_of_coming_up_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, trips_plan())
    driver = world.driver()
    world.append()
    driver.drain()
    failed = ("trips", min(driver.manifest.vertices["trips"]))
    to = driver.manifest.position("trips")
    there = Rollback((failed,), to, changed=False, reason="a file is gone")
    monkeypatch.setattr("cloud_backend.spark.control.driver.repair", lambda *_, **__: there)
    driver._mend(failed, reason="a file is gone")
    assert driver.failures.waiting() == {failed: "a file is gone"}
    assert not driver.manifest.rollbacks
