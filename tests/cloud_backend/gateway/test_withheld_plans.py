"""A plan goes to the devices that have its operators. The others are told what they lack and which app has it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.coordinator.deployment import prepare
from cloud_backend.coordinator.device_operators import PlanNeeds, build_with
from cloud_backend.dashboard.fleet.attention import issues
from shared.plan.encoding import encode_plan
from shared.plan.wellformed import operators_on_device
from shared.wire.frame import FrameType, encode
from shared.wire.messages import PlanWithheld, Status
from shared.wire.status import DeviceStatus
from tests.cloud_backend.dashboard.fleet.test_attention import device, listed

ABLE = DeviceStatus(operators=("withheld_fast@3",), build="Walks 1.0 (org.example.walks)")


@rs.operator("withheld_fast", takes={"speed": "float64"}, gives={"fast": "bool"}, version=3)
def fast(columns):
    return {"fast": columns["speed"] > 3}


@rs.operator("withheld_slow", takes={"fast": "bool"}, gives={"slow": "bool"})
def slow(columns):
    return {"slow": ~columns["fast"]}


def program(version: int = 2):
    """`withheld_fast` runs on the device, `withheld_slow` in the cloud."""
    told = rs.sensor("gps", every="1s").apply("withheld_fast").sync("fast").apply("withheld_slow")
    return rs.plan_of(told.sync_back("slow"), version=version)


@pytest.fixture
def service(start, tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(program()))
    return start(plan=path)


def say(phone, status: DeviceStatus):
    code, frames = phone.exchange(encode(Status(phone.device, status).frame()))
    assert code == 200
    return [frame for frame in frames if frame.type in (FrameType.PLAN, FrameType.WITHHELD)]


def look_now(service) -> None:
    """It looks only now and then, and may have done so a moment ago by itself."""
    service.gateway._builds_read_at = -math.inf
    asyncio.run(service.gateway.tick())


def test_only_the_devices_part_of_a_plan_is_wanted_of_a_device():
    assert operators_on_device(program()) == {"withheld_fast@3"}


def test_a_device_gets_the_plan_only_when_it_has_its_operators(service):
    phone = service.phone()
    (told,) = say(phone, DeviceStatus(operators=("other@1", "withheld_fast@2")))  # another version is another operator
    assert PlanWithheld.of(told) == PlanWithheld(phone.device, 2, ("withheld_fast@3",))
    (told,) = say(phone, DeviceStatus(operators=("other@1",)))  # and again with every exchange
    assert told.type is FrameType.WITHHELD
    (told,) = say(phone, ABLE)  # its app was updated
    assert told.type is FrameType.PLAN
    assert say(phone, DeviceStatus(operators=(), plan=2)) == []  # it has it, and decides by itself


def test_a_device_that_does_not_say_what_it_has_decides_by_itself(service):
    (told,) = say(service.phone(), DeviceStatus())
    assert told.type is FrameType.PLAN


def test_the_app_that_has_it_is_named(service):
    say(service.phone("able"), ABLE)
    look_now(service)
    (told,) = say(service.phone("unable"), DeviceStatus(operators=()))
    assert PlanWithheld.of(told).build == ABLE.build


def test_of_several_apps_the_one_seen_last_is_named(service):
    roster = service.gateway.roster
    old, new, elsewhere = (service.phone(name).device for name in ("old", "new", "elsewhere"))
    newer = DeviceStatus(operators=("more@1", "withheld_fast@3"), build="Walks 1.1 (org.example.walks)")
    headless = DeviceStatus(operators=("withheld_fast@3",))  # no app: nothing to install
    roster.seen([(old, 10, ABLE), (new, 20, newer), (elsewhere, 30, headless)])
    assert build_with(roster.entries(), {"withheld_fast@3"}) == newer.build
    assert build_with(roster.entries(), {"nobody@1"}) == ""


def test_before_a_plan_is_deployed_the_devices_without_are_named(service):
    roster, before = service.gateway.roster, rs.plan_of(rs.sensor("gps", every="1s").sync("raw"))
    phones = [service.phone(name).device for name in ("a", "b", "c", "d", "e", "able", "gone", "unknown")]
    roster.seen(
        [(device, 1, DeviceStatus(operators=())) for device in phones[:5]]
        + [(phones[6], 1, DeviceStatus(operators=()))]
    )
    roster.revoke(phones[6], 1)
    words = prepare(program(), before, None, (), devices=roster.entries()).to_json()["words"]
    assert "a, b, c and 2 more will not get it: their apps lack withheld_fast@3; resurge app build makes one" in words
    roster.seen([(phones[5], 2, ABLE), *[(device, 2, ABLE) for device in phones[1:5]]])
    words = prepare(program(), before, None, (), devices=roster.entries()).to_json()["words"]
    assert f"a will not get it: its app lacks withheld_fast@3; install {ABLE.build} there" in words
    roster.seen([(phones[0], 3, ABLE)])
    words = prepare(program(), before, None, (), devices=roster.entries()).to_json()["words"]
    assert not any("will not get it" in each for each in words)


def test_it_is_among_what_needs_attention_until_the_device_has_the_version():
    needs = PlanNeeds(2, frozenset({"withheld_fast@3"}), ABLE.build)
    (issue,) = issues(
        listed([device("a", operators=()), device("b", operators=("withheld_fast@3",))]), {}, 0, needs=needs, now_us=1
    )
    assert issue.words == "a does not get the program as it is deployed"
    assert "needs withheld_fast@3" in issue.detail
    assert ABLE.build in issue.detail
    assert issues(listed([device("a", operators=(), plan=2), device("b")]), {}, 0, needs=needs, now_us=1) == []


def test_a_group_with_a_program_of_its_own_does_not_miss_that_of_all():
    needs = PlanNeeds(2, frozenset({"withheld_fast@3"}), ABLE.build, frozenset({"pilots"}))
    apart, others = (replace(device(name, operators=()), group=group) for name, group in (("a", "pilots"), ("b", "x")))
    (issue,) = issues(listed([apart, others]), {}, 0, needs=needs, now_us=1)
    assert issue.words == "b does not get the program as it is deployed"
