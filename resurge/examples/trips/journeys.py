"""Labelled journeys, and made-up ones: what speeds, stops and shaking are like is written as ranges that anyone can
check. They are sampled at 1 to 60 s, with the wander of a receiver and with gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resurge.examples.trips.modes import MODES, SECOND


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
