"""A pipeline's state without some of its keys.

Two things need it. After a hash range was split, each half starts from the whole state and drops the other half's keys
at its next base. And a key whose state makes an operator raise is taken out, so that all others go on.

It works on what an operator dumps, not on what it holds while running: the dump is the stable format, and putting the
filtered one back is the ordinary `load`. Keys are numbered densely, so taking some out numbers the others anew; every
array or dictionary by key number is moved along. Rows that wait for a frontier are filtered by their own columns. An
operator whose keys or rows do not carry the columns that decide is left as it is. Frontiers stay: they are about
devices and time, and what they say of a device that is gone does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from shared.engine.counting import CountWindows
from shared.engine.joining import Beside, Join, Pairing, Zip
from shared.engine.keyed_state import KeyedState
from shared.engine.keys import KeyIndex
from shared.engine.merging import Rekey, Union
from shared.engine.operator import Operator
from shared.engine.sessions import Sessions
from shared.engine.sliding import SlidingWindows
from shared.engine.snapshots import Value
from shared.engine.windowing import TimeWindows

Keep = Callable[[Mapping[str, np.ndarray], int], np.ndarray]  # columns, rows -> which rows' keys stay


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which columns decide, and how."""

    columns: tuple[str, ...]
    keep: Keep

    def of(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """True for the rows that stay: all of them where the deciding columns are not there."""
        if not all(name in columns for name in self.columns):
            return np.ones(rows, bool)
        return self.keep({name: columns[name] for name in self.columns}, rows)


def retain(operator: Operator, chosen: Chosen) -> None:
    """Take every key that is not chosen out of an operator's state."""
    key = getattr(operator, "key", None)
    if isinstance(key, KeyIndex) and not all(name in key.names for name in chosen.columns):
        return
    state = operator.dump()
    match operator:
        case TimeWindows():
            operator.load(_time_windows(state, operator.key, chosen))
        case Sessions():
            operator.load(_sessions(state, operator.key, chosen))
        case SlidingWindows():
            operator.load(_sliding_windows(state, operator.key, chosen))
        case CountWindows():
            operator.load(_count_windows(state, operator.key, chosen))
        case KeyedState():
            operator.load(_keyed_state(state, operator.key, chosen))
        case Pairing():
            operator.load(_pairing(state, operator, chosen))
        case Rekey():
            inner, *rest = state
            operator.load([_union(inner, chosen), *rest])
        case Union():
            operator.load(_union(state, chosen))
        case _:
            pass  # without a state by key


def distinct_keys(operator: Operator, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    """The different values of these columns among an operator's keys; none where its keys do not carry them."""
    key = getattr(operator, "key", None)
    if not isinstance(key, KeyIndex) or not all(name in key.names for name in columns):
        return []
    places = [key.names.index(name) for name in columns]
    return list(dict.fromkeys(tuple(each[place] for place in places) for each in key.values))


# -- operators -------------------------------------------------------------------------------------------------------


def _time_windows(state: Value, key: KeyIndex, chosen: Chosen) -> Value:
    frontiers, before, following, late, keys, panes, dropped = state
    keys, moved = _keys(keys, key, chosen)
    if isinstance(before, np.ndarray) and before.ndim:
        before = before[np.flatnonzero(moved[: len(before)] >= 0)]
    filtered = {}
    for number, (present, pool) in panes.items():
        stays = moved[present] >= 0
        if stays.any():
            filtered[number] = [moved[present[stays]], _pool(pool, stays)]
    return [frontiers, before, following, late, keys, filtered, dropped]


def _sessions(state: Value, key: KeyIndex, chosen: Chosen) -> Value:
    frontiers, following, late, keys, used, slots, numbers, start, last, out, pool, gone = state
    keys, moved = _keys(keys, key, chosen)
    stays = moved[numbers] >= 0
    return [
        frontiers, following, late, keys, used, slots[stays], moved[numbers[stays]], start[stays], last[stays],
        out[stays], _pool(pool, stays), gone,
    ]  # fmt: skip


def _sliding_windows(state: Value, key: KeyIndex, chosen: Chosen) -> Value:
    frontiers, following, late, keys, held, histories = state
    keys, moved = _keys(keys, key, chosen)
    return [frontiers, following, late, keys, _held(held, chosen), _by_number(histories, moved)]


def _count_windows(state: Value, key: KeyIndex, chosen: Chosen) -> Value:
    frontiers, following, keys, filling, pool, gone = state
    keys, moved = _keys(keys, key, chosen)
    stays = moved[filling] >= 0
    return [frontiers, following, keys, moved[filling[stays]], _pool(pool, stays), gone]


def _keyed_state(state: Value, key: KeyIndex, chosen: Chosen) -> Value:
    frontiers, following, keys, states, more = state
    keys, moved = _keys(keys, key, chosen)
    held = None if more is None else [_held(one, chosen) for one in more]
    return [frontiers, following, keys, _by_number(states, moved), held]


def _pairing(state: Value, operator: Pairing, chosen: Chosen) -> Value:
    (frontiers, following, keys, held), *rest = state
    keys, moved = _keys(keys, operator.key, chosen)
    inner = [frontiers, following, keys, [_held(one, chosen) for one in held]]
    match operator:
        case Beside():
            (latest,) = rest
            return [inner, [_by_number(side, moved) for side in latest]]
        case Join():
            (kept,) = rest
            return [inner, [_rows(rows, chosen) for rows in kept]]
        case Zip():
            counts, waiting, numbers, pairs = rest
            return [
                inner, [_by_key(count, moved) for count in counts],
                [_rows(rows, chosen) for rows in waiting],
                [_numbered(pair, moved) for pair in numbers],
                [[_rows(left, chosen), _rows(right, chosen)] for left, right in pairs],
            ]  # fmt: skip
    return [inner, *rest]


def _union(state: Value, chosen: Chosen) -> Value:
    frontiers, following, held = state
    return [frontiers, following, _held(held, chosen)]


# -- parts of dumps --------------------------------------------------------------------------------------------------


def _keys(state: Value, key: KeyIndex, chosen: Chosen) -> tuple[Value, np.ndarray]:
    """The keys that stay, and for each number its new one; -1 for those that go."""
    first, columns = state
    if isinstance(columns, int):  # the one key of a stream without key columns
        stays = chosen.of({}, columns)
        return [first, int(np.count_nonzero(stays))], np.where(stays, np.cumsum(stays) - 1, -1)
    stays = chosen.of(dict(zip(key.names, columns, strict=True)), len(columns[0]))
    moved = np.where(stays, np.cumsum(stays) - 1, -1)
    return [first, [column[stays] for column in columns] if stays.any() else 0], moved


def _pool(state: Value, stays: np.ndarray) -> Value:
    rows, missing, folds, kept = state
    if kept is not None:
        lengths, columns = kept
        inside = np.repeat(stays, lengths)
        kept = [lengths[stays], [column[inside] for column in columns]]
    return [
        rows[stays], {name: counts[stays] for name, counts in missing.items()},
        [[array[stays] for array in arrays] for arrays in folds], kept,
    ]  # fmt: skip


def _by_number(values: Mapping[int, Value], moved: np.ndarray) -> dict[int, Value]:
    return {int(moved[number]): value for number, value in values.items() if moved[number] >= 0}


def _by_key(values: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """An array by key number that may be shorter than there are keys."""
    return values[np.flatnonzero(moved[: len(values)] >= 0)]


def _numbered(pair: Value, moved: np.ndarray) -> Value:
    keys, ordinals = pair
    stays = moved[keys] >= 0
    return [moved[keys[stays]], ordinals[stays]]


def _rows(state: Value, chosen: Chosen) -> Value:
    columns, time, seq = state
    stays = chosen.of(columns, len(time))
    return [{name: column[stays] for name, column in columns.items()}, time[stays], seq[stays]]


def _held(state: Value, chosen: Chosen) -> Value:
    if state is None:
        return None
    columns, time, seq, ports = state
    stays = chosen.of(columns, len(time))
    return [{name: column[stays] for name, column in columns.items()}, time[stays], seq[stays], ports[stays]]
