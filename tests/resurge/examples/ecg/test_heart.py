"""Heart beats: found in made-up signals whose beats are known, in a recorded one with its annotations, and as one
answer however the samples are batched or the operators restored."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from mobile_app.sensors.file_formats import load
from resurge.examples.ecg.heart import beats
from resurge.examples.ecg.operators import Band, Beats

RATE = 360
TOLERANCE_US = 150_000
BEAT_CODES = {*range(1, 14), 25, 30, 31, 34, 35, 38, 41}  # annotations that mark a beat


def signal(seconds, *, seed=1, noise=0.02, t_wave=0.35, bpm=72.0):
    """(times, mV, beat times): P, QRS and T waves at a varying pace, with wandering baseline and noise."""
    random_ = np.random.default_rng(seed)
    moments = [0.7]
    while (following := moments[-1] + 60 / bpm * random_.uniform(0.8, 1.2)) < seconds - 1:
        moments.append(following)
    at = np.arange(seconds * RATE) / RATE
    mv = 0.2 * np.sin(2 * math.pi * 0.3 * at) + random_.normal(0, noise, len(at))
    for moment in moments:
        for offset, width, height in ((-0.17, 0.025, 0.15), (-0.03, 0.01, -0.15), (0, 0.011, 1.1), (0.03, 0.01, -0.25),
                                      (0.25, 0.05, t_wave)):  # fmt: skip
            mv += height * np.exp(-((at - moment - offset) ** 2) / (2 * width**2))
    return np.round(at * 1e6).astype(np.int64), mv, np.array(moments) * 1e6


def found(times, mv):
    return rs.evaluate(beats, {"ecg": {"time": times, "mv": mv}})["out"]["beat_us"]


def matches(got, truth):
    """How many of the true beats were found, each by a beat of its own."""
    left = sorted(got)
    hits = 0
    for moment in truth:
        near = next((one for one in left if abs(one - moment) <= TOLERANCE_US), None)
        if near is not None:
            left.remove(near)
            hits += 1
    return hits


@pytest.mark.parametrize("bpm", [45.0, 72.0, 150.0])
@pytest.mark.parametrize("t_wave", [0.1, 0.5])
def test_every_beat_of_a_made_up_heart_is_found_once(bpm, t_wave):
    times, mv, truth = signal(40, bpm=bpm, t_wave=t_wave)
    got = found(times, mv)
    assert len(got) == len(truth) == matches(got, truth)


def test_a_flat_line_and_noise_alone_have_hardly_a_beat():
    times = np.round(np.arange(20 * RATE) / RATE * 1e6).astype(np.int64)
    assert len(found(times, np.zeros(len(times)))) == 0


def test_an_electrode_that_comes_off_costs_only_the_beats_without_a_signal():
    times, mv, truth = signal(60)
    off = (times > 20e6) & (times < 25e6)
    mv[off] = math.nan
    got = found(times, mv)
    covered = truth[(truth < 19.5e6) | (truth > 26e6)]
    assert matches(got, covered) == len(covered)
    assert not any(20.5e6 < moment < 24.5e6 for moment in got)


def test_a_detector_that_was_restored_goes_on_with_the_same_beats():
    times, mv, _ = signal(30)
    chooser = random.Random(3)

    def run(restart):
        band, detector, rows = Band(), Beats(), []
        for time, value in zip(times.tolist(), mv.tolist(), strict=True):
            if restart and chooser.random() < 0.01:
                states = band.snapshot(), detector.snapshot()
                band, detector = Band(), Beats()
                band.restore(states[0])
                detector.restore(states[1])
            for sample in band.process("in", {"time": time, "mv": value}):
                rows += list(detector.process("in", {"time": time, **sample}))
        return rows

    quiet, restarted = run(False), run(True)
    assert len(quiet) > 30
    assert repr(restarted) == repr(quiet)  # NaN included


def annotated_beats(path: Path) -> np.ndarray:
    """The samples at which an annotation file marks a beat."""
    words = np.fromfile(path, dtype="<u2").tolist()
    at, place, marked = 0, 0, []
    while place < len(words) and words[place]:
        code, count = words[place] >> 10, words[place] & 1023
        place += 1
        if code == 59:  # a long way to the next
            at += words[place] << 16 | words[place + 1]
            place += 2
        elif code == 63:  # a text
            place += (count + 1) // 2
        elif code < 60:
            at += count
            if code in BEAT_CODES:
                marked.append(at)
    return np.array(marked)


def test_a_recorded_heart_is_followed_as_its_annotators_did(outside_recordings, claim):
    track = load(outside_recordings / "ecg" / "100.hea")
    truth = annotated_beats(outside_recordings / "ecg" / "100.atr") * (1e6 / RATE)
    got = found(track.time_us, track.columns["mv"])
    hits = matches(got, truth)
    claim(f"{len(truth)} beats annotated, {len(got)} found, {hits} of them within 150 ms")
    assert hits / len(truth) >= 0.995
    assert hits / len(got) >= 0.995
