"""The lease: which driver should be running. It saves work; the manifest's term saves the data.

The holder renews it; a standby watches, and takes over once it has run out. Clocks may disagree and a paused
holder may wake up after its lease: it then loses the race for the next manifest entry, because the standby has begun a
higher term. So a wrong lease costs at most one wasted epoch.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path


class Lease:
    def __init__(self, path: Path, *, owner: str, duration_s: float, now: Callable[[], float]) -> None:
        self._path = path
        self._owner = owner
        self._duration_s = duration_s
        self._now = now

    def holder(self) -> tuple[str, float] | None:
        """Who holds it and how many seconds are left; None when nobody does or it ran out."""
        try:
            value = json.loads(self._path.read_bytes())
            left = float(value["until"]) - self._now()
            return (str(value["owner"]), left) if left > 0 else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def acquire(self) -> bool:
        """Take or renew the lease; False while another driver holds it."""
        holder = self.holder()
        if holder is not None and holder[0] != self._owner:
            return False
        temporary = self._path.with_name(f".lease.{uuid.uuid4().hex[:12]}")
        temporary.write_text(json.dumps({"owner": self._owner, "until": self._now() + self._duration_s}))
        temporary.replace(self._path)
        return True

    def release(self) -> None:
        """Give it up at a clean stop, so that the next driver need not wait."""
        holder = self.holder()
        if holder is not None and holder[0] == self._owner:
            self._path.unlink(missing_ok=True)
