"""How `model.py` was made: `python -m resurge.examples.trips.training GEOLIFE/modes > model.py`.

Two kinds of labelled journeys are put through the very machines that phones run (the outlier rule, the odometer, the
significant-change filter, the look-back), and each feature of each mode becomes one normal density:

* made-up journeys (below): what speeds, stops and shaking are like is written as ranges that anyone can check. They
  are sampled at 1 to 60 s, with the wander of a receiver and with gaps;
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


@dataclass(frozen=True, slots=True)
class Journey:
    """Fixes by time, each with the mode it was reached in ("" where nobody knows) and what the phone's shaking says."""

    name: str
    time_us: np.ndarray
    lat: np.ndarray
    lon: np.ndarray
    mode: Sequence[str]
    shake: float = math.nan
    gait: float = math.nan


# --- made-up journeys -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """One way a mode goes about: speeds in m/s, lengths in metres. Halts come at two kinds of places: such as a driver
    meets anywhere (lights, queues), and stops, which lie rather evenly and are served one after the other."""

    mode: str
    share: float  # of the mode's journeys
    cruise: tuple[float, float, float]  # mean, deviation, least
    pull: float  # m/s2, up and down
    halt_m: float = 0.0  # between halts of the first kind; 0: none
    halt_s: tuple[float, float] = (0.0, 0.0)
    stop_m: float = 0.0  # between stops; 0: none
    stop_s: tuple[float, float] = (0.0, 0.0)
    turn_m: float = 0.0  # between corners; 0: none
    radius_m: float = 100.0  # of the narrowest curve between corners
    sway: float = 0.15  # of the cruising speed, with traffic and the driver's mood


KINDS = {
    "still": Kind("still", 1.0, (0.0, 0.0, 0.0), 1.0),
    "stroll": Kind("walk", 0.5, (1.1, 0.2, 0.6), 0.8, halt_m=90, halt_s=(5, 60), turn_m=120, radius_m=40),
    "walk": Kind("walk", 0.5, (1.4, 0.2, 0.9), 0.8, halt_m=350, halt_s=(3, 40), turn_m=150, radius_m=40),
    "bike": Kind("bike", 1.0, (4.6, 0.9, 2.5), 0.6, halt_m=600, halt_s=(5, 40), turn_m=400, radius_m=80),
    "town bus": Kind(
        "bus", 0.7, (10.0, 2.0, 5.0), 1.0, halt_m=700, halt_s=(5, 60), stop_m=450, stop_s=(10, 35), turn_m=1_000,
        radius_m=200,
    ),
    "country bus": Kind(
        "bus", 0.3, (16.0, 3.0, 9.0), 1.0, halt_m=2_000, halt_s=(5, 60), stop_m=1_500, stop_s=(10, 40), turn_m=2_500,
        radius_m=300,
    ),
    "car in town": Kind("car", 0.35, (13.0, 2.5, 8.0), 1.7, halt_m=700, halt_s=(5, 60), turn_m=700, radius_m=200),
    "car in a jam": Kind("car", 0.15, (9.0, 2.0, 5.0), 1.3, halt_m=250, halt_s=(3, 40), turn_m=600, radius_m=200),
    "car on a city expressway": Kind(
        "car", 0.15, (18.0, 3.5, 10.0), 1.5, halt_m=2_500, halt_s=(5, 90), turn_m=3_500, radius_m=450, sway=0.25
    ),
    "car on a country road": Kind(
        "car", 0.15, (20.0, 3.0, 14.0), 1.5, halt_m=3_000, halt_s=(5, 60), turn_m=4_000, radius_m=300
    ),
    "car on a motorway": Kind(
        "car", 0.2, (29.0, 4.0, 20.0), 1.2, halt_m=15_000, halt_s=(5, 60), radius_m=900, sway=0.1
    ),
    "metro": Kind("train", 0.3, (18.0, 2.5, 12.0), 1.0, stop_m=1_400, stop_s=(22, 50), radius_m=450, sway=0.05),
    "regional train": Kind(
        "train", 0.3, (27.0, 5.0, 16.0), 0.6, stop_m=6_000, stop_s=(40, 120), radius_m=900, sway=0.05
    ),
    "slow express": Kind(
        "train", 0.2, (27.0, 5.0, 16.0), 0.4, stop_m=40_000, stop_s=(90, 280), radius_m=1_200, sway=0.05
    ),
    "fast train": Kind(
        "train", 0.2, (48.0, 10.0, 32.0), 0.4, stop_m=40_000, stop_s=(90, 280), radius_m=2_500, sway=0.05
    ),
}  # fmt: skip
CURVE_M = 400.0  # as long a curve stays the same
EVENNESS = 6.0  # of stops' distances: the shape of a gamma distribution


def _speeds(draw: np.random.Generator, kind: Kind, seconds: int) -> np.ndarray:
    """Second by second: up to about the cruising speed, down to the next halt or stop, whichever comes first."""
    if not kind.cruise[0]:
        return np.zeros(seconds)
    cruise = max(kind.cruise[2], draw.normal(*kind.cruise[:2]))
    speeds: list[float] = []
    speed, metres, halted, target = 0.0, 0.0, 0.0, cruise
    halt_at, stop_at = _next(draw, kind.halt_m, 1.0), _next(draw, kind.stop_m, EVENNESS)
    while len(speeds) < seconds:
        if halted > 0:
            halted -= 1
            speeds.append(0.0)
            continue
        if draw.random() < 0.05:
            target = max(0.3 * cruise, draw.normal(cruise, kind.sway * cruise))
        ahead = min(halt_at, stop_at) - metres
        braking = ahead < speed * speed / (2 * kind.pull)
        speed = max(0.0, speed - kind.pull) if braking else min(target, speed + kind.pull * draw.uniform(0.5, 1.2))
        metres += speed
        speeds.append(speed)
        if (braking and speed < 0.5) or ahead <= 0:
            if stop_at <= halt_at:
                halted, stop_at = draw.uniform(*kind.stop_s), metres + _next(draw, kind.stop_m, EVENNESS)
            else:
                halted, halt_at = draw.uniform(*kind.halt_s), metres + _next(draw, kind.halt_m, 1.0)
            speed = 0.0
    return np.array(speeds)


def _next(draw: np.random.Generator, between_m: float, evenness: float) -> float:
    return max(30.0, draw.gamma(evenness, between_m / evenness)) if between_m else math.inf


def _headings(draw: np.random.Generator, kind: Kind, speed: np.ndarray) -> np.ndarray:
    """Curves as narrow as the kind takes them, and corners of a right angle."""
    metres = np.cumsum(speed)
    curves = draw.uniform(-1.0, 1.0, int(metres[-1] / CURVE_M) + 1) / kind.radius_m
    heading = np.cumsum(speed * curves[(metres / CURVE_M).astype(int)]) + draw.uniform(0, 2 * np.pi)
    if kind.turn_m:
        corners = np.cumsum(draw.exponential(kind.turn_m, int(4 * metres[-1] / kind.turn_m) + 20))
        turned = np.concatenate(([0.0], np.cumsum(draw.choice((-np.pi / 2, np.pi / 2), len(corners)))))
        heading += turned[np.searchsorted(corners, metres)]
    return heading


# shake in m/s2 (median, spread of its logarithm) and the share of it at a walker's pace (mean, deviation)
SHAKING = {
    "still": (0.05, 0.6, 0.3, 0.2), "walk": (2.2, 0.45, 0.6, 0.2), "bike": (1.1, 0.5, 0.35, 0.2),
    "bus": (0.5, 0.5, 0.2, 0.15), "car": (0.35, 0.5, 0.2, 0.15), "train": (0.2, 0.55, 0.2, 0.15),
}  # fmt: skip


def made_up(mode: str, seed: int, *, every_s: int | None = None, name: str = "") -> Journey:
    draw = np.random.default_rng((seed, MODES.index(mode)))
    seconds = int(draw.integers(600, 2400))
    kinds = [kind for kind in KINDS.values() if kind.mode == mode]
    drawn_kind = kinds[int(draw.choice(len(kinds), p=[kind.share for kind in kinds]))]
    kind = KINDS[name] if name else drawn_kind
    speed = _speeds(draw, kind, seconds)
    heading = _headings(draw, kind, speed)
    drawn = int(draw.choice((1, 2, 5, 10, 15, 30, 60)))
    every = every_s or drawn
    wander = draw.uniform(2.0, 8.0)
    blocks = seconds // 10 + 2
    at = np.arange(seconds)
    noise = [np.interp(at, np.arange(blocks) * 10, draw.normal(0, wander, blocks)) for _ in range(2)]
    grain = 0.2 * wander
    north = np.cumsum(speed * np.cos(heading)) + noise[0] + draw.normal(0, grain, seconds)
    east = np.cumsum(speed * np.sin(heading)) + noise[1] + draw.normal(0, grain, seconds)
    keep = np.arange(0, seconds, every)
    hole = int(draw.integers(0, seconds))
    keep = keep[(keep < hole) | (keep > hole + int(draw.integers(0, 120)))]
    lat = 47.0 + north[keep] / 111_320.0
    lon = 8.0 + east[keep] / (111_320.0 * math.cos(math.radians(47.0)))
    median, spread, gait, gait_spread = SHAKING[mode]
    return Journey(
        f"{mode}-{seed}", keep.astype(np.int64) * SECOND, lat, lon, [mode] * len(keep),
        shake=float(median * math.exp(draw.normal(0, spread))),
        gait=float(np.clip(draw.normal(gait, gait_spread), 0, 1)),
    )  # fmt: skip


# --- recorded journeys ------------------------------------------------------------------------------------------------


def recorded(directory: Path) -> list[Journey]:
    """The labelled trajectories below a directory of GeoLife users."""
    from mobile_app.sensors.formats import load

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
class Seen:
    """One kept fix: its time, its label, how long it took, and the features there."""

    time_us: int
    mode: str
    seconds: float
    features: tuple[float, ...]


def kept(journey: Journey) -> Iterator[tuple[int, dict[str, float]]]:
    """The fixes that go on, by the journey's own numbers: believed, and away from the last one."""
    track = Track()
    last: tuple[float, float] | None = None
    for index, time in enumerate(journey.time_us.tolist()):
        row = {"time": time, "lat": float(journey.lat[index]), "lon": float(journey.lon[index]), "accuracy": math.nan}
        for fix in track.process("in", row):
            if last is None or metres_between(*last, fix["lat"], fix["lon"]) >= SIGNIFICANT_M:
                last = (fix["lat"], fix["lon"])
                yield index, {"time": time, **fix, "shake": journey.shake, "gait": journey.gait}


