"""Which source stands behind a sensor's name: `synthetic:SEED` or `recording:FILE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mobile_app.sensors.recording import Recording
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.sensors.synthetic import Synthetic
from shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Choice:
    kind: str  # synthetic | recording
    argument: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}"


def parse_choices(texts: Iterable[str]) -> dict[str, Choice]:
    """{sensor: choice} from `gps=synthetic:7`, `accelerometer=recording:walk.csv`."""
    choices: dict[str, Choice] = {}
    for text in texts:
        sensor, equals, source = text.partition("=")
        kind, colon, argument = source.partition(":")
        if not (sensor and equals and colon and argument) or kind not in ("synthetic", "recording"):
            raise UsageError(
                f"--sensor {text!r} is not NAME=synthetic:SEED or NAME=recording:FILE", code="sensor-choice"
            )
        if kind == "synthetic" and not argument.isdigit():
            raise UsageError(f"--sensor {text!r}: a seed is a whole number", code="sensor-choice")
        choices[sensor] = Choice(kind, argument)
    return choices


def open_source(sensor: str, choices: dict[str, Choice], *, every_us: int, origin_us: int, from_us: int) -> Source:
    """The source of this sensor, reading on from from_us. Raises SensorMissing when none was chosen."""
    choice = choices.get(sensor)
    if choice is None:
        raise SensorMissing(
            f"no source for sensor {sensor!r}; give --sensor {sensor}=synthetic:SEED or {sensor}=recording:FILE",
            code="sensor-missing",
        )
    if choice.kind == "synthetic":
        return Synthetic(sensor, seed=int(choice.argument), every_us=every_us, origin_us=origin_us, from_us=from_us)
    return Recording(Path(choice.argument), every_us=every_us, origin_us=origin_us, from_us=from_us)
