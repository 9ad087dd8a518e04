"""An hour of the node's own loop under a clock of our own: how often the processor wakes, for how long, and the radio.

The loop, its rest (`mobile_app/node/rest.py`), sensors, spool, sender and link are the product's; made up are the clock
that passes while the loop waits, and the sensors' readings. A position that a phone would be woken for ends the sleep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mobile_app.home.clock import Anchor, EventClock
from mobile_app.links.link import Link
from mobile_app.node.loop import Node
from mobile_app.node.rest import WAKING, OnBattery, OnMains, Waiting
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource, Source
from mobile_app.sensors.still import Motion
from mobile_app.settings import Gateway, Settings
from shared.energy_model import PhonePower
from shared.plan.graph import Plan
from shared.stream.sources import SENSORS

HOUR_S = 3600.0
EXCHANGE_S = 0.3  # how long the processor is up for an exchange, by this clock
ANSWER_WITHIN_S = 30.0  # by a real clock, for the link's thread


class Steady(SoftwareSource):
    """A reading every so often, whatever is asked."""

    def __init__(self, sensor: str, every_us: int, from_us: int) -> None:
        self._names = SENSORS[sensor].names
        self.every_us = every_us
        self.next_us = from_us + every_us
        self.count = 0

    def read(self, until_us: int) -> Samples:
        times = np.arange(self.next_us, until_us, self.every_us, dtype=np.int64)
        self.next_us += len(times) * self.every_us
        self.count += len(times)
        return Samples(times, {name: np.full(len(times), 47.5) for name in self._names}, until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        raise NotImplementedError("no plan here asks by request")

    def sample_every(self, period_us: int) -> None:
        """No hints here."""


class LyingStill(Steady):
    """The positions of a phone on a table, whose motion sensor says nothing."""

    def __init__(self, sensor: str, every_us: int, from_us: int, now: Callable[[], float]) -> None:
        super().__init__(sensor, every_us, from_us)
        self._now, self._opened, self._from_us = now, now(), from_us
        self._on_since: float | None = now()
        self._on_s = 0.0

    @property
    def on_s(self) -> float:
        """For how long the receiver was on."""
        return self._on_s + (0.0 if self._on_since is None else self._now() - self._on_since)

    def read(self, until_us: int) -> Samples:
        if self._on_since is None:
            self.next_us = max(self.next_us, until_us)
        samples = super().read(until_us)
        return replace(samples, columns={**samples.columns, "speed": np.zeros(len(samples))})

    def pause(self) -> None:
        self._on_s, self._on_since = self.on_s, None

    def go_on(self) -> None:
        self._on_since = self._now()
        now_us = self._from_us + round((self._on_since - self._opened) * 1e6)
        self.next_us = max(self.next_us, now_us)  # a receiver has no positions of the time in which it was off

    def motion(self) -> Motion:
        return Unmoved()


class Unmoved:
    def arm(self) -> bool:
        return True

    def disarm(self) -> None:
        """Nobody listens."""

    def fired(self) -> bool:
        return False


@dataclass
class Spent:
    """What an hour took."""

    wakes: int = 0
    awake_s: float = 0.0
    exchanges_at: list[float] = field(default_factory=list)
    bytes_sent: int = 0
    fixes: int = 0
    gps_every_s: float = math.inf
    gps_on_s: float = math.inf  # where it may pause: for how long it was on
    other_sensors: tuple[str, ...] = ()

    def figures(self, phone: PhonePower | None = None) -> dict[str, float]:
        """Wakes, seconds awake, radio wakes and seconds, seconds of positioning; and milliwatts by the model."""
        phone = PhonePower() if phone is None else phone
        radio_wakes, radio_s, up_until = 0, self.bytes_sent / phone.uplink_bytes_per_s, -math.inf
        for at in self.exchanges_at:
            radio_wakes += at > up_until
            radio_s += phone.tail_s if at > up_until else at + phone.tail_s - up_until
            up_until = at + phone.tail_s
        radio_s = min(radio_s, HOUR_S)
        gps_s = HOUR_S if self.gps_every_s <= phone.fix_s else min(HOUR_S, self.fixes * phone.fix_s)
        gps_s = min(gps_s, self.gps_on_s) if self.fixes else 0.0
        awake_s = min(HOUR_S, self.awake_s + self.wakes * phone.wake_s)
        watts = (
            phone.asleep_w * (HOUR_S - awake_s) + phone.base_w * awake_s + phone.radio_w * radio_s
            + phone.sensors_w["gps"] * gps_s
        ) / HOUR_S  # fmt: skip
        watts += sum(phone.sensors_w.get(sensor, phone.other_sensor_w) for sensor in self.other_sensors)
        return {
            "wakes": self.wakes, "awake_s": round(awake_s, 1), "radio_wakes": radio_wakes, "radio_s": round(radio_s, 1),
            "gps_s": round(gps_s, 1), "modelled_mw": round(1000 * watts, 1),
        }  # fmt: skip


class Hour:
    """The clock, and a phone that sleeps by it."""

    def __init__(self, origin_us: int) -> None:
        self.seconds = 0.0
        self.origin_us = origin_us
        self.spent = Spent()
        self.sources: dict[str, Steady] = {}
        self.node: Node | None = None

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float, waiting: Waiting) -> None:  # noqa: ARG002 - nothing real is waited for
        arrivals = [
            (source.next_us - self.origin_us) / 1e6 + 1e-3 for sensor, source in self.sources.items()
            if sensor in WAKING and source.every_us > 5_000_000
        ]  # fmt: skip
        self.seconds = min(self.seconds + max(seconds, 1e-3), *(at for at in arrivals if at > self.seconds), math.inf)
        self.spent.wakes += 1

    def radio_up(self) -> bool:
        return False

    def listen(self, *, on: bool) -> None:
        """Nothing is broadcast here."""

    def stay_awake(self, seconds: float, waiting: Waiting) -> None:
        before = self.seconds
        if self.node is not None and self.node.uplink.outstanding:
            waiting.wait(ANSWER_WITHIN_S)
            self.seconds += EXCHANGE_S
        else:
            self.seconds += max(seconds, 1e-3)
        self.spent.awake_s += self.seconds - before


class AlwaysAwake(OnMains):
    """As a phone without `OnBattery`: the processor is held awake and the loop turns every second."""

    def __init__(self, hour: Hour) -> None:
        self._hour = hour
        self.now = hour.now  # type: ignore[method-assign]

    def wait(self, seconds: float, waiting: Waiting, *, asleep: bool) -> None:  # noqa: ARG002
        self._hour.stay_awake(seconds, waiting)


class Sparing(OnBattery):
    def __init__(self, hour: Hour) -> None:
        super().__init__(hour, now=hour.now)
        self._hour = hour

    def wait(self, seconds: float, waiting: Waiting, *, asleep: bool) -> None:
        if asleep:
            self._hour.sleep(seconds, waiting)
        else:
            self._hour.stay_awake(seconds, waiting)


class Counted:
    """A link that notes when it is used."""

    def __init__(self, link: Link, hour: Hour) -> None:
        self._link, self._hour = link, hour

    def exchange(self, body: bytes) -> bytes:
        self._hour.spent.exchanges_at.append(self._hour.seconds)
        self._hour.spent.bytes_sent += len(body)
        return self._link.exchange(body)

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        return self._link.enrol(request)

    def reset(self) -> None:
        self._link.reset()

    def close(self) -> None:
        self._link.close()


def an_hour(
    home: Path, gateway: Gateway, link: Link, *, origin_us: int, plan: Plan | None, periods_us: Mapping[str, int],
    sparing: bool, lying_still: bool = False,
) -> Spent:  # fmt: skip
    """What an hour of this plan takes, after a first minute in which the node gets going."""
    hour = Hour(origin_us)

    def open_source(sensor: str, *_: object, from_us: int, **__: object) -> Source:
        if sensor not in periods_us:
            raise SensorMissing(f"no {sensor} in this hour", code="sensor-absent")
        made = Steady(sensor, periods_us[sensor], from_us)
        if lying_still:
            made = LyingStill(sensor, periods_us[sensor], from_us, hour.now)
        hour.sources[sensor] = made
        return made

    around = Surroundings(
        settings=Settings(pause_when_still=lying_still and sparing), gateway=gateway, link=Counted(link, hour),
        sensors={}, plan=plan,
        open_source=open_source, rest=Sparing(hour) if sparing else AlwaysAwake(hour),
        clock=EventClock(Anchor("hour", 0, origin_us, origin_us, 0, 1.0, origin_us), lambda: round(hour.seconds * 1e6)),
    )  # fmt: skip
    node = hour.node = Node(home, around)
    try:
        node.run(lambda: hour.seconds >= 60.0)
        began, before = hour.seconds, {name: source.count for name, source in hour.sources.items()}
        on_s = {name: source.on_s for name, source in hour.sources.items() if isinstance(source, LyingStill)}
        hour.spent = Spent()
        node.run(lambda: hour.seconds >= began + HOUR_S)
        if (gps := hour.sources.get("gps")) is not None:
            hour.spent.fixes, hour.spent.gps_every_s = gps.count - before["gps"], gps.every_us / 1e6
            if isinstance(gps, LyingStill):
                hour.spent.gps_on_s = gps.on_s - on_s["gps"]
        hour.spent.other_sensors = tuple(sensor for sensor in hour.sources if sensor != "gps")
        return hour.spent
    finally:
        node.leave()
