"""Where a region's results end: each element once, in order, durable before it is receipted.

A sink's file is the frames it took, one after the other, as the log's segments are: each is whole or the file ends
before it. So a torn tail is what was never receipted, and is cut off when the file is opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from shared.errors import PeerError, UsageError
from shared.identity import EdgeKey
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery
from shared.spool.disk import Disk
from shared.wire import codecs
from shared.wire.frame import Frame, FrameType, decode_one
from shared.wire.messages import Data

PREFIX = "sink-"


@dataclass(frozen=True, slots=True)
class AppendToSink:
    """Append these frames to the file of this name, durably."""

    name: str
    offset: int
    data: bytes


class Sink:
    """One sink of one query on this node."""

    def __init__(self, disk: Disk, query: str, sink: str, key: EdgeKey) -> None:
        self.query = query
        self.sink = sink
        self.name = sink_file(query, sink, key.incarnation)
        self.taken = 0
        self.lost = 0
        self._end = 0
        for frame, end in read_sink(disk, self.name):
            self.taken, self._end = frame.seq + frame.count, end

    def take(self, data: bytes, lo: int, hi: int, *, lost: bool) -> AppendToSink:
        """A frame that begins at `taken`."""
        item = AppendToSink(self.name, self._end, data)
        self._end += len(data)
        self.taken = hi
        self.lost += hi - lo if lost else 0
        return item


def sink_file(query: str, sink: str, incarnation: int) -> str:
    digest = hashlib.blake2b(f"{query}/{incarnation}/{sink}".encode(), digest_size=16).hexdigest()
    return PREFIX + digest


def sink_rows(disk: Disk, query: HostedQuery, sink: str) -> tuple[list[dict[str, object]], int]:
    """Every row that a sink took, with its number and time, and how many numbers came as tombstones."""
    outputs = [output for vertex in region_vertices(query.plan) for output in vertex.fragment.outputs]
    schema = next((each.schema for each in outputs if each.kind == "subscribe" and each.name == sink), None)
    if schema is None:
        names = ", ".join(each.name for each in outputs if each.kind == "subscribe")
        raise UsageError(f"query {query.name!r} has no sink {sink!r} in its region (has: {names})", code="plan-sink")
    rows: list[dict[str, object]] = []
    lost = 0
    for frame, _ in read_sink(disk, sink_file(query.name, sink, query.incarnation)):
        if frame.type is not FrameType.DATA:
            lost += frame.count
            continue
        batch = codecs.decode_data(Data.of(frame), schema)
        columns = {"number": batch.seq, "time_us": batch.time_us, **batch.columns}
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        rows += [dict(zip(columns, row, strict=True)) for row in values]
    return rows, lost


def read_sink(disk: Disk, name: str) -> Iterator[tuple[Frame, int]]:
    """(frame, where the next one begins) of a sink's file, as far as it is whole."""
    if name not in disk.names():
        return
    file = disk.open(name)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    at = 0
    while at < len(data):
        try:
            frame, at = decode_one(data, at)
        except PeerError:
            return
        yield frame, at
