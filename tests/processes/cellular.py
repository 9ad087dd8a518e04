"""Phones on a Wi-Fi and on cellular, in network namespaces: over cellular they reach the gateway and nothing else.

Every phone has two interfaces. `wlan` is a port of a bridge, one for each place; `cell` leads to the namespace of the
gateway, and of what stands beside it. A phone that loses the Wi-Fi loses the port. There are no rates.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

from resurge.lab._linked_nodes import PORT, _ip

CLOUD = "10.81.0.1"


class Cellular:
    kind = "network namespaces, Wi-Fi and cellular without rates"

    def __init__(self, phones: Sequence[str], places: Mapping[str, int] | None = None) -> None:
        """`places` are where phones stand that do not share the one Wi-Fi, by name."""
        self.phones, self._places = list(phones), places or {}
        self._made = ExitStack()

    def _space(self, name: str) -> str:
        return f"resurge-{os.getpid()}-{name}"

    def _address(self, name: str, net: int) -> str:
        return f"10.{net}.0.{2 + self.phones.index(name)}"

    def address(self, name: str) -> str:
        """Where other nodes reach it: a phone on its Wi-Fi, all others beside the gateway."""
        return f"tcp://{self._address(name, 80)}:{PORT}" if name in self.phones else f"tcp://{CLOUD}:{PORT}"

    def run_by(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self._space(name if name in self.phones else "cloud")]

    def lose_wifi(self, name: str) -> None:
        _ip("-n", self._space("air"), "link", "set", f"to-{name}", "down")

    def __enter__(self) -> Cellular:
        with ExitStack() as made:
            for name in ("air", "cloud", *self.phones):
                _ip("netns", "add", self._space(name))
                made.callback(subprocess.run, ["ip", "netns", "del", self._space(name)], check=False)
                _ip("-n", self._space(name), "link", "set", "lo", "up")
            self._link()
            self._made = made.pop_all()
        return self

    def _link(self) -> None:
        air, cloud = self._space("air"), self._space("cloud")
        for place in {self._places.get(name, 0) for name in self.phones}:
            _ip("-n", air, "link", "add", f"bridge{place}", "type", "bridge")
            _ip("-n", air, "link", "set", f"bridge{place}", "up")
        _ip("-n", cloud, "addr", "add", f"{CLOUD}/32", "dev", "lo")
        for name in self.phones:
            here, wifi, cell = self._space(name), self._address(name, 80), self._address(name, 81)
            _ip("link", "add", "wlan", "netns", here, "type", "veth", "peer", "name", f"to-{name}", "netns", air)
            bridge = f"bridge{self._places.get(name, 0)}"
            _ip("-n", air, "link", "set", f"to-{name}", "master", bridge, "up")
            _ip("-n", here, "addr", "add", f"{wifi}/24", "dev", "wlan")
            _ip("-n", here, "link", "set", "wlan", "up")
            _ip("link", "add", "cell", "netns", here, "type", "veth", "peer", "name", f"to-{name}", "netns", cloud)
            _ip("-n", here, "addr", "add", f"{cell}/32", "dev", "cell")
            _ip("-n", here, "link", "set", "cell", "up")
            _ip("-n", cloud, "link", "set", f"to-{name}", "up")
            _ip("-n", here, "route", "add", f"{CLOUD}/32", "dev", "cell", "src", cell)
            _ip("-n", cloud, "route", "add", f"{cell}/32", "dev", f"to-{name}", "src", CLOUD)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.close()
