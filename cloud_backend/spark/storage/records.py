"""Record files: a vertex's recorded output of one epoch, which is also the shuffle file.

A producer writes its rows sorted by the consumer's slot (stable, so the producer's order stays within a slot). The
footer says at which row each occupied slot begins and the digest of its rows. A consumer reads the footer and then
only its own slots of each column. Two runs with equal rows have equal digests slot by slot, which is how a cascade
knows where to stop, and damage is found before a damaged row reaches an operator.

    "RSrd" version | column bytes ... | footer (JSON) | footer length u32 | footer crc u32 | "RSrd"

Fixed-width columns are the raw little-endian array. Text is uint32 offsets (rows + 1) followed by UTF-8.
Besides its columns a record has `time` (event time), `seq` (producer's numbering) and `slot` (consumer's). The footer
also carries the edge's progress of time, so that the manifest stays small with many devices.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.files import ReadAt, Unreadable
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.storage.text_columns import Coded
from shared.errors import DamagedData
from shared.language.schema import Schema

MAGIC = b"RSrd"
VERSION = 1
_HEAD = struct.Struct("<4sI")
_TAIL = struct.Struct("<II4s")
_FIXED: dict[str, np.dtype] = {"time": np.dtype("<i8"), "seq": np.dtype("<i8"), "slot": np.dtype("<u2")}
FOOTER_BYTES_MAX = 1 << 24

Stored = np.ndarray | tuple[np.ndarray, bytes]  # a column as it is written; text is (offsets, bytes)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows with their event times, numbers and places; the columns are those of `schema`, except that text columns may
    still be in `texts`."""

    schema: Schema
    columns: Mapping[str, np.ndarray]
    time_us: np.ndarray
    seq: np.ndarray
    slot: np.ndarray
    texts: Mapping[str, Coded] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, index: np.ndarray | slice) -> Rows:
        return Rows(
            self.schema,
            {name: column[index] for name, column in self.columns.items()},
            self.time_us[index],
            self.seq[index],
            self.slot[index],
            {name: column[index] for name, column in self.texts.items()},
        )

    def plain(self) -> Rows:
        """The same with every text column as an array of texts."""
        if not self.texts:
            return self
        texts = {name: column.column() for name, column in self.texts.items()}
        columns = {name: texts[name] if name in texts else self.columns[name] for name in self.schema.names}
        return replace(self, columns=columns, texts={})

    @staticmethod
    def concatenate(schema: Schema, parts: list[Rows]) -> Rows:
        """All rows one after the other; text columns of all parts are coded, or of none."""
        if len(parts) == 1:
            return parts[0]
        coded = parts[0].texts if parts else {}
        return Rows(
            schema,
            {
                name: np.concatenate([part.columns[name] for part in parts])
                for name in schema.names
                if parts and name not in coded
            },
            np.concatenate([part.time_us for part in parts]),
            np.concatenate([part.seq for part in parts]),
            np.concatenate([part.slot for part in parts]),
            {name: Coded.joined([part.texts[name] for part in parts]) for name in coded},
        )


@dataclass(frozen=True, slots=True)
class Footer:
    schema: Schema
    rows: int
    slots: tuple[int, ...]  # occupied slots, ascending
    starts: tuple[int, ...]  # the first row of each occupied slot
    digests: tuple[str, ...]  # of the rows of each occupied slot
    columns: Mapping[str, tuple[int, int]]  # name -> (offset, bytes)
    progress: Mapping[str, Any]  # how far time has come on this edge, as JSON

    def digest_of(self, range_: Range) -> str:
        """One digest over what a reader of this range gets: its rows, and the progress of time."""
        parts = [
            f"{slot}:{digest}"
            for slot, digest in zip(self.slots, self.digests, strict=True)
            if range_.lo <= slot < range_.hi
        ]
        parts.append(json.dumps(self.progress, sort_keys=True))
        return hashlib.blake2b(" ".join(parts).encode(), digest_size=12).hexdigest()

    def bounds(self, range_: Range) -> tuple[int, int]:
        """The rows [first, last) that belong to the range."""
        first = last = self.rows
        ends = (*self.starts[1:], self.rows)  # one too many when there is no row
        for slot, start, end in zip(self.slots, self.starts, ends, strict=False):
            if range_.lo <= slot < range_.hi:
                first = min(first, start)
                last = end
        return (first, last) if first < self.rows else (0, 0)


