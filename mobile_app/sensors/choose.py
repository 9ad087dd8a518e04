"""Which source stands behind a sensor's name: `live`, `synthetic:SEED`, `recording:FILE` or `mqtt://HOST/TOPIC`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mobile_app.home.clock import boot_time_us
from mobile_app.sensors.arrival_queue import EventTime
from mobile_app.sensors.device_sensors import available, has_sensors, open_live
from mobile_app.sensors.mqtt import KINDS, MqttSource, Subscription
from mobile_app.sensors.playback import Recording
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.sensors.synthetic import Synthetic
from shared.errors import UsageError
from shared.language.schema import Schema
from shared.stream.sources import SENSORS

__all__ = ["LIVE", "Choice", "available", "open_source", "parse_choices"]


@dataclass(frozen=True, slots=True)
class Choice:
    kind: str  # live | synthetic | recording | mqtt | mqtts
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


LIVE = Choice("live")
ONE_VALUE = Schema.of({"value": "float64"})  # what a recording takes of a sensor that nobody named the columns of


def parse_choices(texts: Iterable[str]) -> dict[str, Choice]:
    """{sensor: choice} from `gps=synthetic:7`, `accelerometer=recording:walk.csv`, `light=live`."""
    choices: dict[str, Choice] = {}
    for text in texts:
        sensor, equals, source = text.partition("=")
        kind, _, argument = source.partition(":")
        known = (kind in ("synthetic", "recording", *KINDS) and argument) or source == "live"
        if not (sensor and equals and known):
            raise UsageError(
                f"--sensor {text!r} is not NAME=live, NAME=synthetic:SEED, NAME=recording:FILE or NAME=mqtt://HOST/TOPIC",
                code="sensor-choice",
            )
        if kind == "synthetic" and not argument.isdigit():
            raise UsageError(f"--sensor {text!r}: a seed is a whole number", code="sensor-choice")
        if kind in KINDS:
            Subscription.parse(source)
        choices[sensor] = Choice(kind, argument)
    return choices


def open_source(
    sensor: str,
    choices: Mapping[str, Choice],
    *,
    every_us: int,
    origin_us: int,
    from_us: int,
    event_time: EventTime | None = None,
    schema: Schema | None = None,
) -> Source:
    """The source of this sensor, reading on from from_us. `event_time` turns boot time into event time;
    `schema` are the columns that the program wants, for what may have any.

    Raises SensorMissing when nothing was chosen for it and this device has none of its own.
    """
    choice = choices.get(sensor)
    if choice is None:
        if not has_sensors():
            raise SensorMissing(
                f"no source for sensor {sensor!r}; give --sensor {sensor}=live, {sensor}=synthetic:SEED or "
                f"{sensor}=recording:FILE",
                code="sensor-missing",
            )
        choice = LIVE
    if choice.kind in ("live", *KINDS) and event_time is None:
        raise SensorMissing(f"sensor {sensor!r} is live, but there is no clock to stamp it", code="sensor-missing")
    if choice.kind in KINDS and event_time is not None:
        return MqttSource(
            Subscription.parse(str(choice)), schema or SENSORS.get(sensor) or ONE_VALUE, from_us=from_us,
            event_time=event_time, boot_us=boot_time_us,
        )  # fmt: skip
    if choice.kind == "live" and event_time is not None:
        return open_live(sensor, every_us=every_us, from_us=from_us, event_time=event_time)
    if choice.kind == "synthetic":
        return Synthetic(sensor, seed=int(choice.argument), every_us=every_us, origin_us=origin_us, from_us=from_us)
    return Recording(Path(choice.argument), every_us=every_us, origin_us=origin_us, from_us=from_us)
