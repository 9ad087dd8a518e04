"""Writes trips_results.json: what the trips program says of a made-up person's week, as rows that a phone keeps.

    python -m tests.user_interface.trips_rows

The person travels before and after work. Yesterday evening's ride was uploaded late, so yesterday and the week were
told once without it: those two rows are corrected ones, as the phone's store would have them.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from cloud_backend.gateway.downlink import result_body
from mobile_app.node.results import Results
from mobile_app.sensors.synthetic import Synthetic
from resurge.examples.trips.people import Person
from resurge.examples.trips.report import failure_free, trips_plan
from tests.user_interface.phone_world import NOW_US, SECOND

ROWS = Path(__file__).with_name("trips_results.json")
SEED = 105
MIDNIGHT_US = NOW_US - NOW_US % (86_400 * SECOND)
HOUR = 3_600 * SECOND
DAYS = 8
HOURS = ((7.0, 8.0), (17.5, 18.6))


def person(*, late: bool) -> Person:
    """What the phone read in eight days; with `late`, before yesterday evening's part had come."""
    sensors: dict[str, dict[str, np.ndarray]] = {}
    for sensor, every_us in (("gps", 5 * SECOND), ("accelerometer", SECOND // 10)):
        source = Synthetic(sensor, seed=SEED, every_us=every_us, origin_us=0)
        times, parts, at_us = [], [], 0  # the itinerary goes on where it stopped when the person is back
        for day in range(-DAYS, 1):
            for number, (start, end) in enumerate(HOURS):
                begin = MIDNIGHT_US + day * 24 * HOUR + round(start * HOUR)
                offsets = np.arange(at_us, at_us + round((end - start) * HOUR), every_us, dtype=np.int64)
                at_us += round((end - start) * HOUR)
                if begin + round((end - start) * HOUR) <= NOW_US and not (late and (day, number) == (-1, 1)):
                    times.append(begin + offsets - offsets[0])
                    parts.append(source.at(offsets).columns)
        sensors[sensor] = {"time": np.concatenate(times)} | {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }
    return Person("me", sensors)


def rows() -> list[dict[str, Any]]:
    """What the phone's store holds after both."""
    plan = trips_plan(recorded=True)
    with tempfile.TemporaryDirectory() as home:
        results = Results(Path(home), wall_us=lambda: NOW_US - 52 * 60 * SECOND)
        number = 0
        for revision, late in ((1, True), (2, False)):
            until_us = MIDNIGHT_US if late else NOW_US
            told = failure_free(plan, [person(late=late)])
            came = [row for row in told if row.window_end_us <= until_us and row.device]
            came.sort(key=lambda row: (row.window_end_us, row.sink))
            bodies = [result_body(replace(row, revision=revision)) for row in came]
            results.apply(enumerate(bodies, start=number + 1))
            number += len(bodies)
        kept = [{"number": at, **asdict(row)} for at, row in results.after(0, limit=number)]
        results.close()
    return kept


def main() -> None:
    ROWS.write_text(json.dumps(rows(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
