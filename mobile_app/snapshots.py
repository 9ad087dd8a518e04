"""The device's own snapshots: operator state and open batches, exactly at a position of the spool.

Theory of operation. What a node would lose with its memory is (1) the state of its operators, (2) rows they put
out that wait in open batches. Both are written here every few seconds (the published loss window) and before every
append to the spool. The rule: **a snapshot names the head that each edge will have once the append it belongs
to is durable.** Two files are written in turn, and the next is written only when that append is durable:

    snapshot k (heads after append k) -> append k -> sync -> snapshot k+1 -> append k+1 -> ...

A crash before append k is durable finds heads that match snapshot k-1; after it, heads that match snapshot k.
Either way exactly one state fits the spool: no window is put out twice, no row is numbered twice, and what is lost
is the readings since that snapshot, which were never numbered durably. Writing the state first and trusting it
would skip output; writing it last would repeat output; one file holding both would double every byte written.

Frontiers follow the same rule: the node announces one only after a snapshot that includes it is durable, because a
state restored from before it might still put out earlier rows.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.batch import Batch
from shared.errors import ResurgeError
from shared.identity import edge_id
from shared.spool.disk import Disk
from shared.stream.schema import Schema
from shared.wire import columns

MAGIC = b"RSN1"
PREFIX = struct.Struct("<4sIII")  # magic, header bytes, body bytes, checksum of header and body
FILES = ("snapshot-0", "snapshot-1")
SNAPSHOT_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenEdge:
    """What an edge held when the snapshot was taken."""

    name: str
    schema: Schema
    shift: int | None  # edge number minus pipeline number
    frontier_us: int
    rows: Batch | None  # in the edge's numbers


@dataclass(frozen=True, slots=True)
class Snapshot:
    plan: str  # digest of the device's part of the plan this state belongs to
    read_until_us: int  # sensors were read up to here
    origins: Mapping[str, int]  # per input of the pipeline, the number of the next reading
    heads: Mapping[str, int]  # per edge, the spool's head that this state goes with
    edges: tuple[OpenEdge, ...]
    state: bytes  # of the pipeline
    generation: int = field(default=0)


class Snapshots:
    """The two files. `save` returns when the snapshot is durable."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._generation = max((kept.generation for kept in self._read_all()), default=0)

    def save(self, snapshot: Snapshot) -> None:
        self._generation += 1
        data = _encode(snapshot, self._generation)
        name = FILES[self._generation % 2]
        new = name not in self._disk.names()
        file = self._disk.open(name, create=new)
        try:
            file.write(0, data)
            file.sync()
        finally:
            file.close()
        if new:
            self._disk.sync()

    def fitting(self, head: Callable[[str], int]) -> Snapshot | None:
        """The newest snapshot that belongs to these heads; None when there is none or it is damaged."""
        fitting = [
            kept for kept in self._read_all() if all(head(name) == number for name, number in kept.heads.items())
        ]
        return max(fitting, key=lambda kept: kept.generation, default=None)

    def _read_all(self) -> list[Snapshot]:
        present = set(self._disk.names())
        kept = (self._read(name) for name in FILES if name in present)
        return [snapshot for snapshot in kept if snapshot is not None]

    def _read(self, name: str) -> Snapshot | None:
        file = self._disk.open(name)
        try:
            return _decode(file.read(0, file.size()))
        finally:
            file.close()


def _encode(snapshot: Snapshot, generation: int) -> bytes:
    body = [snapshot.state]
    edges: list[dict[str, object]] = []
    for edge in snapshot.edges:
        entry: dict[str, object] = {
            "name": edge.name, "schema": edge.schema.to_json(), "shift": edge.shift, "frontier_us": edge.frontier_us,
        }  # fmt: skip
        if edge.rows is not None:
            codec, payload = columns.encode(edge.rows)
            entry |= {
                "lo": edge.rows.lo, "hi": edge.rows.hi, "applied": edge.rows.applied, "codec": codec,
                "bytes": len(payload),
            }  # fmt: skip
            body.append(payload)
        edges.append(entry)
    header = json.dumps(
        {
            "generation": generation,
            "plan": snapshot.plan,
            "read_until_us": snapshot.read_until_us,
            "origins": dict(snapshot.origins),
            "heads": dict(snapshot.heads),
            "state_bytes": len(snapshot.state),
            "edges": edges,
        }
    ).encode()
    content = header + b"".join(body)
    return PREFIX.pack(MAGIC, len(header), len(content) - len(header), zlib.crc32(content)) + content


def _decode(data: bytes) -> Snapshot | None:
    """The snapshot, or None when it is not whole: a torn write, then the other file is the good one."""
    if len(data) < PREFIX.size:
        return None
    magic, header_bytes, body_bytes, checksum = PREFIX.unpack_from(data)
    content = data[PREFIX.size : PREFIX.size + header_bytes + body_bytes]
    if magic != MAGIC or len(content) != header_bytes + body_bytes or zlib.crc32(content) != checksum:
        return None
    header = json.loads(content[:header_bytes])
    place = header_bytes + header["state_bytes"]
    edges: list[OpenEdge] = []
    for entry in header["edges"]:
        schema = Schema.from_json(entry["schema"])
        rows = None
        if "codec" in entry:
            payload = content[place : place + entry["bytes"]]
            place += entry["bytes"]
            rows = columns.decode(
                entry["codec"], payload, schema, lo=entry["lo"], hi=entry["hi"], frontier_us=entry["frontier_us"]
            )
        edges.append(OpenEdge(entry["name"], schema, entry["shift"], entry["frontier_us"], rows))
    return Snapshot(
        plan=header["plan"],
        read_until_us=header["read_until_us"],
        origins=header["origins"],
        heads=header["heads"],
        edges=tuple(edges),
        state=content[header_bytes : header_bytes + header["state_bytes"]],
        generation=header["generation"],
    )
