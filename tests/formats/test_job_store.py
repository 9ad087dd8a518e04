"""A job's store, log and results that every later version must read, go on with, roll back and take back."""

from __future__ import annotations

import json
import re
import socket
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_backend.log.log import Record
from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.manifest import manifest as manifests
from cloud_backend.spark.manifest.cuts import Cuts
from cloud_backend.spark.manifest.entries import Division, entry_from_json
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.savepoints import create_savepoint, epoch_meant
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from shared.batch import Batch
from shared.identity import edge_id
from shared.recovery.retention import Retention
from shared.wire import columns, frame
from shared.wire.messages import Data
from tests.formats.archives import unpack
from tests.spark.worlds import SECOND, World, cells_plan

FROZEN = Path(__file__).parent / "job_v2.tar.xz"
FORMER = Path(__file__).parent / "job_v1.tar.xz"  # with all devices in each change set
BOTH = pytest.mark.parametrize("archive", [FROZEN, FORMER], ids=["now", "former"])
FACTS = Path(__file__).parent / "job_v1.json"
EPOCHS = 6
CORRECTED = replace(cells_plan(), name="corrected")  # says the same under another number


def written(root: Path, patch: pytest.MonkeyPatch) -> World:
    """A job that has done everything that leaves something in its store: epochs, a batch that no plan knows, a split, a
    damaged state file, a corrected plan, and that correction taken back."""
    patch.setattr(socket, "gethostname", lambda: "host")
    patch.setattr(manifests, "SUMMARY_EVERY", 30)
    world = World(root, cells_plan(), devices=3)
    driver = world.started(2)
    _append_unknown_schema(world)
    first = min(driver.manifest.ranges_at("cells", 3))
    halves = tuple(replace(half, since=3) for half in first.halves())
    assert driver._append(Division("cells", (first,), halves, 3))
    for _ in range(2):
        world.append()
        driver.drain()
    _damage(driver.store, driver.manifest.vertices["mine"][Range(0, 512)].commits[4].state[0].chain[-1])
    world.append()
    driver.drain()
    done = roll_back(world.store_dir, "cells", 4, fixed=cells_plan(factor=7.0))
    driver.drain()
    undo(world.store_dir, done.entry or 0)
    driver.drain()
    roll_back(world.store_dir, "everything", 4, fixed=CORRECTED)
    world.append()
    driver.drain()
    return world


def _append_unknown_schema(world: World) -> None:
    (edge,) = world.plan.edges
    content = Batch.of(edge.schema, {"x": [1.0], "cell": [1]}, [0], lo=0)
    codec, payload = columns.encode(content)
    data = Data(world.ids[0], 2, edge_id(edge.name), 0, 1, 1, edge.schema.id ^ 1, 0, codec, payload, 60 * SECOND)
    world.log.append([Record(1_700_000_000_000_000, frame.encode(data.frame()))])


def _damage(store: Store, name: str) -> None:
    path = store.files / name
    path.write_bytes(b"?" * path.stat().st_size)
    state.forget_all()


def frozen(root: Path, archive: Path = FORMER) -> World:
    """A frozen job unpacked, with devices that know how far they have come."""
    unpack(archive, root)
    world = World(root, CORRECTED, devices=3)
    world.next = [EPOCHS * 30] * 3
    return world


def said(text: bytes | None) -> object:
    """An entry without what differs from run to run: who ran, the attempts' names, how long it took."""
    plain = re.sub(r"\.[0-9a-f]{12}\.", ".ATTEMPT.", (text or b"").decode())
    plain = re.sub(r'"(seconds|task_seconds)":[0-9.e-]+', r'"\1":0', plain)
    return _whole(json.loads(re.sub(r'"owner":"[^"]*"', '"owner":"OWNER"', plain)))


def _whole(value: object) -> object:
    """The same with fields left out that say nothing, None and no moves at all, and with those that were added since."""
    if isinstance(value, dict):
        kept = {name: _whole(each) for name, each in value.items()}
        return {
            name: each
            for name, each in kept.items()
            if each is not None and (name, each) != ("lost", []) and name not in ("frontiers", "at_ms")
        }
    return [_whole(each) for each in value] if isinstance(value, list) else value


def _facts(root: Path) -> dict[str, object]:
    facts = job_facts(root / "store", clock=lambda: 0.0)
    for vertex in facts["vertices"]:
        for range_ in vertex["ranges"]:
            range_.pop("seconds"), range_.pop("load"), range_.pop("missing")
    for rollback in facts["rollbacks"]:
        rollback.pop("cost")
    for name in ("at", "owner", "alive", "exceptions", "cache", "log_bytes", "late", "kept", "lag_s"):
        facts.pop(name)
    assert facts.pop("torn_entries") == []
    return json.loads(json.dumps(facts))


