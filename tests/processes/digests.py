"""What was sent and what the log holds, each as one digest over all batches: equal, or something is not as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from cloud_backend.log.reader import Reader
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data

Row = tuple[bytes, int, int, bytes]  # device, lo, hi, columns


def digest_of(rows: Iterable[Row]) -> tuple[int, str]:
    """(elements, digest) of batches in whatever order; one that is there twice counts twice."""
    total, digest = 0, hashlib.sha256()
    for device, lo, hi, columns in sorted(rows):
        total += hi - lo
        digest.update(b"%b %d %d %d " % (device, lo, hi, len(columns)) + columns)
    return total, digest.hexdigest()[:16]


def logged(directory: Path) -> tuple[int, str]:
    """(elements, digest) of every batch in a log that nobody writes to."""
    reader = Reader(directory)
    frames = (decode_one(record.frame)[0] for _, record in reader.read(reader.start, reader.valid_end()))
    batches = (Data.of(frame) for frame in frames if frame.type is FrameType.DATA)
    return digest_of((batch.device, batch.lo, batch.hi, bytes(batch.columns)) for batch in batches)


def sent(devices: Iterable[bytes], elements: int, batch: int, columns: bytes) -> tuple[int, str]:
    """(elements, digest) of what each of these devices was to send: batch after batch of the same columns."""
    return digest_of(
        (device, lo, min(lo + batch, elements), columns) for device in devices for lo in range(0, elements, batch)
    )
