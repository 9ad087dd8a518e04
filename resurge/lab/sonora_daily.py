"""Sonora, Table 2, as a stream program: the uses of each word by place over seven days, through `.daily(7)`.

`.daily(7)` keeps one view for each day, so a new day costs its own words and the adding up of seven views. Against it
the same words are counted again from all days so far, as a service without views does. Both run by the calls of users
on the numpy engine; `sonora-views` has the same table in native Spark SQL over more text. Then a late word of the
second day comes, which must change that day's view and no other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import resurge as rs
from resurge.lab._figure import draw, report, shape
from resurge.lab._words import Words
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.plan.placement import device_fragment

PLACES = 6
WORDS_A_DAY = 100_000
DAYS = 7
DAY_US = 86_400_000_000
PAPER_GAIN = 2.67
TEXT = np.dtypes.StringDType()


def program(days: int, *, lateness: str | None = None) -> rs.Stream:
    words = rs.stream("words", {"place": "int64", "word": "str"}).key_by("device", "place", "word")
    return words.daily(days, lateness=lateness).aggregate(uses=rs.count())


def run() -> dict[str, Any]:
    words = Words()
    texts = np.array(words.texts.to_pylist(), TEXT)
    random = np.random.default_rng(11)
    week = [_day(number, words, texts, random) for number in range(DAYS)]
    answers: list[Mapping[str, np.ndarray]] = []
    live = rs.Live(program(DAYS).subscribe(answers.append, name="uses"))
    with_views: dict[int, float] = {}
    without: dict[int, float] = {}
    agree = True
    for number in range(1, DAYS + 1):
        begun = time.perf_counter()
        today = week[number - 1]
        live.append("words", time=today["time"].tolist(), place=today["place"], word=today["word"])
        live.advance(number * DAY_US)
        with_views[number] = time.perf_counter() - begun
        begun = time.perf_counter()
        counted = _counted_again(week[:number])
        without[number] = time.perf_counter() - begun
        agree = agree and _uses(answers[-1]) == _uses(counted)
    gain = sum(without.values()) / sum(with_views.values())
    changed = _share_changed_by_a_late_word(week)
    shapes = [
        shape("seven days without views over with views, overall time", PAPER_GAIN, round(gain, 2), gain >= 2),
        shape("answers agree on every day asked", "-", DAYS, agree),
        shape("share of the views' bytes that a late word changes", "one day's", round(changed, 5), changed < 0.01),
    ]
    measured = {"with daily views": with_views, "without": without}
    series = {name: [(float(day), seconds) for day, seconds in line.items()] for name, line in measured.items()}
    mean = sum(without.values()) / DAYS
    series |= {
        "paper, scaled to our mean without": [(1.0, mean), (float(DAYS), mean)],
        "paper: with views": [(1.0, mean / PAPER_GAIN), (float(DAYS), mean / PAPER_GAIN)],
    }
    return report(
        "sonora-daily",
        "Sonora Table 2",
        shapes,
        parameters={
            "places": PLACES, "words_a_day": WORDS_A_DAY, "days": DAYS, "word_frequencies": words.source,
            "rows_of_the_last_answer": len(answers[-1]["uses"]),
        },
        measured={name: {str(day): round(took, 3) for day, took in line.items()} for name, line in measured.items()},
        drawn=draw("sonora-daily", "Uses of words over the days so far, by a program", "day", "seconds", series),
    )  # fmt: skip


def _day(number: int, words: Words, texts: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "time": np.sort(random.integers(0, DAY_US, WORDS_A_DAY)) + number * DAY_US,
        "place": random.integers(0, PLACES, WORDS_A_DAY),
        "word": texts[words.places(random, WORDS_A_DAY)],
    }


def _joined(days: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([day[name] for day in days]) for name in days[0]}


def _counted_again(days: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The same question asked of the rows themselves."""
    words = rs.stream("words", {"place": "int64", "word": "str"}).key_by("device", "place", "word")
    return rs.evaluate(words.tumbling(f"{DAYS}d").aggregate(uses=rs.count()), {"words": _joined(days)})["out"]


def _uses(answer: Mapping[str, np.ndarray]) -> dict[tuple[int, str], int]:
    places, words, uses = (answer[name].tolist() for name in ("place", "word", "uses"))
    return dict(zip(zip(places, words, strict=True), uses, strict=True))


def _share_changed_by_a_late_word(week: list[dict[str, np.ndarray]]) -> float:
    """How much of the state's bytes is written again when a word of the second day comes after the third has ended."""
    pipeline = Pipeline(device_fragment(rs.plan_of(program(DAYS, lateness="7d"))), device="phone")
    schema = pipeline.fragment.input("words").schema
    rows = _joined(week[:3])
    pipeline.push("words", Batch.of(schema, rows, rows["time"]))
    pipeline.advance("words", 3 * DAY_US)
    whole = len(pipeline.snapshot())
    pipeline.changes_since_snapshot()
    pipeline.push("words", Batch.of(schema, {"place": [1], "word": ["late"]}, [DAY_US + 5], lo=len(rows["time"])))
    return len(pipeline.changes_since_snapshot()) / whole
