"""Sonora, Table 2: the most popular words by place over seven days, with daily materialised views and without.

Texts of 5 to 20 words, drawn by the word frequencies of an English novel as in the paper. Seven days arrive one by one;
on each the days so far are asked about, as the paper's service does: counting the new day and adding up the days'
views, against counting all their texts. Keeping the day's rows comes before both and counts for neither. Then late
texts of the second day come, which must touch that day's view and no other.

The paper has two gigabytes a day on a grid of 33 x 33 places. What a view saves depends on how often a word comes back
at a place in a day, so a place gets as much text here as there, and there are fewer places.
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

from cloud_backend.spark.cluster.session import open_session
from cloud_backend.spark.daily_views import VIEW, DailyViews
from resurge.lab._figure import draw, report, shape
from resurge.lab._words import Words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACES = 6 * 6
PAPER_PLACES, PAPER_BYTES_A_DAY = 33 * 33, 2_000_000_000
PAPER_GAIN = 2.67
LATE_SHARE = 0.01  # of a day's texts
DAYS = 7
QUICK = {"places": 2}
# Words are counted by generated code: it is worth compiling well, unlike the many small jobs of an epoch.
SETTINGS = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC", "spark.driver.memory": "2g"}


def bytes_a_day(places: int) -> int:
    """As much text for each place as in the paper."""
    return PAPER_BYTES_A_DAY * places // PAPER_PLACES


def run(places: int = PLACES, days: int = DAYS) -> dict[str, Any]:
    session = open_session("local[2]", settings=SETTINGS)
    words = Words()
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        _Week(session, Path(directory) / "warm", words, places).run(days=1)  # code is compiled by the first questions
        found = _Week(session, Path(directory) / "week", words, places).run(days=days)
    session.stop()
    with_views, without = found["with daily views"], found["without"]
    gain = sum(without.values()) / sum(with_views.values())
    shapes = [
        shape("seven days without views over with views, overall time", PAPER_GAIN, round(gain, 2), gain >= 2),
        shape("a question about seven days from views, s", 2.8, round(found["asked"], 2),
              found["asked"] < without[days]),
        shape("answers agree on every day asked", "-", len(with_views), found["agree"]),
        shape("days' views that late texts touch", 1, found["touched"], found["touched"] == 1),
    ]  # fmt: skip
    series = {
        name: [(float(day), seconds) for day, seconds in found[name].items()]
        for name in ("with daily views", "without")
    }
    mean = sum(without.values()) / days
    series |= {
        "paper, scaled to our mean without": [(1.0, mean), (float(days), mean)],
        "paper: with views": [(1.0, mean / PAPER_GAIN), (float(days), mean / PAPER_GAIN)],
    }
    drawn = draw("sonora-views", "Popular words over the days so far", "day", "seconds", series)
    parameters = {
        "places": places, "texts_a_day": words.texts_of(bytes_a_day(places)), "days": days,
        "bytes_a_day": bytes_a_day(places), "bytes_a_place_a_day": bytes_a_day(places) // places,
        "rows_of_a_view": found["view_rows"],
        "words_a_day": found["words"], "word_frequencies": words.source, "distinct_words": len(words.texts),
        "why": "a place gets as much text a day as in the paper (2 GB on 33 x 33 places); there are fewer places, so "
        "that a run takes minutes on two cores. Chosen after a first run had kept the 33 x 33 places with 12 MB a day "
        "for all of them: there a view had twice as many rows as its day had texts and saved nothing (gain 0.96). Also "
        "since then: overall time is of all seven days, as in the paper's table, keeping a day's rows counts for "
        "neither side, and a view is written by both cores.",
    }  # fmt: skip
    measured = {
        name: {str(day): round(seconds, 2) for day, seconds in found[name].items()}
        for name in ("with daily views", "without")
    }
    return report("sonora-views", "Sonora Table 2", shapes, parameters=parameters, measured=measured, drawn=drawn)


class _Week:
    def __init__(self, session: SparkSession, root: Path, words: Words, places: int) -> None:
        self.places = places
        self.session = session
        self.root = root
        self.random = np.random.default_rng(11)
        self.words = words
        self.drawn = 0
        self.views = DailyViews(session, root / "views")

    def run(self, days: int) -> dict[str, Any]:
        week = [date(2026, 11, 1) + timedelta(days=number) for number in range(days)]
        texts = self.words.texts_of(bytes_a_day(self.places))
        with_views: dict[int, float] = {}
        without: dict[int, float] = {}
        agree = True
        for number, day in enumerate(week, 1):
            self.views.keep(day, self._arriving(day, texts))
            begun = time.perf_counter()
            self.views.count(day)
            answer = self.views.popular(week)
            with_views[number] = time.perf_counter() - begun
            begun = time.perf_counter()
            plain = self.views.popular_without_views(week[:number])
            without[number] = time.perf_counter() - begun
            agree = agree and answer == plain
        words_a_day = self.drawn // days
        begun = time.perf_counter()
        self.views.popular(week)
        asked = time.perf_counter() - begun
        before, late = self._view_files(), week[min(1, days - 1)]
        self.views.append(late, self._arriving(late, int(texts * LATE_SHARE)))
        touched = {path.parent.name for path in self._view_files() ^ before}
        agree = agree and self.views.popular(week) == self.views.popular_without_views(week)
        view = self.session.read.parquet(str(self.root / "views" / VIEW / str(week[0])))
        return {
            "with daily views": with_views, "without": without, "asked": asked, "agree": agree, "touched": len(touched),
            "words": words_a_day, "view_rows": view.count(),
        }  # fmt: skip

    def _view_files(self) -> set[Path]:
        return set((self.root / "views" / VIEW).glob("*/part-*"))

    def _arriving(self, day: date, count: int) -> DataFrame:
        path = self.root / f"{day}-{count}.parquet"
        texts, words = self.words.draw(self.random, count)
        self.drawn += words
        pq.write_table(pa.table({"place": self.random.integers(0, self.places, count), "text": texts}), path)
        return self.session.read.parquet(str(path))
