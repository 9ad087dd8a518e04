"""One line per event: simulated seconds, who, what, and the details. The thing one reads at 2 a.m."""

from __future__ import annotations

import hashlib


class Transcript:
    """Hashes every line; keeps them only when somebody wants to read."""

    def __init__(self, *, keep: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []

    def line(self, now: float, who: str, what: str, details: str = "") -> None:
        text = f"{now:10.3f}  {who:<8} {what:<14} {details}".rstrip()
        self._hash.update(text.encode())
        self._hash.update(b"\n")
        if self._keep:
            self.lines.append(text)

    def digest(self) -> str:
        return self._hash.hexdigest()
