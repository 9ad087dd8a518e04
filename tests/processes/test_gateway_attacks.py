"""Everything at once against a fleet of honest devices: strangers, hostile devices, a viewer, a webhook's receiver, and phones
at a relay (`docs/threats.md`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cloud_backend.coordinator import people
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.people import People, Person
from cloud_backend.coordinator.roster import Roster
from cloud_backend.log.verify import verify
from mobile_app.links.link import LinkDown
from mobile_app.links.relay import RelayLink
from shared.identity import DeviceId
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType, decode_all, decode_one
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.patience import PATIENCE_S
from tests.processes.gateway_process import ROOT, GatewayProcess

pytestmark = pytest.mark.processes

HEAD = b"POST /v1/exchange HTTP/1.1\r\nhost: x\r\ncontent-type: application/vnd.resurge.exchange\r\ncontent-length: %d\r\n\r\n"
ELEMENTS = 10
EVERY_S = 1.0
WAKE_UP_S = 0.02
WAKE_UPS = (
    8  # of an exchange: the phone, the gateway's loop, its disk, and back, each behind whoever else has work here
)
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
    return statistics.quantiles([second for each in fleet for second in each.seconds], n=100)[98]


async def wake_ups(late: list[float]) -> None:
    """How much later than asked for the machine wakes somebody who does nothing else."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(WAKE_UP_S)
        late.append(time.monotonic() - began - WAKE_UP_S)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def own_priority() -> Iterator[None]:
    """Who attacks has a machine of their own; here they share one. Gateway and fleet need little of it, but soon."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@contextlib.contextmanager
def relay_to(gateway: GatewayProcess, home: Path) -> Iterator[tuple[str, int]]:
    """A relay's address and process id."""
    command = [sys.executable, "-m", "resurge", "node", "relay", "--gateway", f"http://127.0.0.1:{gateway.port}"]
    with (home / "relay.out").open("w+") as said:
        process = subprocess.Popen(
            ["nice", "-n", "20", *command, "--bind", "tcp://127.0.0.1:*"], cwd=ROOT, stdout=said, stderr=said
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while not (found := re.search(r"relay on (\S+)", (home / "relay.out").read_text())):
                assert process.poll() is None, "the relay ended"
                assert time.monotonic() < until, "the relay did not start"
                time.sleep(0.05)
            yield found[1], process.pid
        finally:
            process.kill()
            process.wait()


class Behind:
    """An honest phone behind the relay that strangers flood; a thread of its own."""

    def __init__(self, phone: PhoneClient, relay: str) -> None:
        self.phone = phone
        self.relay = relay
        self.refused = 0

    def run(self, for_s: float) -> None:
        """A batch a second; what the relay could not carry is tried again."""
        until = time.monotonic() + for_s
        link = RelayLink(self.relay)
        self.phone.post = lambda body: (200, link.exchange(body))
        while time.monotonic() < until:
            try:
                self.phone.send(ELEMENTS)
                time.sleep(EVERY_S)
            except LinkDown:
                self.refused += 1
                time.sleep(0.2)
        link.close()


@dataclass
class Receiver:
    """A webhook's receiver that drips one byte a second and never ends."""

    calls: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        self.tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while not writer.is_closing():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(1.0)
        writer.close()


def invite(home: Path, webhook_port: int) -> str:
    """A viewer's session, and webhooks that lead to a receiver which drips, with messages that are due."""
    now_us = time.time_ns() // 1000
    accounts = People(home / people.FILE)
    accounts.put("viewer", "viewer", now_us)
    cookie = accounts.open_session(Person("viewer", "viewer"), now_us)
    accounts.close()
    alerts = Alerts(home / "alerts.sqlite")
    for _ in range(5):
        hook = alerts.add_webhook(f"http://127.0.0.1:{webhook_port}/", now_us, private=True)
        for _ in range(20):
            alerts.test_webhook(hook.number, now_us)
    alerts.close()
    return cookie


def ask_to_delete(home: Path, device: DeviceId) -> None:
    roster = Roster(home / "roster.sqlite")
    roster.delete_data(device, time.time_ns() // 1000)
    roster.close()


def is_deleted(home: Path) -> bool:
    roster = Roster(home / "roster.sqlite")
    try:
        return all(each.done_us is not None for each in roster.deletions())
    finally:
        roster.close()


@pytest.mark.parametrize(("devices", "quiet_s", "attacked_s"), SIZES)
def test_honest_devices_are_served_while_everything_attacks_at_once(tmp_path, devices, quiet_s, attacked_s, claim):
    home = tmp_path / "home"
    options = ("--results", str(home / "results.sqlite"), "--jobs", str(home / "jobs"))
    with (
        own_priority(),
        GatewayProcess(home, *options, files=1024) as gateway,
        relay_to(gateway, tmp_path) as (relay, relay_pid),
    ):
        assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[0] == 1024
        fleet = [Honest(gateway.phone(f"honest {number}"), gateway.port) for number in range(devices)]
        slow = Honest(gateway.phone("slow"), gateway.port)
        behind = Behind(gateway.phone("behind a relay"), relay)
        leaving = gateway.phone("leaving")
        leaving.send(ELEMENTS)
        hostile = [os.urandom(32) for _ in range(3)]
        for private in hostile:
            gateway.phone("hostile", private=private)
        recorded = [slow.phone.session.hello() for _ in range(5)]
        for post in gateway.posts:
            post.close()
        before = [resident_bytes(pid) for pid in (gateway.process.pid, relay_pid)]
        instructions = {
            "port": gateway.port, "key": gateway.key.hex(), "relay": relay,
            "devices": [each.hex() for each in hostile], "recorded": [each.hex() for each in recorded],
        }  # fmt: skip
        story = Story(home, fleet, slow, behind, leaving.device, instructions)
        asyncio.run(story.run(quiet_s, attacked_s))
        grown, relay_grown = (
            resident_bytes(pid) - was for pid, was in zip((gateway.process.pid, relay_pid), before, strict=True)
        )
        health = gateway.get("/healthz")
        assert gateway.process.poll() is None, "the gateway ended"
        logged = sum(path.stat().st_size for path in (gateway.home / "log").iterdir())
        assert gateway.stop() == 0
    quiet, attacked, late, done = story.quiet, story.attacked, story.late, story.done
    claim(
        f"{devices} honest devices: p99 {quiet * 1000:.0f} ms quiet, {attacked * 1000:.0f} ms attacked "
        f"(a wake-up {late * 1000:.0f} ms late), "
        f"{max(each.retries_in_a_row_max for each in fleet)} retries in a row, {grown >> 20} MB more, relay "
        f"{relay_grown >> 20} MB; behind it {behind.phone.next} elements, {behind.refused} refused; {done}"
    )
    found = verify(PosixDisk(home / "log"))
    for phone, sent in ((behind.phone, behind.phone.next), *((each.phone, each.sent) for each in (*fleet, slow))):
        (account,) = [edge for key, edge in found.edges.items() if key.device == phone.device]
        assert (account.delivered, account.duplicates, account.gaps) == (sent, 0, 0)
    assert max(each.retries_in_a_row_max for each in fleet) <= 1
    assert attacked <= max(3 * quiet, 1.0) + WAKE_UPS * late
    assert health == (200, b'{"status":"ok"}')
    assert story.deleted_in_s is not None, "a deletion waited for the webhooks"
    assert story.receiver.calls
    assert behind.phone.next >= ELEMENTS * attacked_s / 4
    assert grown < 200 << 20
    assert relay_grown < 200 << 20
    assert logged < 100 << 20
    for what in ("recorded HELLOs", "trailer bytes", "unread requests", "announced", "silent", "questions", "relayed"):
        assert any(name.startswith(what) for name in done), (what, done)


@dataclass
class Story:
    """Quiet first, then under attack. Meanwhile a slow phone opens a session, with its HELLOs recorded, one behind a
    relay goes on, and somebody asks for a device's data to be deleted."""

    home: Path
    fleet: list[Honest]
    slow: Honest
    behind: Behind
    leaving: DeviceId
    instructions: dict[str, object]
    receiver: Receiver = field(default_factory=Receiver)
    quiet: float = 0.0
    attacked: float = 0.0
    late: float = 0.0  # of a wake-up, meanwhile
    done: dict[str, int] = field(default_factory=dict)
    deleted_in_s: float | None = None

    async def run(self, quiet_s: float, attacked_s: float) -> None:
        self.quiet = await self._for_a_while(quiet_s)
        server = await asyncio.start_server(self.receiver.answer, "127.0.0.1", 0)
        cookie = await asyncio.to_thread(invite, self.home, server.sockets[0].getsockname()[1])
        attacks = [await self._attack(cookie), await self._attack(cookie, "relay")]
        try:
            async with asyncio.timeout(PATIENCE_S):
                for attack in attacks:
                    assert await attack.stdout.readline() == b"begun\n"
            late: list[float] = []
            waking = asyncio.create_task(wake_ups(late))
            self.attacked, *_ = await asyncio.gather(
                self._for_a_while(attacked_s),
                self._slowly(attacked_s),
                asyncio.to_thread(self.behind.run, attacked_s),
                self._delete(attacked_s + 20.0),
            )
            waking.cancel()
            self.late = statistics.quantiles(late, n=100)[98]
            async with asyncio.timeout(PATIENCE_S):
                for attack in attacks:
                    attack.stdin.close()
                    self.done |= json.loads(await attack.stdout.read())
                    await attack.wait()
        finally:
            for attack in attacks:
                if attack.returncode is None:
                    attack.kill()
                    await attack.wait()
            server.close()
            for each in (*self.fleet, self.slow):
                each.close()
            await self.receiver.end()

    async def _attack(self, cookie: str, *what: str) -> asyncio.subprocess.Process:
        attack = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.processes.attackers",
            *what,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        attack.stdin.write(json.dumps({**self.instructions, "cookie": cookie}).encode() + b"\n")
        return attack

    async def _for_a_while(self, seconds: float) -> float:
        for each in self.fleet:
            each.seconds.clear()
        spread = [EVERY_S * number / len(self.fleet) for number in range(len(self.fleet))]
        await asyncio.gather(*(each.run(seconds, at) for each, at in zip(self.fleet, spread, strict=True)))
        return p99(self.fleet)

    async def _slowly(self, attacked_s: float) -> None:
        await self.slow.greet(wait_s=min(5.0, attacked_s / 3))
        await self.slow.send()

    async def _delete(self, seconds_max: float) -> None:
        began = time.monotonic()
        await asyncio.to_thread(ask_to_delete, self.home, self.leaving)
        while time.monotonic() - began < seconds_max:
            if await asyncio.to_thread(is_deleted, self.home):
                self.deleted_in_s = time.monotonic() - began
                return
            await asyncio.sleep(0.2)
