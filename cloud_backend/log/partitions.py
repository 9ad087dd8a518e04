"""A log as jobs know it: partitions, each with offsets of its own, opened by its location in any process.

A place in such a log is a vector, one offset for each partition. The log that a gateway keeps on its disk is one
partition, whose offsets are bytes; one in Kafka has several, whose offsets are Kafka's. A device's batches are all in
one partition, so each edge is in order; between partitions there is no order, and whoever needs one takes them in turn
(`in_turn`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cloud_backend.log.format import Record
from cloud_backend.log.reader import Reader

Place = Mapping[str, int]  # partition -> offset; its number as text, as JSON has it
ONLY = "0"  # the partition that a log on a gateway's disk is
SLOTS = 1024  # as `spark.slots`
_WORD = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15


class LogReader(Protocol):
    """Reads only what cannot vanish any more."""

    def starts(self) -> dict[str, int]:
        """The first offset of each partition that is still kept."""

    def ends(self) -> dict[str, int]:
        """Where each partition ends now: what lies before stays what it is."""

    def read(self, partition: str, start: int, end: int) -> Iterator[tuple[int, Record]]:
        """Records in [start, end), with their offsets; ask only up to an end that was named."""

    def bounded(self, starts: Place, ends: Place, bytes_max: int) -> dict[str, int]:
        """An end not after `ends` such that about `bytes_max` lie between; behind `starts` wherever `ends` is."""

    def size(self, starts: Place, ends: Place) -> int:
        """About how many bytes lie between two places."""

    def pieces(self, partition: str, start: int, end: int) -> list[tuple[int, int]]:
        """[start, end) of a partition cut into parts that are read on their own."""

    def declared_now(self, partition: str, before: int) -> Iterator[bytes]:
        """The DECLARE frames of a partition's edges: those that counted at an offset, or newer ones."""

    def declared_before(self, partition: str, before: int) -> Iterator[bytes]:
        """Those too that were replaced since and that records before an offset still say. May read much."""


class OnePartition:
    """The log in a directory, which one gateway writes."""

    def __init__(self, directory: Path | str) -> None:
        self._reader = Reader(Path(directory))

    def starts(self) -> dict[str, int]:
        return {ONLY: self._reader.start}

    def ends(self) -> dict[str, int]:
        return {ONLY: self._reader.valid_end()}

    def read(self, partition: str, start: int, end: int) -> Iterator[tuple[int, Record]]:  # noqa: ARG002 - the only one
        return self._reader.read(start, end)

    def bounded(self, starts: Place, ends: Place, bytes_max: int) -> dict[str, int]:
        start, end = starts[ONLY], ends[ONLY]
        if end - start <= bytes_max:
            return {ONLY: end}
        return {ONLY: next((at for at, _ in self._reader.read(start, end) if at - start >= bytes_max), end)}

    def size(self, starts: Place, ends: Place) -> int:
        return distance(starts, ends)

    def pieces(self, partition: str, start: int, end: int) -> list[tuple[int, int]]:  # noqa: ARG002 - the only one
        return self._reader.pieces(start, end)

    def declared_now(self, partition: str, before: int) -> Iterator[bytes]:  # noqa: ARG002 - the only one
        return self._reader.declared_before(before)

    def declared_before(self, partition: str, before: int) -> Iterator[bytes]:  # noqa: ARG002 - the only one
        return self._reader.declared_before(before)


def open_log(location: Path | str) -> LogReader:
    """The log at a location, in whatever process this is: a directory, or `kafka://...`."""
    if str(location).startswith("kafka:"):
        from cloud_backend.log.kafka.reader import KafkaReader

        return KafkaReader(str(location))
    return OnePartition(location)


def numbered(place: Mapping[str, object]) -> list[str]:
    """The partitions of a place, in the order of their numbers."""
    return sorted((each for each in place if each.isdigit()), key=int)


def distance(starts: Place, ends: Place) -> int:
    """How far it is from one place to another, over all partitions. In the unit of their offsets."""
    return sum(end - starts[partition] for partition, end in ends.items())


def lowest(places: Iterable[Place]) -> dict[str, int]:
    """The place before which none of these lies."""
    found: dict[str, int] = {}
    for place in places:
        for partition, offset in place.items():
            found[partition] = min(offset, found.get(partition, offset))
    return {partition: found[partition] for partition in numbered(found)}


def place_in(value: object) -> dict[str, int]:
    """The place that a file says, a number where there is but one partition; empty where it says none."""
    found: dict[str, object] = value if isinstance(value, dict) else {ONLY: value}
    return {each: at for each in numbered(found) if isinstance(at := found[each], int) and not isinstance(at, bool)}


def device_slot(device: bytes) -> int:
    """Which of the 1024 slots a device is in. As Spark's tasks divide devices (`spark.slots.slot_of_text`), in plain
    integers: who writes the log needs no numpy for one device at a time."""
    hashed = 0xCBF29CE484222325
    for letter in device.hex().encode():
        hashed = (hashed ^ letter) * 0x100000001B3 & _WORD
    return _mix(_mix(hashed) + _GOLDEN & _WORD) >> 54


def _mix(value: int) -> int:
    value = value + _GOLDEN & _WORD
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _WORD
    return value ^ value >> 31


def partition_of(device: bytes, partitions: int) -> str:
    """The partition that holds a device's batches, of so many: neighbouring slots are together, so that a hash range
    reads few partitions."""
    return str(device_slot(device) * partitions // SLOTS)


def in_turn(ordinal: int, partition: str, partitions: int) -> int:
    """The number of a partition's n-th record among those of all partitions, taken in turn: the same whichever
    partitions a task reads."""
    return ordinal * partitions + int(partition)
