"""Streams: how much each edge brought, how far it lags, which hours are complete, what was given up, its batches."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from cloud_backend.dashboard.arrivals import SECOND_US
from cloud_backend.dashboard.history import HOUR_US, EdgeHistory
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.places import shown
from cloud_backend.log.format import Record
from shared.errors import PeerError, UsageError
from shared.stream.schema import Schema
from shared.wire import columns
from shared.wire.frame import HEADER, FrameType, decode_one
from shared.wire.messages import Data, Declare

BROWSE_BYTES_MAX = 128 * 1024 * 1024  # of the log, per look
ROWS_MAX = 200  # of one batch


def streams(sources: Sources) -> list[dict[str, Any]]:
    """Every edge any device ever declared, by name."""
    sources.history.follow(seconds_max=1.0)
    with sources.history.lock:
        numbers = {edge for _, _, edge in sources.history.edges} | set(sources.history.names)
        ledgered = _ledgered(sources)
        found = [_summary(sources, edge, ledgered) for edge in numbers]
    return sorted(found, key=lambda each: (each["name"], each["edge"]))


def stream(sources: Sources, edge_hex: str, *, hours: int = 24) -> dict[str, Any]:
    """One edge: its schema, each device's part, completeness by hour and the newest of its ledger."""
    edge = number_of(sources, edge_hex)
    now_us = sources.clock_us()
    names = {entry.device.hex(): entry.name for entry in sources.roster.entries()}
    newest = now_us // HOUR_US
    span = range(newest - hours + 1, newest + 1)
    with sources.history.lock:
        summary = _summary(sources, edge, _ledgered(sources))
        parts = [
            {
                "device": device, "name": names.get(device, ""), "incarnation": incarnation,
                "high_water": known.high_water, "frontier_us": known.frontier_us, "received_us": known.received_us,
                "lag_s": _lag_s(known, now_us),
                "hours": [_hour(known, hour, now_us) for hour in span],
            }
            for (device, incarnation, number), known in sorted(sources.history.edges.items())
            if number == edge
        ]  # fmt: skip
    schema = next((each.schema for each in _declared(sources) if each.edge == edge), None)
    return summary | {
        "schema": None if schema is None else schema.to_json(),
        "hours": [hour * HOUR_US for hour in span],
        "devices": parts,
        "ledger": ledger(sources, edge_hex=edge_hex, limit=50),
    }


def ledger(sources: Sources, *, edge_hex: str = "", device: str = "", limit: int = 100) -> list[dict[str, Any]]:
    """The newest ranges that were given up, and why, newest first."""
    sources.history.follow(seconds_max=1.0)
    edge = number_of(sources, edge_hex) if edge_hex else None
    names = sources.history.names
    return [
        asdict(entry) | {"edge_name": names.get(int(entry.edge, 16), ""), "elements": entry.hi - entry.lo}
        for entry in sources.history.ledger(edge=edge, device=device, limit=limit)
    ]


def batches(
    sources: Sources, edge_hex: str, *, exact: bool, device: str = "", before: int | None = None, limit: int = 20
) -> dict[str, Any]:
    """The newest batches of an edge, decoded, newest first; `before` an offset goes on where the last look ended."""
    edge = number_of(sources, edge_hex)
    schemas = {each.schema.id: each.schema for each in _declared(sources)}
    end = sources.log.durable_end if before is None else min(before, sources.log.durable_end)
    found: deque[tuple[int, Record]] = deque(maxlen=limit)
    looked = 0
    start = end
    for start, stop in _segments_backwards(sources, end):
        looked += stop - start
        here: deque[tuple[int, Record]] = deque(maxlen=limit - len(found))
        here.extend(
            (offset, record)
            for offset, record in sources.log.read(start, stop)
            if _is_batch(record.frame, edge, device)
        )
        found.extendleft(reversed(here))
        if len(found) == limit or looked >= BROWSE_BYTES_MAX:
            break
    oldest = found[0][0] if len(found) == limit else start
    return {
        "batches": [_decoded(offset, record, schemas, exact=exact) for offset, record in reversed(found)],
        "before": None if oldest <= sources.log.start else oldest,
    }


