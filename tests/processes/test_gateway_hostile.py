"""Whatever arrives, the gateway answers as documented, keeps its log as it was and goes on."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import socket
from collections import Counter
from pathlib import Path

import pytest

from cloud_backend.gateway.http_problems import status_of
from cloud_backend.log.verify import verify
from resurge.bench._hostile_requests import REFUSED, bombs, throw
from shared.spool.disk import PosixDisk
from shared.wire.envelope import EXCHANGE_BYTES_MAX
from shared.wire.frame import Frame, FrameType, decode_all, decode_one, encode
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.patience import PATIENCE_S
from tests.processes.digests import logged, sent
from tests.processes.gateway_process import GatewayProcess

pytestmark = pytest.mark.processes

MEDIA = "application/vnd.resurge.exchange"
_REQUEST = (
    b"POST /v1/exchange HTTP/1.1\r\nhost: x\r\ncontent-type: " + MEDIA.encode() + b"\r\ncontent-length: %d\r\n\r\n"
)
DOCUMENTED = {200, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429}
COUNTS = [2_000, pytest.param(100_000, marks=pytest.mark.soak)]


@pytest.fixture
def gateway(tmp_path: Path):
    with GatewayProcess(tmp_path / "home", "--rate", "1000000", "--failures", "1000000") as process:
        yield process


def log_bytes(gateway: GatewayProcess) -> dict[str, bytes]:
    return {path.name: path.read_bytes().rstrip(b"\0") for path in sorted((gateway.home / "log").iterdir())}


def resident_bytes(gateway: GatewayProcess) -> int:
    pages = Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Client:
    """Posts over one connection, opened again whenever the gateway closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = self._open()

    def _open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        return self.ask(path, body, headers)[0]

    def ask(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            return self._ask(path, body, headers)
        except (OSError, http.client.HTTPException):
            self.close()
            self._connection = self._open()
            return self._ask(path, body, headers)

    def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status < 500 or response.status in (503, 507), answer
        return response.status, answer

    def close(self) -> None:
        self._connection.close()


@pytest.mark.covers("SO-19")
@pytest.mark.parametrize("requests", COUNTS)
def test_hostile_requests_never_upset_the_gateway(gateway: GatewayProcess, requests, claim):
    rng = random.Random(11)
    phone = gateway.phone()
    phone.send(10)
    before, memory = log_bytes(gateway), resident_bytes(gateway)
    stranger = PhoneClient(gateway.key, lambda body: (0, b""))
    stranger.enrolled(1)
    client = Client(gateway.port)
    statuses: Counter[int] = Counter()
    for number in range(requests):
        path, body, headers = _hostile(rng, phone, stranger)
        statuses[client.post(path, body, headers)] += 1
        if number % 500 == 0:
            assert phone.hello()[0] == 200  # an honest phone is served throughout, in a session of its own
    client.close()
    claim(f"{sum(statuses.values())} requests: {dict(sorted(statuses.items()))}")
    assert set(statuses) <= DOCUMENTED
    assert sum(count for status, count in statuses.items() if status != 200) > requests // 2
    assert log_bytes(gateway) == before
    assert resident_bytes(gateway) - memory < 50 * 1024 * 1024
    assert phone.send(10) == 20


def _hostile(rng: random.Random, phone: PhoneClient, stranger: PhoneClient) -> tuple[str, bytes, dict[str, str]]:
    """A request with something wrong: in its bytes, its identity, its media type or its place."""
    kind = rng.randrange(9)
    if kind == 0:  # a real exchange with some bytes changed: the seal must not hold
        body = bytearray(phone.session.seal([phone.declare(), phone.batch(10, 20, rng.randbytes(100))]))
        for place in rng.sample(range(len(body)), rng.randrange(1, 5)):  # no place twice: changes could cancel out
            body[place] ^= rng.randrange(1, 256)
        return "/v1/exchange", bytes(body), {"content-type": MEDIA}
    if kind == 1:  # rightly sealed, wrong inside
        inside = bytearray(phone.batch(10, 20, rng.randbytes(50)))
        inside[rng.randrange(len(inside))] ^= rng.randrange(1, 256)
        return "/v1/exchange", phone.session.seal([bytes(inside)]), {"content-type": MEDIA}
    if kind == 2:
        return "/v1/exchange", rng.randbytes(rng.randrange(300)), {"content-type": MEDIA}
    if kind == 3:
        return "/v1/exchange", stranger.session.hello(), {"content-type": MEDIA}
    if kind == 4:  # every frame type, with a payload that is not one
        frame = Frame(
            rng.choice(list(FrameType)), phone.device, rng.randbytes(rng.randrange(200)),
            incarnation=rng.choice([0, 1, 2]), edge=rng.randrange(1 << 64), seq=rng.randrange(1 << 62),
            count=rng.randrange(1 << 24), codec=rng.randrange(256), frontier_us=rng.randrange(-(1 << 63), 1 << 63),
        )  # fmt: skip
        sealed = rng.random() < 0.8 and frame.type not in (FrameType.FRONTIER, FrameType.STATUS)
        return "/v1/exchange", phone.session.seal([encode(frame)]) if sealed else encode(frame), {"content-type": MEDIA}
    if kind == 5:
        body = rng.choice([b'{"code":NaN}', b"[" * 3000, b'{"code":1e400,"name":"\\ud800"}', rng.randbytes(80), b""])
        return "/v1/enrol", body, {"content-type": "application/json"}
    if kind == 6:
        value = {
            "code": "A" * 22,
            "public_key": rng.randbytes(32).hex(),
            "name": "x",
            "signature": rng.randbytes(64).hex(),
        }
        value |= {
            rng.choice(["code", "name", "extra", "signature"]): rng.choice([None, 5, "", "\x00", [], float("inf")])
        }
        return "/v1/enrol", json.dumps(value).encode(), {"content-type": "application/json"}
    if kind == 7:
        return (
            rng.choice(["/", "/v1", "/v1/exchange/", "/v1/exchange?x=1", "/../x", "/%00"]),
            b"x",
            {"content-type": MEDIA},
        )
    return "/v1/exchange", b"{}", {"content-type": rng.choice(["application/json", "text/plain", "x", MEDIA + ";a=b"])}


@pytest.mark.parametrize("requests", COUNTS)
def test_replays_change_nothing(gateway: GatewayProcess, requests, claim):
    phone, other = gateway.phone("a"), gateway.phone("b")
    exchanges = [phone.session.seal([phone.declare(), phone.batch(lo, lo + 10)]) for lo in range(0, 100, 10)]
    exchanges.append(phone.session.seal([phone.tombstone(100, 110)]))
    hello = other.session.hello()  # recorded on the way, repeated by somebody else
    client = Client(gateway.port)
    for body in exchanges:
        assert client.post("/v1/exchange", body, {"content-type": MEDIA}) == 200
    before = log_bytes(gateway)
    rng = random.Random(5)
    statuses: Counter[int] = Counter()
    greeted: Counter[int] = Counter()
    welcomes: set[bytes] = set()
    for _ in range(requests):
        if rng.random() < 0.95:
            statuses[client.post("/v1/exchange", rng.choice(exchanges), {"content-type": MEDIA})] += 1
            continue
        status, answer = client.ask("/v1/exchange", hello, {"content-type": MEDIA})
        greeted[status] += 1
        welcomes |= {answer} if status == 200 else set()
    client.close()
    claim(f"{requests} replays: exchanges {dict(statuses)}, HELLOs {dict(greeted)}")
    assert set(statuses) == {200}
    # Many in a moment are too many; after two minutes its session is no longer kept for whoever said it.
    assert set(greeted) <= {200, status_of("rate-limited"), status_of("hello-spent")}
    assert len(welcomes) == 1  # one session for all of them
    assert log_bytes(gateway) == before


@pytest.mark.parametrize("size", [EXCHANGE_BYTES_MAX + 1, 100 << 20, 1 << 40])
def test_a_body_that_declares_too_much_is_refused_before_it_is_sent(gateway: GatewayProcess, size):
    with socket.create_connection(("127.0.0.1", gateway.port), 10) as connection:
        connection.sendall(
            f"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA}\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_fifty_bombs_are_refused_and_memory_stays(gateway: GatewayProcess, claim):
    """Endless chunks, deep nesting, huge objects, compressed bodies nobody asked for."""
    memory = resident_bytes(gateway)
    phone = gateway.phone()
    refused = 0
    for bomb in bombs():
        status, _ = throw(gateway.port, bomb)
        assert status in REFUSED, status
        refused += 1
    claim(f"{refused} bombs refused")
    assert resident_bytes(gateway) - memory < 50 * 1024 * 1024
    assert phone.send(10) == 10


@pytest.mark.parametrize(("devices", "batches"), [(200, 4), pytest.param(1000, 20, marks=pytest.mark.soak)])
def test_a_fleet_that_reconnects_all_at_once_is_served_to_the_last_batch(
    gateway: GatewayProcess, devices, batches, claim
):
    phones = [gateway.phone(f"phone {number}") for number in range(devices)]
    gateway.kill()
    gateway.start()  # every session is gone, every phone comes back at once
    answers: Counter[int] = Counter()

    async def storm() -> None:
        await asyncio.gather(*(_catch_up(phone, gateway.port, batches, answers) for phone in phones))

    asyncio.run(storm())
    assert gateway.stop() == 0
    found = verify(PosixDisk(gateway.home / "log"))
    expected = sent([phone.device for phone in phones], batches * 50, 50, bytes(200))
    actual = logged(gateway.home / "log")
    lost = ", ".join(f"{count} answers {status}" for status, count in sorted(answers.items()))
    claim(f"{devices} devices at once, {lost}, {actual[0]} elements, digests {expected[1]} {actual[1]}")
    assert answers[401] >= devices  # each one met a gateway that had forgotten its session
    assert actual == expected
    assert (found.delivered, found.duplicates, found.gaps) == (devices * batches * 50, 0, 0)


async def _catch_up(phone: PhoneClient, port: int, batches: int, answers: Counter[int]) -> None:
    """A phone on a connection of its own, open from the first exchange to the last."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(body: bytes) -> tuple[int, bytes]:
        writer.write(_REQUEST % len(body) + body)
        status = int((await reader.readline()).split()[1])
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        answer = await reader.readexactly(int(headers.split(b"content-length:")[1].split(b"\r\n")[0]))
        answers[status] += 1
        return status, answer

    while phone.next < batches * 50:
        batch = phone.batch(phone.next, phone.next + 50, bytes(200))
        status, answer = await ask(phone.session.seal([phone.declare(), batch]))
        if status == 200:
            phone.next = max(frame.seq for frame in decode_all(phone.session.open(answer)))
        elif status == 429:
            await asyncio.sleep(0.05)
        else:
            assert status == 401
            status, answer = await ask(phone.session.hello())
            assert status == 200
            phone.session.welcome(decode_one(answer)[0], 0.0)
    writer.close()
    await writer.wait_closed()
