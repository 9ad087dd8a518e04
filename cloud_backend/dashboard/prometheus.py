"""What Prometheus is told beside the gateway's own counters: devices, lag, ledger, alerts, jobs, disk.

All of it is looked up when it is asked for and not counted as it happens, so it is right after a restart too. Per edge
and per job there is one series; per device there is none: a fleet of thousands would be thousands of series.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from cloud_backend.coordinator.alerts import RESULT
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.streams import streams
from cloud_backend.log.kafka.topics import Unreachable
from cloud_backend.log.partitions import place_in


class Exposition:
    def __init__(self, sources: Sources, registry: CollectorRegistry) -> None:
        self._sources = sources

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"resurge_{name}", text, labels, registry=registry)

        self._devices = gauge("devices", "Enrolled devices", "state")
        self._elements = gauge("stream_elements", "Elements decided, by stream", "stream")
        self._ledgered = gauge("stream_ledgered_elements", "Elements given up, by stream", "stream")
        self._lag = gauge("stream_lag_seconds", "How far the slowest device in contact lags, by stream", "stream")
        self._alerts = gauge("alerts_open", "Open alerts", "kind")
        self._webhooks = gauge("webhook_messages", "Messages to webhooks", "outcome")
        self._backlog = gauge("job_backlog_bytes", "Log that a job has not read", "job")
        self._job_lag = gauge("job_lag_seconds", "How long the oldest epoch waits that a job has yet to do", "job")
        self._epoch = gauge("job_epoch", "Last epoch a job has cut", "job")
        self._quarantined = gauge("job_quarantined_elements", "Delivered elements a job could not use", "job")
        self._parked = gauge("job_parked_vertices", "Vertices a job has given up on", "job")
        self._free = gauge("disk_free_bytes", "Free on the disk of the log")

    def look(self) -> None:
        """Read everything anew; touches disks, so use a thread."""
        sources = self._sources
        crowd = sources.look().crowd
        self._devices.labels("heard").set(crowd.connected)
        self._devices.labels("silent").set(crowd.offline + crowd.unseen)
        for stream in streams(sources):
            name = stream.name or f"{stream.number:016x}"
            self._elements.labels(name).set(stream.delivered + stream.ledgered)
            self._ledgered.labels(name).set(stream.ledgered)
            self._lag.labels(name).set(stream.lag_s or 0)
        open_alerts = sources.alerts.alerts(only_open=True, limit=1000)
        for kind in (*sources.alerts.rules(), RESULT):
            self._alerts.labels(kind).set(sum(alert.kind == kind for alert in open_alerts))
        for outcome, count in sources.alerts.counts().items():
            self._webhooks.labels(outcome).set(count)
        self._look_at_jobs()
        self._free.set(shutil.disk_usage(sources.home).free)

    def _look_at_jobs(self) -> None:
        for name, store in self._sources.stores().items():
            stable, status = _status_of(store / "stable.json"), _status_of(store / "status.json")
            if read := place_in(stable.get("read")):
                with suppress(Unreachable):  # brokers are away: the last known count stays
                    self._backlog.labels(name).set(max(self._sources.unread(read), 0))
            lag_s = status.get("lag_s")
            self._job_lag.labels(name).set(lag_s if isinstance(lag_s, int | float) else 0)
            if isinstance(epoch := status.get("epoch"), int):
                self._epoch.labels(name).set(epoch)
            quarantined = stable.get("quarantined")
            self._quarantined.labels(name).set(quarantined if isinstance(quarantined, int) else 0)
            parked = status.get("parked")
            self._parked.labels(name).set(len(parked) if isinstance(parked, dict) else 0)


def _status_of(path: Path) -> dict[str, object]:
    """A file that a job puts in place whole; empty before it does."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
