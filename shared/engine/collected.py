"""Aggregates that need a window's rows themselves: quantile, top_k, distinct, path_km, dft, and users' own.

The rows are kept in stream order as chunks per slot, only the columns that are read, and answered from when the window
goes out, so no batching can be seen in the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from shared.engine.evaluation import haversine_metres
from shared.stream.aggregates import Aggregate
from shared.stream.expressions import TIME
from shared.stream.registry import AggregateMachine, operator_type
from shared.stream.schema import Field, Schema

Window = Mapping[str, np.ndarray]  # the columns of one window's rows in stream order, `time` included
Answer = Callable[[Window], tuple[object, ...]]


def answer_of(aggregate: Aggregate, fields: tuple[Field, ...]) -> Answer:
    """The function from a window's rows to the aggregate's columns."""
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
    raise ValueError(aggregate.function)


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)] if values.dtype.kind == "f" else values


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


def _distinct(values: np.ndarray) -> tuple[int, ...] | int:
    return len(set(values.tolist()))


def _top_k(values: np.ndarray, k: int, kind: str) -> tuple[object, ...]:
    ranked = sorted(Counter(values.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[:k]
    missing: object = "" if kind == "str" else (math.nan if kind.startswith("float") else 0)
    ranked += [(missing, 0)] * (k - len(ranked))
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

    def answer(window: Window) -> tuple[object, ...]:
        machine = kind.implementation(**parameters)
        if not isinstance(machine, AggregateMachine):
            raise TypeError(f"{kind.name} is not an aggregate")
        for values in zip(*(window[name].tolist() for name in aggregate.columns), strict=True):
            machine.add(*values)
        return (machine.result(),)

    return answer


def fields_of(name: str, aggregate: Aggregate, schema: Schema) -> tuple[Field, ...]:
    """The columns an aggregate adds, a user's own included."""
    from shared.stream.aggregates import result_fields

    if aggregate.function != "user":
        return result_fields(name, aggregate, schema)
    kind = operator_type(str(aggregate.parameter("name")))
    (_, output), *_ = kind.outputs
    return (Field(name, output.fields[0].kind),)