def seen(journey: Journey) -> Iterator[Seen]:
    """What the model would see of a journey."""
    back = Lookback()
    before: dict[str, float] | None = None
    for index, fix in kept(journey):
        last, before = before, fix
        seconds = 0.0 if last is None else (fix["time"] - last["time"]) / SECOND
        if last is None or seconds >= GAP_S:
            back = Lookback()
        elif seconds > 0:
            back.add(int(fix["time"]), seconds, *east_north(last["lat"], last["lon"], fix["lat"], fix["lon"]))
            yield Seen(int(fix["time"]), journey.mode[index], seconds, back.features(journey.shake, journey.gait))


Row = tuple[float, tuple[float, ...]]  # seconds, features


def densities(journeys: Iterable[tuple[str, Journey]]) -> list[list[tuple[float, float]]]:
    """For each mode and feature (mean, deviation), from journeys of the kinds "made up" and "recorded"."""
    found: dict[tuple[str, str], list[Row]] = {}
    for kind, journey in journeys:
        for one in seen(journey):
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
            rides = [measured(made_up(kind.mode, seed, name=name)) for seed in range(RIDES)]
            table.append(
                (kind.mode, kind.share, [_spread([ride[place] for ride in rides]) for place in range(len(MEASURES))])
            )
    return table


def measured(journey: Journey) -> tuple[float, ...]:
    """A whole journey as one ride, of the rows that moved."""
    machine = TransportMode()
    rows = [row | {"time": fix["time"]} for _, fix in kept(journey) for row in machine.process("in", fix)]
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
    recordings = [] if directory is None else [("recorded", journey) for journey in recorded(directory)]
    sys.stdout.write(
        written(densities([*journeys_made_up(), *recordings]), kinds(), [journey.name for _, journey in recordings])
    )


def written(table: Sequence[Sequence[tuple[float, float]]], rides: Kinds, recordings: Sequence[str]) -> str:
    """The text of model.py."""
    sources = ", ".join(recordings) or "none"
    lines = [
        '"""The parameters of the transport mode model: a table that `training.py` wrote; do not edit it by hand.',
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
