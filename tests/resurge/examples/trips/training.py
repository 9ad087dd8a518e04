"""How `resurge/examples/trips/model.py` was made: `python -m tests.resurge.examples.trips.training GEOLIFE/modes > model.py`.

Two kinds of labelled journeys are put through the very machines that phones run (the outlier rule, the odometer, the
significant-change filter, the look-back), and each feature of each mode becomes one normal density:

* made-up journeys (`resurge/examples/trips/journeys.py`);
* GeoLife journeys whose owner wrote down the mode. They have no accelerometer, so they say nothing about shaking.

Either counts as at most so many rows per mode (PSEUDO), recorded ones as fewer: they are three people's, labelled by
hand, and a mode with thousands of fixes (one person's train rides) must not shout. Deviations have a floor. Nothing
else is fitted: how long one stays in a mode and what follows it are written down in this file.

Without a directory only made-up journeys are used. `scoring.py` leaves each recorded trajectory out in turn.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from resurge.examples.trips.fixes import Track, east_north, metres_between
from resurge.examples.trips.journeys import KINDS, Journey, made_up
from resurge.examples.trips.modes import FEATURES, GAP_S, MODES, SECOND, Lookback, TransportMode
from resurge.examples.trips.rides import MEASURES, Kinds, measures

SIGNIFICANT_M = 10.0
PSEUDO = {"made up": 400.0, "recorded": 100.0}
JOURNEYS = 60  # made up, per mode
RIDES, RIDES_MIN = 60, 10  # made up, per kind; fewer that know a measure say nothing about it
SPREAD_MIN = 0.35  # of a ride's measures: life is wider than what one makes up
DEVIATION_MIN = {"speed": 0.25, "top_speed": 0.25, "stops": 0.12, "acceleration": 0.35, "shake": 0.5, "gait": 0.2}
# Several names of one thing for a report of this kind; what is not named is left out of training and scores.
LABELS = {"walk": "walk", "bike": "bike", "bus": "bus", "taxi": "car", "car": "car", "train": "train",
          "subway": "train", "run": "walk"}  # fmt: skip

DWELL_S = {"still": 240.0, "walk": 400.0, "bike": 900.0, "bus": 900.0, "car": 1200.0, "train": 2400.0}
CHANGE = {  # what follows, when something does; from vehicle to vehicle one walks
    "still": {"walk": 0.5, "bike": 0.1, "bus": 0.12, "car": 0.2, "train": 0.08},
    "walk": {"still": 0.4, "bike": 0.1, "bus": 0.17, "car": 0.24, "train": 0.09},
    "bike": {"still": 0.4, "walk": 0.55, "car": 0.02, "bus": 0.02, "train": 0.01},
    "bus": {"still": 0.3, "walk": 0.64, "bike": 0.01, "car": 0.03, "train": 0.02},
    "car": {"still": 0.35, "walk": 0.6, "bike": 0.01, "bus": 0.03, "train": 0.01},
    "train": {"still": 0.3, "walk": 0.65, "bike": 0.01, "bus": 0.02, "car": 0.02},
}
PRIOR = {"still": 0.25, "walk": 0.35, "bike": 0.08, "bus": 0.1, "car": 0.16, "train": 0.06}


# --- recorded journeys ------------------------------------------------------------------------------------------------


def read_labelled(directory: Path) -> list[Journey]:
    """The labelled trajectories below a directory of GeoLife users."""
    from mobile_app.sensors.file_formats import load

    journeys = []
    for labels in sorted(directory.glob("*/labels.txt")):
        spans = _spans(labels)
        for path in sorted(labels.parent.glob("Trajectory/*.plt")):
            track = load(path)
            modes = [_mode_at(spans, time) for time in track.time_us.tolist()]
            if any(modes):
                name = f"{labels.parent.name}/{path.stem}"
                journeys.append(Journey(name, track.time_us, track.columns["lat"], track.columns["lon"], modes))
    return journeys


def _spans(labels: Path) -> list[tuple[int, int, str]]:
    spans = []
    for line in labels.read_text(encoding="utf-8").splitlines()[1:]:
        start, end, mode = line.strip().split("\t")
        times = [round(datetime.strptime(text, "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC).timestamp() * SECOND)
                 for text in (start, end)]  # fmt: skip
        spans.append((times[0], times[1], LABELS.get(mode, "")))
    return spans


def _mode_at(spans: Iterable[tuple[int, int, str]], time: int) -> str:
    """Of labels that overlap the one that began last counts: a taxi ride within an outing "on foot"."""
    holding = [(start, mode) for start, end, mode in spans if start <= time <= end]
    return max(holding)[1] if holding else ""


# --- from journeys to densities ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One kept fix: its time, its label, how long it took, and the features there."""

    time_us: int
    mode: str
    seconds: float
    features: tuple[float, ...]


def kept_fixes(journey: Journey) -> Iterator[tuple[int, dict[str, float]]]:
    """The fixes that go on, by the journey's own numbers: believed, and away from the last one."""
    track = Track()
    last: tuple[float, float] | None = None
    for index, time in enumerate(journey.time_us.tolist()):
        row = {"time": time, "lat": float(journey.lat[index]), "lon": float(journey.lon[index]), "accuracy": math.nan,
               "indoors_s": 0.0, "outdoors_s": 0.0}  # fmt: skip
        for fix in track.process("in", row):
            if last is None or metres_between(*last, fix["lat"], fix["lon"]) >= SIGNIFICANT_M:
                last = (fix["lat"], fix["lon"])
                yield index, {"time": time, **fix, "shake": journey.shake, "gait": journey.gait}


