"""Regions that a person adds to a running fleet: they form, are listed, stay over a restart, and are dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.errors import UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import StoreFleet
from shared.hosting.fleet_watch import FleetWatch
from shared.hosting.requests import answer
from shared.identity import DeviceId
from shared.plan.deployment import decode_deployment
from shared.wire.fleet_status import BYPASS, FAILURE, START, FleetStatus
from shared.wire.status import DeviceStatus
from tests.shared.hosting.test_requests import DESK, LINKS, PEERS, SPARE, coordinator, encoded, plan

HERE, AWAY = (1.3521, 103.8198), (1.36, 103.8198)
STOP: dict[str, Any] = {
    "name": "stop", "sources": ["phone"], "sink": "desk", "center": "1.3521, 103.8198", "radius_m": 20.0, "threshold": 1,
    "dwell_s": 5.0, "strategy": "ecoc-region",
}  # fmt: skip


def add(one: Coordinator, **changed: Any) -> dict[str, Any]:
    return answer(one, "add_region", STOP | {"plan": encoded(plan())} | changed, 2.0)


def regions(one: Coordinator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer(one, "regions", {}, 2.0)["regions"]
    return found


def stands(one: Coordinator, where: tuple[float, float], at: float) -> None:
    one.heard(DeviceId(bytes.fromhex(SPARE.node)), at, DeviceStatus(position=where, accuracy_m=3.0))


@pytest.mark.covers("MS-5", "MS-6")
def test_a_region_that_is_added_begins_when_enough_nodes_have_stayed_there() -> None:
    one = coordinator()
    assert add(one) == {"name": "stop", "threshold": 1, "strategy": "ecoc-region", "added": True}
    (region,) = regions(one)
    assert (region["state"], region["members"], region["submitted"]) == ("forming", [], True)
    assert (region["points"], region["radius_m"], region["dwell_s"]) == ([[1.3521, 103.8198]], 20.0, 5.0)
    stands(one, HERE, 3.0)
    assert not one.fleet.queries
    stands(one, HERE, 8.5)
    (query,) = one.fleet.queries
    assert (query.name, query.row, {*query.members}) == ("stop", "ecoc-region", {SPARE.node})
    (region,) = regions(one)
    assert region["members"] == [{"name": "spare", "place": "idle"}] or region["members"][0]["name"] == "spare"
    stored = [item for item in one.step().persist if isinstance(item, StoreFleet)][-1].data
    again = Coordinator(DESK.node, lambda _data: b"", stored=stored)
    again.set_fleet(PEERS, [], LINKS)
    assert [each["name"] for each in regions(again)] == ["stop"], "it stays over a restart, the file says nothing of it"
    assert [query.name for query in again.fleet.queries] == ["stop"]


def test_people_see_who_is_there_and_what_happened() -> None:
    one = coordinator()
    add(one)
    watch = FleetWatch(None, one, 0)
    stands(one, HERE, 3.0)
    (region,) = watch.status(3.0, 3_000_000).regions
    assert (region.state, region.members, region.threshold) == ("forming", (("spare", "dwelling"),), 1)
    stands(one, HERE, 8.5)
    stands(one, AWAY, 9.0)
    status = watch.status(9.0, 9_000_000)
    (region,) = status.regions
    assert region.members == (("spare", "leaving"),), "it runs something yet"
    assert [(event.region, event.kind) for event in status.events] == [("stop", START), ("stop", BYPASS)], "all leave"
    one.wake(60.0)
    assert [(event.kind, event.text) for event in one.region_events()][1:] == [
        (BYPASS, "stops: too few members are left (0)"), (FAILURE, "spare does not answer any more"),
    ]  # fmt: skip
    assert FleetStatus.from_json(status.to_json()) == status
    many = replace(status, events=status.events * 500)
    assert len(many.fitted().events) <= 60


def test_a_region_that_is_dropped_ends_its_query_and_nodes_need_not_say_where_they_are() -> None:
    one = coordinator()
    add(one)
    stands(one, HERE, 3.0)
    stands(one, HERE, 8.5)
    assert decode_deployment(one.deployment(SPARE.node)[1]).areas[0].name == "stop"
    with pytest.raises(UsageError, match="query-of-region"):
        answer(one, "drop", {"name": "stop"}, 9.0)
    assert answer(one, "drop_region", {"name": "stop"}, 9.0) == {"name": "stop", "dropped": True}
    assert not one.fleet.queries
    assert not one.fleet.regions
    assert not decode_deployment(one.deployment(SPARE.node)[1]).areas
    add(one)
    stands(one, HERE, 10.0)
    assert not one.fleet.queries, "it dwells anew"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"center": "somewhere"}, "region-request"), ({"radius_m": 0.0}, "region-request"),
        ({"corners": ["1,1", "1,2", "2,2"]}, "region-request"), ({"threshold": 0}, "region-request"),
        ({"dwell_s": -1.0}, "region-request"), ({"strategy": "partial"}, "region-request"),
        ({"wrong": 1}, "region-request"), ({"after": ["x"]}, "region-request"),
        ({"after": ["x=nowhere/peaks"]}, "deployment-region"), ({"sources": []}, "query-sources"),
        ({"sink": "nobody"}, "query-node"), ({"name": ""}, "query-request"),
    ],
)  # fmt: skip
def test_a_region_that_makes_no_sense_is_refused_and_nothing_changes(changed: dict[str, Any], code: str) -> None:
    one = coordinator()
    before = one.fleet
    with pytest.raises(UsageError) as refused:
        add(one, **changed)
    assert refused.value.code == code
    assert one.fleet == before


def test_names_are_taken_once_and_what_feeds_another_stays() -> None:
    one = coordinator()
    add(one)
    with pytest.raises(UsageError, match="region-taken"):
        add(one)
    corners = ["1.35,103.8", "1.35,103.9", "1.36,103.9"]
    add(one, name="next", center="", radius_m=0.0, corners=corners, plan=encoded(plan("y")), after=["y=stop/peaks"])
    assert [(each["name"], each["after"]) for each in regions(one)] == [("stop", []), ("next", ["stop"])]
    with pytest.raises(UsageError, match="region-feeds"):
        answer(one, "drop_region", {"name": "stop"}, 3.0)
    with pytest.raises(UsageError, match="region-unknown"):
        answer(one, "drop_region", {"name": "other"}, 3.0)
