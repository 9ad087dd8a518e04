"""Aggregates that need a window's rows themselves: quantile, top_k, distinct, path_km, dft, and users' own.

The rows are kept in stream order as chunks per slot, only the columns that are read, and answered from when the window
goes out, so no batching can be seen in the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from shared.engine.evaluation import haversine_metres
from shared.language.aggregates import Aggregate
from shared.language.expressions import TIME
from shared.language.registry import AggregateMachine, Named, operator_type
from shared.language.schema import Field

Window = Mapping[str, np.ndarray]  # the columns of one window's rows in stream order, `time` included
Answer = Callable[[Window], tuple[object, ...]]


def answer_of(aggregate: Aggregate, fields: tuple[Field, ...]) -> Answer:
    """The function from a window's rows to the aggregate's columns."""
    if aggregate.where is not None:
        return _of_some(aggregate, aggregate.where, fields)
    name = aggregate.columns[0] if aggregate.columns else TIME
    match aggregate.function:
        case "quantile":
            share = float(aggregate.parameter("q"))
            return lambda window: (quantile(_present(window[name]), share),)
        case "distinct":
            return lambda window: (_distinct(_present(window[name])),)
        case "top_k":
            k = int(aggregate.parameter("k"))
            return lambda window: _top_k(_present(window[name]), k, fields[0].kind)
        case "path_km":
            latitude, longitude = aggregate.columns
            return lambda window: (path_km(window[TIME], window[latitude], window[longitude]),)
        case "dft":
            bins = int(aggregate.parameter("bins"))
            return lambda window: dft(window[name], bins)
        case "user":
            return _user(aggregate)
        case "first" | "last":
            return lambda window: (_edge(window[TIME], window[name], aggregate.function),)
        case "min" | "max":
            best = min if aggregate.function == "min" else max
            return lambda window: (best(window[name].tolist()),)
        case "sum" | "mean" if name == TIME:
            return lambda window: (_time_total(window[TIME], mean=aggregate.function == "mean"),)
    raise ValueError(aggregate.function)


def _of_some(aggregate: Aggregate, where: str, fields: tuple[Field, ...]) -> Answer:
    """The answer from those rows of a window for which the condition holds."""
    answer = answer_of(replace(aggregate, where=None), fields)

    def of_some(window: Window) -> tuple[object, ...]:
        holds = window[where]
        if not holds.any() and aggregate.function in ("min", "max", "first", "last", "dft"):
            return tuple(_nothing(field.kind) for field in fields)
        return answer({name: column[holds] for name, column in window.items()})

    return of_some


def _nothing(kind: str) -> object:
    return "" if kind == "str" else (math.nan if kind.startswith("float") else 0)


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)] if values.dtype.kind == "f" else values


def _edge(time: np.ndarray, values: np.ndarray, function: str) -> object:
    known = np.flatnonzero(~np.isnan(values)) if values.dtype.kind == "f" else np.arange(len(values))
    if not len(known):
        return math.nan
    at = time[known]
    place = np.argmin(at) if function == "first" else len(at) - 1 - np.argmax(at[::-1])
    return values[known[place]]


def _time_total(time: np.ndarray, *, mean: bool) -> object:
    total = np.add.accumulate(time.astype(np.float64) if mean else time)[-1]
    return total / len(time) if mean else total


def quantile(values: np.ndarray, share: float) -> float:
    """Linear between the nearest ranks, (n - 1) * share."""
    if not len(values):
        return math.nan
    ranked = np.sort(values).astype(np.float64)
    place = (len(ranked) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    low, high = float(ranked[below]), float(ranked[above])
    return low if place == below or low == high else low + (high - low) * (place - below)


def _distinct(values: np.ndarray) -> int:
    return len(set(values.tolist()))


def _top_k(values: np.ndarray, k: int, kind: str) -> tuple[object, ...]:
    ranked = sorted(Counter(values.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[:k]
    ranked += [(_nothing(kind), 0)] * (k - len(ranked))
    return tuple(part for pair in ranked for part in pair)


def path_km(time: np.ndarray, latitude: np.ndarray, longitude: np.ndarray) -> float:
    """The length of the way through the points by time; points with a missing coordinate are passed over."""
    order = np.argsort(time, kind="stable")
    lat, lon = latitude[order].astype(np.float64), longitude[order].astype(np.float64)
    known = ~(np.isnan(lat) | np.isnan(lon))
    lat, lon = lat[known], lon[known]
    if len(lat) < 2:
        return 0.0
    steps = haversine_metres(lat[:-1].copy(), lon[:-1].copy(), lat[1:].copy(), lon[1:].copy())
    return float(np.add.accumulate(steps)[-1]) / 1000.0


def dft(values: np.ndarray, bins: int) -> tuple[float, ...]:
    """Magnitudes of the first bins of the discrete Fourier transform; bins past the window repeat it."""
    wide = values.astype(np.float64)
    wide[np.isnan(wide)] = 0.0
    magnitudes = np.abs(np.fft.fft(wide))
    return tuple(float(magnitudes[number % len(wide)]) for number in range(bins))


def _user(aggregate: Aggregate) -> Answer:
    parameters = dict(aggregate.parameters)
    kind = operator_type(str(parameters.pop("name")))
    parameters.pop("version", None)
    named = Named(kind)

    def answer(window: Window) -> tuple[object, ...]:
        with named:
            machine = kind.implementation(**parameters)
            if not isinstance(machine, AggregateMachine):
                raise TypeError(f"{kind.name} is not an aggregate")
            for values in zip(*(window[name].tolist() for name in aggregate.columns), strict=True):
                machine.add(*values)
            return (machine.result(),)

    return answer
