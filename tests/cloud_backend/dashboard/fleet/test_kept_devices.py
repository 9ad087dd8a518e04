"""Devices are kept from look to look: what changed shows at once, and a look at very many costs those that are active."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.fleet import devices as module
from cloud_backend.dashboard.fleet.devices import Fleet
from cloud_backend.dashboard.history.history import History
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from shared.identity import device_id, edge_id
from shared.spool.disk import PosixDisk
from shared.wire.frame import encode
from shared.wire.messages import LostRange
from shared.wire.status import DeviceStatus

SECOND_US = 1_000_000
NOW = 1_000_000 * SECOND_US
DEVICES = 40


class World:
    def __init__(self, path: Path) -> None:
        self.roster = Roster(path / "roster.sqlite")
        self.keys = [bytes([number]) * 32 for number in range(DEVICES)]
        self.ids = [device_id(key) for key in self.keys]
        for number, key in enumerate(self.keys):
            self.roster.enrol(self.roster.new_code(NOW), key, f"phone-{number:02}", NOW)
        self.roster.seen((device, NOW - 3600 * SECOND_US, DeviceStatus(poll_s=30.0)) for device in self.ids)
        self.log = Log.open(PosixDisk(path / "log"))
        self.history = History(self.log)
        self.fleet = Fleet(self.log, self.history)
        self.now_us = NOW
        self.looked_at: list[str] = []
        look_at = self.fleet._look_at
        self.fleet._look_at = lambda entry, now_us: self.looked_at.append(entry.name) or look_at(entry, now_us)

    def look(self):
        """{name: device} of a look after all freshness is gone."""
        self.looked_at.clear()
        self.fleet.forget()
        self.history.follow()
        self.fleet.look(self.roster, self.now_us)
        return {each.phone.name: each for each in self.fleet.devices()}

    def lose(self, number: int, lo: int, hi: int) -> None:
        frame = LostRange(self.ids[number], 1, edge_id("gps"), lo, hi, "evicted").frame()
        self.log.append([Record(self.now_us, encode(frame))])
        self.log.sync()

    def close(self) -> None:
        self.history.close()
        self.log.close()
        self.roster.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "EVERYBODY", 10)
    monkeypatch.setattr(module, "IN_TURN", 4)
    made = World(tmp_path)
    yield made
    made.close()


def test_a_look_costs_what_changed_who_is_in_contact_and_a_few_in_turn(world: World):
    assert len(world.look()) == DEVICES
    assert len(world.looked_at) == DEVICES
    world.look()
    assert len(world.looked_at) == 4
    world.roster.seen([(world.ids[30], NOW, None)])
    assert world.look()["phone-30"].is_in_contact
    assert len(world.looked_at) <= 5
    world.now_us += 300 * SECOND_US  # and nothing comes: it was in contact, so it is looked at again
    assert not world.look()["phone-30"].is_in_contact
    assert "phone-30" in world.looked_at


def test_everybody_has_a_turn(world: World):
    world.look()
    seen: set[str] = set()
    for _ in range(DEVICES // 4):
        world.look()
        seen |= set(world.looked_at)
    assert len(seen) == DEVICES


def test_what_the_log_says_of_a_silent_device_shows_at_the_next_look(world: World):
    world.look()
    world.lose(25, 0, 7)
    assert world.look()["phone-25"].phone.ledgered == 7
    assert world.fleet.crowd.account.ledgered == 7


def test_who_is_renamed_revoked_or_new_shows_at_the_next_look(world: World):
    world.look()
    world.roster.rename(world.ids[20], "zebra", NOW)
    world.roster.revoke(world.ids[21], NOW)
    world.roster.enrol(world.roster.new_code(NOW), bytes([200]) * 32, "newcomer", NOW)
    found = world.look()
    assert {"zebra", "newcomer"} <= set(found)
    assert "phone-20" not in found
    assert found["phone-21"].state == "revoked"
    assert len(world.fleet.crowd) == DEVICES  # one came, one is revoked
    assert [each.phone.name for each in world.fleet.devices()] == sorted(found)


def test_what_another_process_changed_is_read_and_the_rest_is_the_same_object(world: World, tmp_path: Path):
    before = world.roster.entries()
    other = Roster(tmp_path / "roster.sqlite")
    other.revoke(world.ids[3], NOW)
    other.close()
    after = world.roster.entries()
    changed = [entry.name for entry, former in zip(after, before, strict=True) if entry is not former]
    assert changed == ["phone-03"]
    assert after[3].revoked_us == NOW


def test_who_was_heard_is_known_at_once_and_after_a_restart(world: World, tmp_path: Path):
    world.roster.entries()
    status = DeviceStatus(battery=7, poll_s=30.0)
    world.roster.seen([(world.ids[5], NOW, status), (world.ids[6], NOW, None)])
    found = {entry.name: entry for entry in world.roster.entries()}
    assert (found["phone-05"].seen_us, found["phone-05"].status) == (NOW, status)
    assert (found["phone-06"].seen_us, found["phone-06"].status) == (NOW, DeviceStatus(poll_s=30.0))
    again = Roster(tmp_path / "roster.sqlite")
    assert again.entries() == world.roster.entries()
    again.close()
