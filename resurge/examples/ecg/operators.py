"""The operator types of the electrocardiogram example, registered by name (`resurge.toml`: modules =
["resurge.examples.ecg.operators"]): a band-pass filter and a detector of heart beats, one sample at a time.

Theory of operation. A beat's QRS complex is the steepest part of the signal, most of it between 8 and 20 Hz. The filter
keeps that band. The detector squares it and compares two moving means of the square, centred on the same sample: one as
long as a QRS complex, one as long as a beat. Where the short one is above the long one there is a *block*; the largest
sample of a block that is long enough is a candidate (Elgendi, 2013). Three rules choose among candidates:

* two within 200 ms are one beat, the larger: the heart cannot beat faster;
* one soon after a beat must not be much smaller than the beats before: that is a T wave;
* any other must not be far smaller: that is noise.

A beat is reported about 0.6 s after it happened: half the long mean has to follow it, and the 200 ms. Its row has the
time of the sample that completed it; `beat_us` says when the beat was.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping
from operator import itemgetter
from statistics import median

import resurge as rs

SECOND = 1_000_000
LOW_HZ, HIGH_HZ = 8.0, 20.0
FILTER_DELAY_S = 0.035  # of the two filters where most of a QRS complex is
QRS_S, BEAT_S = 0.097, 0.611  # how long the two means are
OFFSET, OFFSET_S = 0.08, 10.0  # a block is above the long mean by this part of the mean of the last ten seconds
WIDTH = 0.8  # of QRS_S, at least, is a block
REFRACTORY_S = 0.2
SOON_S, SOON_SHARE = 0.36, 0.15  # a T wave comes so soon and is below this share of the beats' energy
NOISE_S, NOISE_SHARE = 1.5, 0.06
BEATS = 8  # whose energies are the measure for the next
GAP_S = 0.5  # without samples: start anew
UNIT = 1e-12  # of energy, in mV2: as whole numbers, sums of any order are exact


def _section(kind: str, hertz: float, rate: float) -> tuple[float, float, float, float, float]:
    """A Butterworth section of second order by the bilinear transform: b0, b1, b2, a1, a2."""
    angle = 2 * math.pi * hertz / rate
    alpha, cosine = math.sin(angle) / math.sqrt(2), math.cos(angle)
    edge = 1 - cosine if kind == "low" else 1 + cosine
    middle = edge if kind == "low" else -edge
    return (*(value / (1 + alpha) for value in (edge / 2, middle, edge / 2, -2 * cosine, 1 - alpha)),)  # type: ignore[return-value]


@rs.operator("ecg_band", takes={"mv": "float64"}, gives={"mv": "float64", "band": "float64"})
class Band:
    """The part of the signal between 8 and 20 Hz, beside the signal."""

    def __init__(self, *, rate: float = 360.0) -> None:
        self._sections = (_section("high", LOW_HZ, rate), _section("low", HIGH_HZ, rate))
        self._memory = [0.0] * 4

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        value = mv = row["mv"]
        if not math.isfinite(mv):
            return  # the electrode is off
        memory = self._memory
        for at, (b0, b1, b2, a1, a2) in zip((0, 2), self._sections, strict=True):
            out = b0 * value + memory[at]
            memory[at] = b1 * value - a1 * out + memory[at + 1]
            memory[at + 1] = b2 * value - a2 * out
            value = out
        yield {"mv": mv, "band": value}

    def snapshot(self) -> bytes:
        return json.dumps(self._memory).encode()

    def restore(self, state: bytes) -> None:
        self._memory = json.loads(state)


@rs.operator(
    "qrs",
    takes={"mv": "float64", "band": "float64"},
    gives={"beat_us": "int64", "mv": "float64", "bpm": "float64"},
    most_per_second=1 / REFRACTORY_S,
)
class Beats:
    """Heart beats: when each was, how high the signal was, and the rate since the beat before (NaN: none before)."""

    def __init__(self, *, rate: float = 360.0) -> None:
        self._rate = rate
        self._short, self._long = (int(rate * seconds / 2) for seconds in (QRS_S, BEAT_S))  # on each side of the middle
        self._begin()

    def _begin(self) -> None:
        self._seen = 0
        self._mean = 0.0
        self._sums: deque[int] = deque([0], 2 * self._long + 2)  # of the energy up to each sample, the newest last
        self._samples: deque[tuple[int, float]] = deque(maxlen=2 * self._long + 1)  # time and mV
        self._block = 0  # samples so far
        self._peak: tuple[int, int, float] | None = None  # of the block: energy, time, mV
        self._beat: tuple[int, int, float] | None = None  # found, and not reported while a larger one may follow
        self._energies: list[int] = []
        self._reported_us: int | None = None

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        time, energy = int(row["time"]), int(row["band"] * row["band"] / UNIT)
        if self._samples and not 0 <= time - self._samples[-1][0] <= GAP_S * SECOND:
            yield from self._report()
            self._begin()
        self._seen += 1
        self._mean += (energy - self._mean) / min(self._seen, OFFSET_S * self._rate)
        self._sums.append(self._sums[-1] + energy)
        self._samples.append((time, row["mv"]))
        if len(self._samples) <= 2 * self._long:
            return
        candidate = self._candidate()
        # A beat is final when no block that may hold a larger one of the same beat is left.
        latest_us = candidate[1] if candidate is not None else self._samples[self._long][0]
        if self._beat is not None and self._peak is None and latest_us - self._beat[1] > REFRACTORY_S * SECOND:
            yield from self._report()
        if candidate is not None:
            self._choose(candidate)

    def _candidate(self) -> tuple[int, int, float] | None:
        """The largest sample of a block that ends at the sample in the middle."""
        sums, middle = self._sums, self._long
        long = (sums[-1] - sums[0]) / (2 * self._long + 1)
        short = (sums[middle + self._short + 1] - sums[middle - self._short]) / (2 * self._short + 1)
        if short > long + OFFSET * self._mean:
            self._block += 1
            energy = sums[middle + 1] - sums[middle]
            if self._peak is None or energy > self._peak[0]:
                self._peak = (energy, *self._samples[middle])
            return None
        found = self._peak if self._block >= WIDTH * QRS_S * self._rate else None
        self._block, self._peak = 0, None
        return found

    def _choose(self, candidate: tuple[int, int, float]) -> None:
        energy, time, _ = candidate
        if self._beat is not None:
            self._beat = max(self._beat, candidate, key=itemgetter(0))
            return
        if self._reported_us is not None:
            since_s, usual = (time - self._reported_us) / SECOND, median(self._energies)
            t_wave = since_s < SOON_S and energy < SOON_SHARE * usual
            if since_s < REFRACTORY_S or t_wave or (since_s < NOISE_S and energy < NOISE_SHARE * usual):
                return
        self._beat = candidate

    def _report(self) -> Iterator[dict[str, float]]:
        if self._beat is None:
            return
        (energy, time, mv), self._beat = self._beat, None
        before, self._reported_us = self._reported_us, time
        self._energies = [*self._energies[1 - BEATS :], energy]
        bpm = math.nan if before is None else round(60 * SECOND / (time - before), 1)
        yield {"beat_us": time - round(FILTER_DELAY_S * SECOND), "mv": mv, "bpm": bpm}

    def snapshot(self) -> bytes:
        state = [
            self._seen, self._mean, list(self._sums), list(self._samples), self._block, self._peak, self._beat,
            self._energies, self._reported_us,
        ]  # fmt: skip
        return json.dumps(state).encode()

    def restore(self, state: bytes) -> None:
        self._seen, self._mean, sums, samples, self._block, peak, beat, self._energies, self._reported_us = json.loads(
            state
        )
        self._sums = deque(sums, 2 * self._long + 2)
        self._samples = deque(((time, mv) for time, mv in samples), 2 * self._long + 1)
        self._peak = None if peak is None else (peak[0], peak[1], peak[2])
        self._beat = None if beat is None else (beat[0], beat[1], beat[2])
