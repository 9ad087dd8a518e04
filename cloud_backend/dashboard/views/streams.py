"""Streams: how much each edge brought, how far it lags, which hours are complete, what was given up, its batches.

The lag of a stream is that of the device furthest behind among those in contact. A device out of contact is a gap and
no lag: nothing about the stream would get better by looking at it. With nobody in contact there is no lag to tell.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from cloud_backend.dashboard.history.arrivals import SECOND_US
from cloud_backend.dashboard.history.completeness import Cell, Row, by_device, cells_of_stream, hours_until
from cloud_backend.dashboard.history.edges import HOUR_US, EdgeHistory, EdgeOf
from cloud_backend.dashboard.history.history import BatchPlace
from cloud_backend.dashboard.privacy.places import shown
from cloud_backend.dashboard.sources import Sources
from cloud_backend.log.format import Record
from shared.errors import DamagedData, PeerError, UsageError
from shared.identity import EdgeId
from shared.language.schema import Schema
from shared.wire import codecs
from shared.wire.frame import HEADER_BYTES, FrameType, decode_one, stored_header
from shared.wire.messages import Data, Declare

BROWSE_BYTES_MAX = 128 * 1024 * 1024  # of the log, per look
ROWS_MAX = 200  # of one batch
HEAT_ROWS = 24
BATCHES_SHOWN = 25
RATE_SPAN_S = 300  # of the chart of a stream


@dataclass(frozen=True, slots=True)
class Stream:
    number: int
    name: str
    devices: int  # enrolled ones that send it
    delivered: int
    ledgered: int
    rate: float  # elements per second over the last minute
    bytes_per_s: float  # over the last hour or two
    lag_s: float | None
    received_us: int | None
    cells: tuple[Cell, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "edge": f"{self.number:016x}", "name": self.name, "devices": self.devices,
            "elements": self.delivered + self.ledgered, "ledgered": self.ledgered, "elements_per_s": self.rate,
            "bytes_per_s": self.bytes_per_s, "lag_s": self.lag_s, "received_us": self.received_us,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Activity:
    """What a stream's page draws: the last minutes, the hours of those furthest behind, the newest batches."""

    stream: Stream
    counts: list[int]  # elements in each second of the last minutes
    rows: list[Row]
    batches: list[BatchPlace]
    schema: Schema | None


def streams(sources: Sources, *, only: int | None = None) -> list[Stream]:
    """Every stream any device ever declared, by name; or one of them, by its number."""
    now_us = sources.clock_us()
    sources.look()
    sums = sources.log.sums()
    with sources.history.lock:
        numbers = {*sources.history.streams, *sources.history.names}
        numbers = numbers if only is None else numbers & {only}
    lags = _lags(sources, now_us)
    with sources.history.lock:
        found = [
            _stream(sources, number, lags.get(number), sums.get(EdgeId(number), (0, 0)), now_us) for number in numbers
        ]
    return sorted(found, key=lambda each: (each.name, each.number))


def stream(sources: Sources, edge_hex: str, *, hours: int = 24) -> dict[str, Any]:
    """One stream: its schema, each device's part, completeness by hour and the newest of its ledger."""
    number = number_of(sources, edge_hex)
    [summary] = streams(sources, only=number)
    now_us = sources.clock_us()
    names = sources.device_names()
    newest = now_us // HOUR_US
    span = range(newest - hours + 1, newest + 1)
    with sources.history.lock:
        parts = [
            {
                "device": device, "name": names.get(device, ""), "incarnation": incarnation,
                "high_water": known.high_water, "frontier_us": known.frontier_us, "received_us": known.received_us,
                "lag_s": lag_s(known, own_now_us(sources, device, now_us)),
                "hours": [_hour(known, hour, now_us) for hour in span],
            }
            for (device, incarnation, _), known in sorted(sources.history.streams.of(number).edges.items())
        ]  # fmt: skip
    schema = schema_of(sources, summary.name)
    return summary.to_json() | {
        "schema": None if schema is None else schema.to_json(),
        "hours": [hour * HOUR_US for hour in span],
        "devices": parts,
        "ledger": ledger(sources, edge_hex=edge_hex, limit=50),
    }


