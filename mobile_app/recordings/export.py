"""Recordings as files that other programs open: one CSV, a GPX track, or a zip with a CSV per sensor.

Times are given twice, as UTC and as seconds since the recording began; column titles carry their units. A number is
written with as many digits as make it the same number again. Files go to `exports/` in the home, readable by their
owner; they are copies in the clear, so the next start of the service removes those that are older than a day.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TextIO
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from mobile_app.recordings.store import MARKERS, About, Recordings
from shared.batch import Batch
from shared.errors import UsageError

EXPORTS = "exports"
KEEP_S = 24 * 3600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {
    "lat": "deg", "lon": "deg", "altitude": "m", "accuracy": "m", "speed": "m/s", "bearing": "deg", "hpa": "hPa",
    "lux": "lx", "dbm": "dBm", "level": "0..1", "db": "dB", "celsius": "C", "percent": "%",
}  # fmt: skip
AXES = {"accelerometer": "m/s^2", "gravity": "m/s^2", "gyroscope": "rad/s", "magnetometer": "uT"}


def export(home: Path, recordings: Recordings, recording: str, kind: str) -> Path:
    """Write the recording in this form; returns where. What is still being recorded is exported up to now."""
    about = recordings.about(recording)
    writers = {"csv": _write_csv, "gpx": _write_gpx, "zip": _write_zip}
    if kind not in writers:
        raise UsageError(f"no export {kind!r}; expected one of {', '.join(writers)}", code="export-kind")
    parts = _by_sensor(recordings.rows(recording))
    if kind == "gpx" and "gps" not in parts:
        raise UsageError(f"{about.name!r} holds no positions, so there is no track; use csv or zip", code="export-gpx")
    directory = home / EXPORTS
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{_file_name(about)}.{kind}"
    path.touch(mode=0o600)
    with path.open("wb") as file:
        writers[kind](file, about, parts)
    return path


def clear_old_exports(home: Path, now: float) -> None:
    """Remove copies that have lain here for more than a day; `now` is wall time."""
    for path in (home / EXPORTS).glob("*"):
        if path.stat().st_mtime < now - KEEP_S:
            path.unlink()


Parts = Mapping[str, list[Batch]]


def _by_sensor(rows: Iterable[tuple[str, Batch]]) -> dict[str, list[Batch]]:
    parts: dict[str, list[Batch]] = {}
    for sensor, batch in rows:
        parts.setdefault(sensor, []).append(batch)
    return parts


def _write_zip(file: IO[bytes], about: About, parts: Parts) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for sensor, batches in parts.items():
            with archive.open(f"{sensor}.csv", "w") as entry, io.TextIOWrapper(entry, "utf-8", newline="") as text:
                _write_sensor(text, about, sensor, batches)
        if "gps" in parts:
            with archive.open("track.gpx", "w") as entry:
                _write_gpx(entry, about, parts)
        archive.writestr("about.json", json.dumps(asdict(about), indent=2))


def _write_sensor(text: TextIO, about: About, sensor: str, batches: list[Batch]) -> None:
    names = batches[0].schema.names
    table = csv.writer(text)
    table.writerow(["time", "elapsed (s)", *(_title(sensor, name) for name in names)])
    for batch in batches:
        table.writerows(_rows(about, batch, names))


def _rows(about: About, batch: Batch, names: Iterable[str]) -> Iterator[list[object]]:
    columns = [batch.columns[name].tolist() for name in names]
    for time_us, *values in zip(batch.time_us.tolist(), *columns, strict=True):
        yield [_utc(time_us), (time_us - about.started_us) / 1e6, *(_cell(value) for value in values)]


def _write_csv(file: IO[bytes], about: About, parts: Parts) -> None:
    """Every reading of every sensor in one table, by time; cells of the other sensors stay empty."""
    sensors = [sensor for sensor in parts if sensor != MARKERS]
    widths = {sensor: parts[sensor][0].schema.names for sensor in parts}
    with io.TextIOWrapper(file, "utf-8", newline="") as text:
        table = csv.writer(text)
        titles = [f"{sensor} {_title(sensor, name)}" for sensor in sensors for name in widths[sensor]]
        table.writerow(["time", "elapsed (s)", "sensor", "marker", *titles])
        before, total = {}, 0
        for sensor in sensors:
            before[sensor] = total
            total += len(widths[sensor])
        rows = [
            (time_us, sensor, values)
            for sensor, batches in parts.items()
            for batch in batches
            for time_us, *values in zip(
                batch.time_us.tolist(), *(batch.columns[name].tolist() for name in widths[sensor]), strict=True
            )
        ]
        rows.sort(key=lambda row: row[0])
        for time_us, sensor, values in rows:
            cells: list[object] = [""] * total
            marker = str(values[0]) if sensor == MARKERS else ""
            if sensor != MARKERS:
                cells[before[sensor] : before[sensor] + len(values)] = [_cell(value) for value in values]
            table.writerow([_utc(time_us), (time_us - about.started_us) / 1e6, sensor, marker, *cells])


def _write_gpx(file: IO[bytes], about: About, parts: Parts) -> None:
    gps = Batch.joined(parts["gps"])
    times, fix = gps.time_us, gps.columns
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gpx version="1.1" creator="Resurge" xmlns="http://www.topografix.com/GPX/1/1">',
    ]
    known = np.flatnonzero(np.isfinite(fix["lat"]) & np.isfinite(fix["lon"]))
    for marker in parts.get(MARKERS, []):
        for time_us, label in zip(marker.time_us.tolist(), marker.columns["label"], strict=True):
            if len(known):  # the fix that was current at that moment, or the first one after it
                at = int(known[max(0, int(np.searchsorted(times[known], time_us, side="right")) - 1)])
                lines.append(_point("wpt", fix, at, time_us, f"<name>{escape(str(label))}</name>"))
    lines += [f"<trk><name>{escape(about.name)}</name><trkseg>"]
    lines += [_point("trkpt", fix, at, int(times[at])) for at in known.tolist()]
    file.write("\n".join([*lines, "</trkseg></trk>", "</gpx>", ""]).encode())


def _point(tag: str, fix: Mapping[str, np.ndarray], at: int, time_us: int, more: str = "") -> str:
    lat, lon = float(fix["lat"][at]), float(fix["lon"][at])
    altitude = float(fix["altitude"][at]) if "altitude" in fix else float("nan")
    ele = "" if np.isnan(altitude) else f"<ele>{altitude!r}</ele>"
    where = f"lat={quoteattr(repr(lat))} lon={quoteattr(repr(lon))}"
    return f"<{tag} {where}>{ele}<time>{_utc(time_us)}</time>{more}</{tag}>"


def _title(sensor: str, name: str) -> str:
    unit = AXES.get(sensor) if name in ("x", "y", "z") else UNITS.get(name)
    return f"{name} ({unit})" if unit else name


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return value


def _utc(time_us: int) -> str:
    return (EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _file_name(about: About) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "-", about.name).strip("-").lower()
    return f"{about.id}-{plain}" if plain else about.id
