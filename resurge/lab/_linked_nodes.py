"""Links between node processes of this machine that are really lost and gained.

`Namespaces`: every node lives in a network namespace, with a veth pair for every link; a link that is taken down is
gone, packets and all. Only who may administer networks makes those. `Doors` need no right: all nodes listen on
loopback, and the phone and the others reach each other through a small forwarder for each pair, which passes nothing on
while their link is down. Both say what they are (`kind`), and whoever measures or claims something says it, too.

Every node has one address, whoever reaches it over which link. Only the phone's links change. It reaches the
coordinator while it reaches anybody: the others route IP there, as an access point does.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from resurge.up.process_fleet import COORDINATOR, PHONE, free_address

PORT = 7301
READ_BYTES = 1 << 16
Links = Sequence[tuple[str, str]]


class Network(Protocol):
    kind: str
    names: list[str]

    def address(self, name: str) -> str: ...

    def run_by(self, name: str) -> list[str]: ...

    def gain(self, hub: str) -> None: ...

    def lose(self, hub: str) -> None: ...


def may_make_namespaces() -> bool:
    """Being root is not enough where a container withholds the right to administer networks."""
    if shutil.which("ip") is None:
        return False
    name = f"resurge-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        made = subprocess.run(
            ["ip", "-n", name, "link", "add", "try-a", "type", "veth", "peer", "name", "try-b"],
            capture_output=True, check=False,
        ).returncode == 0  # fmt: skip
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


def network(names: Sequence[str], links: Links, folder: Path) -> Namespaces | Doors:
    """Namespaces where they can be made, else doors, whose maps lie in `folder`."""
    return Namespaces(names, links) if may_make_namespaces() else Doors(names, folder)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr}")


class Namespaces:
    """The network. It is taken away at the end."""

    kind = "network namespaces"

    def __init__(self, names: Sequence[str], links: Links) -> None:
        self.names, self._links = list(names), list(links)

    def _space(self, name: str) -> str:
        return f"resurge-{os.getpid()}-{name}"

    def _ip_of(self, name: str) -> str:
        return f"10.77.0.{1 + self.names.index(name)}"

    def address(self, name: str) -> str:
        return f"tcp://{self._ip_of(name)}:{PORT}"

    def run_by(self, name: str) -> list[str]:
        """The command that runs a node's command where the node lives."""
        return ["ip", "netns", "exec", self._space(name)]

    def __enter__(self) -> Namespaces:
        for name in self.names:
            _ip("netns", "add", self._space(name))
            _ip("-n", self._space(name), "link", "set", "lo", "up")
            _ip("-n", self._space(name), "addr", "add", f"{self._ip_of(name)}/32", "dev", "lo")
            if name != PHONE:
                forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
                _ip("netns", "exec", self._space(name), "sh", "-c", forward)
        for one, other in self._links:
            spaces = [self._space(one), self._space(other)]
            _ip("link", "add", f"to-{other}", "netns", spaces[0], "type", "veth",
                "peer", "name", f"to-{one}", "netns", spaces[1])  # fmt: skip
            for here, there in ((one, other), (other, one)):
                if PHONE not in (here, there):
                    self._up(here, there)
        for name in self.names:
            if name not in (PHONE, COORDINATOR):
                self._route(self._path(name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self._space(name)], check=False)

    def _up(self, here: str, there: str) -> None:
        _ip("-n", self._space(here), "link", "set", f"to-{there}", "up")
        _ip("-n", self._space(here), "route", "replace", f"{self._ip_of(there)}/32", "dev", f"to-{there}",
            "src", self._ip_of(here))  # fmt: skip

    def _path(self, begins: str) -> list[str]:
        """From a node to the coordinator, not over the phone."""
        paths = [[begins]]
        for path in paths:
            if path[-1] == COORDINATOR:
                return path
            for one, other in self._links:
                for here, there in ((one, other), (other, one)):
                    if here == path[-1] and there != PHONE and there not in path:
                        paths.append([*path, there])
        raise RuntimeError(f"no way from {begins} to the coordinator")

    def _route(self, path: Sequence[str]) -> None:
        """The two ends of a path reach each other over it."""
        first, last = path[0], path[-1]
        for at, name in enumerate(path):
            if at + 1 < len(path) and path[at + 1] != last:
                self._via(name, last, path[at + 1])
            if at and path[at - 1] != first:
                self._via(name, first, path[at - 1])

    def _via(self, name: str, to: str, over: str) -> None:
        _ip("-n", self._space(name), "route", "replace", f"{self._ip_of(to)}/32", "via", self._ip_of(over),
            "dev", f"to-{over}", "onlink", "src", self._ip_of(name))  # fmt: skip

    def gain(self, hub: str) -> None:
        """The phone reaches this hub from now on, and over it the coordinator."""
        self._up(PHONE, hub)
        self._up(hub, PHONE)
        self._route([PHONE, *self._path(hub)])

    def lose(self, hub: str) -> None:
        """The link between the phone and this hub is gone."""
        _ip("-n", self._space(PHONE), "link", "set", f"to-{hub}", "down")


