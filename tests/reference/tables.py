"""What verbs mean on whole tables, in plain Python and pandas: written from docs/semantics.md, not from the engine.

A table is its rows in stream order, with the key that keeps them apart. Every verb is one function of tables. What comes
out is right within each key; between keys there is no order.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from tests.reference.values import Row, missing

HUGE = 1e17  # beside such a value the others of a sum are lost
BOUNDS = ("window_start", "window_end")
Aggregates = dict[str, Callable[[Sequence[Row]], Row]]  # of a window's rows by (time, stream order): columns of its row
Cut = Callable[
    [Sequence[Row]], Iterable[tuple[int, int, Sequence[Row]]]
]  # a key's rows: start, end, rows of each window


@dataclass(frozen=True)
class Table:
    rows: tuple[Row, ...]
    key: tuple[str, ...] = ("device",)

    def by_key(self) -> dict[tuple[Any, ...], list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            found.setdefault(tuple(row[name] for name in self.key), []).append(row)
        return found

    def each_key(self, change: Callable[[list[Row]], Iterable[Row]]) -> Table:
        made = (row for _, rows in sorted(self.by_key().items()) for row in change(rows))
        return Table(tuple(made), self.key)


# --- Row by row ---------------------------------------------------------------------------------------------------------


def where(table: Table, holds: Callable[[Row], bool]) -> Table:
    return Table(tuple(row for row in table.rows if holds(row)), table.key)


def extend(table: Table, computed: dict[str, Callable[[Row], Any]]) -> Table:
    rows = ({**row, **{name: value(row) for name, value in computed.items()}} for row in table.rows)
    return Table(tuple(rows), table.key)


def select(table: Table, names: Sequence[str], computed: dict[str, Callable[[Row], Any]]) -> Table:
    kept = dict.fromkeys(("time", *table.key, *names))
    rows = (
        {**{name: row[name] for name in kept}, **{name: value(row) for name, value in computed.items()}}
        for row in table.rows
    )
    return Table(tuple(rows), table.key)


def significant(table: Table, columns: Sequence[str], change: float) -> Table:
    """A row that differs enough from the last one kept, in any of the columns; a value that goes missing differs."""

    def chosen(rows: list[Row]) -> Iterable[Row]:
        last: Row | None = None
        for row in rows:
            if last is None or any(
                missing(row[name]) != missing(last[name]) or abs(float(row[name]) - float(last[name])) >= change
                for name in columns
            ):
                last = row
                yield row

    return table.each_key(chosen)


def distinct(table: Table, columns: Sequence[str], within_us: int) -> Table:
    """A row is kept unless one of its key with the same values was kept less than so long before or after it."""

    def chosen(rows: list[Row]) -> Iterable[Row]:
        kept: list[tuple[list[Any], int]] = []
        for row in rows:
            said = [None if missing(row[name]) else row[name] for name in columns]
            if not any(said == other and abs(row["time"] - at) < within_us for other, at in kept):
                kept.append((said, row["time"]))
                yield row

    return table.each_key(chosen)


def state(
    table: Table, initial: Row, updates: dict[str, Callable[[Row], Any]], *, keep: bool, expire_us: int = 2**62
) -> Table:
    """A row that comes so long after the greatest time of its key's rows before it finds the initial state."""

    def run(rows: list[Row]) -> Iterable[Row]:
        now = dict(initial)
        greatest = rows[0]["time"]
        for row in rows:
            if row["time"] - greatest >= expire_us:
                now = dict(initial)
            greatest = max(greatest, row["time"])
            seen = {**row, **{f"state.{name}": value for name, value in now.items()}}
            now = {name: update(seen) for name, update in updates.items()}
            own = row if keep else {name: row[name] for name in ("time", *table.key)}
            yield {**own, **now}

    return table.each_key(run)


def state_with_config(table: Table, config: Table, initial: Row, updates: dict[str, Callable[[Row], Any]]) -> Table:
    """Rows of the config set the state's columns that they name; both in order of (time, device, input, number)."""
    made: list[Row] = []
    settings = config.by_key()
    for key, rows in sorted(table.by_key().items()):
        now = dict(initial)
        both = [(0, row) for row in rows] + [(1, row) for row in settings.get(key, [])]
        for port, row in sorted(both, key=lambda one: (*place_of(one[1]), one[0])):
            if port == 1:
                now.update({name: row[name] for name in now if name in row})
                continue
            seen = {**row, **{f"state.{name}": value for name, value in now.items()}}
            now = {name: update(seen) for name, update in updates.items()}
            made.append({**{name: row[name] for name in ("time", *table.key)}, **now})
    return Table(tuple(made), table.key)