def activity(sources: Sources, name: str) -> Activity:
    """What the page of one stream shows, by its name."""
    [summary] = streams(sources, only=number_named(sources, name))
    now_us = sources.clock_us()
    now_s = now_us // SECOND_US
    history = sources.history
    with history.lock:
        rows = by_device(
            _furthest_behind(sources, summary.number, now_us), sources.device_names(), now_us, count=HEAT_ROWS
        )
        recent = list(history.recent.get(summary.number, ()))[::-1][:BATCHES_SHOWN]
        seconds = history.seconds.get(summary.number, {})
        counts = [seconds.get(second, 0) for second in range(now_s - RATE_SPAN_S, now_s)]
    return Activity(summary, counts, rows, recent, schema_of(sources, name))


def schemas(sources: Sources) -> dict[str, Schema]:
    """The schema of every stream, by name: the program's own where it has the stream. Of another stream it is the one
    that the most devices declared: what one device declares differently is that device's affair."""
    votes: dict[str, Counter[Schema]] = {}
    for _, state in sources.log.edges():
        declared = _declared(state.declaration)
        if declared is not None:
            votes.setdefault(declared.name, Counter())[declared.schema] += 1
    found = {name: max(each, key=lambda schema: (each[schema], schema.to_json())) for name, each in votes.items()}
    plan = sources.program()
    return found | ({} if plan is None else {edge.name: edge.schema for edge in plan.edges})


def schema_of(sources: Sources, name: str) -> Schema | None:
    return schemas(sources).get(name)


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
        "batches": [_decoded(sources, offset, record, exact=exact) for offset, record in reversed(found)],
        "before": None if oldest <= sources.log.start else oldest,
    }


def batch(sources: Sources, name: str, offset: int, *, exact: bool) -> dict[str, Any]:
    """The batch that starts exactly there, decoded; an address may name any number."""
    number = number_named(sources, name)
    try:
        start, record = next(iter(sources.log.read(offset, offset + 1)))
    except (DamagedData, StopIteration):
        start, record = -1, Record(0, b"")
    if start != offset or not _is_batch(record.frame, number, ""):
        raise UsageError("no batch of this stream starts there", code="batch-not-found")
    return _decoded(sources, offset, record, exact=exact)


def number_of(sources: Sources, edge_hex: str) -> int:
    edge = int(edge_hex, 16)
    if edge not in sources.log.sums():
        raise _unknown()
    return edge


def number_named(sources: Sources, name: str) -> int:
    sources.history.follow(seconds_max=0.2)
    with sources.history.lock:
        for number, known in sources.history.names.items():
            if known == name:
                return number
    raise _unknown()


def lag_s(known: EdgeHistory, now_us: int) -> float:
    return max(now_us - known.frontier_us, 0) / SECOND_US


def own_now_us(sources: Sources, device: str, now_us: int) -> int:
    """What a device takes for now, of which it may be gone from the roster."""
    found = sources.fleet.listing.find(device)
    return now_us if found is None else found.own_now_us(now_us)


def _unknown() -> UsageError:
    return UsageError(
        "no device ever declared this stream; resurge stream list shows those that are", code="stream-not-found"
    )


def _lags(sources: Sources, now_us: int) -> dict[int, float]:
    """By stream, of the device in contact that is furthest behind."""
    found: dict[int, float] = {}
    for device in sources.fleet.in_contact():
        with sources.history.lock:
            edges = sources.history.streams.edges_of(device.phone.id)
        for (_, incarnation, number), known in edges:
            if incarnation == device.incarnation:
                found[number] = max(found.get(number, 0.0), lag_s(known, device.own_now_us(now_us)))
    return found


def _recent(sources: Sources, number: int, now_us: int) -> dict[EdgeOf, EdgeHistory]:
    """The edges of enrolled devices of which something came within the hours that are shown."""
    heard = sources.history.streams.of(number).heard_since(hours_until(now_us)[0] * HOUR_US)
    return {edge: known for edge, known in heard if sources.fleet.is_current(edge[0], edge[1])}


