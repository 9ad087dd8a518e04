"""A job over a log of several partitions: places are vectors, and the results are those of the same log in one piece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cloud_backend.log import partitions
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.log.partitions import Place, device_slot, distance, lowest, partition_of, place_in
from cloud_backend.log.reader import Reader
from cloud_backend.spark.control import driver as driver_module
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.cuts import Cuts
from cloud_backend.spark.manifest.entries import Cut
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.slots import slot_of_text, slots_of_partition
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import log_input
from cloud_backend.spark.task.specification import slices_of
from shared.identity import device_id
from shared.recovery.retention import Retention
from shared.spool.disk import PosixDisk
from shared.wire.frame import stored_header
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan

PARTITIONS = 4
SETTINGS = JobSettings(
    epoch_s=0.0, balance=False, collect_every=2, chain_max=2, retention=Retention(keep=3, every_s=0.0, hours=0.0)
)  # fmt: skip


class Divided:
    """A log of several partitions, a directory each: as its writer and as its reader."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.opened: dict[str, Log] = {}
        self.read_from: list[str] = []

    def append(self, records: Sequence[Record]) -> list[int]:
        for record in records:
            partition = partition_of(stored_header(record.frame).source, PARTITIONS)
            self.opened[partition].append([record])
        return []

    def sync(self) -> None:
        for each in self.opened.values():
            each.sync()

    def create(self) -> None:
        self.opened = {str(each): Log.open(PosixDisk(self.root / str(each))) for each in range(PARTITIONS)}

    def starts(self) -> dict[str, int]:
        return {str(each): Reader(self.root / str(each)).start for each in range(PARTITIONS)}

    def ends(self) -> dict[str, int]:
        return {str(each): Reader(self.root / str(each)).valid_end() for each in range(PARTITIONS)}

    def read(self, partition: str, start: int, end: int) -> Iterator[tuple[int, Record]]:
        self.read_from.append(partition)
        return Reader(self.root / partition).read(start, end)

    def bounded(self, starts: Place, ends: Place, bytes_max: int) -> dict[str, int]:
        return dict(ends)

    def size(self, starts: Place, ends: Place) -> int:
        return distance(starts, ends)


@pytest.fixture
def divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path / "divided", cells_plan(), devices=12, settings=SETTINGS)
    world.log.close()
    log = Divided(world.root / "partitions")
    log.create()
    world.log, world.log_dir = log, log.root  # type: ignore[assignment]

    def opened(location: Path | str) -> partitions.LogReader:
        return log if Path(location) == log.root else partitions.OnePartition(location)

    for module in (driver_module, log_input):
        monkeypatch.setattr(module, "open_log", opened)
    return world


def run(world: World, epochs: int) -> JobManager:
    driver = world.driver()
    for _ in range(epochs):
        world.append()
        driver.drain()
    return driver


@pytest.mark.covers("SO-21")
def test_results_are_those_of_the_same_batches_in_one_partition(divided: World, tmp_path: Path, claim: Claim) -> None:
    whole = World(tmp_path / "whole", cells_plan(), devices=12, settings=SETTINGS)
    run(whole, 8)
    driver = run(divided, 8)
    assert roll_back(divided.store_dir, "mine", 6).entry is not None
    driver = divided.driver()  # a restart finds its place in every partition
    driver.drain()
    rows, digest = divided.check(least_rows=100)
    assert digest == whole.results.digest()
    cuts = driver.manifest.cuts
    assert all({*cuts[epoch].ends} == {"0", "1", "2", "3"} for epoch in cuts)
    stable = json.loads((divided.store_dir / "stable.json").read_bytes())
    log: Divided = divided.log  # type: ignore[assignment]
    assert place_in(stable["read"]) == log.ends()
    assert place_in(stable) == cuts[cuts.first].starts
    assert ManifestLog(Store(divided.store_dir)).state.cuts == cuts
    claim(f"{PARTITIONS} partitions, 1 rollback, {rows} rows, digest {digest}")


def test_a_task_reads_the_partitions_of_its_range_only(divided: World) -> None:
    driver = divided.driver()
    divided.append()
    driver.drain()
    log: Divided = divided.log  # type: ignore[assignment]
    log.read_from.clear()
    cut = driver.manifest.cuts[1]
    wire = {edge.name: edge.schema for edge in divided.plan.edges}
    slices = slices_of(cut)
    ordinals: list[int] = []
    for number in range(PARTITIONS):
        found, _ = log_input.read_edges(divided.log_dir, slices, wire, slots_of_partition(number, PARTITIONS))
        ordinals += [unit.ordinal for arrivals in found.values() for unit in arrivals.units]
    assert log.read_from == ["0", "1", "2", "3"]
    assert len({*ordinals}) == len(ordinals) == 24  # each batch has one number, whoever reads it


def test_a_device_s_partition_holds_its_slot() -> None:
    for number in range(500):
        device = device_id(f"device {number}".encode())
        slot = slot_of_text(device.hex())
        assert device_slot(device) == slot
        for count in (1, 2, 16, 256):
            range_ = slots_of_partition(int(partition_of(device, count)), count)
            assert range_.lo <= slot < range_.hi


def test_cuts_of_several_partitions_are_packed_and_read_back() -> None:
    cuts, place = Cuts(), {"0": 0, "1": 5, "10": 7}
    for epoch in range(1, 9):
        following = {each: at + epoch for each, at in place.items()}
        cuts.add(Cut(epoch, place, following))
        place = following
    said = {epoch: (cuts[epoch].starts, cuts[epoch].ends) for epoch in cuts}
    cuts.pack(7, spare=[4])
    again = Cuts.from_json(json.loads(json.dumps(cuts.to_json())), json.loads(json.dumps(cuts.packed_to_json())))
    assert {epoch: (again[epoch].starts, again[epoch].ends) for epoch in again} == said
    assert len(cuts.to_json()) == 4


def test_the_lowest_place_is_the_lowest_in_every_partition() -> None:
    assert lowest([{"0": 5, "1": 2}, {"1": 7, "0": 1, "10": 3}]) == {"0": 1, "1": 2, "10": 3}
    assert place_in({"10": 4, "2": 3, "read": 1, "3": True}) == {"2": 3, "10": 4}
    assert place_in(7) == {"0": 7}
    assert place_in(None) == {}
