"""A store in an object store: the same demands as of a directory, one object per task, and few requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.collection import kept_files
from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.storage import objects
from cloud_backend.spark.storage.file_names import (
    attempt_in,
    digest_in,
    driver_term,
    object_name,
    place_in_bundle,
    slots_in,
)
from cloud_backend.spark.storage.files import files_at
from cloud_backend.spark.storage.store import Store, _Bundle
from cloud_backend.spark.task import state, task
from cloud_backend.spark.task.specification import Outcome, Specification
from shared.errors import DamagedData, UsageError
from shared.recovery.retention import Retention
from tests.claims import Claim
from tests.cloud_backend.spark.control.deletions import LATITUDE, Walks, files_with
from tests.cloud_backend.spark.control.test_erasure import plan as erasure_plan
from tests.cloud_backend.spark.storage import object_server
from tests.cloud_backend.spark.storage.object_server import BUCKET, Server
from tests.cloud_backend.spark.storage.test_files import demand_a_file_system
from tests.spark.worlds import World, cells_plan

SETTINGS = JobSettings(epoch_s=0.0, balance=False, ranges=4, collect_every=1000)


@pytest.fixture(scope="module")
def started() -> Iterator[Server]:
    with object_server.running() as server:
        yield server


@pytest.fixture
def server(started: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    objects.kept.clear()
    started.requests()
    return started


def world_in(root: Path, settings: JobSettings = SETTINGS) -> World:
    world = World(root, cells_plan(), devices=16, settings=settings)
    world.store_dir = f"s3://{BUCKET}/{root.name}"  # type: ignore[assignment]
    return world


def test_objects_do_what_a_store_asks(server: Server) -> None:
    demand_a_file_system(files_at(f"s3://{BUCKET}/asked"))


def test_one_that_puts_twice_is_refused_by_the_server(server: Server) -> None:
    """The server here looks before it writes without a lock, so a race would show nothing: one after the other."""
    files = files_at(f"s3://{BUCKET}/twice")
    assert [files.put(f"race/{number}", b"first") for number in range(20)] == [True] * 20
    assert [files.put(f"race/{number}", b"second") for number in range(20)] == [False] * 20
    assert {files.read(f"race/{number}") for number in range(20)} == {b"first"}


def test_a_put_whose_answer_was_lost_knows_its_own_object(server: Server) -> None:
    files = files_at(f"s3://{BUCKET}/lost")
    server.lose_answers(1)
    assert files.put("entry", b"mine")
    assert server.requests()["PUT"] == 2
    assert not files.put("entry", b"yours")


@pytest.mark.covers("SO-21")
def test_an_epoch_costs_few_requests_and_a_job_is_the_same_as_on_a_disk(
    server: Server, tmp_path: Path, claim: Claim
) -> None:
    local = World(tmp_path / "local", cells_plan(), devices=16, settings=SETTINGS)
    local.started(6)
    world = world_in(tmp_path / "objects")
    driver = world.driver(local_dir=tmp_path)
    counts = []
    for _ in range(6):
        world.append()
        server.requests()
        driver.drain()
        counts.append(server.requests())
    vertices, ranges = len(driver.graph.order), SETTINGS.ranges
    totals = [sum(each.values()) for each in counts]
    assert all(each["PUT"] >= vertices * ranges for each in counts)
    assert max(totals[1:]) <= 3 * vertices * ranges
    rows, digest = world.check(least_rows=100)
    assert digest == local.results.digest()
    assert len(Store(world.store_dir).object_names()) == 6 * vertices * ranges
    claim(f"{vertices} vertices, {ranges} ranges: {totals} requests per epoch, {rows} rows, digest {digest}")


class Apart(LocalRunner):
    """Tasks whose worker shares no memory with the driver, nor with the next vertex's."""

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        of_driver, objects.kept = objects.kept, objects.Kept()
        try:
            return super().run(specs, timeout_s=timeout_s)
        finally:
            objects.kept = of_driver


def test_what_a_sink_said_comes_with_the_outcome_and_is_not_asked_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    for name, most in (("given", task.SAID_BYTES_MAX), ("asked", 0)):
        monkeypatch.setattr(task, "SAID_BYTES_MAX", most)
        world = world_in(tmp_path / name)
        world.make_runner = lambda _: Apart()
        driver = world.driver(local_dir=tmp_path, clock=lambda: 1_000_000.0)
        server.requests()
        for _ in range(6):
            world.append()
            driver.drain()
        reads.append(server.requests()["GET"])
        world.check(least_rows=100)
    spoke = {
        (vertex, range_, epoch)
        for vertex, lineages in driver.manifest.vertices.items()
        for range_, lineage in lineages.items()
        for epoch, committed in lineage.commits.items()
        if any(not reader and record.rows for (_, reader), record in committed.outputs.items())
    }
    assert len(spoke) > 10
    assert reads[1] - reads[0] == len(spoke)


def test_a_worker_reads_each_object_once_and_whole(server: Server, tmp_path: Path) -> None:
    world = world_in(tmp_path / "whole")
    driver = world.driver(local_dir=tmp_path)
    world.append()
    driver.drain()
    objects.kept.clear()
    state.forget_all()
    roll_back(str(world.store_dir), "everything", 0)
    server.requests()
    driver.drain()
    reads = server.requests()["GET"]
    # Every range of the last vertex reads the four records before it: one request each, not one per range and column.
    assert 4 <= reads <= 4 + 12
    world.check()


