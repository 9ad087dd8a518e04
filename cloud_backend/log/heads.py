"""Signed heads: where the log ended and what its chain was then, signed with the gateway's key.

The chain finds whatever is changed in the middle of the log. It does not find records that were cut off the end, nor a
log that was written anew from its first record with a chain of its own. A head does: the log must still hold that
offset with that chain. The newest head is kept beside the log, and one of each hour in a file that only grows. Whoever
can change both can also put an old head back; one that was kept somewhere else (`resurge log anchor`) shows that too.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shared.errors import DamagedData
from shared.spool.disk import PosixDisk
from shared.wire.frame import payload_digest

NEWEST_FILE = "log.head"
HOURLY_FILE = "log.heads"
HOUR_US = 3_600_000_000
_PLACE = struct.Struct("<QQ")  # offset, microseconds since 1970


@dataclass(frozen=True, slots=True)
class SignedHead:
    offset: int  # after the last durable record
    chain: bytes
    at_us: int
    signature: bytes = b""

    def signed(self) -> bytes:
        return b"resurge-log-head-1" + _PLACE.pack(self.offset, self.at_us) + self.chain

    def encode(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "offset": self.offset,
                "chain": self.chain.hex(),
                "at_us": self.at_us,
                "signature": self.signature.hex(),
            }
        )

    @staticmethod
    def decode(line: str) -> SignedHead:
        """Raises DamagedData for a line that is no head."""
        try:
            value = json.loads(line)
            offset, at_us = value["offset"], value["at_us"]
            chain, signature = bytes.fromhex(value["chain"]), bytes.fromhex(value["signature"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _no_head() from None
        if type(offset) is not int or type(at_us) is not int or not 0 <= offset < 1 << 63 or not 0 <= at_us < 1 << 63:
            raise _no_head()
        if len(chain) != len(payload_digest(b"x")):
            raise _no_head()
        return SignedHead(offset, chain, at_us, signature)


def _no_head() -> DamagedData:
    return DamagedData(
        "a line is no signed head of a log; take the line as resurge log anchor wrote it", code="log-head"
    )


class Heads:
    """The heads of one gateway's home. Not for two processes at once; `read_heads` is for everybody."""

    def __init__(self, home: Path, sign: Callable[[bytes], bytes]) -> None:
        self._home = home
        self._sign = sign
        self._newest: SignedHead | None = None

    def keep(self, offset: int, chain: bytes, at_us: int) -> None:
        """Sign that the log ended here, unless that is known already; durable when this returns."""
        if self._newest is not None and self._newest.offset == offset:
            return
        unsigned = SignedHead(offset, chain, at_us)
        head = SignedHead(offset, chain, at_us, self._sign(unsigned.signed()))
        if self._newest is None or self._newest.at_us // HOUR_US != at_us // HOUR_US:
            self._append(head)
        PosixDisk(self._home).replace(NEWEST_FILE, (head.encode() + "\n").encode())
        self._newest = head

    def _append(self, head: SignedHead) -> None:
        handle = os.open(self._home / HOURLY_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, (head.encode() + "\n").encode())
            os.fsync(handle)
        finally:
            os.close(handle)


def read_heads(home: Path) -> list[SignedHead]:
    """Every head kept in a home, the newest last."""
    found: list[SignedHead] = []
    for name in (HOURLY_FILE, NEWEST_FILE):
        path = home / name
        lines = path.read_text("ascii", "replace").splitlines(keepends=True) if path.exists() else []
        found += [SignedHead.decode(line) for line in lines if line.endswith("\n")]  # a crash may cut the last short
    return found


def check_signatures(heads: Iterable[SignedHead], is_signed: Callable[[bytes, bytes], bool]) -> None:
    """Raises DamagedData for a head that the gateway did not sign."""
    for head in heads:
        if not is_signed(head.signed(), head.signature):
            raise DamagedData(
                f"the head of the log at offset {head.offset} is not signed by this gateway; it was made up, or "
                "belongs to another one",
                code="log-head",
            )
