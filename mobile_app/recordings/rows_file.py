"""A recording's rows on disk: the same frames that travel and that the log keeps, one after the other, sealed.

    record  = length u32, crc32 u32 of the stored bytes, stored bytes
    stored  = the frame (DECLARE of a sensor's schema, or DATA), sealed if the home has a key

Records are only ever added, and a group of them is followed by one sync; so a crash leaves a whole prefix, found again
by the checksums, and what comes after it is cut off before anything is added. Sequence numbers count each sensor's
readings from 0. `docs/formats.md` has the frames' byte tables.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np

from mobile_app.sensors.source import Samples, shaped
from shared.batch import Batch
from shared.errors import DamagedData, PeerError
from shared.identity import DeviceId, EdgeId, edge_id
from shared.language.schema import Schema
from shared.spool.cipher import Cipher
from shared.spool.disk import Disk, File
from shared.wire import codecs, columns
from shared.wire.frame import PAYLOAD_BYTES_MAX, Frame, FrameType, decode_one
from shared.wire.frame import encode as encode_frame
from shared.wire.messages import Data, Declare

ROWS_FILE = "rows"
ASSOCIATED = b"recording"  # a sealed batch of the spool is not taken for a record
PREFIX = struct.Struct("<II")
RECORD_BYTES_MAX = PAYLOAD_BYTES_MAX + 4096
ROWS_PER_FRAME = 50_000
KINDS = {"f": "float64", "i": "int64", "u": "int64", "b": "bool"}


class RecordingWriter:
    """Adds rows to a recording, new or interrupted. `flush` returns when everything added is durable."""

    def __init__(self, disk: Disk, device: DeviceId, cipher: Cipher | None) -> None:
        self._device = device
        self._cipher = cipher
        self._waiting: dict[str, list[Samples]] = {}
        self._schemas: dict[str, Schema] = {}
        self._caches: dict[str, columns.Cache] = {}
        self.rows: dict[str, int] = {}
        self._file = disk.open(ROWS_FILE, create=True)
        try:
            end = 0
            for end, frame in _frames(self._file, cipher):  # noqa: B007 - the last one counts
                if frame.type is FrameType.DECLARE:
                    declared = Declare.of(frame)
                    self._schemas[declared.name] = declared.schema
                elif frame.type is FrameType.DATA:
                    data = Data.of(frame)
                    self.rows[_name(self._schemas, data.edge)] = data.hi
            self._file.truncate(end)
            self._file.sync()
            disk.sync()
        except BaseException:
            self._file.close()
            raise
        self.bytes = end

    def add(self, sensor: str, samples: Samples) -> None:
        if len(samples):
            self._waiting.setdefault(sensor, []).append(samples)

    @property
    def holds(self) -> bool:
        return bool(self._waiting)

    def counts(self) -> dict[str, int]:
        """Rows by sensor, durable or held."""
        waiting = {sensor: sum(map(len, chunks)) for sensor, chunks in self._waiting.items()}
        return {sensor: self.rows.get(sensor, 0) + waiting.get(sensor, 0) for sensor in {**self.rows, **waiting}}

    def flush(self) -> None:
        """Write what was added. After an OSError nothing of it counts; it is written again with the next flush."""
        parts: list[bytes] = []
        rows = dict(self.rows)
        for sensor, chunks in self._waiting.items():
            parts += self._encode(sensor, chunks, rows)
        data = b"".join(parts)
        if data:
            try:
                self._file.write(self.bytes, data)
                self._file.sync()
            except OSError:
                self._file.truncate(self.bytes)  # shortening needs no room; the prefix stays whole
                raise
            self.bytes += len(data)
        self.rows = rows
        self._waiting.clear()

    def _encode(self, sensor: str, chunks: list[Samples], rows: dict[str, int]) -> Iterator[bytes]:
        schema = self._schemas.get(sensor)
        if schema is None:
            schema = self._schemas[sensor] = schema_of(chunks[0])
        lo = rows.get(sensor, 0)
        if lo == 0:  # also after a flush that failed
            yield self._record(encode_frame(Declare(self._device, 1, edge_id(sensor), sensor, schema).frame()))
        whole = Batch.joined([shaped(chunk, schema) for chunk in chunks])
        for start in range(0, len(whole), ROWS_PER_FRAME):
            part = slice(start, start + ROWS_PER_FRAME)
            values = {name: column[part] for name, column in whole.columns.items()}
            batch = Batch.of(schema, values, whole.time_us[part], lo=lo)
            codec, payload = columns.encode(batch, cache=self._caches.setdefault(sensor, columns.Cache()))
            data = Data(self._device, 1, edge_id(sensor), lo, batch.hi, len(batch), schema.id, 0, codec, payload)
            yield self._record(encode_frame(data.frame()))
            lo = batch.hi
        rows[sensor] = lo

    def _record(self, frame: bytes) -> bytes:
        stored = frame if self._cipher is None else self._cipher.seal(frame, ASSOCIATED)
        return PREFIX.pack(len(stored), zlib.crc32(stored)) + stored

    def close(self) -> None:
        self._file.close()


def read_rows(disk: Disk, cipher: Cipher | None) -> Iterator[tuple[str, Batch]]:
    """(sensor, batch) of everything whole, in the order it was written."""
    file = disk.open(ROWS_FILE)
    try:
        schemas: dict[str, Schema] = {}
        for _, frame in _frames(file, cipher):
            if frame.type is FrameType.DECLARE:
                declared = Declare.of(frame)
                schemas[declared.name] = declared.schema
            elif frame.type is FrameType.DATA:
                data = Data.of(frame)
                sensor = _name(schemas, data.edge)
                yield sensor, codecs.decode_data(data, schemas[sensor])
    finally:
        file.close()


def schema_of(samples: Samples) -> Schema:
    """The columns that a source really gives."""
    kinds = {name: KINDS.get(np.asarray(column).dtype.kind, "str") for name, column in samples.columns.items()}
    return Schema.of(kinds)


def _name(schemas: dict[str, Schema], edge: EdgeId) -> str:
    for name in schemas:
        if edge_id(name) == edge:
            return name
    raise DamagedData("rows of a recording without their declaration", code="recording-damaged")


def _frames(file: File, cipher: Cipher | None) -> Iterator[tuple[int, Frame]]:
    """(offset after it, frame) of the whole prefix."""
    offset = 0
    while len(prefix := file.read(offset, PREFIX.size)) == PREFIX.size:
        length, checksum = PREFIX.unpack(prefix)
        if length > RECORD_BYTES_MAX:
            return
        stored = file.read(offset + PREFIX.size, length)
        if len(stored) != length or zlib.crc32(stored) != checksum:
            return
        try:
            frame = decode_one(stored if cipher is None else cipher.open(stored, ASSOCIATED))[0]
        except (DamagedData, PeerError):
            return
        offset += PREFIX.size + length
        yield offset, frame
