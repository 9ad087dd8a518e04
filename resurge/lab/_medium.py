"""What carries bytes between phones in the labs of regions, *modelled*: Wi-Fi that a region shares, 3G of each phone.

A Wi-Fi network without an access point is one medium: whoever sends, the others wait. Who has something to send to
somebody takes turns with all others, a few packets at a time, so a receipt does not wait behind a snapshot. What is
broadcast takes its time once. Where the two are not in one region, it goes up one phone's 3G and down the other's;
whatever is no phone is on a wire, which takes no time. Rates are what is left for the hosts' bytes, headers of IP and
below included in what the paper measured. Nothing is lost here but datagrams, as whoever broadcasts says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

TURN_BYTES = 4096
WIFI_S, CELLULAR_S = 0.002, 0.1  # until the last bit is there, beside the time it takes to send

At = Callable[[float, Callable[[], None]], None]
Now = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Rates:
    """Bits in a second. The paper: Wi-Fi 1 to 5 Mbps, 3G 0.016 to 0.32 Mbps up and 0.35 to 1.14 down."""

    wifi: float = 3e6
    up: float = 0.168e6
    down: float = 0.745e6


@dataclass(slots=True)
class _Message:
    left: int
    arrive: Callable[[], None]


class Channel:
    """One medium: flows take turns, each message of a flow after the one before it."""

    def __init__(self, at: At, now: Now, rate: float, delay_s: float) -> None:
        self._at, self._now, self._rate, self._delay_s = at, now, rate, delay_s
        self._flows: dict[Hashable, deque[_Message]] = {}
        self._turns: deque[Hashable] = deque()
        self._is_busy = False
        self.sent = 0  # bytes

    def send(self, flow: Hashable, size: int, arrive: Callable[[], None]) -> None:
        if flow not in self._flows:
            self._flows[flow] = deque()
            self._turns.append(flow)
        self._flows[flow].append(_Message(size, arrive))
        self.sent += size
        if not self._is_busy:
            self._turn()

    def drop(self, gone: Callable[[Hashable], bool]) -> None:
        """These flows end: who sent them is no more."""
        for flow in [flow for flow in self._flows if gone(flow)]:
            del self._flows[flow]

    def _turn(self) -> None:
        while self._turns and self._turns[0] not in self._flows:
            self._turns.popleft()
        self._is_busy = bool(self._turns)
        if self._turns:
            flow = self._turns.popleft()
            part = min(TURN_BYTES, self._flows[flow][0].left)
            self._at(self._now() + 8 * part / self._rate, lambda: self._sent(flow, part))

    def _sent(self, flow: Hashable, part: int) -> None:
        waiting = self._flows.get(flow)
        if waiting:
            waiting[0].left -= part
            if not waiting[0].left:
                self._at(self._now() + self._delay_s, waiting.popleft().arrive)
            if waiting:
                self._turns.append(flow)
            else:
                del self._flows[flow]
        self._turn()


class Medium:
    """Which way a message takes. `region_of` says where a node is now; None: outside of all regions."""

    def __init__(self, at: At, now: Now, rates: Rates, region_of: Callable[[str], int | None], wired: str) -> None:
        self._at, self._now, self.rates, self._region_of, self._wired = at, now, rates, region_of, wired
        self._channels: dict[Hashable, Channel] = {}

    def send(self, sender: str, to: str, size: int, arrive: Callable[[], None]) -> None:
        region = self._region_of(sender)
        if region is not None and region == self._region_of(to):
            self._wifi(region).send((sender, to), size, arrive)
            return

        def down() -> None:
            if to == self._wired:
                arrive()
            else:
                self._channel(("down", to), self.rates.down, 0.0).send((sender, to), size, arrive)

        if sender == self._wired:
            self._at(self._now() + CELLULAR_S, down)
        else:
            self._channel(("up", sender), self.rates.up, CELLULAR_S).send((sender, to), size, down)

    def broadcast(self, sender: str, size: int, arrive: Callable[[], None]) -> bool:
        """Whether there is anybody who could hear it."""
        region = self._region_of(sender)
        if region is not None:
            self._wifi(region).send((sender, None), size, arrive)
        return region is not None

    def stop(self, node: str) -> None:
        """It sends nothing more."""
        for channel in self._channels.values():
            channel.drop(lambda flow: isinstance(flow, tuple) and flow[0] == node)

    def sent(self, kind: str) -> int:
        """Bytes on all channels of a kind: wifi, up, down."""
        return sum(each.sent for key, each in self._channels.items() if isinstance(key, tuple) and key[0] == kind)

    def _wifi(self, region: int) -> Channel:
        return self._channel(("wifi", region), self.rates.wifi, WIFI_S)

    def _channel(self, key: Hashable, rate: float, delay_s: float) -> Channel:
        if key not in self._channels:
            self._channels[key] = Channel(self._at, self._now, rate, delay_s)
        return self._channels[key]
