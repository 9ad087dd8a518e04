"""How long the loop may rest between two turns, and whether the processor may sleep meanwhile.

A machine on the mains turns every second. On a battery each wake costs more than the readings it finds, so there the
loop sleeps until something is due, and the processor with it:

    above 25 Hz             awake throughout: it would not sleep between two readings anyway; a turn a second
    slower                  a turn per period, none shorter than the loss window: the phone's own queues collect
    positions seldom        asleep until one arrives, and whoever delivers it wakes the loop
    nothing to read         a look every quarter of an hour

A turn before a sleep leaves everything durable, so a kill takes no more than the published window. Whatever is due for
the gateway ends the sleep; otherwise there is one exchange in half an hour, or at a look that finds the radio up.
Times are of the clock that goes on while the processor sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from mobile_app.home.clock import boot_time_us

AWAKE_BELOW_US = 40_000  # 25 Hz
LOOK_S = 900.0  # the shortest period of Android's own scheduler
POLL_S = 1800.0
WATCHED_POLL_S = 30.0  # while somebody looks at a screen
BACKOFF_S_MAX = 300.0
WAKING = frozenset({"gps"})  # sensors whose readings wake the processor by themselves


class Waiting(Protocol):
    """What the loop waits in: it ends when a gateway's answer is here, or another thread says `wake`."""

    def wait(self, seconds: float) -> None: ...

    def wake(self) -> None: ...


class Sleeping(Protocol):
    """What a platform does for a loop that sleeps."""

    def sleep(self, seconds: float, waiting: Waiting) -> None:
        """Let the processor sleep while the loop waits, and have both woken after so long at the latest."""
        ...

    def radio_up(self) -> bool:
        """Whether the network is in use anyway, so that an exchange costs little more."""
        ...

    def listen(self, *, on: bool) -> None:
        """Hear what is broadcast on the local network, or no more: a phone's Wi-Fi drops it unless it is asked."""
        ...


class OnMains:
    """No battery to spare."""

    poll_s = 30.0
    backoff_s_max = 15.0
    sync_within_s = 1.0

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def turn_s(self, usual_s: float, periods_us: Mapping[str, int], loss_window_s: float) -> float:  # noqa: ARG002
        return usual_s

    def may_sleep(self, periods_us: Mapping[str, int]) -> bool:  # noqa: ARG002
        return False

    def asks(self, *, since_s: float, watched: bool) -> bool:  # noqa: ARG002
        return False

    def listen(self, *, on: bool) -> None:
        """It hears what is broadcast in any case."""

    def wait(self, seconds: float, waiting: Waiting, *, asleep: bool) -> None:  # noqa: ARG002
        waiting.wait(seconds)


class OnBattery:
    """Sleeps as long as it may."""

    poll_s = POLL_S
    backoff_s_max = BACKOFF_S_MAX
    sync_within_s = 0.0  # at once: a second wake for it would cost more

    def __init__(self, platform: Sleeping, *, now: Callable[[], float] | None = None) -> None:
        self._platform = platform
        self._listens = False
        self.now = now if now is not None else _since_boot

    def turn_s(self, usual_s: float, periods_us: Mapping[str, int], loss_window_s: float) -> float:
        """How long until the next turn. `periods_us`: what is read, and how often."""
        if not self.may_sleep(periods_us):
            return usual_s
        lengths = [
            LOOK_S if sensor in WAKING and every_us > loss_window_s * 1e6 else max(loss_window_s, every_us / 1e6)
            for sensor, every_us in periods_us.items()
        ]
        return max(usual_s, min(lengths, default=LOOK_S))

    def may_sleep(self, periods_us: Mapping[str, int]) -> bool:
        return all(every_us >= AWAKE_BELOW_US for every_us in periods_us.values())

    def asks(self, *, since_s: float, watched: bool) -> bool:
        """Whether to speak with the gateway before it is due: somebody looks, or the radio is awake anyway."""
        return since_s >= WATCHED_POLL_S if watched else since_s >= LOOK_S and self._platform.radio_up()

    def listen(self, *, on: bool) -> None:
        """Whether what is broadcast in a region shall be heard: it costs power, so only while there is one."""
        if on is not self._listens:
            self._platform.listen(on=on)
            self._listens = on

    def wait(self, seconds: float, waiting: Waiting, *, asleep: bool) -> None:
        if asleep:
            self._platform.sleep(seconds, waiting)
        else:
            waiting.wait(seconds)


Rest = OnMains | OnBattery


def _since_boot() -> float:
    return boot_time_us() / 1e6