class Doors:
    """Between the phone and each other node stands a forwarder, one for each direction of calling."""

    kind = "forwarders on loopback"

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self.names, self._folder = list(names), folder
        self._addresses = {name: free_address() for name in names}
        self._reached: set[str] = set()
        self._doors: dict[str, dict[str, str]] = {name: {} for name in names}  # of a node: {address: door before it}
        self._open: dict[str, asyncio.Event] = {}  # by the node at the other end of the phone's link
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="doors", daemon=True)

    def address(self, name: str) -> str:
        return self._addresses[name]

    def run_by(self, name: str) -> list[str]:
        return [sys.executable, "-m", "resurge.lab._through_doors", str(self._folder / f"{name}.doors")]

    def __enter__(self) -> Doors:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._hang(), self._loop).result()
        for name, doors in self._doors.items():
            (self._folder / f"{name}.doors").write_text(json.dumps(doors))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._take_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _take_down(self) -> None:
        for server in self._servers:
            server.close()
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _hang(self) -> None:
        for other in self.names:
            if other == PHONE:
                continue
            event = self._open[other] = asyncio.Event()
            for here, there in ((PHONE, other), (other, PHONE)):
                port = int(self._addresses[there].rpartition(":")[2])

                async def serve(
                    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port,
                    event: asyncio.Event = event,
                ) -> None:  # fmt: skip
                    await _pass_on(reader, writer, port, event)

                server = await asyncio.start_server(serve, "127.0.0.1", 0)
                self._servers.append(server)
                self._doors[here][self._addresses[there]] = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def gain(self, hub: str) -> None:
        self._reached.add(hub)
        self._loop.call_soon_threadsafe(self._open[hub].set)
        self._loop.call_soon_threadsafe(self._open[COORDINATOR].set)

    def lose(self, hub: str) -> None:
        self._reached.discard(hub)
        self._loop.call_soon_threadsafe(self._open[hub].clear)
        if not self._reached:
            self._loop.call_soon_threadsafe(self._open[COORDINATOR].clear)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, link: asyncio.Event
) -> None:  # fmt: skip
    """One connection, both ways, while there is a link. What was under way when it went arrives when it is back, as a
    packet that is sent again does."""
    with contextlib.closing(writer):
        await link.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # nobody listens there yet
            return
        with contextlib.closing(far_writer):
            ways = [asyncio.create_task(_pump(*way, link)) for way in ((reader, far_writer), (far_reader, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(READ_BYTES):
            await link.wait()
            writer.write(data)
            await writer.drain()


def nodes_of(links: Links) -> list[str]:
    """The coordinator, the phone, and the hubs of these links."""
    names = sorted(set(itertools.chain.from_iterable(links)) - {COORDINATOR, PHONE})
    return [COORDINATOR, PHONE, *names]
