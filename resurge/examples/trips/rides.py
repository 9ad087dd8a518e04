"""Which vehicle a whole ride was in: what no single fix shows, where it halts, how fast it gets and how it turns.

A car, a bus and a train at one speed are alike from one fix to the next. Over a ride they are not: a bus stops every
few hundred metres and a car seldom, a train turns no corners and is quick between stops that last. These are the
measures that Zheng et al. (UbiComp 2008) found to survive traffic: how often one stops, how often one turns, how
speed changes, beside typical and top speed. They are taken from the ride at steps of ten seconds, so they mean
the same whatever the fixes' rate was; what fixes are too far apart to show is left out.

Each kind of journey of `journeys.py` (a town bus, a car in a jam, a metro ...) has one normal density per measure; a
mode is the sum of its kinds. The model's own word on each fix counts as so many votes (VOTES).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from resurge.examples.trips import model
from resurge.examples.trips.fixes import EARTH_M, SECOND
from resurge.examples.trips.impact import MOVING

MEASURES = ("typical", "top", "stops", "halted", "stop", "turns", "pull", "bends", "swings")
STEP_S = 10.0
SLOW = 1.5  # m/s: halted
STEADY_M = 60.0  # in two steps: a direction worth the name
COARSE, COARSE_MIN = 6, 5  # steps in a minute, and minutes that show anything
FINE_S = 12.0  # between fixes while moving, to see halts and turns
FLOOR = math.log(0.01)
VOTES = 0.7
VOTE_MIN = 0.05
CHANGED = math.log(0.03)  # another vehicle after a halt, without a step on foot

Kinds = Sequence[tuple[str, float, Sequence[tuple[float, float]]]]  # mode, share of it, (mean, deviation) per measure


def measures(time: np.ndarray, lat: np.ndarray, lon: np.ndarray) -> tuple[float, ...]:
    """One number per MEASURES from the fixes of a ride, the one before it included; NaN where it cannot be known."""
    unknown = (math.nan,) * len(MEASURES)
    seconds = (time - time[0]) / SECOND
    if len(time) < 3 or seconds[-1] < 3 * STEP_S:
        return unknown
    north = np.radians(lat - lat[0]) * EARTH_M
    east = np.cumsum(np.append(0.0, np.radians(np.diff(lon)) * np.cos(np.radians(lat[1:])))) * EARTH_M
    grid = np.arange(0.0, seconds[-1] + 0.5, STEP_S)
    x, y = np.interp(grid, seconds, east), np.interp(grid, seconds, north)
    speed = np.hypot(np.diff(x), np.diff(y)) / STEP_S
    moving = speed >= SLOW
    if np.count_nonzero(moving) < 2:
        return unknown
    typical, top = float(np.median(speed[moving])), float(np.quantile(speed, 0.95))
    if _period_s(seconds, east, north) > FINE_S:
        return (math.log(typical), math.log(top), *unknown[4:], *_coarse(x, y))
    inside = np.flatnonzero(moving)
    stretch = moving[inside[0] : inside[-1] + 1]
    stops = int(np.count_nonzero(stretch[:-1] & ~stretch[1:]))
    halted_s = float(np.count_nonzero(~stretch)) * STEP_S
    km = float(np.add.reduce(speed)) * STEP_S / 1000.0
    return (
        math.log(typical),
        math.log(top),
        math.log(0.1 + stops / km),
        math.log(0.03 + halted_s / (len(stretch) * STEP_S)),
        math.log(halted_s / stops) if stops else math.nan,
        math.log(0.05 + _turned(x[::2], y[::2], STEADY_M) / km),
        math.log(0.05 + float(np.quantile(np.abs(np.diff(speed)), 0.9)) / STEP_S),
        *unknown[-2:],
    )


def _coarse(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """How a ride bends and how its speed swings from minute to minute, where fixes are too far apart to show more."""
    x, y = x[::COARSE], y[::COARSE]
    way = np.hypot(np.diff(x), np.diff(y))
    if len(way) < COARSE_MIN or not way.any():
        return math.nan, math.nan
    km = float(np.add.reduce(way)) / 1000.0
    swing = float(np.add.reduce(np.abs(np.diff(way)))) / float(np.add.reduce(way))
    return math.log(0.05 + _turned(x, y, COARSE * STEADY_M / 2) / km), math.log(0.05 + swing)


def _period_s(seconds: np.ndarray, east: np.ndarray, north: np.ndarray) -> float:
    """How far apart fixes usually are while one moves."""
    took = np.diff(seconds)
    swift = np.hypot(np.diff(east), np.diff(north)) > 2 * SLOW * took
    return float(np.median(took[swift])) if swift.any() else math.inf


def _turned(x: np.ndarray, y: np.ndarray, steady_m: float) -> float:
    """Radians turned from step to step; the direction of one that got nowhere is none."""
    dx, dy = np.diff(x), np.diff(y)
    going = np.hypot(dx, dy) >= steady_m
    heading = np.arctan2(dy[going], dx[going])
    turns = np.abs((np.diff(heading) + np.pi) % (2 * np.pi) - np.pi)
    return float(np.add.reduce(turns))


def likelihoods(found: Sequence[float], kinds: Kinds) -> dict[str, float]:
    """The logarithm of how likely these measures are in each mode, up to what is the same for all."""
    by_mode: dict[str, list[float]] = {mode: [] for mode in MOVING}
    for mode, share, densities in kinds:
        total = math.log(share)
        for value, (mean, deviation) in zip(found, densities, strict=True):
            if not math.isnan(value):
                off = (value - mean) / deviation
                total += max(FLOOR, -0.5 * off * off) - math.log(deviation)
        by_mode[mode].append(total)
    return {mode: _log_sum(scores) for mode, scores in by_mode.items() if scores}


def _log_sum(scores: Sequence[float]) -> float:
    most = max(scores)
    return most + math.log(math.fsum(math.exp(score - most) for score in scores))


def scores(found: Sequence[float], votes: Mapping[str, float], kinds: Kinds | None = None) -> dict[str, float]:
    """How likely each mode is for a ride: its measures, and for how long each mode was told by the fixes."""
    whole = sum(votes.values()) or 1.0
    return {
        mode: score + VOTES * math.log(VOTE_MIN + votes.get(mode, 0.0) / whole)
        for mode, score in likelihoods(found, model.KINDS if kinds is None else kinds).items()
    }


def most_likely_modes(rides: Sequence[tuple[Mapping[str, float], bool]]) -> list[str]:
    """The modes of the rides of a trip, given the scores of each and whether it goes on where the last one halted:
    then it is hardly ever in another vehicle. The likeliest way through all of them (Viterbi)."""
    best: dict[str, tuple[float, list[str]]] = {mode: (0.0, []) for mode in MOVING}
    for ride, goes_on in rides:
        top = max(best.values(), key=lambda way: way[0])
        if not goes_on:
            best = {mode: (top[0] + score, [*top[1], mode]) for mode, score in ride.items()}
            continue
        best = {
            mode: (way[0] + score, [*way[1], mode])
            for mode, score in ride.items()
            for way in [max(best[mode], (top[0] + CHANGED, top[1]), key=lambda way: way[0])]
        }
    return max(best.values(), key=lambda way: way[0])[1]
