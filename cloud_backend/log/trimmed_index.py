"""What is left of trimmed segments: how far each edge had come when they were removed.

A segment opens with the entries of the index that changed in the segment before it, not with all of them: a phone that
is silent for weeks costs a new segment nothing. So the index at a segment's base is the sum of all changes before it.
When segments are trimmed their changes go into a file `END.marks`, durable before the first of them is removed. Such a
file covers offsets [start, end): the changes of everything that was ever logged there. The next file continues where
the one before ends, and several are merged into one whenever the later of two has grown to half the size of the
earlier: each entry is then written a few times in its life, however many devices there are.

    [0 ........................ 40 GB) [40 GB ... 52 GB) [52 GB . 53 GB)   segments from 53 GB on
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from cloud_backend.log.format import offset_in_name, offset_name
from cloud_backend.log.index import Index
from shared.errors import DamagedData
from shared.spool.disk import Disk

MAGIC = b"RSMK"
VERSION = 1
HEADER = struct.Struct("<4sHHQQI")  # magic, version, 0, start, end, bytes of entries
CHECKSUM = struct.Struct("<I")
_SUFFIX = ".marks"


@dataclass(frozen=True, slots=True)
class TrimmedIndex:
    start: int
    end: int
    entries: bytes


def trimmed_index_name(end: int) -> str:
    return offset_name(end, _SUFFIX)


def trimmed_index_end(name: str) -> int | None:
    """The end in such a file's name, None for any other file."""
    return offset_in_name(name, _SUFFIX)


def encode_trimmed_index(part: TrimmedIndex) -> bytes:
    body = HEADER.pack(MAGIC, VERSION, 0, part.start, part.end, len(part.entries)) + part.entries
    return body + CHECKSUM.pack(zlib.crc32(body))


def decode_trimmed_index(data: bytes, name: str) -> TrimmedIndex:
    """Raises DamagedData unless it is whole."""
    if len(data) >= HEADER.size + CHECKSUM.size:
        magic, version, reserved, start, end, size = HEADER.unpack_from(data)
        whole = len(data) == HEADER.size + size + CHECKSUM.size
        if magic == MAGIC and not reserved and whole and trimmed_index_name(end) == name and start < end:
            body = len(data) - CHECKSUM.size
            if CHECKSUM.unpack_from(data, body)[0] == zlib.crc32(data[:body]):
                if version != VERSION:
                    raise DamagedData(
                        f"{name} has format {version}; this program reads {VERSION}, use the one that wrote it",
                        code="log-segment-version",
                    )
                return TrimmedIndex(start, end, data[HEADER.size : body])
    raise DamagedData(
        f"{name} is damaged: it says how far the devices had come whose records were trimmed; restore it from a copy "
        "with resurge log verify --repair",
        code="log-marks",
    )


def read_trimmed_index(disk: Disk) -> list[TrimmedIndex]:
    """The files that count, oldest first; empty while nothing was trimmed. One that a merge replaced is left out."""
    files = {end: name for name in disk.names() if (end := trimmed_index_end(name)) is not None}
    found: list[TrimmedIndex] = []
    end = max(files, default=0)
    while end:
        if end not in files:
            raise DamagedData(
                f"the log's marks start at offset {end}, what was before is missing; restore "
                f"{trimmed_index_name(end)} from a copy with resurge log verify --repair",
                code="log-marks",
            )
        file = disk.open(files[end])
        try:
            found.append(decode_trimmed_index(file.read(0, file.size()), files[end]))
        finally:
            file.close()
        end = found[-1].start
    return found[::-1]


def add_trimmed_index(disk: Disk, part: TrimmedIndex) -> None:
    """Put one behind those that are there, or, if it starts at 0, in their place; merge what has grown together."""
    chain = [*(read_trimmed_index(disk) if part.start else ()), part]
    while len(chain) > 1 and 2 * len(chain[-1].entries) >= len(chain[-2].entries):
        later, earlier = chain.pop(), chain.pop()
        merged = Index.decode(earlier.entries)
        merged.add_entries(later.entries)
        chain.append(TrimmedIndex(earlier.start, later.end, merged.encode()))
    disk.replace(trimmed_index_name(part.end), encode_trimmed_index(chain[-1]))
    kept = {file.end for file in chain}
    for name in disk.names():
        end = trimmed_index_end(name)
        if end is not None and end not in kept:
            disk.remove(name)
    disk.sync()
