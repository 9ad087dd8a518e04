"""Everything at once: strangers and hostile devices against a fleet of honest ones (`docs/threats.md`)."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cloud_backend.log.verify import verify
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType, decode_all, decode_one
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.processes.gateway_process import ROOT, GatewayProcess

pytestmark = pytest.mark.processes

HEAD = b"POST /v1/exchange HTTP/1.1\r\nhost: x\r\ncontent-type: application/vnd.resurge.exchange\r\ncontent-length: %d\r\n\r\n"
ELEMENTS = 10
EVERY_S = 1.0
SIZES = [
    pytest.param(40, 3, 9, id="small"),
    pytest.param(200, 30, 120, id="soak", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
]


@dataclass
class Honest:
    """A phone that sends a batch every second on one connection, and a new one when that broke."""

    phone: PhoneClient
    port: int
    seconds: list[float] = field(default_factory=list)
    retries_in_a_row_max: int = 0
    sent: int = 0
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, for_s: float, offset_s: float) -> None:
        await asyncio.sleep(offset_s)
        end = time.monotonic() + for_s - offset_s
        while time.monotonic() < end:
            started = time.monotonic()
            await self.send()
            self.seconds.append(time.monotonic() - started)
            await asyncio.sleep(max(0.0, EVERY_S - self.seconds[-1]))

    async def send(self) -> None:
        """One batch until it is acknowledged; whatever goes wrong may be tried again."""
        retries = 0
        wanted = self.phone.next + ELEMENTS
        while self.phone.next < wanted:
            try:
                frames = (self.phone.declare(), self.phone.batch(self.phone.next, wanted, bytes(1000)))
                status, answer = await self._post(self.phone.session.seal(frames))
                if status == 401:
                    await self.greet()
                    continue
                if status == 200:
                    opened = self.phone.session.open(answer)
                    self.phone.next = max(each.seq for each in decode_all(opened) if each.type is FrameType.RECEIPT)
                    continue
            except (OSError, EOFError):
                self.close()
            retries += 1
            self.retries_in_a_row_max = max(self.retries_in_a_row_max, retries)
            await asyncio.sleep(0.2)
        self.sent = self.phone.next

    async def greet(self, *, wait_s: float = 0.0) -> None:
        for _ in range(3):  # a crowd of strangers may push it out: it is one until its first exchange
            try:
                status, answer = await self._post(self.phone.session.hello())
                break
            except (OSError, EOFError):
                self.close()
        assert status == 200
        await asyncio.sleep(wait_s)
        self.phone.session.welcome(decode_one(answer)[0], 0.0)

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        writer.write(HEAD % len(body) + body)
        line = await reader.readline()
        if not line:
            raise EOFError
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        answer = await reader.readexactly(int(headers.split(b"content-length:")[1].split(b"\r\n")[0]))
        if b"connection: close" in headers:
            self.close()
        return int(line.split()[1]), answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def p99(fleet: list[Honest]) -> float:
    seconds = sorted(second for each in fleet for second in each.seconds)
    return statistics.quantiles(seconds, n=100)[98]


def resident_bytes(gateway: GatewayProcess) -> int:
    return int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("devices", "quiet_s", "attacked_s"), SIZES)
def test_honest_devices_are_served_while_everything_attacks_at_once(tmp_path, devices, quiet_s, attacked_s, claim):
    with GatewayProcess(tmp_path / "home", files=1024) as gateway:
        assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[0] == 1024
        fleet = [Honest(gateway.phone(f"honest {number}"), gateway.port) for number in range(devices)]
        slow = Honest(gateway.phone("slow"), gateway.port)
        hostile = [os.urandom(32) for _ in range(3)]
        for private in hostile:
            gateway.phone("hostile", private=private)
        recorded = [slow.phone.session.hello() for _ in range(5)]
        for post in gateway.posts:
            post.close()
        before = resident_bytes(gateway)
        instructions = {
            "port": gateway.port, "seconds": attacked_s, "key": gateway.key.hex(),
            "devices": [each.hex() for each in hostile], "recorded": [each.hex() for each in recorded],
        }  # fmt: skip
        quiet, attacked, done = asyncio.run(_story(fleet, slow, instructions, quiet_s, attacked_s))
        grown = resident_bytes(gateway) - before
        health = gateway.get("/healthz")
        assert gateway.process.poll() is None, "the gateway ended"
        logged = sum(path.stat().st_size for path in (gateway.home / "log").iterdir())
        assert gateway.stop() == 0
    claim(
        f"{devices} honest devices: p99 {quiet * 1000:.0f} ms quiet, {attacked * 1000:.0f} ms attacked, "
        f"{max(each.retries_in_a_row_max for each in fleet)} retries in a row, {grown >> 20} MB more; {done}"
    )
    found = verify(PosixDisk(tmp_path / "home" / "log"))
    for each in (*fleet, slow):
        (account,) = [edge for key, edge in found.edges.items() if key.device == each.phone.device]
        assert (account.delivered, account.duplicates, account.gaps) == (each.sent, 0, 0)
    assert max(each.retries_in_a_row_max for each in fleet) <= 1
    assert attacked <= max(3 * quiet, 1.0)
    assert health == (200, b'{"status":"ok"}')
    assert grown < 200 << 20
    assert logged < 100 << 20
    for what in ("recorded HELLOs", "trailer bytes", "unread requests", "announced: hung up on", "silent"):
        assert any(name.startswith(what.split(":")[0]) for name in done), (what, done)


async def _story(fleet, slow, instructions, quiet_s, attacked_s):
    """Quiet first, then under attack; a slow phone opens a session meanwhile, with its HELLOs recorded."""

    async def for_a_while(seconds: float) -> float:
        for each in fleet:
            each.seconds.clear()
        spread = [EVERY_S * number / len(fleet) for number in range(len(fleet))]
        await asyncio.gather(*(each.run(seconds, at) for each, at in zip(fleet, spread, strict=True)))
        return p99(fleet)

    quiet = await for_a_while(quiet_s)
    attack = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.processes.attackers", cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    attack.stdin.write(json.dumps(instructions).encode())
    attack.stdin.close()
    try:
        await asyncio.sleep(1.0)  # until it has begun

        async def slowly() -> None:
            await slow.greet(wait_s=min(5.0, attacked_s / 3))
            await slow.send()

        attacked, _ = await asyncio.gather(for_a_while(attacked_s - 1.0), slowly())
        async with asyncio.timeout(60):
            done = json.loads(await attack.stdout.read())
            await attack.wait()
    finally:
        if attack.returncode is None:
            attack.kill()
            await attack.wait()
        for each in (*fleet, slow):
            each.close()
    return quiet, attacked, done
