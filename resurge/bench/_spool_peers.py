"""What one would write instead of the spool: SQLite, LMDB, a bare preallocated ring, and the paper's move-up buffer."""

from __future__ import annotations

import mmap
import os
import sqlite3
import struct
import zlib
from collections import deque
from pathlib import Path

import lmdb

from shared.identity import DeviceId, EdgeId
from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool

RING_BYTES = 256 << 20


class OurSpool:
    """The spool as the node uses it; `sync` after each batch or not at all."""

    def __init__(self, path: Path, *, capacity: int = RING_BYTES, sync: bool = False) -> None:
        path.mkdir(parents=True, exist_ok=True)
        disk = PosixDisk(path)
        if (path / "spool.index").exists():
            self.spool = Spool.open(disk)
        else:
            self.spool = Spool.create(
                disk,
                capacity_bytes=capacity,
                device=DeviceId(bytes(16)),
                incarnation=1,
                evict=Evict.QUERY_AWARE,
            )
        self._sync = sync

    def put(self, query: int, payload: bytes) -> None:
        edge = EdgeId(query)
        lo = self.spool.head(edge)
        self.spool.append(SpooledBatch(edge, lo, lo + 1, 1, 0, 0, 0, 1, payload))
        if self._sync:
            self.spool.sync()

    def read_all(self) -> int:
        batches = [e for edge in self.spool.edges() for e in self.spool.pending(edge) if isinstance(e, DataEntry)]
        return len([entry for entry in batches if self.spool.read(entry)])

    def verify_all(self) -> int:
        return self.spool.verify()

    def kept_bytes(self) -> int:
        return sum(
            entry.payload_bytes
            for contents in self.spool._contents.edges.values()
            for entry in contents.entries(contents.delivered)
            if isinstance(entry, DataEntry)
        )

    def reset(self) -> None:
        """Empty again, as after receipts for everything; the file stays preallocated as the bare ring's does."""
        self.spool.sync()
        for edge in self.spool.edges():
            self.spool.trim(edge, self.spool.head(edge))
        self.spool.sync()

    def close(self) -> None:
        self.spool._file.close()


class SqliteQueue:
    def __init__(self, path: Path, *, mode: str = "NORMAL", capacity: int | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path / "queue.db", isolation_level=None)
        self._connection.execute("pragma journal_mode=WAL")
        self._connection.execute(f"pragma synchronous={mode}")
        self._connection.execute("create table if not exists q(id integer primary key, query int, n int, payload blob)")
        self._connection.execute("create index if not exists by_query on q(query, id)")
        self._capacity = capacity
        self._used = 0
        self.evicted = 0

    def put(self, query: int, payload: bytes) -> None:
        run = self._connection.execute
        if self._capacity is None:
            run("insert into q(query, n, payload) values(?, ?, ?)", (query, len(payload), payload))
            return
        run("begin")
        while self._capacity - self._used < len(payload):
            row = (
                run("select id, n from q where query=? order by id limit 1", (query,)).fetchone()
                or run(
                    "select id, n from q where query="
                    "(select query from q group by query order by count(*) desc limit 1)"
                    " order by id limit 1"
                ).fetchone()
            )
            run("delete from q where id=?", (row[0],))
            self._used -= row[1]
            self.evicted += row[1]
        run("insert into q(query, n, payload) values(?, ?, ?)", (query, len(payload), payload))
        self._used += len(payload)
        run("commit")

    def read_all(self) -> int:
        return sum(1 for _ in self._connection.execute("select payload from q order by id"))

    def close(self) -> None:
        self._connection.close()


class LmdbQueue:
    def __init__(self, path: Path, *, sync: bool) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._environment = lmdb.open(str(path), map_size=2 << 30, sync=sync, metasync=sync, writemap=not sync)
        self._next = 0

    def put(self, query: int, payload: bytes) -> None:
        with self._environment.begin(write=True) as transaction:
            transaction.put(struct.pack(">QQ", self._next, query), payload, append=True)
        self._next += 1

    def close(self) -> None:
        self._environment.close()


class BareRing:
    """The limit: one write of header and payload into a preallocated file, checksummed; forgets what it overwrites."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        path.mkdir(parents=True, exist_ok=True)
        new = not (path / "ring").exists()
        self._file = os.open(path / "ring", os.O_RDWR | os.O_CREAT)
        if new:
            for offset in range(0, RING_BYTES, 1 << 20):
                os.pwrite(self._file, bytes(1 << 20), offset)
            os.fsync(self._file)
        self._at = self._next = 0
        self._sync = sync

    def put(self, query: int, payload: bytes) -> None:
        if self._at + 24 + len(payload) > RING_BYTES:
            self._at = 0
        header = struct.pack("<QQII", self._next, query, len(payload), zlib.crc32(payload))
        os.pwritev(self._file, [header, payload], self._at)
        self._at += 24 + len(payload)
        self._next += 1
        if self._sync:
            os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


class MoveUpBuffer:
    """The paper's Algorithm 1 as printed: one mapped buffer, subsequent batches moved up after each removal."""

    def __init__(self, path: Path, *, capacity: int) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path / "buffer", os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, capacity)
        self._map = mmap.mmap(self._file, capacity)
        self._capacity = capacity
        self._batches: list[tuple[int, int, int]] = []
        self._write = 0
        self.evicted = 0

    def put(self, query: int, payload: bytes) -> None:
        need = len(payload) + 24
        while self._capacity - self._write < need:
            own = next((place for place, batch in enumerate(self._batches) if batch[0] == query), None)
            if own is None:
                counts: dict[int, int] = {}
                for other, _, _ in self._batches:
                    counts[other] = counts.get(other, 0) + 1
                most = max(counts, key=counts.__getitem__)
                own = next(place for place, batch in enumerate(self._batches) if batch[0] == most)
            _, offset, length = self._batches.pop(own)
            self._map.move(offset, offset + length, self._write - offset - length)
            self._write -= length
            self.evicted += length - 24
            self._batches[own:] = [(q, at - length, n) for q, at, n in self._batches[own:]]
        struct.pack_into("<QQQ", self._map, self._write, query, len(payload), zlib.crc32(payload))
        self._map[self._write + 24 : self._write + need] = payload
        self._batches.append((query, self._write, need))
        self._write += need

    def close(self) -> None:
        self._map.close()
        os.close(self._file)


class ExactPolicy:
    """Query-aware FIFO on sizes alone, control block included: what an ideal buffer would lose."""

    def __init__(self, capacity: int, control: int) -> None:
        self._capacity = capacity
        self._control = control
        self._queues: dict[int, deque[int]] = {}
        self._used = 0
        self.evicted = self.offered = 0

    def put(self, query: int, size: int) -> None:
        self.offered += size
        while self._capacity - self._used < size + self._control:
            queue = self._queues.get(query) or max(self._queues.values(), key=len)
            gone = queue.popleft()
            self._used -= gone + self._control
            self.evicted += gone
        self._queues.setdefault(query, deque()).append(size)
        self._used += size + self._control

    @property
    def loss(self) -> float:
        return self.evicted / self.offered
