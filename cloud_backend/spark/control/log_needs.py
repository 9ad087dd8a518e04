"""What the jobs of one process together still need of the log, in two small files for the gateway.

`stable.json`: under the number of each partition ("0" is all that a log on a gateway's disk has) the offset below which
no job reads again, not even by a rollback inside its horizon; under "read" the same for where every running job has
done its work, a number where there is but one partition; "quarantined" is how many delivered elements were left out.
The gateway trims by the first and presses phones by the second. `hints.json`: the lowest sampling rate any job asks
for.

A job that is stopped keeps its place: the log is not trimmed past it until it is dropped. So a file written before
every job has spoken would let the gateway trim too much; whoever starts several jobs makes each known first.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.log.partitions import ONLY, Place, lowest


@dataclass(frozen=True, slots=True)
class Use:
    """One job's part. `read` None: it is stopped, and nobody waits for it."""

    oldest: Place
    read: Place | None
    quarantined: int = 0


class LogUse:
    """Shared by the threads of all jobs of a process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._uses: dict[str, Use] = {}
        self._rates: dict[str, float] = {}
        self._written: dict[str, Any] = {}

    def say(self, job: str, use: Use) -> None:
        with self._lock:
            self._uses[job] = use
            self._write_stable()

    def reading(self) -> int:
        """How many jobs work on the log."""
        with self._lock:
            return sum(use.read is not None for use in self._uses.values())

    def know(self, job: str, use: Use) -> None:
        """Remember a job's part without writing: for those that have not begun yet."""
        with self._lock:
            self._uses.setdefault(job, use)

    def ask(self, job: str, *, rate: float, backlog_bytes: int) -> None:
        """A job asks phones for this share of their sampling rate."""
        with self._lock:
            self._rates[job] = rate
            lowest = min(self._rates.values())
            if lowest != self._written.get("hints.json"):
                self._written["hints.json"] = lowest
                self._replace("hints.json", {"sampling_rate": lowest, "backlog_bytes": backlog_bytes})

    def pause(self, job: str) -> None:
        """The job stopped: it keeps its place in the log, but nobody waits for it any more."""
        with self._lock:
            self._rates.pop(job, None)
            if job in self._uses:
                self._uses[job] = Use(self._uses[job].oldest, None, self._uses[job].quarantined)
                self._write_stable()

    def forget(self, job: str) -> None:
        with self._lock:
            self._rates.pop(job, None)
            if self._uses.pop(job, None) is not None and self._uses:
                self._write_stable()

    def _write_stable(self) -> None:
        uses = self._uses.values()
        oldest = lowest(use.oldest for use in uses)
        read = lowest(use.read for use in uses if use.read is not None) or oldest
        value = {
            **oldest,
            "read": read[ONLY] if {*read} == {ONLY} else read,
            "quarantined": sum(use.quarantined for use in uses),
        }
        if value != self._written.get("stable.json"):
            self._written["stable.json"] = value
            self._replace("stable.json", value)

    def _replace(self, name: str, value: dict[str, Any]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        temporary = self._directory / f".{name}.{uuid.uuid4().hex[:8]}"
        temporary.write_text(json.dumps(value))
        temporary.replace(self._directory / name)