def _furthest_behind(sources: Sources, number: int, now_us: int) -> dict[str, EdgeHistory]:
    """By device, all that may be among the first rows: whoever was heard in the hours shown, and of the others, which
    gave up nothing in them, the first in order."""
    found = {edge[0]: known for edge, known in _recent(sources, number, now_us).items()}
    streams = sources.history.streams
    for _, _, device in sources.fleet.listing.senders(number)[:HEAT_ROWS]:
        for (_, incarnation, edge), known in streams.edges_of(device):
            if edge == number and sources.fleet.is_current(device, incarnation):
                found[device] = known
    return found


def _stream(sources: Sources, number: int, lag_s: float | None, sums: tuple[int, int], now_us: int) -> Stream:
    """Call it with the history's lock held."""
    history = sources.history
    known = history.streams.of(number)
    recent = _recent(sources, number, now_us)
    listing = sources.fleet.listing
    quiet = len(listing.senders(number)) - sum(listing.is_sender(device, number) for device, _, _ in recent)
    newest = now_us // HOUR_US
    span_s = HOUR_US / SECOND_US + now_us % HOUR_US / SECOND_US
    decided, ledgered = sums
    return Stream(
        number, history.names.get(number, ""), quiet + len(recent), decided - ledgered, ledgered,
        history.rate(number, now_us), sum(known.sums(hour).bytes for hour in (newest, newest - 1)) / span_s, lag_s,
        known.received_us, cells_of_stream(known, list(recent.values()), quiet, hours_until(now_us), now_us),
    )  # fmt: skip


def _segments_backwards(sources: Sources, end: int) -> Iterator[tuple[int, int]]:
    starts = [start for start in sources.log.segment_starts() if start < end]
    yield from reversed(list(pairwise([*starts, end])))


def _is_batch(frame: bytes | memoryview, edge: int, device: str) -> bool:
    if len(frame) < HEADER_BYTES:
        return False
    header = stored_header(frame)
    return header.kind == FrameType.DATA and header.edge == edge and (not device or header.source.hex() == device)


def _decoded(sources: Sources, offset: int, record: Record, *, exact: bool) -> dict[str, Any]:
    data = Data.of(decode_one(record.frame)[0])
    about: dict[str, Any] = {
        "offset": offset, "device": data.device.hex(), "incarnation": data.incarnation, "lo": data.lo, "hi": data.hi,
        "rows": data.rows, "applied": data.applied, "received_us": record.received_us, "bytes": len(record.frame),
        "problem": None, "columns": [], "values": [], "seq": [],
    }  # fmt: skip
    with sources.history.lock:
        schema = sources.history.schema_of(data)
    if schema is None:
        return about | {"problem": "its schema was declared before what is kept of the log"}
    try:
        decoded = codecs.decode_data(data, schema)
    except PeerError as error:
        return about | {"problem": error.message}
    names = list(schema.names)
    lists = [decoded.columns[name][:ROWS_MAX].tolist() for name in names]
    rows = [shown(dict(zip(names, row, strict=True)), exact=exact) for row in zip(*lists, strict=True)]
    times = decoded.time_us[:ROWS_MAX].tolist()
    return about | {
        "columns": ["time_us", *names],
        "values": [[time_us, *row.values()] for time_us, row in zip(times, rows, strict=True)],
        "seq": decoded.seq[:ROWS_MAX].tolist(),
    }


def _declared(frame: bytes | memoryview | None) -> Declare | None:
    """What a device declared; None when it cannot be read."""
    if not frame:
        return None
    try:
        return Declare.of(decode_one(frame)[0])
    except PeerError:
        return None


def _hour(known: EdgeHistory, hour: int, now_us: int) -> dict[str, Any]:
    sums = known.hours.get(hour)
    return {
        "coverage": known.coverage(hour, now_us),
        "elements": 0 if sums is None else sums.elements,
        "ledgered": 0 if sums is None else sums.ledgered,
    }
