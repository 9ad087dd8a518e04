"""Sonora, Table 2: the most popular words by place over seven days, with daily materialised views and without.

A 33 x 33 grid, texts of 5 to 20 words drawn by a word-frequency law (Zipf, in place of the paper's novel), scaled to
some ten megabytes a day. Seven days arrive one by one; on each of the last three the days so far are asked about, as
the paper's service does every day: counting the new day and adding up the days' views, against counting all their
texts. Then late texts of the second day come, which must touch that day's view and no other.
"""

from __future__ import annotations

import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cloud_backend.spark.session import open_session
from cloud_backend.spark.views import VIEW, DailyViews
from resurge.lab._figure import draw, report, shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACES = 33 * 33
TEXTS_A_DAY = 150_000
LATE_TEXTS = 2_000
DAYS = 7
WORDS = 3_000
ASKED_FROM = 5  # the first day that is asked about; the days before warm the session up
# Words are counted by generated code: it is worth compiling well, unlike the many small jobs of an epoch.
SETTINGS = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC", "spark.driver.memory": "2g"}


def run() -> dict[str, Any]:
    session = open_session("local[2]", settings=SETTINGS)
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        found = _Week(session, Path(directory)).run()
    session.stop()
    with_views, without = found["with daily views"], found["without"]
    gain = sum(without.values()) / sum(with_views.values())
    shapes = [
        shape("three days' questions without views over with views", 2.67, round(gain, 2), gain > 1),
        shape("a question about seven days, s", 2.8, round(found["asked"], 2), found["asked"] < without[DAYS]),
        shape("answers agree on every day asked", "-", len(with_views), found["agree"]),
        shape("days' views that late texts touch", 1, found["touched"], found["touched"] == 1),
    ]  # fmt: skip
    series = {
        name: [(float(day), seconds) for day, seconds in found[name].items()]
        for name in ("with daily views", "without")
    }
    drawn = draw("sonora-views", "Popular words over the days so far", "day", "seconds", series)
    parameters = {
        "places": PLACES, "texts_a_day": TEXTS_A_DAY, "days": DAYS, "asked_on_days": sorted(with_views),
        "words": WORDS, "zipf": 1.3, "bytes_a_day": found["bytes"] // DAYS, "rows_of_a_view": found["view_rows"],
        "why": "the grid and the seven days are the paper's; a day is scaled down to megabytes, so that a view is not "
        "much smaller than its day and what every query costs whatever it reads weighs more",
    }  # fmt: skip
    return report("sonora-views", "Sonora Table 2", shapes, parameters=parameters, drawn=drawn)


class _Week:
    def __init__(self, session: SparkSession, root: Path) -> None:
        self.session = session
        self.root = root
        self.random = np.random.default_rng(11)
        self.words = np.array([f"word{number}" for number in range(WORDS)])
        self.views = DailyViews(session, root / "views")
        self.bytes = 0

    def run(self) -> dict[str, Any]:
        days = [date(2026, 11, 1) + timedelta(days=number) for number in range(DAYS)]
        with_views: dict[int, float] = {}
        without: dict[int, float] = {}
        agree = True
        for number, day in enumerate(days, 1):
            rows = self._arriving(day, TEXTS_A_DAY)
            begun = time.perf_counter()
            self.views.append(day, rows)
            if number < ASKED_FROM:
                continue
            answer = self.views.popular(days)
            with_views[number] = time.perf_counter() - begun
            begun = time.perf_counter()
            plain = self.views.popular_without_views(days[:number])
            without[number] = time.perf_counter() - begun
            agree = agree and answer == plain
        begun = time.perf_counter()
        self.views.popular(days)
        asked = time.perf_counter() - begun
        before, bytes_in_time = self._view_files(), self.bytes
        self.views.append(days[1], self._arriving(days[1], LATE_TEXTS))
        touched = {path.parent.name for path in self._view_files() ^ before}
        agree = agree and self.views.popular(days) == self.views.popular_without_views(days)
        view = self.session.read.parquet(str(self.root / "views" / VIEW / str(days[0])))
        return {
            "with daily views": with_views, "without": without, "asked": asked, "agree": agree, "touched": len(touched),
            "bytes": bytes_in_time, "view_rows": view.count(),
        }  # fmt: skip

    def _view_files(self) -> set[Path]:
        return set((self.root / "views" / VIEW).glob("*/part-*"))

    def _arriving(self, day: date, texts: int) -> DataFrame:
        path = self.root / f"{day}-{texts}.parquet"
        self.bytes += _texts(path, self.random, self.words, texts)
        return self.session.read.parquet(str(path))


def _texts(path: Path, random: np.random.Generator, words: np.ndarray, count: int) -> int:
    drawn = words[np.minimum(random.zipf(1.3, count * 12), len(words)) - 1].tolist()
    lengths = random.integers(5, 21, count).tolist()
    starts = random.integers(0, len(drawn) - 20, count).tolist()
    texts = [" ".join(drawn[start : start + length]) for start, length in zip(starts, lengths, strict=True)]
    pq.write_table(pa.table({"place": random.integers(0, PLACES, count), "text": texts}), path)
    return sum(map(len, texts))
