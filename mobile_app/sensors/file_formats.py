"""Readers of the files people really have: GPX, GeoLife PLT, Sensor Logger, phyphox, WFDB, plain CSV.

Each gives event times in microseconds and named columns; names are brought to the ones our sensors use
(`lat`, `lon`, `accuracy`, `x`, ...). A file without absolute time (phyphox, WFDB) starts at 0. A row with a cell that
cannot be read is left out and counted; the rest of the file is read. A column without any number is text and left out;
where numbers were to be expected in it, that is said. A last line without its end may be cut inside a
number and still look like one, so it counts as such a row, too, unless it is certainly whole.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from mobile_app.sensors.wfdb_records import read_record
from shared.errors import UsageError

FILE_BYTES_MAX = 256 * 1024 * 1024
FEET = 0.3048
GEOLIFE_NO_ALTITUDE = -777.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GPS_BEGAN_US = 315_964_800_000_000  # 1980-01-06

# lower-case name in a file: name in our streams
NAMES = {
    "latitude": "lat", "lat": "lat", "longitude": "lon", "lon": "lon", "lng": "lon",
    "horizontalaccuracy": "accuracy", "accuracy": "accuracy", "bearing": "bearing", "course": "bearing",
    "direction": "bearing", "velocity": "speed", "speed": "speed", "altitude": "altitude", "height": "altitude",
    "ele": "altitude", "pressure": "hpa", "illuminance": "lux",
}  # fmt: skip


NUMBERS = frozenset(NAMES.values()) | {"x", "y", "z"}  # columns of sensors

# What GPX calls a column of ours, as a child of the point or inside its <extensions>.
GPX_COLUMNS = {
    "altitude": ("ele",), "speed": ("speed",), "bearing": ("course", "bearing"),
    "accuracy": ("accuracy", "horizontalaccuracy"),
}  # fmt: skip
CHUNK_CHARACTERS = 1 << 16
NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f]")  # characters that XML never has
BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")  # an ampersand that begins no entity
ENTITY_CHARACTERS = 10  # of the longest of them
NAMES_SHOWN, NAME_SHOWN = 12, 30  # of a header, in a message
CUT = "the file ends in the middle of this line"
UNITS_US = {"s": 1e6, "ms": 1e3, "us": 1.0, "µs": 1.0, "ns": 1e-3}


@dataclass(slots=True)
class Unreadable:
    """Rows that were left out: how many, and what was wrong with the first."""

    rows: int = 0
    first: str = ""

    def add(self, where: str, why: object) -> None:
        self.rows += 1
        self.first = self.first or f"{where}: {why}"


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """What a file holds: event times, and columns of the same length."""

    time_us: np.ndarray
    columns: dict[str, np.ndarray]
    unreadable: Unreadable = field(default_factory=Unreadable)
    texts: dict[str, str] = field(default_factory=dict)  # columns of a sensor that hold text here: what stands in them


def load(path: Path) -> Track:
    """The readings of a recording, sorted by event time; the format is told by the file itself."""
    if not path.is_file():
        raise UsageError(f"no recording at {str(path)!r}; give a GPX, PLT, WFDB or CSV file", code="recording-missing")
    if path.stat().st_size > FILE_BYTES_MAX:
        raise UsageError(
            f"recording {path.name!r} has {path.stat().st_size} bytes; at most {FILE_BYTES_MAX}, cut it into parts",
            code="recording-size",
        )
    if not path.stat().st_size:
        raise UsageError(f"recording {path.name!r} is an empty file; export or copy it again", code="recording-empty")
    read = {".gpx": _gpx, ".plt": _plt, ".hea": _wfdb}.get(path.suffix.lower(), _table)
    try:
        track = read(path)
    except (ValueError, OSError, ElementTree.ParseError, expat.ExpatError, csv.Error) as error:
        raise UsageError(f"recording {path.name!r} cannot be read: {error}", code="recording-format") from error
    if not len(track.time_us):
        if track.unreadable.rows:
            raise UsageError(
                f"recording {path.name!r} has no row that can be read: {track.unreadable.first}",
                code="recording-format",
            )
        raise UsageError(f"recording {path.name!r} holds no readings", code="recording-empty")
    order = np.argsort(track.time_us, kind="stable")
    order = order[_without_unset_clock(track.time_us[order], track.unreadable) :]
    columns = {name: column[order] for name, column in track.columns.items()}
    return Track(track.time_us[order], columns, track.unreadable, track.texts)


def _without_unset_clock(times: np.ndarray, unreadable: Unreadable) -> int:
    """How many of these sorted times a clock said before it was set: from before there was GPS, where others are later.
    A recording that began in 1970 would be played for half a century."""
    early = int(np.searchsorted(times, GPS_BEGAN_US))
    if early == len(times):
        return 0  # a file whose times count from 0
    for time_us in times[:early].tolist():
        said = (EPOCH + timedelta(microseconds=max(time_us, 0))).date()
        unreadable.add("its beginning", f"time {said} is that of a clock which is not set")
    return early


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _parse_iso(text: str) -> int:
    moment = datetime.fromisoformat(text.strip())
    return _microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _gpx(path: Path) -> Track:
    try:
        # The file is the user's own, and expat bounds entity expansion since 2.4.1.
        return _gpx_track(element for _, element in ElementTree.iterparse(path))  # noqa: S314
    except ElementTree.ParseError:
        return _gpx_track(_mended(path), cut=True)


def _gpx_track(elements: Iterator[ElementTree.Element], *, cut: bool = False) -> Track:
    """The points among these elements, each of which has just ended; if it may be `cut`, those before an error."""
    times: list[int] = []
    rows: dict[str, list[float]] = {name: [] for name in ("lat", "lon", *GPX_COLUMNS)}
    unreadable = Unreadable()
    number = drawn = 0
    try:
        for element in elements:
            tag = element.tag.rpartition("}")[2]
            if tag != "trkpt":
                drawn += tag in ("rtept", "wpt")
                continue
            number += 1
            try:
                point = _gpx_point(element)
            except (ValueError, KeyError) as error:
                unreadable.add(f"point {number}", error)
            else:
                if point is None:
                    drawn += 1
                else:
                    times.append(point[0])
                    for name, value in point[1].items():
                        rows[name].append(value)
            element.clear()
    except expat.ExpatError as error:
        if not times or not cut:
            raise
        unreadable.add("its end", f"the file is cut short or damaged ({error})")
    if drawn and not times and not unreadable.rows:
        raise ValueError(f"none of its {drawn:,} points has a time: it is a drawn way and no recording")
    # A column that no point has is not there: a program can then be told so.
    known = {name: values for name, values in rows.items() if not all(map(math.isnan, values))}
    return _track(times, known, unreadable)


def _mended(path: Path) -> Iterator[ElementTree.Element]:
    """Elements as they end, their names without prefixes, of a file that is no XML to the letter. Some apps write
    `gpxtpx:hr` and never say what that means, a name in another encoding than the file claims, `&` as it is typed, or
    an empty line before everything. None of that is in a point. It is slower, so others are read without it."""
    builder, ended = ElementTree.TreeBuilder(), list[ElementTree.Element]()
    parser = expat.ParserCreate()  # given text, so what the file says of its encoding does not count
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: builder.start(name.rpartition(":")[2], attributes)
    parser.EndElementHandler = lambda name: ended.append(builder.end(name.rpartition(":")[2]))
    parser.CharacterDataHandler = builder.data
    with path.open(encoding=_encoding(path), errors="replace") as file:
        chunk, held, failed = "-", "", None
        at_start = True
        while chunk and failed is None:
            chunk = file.read(CHUNK_CHARACTERS)
            text = NO_XML.sub("", held + chunk)
            text = text.lstrip() if at_start else text
            at_start = at_start and not text
            start = text.rfind("&", max(0, len(text) - ENTITY_CHARACTERS)) if chunk else -1
            text, held = (text, "") if start < 0 else (text[:start], text[start:])  # an entity may end in the next
            try:
                parser.Parse(BARE.sub("&amp;", text), not chunk)
            except expat.ExpatError as error:
                failed = error
            yield from ended
            ended.clear()
        if failed is not None:
            raise failed


def _encoding(path: Path) -> str:
    """UTF-16 where it begins with its mark or a letter of two bytes, or else UTF-8."""
    with path.open("rb") as file:
        head = file.read(2)
    if head in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(head) == 2 and (head[0] == 0) != (head[1] == 0):
        return "utf-16-le" if head[1] == 0 else "utf-16-be"
    return "utf-8-sig"


def _gpx_point(element: ElementTree.Element) -> tuple[int, dict[str, float]] | None:
    """Time and values; None for a point without a time, which is a drawing and no reading."""
    values: dict[str, str] = {}
    for child in (*element, *element.iter()):  # its own children count before what extensions repeat
        values.setdefault(child.tag.rpartition("}")[2].lower(), (child.text or "").strip())
    if not values.get("time"):
        return None
    point = {"lat": _number(element.attrib["lat"]), "lon": _number(element.attrib["lon"])}
    if not (-90 <= point["lat"] <= 90 and -180 <= point["lon"] <= 180):
        raise ValueError(f"lat {point['lat']}, lon {point['lon']} is no place")
    for name, tags in GPX_COLUMNS.items():
        point[name] = _number(next((values[tag] for tag in tags if values.get(tag)), ""))
    return _parse_iso(values["time"]), point


def _plt(path: Path) -> Track:
    times: list[int] = []
    rows: dict[str, list[float]] = {"lat": [], "lon": [], "altitude": []}
    unreadable = Unreadable()
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if number <= 6 or not line.strip():
                continue
            try:
                lat, lon, _, feet, _, day, clock = line.strip().split(",")
                if not line.endswith("\n") and not re.fullmatch(r"\d\d:\d\d:\d\d", clock):
                    raise ValueError(CUT)
                time_us, north, east, height = _parse_iso(f"{day}T{clock}"), float(lat), float(lon), float(feet)
            except ValueError as error:
                unreadable.add(f"line {number}", error)
                continue
            times.append(time_us)
            rows["lat"].append(north)
            rows["lon"].append(east)
            rows["altitude"].append(float("nan") if height == GEOLIFE_NO_ALTITUDE else height * FEET)
    return _track(times, rows, unreadable)


def _wfdb(path: Path) -> Track:
    return Track(*read_record(path))


def _table(path: Path) -> Track:
    """Sensor Logger (`time` in ns), phyphox (`Time (s)`, any separator, decimal comma) or a plain CSV."""
    unreadable = Unreadable()
    with path.open("rb") as file:
        head = file.read(4)
    with path.open(encoding=_encoding(path), errors="replace", newline="") as text:
        first = text.readline()
        _check_is_table(head, first)
        separator = max(("\t", ";", ","), key=first.count)
        header = next(csv.reader([first], delimiter=separator))
        reader = csv.reader((line.replace("\0", "") for line in text), delimiter=separator)
        table: list[tuple[int, list[str]]] = []
        for row in reader:
            if len(row) >= len(header):
                table.append((reader.line_num + 1, row))
            elif row:
                unreadable.add(f"line {reader.line_num + 1}", f"{len(row)} of {len(header)} cells")
    if table and table[-1][0] == reader.line_num + 1 and _is_cut(path, [row[len(header) - 1 :] for _, row in table]):
        unreadable.add(f"line {table.pop()[0]}", CUT)
    at = _time_column(header)
    comma = separator != ","
    table, times = _read_times(table, at, header[at], comma, unreadable)
    columns = {index: _name(header[index]) for index in range(len(header)) if index != at}
    cells = {index: [row[index] for _, row in table] for index in columns}
    parsed = {index: _column(cells[index], comma, of_sensor=name in NUMBERS) for index, name in columns.items()}
    texts = {
        name: next(filter(str.strip, cells[index]), "")[:40]
        for index, name in columns.items() if parsed[index] is None and name in NUMBERS
    }  # fmt: skip
    numbers = {index: values for index, values in parsed.items() if values is not None}
    good = []
    for place, (line, row) in enumerate(table):
        bad = next((index for index, values in numbers.items() if values[place] is None), None)
        if bad is None:
            good.append(place)
        else:
            unreadable.add(f"line {line}", f"{row[bad][:40]!r} in column {header[bad]!r} is not a number")
    rows = {columns[index]: [values[place] or 0.0 for place in good] for index, values in numbers.items()}
    track = _track([times[place] for place in good], rows, unreadable)
    return replace(track, texts=texts)


def _check_is_table(head: bytes, first: str) -> None:
    """ValueError for what is no table, before its first line is taken for names of columns."""
    if head == b"PK\x03\x04":
        raise ValueError("it is an archive; unpack it and give a file that is in it")
    if first.lstrip()[:1] in ("<", "{", "["):
        raise ValueError("it is XML or JSON and no table; export it as GPX or CSV")
    if sum(not character.isprintable() for character in first.rstrip().replace("\t", " ")) > 0:
        raise ValueError("it is no text; export it as GPX or CSV")


def _is_cut(path: Path, ends: list[list[str]]) -> bool:
    """Whether the last line may lack its end. `ends` are the last cells of each row, with what stands behind them.

    It is whole where the line is ended, a further separator or a quote follows its last cell, or where that is written
    as all before it: a moment or a number with the same digits, whole numbers apart.
    """
    with path.open("rb") as file:
        file.seek(-2, os.SEEK_END)
        if file.read(2).strip(b"\0")[-1:] in b'\r\n"' or len(ends[-1]) > 1:
            return False
    shapes = {re.sub(r"\d", "0", end[0].strip()) for end in ends}
    return not (len(ends) > 1 and len(shapes) == 1 and re.search(r"\d[.,:]\d", ends[-1][0]))


def _column(cells: list[str], comma: bool, *, of_sensor: bool) -> list[float | None] | None:
    """Numbers, None where a cell holds none; None alone for a column of text, such as notes: sensors are numbers. One
    that a sensor has is text where there is no number in it, any other where there are more texts than numbers."""
    values: list[float | None] = []
    for cell in cells:
        try:
            values.append(_number(cell, comma=comma))
        except ValueError:
            values.append(None)
    written = sum(bool(cell.strip()) for cell in cells)
    texts = values.count(None)
    return None if (texts == written > 0 if of_sensor else texts * 2 > written) else values


def _time_column(header: list[str]) -> int:
    for index, name in enumerate(header):
        if re.fullmatch(r"(time|timestamp)\b.*", name.strip().strip('"').lower()):
            return index
    named = [name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}…" for name in header[:NAMES_SHOWN]]
    more = len(header) - len(named)
    raise ValueError(f"no column 'time' or 'timestamp' (has: {', '.join(named)}{f' and {more} more' if more else ''})")


def _name(title: str) -> str:
    """`Acceleration x (m/s^2)` -> `x`, `horizontalAccuracy` -> `accuracy`, others in lower case with underscores."""
    plain = re.sub(r"\s*\(.*?\)", "", title).strip().lower()
    axis = re.fullmatch(r".*\s([xyz])", plain)
    if axis:
        return axis.group(1)
    return NAMES.get(plain.replace(" ", "").replace("_", ""), re.sub(r"\W+", "_", plain))


def _number(text: str, *, comma: bool = False) -> float:
    text = text.strip()
    return float((text.replace(",", ".") if comma else text) or "nan")


Table = list[tuple[int, list[str]]]


def _read_times(table: Table, at: int, title: str, comma: bool, unreadable: Unreadable) -> tuple[Table, list[int]]:
    """The rows whose time can be read, and their times."""
    kept: Table = []
    times: list[int] = []
    for line, row in table:
        try:
            time_us = _time(row[at].strip(), title.lower(), comma)
            if abs(time_us) > TIME_US_MAX:
                raise ValueError("no time")
            times.append(time_us)
        except (ValueError, OverflowError):
            unreadable.add(f"line {line}", f"{row[at][:40]!r} in column {title!r} is not a time")
        else:
            kept.append((line, row))
    return kept, times


def _time(cell: str, title: str, comma: bool) -> int:
    """Microseconds. Without a unit in its title a number is seconds, ms, us or ns: whichever is a plausible date."""
    if re.match(r"\d{4}-\d\d-\d\d", cell):
        return _parse_iso(cell)
    unit = re.search(r"\((s|ms|us|µs|ns)\)", title)
    whole, _, fraction = cell.partition(".")
    if unit is None and whole.isdigit() and len(whole) > 10 and not fraction.strip("0"):
        # Whole numbers of 11 to 13, 14 to 16, 17 to 19 digits: a plausible date in ms, us, ns. Integers, so exact.
        multiply, divide = ((1000, 1), (1, 1), (1, 1000))[min(2, (len(whole) - 11) // 3)]
        return int(whole) * multiply // divide
    number = _number(cell, comma=comma)
    if not math.isfinite(number):
        raise ValueError("no time")
    scale = UNITS_US[unit[1]] if unit else next((by for least, by in BY_SIZE if abs(number) >= least), 1e6)
    return round(number * scale)


TIME_US_MAX = 1 << 62  # differences fit an int64 too
BY_SIZE = ((1e17, 1e-3), (1e14, 1.0), (1e11, 1e3))  # at least this large: microseconds in one


def _track(times: Sequence[int], rows: dict[str, list[float]], unreadable: Unreadable) -> Track:
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in rows.items()}
    return Track(np.asarray(times, dtype=np.int64), columns, unreadable)
