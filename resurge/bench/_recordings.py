"""Real recordings for measuring, where they are; stand-ins with the same schemas where they are not, and said so.

They lie in the directory named by RESURGE_RECORDINGS, or in `../shared/data` beside the repository.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

from shared.batch import Batch
from shared.language.schema import Schema
from shared.wire.columns import encode

Columns = dict[str, np.ndarray[Any, Any]]

FOOTBALL = {
    "sid": "u2", "ts": "i8", "x": "i4", "y": "i4", "z": "i4", "v": "f8", "a": "f8",
    "vx": "f4", "vy": "f4", "vz": "f4", "ax": "f4", "ay": "f4", "az": "f4",
}  # fmt: skip
FOOTBALL_ROW_BYTES = 62


def directory() -> Path | None:
    named = os.environ.get("RESURGE_RECORDINGS")
    place = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    return place if place.is_dir() else None


def recordings() -> tuple[dict[str, Columns], bool]:
    """Columns by recording, each with `time` first; and whether they are real."""
    place = directory()
    if place is None:
        return _stand_ins(), False
    found: dict[str, Columns] = {}
    for sensor in ("Accelerometer", "Gyroscope", "Barometer", "Location"):
        found[f"phone {sensor.lower()}"] = _sensor_logger(place / "phone_zurich" / f"{sensor}.csv")
    found["ecg"] = _ecg(place / "ecg" / "100.dat")
    found["geolife"] = _geolife(place / "geolife")
    rows = football_rows()
    found["football"] = {"time": rows.pop("ts"), **rows}
    return found, True


def football_rows() -> Columns:
    """The DEBS 2013 extract with the types of the paper's 62-byte tuple, or a stand-in of as many rows."""
    place = directory()
    if place is None:
        return _football_stand_in()
    table = np.loadtxt(place / "debs2013" / "debs2013_extract.csv", delimiter=",", dtype=np.int64)
    return {name: table[:, at].astype(kind) for at, (name, kind) in enumerate(FOOTBALL.items())}


def batch_of(columns: Columns, start: int = 0, end: int | None = None) -> Batch:
    """Rows [start, end) as a batch; the first column is the event time."""
    names = list(columns)
    values = {name: columns[name][start:end] for name in names[1:]}
    schema = Schema.of({name: column.dtype.name for name, column in values.items()})
    return Batch.of(schema, values, columns[names[0]][start:end])


def raw_bytes(columns: Columns) -> int:
    return sum(column.nbytes for column in columns.values())


def football_compression() -> tuple[float, bool]:
    """How many times smaller the columns codec makes the rows that Query 1's first filter keeps; and whether real."""
    rows = football_rows()
    kept = rows["vx"] > 0
    columns = {"ts": rows.pop("ts"), **rows}
    batch = batch_of({name: column[kept] for name, column in columns.items()})
    _, payload = encode(batch)
    return len(batch) * FOOTBALL_ROW_BYTES / len(payload), directory() is not None


def _sensor_logger(path: Path) -> Columns:
    with path.open() as file:
        rows = list(csv.reader(file))
    by_name = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    columns: Columns = {"time": np.array([int(text) for text in by_name.pop("time")], np.int64)}
    columns.update({name: np.array([float(text) for text in texts]) for name, texts in by_name.items()})
    return columns


def _ecg(path: Path) -> Columns:
    """MIT format 212: two samples of 12 bits in three bytes; 360 per second, 200 steps per millivolt."""
    packed = np.fromfile(path, np.uint8).reshape(-1, 3).astype(np.int32)
    first = packed[:, 0] | (packed[:, 1] & 15) << 8
    second = packed[:, 2] | (packed[:, 1] >> 4) << 8
    leads = [np.where(lead > 2047, lead - 4096, lead) for lead in (first, second)]
    time = np.round(np.arange(len(first)) * 1e6 / 360).astype(np.int64)
    return {"time": time, "mlii": (leads[0] - 1024) / 200.0, "v5": (leads[1] - 1024) / 200.0}


def _geolife(place: Path) -> Columns:
    rows: list[tuple[float, ...]] = []
    for path in sorted(place.rglob("*.plt")):
        for line in path.read_text().splitlines()[6:]:
            parts = line.split(",")
            rows.append((float(parts[0]), float(parts[1]), float(parts[3]), float(parts[4])))
    table = np.array(rows)
    time = np.round((table[:, 3] - 25569) * 86400).astype(np.int64) * 1_000_000  # days since 1899-12-30
    return {"time": time, "lat": table[:, 0].copy(), "lon": table[:, 1].copy(), "altitude": table[:, 2].copy()}


def _stand_ins() -> dict[str, Columns]:
    random = np.random.default_rng(1)
    rows = 6000
    time = 1_700_000_000_000_000 + np.arange(rows) * 20_000 + np.round(random.normal(0, 200, rows)).astype(np.int64)
    walk = {name: np.cumsum(random.normal(0, 1, rows)) for name in ("x", "y", "z", "lat", "lon")}
    step = 9.80665 / 4096
    imu = {name: (np.round(walk[name] / step) * step).astype(np.float32) for name in ("x", "y", "z")}
    gps = {"lat": np.round(47 + walk["lat"] * 1e-5, 7), "lon": np.round(8 + walk["lon"] * 1e-5, 7)}
    football = _football_stand_in()
    return {
        "imu": {"time": time, **imu},
        "gps": {"time": time, **gps},
        "football": {"time": football.pop("ts"), **football},
    }


def _football_stand_in() -> Columns:
    random = np.random.default_rng(7)
    rows, sensors = 2067, 27
    columns: Columns = {"sid": (np.arange(rows) % sensors).astype("u2")}
    columns["ts"] = 10_753_295_594_424_116 + np.cumsum(random.integers(10**8, 3 * 10**8, rows))
    for name, kind in list(FOOTBALL.items())[2:]:
        smooth = np.cumsum(random.normal(0, 30, (rows // sensors + 1, sensors)), axis=0).reshape(-1)[:rows]
        columns[name] = np.round(smooth + random.normal(0, 20, rows)).astype(kind)
    return columns
