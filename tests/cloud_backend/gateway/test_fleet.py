"""The fleet inside a gateway: who was revoked is no member any more, also after a restart, until it is paired again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.roster import Roster
from cloud_backend.gateway.fleet import GatewayFleet
from shared.errors import UsageError
from shared.identity import DeviceId
from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
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


PROGRAM = """
import resurge as rs
means = rs.sensor("x", every="1s", columns={"x": "float64"}).gather("x").sliding(count=5).aggregate(m=rs.mean("x"))
means.sliding(count=3).aggregate(s=rs.sum("m")).subscribe("out")
"""


def said(fleet: GatewayFleet, device: DeviceId, offer: HostOffer, *costs: tuple[DeviceId, int]) -> None:
    neighbours = tuple((other.hex(), cost) for other, cost in costs)
    fleet.notice(StatusReceived(device, 1, DeviceStatus(offer=offer, neighbours=neighbours)))


def placed(fleet: GatewayFleet, tmp_path: Path, place: str, **more: object) -> dict[str, str]:
    """Where the program would run, its sink included."""
    (tmp_path / "p.py").write_text(PROGRAM)
    asked = {"name": "q", "plan": encode_plan(load_program(tmp_path / "p.py")).decode(), "sources": ["phone"]}
    found = fleet.ask("submit", asked | {"place": place, "dry_run": True, "keepers": 0, **more})
    return {each["vertex"]: each["hosts"][0] for each in found["vertices"]} | {"sink": found["sink"]}


def test_what_nodes_offer_and_measure_says_where_a_query_runs(tmp_path: Path, roster: Roster) -> None:
    """A phone on the air, two hubs, and a laptop beside the gateway: no file says so."""
    phone, hub, other, laptop = (paired(roster, name) for name in ("phone", "hub", "other", "laptop"))
    fleet = governed(tmp_path, roster)

    def host(name: str, number: int, capacity: int, **more: object) -> HostOffer:
        return HostOffer(name, "0" * 40, (f"tcp://127.0.0.1:{number}",), capacity, **more)  # type: ignore[arg-type]

    carried = HostOffer("phone", "0" * 40, (), 0, "wifi")
    said(fleet, phone, carried)
    said(fleet, hub, host("hub", 7301, 1, lane="wifi"))
    said(fleet, other, host("other", 7302, 1, lane="wifi"))
    with pytest.raises(UsageError, match=r"resurge node run --cloud.*query-sink"):
        placed(fleet, tmp_path, "push-down")
    with pytest.raises(UsageError, match=r"resurge node run --cloud.*place-path"):
        placed(fleet, tmp_path, "cloud-only", sink="hub")
    said(fleet, laptop, host("laptop", 7303, 64, lane="wired", cloud=True))
    assert {*placed(fleet, tmp_path, "cloud-only").values()} == {"laptop"}
    said(fleet, phone, carried, (laptop, 10))  # how it is, whatever it says of its lane
    below = [*placed(fleet, tmp_path, "bottom-up").values()]
    assert below == ["hub", "laptop", "laptop"], "the hub has room for one; results end beside the gateway"
    said(fleet, hub, host("hub", 7301, 2, lane="wifi"))
    assert [*placed(fleet, tmp_path, "bottom-up").values()].count("hub") == 2
    said(fleet, hub, host("hub", 7301, 2, lane="cellular"))
    assert "hub" not in [*placed(fleet, tmp_path, "bottom-up").values()][:1]
    said(fleet, hub, host("hub", 7301, 2, lane="wifi"))
    said(fleet, phone, carried, (laptop, 10), (hub, 10))
    assert "other" in [*placed(fleet, tmp_path, "bottom-up").values()][:1], "what was measured counts"
    fleet.close()


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
