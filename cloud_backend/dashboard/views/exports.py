"""A sink's rows to take away: CSV, JSON, Parquet, GeoJSON and GPX, with the coarse places a viewer sees on pages."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from cloud_backend.dashboard.privacy.hidden import hidden_columns
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.results import check_sink, key_names, row_shown
from cloud_backend.dashboard.views.time_range import ANY_TIME, TimeRange
from shared.errors import UsageError

ROWS_MAX = 200_000  # of one export, the newest; what is beyond is said in its name
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "geojson": "application/geo+json",
    "gpx": "application/gpx+xml",
}
Row = dict[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell starts that a spreadsheet would execute


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    content: bytes


def export(sources: Sources, sink: str, kind: str, *, exact: bool, within: TimeRange = ANY_TIME) -> File:
    """The newest rows of a sink, of a time, in this format, oldest first."""
    check_sink(sources, sink)
    hidden: Container[str] = () if exact else hidden_columns(sources, sink)
    found = sources.results.page(sink, from_us=within.from_us, to_us=within.to_us, limit=ROWS_MAX)
    names = key_names(sources, sink)
    rows = [row_shown(row, exact=exact, hidden=hidden) | {"key_names": names} for row in reversed(found)]
    content = _WRITERS[kind](rows)
    # A name from our own store, but made of plain letters only: a header is no place for anything else.
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in sink)[:60] or "results"
    return File(f"{name}.{kind}", MEDIA_TYPES[kind], content)


def as_csv(rows: Sequence[Row]) -> bytes:
    table = flat(rows)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in table])
    for cells in zip(*table.values(), strict=True):
        writer.writerow([_cell(value) for value in cells])
    return text.getvalue().encode()


def as_json(rows: Sequence[Row]) -> bytes:
    return json.dumps([_flat_row(row) for row in rows], ensure_ascii=False).encode("utf-8", "replace")


def as_parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow as arrow
    from pyarrow import parquet

    columns = {name: _column(arrow, values) for name, values in flat(rows).items()}
    sink = io.BytesIO()
    parquet.write_table(arrow.table(columns), sink)
    return sink.getvalue()


def as_geojson(rows: Sequence[Row]) -> bytes:
    latitude, longitude = place_of(rows)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [row["values"][longitude], row["values"][latitude]]},
            "properties": {key: value for key, value in _flat_row(row).items() if key not in (latitude, longitude)},
        }
        for row in rows
        if _is_somewhere(row, latitude, longitude)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def as_gpx(rows: Sequence[Row]) -> bytes:
    latitude, longitude = place_of(rows)
    tracks: dict[str, list[Row]] = {}
    for row in rows:
        if _is_somewhere(row, latitude, longitude):
            tracks.setdefault(" ".join(str(part) for part in row["key"]) or "all", []).append(row)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gpx version="1.1" creator="Resurge" xmlns="http://www.topografix.com/GPX/1/1">',
    ]
    for name, points in tracks.items():
        lines.append(f"<trk><name>{escape(_printable(name))}</name><trkseg>")
        for row in points:
            place = f"lat={quoteattr(str(row['values'][latitude]))} lon={quoteattr(str(row['values'][longitude]))}"
            lines.append(f"<trkpt {place}><time>{_time(row['window_end_us'])}</time></trkpt>")
        lines.append("</trkseg></trk>")
    return "\n".join([*lines, "</gpx>"]).encode()


_WRITERS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    "csv": as_csv, "json": as_json, "parquet": as_parquet, "geojson": as_geojson, "gpx": as_gpx,
}  # fmt: skip


def place_of(rows: Sequence[Row]) -> tuple[str, str]:
    """The pair of columns that says where: lat and lon, or the first two names that share what is around these."""
    names = list(rows[0]["values"]) if rows else []
    for latitude in names:
        for first, second in (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng")):
            longitude = latitude.replace(first, second)
            if first in latitude and longitude != latitude and longitude in names:
                return latitude, longitude
    raise UsageError(
        "these rows have no places: a map needs a column with lat and one with lon in its name; take CSV or Parquet",
        code="results-no-places",
    )


def flat(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The rows as columns: key parts, window, completeness, then the values under their names."""
    names = list(dict.fromkeys(name for row in rows for name in _flat_row(row)))
    return {name: [_flat_row(row).get(name) for row in rows] for name in names} if rows else {"window_end_us": []}


def _flat_row(row: Row) -> Row:
    keys = dict(zip(_key_columns(row), row["key"], strict=True))
    about = {name: row[name] for name in ("window_start_us", "window_end_us", "complete")}
    return {**keys, **about, **row["values"]}


def _key_columns(row: Row) -> list[str]:
    """A key's parts keep the names they have in the plan; where no plan tells, they are numbered."""
    names = row["key_names"]
    if len(names) != len(row["key"]) or set(names) & {*row["values"], "window_start_us", "window_end_us", "complete"}:
        return [f"key_{number}" for number in range(1, len(row["key"]) + 1)]
    return list(names)


def _is_somewhere(row: Row, latitude: str, longitude: str) -> bool:
    place = row["values"].get(latitude), row["values"].get(longitude)
    return all(isinstance(each, int | float) for each in place) and abs(place[0]) <= 90 and abs(place[1]) <= 180


def _cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula is quoted; a number may start with a minus."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _column(arrow: Any, values: list[Any]) -> Any:
    try:
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # a column whose rows disagree about its kind
        return arrow.array([None if value is None else str(value) for value in values])


def _time(time_us: int) -> str:
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00Z"


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
