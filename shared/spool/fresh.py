"""Payloads of batches that were appended a short while ago, as they came: what is sent soon is not read back, checked
and decrypted. What the disk holds is the same; only a spool that was opened again has nothing here."""

from __future__ import annotations

from collections.abc import Iterable

from shared.spool.entry import Extent


class Fresh:
    """By the first unit of where a payload lies, until those units are free again."""

    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._payloads: dict[int, bytes] = {}

    def add(self, extents: tuple[Extent, ...], payload: bytes) -> None:
        """Keep a payload while there is room. The oldest are sent first, so the newest has to do without."""
        if payload and len(payload) <= self._room:
            self._room -= len(payload)
            self._payloads[extents[0][0]] = payload

    def get(self, extents: tuple[Extent, ...]) -> bytes | None:
        return self._payloads.get(extents[0][0]) if extents else None

    def forget(self, freed: Iterable[Extent]) -> None:
        """What lay there was delivered or given up."""
        for first, _ in freed:
            self._room += len(self._payloads.pop(first, b""))