def mapped(table: Table, function: Callable[[Row], Row], *, keep: bool) -> Table:
    rows = (
        {**(row if keep else {name: row[name] for name in ("time", *table.key)}), **function(row)} for row in table.rows
    )
    return Table(tuple(rows), table.key)


def previous(table: Table, columns: Sequence[str], rows_back: int, first: Row) -> Table:
    def run(rows: list[Row]) -> Iterable[Row]:
        for place, row in enumerate(rows):
            before = rows[place - rows_back] if place >= rows_back else first
            yield {**row, **{f"{name}_previous": before[name] for name in columns}}

    return table.each_key(run)


# --- Keys and several streams -------------------------------------------------------------------------------------------


def place_of(row: Row) -> tuple[Any, ...]:
    """Where rows meet they come by (time, device, ...)."""
    return (row["time"], row["device"]) if "device" in row else (row["time"],)


def key_by(table: Table, columns: tuple[str, ...]) -> Table:
    if "device" in columns and set(table.key) <= set(columns):
        return Table(table.rows, columns)
    before = tuple(name for name in table.key if name != "device")
    rows = sorted(table.rows, key=lambda row: (*place_of(row), *(row[name] for name in before)))
    return Table(tuple(rows), columns)


def union(tables: Sequence[Table]) -> Table:
    numbered = [(port, row) for port, table in enumerate(tables) for row in table.rows]
    ordered = sorted(numbered, key=lambda one: (*place_of(one[1]), one[0]))
    return Table(tuple(row for _, row in ordered), tables[0].key)


def beside(left: Row, right: Row, key: tuple[str, ...], time: int) -> Row:
    """Both rows as one; columns of the right one that clash get `_right`."""
    added = {name: value for name, value in right.items() if name != "time" and name not in key}
    return {**left, "time": time} | {
        (f"{name}_right" if name in left else name): value for name, value in added.items()
    }


def paired(
    left: Table,
    right: Table,
    pairs: Callable[[list[Row], list[Row]], Iterable[tuple[int, int]]],
    stand_ins: Row | None = None,
) -> Table:
    """Pairs of one key, by (time, device, left order, right order); a pair has the time of its later row. With `stand_ins`
    a left row without a pair stands beside them, at its own time."""
    others = right.by_key()
    made: list[Row] = []
    for key, lefts in sorted(left.by_key().items()):
        rights = others.get(key, [])
        found = [
            (beside(lefts[one], rights[other], left.key, max(lefts[one]["time"], rights[other]["time"])), one, other)
            for one, other in pairs(lefts, rights)
        ]
        if stand_ins is not None:
            with_pair = {one for _, one, _ in found}
            found += [
                (beside(row, stand_ins, left.key, row["time"]), one, -1)
                for one, row in enumerate(lefts)
                if one not in with_pair
            ]
        made += [row for row, _, _ in sorted(found, key=lambda each: (*place_of(each[0]), each[1], each[2]))]
    return Table(tuple(made), left.key)


def zipped(left: Table, right: Table) -> Table:
    return paired(left, right, lambda lefts, rights: ((n, n) for n in range(min(len(lefts), len(rights)))))


def joined(left: Table, right: Table, before_us: int, after_us: int, stand_ins: Row | None = None) -> Table:
    def near(lefts: list[Row], rights: list[Row]) -> Iterable[tuple[int, int]]:
        for one, other in itertools.product(range(len(lefts)), range(len(rights))):
            if -before_us <= rights[other]["time"] - lefts[one]["time"] <= after_us:
                yield one, other

    return paired(left, right, near, stand_ins)


def followed_by(left: Table, right: Table, within_us: int) -> Table:
    """Each left row with the first right one of a later time, where that is not too late."""

    def following(lefts: list[Row], rights: list[Row]) -> Iterable[tuple[int, int]]:
        ordered = sorted(range(len(rights)), key=lambda place: place_of(rights[place]))
        for one, row in enumerate(lefts):
            later = next((other for other in ordered if rights[other]["time"] > row["time"]), None)
            if later is not None and rights[later]["time"] - row["time"] <= within_us:
                yield one, later

    return paired(left, right, following)


def absent(table: Table, length_us: int) -> Table:
    """A silence is the end of a session."""
    return aggregated(
        table,
        sessions(length_us),
        {"": lambda rows: {"rows": len(rows), "silent_since": max(row["time"] for row in rows)}},
    )


def combined(left: Table, right: Table) -> Table:
    others = right.by_key()
    own = left.by_key()
    made: list[Row] = []
    for key in sorted({*own, *others}):
        both = [(0, row) for row in own.get(key, [])] + [(1, row) for row in others.get(key, [])]
        latest: dict[int, Row] = {}
        for port, row in sorted(both, key=lambda one: (*place_of(one[1]), one[0])):
            latest[port] = row
            if len(latest) == 2:
                made.append(beside(latest[0], latest[1], left.key, row["time"]))
    return Table(tuple(made), left.key)