def test_this_version_writes_the_entries_records_and_states_it_always_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File names hold the digest of what is in them, so equal entries stand for equal files."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = frozen(tmp_path / "old", FROZEN), written(tmp_path / "new", monkeypatch)
    before, now = Store(old.store_dir), Store(new.store_dir)
    assert before.entry_numbers() == now.entry_numbers()
    for number in before.entry_numbers():
        assert said(now.entry(number)) == said(before.entry(number))
    assert before.summaries() == now.summaries() != []
    for number in before.summaries():
        assert said(now.summary(number)) == said(before.summary(number))


def test_the_facts_of_a_frozen_job_are_what_they_were(tmp_path: Path) -> None:
    world = frozen(tmp_path)
    assert _facts(tmp_path) == json.loads(FACTS.read_text())
    assert ManifestLog(Store(world.store_dir)).state.last_cut == EPOCHS
    world.check(least_rows=50)


@BOTH
def test_a_frozen_job_goes_on(tmp_path: Path, archive: Path) -> None:
    world = frozen(tmp_path, archive)
    driver = world.driver()
    assert driver.term == 2
    world.append()
    driver.drain()
    world.append()
    driver.drain()
    assert driver.manifest.position("everything") == driver.manifest.last_cut == EPOCHS + 2
    assert driver.manifest.plan == 3
    world.check(least_rows=70)


@BOTH
def test_every_record_of_a_frozen_job_is_read_again_by_a_rollback(tmp_path: Path, archive: Path) -> None:
    world = frozen(tmp_path, archive)
    driver = world.driver()
    state.forget_all()
    roll_back(world.store_dir, "mine", 2)
    driver.drain()
    assert not driver.failures.waiting()
    world.check(least_rows=50)


@BOTH
def test_a_rollback_of_a_frozen_job_can_be_taken_back(tmp_path: Path, archive: Path) -> None:
    world = frozen(tmp_path, archive)
    last = ManifestLog(Store(world.store_dir)).state.rollbacks[-1]
    assert last.entry.vertex == "everything"
    undo(world.store_dir, last.n)
    world.plan = cells_plan()
    driver = world.driver()
    driver.drain()
    assert driver.manifest.plan == 1
    world.check(least_rows=50)


def test_a_frozen_job_gets_points_and_savepoints(tmp_path: Path) -> None:
    """Its cuts say nothing of when they were made. An epoch a second: what was cut within this second is kept."""
    world, now_s = frozen(tmp_path), [time.time()]
    world.settings = replace(world.settings, collect_every=4, chain_max=2, retention=Retention(2, 0.0, 0.0))
    driver = world.driver(clock=lambda: now_s[0])
    first = create_savepoint(world.store_dir, "as-it-was")
    assert (first.epoch, first.at_ms) == (EPOCHS, 0)
    for _ in range(12):
        now_s[0] += 1
        world.append()
        driver.drain()
    assert min(driver.manifest.cuts) >= EPOCHS - 1
    told = roll_back(world.store_dir, "mine", epoch_meant(world.store_dir, "as-it-was"))
    assert (told.plan.epoch, told.from_log) == (EPOCHS, True)
    driver.drain()
    assert not driver.failures.waiting()
    assert driver.manifest.position("everything") == EPOCHS + 12


ENTRIES = (
    '{"n":1,"term":1,"kind":"cut","epoch":7,"starts":{"0":10},"ends":{"0":20},"frontiers":{},"at_ms":1800000000123}',
    '{"n":1,"term":1,"kind":"collect","records":{"a":5},"snapshots":{"a":5},"log":2,"at":9,"points":[2,4]}',
    '{"n":1,"term":1,"kind":"savepoint","name":"release-1","epoch":7,"at_ms":1800000000123}',
    '{"n":1,"term":1,"kind":"savepoint","name":"release-1","epoch":null,"at_ms":1800000000123}',
)
CUTS = {"1": {"starts": {"0": 0}, "ends": {"0": 9}, "frontiers": {}}}, [[2, 9, [3, 0, 5]]]


@pytest.mark.parametrize("text", ENTRIES)
def test_entries_of_a_long_horizon_are_written_as_they_were(text: str) -> None:
    value = json.loads(text)
    entry = entry_from_json(value)
    again = {"n": 1, "term": 1, "kind": entry.kind, **entry.to_json()}
    assert json.dumps(again, separators=(",", ":")) == text


def test_packed_cuts_are_read_as_they_were() -> None:
    cuts = Cuts.from_json(*CUTS)
    assert (cuts.to_json(), cuts.packed_to_json()) == CUTS
    assert [(epoch, cuts[epoch].starts["0"], cuts[epoch].ends["0"]) for epoch in cuts] == [
        (1, 0, 9), (2, 9, 12), (3, 12, 12), (4, 12, 17),
    ]  # fmt: skip
    cuts.forget_before(3)
    assert (min(cuts), cuts.first, cuts[3].starts["0"]) == (3, 3, 12)


if __name__ == "__main__":  # once, when what is written has changed: `python -m tests.formats.test_job_store`
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        written(Path(directory), patch).results.close()
        with tarfile.open(FROZEN, "w:xz") as archive:
            for path in sorted(Path(directory).rglob("*")):
                if path.is_file():
                    archive.add(path, path.relative_to(directory))
