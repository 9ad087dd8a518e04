"""Named recordings with markers. They need no plan and no gateway, and stay until their person deletes them.

Each lies in its own directory, `recordings/ID/`: `about.json` says what it is, `rows` holds the readings
(`rows_file.py`). It is running as long as `about.json` names no end: a service that was killed goes on with it
at the next start, and the silence between shows as a gap. Readings are durable within the loss window.

A full disk ends a recording, it never damages one: what was flushed before is whole, and the reason is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mobile_app.home.files import read_json, write_durably
from mobile_app.recordings.rows_file import ROWS_FILE, RecordingWriter, read_rows
from mobile_app.sensors.source import Samples
from shared.batch import Batch
from shared.errors import UsageError
from shared.identity import DeviceId
from shared.spool.cipher import Cipher
from shared.spool.disk import PosixDisk

RECORDINGS = "recordings"
ABOUT_FILE = "about.json"
MARKERS = "markers"
RESERVE_FILE = "reserve"  # room that a running recording holds, so that its end can be written to a full disk
RESERVE_BYTES = 16 * 1024
NAME_CHARACTERS_MAX = 80
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class About:
    """What a recording is. `ended_us` None: it runs, or was interrupted and will go on."""

    id: str
    name: str
    started_us: int
    sensors: dict[str, int]  # microseconds between readings, as asked
    ended_us: int | None = None
    readings: dict[str, int] = field(default_factory=dict)  # counted at the end
    markers: list[dict[str, Any]] = field(default_factory=list)
    ended_by: str = ""  # a health code when it was not its person


@dataclass(slots=True)
class Running:
    about: About
    writer: RecordingWriter
    held_since: float | None = None


class Recordings:
    """The recordings of one home. Used by the loop's thread only."""

    def __init__(self, home: Path, device: DeviceId, cipher: Cipher | None, *, loss_window_s: float) -> None:
        self._directory = home / RECORDINGS
        self._device = device
        self._cipher = cipher
        self._loss_window_s = loss_window_s
        self.running: Running | None = None
        for about in self._all():
            if about.ended_us is None:
                writer = RecordingWriter(self._disk(about.id), device, cipher)
                self.running = Running(replace(about, markers=self._markers(about.id)), writer)
                break

    # --- while it runs -------------------------------------------------------------------------------------------

    def start(self, name: str, sensors: Mapping[str, int], now_us: int) -> About:
        if self.running is not None:
            raise UsageError(f"{self.running.about.name!r} is being recorded; stop it first", code="recording-running")
        if not sensors:
            raise UsageError("no sensor to record; allow one, or name some", code="recording-sensors")
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_us / 1e6))
        known = {about.id for about in self._all()}
        number = next(n for n in range(1, 10_000) if f"{stamp}-{n}" not in known)
        about = About(f"{stamp}-{number}", _checked(name) or f"Recording {stamp}", now_us, dict(sensors))
        disk = self._disk(about.id)
        disk.replace(RESERVE_FILE, bytes(RESERVE_BYTES))
        writer = RecordingWriter(disk, self._device, self._cipher)
        self._save(about)
        self.running = Running(about, writer)
        return about

    def take(self, sensor: str, samples: Samples) -> None:
        """Take readings of a sensor that is being recorded."""
        running = self.running
        if running is None or sensor not in running.about.sensors:
            return
        start = int(np.searchsorted(samples.time_us, running.about.started_us))
        if start:  # read before the button was pressed
            samples = Samples(samples.time_us[start:], {n: c[start:] for n, c in samples.columns.items()}, 0)
        running.writer.add(sensor, samples)

    def marker(self, label: str, now_us: int) -> dict[str, Any]:
        """Mark this moment; durable when this returns."""
        running = self._running()
        label = _checked(label) or f"Marker {running.writer.rows.get(MARKERS, 0) + 1}"
        labels = np.array([label], dtype=np.dtypes.StringDType())
        running.writer.add(MARKERS, Samples(np.array([now_us], np.int64), {"label": labels}, now_us))
        marker = {"label": label, "time_us": now_us}
        running.about.markers.append(marker)
        running.writer.flush()
        running.held_since = None
        return marker

    def commit(self, now: float) -> None:
        """Keep the loss window: flush what has waited as long as it may. OSError: the disk refused; see `abandon`."""
        running = self.running
        if running is None or not running.writer.holds:
            return
        if running.held_since is None:
            running.held_since = now
        elif now - running.held_since >= self._loss_window_s:
            running.writer.flush()
            running.held_since = None

    def stop(self, now_us: int, *, ended_by: str = "") -> dict[str, Any]:
        """End the running recording; everything taken is durable when this returns."""
        running = self._running()
        try:
            running.writer.flush()
        except OSError:
            if not ended_by:
                raise
        running.writer.close()
        self.running = None
        (self._directory / running.about.id / RESERVE_FILE).unlink(missing_ok=True)  # its room is for writing the end
        counts = {name: count for name, count in running.writer.rows.items() if name != MARKERS}
        about = replace(running.about, ended_us=now_us, readings=counts, markers=self._markers(running.about.id),
                        ended_by=ended_by)  # fmt: skip
        try:
            self._save(about)
        except OSError:
            if not ended_by:
                raise
        return self._summary(about)

    def close(self) -> None:
        """Leave a running recording so that the next start goes on with it."""
        if self.running is not None:
            try:
                self.running.writer.flush()
            finally:
                self.running.writer.close()
                self.running = None

    def leave(self) -> None:
        """What a kill does: nothing is flushed."""
        if self.running is not None:
            self.running.writer.close()
            self.running = None

    def room(self, recordings_mb: int, free_mb: int) -> str:
        """Empty while there is room to go on; otherwise what is used up."""
        if self.used_bytes() >= recordings_mb * MEGABYTE:
            return f"the recordings have reached their limit of {recordings_mb} MB"
        if self._directory.exists():
            status = os.statvfs(self._directory)
            if status.f_bavail * status.f_frsize < free_mb * MEGABYTE:
                return f"less than {free_mb} MB are free on this device"
        return ""

    # --- what there is ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """The running recording, for the screens."""
        running = self.running
        if running is None:
            return None
        counts = {name: count for name, count in running.writer.counts().items() if name != MARKERS}
        return {
            "id": running.about.id, "name": running.about.name, "started_us": running.about.started_us,
            "sensors": sorted(running.about.sensors), "readings": counts, "bytes": running.writer.bytes,
            "markers": list(running.about.markers),
        }  # fmt: skip

    def summaries(self) -> list[dict[str, Any]]:
        """Every recording, newest first."""
        return [self._summary(about) for about in sorted(self._all(), key=lambda a: a.started_us, reverse=True)]

    def about(self, recording: str) -> About:
        for about in self._all():
            if about.id == recording:
                return about
        raise UsageError(f"no recording {recording!r} here; `recordings` lists them", code="recording-unknown")

    def rows(self, recording: str) -> Iterator[tuple[str, Batch]]:
        """(sensor, batch) of everything durable in it."""
        return read_rows(self._disk(self.about(recording).id), self._cipher)

    def rename(self, recording: str, name: str) -> dict[str, Any]:
        about = replace(self.about(recording), name=_checked(name) or recording)
        self._save(about)
        if self.running is not None and self.running.about.id == recording:
            self.running.about = replace(self.running.about, name=about.name)
        return self._summary(about)

    def delete(self, recording: str) -> None:
        """Remove it; gone for good when this returns."""
        about = self.about(recording)
        if self.running is not None and self.running.about.id == recording:
            raise UsageError(f"{about.name!r} is being recorded; stop it first", code="recording-running")
        shutil.rmtree(self._directory / about.id)
        PosixDisk(self._directory).sync()

    def used_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._directory.glob(f"*/{ROWS_FILE}"))

    def _summary(self, about: About) -> dict[str, Any]:
        running = self.running is not None and self.running.about.id == about.id
        live = (self.state() if running else None) or {}
        path = self._directory / about.id / ROWS_FILE
        return {
            "id": about.id, "name": about.name, "started_us": about.started_us, "ended_us": about.ended_us,
            "readings": live.get("readings", about.readings), "markers": live.get("markers", about.markers),
            "bytes": path.stat().st_size if path.exists() else 0, "running": running, "ended_by": about.ended_by,
        }  # fmt: skip

    def _markers(self, recording: str) -> list[dict[str, Any]]:
        return [
            {"label": str(label), "time_us": int(time_us)}
            for sensor, batch in read_rows(self._disk(recording), self._cipher)
            if sensor == MARKERS
            for label, time_us in zip(batch.columns["label"], batch.time_us, strict=True)
        ]

    def _all(self) -> Iterator[About]:
        for path in sorted(self._directory.glob(f"*/{ABOUT_FILE}")):
            yield About(**read_json(path))

    def _save(self, about: About) -> None:
        write_durably(self._directory / about.id / ABOUT_FILE, json.dumps(asdict(about)).encode())

    def _disk(self, recording: str) -> PosixDisk:
        return PosixDisk(self._directory / recording)

    def _running(self) -> Running:
        if self.running is None:
            raise UsageError("nothing is being recorded; start first", code="recording-none")
        return self.running


def _checked(text: str) -> str:
    """A name or label as it may stand in file names' company, screens and exports: printable, bounded."""
    clean = "".join(c for c in text.strip() if c.isprintable())[:NAME_CHARACTERS_MAX]
    return clean.strip()