def encode(rows: Rows, progress: Mapping[str, Any] | None = None) -> tuple[bytes, Footer]:
    """The whole file, and its footer. Rows need not be sorted yet."""
    progress = progress or {}
    rows = _coded(rows)
    if len(rows) and bool((np.diff(rows.slot.astype(np.int32)) < 0).any()):
        rows = rows.take(np.argsort(rows.slot, kind="stable"))
    slots, starts = np.unique(rows.slot, return_index=True)
    stored = _stored_columns(rows)
    parts: list[bytes] = [_HEAD.pack(MAGIC, VERSION)]
    offset = _HEAD.size
    places: dict[str, tuple[int, int]] = {}
    for name, column in stored.items():
        data = column[0].tobytes() + column[1] if isinstance(column, tuple) else column.tobytes()
        places[name] = (offset, len(data))
        parts.append(data)
        offset += len(data)
    footer = Footer(
        rows.schema,
        len(rows),
        tuple(slots.tolist()),
        tuple(starts.tolist()),
        _slot_digests(stored, starts, len(rows)),
        places,
        progress,
    )
    text = json.dumps(
        {
            "schema": rows.schema.to_json(), "progress": progress, "rows": footer.rows,
            "slots": footer.slots, "starts": footer.starts,
            "digests": footer.digests, "columns": {name: list(place) for name, place in places.items()},
        },
        separators=(",", ":"),
    ).encode()  # fmt: skip
    parts += [text, _TAIL.pack(len(text), zlib.crc32(text), MAGIC)]
    return b"".join(parts), footer


def read_footer(store: Store, name: str) -> Footer:
    """The footer alone; DamagedData when the file is missing, torn or not a record."""
    with _opened(store, name) as (read, size):
        return _footer(read, size, name)


def read_slice(store: Store, name: str, range_: Range) -> tuple[Rows, Footer, int]:
    """The rows of a range, checked against their digests, the footer, and how many bytes were read. Text columns are
    coded."""
    with _opened(store, name) as (read, size):
        return _slice(read, size, name, range_)


@contextmanager
def _opened(store: Store, name: str) -> Iterator[tuple[ReadAt, int]]:
    try:
        with store.opened_file(name) as opened:
            yield opened
    except FileNotFoundError:
        raise DamagedData(f"record {name} is gone; its producer must run again", code="record-missing") from None
    except Unreadable:
        raise DamagedData(f"record {name} cannot be read; its producer must run again", code="record-digest") from None


def _slice(read: ReadAt, size: int, name: str, range_: Range) -> tuple[Rows, Footer, int]:
    footer = _footer(read, size, name)
    first, last = footer.bounds(range_)
    stored, fixed, taken = _stored_slice(read, name, footer, first, last)
    slots, starts = np.unique(fixed["slot"], return_index=True)
    found = dict(zip(slots.tolist(), _slot_digests(stored | fixed, starts, last - first), strict=True))
    named = {
        slot: digest for slot, digest in zip(footer.slots, footer.digests, strict=True) if range_.lo <= slot < range_.hi
    }
    if found != named:
        raise DamagedData(f"rows of record {name} fail their digest", code="record-digest")
    return _rows(stored, fixed, footer.schema, name), footer, taken


def _slot_digests(stored: Mapping[str, Stored], starts: np.ndarray, rows: int) -> tuple[str, ...]:
    """A digest per run of rows. `seq` says how the producer numbered, not what a row says: it is left out, so a second
    run on other ranges has the same digests."""
    hashes = [hashlib.blake2b(digest_size=8) for _ in starts]
    bounds = list(zip(starts.tolist(), [*starts.tolist()[1:], rows], strict=True)) if len(starts) else []
    for name, column in stored.items():
        if name == "seq":
            continue
        if isinstance(column, tuple):
            offsets, text = column
            lengths = memoryview(np.diff(offsets.astype(np.int64)).astype("<u4").tobytes())
            view = memoryview(text)
            for each, (start, end) in zip(hashes, bounds, strict=True):
                each.update(lengths[4 * start : 4 * end])
                each.update(view[int(offsets[start]) : int(offsets[end])])
        else:
            view, width = memoryview(column.tobytes()), column.itemsize
            for each, (start, end) in zip(hashes, bounds, strict=True):
                each.update(view[width * start : width * end])
    return tuple(each.hexdigest() for each in hashes)


