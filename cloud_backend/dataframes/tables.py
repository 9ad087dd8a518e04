"""What is small enough to be read in one piece: what a sink says now, and the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import is_there, located
from cloud_backend.dataframes import arrow
from cloud_backend.results.rows import ResultRow, Value
from cloud_backend.results.store import FILE, Results
from shared.errors import UsageError

ABOUT = {
    "_device": "str", "_window_start": arrow.TIME, "_window_end": arrow.TIME, "_complete": "bool", "_row": "int64",
    "_revision": "int64",
}  # fmt: skip
DEVICES = {
    "device": "str", "name": "str", "incarnation": "int64", "enrolled": arrow.TIME, "revoked": arrow.TIME,
    "last_seen": arrow.TIME, "plan": "int64",
}  # fmt: skip


def sink_rows(where: Path | str, sink: str) -> list[ResultRow]:
    """What a sink says now. UsageError where there is no such store, or where it never heard of the sink."""
    if not is_there(located(where, FILE)):
        raise UsageError(f"there is no results store at {str(where)!r}", code="dataframe-sink")
    results = Results(where)
    try:
        sinks = results.sinks()
        if sink not in sinks:
            there = ", ".join(sinks) or "none yet"
            raise UsageError(f"no results have come for a sink {sink!r} ({there})", code="dataframe-sink")
        return results.latest(sink)
    finally:
        results.close()


def sink_columns(rows: Sequence[ResultRow], key_names: Sequence[str]) -> dict[str, str]:
    """Keys, then values, then what the row is about. A number that is whole in some rows only is a fraction in all."""
    found: dict[str, str] = {}
    for row in rows:
        for name, value in {**_keys(row, key_names), **row.values}.items():
            found[name] = _wider(found.get(name), value, name)
    return {**found, **ABOUT}


def sink_batch(
    rows: Sequence[ResultRow],
    columns: Mapping[str, str],
    key_names: Sequence[str],
    more: Callable[[ResultRow], Mapping[str, object]] = lambda _: {},
) -> pa.RecordBatch:
    """The rows under these columns; `more` says what else stands in a row."""
    plain = [
        {
            **_keys(row, key_names), **row.values, **more(row), "_device": row.device or None,
            "_window_start": row.window_start_us, "_window_end": row.window_end_us, "_complete": row.complete,
            "_row": row.row, "_revision": row.revision,
        }
        for row in rows
    ]  # fmt: skip
    return arrow.batch(
        columns, {name: arrow.array(kind, [row.get(name) for row in plain]) for name, kind in columns.items()}
    )


def _keys(row: ResultRow, names: Sequence[str]) -> dict[str, Value]:
    """A key's parts keep the names they have in the plan; where no plan tells, they are numbered."""
    if len(names) != len(row.key) or set(names) & {*row.values, *ABOUT}:
        names = [f"key_{number}" for number in range(1, len(row.key) + 1)]
    return dict(zip(names, row.key, strict=True))


def _wider(before: str | None, value: Value, name: str) -> str:
    kind = "bool" if isinstance(value, bool) else {int: "int64", float: "float64", str: "str"}[type(value)]
    if before is None or before == kind:
        return kind
    if {before, kind} == {"int64", "float64"}:
        return "float64"
    raise UsageError(
        f"column {name!r} holds {before} in some rows and {kind} in others; name them apart in the program",
        code="dataframe-columns",
    )


def device_list(where: Path | str) -> Iterator[pa.RecordBatch]:
    """Everyone who was ever enrolled."""
    kept = located(where, "roster.sqlite")
    if not is_there(kept):
        raise UsageError(f"there is no roster at {str(where)!r}", code="dataframe-roster")
    roster = Roster(kept)
    try:
        entries = roster.entries()
    finally:
        roster.close()
    values: dict[str, list[Any]] = {
        "device": [entry.device.hex() for entry in entries],
        "name": [entry.name for entry in entries],
        "incarnation": [entry.incarnation for entry in entries],
        "enrolled": [entry.enrolled_us for entry in entries],
        "revoked": [entry.revoked_us for entry in entries],
        "last_seen": [entry.seen_us for entry in entries],
        "plan": [entry.plan_version for entry in entries],
    }
    yield arrow.batch(DEVICES, {name: arrow.array(kind, values[name]) for name, kind in DEVICES.items()})
