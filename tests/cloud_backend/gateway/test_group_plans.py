"""Devices get the program of their group, and another one when they change it; an older phone takes both."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

import resurge as rs
from cloud_backend.coordinator.groups import GroupPlan
from shared.plan.encoding import decode_plan, encode_plan
from shared.wire.frame import FrameType, encode
from shared.wire.messages import PlanMessage, PlanWithheld, Status
from shared.wire.status import DeviceStatus


def program(every: str, version: int):
    return rs.plan_of(rs.sensor("gps", every=every).sync("gps"), version=version)


def every_us(phone, says: DeviceStatus = DeviceStatus()):  # noqa: B008 - frozen
    """The rate of the plan that it is sent now, and its version; nothing when it has the newest."""
    code, frames = phone.exchange(encode(Status(phone.device, says).frame()))
    assert code == 200
    for frame in frames:
        if frame.type is FrameType.PLAN:
            message = PlanMessage.of(frame)
            return decode_plan(message.plan).sensors[0].every_us, message.version
        assert frame.type is not FrameType.WITHHELD, PlanWithheld.of(frame)
    return None


def test_a_phone_changes_its_group_and_gets_the_other_program(start, tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(program("5s", 2)))
    service = start(plan=path)
    groups = service.gateway.roster.groups
    pilot, other = service.phone("pilot"), service.phone("other")
    groups.put(pilot.device, "pilots", newest=2)
    groups.deploy("pilots", GroupPlan(3, encode_plan(program("1s", 3))))
    asyncio.run(service.gateway.tick())
    assert every_us(pilot) == (1_000_000, 3)
    assert every_us(other) == (5_000_000, 2)
    assert every_us(pilot, DeviceStatus(plan=3)) is None
    groups.put(pilot.device, "", newest=2)
    asyncio.run(service.gateway.tick())
    assert every_us(pilot, DeviceStatus(plan=3)) == (5_000_000, 4)  # above what it has: it takes no lower one
    assert every_us(pilot, DeviceStatus(plan=4)) is None
    assert every_us(other, DeviceStatus(plan=2)) is None  # nobody else is sent anything
    groups.put(pilot.device, "pilots", newest=2)
    asyncio.run(service.gateway.tick())
    assert every_us(pilot, DeviceStatus(plan=4)) == (1_000_000, 5)
    path.write_bytes(encode_plan(program("10s", 6)))
    asyncio.run(service.gateway.tick())
    assert every_us(other, DeviceStatus(plan=2)) == (10_000_000, 6)
    assert every_us(pilot, DeviceStatus(plan=5)) is None


def test_a_gateway_that_is_started_again_knows_the_groups(start, tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(program("5s", 2)))
    service = start(plan=path)
    phone = service.phone()
    service.gateway.roster.groups.put(phone.device, "pilots", newest=2)
    service.gateway.roster.groups.deploy("pilots", GroupPlan(3, encode_plan(program("1s", 3))))
    service.client.__exit__(None, None, None)
    again = start(plan=path)
    assert again.gateway.downlink.plan(phone.device, 2, None).version == 3


def test_a_look_at_the_groups_that_failed_is_made_again(start, tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(program("5s", 2)))
    service = start(plan=path)
    phone, groups = service.phone(), service.gateway.roster.groups
    asyncio.run(service.gateway.tick())
    groups.put(phone.device, "pilots", newest=2)
    groups.deploy("pilots", GroupPlan(3, encode_plan(program("1s", 3))))

    def busy() -> None:
        raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(groups, "plans", busy)
        with pytest.raises(sqlite3.OperationalError):
            asyncio.run(service.gateway.tick())
    asyncio.run(service.gateway.tick())
    assert every_us(phone) == (1_000_000, 3)
