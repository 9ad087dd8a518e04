"""A region of phones as processes: Wi-Fi that a bridge is, cellular to the coordinator, both as slow as the paper's.

`Air`: every phone lives in a network namespace with two interfaces. `wlan` is a port of one bridge, and sends at most so
much; `cell` leads to the coordinator, up and down at the paper's rates. A phone that loses the Wi-Fi loses the port: its
interface stays up and carries nothing, as out of reach. Datagrams are lost at each phone by itself (`lossy_air`).
`Loopback` needs no right: no rates, no broadcast, nothing to lose. Both say what they are (`kind`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from resurge.lab._linked_nodes import PORT, _ip, may_make_namespaces
from resurge.up.process_fleet import COORDINATOR, PHONE, free_address
from shared.hosting.store import stored_fleet
from shared.plan.deployment import HostedQuery, decode_deployment
from tests.patience import RAN_OUT, SPARK_PATIENCE_S
from tests.processes.fleets import Fleet, Program, Rows

WIFI_MBIT, UP_MBIT, DOWN_MBIT = 3.0, 0.168, 0.745  # the middle of what the paper measured
LOOK_S = 0.1  # between two looks at what has come
AREA, DWELL = (47.37, 8.54), "2s"


class Air:
    kind = f"network namespaces, {WIFI_MBIT:g} Mbps of Wi-Fi for each that sends, {UP_MBIT:g} up and {DOWN_MBIT:g} down"

    def __init__(self, names: Sequence[str], folder: Path, loss: float) -> None:
        self.names, self._folder, self._loss = list(names), folder, loss
        self.phones = [name for name in names if name != COORDINATOR]

    def _space(self, name: str) -> str:
        return f"resurge-{os.getpid()}-{name}"

    def _wifi(self, name: str) -> str:
        return f"10.78.0.{1 + self.names.index(name)}"

    def _cell(self, name: str) -> str:
        return f"10.79.0.{1 + self.names.index(name)}"

    def address(self, name: str) -> str:
        return f"tcp://{self._cell(name) if name == COORDINATOR else self._wifi(name)}:{PORT}"

    def run_by(self, name: str) -> list[str]:
        lossy = [sys.executable, "-m", "tests.processes.lossy_air", str(self._loss), name, str(self._lost(name))]
        return ["ip", "netns", "exec", self._space(name), *([] if name == COORDINATOR else lossy)]

    def _lost(self, name: str) -> Path:
        return self._folder / f"{name}.lost"

    def lost(self) -> int:
        """Datagrams that were not heard, by all phones."""
        said = [self._lost(name) for name in self.phones]
        return sum(int(path.read_text() or 0) for path in said if path.exists())

    def broadcasts(self, name: str) -> tuple[int, int]:
        """Datagrams to all that a phone's kernel sent and took."""
        found = subprocess.run(
            ["ip", "netns", "exec", self._space(name), "cat", "/proc/net/netstat"],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        names, values = (line.split() for line in found if line.startswith("IpExt:"))
        counted = dict(zip(names[1:], map(int, values[1:]), strict=True))
        return counted["OutBcastPkts"], counted["InBcastPkts"]

    def lose_wifi(self, name: str) -> None:
        _ip("-n", self._space("air"), "link", "set", f"to-{name}", "down")

    def __enter__(self) -> Air:
        try:
            self._make()
        except BaseException:
            self._take_down()
            raise
        return self

    def _make(self) -> None:
        for name in ("air", *self.names):
            _ip("netns", "add", self._space(name))
            _ip("-n", self._space(name), "link", "set", "lo", "up")
        _ip("-n", self._space("air"), "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._space("air"), "link", "set", "bridge", "up")
        first = self._space(COORDINATOR)
        _ip("-n", first, "addr", "add", f"{self._cell(COORDINATOR)}/32", "dev", "lo")
        for name in self.phones:
            here = self._space(name)
            _ip("link", "add", "wlan", "netns", here, "type", "veth",
                "peer", "name", f"to-{name}", "netns", self._space("air"))  # fmt: skip
            _ip("-n", self._space("air"), "link", "set", f"to-{name}", "master", "bridge", "up")
            _ip("-n", here, "addr", "add", f"{self._wifi(name)}/24", "broadcast", "+", "dev", "wlan")
            _ip("-n", here, "link", "set", "wlan", "up")
            _ip("link", "add", "cell", "netns", here, "type", "veth", "peer", "name", f"to-{name}", "netns", first)
            _ip("-n", here, "addr", "add", f"{self._cell(name)}/32", "dev", "cell")
            _ip("-n", here, "link", "set", "cell", "up")
            _ip("-n", first, "link", "set", f"to-{name}", "up")
            coordinator = f"{self._cell(COORDINATOR)}/32"
            _ip("-n", here, "route", "add", coordinator, "dev", "cell", "src", self._cell(name))
            for address in (self._cell(name), self._wifi(name)):
                _ip("-n", first, "route", "add", f"{address}/32", "dev", f"to-{name}", "src", self._cell(COORDINATOR))
            self._slow(here, "wlan", WIFI_MBIT)
            self._slow(here, "cell", UP_MBIT)
            self._slow(first, f"to-{name}", DOWN_MBIT)

    @staticmethod
    def _slow(space: str, device: str, mbit: float) -> None:
        command = ["tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "16kb",
                   "latency", "1s"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)

    def _take_down(self) -> None:
        for name in ("air", *self.names):
            subprocess.run(["ip", "netns", "del", self._space(name)], check=False, capture_output=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_down()


class Loopback:
    kind = "loopback, without rates, broadcast and loss"

    def __init__(self, names: Sequence[str]) -> None:
        self._addresses = {name: free_address() for name in names}

    def address(self, name: str) -> str:
        return self._addresses[name]

    def run_by(self, name: str) -> list[str]:
        return []

    def lost(self) -> int:
        return 0

    def __enter__(self) -> Loopback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def air(names: Sequence[str], folder: Path, loss: float) -> Air | Loopback:
    return Air(names, folder, loss) if may_make_namespaces() else Loopback(names)


class RegionOfPhones(Fleet):
    """All nodes but the coordinator stand in one region, and the phone is its camera."""

    def __init__(
        self, folder: Path, program: Program, network: Air | Loopback, *, phones: int, strategy: str, rows: int,
        threshold: int = 3, cuts: str = "8s", every: int = 300,
    ) -> None:  # fmt: skip
        self.network = network
        super().__init__(folder, program, hubs=phones - 1, strategy=strategy, rows=rows, every=every)
        here = f"position = {list(AREA)}\n"
        said = self.file.read_text()
        for name in self.names:
            if name != COORDINATOR:
                said = said.replace(f'name = "{name}"\n', f'name = "{name}"\n{here}')
        said = said.replace("keepers = 1\nhosts = {  }\n", "")
        region = (
            f'[[region]]\nquery = "q"\ncenter = {list(AREA)}\nradius = 20\ndwell = "{DWELL}"\nthreshold = {threshold}\n'
        )
        self.file.write_text("\n".join([f'cuts = "{cuts}"', said, region]))

    def address(self, name: str) -> str:
        return self.network.address(name)

    def run_by(self, name: str) -> list[str]:
        return self.network.run_by(name)

    def query(self) -> HostedQuery | None:
        """What runs in the region, as the coordinator has stored it."""
        stored = stored_fleet(self.disk)
        return next(iter(decode_deployment(stored).queries), None) if stored else None

    def results(self) -> dict[str, Rows]:
        self._hosted = self._hosted or self.query()
        return super().results() if self._hosted is not None else {sink: [] for sink in self.program.sinks}

    def cut(self) -> int:
        """The newest complete one."""
        query = self.query()
        return 0 if query is None else query.cuts.complete

    def members(self) -> int:
        query = self.query()
        return 0 if query is None else len(query.members)

    def hosting(self) -> list[str]:
        """Phones that run vertices, but for the camera."""
        return sorted({*self.placed().values()} - {PHONE})

    def longest_pause_s(self, is_over: Callable[[], bool], what: str) -> float:
        """Until then: the longest time in which no result came."""
        begins = last = time.monotonic()
        count, longest = self.count(), 0.0
        while not is_over():
            assert time.monotonic() < begins + SPARK_PATIENCE_S, (
                f"{what} {RAN_OUT} patience: {count} results\n{self.logs()}"
            )
            time.sleep(LOOK_S)
            if (found := self.count()) > count:
                count, longest, last = found, max(longest, time.monotonic() - last), time.monotonic()
        return longest
