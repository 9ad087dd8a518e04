"""A device's newest readings while older ones are still on their way to the gateway.

They are for the eye: a page may show at once where a phone is that was away for a day and sends its day first. They
have no number, no log keeps them, nothing counts or computes with them. The same rows come again in their place, and
only then they are part of results. A STATUS carries them under `live`, a key that older gateways do not know and leave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from shared.batch import Batch
from shared.wire.untrusted_text import clean_text, is_name

STREAMS_MAX = 16
COLUMNS_MAX = 32  # of a stream; a wider row is shown by its first ones
TEXT_CHARACTERS = 100  # of a value that is text
BYTES_MAX = 8 * 1024  # of all of them as JSON
_WHOLE_MAX = 1 << 64
_TIME_MAX = 1 << 62

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class LiveReading:
    """The newest row that a device holds of one of the streams that it syncs."""

    stream: str
    time_us: int
    values: tuple[tuple[str, Value], ...]  # None where a number is none

    def to_json(self) -> list[object]:
        return [self.stream, self.time_us, dict(self.values)]


def newest_row(stream: str, batch: Batch) -> LiveReading | None:
    """Of a batch, the row with the latest event time; None where it has none, or its names cannot be shown."""
    names = [name for name in batch.schema.names if is_name(name)][:COLUMNS_MAX]
    if not len(batch) or not is_name(stream):
        return None
    row = int(np.argmax(batch.time_us))
    values = tuple((name, _shown(batch.columns[name][row])) for name in names)
    return LiveReading(stream, int(batch.time_us[row]), values)


def bounded(readings: Iterable[LiveReading]) -> tuple[LiveReading, ...]:
    """As many as a STATUS carries, the first ones."""
    found: list[LiveReading] = []
    room = BYTES_MAX
    for reading in readings:
        room -= _json_bytes(reading.to_json())
        if room < 0 or len(found) == STREAMS_MAX:
            break
        found.append(reading)
    return tuple(found)


def read_live(value: object) -> tuple[LiveReading, ...]:
    """What a device said. Raises ValueError that says what was expected instead."""
    if not isinstance(value, list) or len(value) > STREAMS_MAX or sum(map(_json_bytes, value)) > BYTES_MAX:
        raise ValueError(f"a list of at most {STREAMS_MAX} readings in {BYTES_MAX} bytes")
    return tuple(map(_reading, value))


def _reading(value: object) -> LiveReading:
    match value:
        case [str(stream), int(time_us), dict(values)] if (
            is_name(stream)
            and not isinstance(time_us, bool)
            and abs(time_us) < _TIME_MAX
            and len(values) <= COLUMNS_MAX
            and all(is_name(name) and _is_value(each) for name, each in values.items())
        ):
            said = ((name, _shown(each)) for name, each in values.items())
            return LiveReading(stream, int(time_us), tuple(said))
    raise ValueError("a list of [stream, time in microseconds, {column: value}]")


def _is_value(value: object) -> TypeGuard[Value]:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < _WHOLE_MAX
    return value is None or isinstance(value, str)


def _shown(value: object) -> Value:
    """A value as JSON has it: no NaN, no infinity, text without what cannot be printed."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, str):
        return clean_text(plain, TEXT_CHARACTERS)
    return plain if isinstance(plain, bool | int) else None


def _json_bytes(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")))
