"""What pages and API read and act on: one object, made once when the gateway starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.queries import Queries
from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.access import Access
from cloud_backend.dashboard.history import History
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from cloud_backend.spark.jobs import JobDirectory


@dataclass(frozen=True, slots=True)
class Sources:
    home: Path  # of the gateway
    log: Log
    roster: Roster
    results: Results
    access: Access
    history: History  # of the log, by hour; what pages read instead of the log
    plan: Path | None  # the encoded program of the devices
    stores: Callable[[], Mapping[str, Path]]  # Spark jobs by name, with the directory of their manifest and records
    queries: Queries  # what people asked beside the program
    alerts: Alerts
    jobs: JobDirectory | None  # where further jobs are wanted; None: nothing here would run them
    clock_us: Callable[[], int]
    version: str

    def close(self) -> None:
        self.history.close()
        self.queries.close()
        self.alerts.close()
        self.access.close()
