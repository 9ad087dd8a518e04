"""A result row, its identity, and the one canonical text both engines are compared by.

Identity is (sink, key, window): what the row is about. `revision` orders the answers given about it; the highest
one counts, on a phone as in the cloud. A retraction is an answer too: "there is no such row (any more)".
The canonical form leaves out revision and epoch, because those say how often an answer was given and not what it
is: a run that had to correct itself must end with the same digest as one that did not. Floats are written in
hexadecimal, so two digests agree only when every bit does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from shared.errors import UsageError

Value = bool | int | float | str


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

    @property
    def identity(self) -> tuple[str, str, int, int]:
        return (self.sink, encode_key(self.key), self.window_start_us, self.window_end_us)

    def content(self) -> str:
        """What the row says, without how often it was said."""
        return json.dumps(
            [*self.identity, self.device, self.complete, encode_values(self.values)],
            separators=(",", ":"),
            ensure_ascii=False,
        )


def encode_key(key: tuple[Value, ...]) -> str:
    return json.dumps([_tagged(value) for value in key], separators=(",", ":"), ensure_ascii=False)


def decode_key(text: str) -> tuple[Value, ...]:
    return tuple(_untagged(value) for value in json.loads(text))


def encode_values(values: Mapping[str, Value]) -> str:
    tagged = {name: _tagged(values[name]) for name in sorted(values)}
    return json.dumps(tagged, separators=(",", ":"), ensure_ascii=False)


def decode_values(text: str) -> dict[str, Value]:
    return {name: _untagged(value) for name, value in json.loads(text).items()}


def digest_of(rows: Iterable[ResultRow]) -> str:
    """SHA-256 over the rows' canonical forms in sorted order; retracted rows must be left out by the caller."""
    sha = hashlib.sha256()
    for line in sorted(row.content() for row in rows):
        sha.update(line.encode())
        sha.update(b"\n")
    return sha.hexdigest()


def _tagged(value: object) -> object:
    """JSON for one value that keeps its type and every bit of a float: text 's...', float 'f' + hexadecimal."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return "f" + value.hex()
    if isinstance(value, str):
        return "s" + value
    raise UsageError(
        f"a result holds a {type(value).__name__}; expected bool, int, float or text: aggregate or select it first",
        code="results-value",
    )


def _untagged(value: object) -> Value:
    if isinstance(value, str):
        return float.fromhex(value[1:]) if value[0] == "f" else value[1:]
    if isinstance(value, bool | int):
        return value
    raise UsageError(f"a stored result holds {value!r}, which no version wrote", code="results-value")


def standing(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Of rows said one after the other those that stand, where they are sessions: a late row lengthens or joins
    sessions, and the one it makes stands in place of all those of its key that lie within it."""
    standing: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        sink, key, start, end = row.identity
        others = standing.setdefault((sink, key), [])
        others[:] = [other for other in others if not start <= other.window_start_us <= other.window_end_us <= end]
        others.append(row)
    return [row for others in standing.values() for row in others]
