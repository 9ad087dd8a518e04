"""A gateway that coordinates passes exchanges on between phones that it knows, and hears of nobody else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.identity import DeviceId
from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
from shared.wire.frame import FrameType, encode
from shared.wire.messages import Status
from shared.wire.passed import NOBODY, PassMessage
from shared.wire.status import DeviceStatus, HostOffer
from shared.wire.waiting import NEWS
from tests.cloud_backend.gateway.conftest import Service
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.cloud_backend.gateway.test_fleet import PROGRAM
from tests.cloud_backend.gateway.test_waits import Told, asks
from tests.patience import wait_until


def offers(phone: PhoneClient, *, boot: int = 1, passed: bool = True) -> list[PassMessage]:
    """It says that it hosts; what is passed on to it in the answer."""
    offer = HostOffer(phone.name, "0" * 40, ("tcp://127.0.0.1:7301",), 8, passed=passed)
    status = DeviceStatus(boot=boot, deployment=(0, 0), offer=offer)
    phone.exchange(encode(Status(phone.device, status).frame()))
    return passed_to(phone)


def passed_to(phone: PhoneClient, *frames: bytes) -> list[PassMessage]:
    status, answered = phone.exchange(*frames)
    assert status == 200
    return [PassMessage.of(frame) for frame in answered if frame.type is FrameType.PASS]


def asking(phone: PhoneClient, other: DeviceId, body: bytes = b"rows", number: int = 7) -> bytes:
    return encode(PassMessage(phone.device, number, other, body).frame())


def unpassed(service: Service) -> int:
    found = re.search(r'resurge_refused_total{code="peers-unpassed"} (\d+)', service.gateway.metrics.text().decode())
    return 0 if found is None else int(found[1])


@pytest.fixture
def phones(service: Service, tmp_path: Path) -> dict[str, PhoneClient]:
    """Two that host in a region, an older one that does, and one that is no host."""
    found = {name: service.phone(name) for name in ("one", "other", "older", "stranger")}
    assert not offers(found["one"]), "nobody walks before there are regions"
    offers(found["other"])
    (tmp_path / "p.py").write_text(PROGRAM)
    plan = encode_plan(load_program(tmp_path / "p.py")).decode()
    service.gateway.fleet.ask(
        "add_region",
        {"name": "stop", "plan": plan, "sources": ["one"], "sink": "other", "center": [1.0, 2.0], "radius_m": 20.0},
    )
    for name in ("one", "other"):
        (told,) = offers(found[name], boot=2)
        assert (told.number, told.other, told.body) == (0, NOBODY, b""), "this gateway passes on"
    assert not offers(found["older"], passed=False), "it could not read it"
    return found


@pytest.mark.covers("MS-31")
def test_an_exchange_is_passed_on_and_its_answer_and_who_waits_hears_at_once(
    service: Service, phones: dict[str, PhoneClient]
) -> None:
    one, other, told = phones["one"], phones["other"], Told()
    passed_to(other), passed_to(one)  # nothing waits for them
    service.gateway.waits.hold(asks(other), told)
    assert passed_to(one, asking(one, other.device)) == []
    wait_until(lambda: told.bodies == [NEWS], "the other one hears of it")
    service.gateway.waits.hold(asks(other), told)
    assert told.bodies == [NEWS, NEWS], "until it has fetched it"
    (asked,) = passed_to(other)
    assert (asked.device, asked.other, asked.body) == (other.device, one.device, b"rows")
    answer = encode(PassMessage(other.device, asked.number, NOBODY, b"receipt").frame())
    assert passed_to(other, answer) == []
    assert passed_to(one) == [PassMessage(one.device, 7, NOBODY, b"receipt")]
    assert passed_to(one) == [], "once"
    service.client.portal.call(service.gateway.tick)
    assert b"resurge_fleet_passed 1.0" in service.gateway.metrics.text()
    assert unpassed(service) == 0


@pytest.mark.covers("MS-31")
def test_strangers_older_nodes_and_who_was_revoked_are_passed_nothing_and_counted(
    service: Service, phones: dict[str, PhoneClient]
) -> None:
    one, other, stranger = phones["one"], phones["other"], phones["stranger"]
    for to in (phones["older"].device, stranger.device, DeviceId(b"n" * 16)):
        assert passed_to(one, asking(one, to)) == []
    assert passed_to(stranger, asking(stranger, other.device)) == []
    assert unpassed(service) == 4
    passed_to(one, asking(one, other.device))
    service.gateway.roster.revoke(other.device, 2)
    service.client.portal.call(service.gateway.tick)
    assert not service.gateway.fleet.has_passed(other.device), "what waits for it is gone"
    passed_to(one, asking(one, other.device))
    assert unpassed(service) == 5
    status, answered = other.exchange(asking(other, one.device))
    assert (status, answered[0].type) == (401, FrameType.REFUSAL)
    assert other.hello()[0] == 403
    assert passed_to(one) == []


def test_a_replayed_exchange_passes_nothing_on(service: Service, phones: dict[str, PhoneClient]) -> None:
    one, other = phones["one"], phones["other"]
    body = one.session.seal((asking(one, other.device),))
    for _ in range(3):
        assert one.post(body)[0] == 200
    assert [message.body for message in passed_to(other)] == [b"rows"]


def test_a_phone_that_sends_too_much_to_be_passed_on_is_slowed_down_as_with_anything(start) -> None:
    from cloud_backend.gateway.rate_limits import Rate

    service = start(byte_rate=Rate(per_s=1.0, burst=50_000.0))
    one = service.phone("one")
    one.exchange(asking(one, DeviceId(b"n" * 16), bytes(40_000)))
    status, _ = one.exchange(asking(one, DeviceId(b"n" * 16), bytes(40_000)))
    assert status == 429
