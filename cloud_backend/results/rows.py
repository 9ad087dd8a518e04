"""A result row, its identity, and the one canonical text both engines are compared by.

Identity is (sink, key, window, row): what the row is about. Where a sink says one row about a key and window, and says
it again when a late reading corrects it, `row` is 0. Where several rows may be about one key and time, as pairs of a
join are, `row` tells them apart: it is made of the epoch and the place in it, which a replay repeats.

`revision` orders the answers given about an identity; the highest one counts, on a phone as in the cloud. A retraction
is an answer too: "there is no such row (any more)". The canonical form leaves out revision and epoch, because those say
how often an answer was given and not what it is: a run that had to correct itself must end with the same digest as one
that did not. Floats are written in hexadecimal, so two digests agree only when every bit does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring

import numpy as np

from shared.errors import UsageError

Value = bool | int | float | str
Identity = tuple[str, str, int, int, int]  # sink, encoded key, window start and end, row


@dataclass(frozen=True, slots=True)
class ResultRow:
    sink: str
    device: str  # hex of the device id that gets the row; "" when it is for the dashboard only
    key: tuple[Value, ...]
    window_start_us: int
    window_end_us: int
    revision: int
    retract: bool
    complete: bool  # False: an input that belongs to the window was missing when it closed
    values: Mapping[str, Value]
    row: int = 0  # which of the rows about this key and window; 0 where there is only one

    @property
    def identity(self) -> Identity:
        return (self.sink, encode_key(self.key), self.window_start_us, self.window_end_us, self.row)

    def content(self) -> str:
        """What the row says, without how often it was said, and without its number among several."""
        return json.dumps(
            [*self.identity[:4], self.device, self.complete, encode_values(self.values)],
            separators=(",", ":"),
            ensure_ascii=False,
        )


def encode_key(key: tuple[Value, ...]) -> str:
    return f"[{','.join(map(_encoded, key))}]"


def decode_key(text: str) -> tuple[Value, ...]:
    return tuple(_untagged(value) for value in json.loads(text))


def encode_values(values: Mapping[str, Value]) -> str:
    return f"{{{','.join([start + _encoded(values[name]) for name, start in _in_order(tuple(values))])}}}"


@lru_cache(maxsize=1024)
def _in_order(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The names of values in their order, each with how its JSON starts: a sink's rows have all the same."""
    return tuple((name, f"{encode_basestring(name)}:") for name in sorted(names))


def decode_values(text: str) -> dict[str, Value]:
    return {name: _untagged(value) for name, value in json.loads(text).items()}


def digest_of(rows: Iterable[ResultRow]) -> str:
    """SHA-256 over the rows' canonical forms in sorted order; retracted rows must be left out by the caller."""
    sha = hashlib.sha256()
    for line in sorted(row.content() for row in rows):
        sha.update(line.encode())
        sha.update(b"\n")
    return sha.hexdigest()


def _encoded(value: object) -> str:
    """JSON for one value that keeps its type and every bit of a float: text "s...", float "f" + hexadecimal. Written by
    hand: publishing spends most of its time in here, and the encoder of `json` takes three times as long."""
    kind = type(value)
    if kind is int:
        return str(value)
    if isinstance(value, float):
        return f'"f{float.hex(value)}"'  # numpy's float64 is a float, too
    if isinstance(value, str):
        return encode_basestring("s" + value)
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, np.generic):
        return _encoded(value.item())
    raise UsageError(
        f"a result holds a {kind.__name__}; expected bool, int, float or text: aggregate or select it first",
        code="results-value",
    )


def _untagged(value: object) -> Value:
    if isinstance(value, str):
        return float.fromhex(value[1:]) if value[0] == "f" else value[1:]
    if isinstance(value, bool | int):
        return value
    raise UsageError(f"a stored result holds {value!r}, which no version wrote", code="results-value")


def last_sessions(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Of sessions that came one after the other those that count: a late row lengthens or joins
    sessions, and the one it makes replaces all those of its key that lie within it."""
    kept: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        sink, key, start, end, _ = row.identity
        others = kept.setdefault((sink, key), [])
        others[:] = [other for other in others if not start <= other.window_start_us <= other.window_end_us <= end]
        others.append(row)
    return [row for others in kept.values() for row in others]
