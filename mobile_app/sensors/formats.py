"""Readers of the files people really have: GPX, GeoLife PLT, Sensor Logger, phyphox, plain CSV.

Each gives event times in microseconds and named columns; names are brought to the ones our sensors use
(`lat`, `lon`, `accuracy`, `x`, ...). A file without absolute time (phyphox) starts at 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from shared.errors import UsageError

FILE_BYTES_MAX = 256 * 1024 * 1024
FEET = 0.3048
GEOLIFE_NO_ALTITUDE = -777.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# lower-case name in a file: name in our streams
NAMES = {
    "latitude": "lat", "lat": "lat", "longitude": "lon", "lon": "lon", "lng": "lon",
    "horizontalaccuracy": "accuracy", "accuracy": "accuracy", "bearing": "bearing", "course": "bearing",
    "direction": "bearing", "velocity": "speed", "speed": "speed", "altitude": "altitude", "height": "altitude",
    "ele": "altitude", "pressure": "hpa", "illuminance": "lux",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """What a file holds: event times, and columns of the same length."""

    time_us: np.ndarray
    columns: dict[str, np.ndarray]


def load(path: Path) -> Track:
    """The readings of a recording, sorted by event time; the format is told by the file itself."""
    if not path.is_file():
        raise UsageError(f"no recording at {str(path)!r}; give a GPX, PLT or CSV file", code="recording-missing")
    if path.stat().st_size > FILE_BYTES_MAX:
        raise UsageError(
            f"recording {path.name!r} has {path.stat().st_size} bytes; at most {FILE_BYTES_MAX}, cut it into parts",
            code="recording-size",
        )
    suffix = path.suffix.lower()
    try:
        if suffix == ".gpx":
            track = _gpx(path)
        elif suffix == ".plt":
            track = _plt(path)
        else:
            track = _table(path)
    except (ValueError, IndexError, ElementTree.ParseError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"recording {path.name!r} cannot be read: {error}", code="recording-format") from error
    if not len(track.time_us):
        raise UsageError(f"recording {path.name!r} holds no readings", code="recording-empty")
    order = np.argsort(track.time_us, kind="stable")
    return Track(track.time_us[order], {name: column[order] for name, column in track.columns.items()})


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _parse_iso(text: str) -> int:
    moment = datetime.fromisoformat(text.strip())
    return _microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _gpx(path: Path) -> Track:
    times: list[int] = []
    rows: dict[str, list[float]] = {"lat": [], "lon": [], "altitude": [], "speed": [], "bearing": []}
    # The file is the user's own, and expat bounds entity expansion since 2.4.1.
    for _, element in ElementTree.iterparse(path):  # noqa: S314
        if element.tag.rpartition("}")[2] != "trkpt":
            continue
        values = {child.tag.rpartition("}")[2]: child.text or "" for child in element.iter()}
        if "time" in values:  # a point without time is a drawing, not a reading
            times.append(_parse_iso(values["time"]))
            rows["lat"].append(float(element.attrib["lat"]))
            rows["lon"].append(float(element.attrib["lon"]))
            for name, tag in (("altitude", "ele"), ("speed", "speed"), ("bearing", "course")):
                rows[name].append(float(values.get(tag) or "nan"))
        element.clear()
    return _track(times, rows)


def _plt(path: Path) -> Track:
    times: list[int] = []
    rows: dict[str, list[float]] = {"lat": [], "lon": [], "altitude": []}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number < 6 or not line.strip():
                continue
            lat, lon, _, feet, _, day, clock = line.strip().split(",")
            times.append(_parse_iso(f"{day}T{clock}"))
            rows["lat"].append(float(lat))
            rows["lon"].append(float(lon))
            rows["altitude"].append(float("nan") if float(feet) == GEOLIFE_NO_ALTITUDE else float(feet) * FEET)
    return _track(times, rows)


def _table(path: Path) -> Track:
    """Sensor Logger (`time` in ns), phyphox (`Time (s)`, any separator, decimal comma) or a plain CSV."""
    with path.open(encoding="utf-8-sig", newline="") as text:
        first = text.readline()
        separator = max(("\t", ";", ","), key=first.count)
        header = next(csv.reader([first], delimiter=separator))
        table = [row for row in csv.reader(text, delimiter=separator) if row]
    column_of_time = _time_column(header)
    decimal_comma = separator != ","
    columns = [name for name in range(len(header)) if name != column_of_time]
    rows: dict[str, list[float]] = {}
    for index in columns:
        try:
            rows[_name(header[index])] = [_number(row[index], decimal_comma=decimal_comma) for row in table]
        except ValueError:
            continue  # a column of text (a note, a label): sensors are numbers
    return _track(_times([row[column_of_time] for row in table], header[column_of_time], decimal_comma), rows)


def _time_column(header: list[str]) -> int:
    for index, name in enumerate(header):
        if re.fullmatch(r"(time|timestamp)\b.*", name.strip().strip('"').lower()):
            return index
    raise ValueError(f"no column 'time' or 'timestamp' (has: {', '.join(header)})")


def _name(title: str) -> str:
    """`Acceleration x (m/s^2)` -> `x`, `horizontalAccuracy` -> `accuracy`, others in lower case with underscores."""
    plain = re.sub(r"\s*\(.*?\)", "", title).strip().lower()
    axis = re.fullmatch(r".*\s([xyz])", plain)
    if axis:
        return axis.group(1)
    return NAMES.get(plain.replace(" ", "").replace("_", ""), re.sub(r"\W+", "_", plain))


def _number(text: str, *, decimal_comma: bool) -> float:
    text = text.strip()
    return float((text.replace(",", ".") if decimal_comma else text) or "nan")


def _times(cells: list[str], title: str, decimal_comma: bool) -> list[int]:
    first = cells[0].strip() if cells else ""
    if re.match(r"\d{4}-\d\d-\d\d", first):
        return [_parse_iso(cell) for cell in cells]
    if "(s)" not in title and first.isdigit() and len(first) > 10:
        # Whole numbers of 11 to 13, 14 to 16, 17 to 19 digits: a plausible date in ms, us, ns. Integers, so exact.
        multiply, divide = ((1000, 1), (1, 1), (1, 1000))[min(2, (len(first) - 11) // 3)]
        return [int(cell) * multiply // divide for cell in cells]
    return [round(_number(cell, decimal_comma=decimal_comma) * 1e6) for cell in cells]


def _track(times: Iterable[int], rows: dict[str, list[float]]) -> Track:
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in rows.items()}
    return Track(np.asarray(list(times), dtype=np.int64), columns)
