"""Users' code that a host runs may never return. Whoever drives the host can watch over it, and end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from shared.errors import ResurgeError

Result = TypeVar("Result")


class OperatorHangs(ResurgeError):
    """A user's operator did not return in time and was interrupted; what it had in memory is in pieces."""


class Watch(Protocol):
    def run(self, work: Callable[[], Result], what: str) -> Result:
        """What the work gives. OperatorHangs where it had to be interrupted: then only its own state may be broken."""
        ...


class Unwatched:
    """For drivers without threads: what hangs here hangs them."""

    def run(self, work: Callable[[], Result], what: str) -> Result:  # noqa: ARG002
        return work()
