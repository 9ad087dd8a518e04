"""Payloads in the data area: read one, or check many."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from shared.spool.disk import File
from shared.spool.entry import DataEntry
from shared.spool.segment import UNIT_BYTES, Superblock


def read_payload(file: File, block: Superblock, entry: DataEntry) -> bytes | None:
    """The stored payload, or None when it fails its checksum."""
    left = entry.payload_bytes
    parts: list[bytes] = []
    for first, units in entry.extents:
        parts.append(file.read(block.data_start + first * UNIT_BYTES, min(left, units * UNIT_BYTES)))
        left -= units * UNIT_BYTES
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    whole = len(payload) == entry.payload_bytes and zlib.crc32(payload) == entry.checksum
    return payload if whole else None


def damaged(file: File, block: Superblock, entries: Sequence[DataEntry]) -> list[DataEntry]:
    """Those whose stored payload fails its checksum."""
    start = block.data_start
    whole = [entry for entry in entries if len(entry.extents) == 1]
    chained = [entry for entry in entries if len(entry.extents) != 1]
    pieces = [(start + entry.extents[0][0] * UNIT_BYTES, entry.payload_bytes) for entry in whole]
    suspects = [e for e, checksum in zip(whole, file.checksums(pieces), strict=True) if checksum != e.checksum]
    # Looked at once more: a read that was cut short is no damage, and what is given up is gone.
    return [entry for entry in suspects + chained if read_payload(file, block, entry) is None]
