"""Devices that wait for news: told at once, bounded, and without anything that grows but a table."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cloud_backend.gateway.ingest import MEDIA_TYPE, Answer
from cloud_backend.gateway.waits import HOLD_S, PATH, Waits
from cloud_backend.results.store import ResultRow, Results
from shared.wire.frame import FrameType, encode
from shared.wire.messages import ResultReceipt
from shared.wire.waiting import NEWS, NO_NEWS
from tests.cloud_backend.gateway.conftest import Service
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.cloud_backend.gateway.test_http_protocol import run
from tests.patience import wait_until


def row(device: bytes, window: int = 0, revision: int = 1) -> ResultRow:
    return ResultRow("trips", device.hex(), ("a",), window, window + 1, revision, False, True, {"km": 1.5})


class Told:
    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def __call__(self, answer: Answer) -> None:
        self.answers.append(answer)

    @property
    def bodies(self) -> list[bytes]:
        return [answer.body for answer in self.answers]


@pytest.fixture
def results_path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def service(start, results_path: Path) -> Service:
    return start(results=results_path, dashboard=False)


def ready(service: Service, name: str = "phone") -> PhoneClient:
    """A phone whose session was used: only such a one may wait."""
    phone = service.phone(name)
    assert phone.exchange()[0] == 200
    return phone


def asks(phone: PhoneClient, through: int = 0) -> bytes:
    return phone.session.wait(through, 0.0)


def test_who_waits_is_answered_when_a_result_is_published_by_another_process(service, results_path):
    phone, other = ready(service), ready(service, "other")
    with ThreadPoolExecutor(2) as threads:
        headers = {"content-type": MEDIA_TYPE.decode()}
        waiting = threads.submit(service.client.post, PATH, content=asks(phone), headers=headers)
        idle = threads.submit(service.client.post, PATH, content=asks(other), headers=headers)
        wait_until(lambda: len(service.gateway.waits) == 2, "both wait")
        job = Results(results_path)  # as the Spark job has it: another connection to the file
        job.publish(1, [row(phone.device)])
        job.close()
        answer = waiting.result()
        assert (answer.status_code, answer.content) == (200, NEWS)
        assert not idle.done()
        _, frames = phone.exchange()
        assert [frame.type for frame in frames].count(FrameType.RESULT) == 1
        service.client.portal.call(service.gateway.waits.release)
        assert idle.result().content == NO_NEWS


def test_what_waits_already_is_said_at_once_and_what_was_taken_is_not(service, results_path):
    phone = ready(service)
    service.gateway.results.publish(1, [row(phone.device)])
    service.gateway.downlink.refresh()
    told = Told()
    service.gateway.waits.hold(asks(phone), told)
    assert told.bodies == [NEWS]
    assert phone.exchange(encode(ResultReceipt(phone.device, 1).frame()))[0] == 200
    service.gateway.downlink.refresh()
    service.gateway.waits.hold(asks(phone, 1), told)
    assert told.bodies == [NEWS]
    assert len(service.gateway.waits) == 1


def test_numbers_of_results_that_were_deleted_are_no_news(service):
    """Else its phone would ask for them for ever."""
    phone = ready(service)
    service.gateway.results.publish(1, [row(phone.device)])
    service.gateway.results.forget_device(phone.device.hex())
    service.gateway.downlink.refresh()
    told = Told()
    assert service.gateway.waits.hold(asks(phone), told) == phone.device
    assert told.bodies == []


def test_a_session_that_is_none_or_was_never_used_or_is_forged_may_not_wait(service):
    phone, told = service.phone(), Told()
    used = ready(service, "used")
    forged = asks(used)[:-1] + b"\0"
    service.gateway.waits.hold(forged if forged != asks(used) else asks(used)[:-1] + b"\1", told)
    phone.session._counter = 1  # it has a session, and has not used it
    service.gateway.waits.hold(asks(phone), told)
    service.gateway.waits.hold(b"\xe1" + bytes(55), told)
    service.gateway.waits.hold(b"short", told)
    assert [answer.status for answer in told.answers] == [401, 401, 401, 400]
    assert len(service.gateway.waits) == 0


def test_a_second_wait_of_a_device_ends_the_first(service):
    phone, first, second = ready(service), Told(), Told()
    waits = service.gateway.waits
    assert waits.hold(asks(phone), first) == waits.hold(asks(phone), second) == phone.device
    assert (first.bodies, second.bodies, len(waits)) == ([NO_NEWS], [], 1)
    waits.gone(phone.device, first)  # its connection breaks late, and is not the one that waits
    assert len(waits) == 1
    waits.gone(phone.device, second)
    assert len(waits) == 0


def test_waits_are_bounded_end_by_the_clock_and_cost_no_thread(service):
    phones = [ready(service, f"phone-{number}") for number in range(12)]
    now = [0.0]
    gateway = service.gateway
    waits = Waits(gateway.sessions, gateway.downlink, gateway.ingest, waits_max=10, clock=lambda: now[0])
    told, threads = [Told() for _ in phones], threading.active_count()
    held = []
    for phone, each in zip(phones, told, strict=True):
        now[0] += 1.0
        held.append(waits.hold(asks(phone), each))
    assert threading.active_count() == threads
    assert held == [phone.device for phone in phones[:10]] + [None, None]
    assert [answer.status for each in told[10:] for answer in each.answers] == [503, 503]
    now[0] = 5.0 + HOLD_S
    waits.expire()
    assert [each.bodies for each in told[:10]] == [[NO_NEWS]] * 5 + [[]] * 5
    assert len(waits) == 5


def test_the_gateways_own_server_holds_without_asgi_and_lets_go_when_it_ends(tmp_path: Path):
    async def story(app, connection, transport):
        gateway = app.gateway
        posted: list[tuple[int, bytes]] = []

        def post(body: bytes) -> tuple[int, bytes]:
            posted.append((0, b""))
            return 0, b""

        phone = PhoneClient(gateway.keys.public_key, post)
        gateway.roster.enrol(gateway.roster.new_code(0), phone.keys.public_key, "phone", 1)
        phone.enrolled(1)
        session = await _session(gateway, phone)
        body = session.wait(0, 0.0)
        head = b"POST /v1/wait HTTP/1.1\r\nHost: x\r\nContent-Type: " + MEDIA_TYPE
        connection.data_received(head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert (len(gateway.waits), transport.written, connection.is_busy()) == (1, b"", True)
        assert gateway.connections.strangers == 0  # who waits is known
        assert gateway.ingest.bodies.bytes == 0
        gateway.waits.news([phone.device])
        assert transport.written.endswith(NEWS)
        connection.data_received(head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.shutdown()
        assert transport.written.endswith(NO_NEWS)
        assert transport.is_closing()

    run(tmp_path, story)


async def _session(gateway, phone: PhoneClient):
    """A session that was used, without a server."""
    from shared.wire.frame import decode_one

    answers: asyncio.Queue[bytes] = asyncio.Queue()
    gateway.ingest.submit(phone.session.hello(), "127.0.0.1", lambda outcome: answers.put_nowait(outcome.body))
    phone.session.welcome(decode_one(await answers.get())[0], 0.0)
    gateway.ingest.submit(phone.session.seal([]), "127.0.0.1", lambda outcome: answers.put_nowait(outcome.body))
    await answers.get()
    return phone.session
