"""Sonora, Table 2: the most popular words by place over seven days, with daily materialised views and without.

A 33 x 33 grid, texts of 5 to 20 words drawn by a word-frequency law (Zipf, in place of the paper's novel), scaled to a
few megabytes a day. Each day the last seven are asked about, as the paper's service does.
"""

from __future__ import annotations

import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cloud_backend.spark.session import open_session
from cloud_backend.spark.views import DailyViews
from resurge.lab._figure import draw, report, shape

PLACES = 33 * 33
TEXTS_A_DAY = 60_000
DAYS = 7


def run() -> dict[str, Any]:
    random = np.random.default_rng(11)
    words = np.array([f"word{number}" for number in range(3_000)])
    session = open_session("local[2]")
    with_views, without = [], []
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        views = DailyViews(session, Path(directory) / "views")
        days = [date(2026, 11, 1) + timedelta(days=number) for number in range(DAYS)]
        size = 0
        for day in days:
            path = Path(directory) / f"{day}.parquet"
            size += _texts(path, random, words)
            rows = session.read.parquet(str(path))
            begun = time.perf_counter()
            views.append(day, rows)
            answer = views.popular(days)
            with_views.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            plain = views.popular_without_views(days[: len(with_views)])
            without.append(time.perf_counter() - begun)
            assert answer == plain
        begun = time.perf_counter()
        views.popular(days)
        asked = time.perf_counter() - begun
    session.stop()
    gain = sum(without[1:]) / sum(with_views[1:])  # the first day warms the session up
    shapes = [
        shape("seven days without views over with views", 2.67, round(gain, 2), gain > 1),
        shape("a question about seven days, s", 2.8, round(asked, 2), asked < with_views[-1]),
        shape("answers agree on every day", "-", DAYS, True),
    ]  # fmt: skip
    series = {
        "with daily views": [(float(number + 1), value) for number, value in enumerate(with_views)],
        "without": [(float(number + 1), value) for number, value in enumerate(without)],
    }
    drawn = draw("sonora-views", "Popular words over seven days", "day", "seconds", series)
    parameters = {
        "places": PLACES, "texts_a_day": TEXTS_A_DAY, "days": DAYS, "words": len(words),
        "zipf": 1.3, "bytes_a_day": size // DAYS,
        "why": "the grid and the seven days are the paper's; a day is scaled down to megabytes, so what every query "
        "costs whatever it reads weighs more",
    }  # fmt: skip
    return report("sonora-views", "Sonora Table 2", shapes, parameters=parameters, drawn=drawn)


def _texts(path: Path, random: np.random.Generator, words: np.ndarray) -> int:
    drawn = words[np.minimum(random.zipf(1.3, TEXTS_A_DAY * 12), len(words)) - 1]
    lengths = random.integers(5, 21, TEXTS_A_DAY)
    starts = random.integers(0, len(drawn) - 20, TEXTS_A_DAY)
    texts = [" ".join(drawn[start : start + length]) for start, length in zip(starts, lengths, strict=True)]
    pq.write_table(pa.table({"place": random.integers(0, PLACES, TEXTS_A_DAY), "text": texts}), path)
    return sum(map(len, texts))
