"""Everything a stranger, a hostile device or a viewer did to an earlier gateway, at once; a process of its own.

    python -m tests.processes.attackers < instructions
    python -m tests.processes.attackers relay < instructions

Instructions are a line of JSON: `port` on this machine, the gateway's `key`, private keys of hostile `devices` that are enrolled, and
HELLOs that were `recorded`, all in hexadecimal; the session `cookie` of a viewer and the address of a `relay`, which only the
second of them floods. Each attack goes on as fast as it is answered. Once each has come through it says so in a line, and
goes on until its input ends; then it prints what it did as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import zmq

from cloud_backend.gateway.connections import raise_file_limit
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.wire.envelope import EXCHANGE_BYTES_MAX
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import Declare
from tests.cloud_backend.gateway.phone_client import PhoneClient

MEDIA = b"application/vnd.resurge.exchange"
HEAD = b"POST /v1/exchange HTTP/1.1\r\nhost: x\r\ncontent-type: " + MEDIA + b"\r\n"
SILENT_SOCKETS = 1500  # more than a process with `ulimit -n 1024` can open
ANNOUNCING_SOCKETS = 60
QUESTIONS_AT_ONCE = 8
LONGEST_S = 600.0
KINDS = ("recorded HELLOs", "trailer bytes", "unread requests", "announced", "silent", "questions")
PHONES_AT_RELAY = 60
RELAY_LINK_BYTES_PER_S = 30_000_000
QUESTION = "SELECT " + "+".join(["1"] * 6000)  # 12 KB that an earlier gateway compiled for minutes
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Attack:
    def __init__(self, instructions: dict) -> None:
        self.port: int = instructions["port"]
        self.until = time.monotonic() + LONGEST_S
        self.is_told = False
        self.kinds = KINDS
        self.key = bytes.fromhex(instructions["key"])
        self.recorded = [bytes.fromhex(each) for each in instructions["recorded"]]
        self.phones = [self._phone(bytes.fromhex(each)) for each in instructions["devices"]]
        self.cookie: str = instructions["cookie"]
        self.relay: str = instructions["relay"]
        self.done: Counter[str] = Counter()

    def _phone(self, private: bytes) -> PhoneClient:
        phone = PhoneClient(self.key, lambda _: (0, b""), private=private)
        phone.enrolled(1)
        return phone

    @property
    def goes_on(self) -> bool:
        return not self.is_told and time.monotonic() < self.until

    def attend(self) -> None:
        """Say when every attack has come through, then wait to be told that it is enough."""
        while time.monotonic() < self.until and not all(
            any(name.startswith(kind) for name in list(self.done)) for kind in self.kinds
        ):
            time.sleep(0.05)
        print("begun", flush=True)
        sys.stdin.read()
        self.is_told = True

    @contextlib.asynccontextmanager
    async def connection(self, source: str = "127.0.0.2") -> AsyncIterator[tuple[Reader, Writer]]:
        """Most come from an address of their own: the crowd of silent ones would push them out too."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def again(self, what: str, act: Callable[[], Awaitable[None]], pause_s: float = 0.0) -> None:
        """Do it again and again; being hung up on is what should happen."""
        while self.goes_on:
            try:
                async with asyncio.timeout(max(0.1, self.until - time.monotonic())):
                    await act()
                self.done[what] += 1
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                self.done[f"{what}: hung up on"] += 1
            await asyncio.sleep(pause_s)

    async def run(self) -> dict[str, int]:
        hostile, declaring, unread = self.phones[:3]
        repeated = [
            self.again("recorded HELLO", self.repeat_recorded),
            self.again("stranger's HELLO", self.bad_hello),
            self.again("surrogate", lambda: self.say(hostile, self.surrogate(hostile))),
            self.again("declarations", lambda: self.say(declaring, *self.declarations(declaring))),
            self.again("unread answers", lambda: self.never_read(unread)),
            *(self.again("trailers", self.trailers) for _ in range(4)),
            *(self.again("announced", self.announce) for _ in range(ANNOUNCING_SOCKETS)),
            *(self.again("started", self.start_body) for _ in range(8)),
            *(self.again("silent", self.silent) for _ in range(SILENT_SOCKETS)),
            *(self.again("questions", self.ask) for _ in range(QUESTIONS_AT_ONCE)),
        ]
        tasks = [asyncio.create_task(each) for each in repeated]
        await asyncio.to_thread(self.attend)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return dict(self.done)

    async def post(self, reader: Reader, writer: Writer, body: bytes) -> tuple[int, bytes]:
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        line = await reader.readline()
        if not line:
            raise EOFError
        status = int(line.split()[1])
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        return status, await reader.readexactly(int(headers.split(b"content-length:")[1].split(b"\r\n")[0]))

    async def say(self, phone: PhoneClient, *frames: bytes) -> None:
        """One exchange of a hostile device, in a session of its own."""
        async with self.connection() as (reader, writer):
            status, answer = await self.post(reader, writer, phone.session.hello())
            if status == 200:
                phone.session.welcome(decode_one(answer)[0], 0.0)
                status, _ = await self.post(reader, writer, phone.session.seal(frames))
            self.done[f"answered {status}"] += 1

    def surrogate(self, phone: PhoneClient) -> bytes:
        payload = b'{"edge":"\\ud800","schema":[["lat","float64"]]}' + b" " * 50_000
        return encode(Frame(FrameType.DECLARE, phone.device, payload, incarnation=1, edge=phone.edge))

    def declarations(self, phone: PhoneClient) -> list[bytes]:
        """As many edges as fit an exchange, with schemas as large as a message may be."""
        name = os.urandom(8).hex()
        schema = Schema.of({f"column {at} {'x' * 180}": "float64" for at in range(250)})
        made = [Declare(phone.device, 1, edge_id(f"{name} {at}"), f"{name} {at}", schema) for at in range(20)]
        return [encode(each.frame()) for each in made]

    async def repeat_recorded(self) -> None:
        """All of them again and again over one connection."""
        async with self.connection() as (reader, writer):
            while self.goes_on:
                for hello in self.recorded:
                    await self.post(reader, writer, hello)
                    self.done["recorded HELLOs"] += 1

    async def bad_hello(self) -> None:
        stranger = PhoneClient(self.key, lambda _: (0, b""))
        async with self.connection() as (reader, writer):
            for _ in range(20):
                await self.post(reader, writer, stranger.session.hello())

    async def never_read(self, phone: PhoneClient) -> None:
        """Requests whose answers nobody takes, until the gateway hangs up."""
        async with self.connection() as (reader, writer):
            status, answer = await self.post(reader, writer, phone.session.hello())
            if status != 200:
                return
            phone.session.welcome(decode_one(answer)[0], 0.0)
            writer.transport.pause_reading()
            body = phone.session.seal([phone.declare()])
            request = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
            while self.goes_on and not writer.is_closing():
                writer.write(request * 20)
                async with asyncio.timeout(5):
                    await writer.drain()
                self.done["unread requests"] += 20

    async def trailers(self) -> None:
        async with self.connection() as (_, writer):
            writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n")
            while self.goes_on and not writer.is_closing():
                writer.write(b"x: " + b"y" * 60_000 + b"\r\n")
                await writer.drain()
                self.done["trailer bytes"] += 60_000

    async def announce(self) -> None:
        async with self.connection() as (reader, writer):
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % EXCHANGE_BYTES_MAX)
            self.done["announced bodies"] += 1
            await reader.read(1000)

    async def start_body(self) -> None:
        async with self.connection() as (reader, writer):
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % EXCHANGE_BYTES_MAX + b"\xe1" * 500_000)
            await writer.drain()
            await reader.read(1000)

    async def silent(self) -> None:
        """From the address that the honest devices have."""
        async with self.connection("127.0.0.1") as (reader, _):
            self.done["silent sockets"] += 1
            await reader.read(1)

    async def ask(self) -> None:
        """A viewer's question that takes long to compile."""
        token = hmac.new(self.cookie.encode(), b"resurge-csrf", hashlib.sha256).hexdigest()
        body = json.dumps({"sql": QUESTION}).encode()
        async with self.connection() as (reader, writer):
            writer.write(
                b"POST /v1/api/queries/explain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                b"cookie: resurge_session=%s\r\nx-csrf-token: %s\r\ncontent-length: %d\r\n\r\n"
                % (self.cookie.encode(), token.encode(), len(body))
                + body
            )
            line = await reader.readline()
            if not line:
                raise EOFError
            self.done[f"questions answered {int(line.split()[1])}"] += 1

    def flood_relay(self) -> None:
        """Phones that send a relay large questions and read no answer, for as long as it goes on: as many bytes a second
        as a fast link brings, since a relay is not on the gateway's machine."""
        body = bytes(5_000_000)
        with zmq.Context() as context:
            phones = [context.socket(zmq.DEALER) for _ in range(PHONES_AT_RELAY)]
            for phone in phones:
                phone.linger = 0
                phone.sndtimeo = 0
                phone.sndhwm = 2
                phone.connect(self.relay)
            while self.goes_on:
                for number, phone in enumerate(phones):
                    with contextlib.suppress(zmq.Again):
                        phone.send_multipart([b"%d" % number, b"exchange", body], copy=False)
                        self.done["relayed bytes"] += len(body)
                    time.sleep(len(body) / RELAY_LINK_BYTES_PER_S)
            for phone in phones:
                phone.close()


if __name__ == "__main__":
    raise_file_limit()
    os.nice(20)  # on machines of their own they would not take the gateway's processor
    given = Attack(json.loads(sys.stdin.readline()))
    if sys.argv[1:] == ["relay"]:
        given.kinds = ("relayed",)
        threading.Thread(target=given.attend, daemon=True).start()
        given.flood_relay()
        print(json.dumps(given.done))
    else:
        print(json.dumps(asyncio.run(given.run())))
