"""The shape of every protocol machine: no IO, no clock of its own, five calls (`receive`, `wake`, `next_wake`, `step`,
`events`). Times are seconds on a monotonic clock that the driver owns.

A driver calls `receive` with what arrived and `wake` when `next_wake()` has passed, then `step` until it
returns nothing. It must make everything in `persist` durable before it performs anything in `send`; that
order is the whole contract of durability. `events` hands out what the driver or the program should know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Persist_co = TypeVar("Persist_co", covariant=True)
Send_co = TypeVar("Send_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Step(Generic[Persist_co, Send_co]):
    """First make `persist` durable, all of it; only then perform `send`."""

    persist: tuple[Persist_co, ...] = ()
    send: tuple[Send_co, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.persist or self.send)
