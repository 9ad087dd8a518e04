"""The fleet inside a gateway: who was revoked is no member any more, also after a restart, until it is paired again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.roster import Roster
from cloud_backend.gateway.fleet import GatewayFleet
from shared.identity import DeviceId
from shared.sync.exchange import StatusReceived
from shared.wire.status import DeviceStatus, HostOffer


@pytest.fixture
def roster(tmp_path: Path):
    made = Roster(tmp_path / "roster.sqlite")
    yield made
    made.close()


def paired(roster: Roster, name: str, now_us: int = 1) -> DeviceId:
    key = Random(name).randbytes(32)
    roster.enrol(roster.new_code(now_us), key, name, now_us)
    return next(entry.device for entry in roster.entries() if entry.public_key == key)


def governed(path: Path, roster: Roster) -> GatewayFleet:
    return GatewayFleet(FleetStore(path / "fleet.sqlite"), lambda _data: b"", roster, clock_us=lambda: 7)


def offer(fleet: GatewayFleet, device: DeviceId, name: str) -> None:
    said = HostOffer(name, "0" * 40, ("tcp://127.0.0.1:7301",), 8)
    fleet.notice(StatusReceived(device, 1, DeviceStatus(offer=said)))


def names(fleet: GatewayFleet) -> list[str]:
    status = fleet.status()
    return [] if status is None else [node.name for node in status.nodes]


def test_a_revoked_node_leaves_and_comes_back_only_when_it_is_paired_again(tmp_path: Path, roster: Roster) -> None:
    hub, desk = paired(roster, "hub"), paired(roster, "desk")
    fleet = governed(tmp_path, roster)
    for device, name in ((hub, "hub"), (desk, "desk")):
        offer(fleet, device, name)
    assert names(fleet) == ["hub", "desk"]
    roster.revoke(hub, 2)
    fleet.tick()
    assert names(fleet) == ["desk"]
    assert [line[1] for line in roster.audit_lines()].count("fleet-left") == 1
    offer(fleet, hub, "hub")  # a status that was on its way
    assert names(fleet) == ["desk"]
    fleet.close()
    again = governed(tmp_path, roster)
    again.tick()
    assert names(again) == ["desk"]
    paired(roster, "hub", 3)
    offer(again, hub, "hub")
    again.tick()
    assert names(again) == ["desk", "hub"]
    again.close()


def test_one_that_was_revoked_while_the_gateway_was_down_leaves_at_its_start(tmp_path: Path, roster: Roster) -> None:
    hub, desk = paired(roster, "hub"), paired(roster, "desk")
    fleet = governed(tmp_path, roster)
    for device, name in ((hub, "hub"), (desk, "desk")):
        offer(fleet, device, name)
    fleet.close()
    roster.revoke(hub, 2)
    again = governed(tmp_path, roster)
    again.tick()
    assert names(again) == ["desk"]
    again.close()
