"""Copies of what comes into a region, on every node of it, until the next cut through the region is complete.

A region that goes back to a cut reads again what came since. Each of its nodes has that on its own disk: whoever sent
it may be gone, and so may any of the others. A copy counts as taken, and is receipted, only once it is durable. What
reads the edge on this node reads the copy.

A copy is frames, one after the other, in files: one for each mark of a cut and what came behind it. When a cut is
complete, the files before its mark go. Nothing goes at the mark: until all have their part of the cut, the region goes
back to the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from shared.batch import NO_FRONTIER
from shared.hosting.keeper import ForgetSnapshot
from shared.hosting.sink import AppendToSink, read_sink
from shared.hosting.wiring import CopySpec
from shared.spool.disk import Disk
from shared.wire.frame import Frame, FrameType

PREFIX = "copy-"
COPY_BYTES_MAX = 64 << 20  # beyond it nothing more is taken before a cut is complete


class Copy:
    """Of one edge, as its origin numbers it."""

    def __init__(self, spec: CopySpec, disk: Disk) -> None:
        self.spec = spec
        self._name = name_of(spec)
        self._frames: dict[int, list[Frame]] = {}  # by the cut whose mark they stand behind
        self._ends: dict[int, int] = {}  # bytes of each file
        self.taken = 0
        self.frontier_us = NO_FRONTIER
        self.bytes = 0
        self._complete = 0
        for name in sorted(disk.names()):
            if name.startswith(self._name):
                self._read(disk, name)
        if not self._frames:
            self._frames[0], self._ends[0] = [], 0

    def _read(self, disk: Disk, name: str) -> None:
        cut = int(name.rpartition("-")[2], 16)
        frames, self._ends[cut] = self._frames.setdefault(cut, []), 0
        for frame, end in read_sink(disk, name):
            frames.append(frame)
            self.bytes += end - self._ends[cut]
            self._ends[cut] = end
            if frame.type is not FrameType.MARK:
                self.taken = frame.seq + frame.count

    @property
    def newest_cut(self) -> int:
        return max(self._frames)

    @property
    def full(self) -> bool:
        return self.bytes > COPY_BYTES_MAX

    def take(self, frame: Frame, data: bytes) -> AppendToSink:
        """The next batch or tombstone: `data` is the frame's bytes. It begins at `taken`."""
        self.taken = frame.seq + frame.count
        return self._append(frame, data)

    def mark(self, cut: int, frame: Frame, data: bytes) -> list[AppendToSink | ForgetSnapshot]:
        """The mark of a cut, in its place. One that came before changes nothing."""
        if cut <= self.newest_cut:
            return []
        self._frames[cut], self._ends[cut] = [], 0
        return [self._append(frame, data), *self.collect(self._complete)]

    def _append(self, frame: Frame, data: bytes) -> AppendToSink:
        cut = self.newest_cut
        item = AppendToSink(file_of(self._name, cut), self._ends[cut], data)
        self._frames[cut].append(frame)
        self._ends[cut] += len(data)
        self.bytes += len(data)
        return item

    def collect(self, complete: int) -> list[ForgetSnapshot]:
        """This cut is complete: what stands before its mark is not read again. Where the mark has not come yet, it is
        kept until then."""
        self._complete = max(self._complete, complete)
        marks = [cut for cut in self._frames if cut <= self._complete]
        gone = [cut for cut in marks if cut < max(marks)]
        for cut in gone:
            self.bytes -= self._ends.pop(cut)
            del self._frames[cut]
        return [ForgetSnapshot(file_of(self._name, cut)) for cut in gone]

    def frames(self) -> Iterator[Frame]:
        """All that is here, in order."""
        for cut in sorted(self._frames):
            yield from list(self._frames[cut])

    def next_frame(self, at: tuple[int, int]) -> tuple[Frame, tuple[int, int]] | None:
        """The frame at a place and the place behind it; None at the end. (0, 0) is before the first."""
        cut, index = at
        for each in sorted(self._frames):
            start = index if each == cut else 0
            if each >= cut and start < len(self._frames[each]):
                return self._frames[each][start], (each, start + 1)
        return None

    @property
    def last(self) -> tuple[int, int]:
        """The place of the newest frame."""
        return self.newest_cut, max(0, len(self._frames[self.newest_cut]) - 1)

    @property
    def first(self) -> int:
        """The first number that is here."""
        found = (frame.seq for frame in self.frames() if frame.type is not FrameType.MARK)
        return next(found, self.taken)


def name_of(spec: CopySpec) -> str:
    identity = f"{spec.query}/{spec.incarnation}/{spec.edge.label}/{spec.edge.key.incarnation}"
    return f"{PREFIX}{hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()}"


def file_of(name: str, cut: int) -> str:
    return f"{name}-{cut:016x}"


def strangers(disk: Disk, kept: set[str]) -> list[ForgetSnapshot]:
    """The files of copies that are none of these."""
    names = [name for name in disk.names() if name.startswith(PREFIX)]
    return [ForgetSnapshot(name) for name in names if name.rpartition("-")[0] not in kept]
