"""Numbers in words."""

from __future__ import annotations

import pytest

from mobile_app.screens.words import number_text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.2, "0 s"), (41, "41 s"), (252, "4 min 12 s"), (240, "4 min"), (2450, "41 min"), (3600, "1 h"),
     (11_240, "3 h 7 min"), (93_600, "1 d 2 h"), (86_400 * 40, "40 days"), (1e12, "years")],
)  # fmt: skip
def test_durations(seconds, words):
    assert number_text.duration(seconds) == words


@pytest.mark.parametrize(
    ("hertz", "words"), [(None, "–"), (0, "0 Hz"), (99.6, "100 Hz"), (3.1, "3.1 Hz"), (0.2, "every 5 s")]
)
def test_rates(hertz, words):
    assert number_text.rate(hertz) == words


def test_sizes_counts_and_times():
    assert number_text.size(13_114) == "13.1 KB"
    assert number_text.size(52_428_800) == "52.4 MB"
    assert number_text.size(512) == "512 B"
    assert number_text.count(1_252_712) == "1\u2009252\u2009712"
    assert number_text.plural(1, "batch", "batches") == "1 batch"
    assert number_text.plural(7, "batch", "batches") == "7 batches"
    assert number_text.stopwatch(727) == "00:12:07"
    assert number_text.ago(None) == "never"
    assert number_text.ago(12) == "12 s ago"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (9.80665, "9.807"),
        (-0.783, "\u22120.783"),
        (965.31, "965.3"),
        (1e9, "1.00e+09"),
        (float("nan"), "–"),
        (0.0, "0.000"),
    ],
)
def test_readings_have_the_digits_that_mean_something(value, words):
    assert number_text.number(value) == words
