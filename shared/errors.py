"""Every error has a stable code, says what happened, what was expected and what to do.

Two families. `UsageError`: ours to fix, the program or the command is wrong. `PeerError`: theirs, the
other side broke the protocol; drop the exchange, keep running. `DamagedData` and `BrokenInvariant` guard
stored or acknowledged data, so they are raised, never asserted: on the phone Python runs with -OO.
"""

from __future__ import annotations


class ResurgeError(Exception):
    """Text ends with its code in brackets; `docs/errors.md` lists every code."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{message} [{code}]")
        self.message = message
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code))


def _rebuild(kind: type[ResurgeError], message: str, code: str) -> ResurgeError:
    return kind(message, code=code)


class UsageError(ResurgeError):
    """The program, plan, setting or command is wrong; nothing ran."""


class PeerError(ResurgeError):
    """The other side sent what the protocol does not allow; nothing of it was kept."""


class DamagedData(ResurgeError):
    """Stored bytes fail their checksum or their bounds."""


class BrokenInvariant(ResurgeError):
    """Our own rule about stored or acknowledged data was about to be broken; stop before it is."""


class DiskFailed(ResurgeError):
    """The disk refused a write or a sync. Nothing since the last good sync counts; close, and open again to re-read."""
