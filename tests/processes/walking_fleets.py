"""Fleets whose nodes each live in a network namespace, with a veth pair for every link: a link that is taken down is
really gone. Only root makes namespaces (`conftest.py`).

Every node has one address, whoever reaches it over which link. Rows go only to nodes at the other end of a link. The
coordinator is reached over other nodes as well: those route IP to it, as an access point does.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.processes.fleets import COORDINATOR, PHONE, Fleet, Program

PORT = 7301
Links = Sequence[tuple[str, str]]


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


class Namespaces:
    """The network. It is taken away at the end."""

    def __init__(self, names: Sequence[str], links: Links) -> None:
        self.names, self._links = list(names), list(links)

    def space(self, name: str) -> str:
        return f"resurge-{os.getpid()}-{name}"

    def address(self, name: str) -> str:
        return f"10.77.0.{1 + self.names.index(name)}"

    def __enter__(self) -> Namespaces:
        assert os.geteuid() == 0, "links that are really lost need network namespaces, which only root makes"
        for name in self.names:
            _ip("netns", "add", self.space(name))
            _ip("-n", self.space(name), "link", "set", "lo", "up")
            _ip("-n", self.space(name), "addr", "add", f"{self.address(name)}/32", "dev", "lo")
            if name != PHONE:
                forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
                _ip("netns", "exec", self.space(name), "sh", "-c", forward)
        for one, other in self._links:
            spaces = [self.space(one), self.space(other)]
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
            subprocess.run(["ip", "netns", "del", self.space(name)], check=False)

    def _up(self, here: str, there: str) -> None:
        _ip("-n", self.space(here), "link", "set", f"to-{there}", "up")
        _ip("-n", self.space(here), "route", "replace", f"{self.address(there)}/32", "dev", f"to-{there}",
            "src", self.address(here))  # fmt: skip

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
        raise AssertionError(f"no way from {begins} to the coordinator")

    def _route(self, path: Sequence[str]) -> None:
        """The two ends of a path reach each other over it."""
        first, last = path[0], path[-1]
        for at, name in enumerate(path):
            if at + 1 < len(path) and path[at + 1] != last:
                self._via(name, last, path[at + 1])
            if at and path[at - 1] != first:
                self._via(name, first, path[at - 1])

    def _via(self, name: str, to: str, over: str) -> None:
        _ip("-n", self.space(name), "route", "replace", f"{self.address(to)}/32", "via", self.address(over),
            "dev", f"to-{over}", "onlink", "src", self.address(name))  # fmt: skip

    def gain(self, hub: str) -> None:
        """The phone reaches this hub from now on, and over it the coordinator."""
        self._up(PHONE, hub)
        self._up(hub, PHONE)
        self._route([PHONE, *self._path(hub)])

    def lose(self, hub: str) -> None:
        """The link between the phone and this hub is gone."""
        _ip("-n", self.space(PHONE), "link", "set", f"to-{hub}", "down")


class WalkingFleet(Fleet):
    """A fleet on such a network. Its file says which nodes are linked."""

    def __init__(
        self, folder: Path, program: Program, network: Namespaces, *, links: Links, hosts: Mapping[str, str], rows: int,
        strategy: str = "ecoc", keepers: int = 1,
    ) -> None:  # fmt: skip
        self.network = network
        hubs = sum(name.startswith("hub") for name in network.names)
        super().__init__(folder, program, hubs=hubs, strategy=strategy, rows=rows, hosts=hosts, keepers=keepers)
        listed = [f"[[link]]\nbetween = {json.dumps(list(link))}\n" for link in links]
        # The coordinator is reached over others: rows shall not go that way.
        said = self.file.read_text().replace(f'name = "{COORDINATOR}"\n', f'name = "{COORDINATOR}"\ncapacity = 0\n')
        self.file.write_text("\n".join([said, *listed]))

    def address(self, name: str) -> str:
        return f"tcp://{self.network.address(name)}:{PORT}"

    def run_by(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self.network.space(name)]

    def said(self, text: str, name: str = COORDINATOR) -> int:
        """How often a node's log has this."""
        return (self.folder / f"{name}.log").read_text().count(text)