def feature_rows(journey: Journey) -> Iterator[FeatureRow]:
    """What the model would see of a journey."""
    back = Lookback()
    before: dict[str, float] | None = None
    for index, fix in kept_fixes(journey):
        last, before = before, fix
        seconds = 0.0 if last is None else (fix["time"] - last["time"]) / SECOND
        if last is None or seconds >= GAP_S:
            back = Lookback()
        elif seconds > 0:
            back.add(int(fix["time"]), seconds, *east_north(last["lat"], last["lon"], fix["lat"], fix["lon"]))
            yield FeatureRow(int(fix["time"]), journey.mode[index], seconds, back.features(journey.shake, journey.gait))


Row = tuple[float, tuple[float, ...]]  # seconds, features


def densities(journeys: Iterable[tuple[str, Journey]]) -> list[list[tuple[float, float]]]:
    """For each mode and feature (mean, deviation), from journeys of the kinds "made up" and "recorded"."""
    found: dict[tuple[str, str], list[Row]] = {}
    for kind, journey in journeys:
        for one in feature_rows(journey):
            if one.mode in MODES:
                found.setdefault((one.mode, kind), []).append((one.seconds, one.features))
    table = []
    for mode in MODES:
        kinds = [(PSEUDO[kind], found[mode, kind]) for kind in PSEUDO if (mode, kind) in found]
        table.append([_density(kinds, place) for place in range(len(FEATURES))])
    return table


def _density(kinds: Sequence[tuple[float, list[Row]]], place: int) -> tuple[float, float]:
    """Weighted by time within a kind; each kind counts as its rows, at most PSEUDO."""
    values, weights = [], []
    for most, rows in kinds:
        known = [
            (min(seconds, 60.0), features[place]) for seconds, features in rows if features[place] == features[place]
        ]
        if known:
            total = sum(seconds for seconds, _ in known)
            share = min(most, float(len(known))) / total
            values += [value for _, value in known]
            weights += [seconds * share for seconds, _ in known]
    low, middle, high = _quantiles(np.array(values), np.array(weights), (0.16, 0.5, 0.84))
    return round(middle, 3), round(max((high - low) / 2, DEVIATION_MIN[FEATURES[place]]), 3)


def _quantiles(values: np.ndarray, weights: np.ndarray, shares: Sequence[float]) -> list[float]:
    """Median and the middle two thirds instead of mean and variance: people label a whole outing "walk"."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][np.searchsorted(reached, share)]) for share in shares]


def kinds() -> list[tuple[str, float, list[tuple[float, float]]]]:
    """For each kind of journey that moves: its mode, its share of it, and (mean, deviation) of a ride's measures."""
    table = []
    for name, kind in KINDS.items():
        if kind.mode != "still":
            rides = [measure_ride(made_up(kind.mode, seed, name=name)) for seed in range(RIDES)]
            table.append(
                (kind.mode, kind.share, [_spread([ride[place] for ride in rides]) for place in range(len(MEASURES))])
            )
    return table


def measure_ride(journey: Journey) -> tuple[float, ...]:
    """A whole journey as one ride, of the rows that moved."""
    machine = TransportMode()
    rows = [row | {"time": fix["time"]} for _, fix in kept_fixes(journey) for row in machine.process("in", fix)]
    moved = [row for row in rows if row["mode"] != "still"]
    return measures(*(np.array([row[name] for row in moved]) for name in ("time", "lat", "lon")))


def _spread(values: Sequence[float]) -> tuple[float, float]:
    known = np.array([value for value in values if not math.isnan(value)])
    if len(known) < RIDES_MIN:
        return 0.0, 9.0  # says nothing
    low, middle, high = np.quantile(known, (0.16, 0.5, 0.84))
    return round(float(middle), 3), round(max(float(high - low) / 2, SPREAD_MIN), 3)


def journeys_made_up() -> list[tuple[str, Journey]]:
    return [("made up", made_up(mode, seed)) for mode in MODES for seed in range(JOURNEYS)]


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    recordings = [] if directory is None else [("recorded", journey) for journey in read_labelled(directory)]
    sys.stdout.write(
        model_text(densities([*journeys_made_up(), *recordings]), kinds(), [journey.name for _, journey in recordings])
    )


def model_text(table: Sequence[Sequence[tuple[float, float]]], rides: Kinds, recordings: Sequence[str]) -> str:
    """The text of model.py."""
    sources = ", ".join(recordings) or "none"
    lines = [
        '"""The parameters of the transport mode model: a table that `training.py` in tests wrote; do not edit it.',
        "",
        f"Made-up journeys: {JOURNEYS} per mode, seeds 0 to {JOURNEYS - 1}. Recorded GeoLife trajectories:",
        *_wrapped(sources),
        '"""',
        "",
        "import math",
        "",
        "VERSION = 1",
        "# modes: " + ", ".join(MODES) + "; features: " + ", ".join(FEATURES),
        "PRIOR = [math.log(share) for share in (" + ", ".join(str(PRIOR[mode]) for mode in MODES) + ")]",
        "DWELL_S = (" + ", ".join(str(DWELL_S[mode]) for mode in MODES) + ")",
        "CHANGE = (",
        *(f"    ({', '.join(str(CHANGE[mode].get(other, 0.0)) for other in MODES)}),  # {mode}" for mode in MODES),
        ")",
        "DENSITIES = (  # mean, deviation",
        *(f"    ({', '.join(map(str, row))}),  # {mode}" for mode, row in zip(MODES, table, strict=True)),
        ")",
        f"# made-up rides: {RIDES} per kind; measures: " + ", ".join(MEASURES),
        "KINDS = (  # mode, share of it, mean and deviation",
        *(f'    ("{mode}", {share}, ({", ".join(map(str, row))})),' for mode, share, row in rides),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text + ".", 116)


if __name__ == "__main__":
    main()