def test_damage_and_loss_are_found_and_mended(server: Server, tmp_path: Path, claim: Claim) -> None:
    world = world_in(tmp_path / "damaged")
    driver = world.driver(local_dir=tmp_path)
    for _ in range(4):
        world.append()
        driver.drain()
    lineages = driver.manifest.vertices["cells"]
    (part,) = lineages[min(lineages)].commits[4].state
    damaged = object_name(part.chain[-1])
    behind = files_at(str(world.store_dir))
    behind.replace(f"files/{damaged}", b"damaged")
    lost = object_name(next(iter(lineages[max(lineages)].commits[4].state)).chain[-1])
    behind.remove(f"files/{lost}")
    objects.kept.clear()
    state.forget_all()
    with pytest.raises(DamagedData, match=r"\[store-damaged\]"):
        Store(world.store_dir).read_file(part.chain[-1])
    world.append()
    driver.drain()
    assert len(driver.manifest.rollbacks) >= 1
    rows, digest = world.check(least_rows=80)
    claim(f"2 objects damaged or lost, {len(driver.manifest.rollbacks)} rollbacks, {rows} rows, digest {digest}")


def test_a_rollback_and_its_undo_and_collection(server: Server, tmp_path: Path) -> None:
    settings = JobSettings(
        epoch_s=0.0, balance=False, ranges=2, collect_every=2, chain_max=2,
        retention=Retention(keep=3, every_s=0.0, hours=0.0),
    )  # fmt: skip
    world = world_in(tmp_path / "collected", settings)
    driver = world.driver(local_dir=tmp_path)
    for _ in range(12):
        world.append()
        driver.drain()
    rolled = roll_back(str(world.store_dir), "mine", 11)
    assert rolled.entry is not None
    driver.drain()
    undo(str(world.store_dir), ManifestLog(Store(world.store_dir)).state.rollbacks[-1].n)
    again = world.driver(local_dir=tmp_path)
    again.drain()
    world.check(least_rows=100)
    kept = Store(world.store_dir).object_names()
    assert 0 < len(kept) < 12 * 3 * 2  # old bundles are gone
    named = {object_name(name) for name in kept_files(again.manifest)}
    assert named <= {*kept}


def test_nothing_of_a_deleted_device_is_left_in_any_object(server: Server, tmp_path: Path) -> None:
    """Not even beside a file that stays, in the same bundle."""
    world = Walks(tmp_path / "erased", erasure_plan(), devices=3)
    world.store_dir = f"s3://{BUCKET}/erased"  # type: ignore[assignment]
    driver = world.driver(
        local_dir=tmp_path, deleted=lambda: world.deleted, gone=lambda: dict.fromkeys(world.deleted, 0)
    )
    for _ in range(3):
        world.walk()
        driver.drain()
    store, written = Store(world.store_dir), {*kept_files(driver.manifest)}
    assert any(name.endswith(".delta") for name in _said_in(store, written, tmp_path / "before"))
    world.delete()
    driver.drain()
    assert driver.manifest.erased
    assert _said_in(store, written | {*kept_files(driver.manifest)}, tmp_path / "after") == []


def _said_in(store: Store, names: set[str], into: Path) -> list[str]:
    """The files that hold what the device said, of those whose object is there, and the objects themselves."""
    into.mkdir()
    there = {*store.object_names()}
    for name in names:
        if object_name(name) in there:
            (into / name).write_bytes(store.read_file(name))
    for name in there:
        with store.opened_file(name) as (read, size):
            (into / f"whole-{name}").write_bytes(read(size, 0))
    return [name for name in files_with(into, LATITUDE) if not name.startswith("whole-") or name.endswith(".bundle")]


def test_a_name_in_a_bundle_says_what_a_name_says() -> None:
    name = "mine.0-512@3.e7.g2.t9.p0-512.at120+4000.abcdefabcdef.0123456789abcdef.delta"
    assert object_name(name) == "mine.0-512@3.e7.g2.t9.abcdefabcdef.bundle"
    assert place_in_bundle(name) == (120, 4000)
    assert (slots_in(name), driver_term(name)) == ((0, 512), 9)
    assert (attempt_in(name), digest_in(name)) == ("abcdefabcdef", "0123456789abcdef")
    assert driver_term(object_name(name)) == 9
    alone = "mine.0-512.e7.g2.t9.at1-2.abcdefabcdef.0123456789abcdef.record"  # an output may be called so
    assert (object_name(alone), place_in_bundle(alone)) == (alone, None)


def test_a_bundle_is_its_files_one_after_the_other() -> None:
    prefix = "mine.0-512.e7.g2.t9"
    bundle = _Bundle(prefix)
    names = [bundle.add(f"{prefix}.p0-512", "delta", b"abc"), bundle.add(f"{prefix}.out", "record", b"defg")]
    assert b"".join(bundle.parts) == b"abcdefg"
    assert [place_in_bundle(name) for name in names] == [(0, 3), (3, 4)]
    assert {object_name(name) for name in names} == {bundle.name}
    assert {attempt_in(name) for name in names} == {bundle.name.split(".")[-2]}


@pytest.mark.parametrize(
    ("change", "bucket", "code"),
    [
        ({}, "nowhere", "store-bucket"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, BUCKET, "store-unreachable"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], bucket: str, code: str
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=rf"\[{code}\]") as refused:
        Store(f"s3://{bucket}/said-{code}").create()
    assert "\n" not in str(refused.value)