def with_latest(left: Table, right: Table, stand_ins: Row | None, tolerance_us: int = 2**62) -> Table:
    """The other stream's last row at its time, rows of the same time included; one older than the tolerance is none."""
    others = right.by_key()
    made: list[Row] = []
    for key, rows in sorted(left.by_key().items()):
        rights = sorted(others.get(key, []), key=place_of)
        for row in sorted(rows, key=place_of):
            known = [other for other in rights if other["time"] <= row["time"]]
            fresh = bool(known) and row["time"] - known[-1]["time"] <= tolerance_us
            if fresh or stand_ins is not None:
                made.append(beside(row, known[-1] if fresh else stand_ins or {}, left.key, row["time"]))
    return Table(tuple(made), left.key)


# --- Windows ------------------------------------------------------------------------------------------------------------


def by_time(size: int, step: int) -> Cut:
    def cut(rows: Sequence[Row]) -> Iterable[tuple[int, int, Sequence[Row]]]:
        found: dict[int, list[Row]] = {}
        for row in rows:
            start = row["time"] // step * step
            while start + size > row["time"]:
                found.setdefault(start, []).append(row)
                start -= step
        return ((start, start + size, found[start]) for start in sorted(found))

    return cut


def by_calendar(zone: str, unit: str) -> Cut:
    """Local days, weeks from Monday, months. Each begins at the first moment at which the local clock shows its date."""
    clock = ZoneInfo(zone)

    def shown(moment: int) -> date:
        return datetime.fromtimestamp(moment, clock).date()

    @cache
    def begins(day: date) -> int:
        noon = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())
        quarters = range(noon - 36 * 3600, noon + 36 * 3600, 900)  # clocks change at quarters of an hour
        return next(moment for moment in quarters if shown(moment) == day) * 1_000_000

    def first_day(day: date) -> date:
        if unit == "1w":
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if unit == "1mo" else day

    def next_day(day: date) -> date:
        if unit == "1mo":
            return (day + timedelta(days=31)).replace(day=1)
        return day + timedelta(days=7 if unit == "1w" else 1)

    def cut(rows: Sequence[Row]) -> Iterable[tuple[int, int, Sequence[Row]]]:
        found: dict[date, list[Row]] = {}
        for row in rows:
            found.setdefault(first_day(shown(row["time"] // 1_000_000)), []).append(row)
        return ((begins(day), begins(next_day(day)), found[day]) for day in sorted(found))

    return cut


def sliding(size: int) -> Cut:
    """For each row, the rows up to it and less than the size older."""

    def cut(rows: Sequence[Row]) -> Iterable[tuple[int, int, Sequence[Row]]]:
        ordered = sorted(rows, key=place_of)
        for place, row in enumerate(ordered):
            at = row["time"]
            yield at - size + 1, at + 1, [one for one in ordered[: place + 1] if one["time"] > at - size]

    return cut


def sessions(gap: int) -> Cut:
    """Rows each less than the gap after the one before; within a session they stay in stream order."""

    def cut(rows: Sequence[Row]) -> Iterable[tuple[int, int, Sequence[Row]]]:
        found: list[list[int]] = []
        for place in sorted(range(len(rows)), key=lambda place: int(rows[place]["time"])):
            if not found or rows[place]["time"] - rows[found[-1][-1]]["time"] >= gap:
                found.append([])
            found[-1].append(place)
        for places in found:
            yield (
                rows[places[0]]["time"], rows[places[-1]]["time"] + gap, [rows[place] for place in sorted(places)],
            )  # fmt: skip

    return cut


def by_count(size: int, step: int) -> Cut:
    def cut(rows: Sequence[Row]) -> Iterable[tuple[int, int, Sequence[Row]]]:
        for start in range(0, len(rows) - size + 1, step):
            inside = rows[start : start + size]
            times = [row["time"] for row in inside]
            yield min(times), max(times) + 1, inside

    return cut


def aggregated(table: Table, cut: Cut, aggregates: Aggregates) -> Table:
    def run(rows: list[Row]) -> Iterable[Row]:
        for start, end, inside in cut(rows):
            made: Row = {name: inside[0][name] for name in table.key}
            made |= {"time": end - 1, "window_start": start, "window_end": end}
            for aggregate in aggregates.values():
                made |= aggregate(inside)
            yield {**made, "complete": True}

    return table.each_key(run)


# --- Aggregates: what is missing is skipped; where nothing is left, NaN ---------------------------------------------------


def known(rows: Sequence[Row], column: str) -> pd.Series:
    values = [row[column] for row in rows if not missing(row[column])]
    return pd.Series(values, dtype=_dtype(values))


def _dtype(values: list[Any]) -> str:
    if not values or isinstance(values[0], float):
        return "float64"
    return "bool" if isinstance(values[0], bool) else "int64" if isinstance(values[0], int) else "object"


class Rough(float):
    """A float that any way of computing rounds, and by how much ours may differ."""

    slack: float

    @staticmethod
    def of(value: float, slack: float) -> Rough:
        made = Rough(value)
        made.slack = slack
        return made


def total(values: pd.Series, *, whole: bool = False) -> Any:
    """`whole`: of whole numbers, also where there are none."""
    if values.dtype == "float64" and not whole:
        if not np.isfinite(values).all():
            with np.errstate(all="ignore"):
                return float(values.sum())
        return Rough.of(math.fsum(values), 1e-15 * float(values.abs().sum()) if values.abs().max() > HUGE else 0.0)
    return (sum(map(int, values)) + 2**63) % 2**64 - 2**63


def by_order_of_time(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["time"])


def end_value(rows: Sequence[Row], column: str, place: int, none: Any) -> Any:
    values = [row[column] for row in by_order_of_time(rows) if not missing(row[column])]
    return values[place] if values else none


def extreme(rows: Sequence[Row], column: str, choose: Callable[[Iterable[Any]], Any], none: Any) -> Any:
    values = known(rows, column).tolist()
    return choose(values) + 0.0 if values and isinstance(values[0], float) else choose(values) if values else none


def mean(rows: Sequence[Row], column: str) -> float:
    values = known(rows, column).astype("float64")  # so that whole numbers do not wrap
    if not len(values):
        return math.nan
    summed = total(values)
    return Rough.of(float(summed) / len(values), getattr(summed, "slack", 0.0))


def spread(rows: Sequence[Row], column: str, *, root: bool) -> float:
    values = known(rows, column).astype("float64")
    if not len(values) or not np.isfinite(values).all():
        return math.nan
    exact = statistics.pvariance(map(Fraction, values))
    with np.errstate(all="ignore"):
        return float(np.sqrt(float(exact))) if root else float(exact)


def quantile(rows: Sequence[Row], column: str, q: float) -> float:
    """Linear between the two nearest ranks; pandas says NaN beside infinity."""
    ranked: list[float] = sorted(known(rows, column).astype("float64").tolist())
    if not ranked:
        return math.nan
    place = (len(ranked) - 1) * q
    low, high = ranked[math.floor(place)], ranked[math.ceil(place)]
    return low if low == high else low + (high - low) * (place - math.floor(place))


def most_frequent(rows: Sequence[Row], column: str, name: str, k: int, none: Any) -> Row:
    counted = known(rows, column).value_counts()
    ranked = sorted(counted.items(), key=lambda one: (-one[1], one[0]))  # ties to the lesser value
    filled = [*ranked[:k], *[(none, 0)] * (k - len(ranked))]
    made: Row = {f"{name}_{place + 1}": value for place, (value, _) in enumerate(filled)}
    return made | {f"{name}_{place + 1}_count": int(count) for place, (_, count) in enumerate(filled)}


def magnitudes(rows: Sequence[Row], column: str, name: str, bins: int) -> Row:
    values = np.array([0.0 if missing(row[column]) else row[column] for row in rows], np.float64)
    turns = np.arange(len(values)) / len(values)
    if not np.isfinite(values).all():  # what a transform of infinity is, is not said
        return {f"{name}_{k}": Rough.of(math.nan, math.inf) for k in range(bins)}
    with np.errstate(all="ignore"):
        found = [float(abs(np.sum(values * np.exp(-2j * np.pi * k * turns)))) for k in range(bins)]
    return {f"{name}_{k}": Rough.of(one, 1e-14 * float(np.abs(values).sum())) for k, one in enumerate(found)}


EARTH_METRES = 6_371_008.8


def path_km(rows: Sequence[Row], lat: str, lon: str) -> float:
    way = [(math.radians(row[lat]), math.radians(row[lon])) for row in by_order_of_time(rows)]
    way = [point for point in way if not any(map(math.isnan, point))]
    if len(way) > 1 and any(math.isinf(angle) for point in way for angle in point):
        return math.nan
    metres = 0.0
    for (lat1, lon1), (lat2, lon2) in itertools.pairwise(way):
        height = math.sin((lat2 - lat1) / 2) ** 2
        height += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
        metres += 2 * EARTH_METRES * math.asin(math.sqrt(min(height, 1.0)))
    farthest = max((abs(angle) for point in way for angle in point), default=0.0)
    return Rough.of(metres / 1000, 1e-12 * farthest * EARTH_METRES)