def _footer(read: ReadAt, size: int, name: str) -> Footer:
    tail = read(_TAIL.size, max(size - _TAIL.size, 0))
    if len(tail) < _TAIL.size:
        raise DamagedData(f"record {name} has {size} bytes, too few for a footer", code="record-torn")
    length, checksum, magic = _TAIL.unpack(tail)
    if magic != MAGIC or length > FOOTER_BYTES_MAX or length + _TAIL.size + _HEAD.size > size:
        raise DamagedData(f"record {name} does not end with a footer", code="record-torn")
    text = read(length, size - _TAIL.size - length)
    if zlib.crc32(text) != checksum:
        raise DamagedData(f"footer of record {name} fails its checksum", code="record-torn")
    value = json.loads(text)
    return Footer(
        Schema.from_json(value["schema"]),
        value["rows"],
        tuple(value["slots"]),
        tuple(value["starts"]),
        tuple(value["digests"]),
        {name: (place[0], place[1]) for name, place in value["columns"].items()},
        value["progress"],
    )


def _stored_slice(
    read: ReadAt, name: str, footer: Footer, first: int, last: int
) -> tuple[dict[str, Stored], dict[str, np.ndarray], int]:
    """The columns of rows [first, last) as they are written, what every record has beside them, and how many bytes that
    were."""
    taken = 0

    def piece(column: str, start: int, length: int) -> bytes:
        nonlocal taken
        data = read(length, footer.columns[column][0] + start)
        if len(data) != length:
            raise DamagedData(f"column {column!r} of record {name} ends early", code="record-torn")
        taken += length
        return data

    def fixed(column: str, dtype: np.dtype) -> np.ndarray:
        return np.frombuffer(piece(column, dtype.itemsize * first, dtype.itemsize * (last - first)), dtype)

    def text(column: str) -> tuple[np.ndarray, bytes]:
        offsets = np.frombuffer(piece(column, 4 * first, 4 * (last - first + 1)), "<u4").astype(np.int64)
        size = footer.columns[column][1] - 4 * (footer.rows + 1)
        if int(offsets[-1]) > size or bool((np.diff(offsets) < 0).any()):
            raise DamagedData(f"text of column {column!r} of record {name} has no order", code="record-digest")
        base = int(offsets[0])
        return offsets - base, piece(column, 4 * (footer.rows + 1) + base, int(offsets[-1]) - base)

    stored: dict[str, Stored] = {
        "c." + each.name: text("c." + each.name) if each.kind == "str" else fixed("c." + each.name, _dtype(each.kind))
        for each in footer.schema
    }
    beside = {column: fixed(column, dtype) for column, dtype in _FIXED.items()}
    return stored, beside, taken


def _rows(stored: Mapping[str, Stored], fixed: Mapping[str, np.ndarray], schema: Schema, name: str) -> Rows:
    columns: dict[str, np.ndarray] = {}
    texts: dict[str, Coded] = {}
    for column in schema.names:
        found = stored["c." + column]
        if isinstance(found, np.ndarray):
            columns[column] = found
            continue
        try:
            texts[column] = Coded.decode(*found)
        except ValueError:
            raise DamagedData(f"column {column!r} of record {name} is not text", code="record-digest") from None
    return Rows(schema, columns, fixed["time"], fixed["seq"], fixed["slot"], texts)


def _coded(rows: Rows) -> Rows:
    """The same with every text column coded."""
    texts = {
        each.name: rows.texts[each.name] if each.name in rows.texts else Coded.of(rows.columns[each.name])
        for each in rows.schema
        if each.kind == "str"
    }
    return replace(
        rows, columns={name: column for name, column in rows.columns.items() if name not in texts}, texts=texts
    )


def _stored_columns(rows: Rows) -> dict[str, Stored]:
    stored: dict[str, Stored] = {}
    for each in rows.schema:
        if each.kind == "str":
            stored["c." + each.name] = rows.texts[each.name].encode()
        else:
            stored["c." + each.name] = np.ascontiguousarray(rows.columns[each.name], _dtype(each.kind))
    stored["time"] = np.ascontiguousarray(rows.time_us, _FIXED["time"])
    stored["seq"] = np.ascontiguousarray(rows.seq, _FIXED["seq"])
    stored["slot"] = np.ascontiguousarray(rows.slot, _FIXED["slot"])
    return stored


def _dtype(kind: str) -> np.dtype:
    return np.dtype(kind).newbyteorder("<")
