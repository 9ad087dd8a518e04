"""The facts of every job, read again only when the job has said something new, and at most once a second.

That a job has not run yet is looked up every time: a page that waits for its first run is told of it once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloud_backend.lease import Lease
from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.storage.store import Store
from shared.errors import ResurgeError

FRESH_S = 1.0
EPOCHS_SHOWN = 24


class JobFacts:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[float, tuple[int, int], dict[str, Any]]] = {}

    def of(self, store: Path) -> dict[str, Any]:
        """The facts of the job in this store; only `error` when it has not run, or cannot be read."""
        with self._lock:
            known = self._known.get(store)
            now = time.monotonic()
            if known is not None and now - known[0] < FRESH_S and known[2].get("vertices"):
                return known[2]
            stamp = _stamp(store)
            if known is not None and known[1] == stamp:
                facts = known[2] | ({"alive": _alive(store)} if "alive" in known[2] else {})
            else:
                facts = _facts(store)
            self._known[store] = (now, stamp, facts)
            return facts

    def all(self, stores: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
        return {name: self.of(store) for name, store in stores.items()}

    def forget(self) -> None:
        """Read anew at the next look: something was just changed."""
        with self._lock:
            self._known.clear()


def _facts(store: Path) -> dict[str, Any]:
    try:
        return job_facts(store, epochs=EPOCHS_SHOWN)
    except ResurgeError as error:
        return {"error": "" if error.code in ("job-no-store", "job-no-plan") else error.message}


def _alive(store: Path) -> bool:
    """Whether a driver holds the lease: that ends without anybody writing anything."""
    return Lease(Store(store), owner="", duration_s=0, now=time.time).holder() is not None


def _stamp(store: Path) -> tuple[int, int]:
    """Differs after every entry of the manifest and every word of the driver."""
    found = []
    for path in (store / "manifest", store / "status.json"):
        try:
            found.append(path.stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return found[0], found[1]
