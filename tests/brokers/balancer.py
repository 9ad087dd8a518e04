"""What stands before several gateways: each new connection goes to the next of them that takes it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence

from tests.processes.gateway_process import GatewayProcess


class Balancer:
    """Carries bytes to and fro, in a thread of its own; started by `with`. A gateway that is not ready gets nobody."""

    def __init__(self, gateways: Sequence[GatewayProcess]) -> None:
        self._gateways = gateways
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> Balancer:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._carry, "127.0.0.1", 0), self._loop)
        self._server = started.result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turn)
        for number in range(len(self._gateways)):
            gateway = self._gateways[(first + number) % len(self._gateways)]
            try:
                if not await self._is_ready(gateway.port):
                    continue
                onward = await asyncio.open_connection("127.0.0.1", gateway.port)
            except (OSError, asyncio.IncompleteReadError):
                continue
            both = (self._copy(reader, onward[1]), self._copy(onward[0], writer))
            await asyncio.gather(*both, return_exceptions=True)
            return
        writer.close()

    async def _is_ready(self, port: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")
        try:
            return b" 200 " in await reader.readline()
        finally:
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
