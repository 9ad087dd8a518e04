"""From the log to batches: what a vertex that reads sync edges sees of an epoch.

A device's rows go to the range that owns its slot. Records of other ranges' devices are skipped by their header
alone. Frontiers come from DATA and FRONTIER frames; a tombstone only covers its range and brings no rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cloud_backend.log.declared_forms import DeclaredForms
from cloud_backend.log.format import Record
from cloud_backend.log.partitions import LogReader, in_turn, open_log
from cloud_backend.spark.manifest.lineage import LeftOut
from cloud_backend.spark.slots import Range, slot_of_text, slots_of_partition
from cloud_backend.spark.task.decoded_batches import DecodedBatches, Reading
from cloud_backend.spark.task.specification import Slice
from cloud_backend.spark.task.unit import Unit
from shared.batch import NO_FRONTIER, Batch
from shared.engine.rows import constant
from shared.errors import PeerError
from shared.identity import edge_id
from shared.language.expressions import Value
from shared.language.schema import Schema
from shared.plan.operators import DEVICE
from shared.plan.stream_type import with_device
from shared.wire import codecs, frame
from shared.wire.frame import HEADER_BYTES, FrameType
from shared.wire.messages import Data
from shared.wire.other_forms import read_as


@dataclass(slots=True)
class EdgeArrivals:
    units: list[Unit] = field(default_factory=list)  # each a device's batch, with the column `device`
    frontiers: dict[str, int] = field(default_factory=dict)  # device -> how far it has come in this epoch
    refused: list[LeftOut] = field(default_factory=list)  # batches that cannot be decoded
    decoded_bytes: int = 0  # of frames that were decoded here; the others' batches were kept from another reading


NOTHING_MISSING: Mapping[str, Mapping[str, Value]] = {}
FRONTIER_AHEAD_US_MAX = 60_000_000  # of the time at which the gateway received it: clocks are not that wrong

_slots: dict[bytes, int] = {}


def believed_frontier(frontier_us: int, received_us: int) -> int:
    """A device cannot have read the future: one that says so would end the windows of all others, and make them idle.
    Both times are in the log, so a replay decides the same."""
    return min(frontier_us, received_us + FRONTIER_AHEAD_US_MAX)


def read_edges(
    log: Path | str,
    slices: Sequence[Slice],
    wire: Mapping[str, Schema],
    range_: Range,
    *,
    met: Collection[str] = (),
    missing: Mapping[str, Mapping[str, Value]] = NOTHING_MISSING,
    kept: DecodedBatches | None = None,
) -> tuple[dict[str, EdgeArrivals], int]:
    """Per edge, the range's batches in the order of the log, and how many bytes of the log they are. `slices` are
    of all partitions, so that each record has the same number for everybody; those that hold other ranges' devices are
    not read. `met` are the edges of a query's region: their rows say themselves whose they are, if anybody's. Batches
    of phones that run an older or newer program are read as `wire` wants them, with `missing` in columns they lack.
    `kept`: what this process has decoded before, for several readers of one log."""
    reader, count = open_log(log), len(slices)
    found = {name: EdgeArrivals() for name in wire}
    names = {int(edge_id(name)): name for name in wire}
    read = 0
    forms = DeclaredForms(log, reader, names.keys())
    shared = {
        name: None if kept is None else kept.of(str(log), name, wire[name], missing.get(name, {}), met=name in met)
        for name in wire
    }
    own = [each for each in slices if range_.overlaps(slots_of_partition(int(each.partition), count))]
    for each, place, record in itertools.chain.from_iterable(_numbered(reader, each, count) for each in own):
        header = frame.stored_header(record.frame)
        name = names.get(header.edge)
        if name is None or header.kind not in (FrameType.DATA, FrameType.FRONTIER):
            if name is not None and header.kind == FrameType.DECLARE:
                forms.note(record.frame)
            continue
        source = header.source
        if source not in _slots:
            _slots[source] = slot_of_text(source.hex())
        if not range_.lo <= _slots[source] < range_.hi:
            continue
        read += len(record.frame)
        arrivals = found[name]
        device = source.hex()
        frontier_us = believed_frontier(header.frontier_us, record.received_us)
        if frontier_us != NO_FRONTIER:
            arrivals.frontiers[device] = max(frontier_us, arrivals.frontiers.get(device, NO_FRONTIER))
        if header.kind == FrameType.DATA:  # the log has checked it
            batch = _kept_batch(shared[name], record, frontier_us)
            if batch is None:
                arrivals.decoded_bytes += len(record.frame)
                data = Data.of(frame.frame_of(header, bytes(record.frame[HEADER_BYTES:])))
                try:
                    batch = batch_of(
                        replace(data, frontier_us=frontier_us), wire[name], missing.get(name, {}), forms, each
                    )
                    batch = batch if name in met else of_device(batch, device)
                except PeerError as error:
                    refused = LeftOut(name, data.lo, data.hi, error.message, error.code, device, data.incarnation)
                    arrivals.refused.append(refused)
                    continue
                if (reading := shared[name]) is not None and record.digest is not None:
                    reading.keep(record.frame, record.digest, frontier_us, batch)
            arrivals.units.append(Unit(name, batch, device, header.incarnation, place))
    for arrivals in found.values():
        arrivals.units.sort(key=lambda unit: unit.ordinal)
    return found, read


def _kept_batch(shared: Reading | None, record: Record, frontier_us: int) -> Batch | None:
    if shared is None or record.digest is None:  # no digest: the log's reader has not checked these bytes by it
        return None
    return shared.find(record.frame, record.digest, frontier_us)


def batch_of(data: Data, wanted: Schema, missing: Mapping[str, Value], forms: DeclaredForms, at: Slice) -> Batch:
    """A batch as the plan wants it, whichever form of the stream its device had. Raises PeerError: quarantine it."""
    if data.schema_id == wanted.id:
        return codecs.decode_data(data, wanted)
    written = forms.schema(data, at.partition, at.start)
    if written is None:
        reason = f"schema {data.schema_id:08x}, the plan's is {wanted.id:08x}"
        raise PeerError(reason, code="ingest-schema")
    return read_as(codecs.decode_data(data, written), wanted, missing)


def _numbered(reader: LogReader, each: Slice, partitions: int) -> Iterator[tuple[Slice, int, Record]]:
    for ordinal, (_, record) in enumerate(reader.read(*each)):
        yield each, in_turn(ordinal, each.partition, partitions), record


def of_device(batch: Batch, device: str) -> Batch:
    """The batch with the column that says whose it is; of a device's own rows it does not travel, the frame says it."""
    column = constant(device, "str", len(batch))
    return replace(batch, schema=with_device(batch.schema), columns={DEVICE: column, **batch.columns})


def has_late_rows(units: Sequence[Unit]) -> bool:
    """True when a batch holds a row earlier than a frontier that its device sent with an earlier batch."""
    frontiers: dict[str | None, int] = {}
    for each in units:
        frontier = frontiers.get(each.device, NO_FRONTIER)
        if len(each.batch) and frontier > NO_FRONTIER and int(each.batch.time_us.min()) < frontier:
            return True
        frontiers[each.device] = max(frontier, each.batch.frontier_us)
    return False
