"""Who the phones belong to: people of recordings, or made-up ones where there are none.

    GeoLife         NNN/Trajectory/*.plt            one person per NNN, all their trajectories
    GPX             NAME.gpx, or NAME/*.gpx         one person per file, or per folder of files
    Sensor Logger   NAME/Location.csv, Accelerometer.csv ...   one person per folder
    phyphox         NAME/Location.csv, Accelerometer.csv ...   the same; times count from 0
    any of these    NAME.zip                        as the apps export them; one person per archive or folder in it

All people are moved by whole weeks, so that they begin in the week of the newest recording: times of day and days of
the week stay what they were, and people of different years can meet. A recording without a date begins at noon of
that week's Monday.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mobile_app.sensors.file_formats import Track, load
from mobile_app.sensors.synthetic import Synthetic
from resurge.examples.trips.archives import is_hidden, unpack
from shared.errors import UsageError
from shared.stream.sources import SENSORS

SECOND = 1_000_000
DAY = 86_400 * SECOND
WEEK = 7 * DAY
MONDAY = 4 * DAY  # 1970-01-05
DATED = 365 * DAY  # what lies before that has no date
UNDATED_WEEK = MONDAY + 2817 * WEEK  # from 2024-01-01, when nobody's recording has a date
RAW, HEADER_BYTES = "rawdata", 4096
FILES = {"location": "gps", "gps": "gps", "accelerometer": "accelerometer", "accelerometeruncalibrated": ""}
BATTERY_US = 300 * SECOND
TABLE_US, GRAVITY = 180 * SECOND, 9.81
ACCELEROMETER_US = 100_000
EVERY_US = {
    "gps": SECOND,
    "accelerometer": ACCELEROMETER_US,
}  # as the program reads them; denser ones are thinned to it

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Person:
    """What a phone of this person reads: `time` in microseconds and the sensor's columns, by sensor."""

    name: str
    sensors: Mapping[str, Columns]

    @property
    def start_us(self) -> int:
        return min(int(columns["time"][0]) for columns in self.sensors.values())

    @property
    def end_us(self) -> int:
        return max(int(columns["time"][-1]) for columns in self.sensors.values())

    def moved(self, by_us: int) -> Person:
        return Person(
            self.name, {name: {**columns, "time": columns["time"] + by_us} for name, columns in self.sensors.items()}
        )


Say = Callable[[str], None]


def read_people(recordings: Path, say: Say = lambda _: None) -> list[Person]:
    """Everyone below a directory, or in a single file, by name, in one week. `say` hears what could not be read."""
    if not recordings.exists():
        raise UsageError(f"no recordings at {str(recordings)!r}", code="example-recording")
    files: dict[str, dict[str, list[Path]]] = {}
    with tempfile.TemporaryDirectory(prefix="resurge-recordings-") as directory:
        for root, path in _paths(recordings, Path(directory)):
            owner, sensor = _owner(path, root)
            if sensor:
                files.setdefault(owner, {}).setdefault(sensor, []).append(path)
        tracks = {name: _load(by_sensor, say) for name, by_sensor in sorted(files.items()) if "gps" in by_sensor}
    people = [_person(name, by_sensor) for name, by_sensor in tracks.items() if "gps" in by_sensor]
    rows = sum(track.unreadable.rows for each in tracks.values() for held in each.values() for track in held)
    if rows:
        words = "1 row in all cannot be read and is" if rows == 1 else f"{rows:,} rows in all cannot be read and are"
        say(f"{words} left out")
    if not people:
        raise UsageError(
            f"{str(recordings)!r} holds no recording of anyone's places; expected GeoLife .plt, .gpx, or a folder or "
            ".zip with Location.csv of Sensor Logger or phyphox",
            code="example-recording",
        )
    return in_one_week(people)


def _paths(recordings: Path, directory: Path) -> Iterator[tuple[Path, Path]]:
    """Every file with the root that it lies below; archives are unpacked into the directory, each as a folder."""
    root = recordings if recordings.is_dir() else recordings.parent
    found = sorted(recordings.rglob("*")) if recordings.is_dir() else [recordings]
    for number, path in enumerate(found):
        if is_hidden(path.relative_to(root)):
            continue
        if path.suffix.lower() != ".zip":
            yield root, path
            continue
        unpacked = directory / str(number)
        unpack(path, unpacked / path.stem)
        for one in sorted(unpacked.rglob("*")):
            yield unpacked, one


def _owner(path: Path, root: Path) -> tuple[str, str]:
    """Whose recording of what a file is; ("", "") for anything else."""
    suffix = path.suffix.lower()
    if suffix == ".plt":
        holder = path.parent.parent if path.parent.name == "Trajectory" else path.parent
        return holder.name, "gps"
    if suffix == ".gpx":
        return (path.stem if path.parent == root else path.parent.name), "gps"
    if suffix == ".csv":
        title = path.stem.lower().replace(" ", "")
        return path.parent.name, _measured_by(path) if title == RAW else FILES.get(title, "")
    return "", ""


