"""The lease: which driver should be running. It saves work; the manifest's term saves the data.

The holder renews it; a standby watches, and takes over once it has run out. Clocks may disagree and a paused
holder may wake up after its lease: it then loses the race for the next manifest entry, because the standby has begun a
higher term. So a wrong lease costs at most one wasted epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from cloud_backend.spark.storage.store import Store


class Lease:
    def __init__(self, store: Store, *, owner: str, duration_s: float, now: Callable[[], float]) -> None:
        self._store = store
        self._owner = owner
        self._duration_s = duration_s
        self._now = now

    def holder(self) -> tuple[str, float] | None:
        """Who holds it and how many seconds are left; None when nobody does or it ran out."""
        value = self._store.note("lease")
        try:
            left = float(value["until"]) - self._now()
            return (str(value["owner"]), left) if left > 0 else None
        except (ValueError, KeyError, TypeError):
            return None

    def acquire(self) -> bool:
        """Take or renew the lease; False while another driver holds it."""
        holder = self.holder()
        if holder is not None and holder[0] != self._owner:
            return False
        self._store.put_note("lease", {"owner": self._owner, "until": self._now() + self._duration_s})
        return True

    def release(self) -> None:
        """Give it up at a clean stop, so that the next driver need not wait."""
        holder = self.holder()
        if holder is not None and holder[0] == self._owner:
            self._store.remove_note("lease")
