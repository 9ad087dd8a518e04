"""What the log has said over two days, by hour: how much each edge of each device brought, and how far it came.

One follower reads every record once, by its header alone, and adds it up in memory; a page then costs what it shows,
not what the log holds. The sums and the place in the log are kept in SQLite in one transaction, so a restart goes on
where it stopped and counts nothing twice. The file is a summary and nothing more: delete it, and it is made again
from the segments that are still kept.

An hour here is an hour of event time, taken from the frontier a batch carries ("nothing earlier follows"). So an hour
that a phone spent in a tunnel fills up when its backlog arrives, and what is complete is said by frontiers, not guessed
from rates. A tombstone has no time of its own: it counts for the hour its edge had reached.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cloud_backend.dashboard.history.arrivals import HISTORY_S, SECOND_US, Arrivals
from cloud_backend.dashboard.history.edges import HOUR_US, EdgeHistory, EdgeOf, Streams, hour_of
from cloud_backend.dashboard.history.file import HistoryFile, LedgerEntry
from cloud_backend.dashboard.history.trails import Trails
from cloud_backend.log.format import RECORD_HEADER_BYTES, Record
from cloud_backend.log.index import pack_key
from cloud_backend.log.log import Log
from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.identity import EdgeKey
from shared.language.schema import Schema
from shared.wire.frame import HEADER_BYTES, Frame, FrameType, decode_one, stored_header
from shared.wire.messages import DATA_PREFIX, Data, Declare, LostRange

RECORDS_AT_ONCE = 2000  # between two of these the lock is free for a page
SAVE_EVERY_S = 20.0  # what a restart reads again at most
SAVE_EVERY_RECORDS = 200_000
BATCHES_KEPT = 100  # per edge, for browsing
RECENT_BYTES_MAX = 64 * 1024 * 1024  # read again at a start, at most; a second or two
_LOGGED = frozenset({FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER})


class BatchPlace(NamedTuple):
    """Where in the log a batch is, and what its header says."""

    offset: int
    received_us: int
    device: str
    incarnation: int
    lo: int
    hi: int
    rows: int
    bytes: int


class History:
    """Safe to share between threads. `follow` takes in what is new; readers hold `lock` while they look."""

    def __init__(self, log: Log, path: Path | None = None) -> None:
        self._log = log
        self._file = HistoryFile(path)
        self._following = threading.Lock()
        self._dirty: set[EdgeOf] = set()
        self._given_up: list[LedgerEntry] = []
        self._unsaved = 0
        self._saved_at = time.monotonic()
        self._offsets: deque[tuple[int, int]] = deque()  # (received, offset) about a minute apart
        self.lock = threading.Lock()
        self.arrivals = Arrivals()
        self.touched: set[str] = set()  # devices of which something came since somebody emptied this
        self.edges: dict[EdgeOf, EdgeHistory] = {}
        self.streams = Streams()
        self.names: dict[int, str] = {}
        self._declared: dict[bytes, tuple[str, dict[int, Schema]]] = {}
        self._before: dict[bytes, bytes] = {}  # declarations in the log when this began, by packed edge
        self._schemas: dict[EdgeOf, dict[int, Schema]] = {}  # what each device declared on each edge, by number
        self.seconds: dict[int, dict[int, int]] = {}  # by edge: second -> elements, over the last minutes
        self.recent: dict[int, deque[BatchPlace]] = {}  # by edge: its newest batches
        self.trails = Trails()
        self._position: int | None = None  # until `begin`

    @property
    def behind_bytes(self) -> int:
        """How much of the log is not taken in yet."""
        return max(self._log.durable_end - self.begin(), 0)

    def begin(self) -> int:
        """Read what was kept when this was last closed, unless that was done: a gateway's start does not wait for it.
        Returns the place in the log up to which all is taken in."""
        with self._following:
            return self._begin()

    def _begin(self) -> int:
        if self._position is None:
            with self.lock:
                self._position = self._resume()
        return self._position

    def follow(self, *, seconds_max: float | None = None) -> int:
        """Take in what the log holds now, or as much as fits the time; returns how many bytes are left."""
        deadline = None if seconds_max is None else time.monotonic() + seconds_max
        with self._following:
            self._position = self._begin()
            end = self._log.durable_end
            records = self._log.read(self._position, end)
            while chunk := list(islice(records, RECORDS_AT_ONCE)):
                with self.lock:
                    self._note_offset(chunk[0][1].received_us, chunk[0][0])
                    for offset, record in chunk:
                        self._take(offset, record)
                    offset, record = chunk[-1]
                    self._position = offset + RECORD_HEADER_BYTES + len(record.frame)
                self._unsaved += len(chunk)
                if self._unsaved >= SAVE_EVERY_RECORDS:
                    self.save()
                if deadline is not None and time.monotonic() > deadline:
                    break
            else:
                self._position = end
            if self._unsaved and time.monotonic() - self._saved_at > SAVE_EVERY_S:
                self.save()
            return end - self._position

    def ledger(self, *, edge: int | None = None, device: str = "", limit: int = 50) -> list[LedgerEntry]:
        """The newest ranges that were given up, newest first."""
        number = "" if edge is None else f"{edge:016x}"
        with self.lock:
            fresh = [
                each
                for each in reversed(self._given_up)
                if (not number or each.edge == number) and (not device or each.device == device)
            ]
        older = self._file.ledger(
            edge=number, device=device, before=fresh[-1].at if fresh else None, limit=max(limit - len(fresh), 0)
        )
        return (fresh + older)[:limit]

    def save(self) -> None:
        """Make the sums durable together with the place in the log they belong to."""
        if self._position is None:
            return
        with self.lock:
            edges = {_text(edge): self.edges[edge].to_json() for edge in self._dirty}
            trails = {device: self.trails.to_json(device) for device in self.trails.changed}
            position, given_up = self._position, list(self._given_up)
            self._dirty.clear()
            self.trails.changed.clear()
        self._file.save(position, self._offsets[0][1] if self._offsets else position, edges, trails, given_up)
        with self.lock:
            del self._given_up[: len(given_up)]
        self._unsaved, self._saved_at = 0, time.monotonic()

    def close(self) -> None:
        with self._following:
            self.save()
            self._file.close()

    # -- taking in ---------------------------------------------------------------------------------------------------

    def _resume(self) -> int:
        saved = self._file.load()
        for text, content in saved.edges.items():
            self.edges[_parsed(text)] = EdgeHistory.from_json(content)
        for device, points in saved.trails.items():
            self.trails.load(device, points)
        self._before = self._log.declarations()
        for frame in {frame[HEADER_BYTES:]: frame for frame in self._before.values()}.values():
            self._declare(frame)
        starts = self._log.segment_starts()
        position = max(saved.position or 0, starts[0])
        if position > self._log.durable_end:  # another log lies here now: its own history begins
            self.edges.clear()
            return starts[0]
        # The newest minutes are kept in memory only: read them once more, for the chart alone.
        recent = saved.recent if saved.recent is not None and saved.recent >= starts[0] else position
        if position - recent <= RECENT_BYTES_MAX:
            for offset, record in self._log.read(recent, position):
                self._take_recent(offset, record)
        return position

    def _note_offset(self, received_us: int, offset: int) -> None:
        """Remember where the last minutes begin, so that a restart can read just them."""
        if not self._offsets or received_us - self._offsets[-1][0] >= 60 * SECOND_US:
            self._offsets.append((received_us, offset))
        while len(self._offsets) > 1 and self._offsets[1][0] < received_us - HISTORY_S * SECOND_US:
            self._offsets.popleft()

    def _take(self, offset: int, record: Record) -> None:
        if not record.frame:
            return
        header = stored_header(record.frame)
        kind, frontier_us = header.kind, header.frontier_us
        if kind == FrameType.DECLARE:
            self._declare(record.frame)
        self._take_recent(offset, record)
        if kind not in _LOGGED:
            return
        device = header.source.hex()
        key = (device, header.incarnation, header.edge)
        known = self.edges.get(key)
        if known is None:
            first = record.received_us if frontier_us == NO_FRONTIER else min(frontier_us, record.received_us)
            known = self.edges[key] = EdgeHistory(first, first, record.received_us)
        known.received_us = record.received_us
        stream = self.streams.heard(key, known)
        if frontier_us != NO_FRONTIER or kind == FrameType.DATA:
            # A phone's clock may be wrong: a frontier is capped at its arrival. Without one the arrival has to do.
            reached_us = record.received_us if frontier_us == NO_FRONTIER else min(frontier_us, record.received_us)
            known.frontier_us = max(known.frontier_us, reached_us)
        self._dirty.add(key)
        self.touched.add(device)
        if kind == FrameType.FRONTIER:
            return
        known.high_water = header.hi
        reached = known.frontier_us // HOUR_US
        sums = (hour_of(known.hours, reached), hour_of(stream.hours, reached))
        if kind == FrameType.DATA:
            for hour in sums:
                hour.elements += header.elements
                hour.batches += 1
                hour.bytes += header.payload_bytes
            if self.trails.is_due(device, known.frontier_us):
                self._follow_trail(device, decode_one(record.frame)[0])
        else:
            for hour in sums:
                hour.ledgered += header.elements
            self._give_up(key, header.seq, header.hi, offset, record)

    def _take_recent(self, offset: int, record: Record) -> None:
        """What is kept of the last minutes only, and in memory only."""
        self.arrivals.take(record.received_us, record.frame)
        header = stored_header(record.frame)
        if header.kind != FrameType.DATA:
            return
        second = record.received_us // SECOND_US
        seconds = self.seconds.setdefault(header.edge, {})
        seconds[second] = seconds.get(second, 0) + header.elements
        while (first := next(iter(seconds))) < second - HISTORY_S:
            del seconds[first]
        length = header.payload_bytes
        rows = DATA_PREFIX.unpack_from(record.frame, HEADER_BYTES)[2] if length >= DATA_PREFIX.size else 0
        place = BatchPlace(
            offset, record.received_us, header.source.hex(), header.incarnation, header.seq, header.hi, rows, length
        )
        self.recent.setdefault(header.edge, deque(maxlen=BATCHES_KEPT)).append(place)

    def rate(self, edge: int, now_us: int) -> float:
        """Elements of this edge per second over the last minute."""
        last = now_us // SECOND_US
        return sum(count for second, count in self.seconds.get(edge, {}).items() if last - 60 <= second < last) / 60

    def _give_up(self, key: EdgeOf, lo: int, hi: int, offset: int, record: Record) -> None:
        try:
            reason = LostRange.of(decode_one(record.frame)[0]).reason
        except PeerError:
            reason = "unknown"
        device, incarnation, edge = key
        self._given_up.append(
            LedgerEntry(offset, record.received_us, device, incarnation, f"{edge:016x}", lo, hi, reason)
        )

    def _follow_trail(self, device: str, frame: Frame) -> None:
        try:
            data = Data.of(frame)
        except PeerError:
            return  # Spark will quarantine it and say so
        schema = self.schema_of(data)
        if schema is not None:
            self.trails.take(device, data, schema)

    def schema_of(self, data: Data) -> Schema | None:
        """What this batch's device declared for it; nobody else's word counts. None: before what is kept of the log."""
        edge = (data.device.hex(), data.incarnation, int(data.edge))
        return (self._known_schemas(edge, EdgeKey(data.device, data.incarnation, data.edge)) or {}).get(data.schema_id)

    def _known_schemas(self, edge: EdgeOf, key: EdgeKey) -> dict[int, Schema] | None:
        """What a device declared on an edge. What it had declared before this began is read when it is asked for."""
        frame = self._before.pop(pack_key(key), None)
        if frame is not None:
            self._declare(frame)
        return self._schemas.get(edge)

    def _declare(self, frame: bytes | memoryview) -> None:
        header = stored_header(frame)
        content = bytes(frame[HEADER_BYTES:])  # what a fleet declares is the same of every device: it is read once
        if content not in self._declared:
            try:
                declared = Declare.of(decode_one(frame)[0])
            except PeerError:
                return
            self._declared[content] = declared.name, {declared.schema.id: declared.schema}
        name, schemas = self._declared[content]
        self.names[header.edge] = name
        edge = (header.source.hex(), header.incarnation, header.edge)
        known = self._known_schemas(edge, EdgeKey(header.source, header.incarnation, header.edge))
        if known is None:
            self._schemas[edge] = schemas
        elif known is not schemas:
            self._schemas[edge] = known | schemas


def _text(edge: EdgeOf) -> str:
    return f"{edge[0]} {edge[1]} {edge[2]:016x}"


def _parsed(text: str) -> EdgeOf:
    device, incarnation, edge = text.split()
    return device, int(incarnation), int(edge, 16)