def _measured_by(path: Path) -> str:
    """Which sensor a phyphox experiment's "Raw Data.csv" is of: its header says."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES).partition(b"\n")[0].decode(errors="replace").lower()
    return "gps" if "latitude" in header else "accelerometer" if "acceleration x" in header else ""


def _load(by_sensor: Mapping[str, list[Path]], say: Say) -> dict[str, list[Track]]:
    """One person's tracks; a file that cannot be read is left out, and said."""
    tracks: dict[str, list[Track]] = {}
    for sensor, paths in by_sensor.items():
        for path in paths:
            try:
                track = load(path)
            except UsageError as error:
                say(f"left out: {error.message}")
                continue
            if track.unreadable.rows:
                say(f"{path.name}: {track.unreadable.rows:,} unreadable ({track.unreadable.first})")
            tracks.setdefault(sensor, []).append(track)
    return tracks


def _person(name: str, by_sensor: Mapping[str, list[Track]]) -> Person:
    sensors: dict[str, Columns] = {}
    for sensor, tracks in by_sensor.items():
        time = np.concatenate([track.time_us for track in tracks])
        columns = {
            field.name: np.concatenate(
                [track.columns.get(field.name, np.full(len(track.time_us), np.nan)) for track in tracks]
            )
            for field in SENSORS[sensor]
        }
        first = np.unique(time, return_index=True)[1]  # by time; of two readings at one moment the first
        periods = time[first] // EVERY_US[sensor]
        first = first[np.append(True, np.diff(periods) > 0)]
        sensors[sensor] = {"time": time[first], **{name: column[first] for name, column in columns.items()}}
    start = min(int(columns["time"][0]) for columns in sensors.values())
    return Person(name, {sensor: _begun(sensor, columns, start) for sensor, columns in sensors.items()})


def _begun(sensor: str, columns: Columns, start: int) -> Columns:
    """The readings with one more where all of a person's sensors begin, if this one began later: a phone plays each
    recording from the same moment on. A place is not known there; how the phone shakes is as a moment later."""
    if int(columns["time"][0]) == start:
        return columns
    first = {name: np.full(1, np.nan) if sensor == "gps" else column[:1] for name, column in columns.items()}
    first["time"] = np.array([start], np.int64)
    return {name: np.concatenate((first[name], column)) for name, column in columns.items()}


def in_one_week(people: list[Person]) -> list[Person]:
    weeks = [(person.start_us - MONDAY) // WEEK for person in people if person.start_us > DATED]
    newest = MONDAY + max(weeks, default=(UNDATED_WEEK - MONDAY) // WEEK) * WEEK
    moved = []
    for person in people:
        if person.start_us > DATED:
            offset = (person.start_us - MONDAY) % WEEK
        else:
            offset = DAY // 2
        moved.append(person.moved(newest + offset - person.start_us))
    return moved


def made_up_people(count: int, hours: float, *, every_s: int = 5, battery: bool = False) -> list[Person]:
    """People of the synthetic itinerary, from eight o'clock on a Monday; what their phones read, and nothing random.
    With a battery they live by the program's own sampling, and put the phone down in the end."""
    origin = UNDATED_WEEK + 8 * 3_600 * SECOND
    people = []
    for number in range(count):
        until = origin + round(hours * 3_600) * SECOND
        sensors: dict[str, Columns] = {}
        rates = {"gps": every_s * SECOND, "accelerometer": ACCELEROMETER_US} | (
            {"battery": BATTERY_US} if battery else {}
        )
        for sensor, every_us in rates.items():
            source = Synthetic(sensor, seed=101 + number, every_us=every_us, origin_us=origin)
            parts = []
            while (part := source.read(until)).time_us.size:
                parts.append(part)
            sensors[sensor] = {
                "time": np.concatenate([part.time_us for part in parts]),
                **{name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
            }
        if battery:
            sensors["accelerometer"] = _put_down(sensors["accelerometer"])
        people.append(Person(f"person-{number + 1}", sensors))
    return people


def _put_down(accelerometer: Columns) -> Columns:
    """In the end the phone is put on a table, where it stays: a GPS that is read by need rests from then on."""
    rows = TABLE_US // ACCELEROMETER_US
    flat = {"time": accelerometer["time"][-1] + ACCELEROMETER_US * np.arange(1, rows + 1), "x": np.zeros(rows),
            "y": np.zeros(rows), "z": np.full(rows, GRAVITY)}  # fmt: skip
    return {name: np.concatenate((column, flat[name])) for name, column in accelerometer.items()}


def load_people(
    recording: Path | None, count: int, hours: float, *, battery: bool = False, say: Say = lambda _: None
) -> list[Person]:
    """The people of recordings, or made-up ones."""
    return made_up_people(count, hours, battery=battery) if recording is None else read_people(recording, say)
