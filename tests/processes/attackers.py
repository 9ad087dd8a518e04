"""Everything a stranger or a hostile device did to an earlier gateway, at once; a process of its own.

    python -m tests.processes.attackers < instructions

Instructions are one JSON object: `port` on this machine, `seconds`, the gateway's `key`, private keys of hostile `devices`
that are enrolled, and HELLOs that were `recorded`, all in hexadecimal. Rates are bounded: this is about what is held and
what is waited for, not about more traffic than a machine takes. It ends by itself and prints what it did as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator

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
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Attack:
    def __init__(self, instructions: dict) -> None:
        self.port: int = instructions["port"]
        self.until = time.monotonic() + instructions["seconds"]
        self.key = bytes.fromhex(instructions["key"])
        self.recorded = [bytes.fromhex(each) for each in instructions["recorded"]]
        self.phones = [self._phone(bytes.fromhex(each)) for each in instructions["devices"]]
        self.done: Counter[str] = Counter()

    def _phone(self, private: bytes) -> PhoneClient:
        phone = PhoneClient(self.key, lambda _: (0, b""), private=private)
        phone.enrolled(1)
        return phone

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[Reader, Writer]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def again(self, what: str, act, pause_s: float) -> None:
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
            self.again("recorded HELLO", self.repeat_recorded, 0.0),
            self.again("stranger's HELLO", self.bad_hello, 0.005),
            self.again("surrogate", lambda: self.say(hostile, self.surrogate(hostile)), 0.05),
            self.again("declarations", lambda: self.say(declaring, *self.declarations(declaring)), 0.2),
            self.again("unread answers", lambda: self.never_read(unread), 0.1),
            *(self.again("trailers", self.trailers, 0.1) for _ in range(4)),
            *(self.again("announced", self.announce, 0.5) for _ in range(ANNOUNCING_SOCKETS)),
            *(self.again("started", self.start_body, 0.5) for _ in range(8)),
            *(self.again("silent", self.silent, 3.0) for _ in range(SILENT_SOCKETS)),
        ]
        await asyncio.gather(*repeated)
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
        """Fifty a second over one connection."""
        async with self.connection() as (reader, writer):
            while self.goes_on:
                for hello in self.recorded:
                    await self.post(reader, writer, hello)
                    self.done["recorded HELLOs"] += 1
                    await asyncio.sleep(0.02)

    async def bad_hello(self) -> None:
        stranger = PhoneClient(self.key, lambda _: (0, b""))
        async with self.connection() as (reader, writer):
            for _ in range(20):
                await self.post(reader, writer, stranger.session.hello())
                await asyncio.sleep(0.01)

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
                await asyncio.sleep(0.02)

    async def trailers(self) -> None:
        async with self.connection() as (_, writer):
            writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n")
            while self.goes_on and not writer.is_closing():
                writer.write(b"x: " + b"y" * 60_000 + b"\r\n")
                await writer.drain()
                self.done["trailer bytes"] += 60_000
                await asyncio.sleep(0.01)

    async def announce(self) -> None:
        async with self.connection() as (reader, writer):
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % EXCHANGE_BYTES_MAX)
            await reader.read(1000)

    async def start_body(self) -> None:
        async with self.connection() as (reader, writer):
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % EXCHANGE_BYTES_MAX + b"\xe1" * 500_000)
            await writer.drain()
            await reader.read(1000)

    async def silent(self) -> None:
        async with self.connection() as (reader, _):
            await reader.read(1)


if __name__ == "__main__":
    raise_file_limit()
    print(json.dumps(asyncio.run(Attack(json.load(sys.stdin)).run())))
