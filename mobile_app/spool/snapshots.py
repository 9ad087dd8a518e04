"""The device's own snapshots: operator state and open batches, exactly at a position of the spool.

Theory of operation. What a node would lose with its memory is (1) the state of its operators, (2) rows they put
out that wait in open batches. Both are written here every few seconds (the published loss window) and before every
append to the spool. The rule: **a snapshot names the head that each edge will have once the append it belongs
to is durable.** Two files are written in turn, and the next is written only when that append is durable:

    snapshot k (heads after append k) -> append k -> sync -> snapshot k+1 -> append k+1 -> ...

A crash before append k is durable finds heads that match snapshot k-1; after it, heads that match snapshot k.
After such a crash snapshot k-1 is the one still needed, so the next goes into the file of k. Either way the newest
state that fits the spool is the right one: no window is put out twice, no row is numbered twice, and what is lost
is the readings since that snapshot, which were never numbered durably.

The rows of open batches that a snapshot holds may be appended without another one: it fits every head within them, and
what is below the head is left out of it. So a node that is behind by many batches writes them into one snapshot, and
not all that are left before each of them.

Writing the state first and trusting it would skip output; writing it last would repeat output; keeping payload and
state in one file would write every byte twice.

Frontiers follow the same rule: the node announces one only after a snapshot that includes it is durable, because a
state restored from before it might still put out earlier rows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shared.batch import Batch
from shared.engine.snapshots import decode_state, encode_state
from shared.errors import DamagedData
from shared.language.schema import Schema
from shared.spool.cipher import Cipher
from shared.spool.disk import Disk

FORMAT = 2  # 1 wrote every row's number, also where they are simply lo, lo + 1, ..., and schemas as values, not text
FILES = ("snapshot-0", "snapshot-1")
ASSOCIATED = b"device snapshot"  # a sealed batch of the spool is not taken for one


@dataclass(frozen=True, slots=True)
class OpenEdge:
    """What an edge held when the snapshot was taken."""

    schema: Schema
    shift: int | None  # edge number minus pipeline number
    frontier_us: int
    rows: Batch | None  # in the edge's numbers

    def after(self, head: int) -> OpenEdge:
        """Without what is below this number."""
        rows = self.rows
        if rows is None or head <= rows.lo:
            return self
        return replace(self, rows=rows.after(head) if head < rows.hi else None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    plan: str  # digest of the device's part of the plan this state belongs to
    read_until_us: int  # sensors were read up to here
    origins: Mapping[str, int]  # per input of the pipeline, the number of its next reading
    heads: Mapping[str, int]  # per edge, the spool's head that this state goes with
    edges: Mapping[str, OpenEdge]
    state: bytes  # of the pipeline
    generation: int = 0

    def reaches(self, edge: str) -> int:
        """Up to where this edge's numbers are in the spool or here."""
        kept = self.edges.get(edge)
        return self.heads[edge] if kept is None or kept.rows is None else kept.rows.hi

    def after(self, head: Callable[[str], int]) -> Snapshot:
        """The same behind appends of rows that it holds."""
        heads = {name: head(name) for name in self.heads}
        edges = {name: kept.after(heads.get(name, 0)) for name, kept in self.edges.items()}
        return replace(self, heads=heads, edges=edges)


class Snapshots:
    """The two files, sealed if there is a cipher. `save` returns when the snapshot is durable."""

    def __init__(self, disk: Disk, cipher: Cipher | None = None) -> None:
        self._disk = disk
        self._cipher = cipher
        self._generation = max((kept.generation for kept in self._read_files().values()), default=0)
        self._needed = FILES[1]  # the file that a crash now would go back to: the next one goes into the other

    def save(self, snapshot: Snapshot) -> None:
        self._generation += 1
        data = _encode(replace(snapshot, generation=self._generation))
        if self._cipher is not None:
            data = self._cipher.seal(data, ASSOCIATED)
        name = FILES[1 - FILES.index(self._needed)]
        new = name not in self._disk.names()
        file = self._disk.open(name, create=new)
        try:
            file.write(0, data)
            file.truncate(len(data))
            file.sync()
        finally:
            file.close()
        if new:
            self._disk.sync()
        self._needed = name

    def fitting(self, head: Callable[[str], int]) -> Snapshot | None:
        """The newest snapshot that belongs to these heads, without rows that are spooled by now; None at the first
        start, or when both files are damaged."""
        fitting = {
            name: kept
            for name, kept in self._read_files().items()
            if all(number <= head(edge) <= kept.reaches(edge) for edge, number in kept.heads.items())
        }
        if not fitting:
            return None
        self._needed = max(fitting, key=lambda name: fitting[name].generation)
        return fitting[self._needed].after(head)

    def newest(self) -> Snapshot | None:
        """The newest snapshot, whatever the spool says; for looking only."""
        return max(self._read_files().values(), key=lambda kept: kept.generation, default=None)

    def _read_files(self) -> dict[str, Snapshot]:
        kept: dict[str, Snapshot] = {}
        for name in FILES:
            if name not in self._disk.names():
                continue
            file = self._disk.open(name)
            try:
                data = file.read(0, file.size())
                kept[name] = _decode(data if self._cipher is None else self._cipher.open(data, ASSOCIATED))
            except DamagedData:
                continue  # torn by a crash while it was written: the other one is whole
            finally:
                file.close()
        return kept


def _encode(snapshot: Snapshot) -> bytes:
    edges = {
        name: (
            _schema_text(edge.schema),
            edge.shift,
            edge.frontier_us,
            None if edge.rows is None else _parts(edge.rows),
        )
        for name, edge in snapshot.edges.items()
    }
    return encode_state(
        (
            FORMAT, snapshot.generation, snapshot.plan, snapshot.read_until_us, dict(snapshot.origins),
            dict(snapshot.heads), edges, snapshot.state,
        )
    )  # fmt: skip


@functools.cache
def _schema_text(schema: Schema) -> str:
    return json.dumps(schema.to_json())


def _parts(rows: Batch) -> tuple[object, ...]:
    seq = None if len(rows) == rows.hi - rows.lo else rows.seq  # ascending within [lo, hi): all of them
    return dict(rows.columns), rows.time_us, seq, rows.lo, rows.hi, rows.frontier_us, rows.applied


def _decode(data: bytes) -> Snapshot:
    form, generation, plan, read_until_us, origins, heads, edges, state = decode_state(data)
    if form not in (1, FORMAT):
        raise DamagedData(
            f"a device snapshot of form {form}; this version reads 1 and {FORMAT}, run the one that wrote it",
            code="device-snapshot-form",
        )
    return Snapshot(
        plan=plan,
        read_until_us=read_until_us,
        origins=origins,
        heads=heads,
        edges={name: _open_edge(*parts) for name, parts in edges.items()},
        state=state,
        generation=generation,
    )


def _open_edge(schema_json: object, shift: int | None, frontier_us: int, parts: tuple[Any, ...] | None) -> OpenEdge:
    schema = Schema.from_json(json.loads(schema_json) if isinstance(schema_json, str) else schema_json)
    if parts is None:
        return OpenEdge(schema, shift, frontier_us, None)
    columns, time_us, seq, lo, hi, *rest = parts
    seq = np.arange(lo, hi, dtype=np.int64) if seq is None else seq
    return OpenEdge(schema, shift, frontier_us, Batch(schema, columns, time_us, seq, lo, hi, *rest))