def number_of(sources: Sources, edge_hex: str) -> int:
    edge = int(edge_hex, 16)
    if not any(key.edge == edge for key, _ in sources.log.edges()):
        raise UsageError(
            "no device ever declared this edge; resurge stream list shows those that are", code="stream-not-found"
        )
    return edge


def _segments_backwards(sources: Sources, end: int) -> Iterator[tuple[int, int]]:
    starts = [start for start in sources.log.segment_starts() if start < end]
    yield from reversed(list(pairwise([*starts, end])))


def _is_batch(frame: bytes, edge: int, device: str) -> bool:
    fields = HEADER.unpack_from(frame)
    return fields[2] == FrameType.DATA and fields[9] == edge and (not device or fields[8].hex() == device)


def _decoded(offset: int, record: Record, schemas: dict[int, Schema], *, exact: bool) -> dict[str, Any]:
    data = Data.of(decode_one(record.frame)[0])
    about: dict[str, Any] = {
        "offset": offset, "device": data.device.hex(), "incarnation": data.incarnation, "lo": data.lo, "hi": data.hi,
        "rows": data.rows, "received_us": record.received_us, "bytes": len(record.frame), "problem": None,
        "columns": [], "values": [],
    }  # fmt: skip
    schema = schemas.get(data.schema_id)
    if schema is None:
        return about | {"problem": "its schema was declared before what is kept of the log"}
    try:
        batch = columns.decode(
            data.codec, bytes(data.columns), schema, lo=data.lo, hi=data.hi, frontier_us=data.frontier_us
        )
    except PeerError as error:
        return about | {"problem": error.message}
    names = list(schema.names)
    lists = [batch.columns[name][:ROWS_MAX].tolist() for name in names]
    rows = [shown(dict(zip(names, row, strict=True)), exact=exact) for row in zip(*lists, strict=True)]
    times = batch.time_us[:ROWS_MAX].tolist()
    return about | {
        "columns": ["time_us", *names],
        "values": [[time_us, *row.values()] for time_us, row in zip(times, rows, strict=True)],
    }


def _declared(sources: Sources) -> list[Declare]:
    return [Declare.of(decode_one(state.declaration)[0]) for _, state in sources.log.edges() if state.declaration]


def _ledgered(sources: Sources) -> Counter[int]:
    """Elements given up by edge, over all devices and all time: the index never forgets."""
    totals: Counter[int] = Counter()
    for key, state in sources.log.edges():
        totals[key.edge] += state.ledgered
    return totals


def _summary(sources: Sources, edge: int, ledgered: Counter[int]) -> dict[str, Any]:
    """Call it with the history's lock held."""
    now_us = sources.clock_us()
    parts = [known for (_, _, number), known in sources.history.edges.items() if number == edge]
    newest = now_us // HOUR_US
    last_hours = [known.hours[hour] for known in parts for hour in (newest, newest - 1) if hour in known.hours]
    span_s = HOUR_US / SECOND_US + now_us % HOUR_US / SECOND_US
    lags = [_lag_s(known, now_us) for known in parts]
    return {
        "edge": f"{edge:016x}",
        "name": sources.history.names.get(edge, ""),
        "devices": len({device for device, _, number in sources.history.edges if number == edge}),
        "elements": sum(known.high_water for known in parts),
        "ledgered": ledgered[edge],
        "elements_per_s": sum(hour.elements for hour in last_hours) / span_s,
        "bytes_per_s": sum(hour.bytes for hour in last_hours) / span_s,
        "lag_s": max(lags, default=None),
        "received_us": max((known.received_us for known in parts), default=None),
    }


def _lag_s(known: EdgeHistory, now_us: int) -> float:
    return max(now_us - known.frontier_us, 0) / SECOND_US


def _hour(known: EdgeHistory, hour: int, now_us: int) -> dict[str, Any]:
    sums = known.hours.get(hour)
    return {
        "coverage": known.coverage(hour, now_us),
        "elements": 0 if sums is None else sums.elements,
        "ledgered": 0 if sums is None else sums.ledgered,
    }
