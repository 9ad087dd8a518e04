"""One device cannot end or hold up the windows of the others: frontiers are believed up to the time they were received, and
nobody waits for a device that was revoked. Both are in the manifest, so that a replay decides the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import resurge as rs
from cloud_backend.coordinator.roster import Roster
from cloud_backend.log.log import Record
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.job import RosterFile
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from cloud_backend.spark.task.log_input import FRONTIER_AHEAD_US_MAX
from shared.identity import DeviceId, device_id, edge_id
from shared.plan.graph import Plan
from shared.wire import frame
from shared.wire.messages import Frontier
from tests.spark.worlds import SECOND, World

YEAR_2300_US = 10_413_792_000 * SECOND
RECEIVED_US = 1_700_000_000 * SECOND


def plan(idle_after: str | None = "10m") -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    together = up.key_by(idle_after=idle_after).tumbling("10s").aggregate(n=rs.count())
    return rs.plan_of(together.subscribe("together"), name="together")


def say_frontier(world: World, device: DeviceId, frontier_us: int, received_us: int = RECEIVED_US) -> None:
    (edge,) = world.plan.edges
    message = Frontier(device, 1, edge_id(edge.name), 0, frontier_us)
    world.log.append([Record(received_us, frame.encode(message.frame()))])
    world.log.sync()


def windows(world: World) -> list[tuple[int, int, bool]]:
    rows = world.results.latest("together")
    return [(row.window_start_us // SECOND, int(row.values["n"]), row.complete) for row in rows]


def test_a_frontier_in_the_year_2300_harms_nobody(tmp_path: Path) -> None:
    world = World(tmp_path, plan(), devices=3)
    driver = world.driver()
    hostile = DeviceId(b"\x66" * 16)
    world.append()
    say_frontier(world, hostile, YEAR_2300_US, received_us=20 * SECOND)
    driver.drain()
    world.append()
    driver.drain()
    # Three devices have read a value each second for a minute. The hostile one is believed up to 20 s and what a clock
    # may be ahead; until it is silent for `idle_after` it is waited for like any other, and then no more.
    assert FRONTIER_AHEAD_US_MAX == 60 * SECOND
    assert windows(world) == [(start, 30, True) for start in range(0, 60, 10)]


def test_frontiers_are_in_the_manifest_as_they_were_believed(tmp_path: Path) -> None:
    world = World(tmp_path, plan(), devices=2)
    driver = world.driver()
    hostile = DeviceId(b"\x66" * 16)
    say_frontier(world, hostile, YEAR_2300_US)
    world.append()
    driver.drain()
    said: dict[str, int] = {}
    for lineage in driver.manifest.vertices["ingest walk"].values():
        said |= lineage.commits[1].frontiers
    assert said == {
        hostile.hex(): RECEIVED_US + FRONTIER_AHEAD_US_MAX,
        **{device.hex(): 30 * SECOND for device in world.ids},
    }


class Fleet:
    """Three devices of which the last falls silent, and who was revoked."""

    def __init__(self, root: Path, idle_after: str | None = None) -> None:
        self.world = World(root, plan(idle_after), devices=3)
        self.gone: dict[str, int] = {}
        self.driver = self.started()
        self.world.append()
        self.driver.drain()

    def started(self) -> JobManager:
        return self.world.driver(gone=lambda: self.gone)

    def go_on(self) -> None:
        """All but the last device read for another half minute."""
        silent = self.world.ids.pop()
        seen = self.world.next.pop()
        self.world.devices = 2
        self.world.append()
        self.driver.drain()
        self.world.devices = 3
        self.world.ids.append(silent)
        self.world.next.append(seen)


def test_nobody_waits_for_a_device_that_was_revoked(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.go_on()
    assert [start for start, *_ in windows(fleet.world)] == [0, 10, 20]  # they wait for the third
    left_us = RECEIVED_US - 1
    fleet.gone[fleet.world.ids[2].hex()] = left_us
    fleet.go_on()
    assert windows(fleet.world)[3:] == [(start, 20, False) for start in (30, 40, 50, 60, 70, 80)]
    cuts = [cut for cut in fleet.driver.manifest.cuts.values() if cut.left]
    assert [cut.left for cut in cuts] == [{fleet.world.ids[2].hex(): left_us}]  # said once
    commits = [
        lineage.commits[fleet.driver.manifest.last_cut]
        for lineage in fleet.driver.manifest.vertices["together"].values()
    ]
    assert {name for each in commits for name in each.missing} == {fleet.world.ids[2].hex()}


def test_a_replay_waits_for_whom_the_first_run_waited(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.go_on()
    fleet.gone[fleet.world.ids[2].hex()] = RECEIVED_US - 1
    fleet.go_on()
    before = windows(fleet.world)
    fleet.gone.clear()  # what is so today does not decide about then
    state.forget_all()
    roll_back(fleet.world.store_dir, "together", 1)
    fleet.driver.drain()
    assert windows(fleet.world) == before


def test_a_device_that_was_enrolled_again_is_waited_for_again(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.gone[fleet.world.ids[2].hex()] = RECEIVED_US - 1
    fleet.go_on()
    fleet.gone.clear()
    say_frontier(fleet.world, fleet.world.ids[2], 60 * SECOND)
    fleet.go_on()
    assert fleet.driver.manifest.left == {}
    assert ManifestLog(Store(fleet.world.store_dir)).state.to_json() == fleet.driver.manifest.to_json()
    assert [start for start, *_ in windows(fleet.world)] == [0, 10, 20, 30, 40, 50]  # the others are at 90 s


def test_a_revocation_counts_from_what_was_received_after_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.gone[fleet.world.ids[2].hex()] = RECEIVED_US + 3600 * SECOND
    fleet.go_on()
    assert fleet.driver.manifest.left == {}
    assert len(windows(fleet.world)) == 3


def test_once_windows_have_passed_the_time_it_left_they_are_complete_without_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.gone[fleet.world.ids[2].hex()] = 45 * SECOND
    for _ in range(3):
        fleet.go_on()
    assert [complete for _, _, complete in windows(fleet.world)] == [True] * 3 + [False] * 3 + [True] * 6


def test_a_frontier_alone_is_kept_between_epochs(tmp_path: Path) -> None:
    """A worker that has the state from files knows what one with the state in memory knows."""
    world = World(tmp_path, plan(None), devices=2)
    driver = world.driver()
    world.append()
    driver.drain()
    for device, at in ((world.ids[0], 60), (world.ids[1], 50)):
        say_frontier(world, device, at * SECOND)
        driver.drain()
        state.forget_all()
    lineage = next(iter(driver.manifest.vertices["together"].values()))
    assert lineage.commits[3].missing == ()
    world.append()
    driver.drain()
    assert [start for start, *_ in windows(world)][-1] == 50


def test_the_job_reads_revocations_from_the_roster(tmp_path: Path) -> None:
    path = tmp_path / "roster.sqlite"
    gone = RosterFile(path).gone
    assert gone() == {}  # the gateway has not started yet
    key = bytes(range(32))
    roster = Roster(path)
    roster.enrol(roster.new_code(1), key, "phone", 2)
    assert gone() == {}
    roster.revoke(device_id(key), 3)
    assert gone() == {device_id(key).hex(): 3}
    roster.enrol(roster.new_code(4), key, "phone", 5)
    assert gone() == {}
    roster.close()


def test_old_cuts_without_devices_are_read(tmp_path: Path) -> None:
    world = World(tmp_path, plan(), devices=2)
    driver = world.started(1)
    entry = json.loads(driver.store.entry(3) or b"")
    assert entry["frontiers"] == {}
    assert replace(driver.manifest.cuts[1], left={"a": 1}).to_json()["frontiers"] == {"left": {"a": 1}}
