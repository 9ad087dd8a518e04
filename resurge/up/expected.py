"""What the results should be: the program's cloud side, run by the numpy engine over what the log holds.

No Spark, no ranges, no state files: one pipeline reads the log once from its start, in its order, and time moves only
by the frontiers that are in it. So a window the log has not closed gives no row, here as in the job, and when the two
digests agree, everything Spark did around the engine has changed nothing.

Where every vertex is keyed by device, each device's rows and frontiers alone decide, and it does not matter where
epochs were cut. Where devices meet it does: a device counts from the epoch it is first heard in. Then the log is read
epoch by epoch, by the cuts in the job's manifest, and nothing is expected before they reach the end of the log.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cloud_backend.log.reader import Reader
from cloud_backend.results.rows import ResultRow, digest_of, standing
from cloud_backend.spark import ingest
from cloud_backend.spark.graph import sink_of
from cloud_backend.spark.publish import result_rows
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.store import Store
from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import constant
from shared.identity import edge_id
from shared.plan.graph import Plan, with_device
from shared.plan.operators import DEVICE
from shared.plan.placement import cloud_fragment
from shared.plan.vertices import vertices
from shared.wire import columns
from shared.wire.frame import Frame, FrameType, decode_one
from shared.wire.messages import Data


def expected_digest(plan: Plan, log_directory: Path, store: Path | None = None) -> str:
    """The digest of what the results should be; empty when that cannot be said: the log's start was trimmed away, or
    devices meet and the job (its `store`) has not cut all of the log into epochs."""
    reader = Reader(log_directory)
    if reader.start:
        return ""
    if not devices_meet(plan):
        return digest_of(expected_results(plan, log_directory))
    cuts = [] if store is None else _cuts(store)
    whole = [0, *(end for _, end in cuts)] == [*(start for start, _ in cuts), reader.valid_end()]
    return digest_of(expected_by_epoch(plan, log_directory, cuts)) if whole else ""


def devices_meet(plan: Plan) -> bool:
    """Whether some vertex brings rows of several devices together."""
    return any(vertex.key != (DEVICE,) for vertex in vertices(plan))


def expected_by_epoch(plan: Plan, log_directory: Path, cuts: Sequence[tuple[int, int]]) -> list[ResultRow]:
    """The rows every sink should hold after these epochs: all rows of one, then how far its devices have come."""
    pipeline = Pipeline(cloud_fragment(plan))
    wire = {edge.name: edge.schema for edge in plan.edges}
    said: dict[tuple[str, str, int, int], ResultRow] = {}
    for start, end in cuts:
        outputs: list[tuple[str, Batch]] = []
        found, _ = ingest.read_edges(log_directory, start, end, wire, WHOLE)
        for name, arrivals in found.items():
            late = ingest.has_late_rows(arrivals.batches)
            for each in arrivals.batches:
                batch = each.batch if late else replace(each.batch, frontier_us=NO_FRONTIER)
                outputs += pipeline.push(name, batch)
        for name, arrivals in found.items():
            outputs += pipeline.advance_devices(name, arrivals.frontiers)
        _say(said, plan, outputs)
    return _standing(said, plan)


def expected_results(plan: Plan, log_directory: Path) -> list[ResultRow]:
    """The rows every sink of the plan should hold; of several about one key and window the last counts."""
    pipeline = Pipeline(cloud_fragment(plan))
    edges = {edge_id(edge.name): edge for edge in plan.edges}
    said: dict[tuple[str, str, int, int], ResultRow] = {}
    reader = Reader(log_directory)
    for _, record in reader.read(reader.start, reader.valid_end()):
        frame, _ = decode_one(record.frame)
        edge = edges.get(frame.edge)
        if edge is None or frame.type not in (FrameType.DATA, FrameType.FRONTIER):
            continue
        outputs: list[tuple[str, Batch]] = []
        if frame.type == FrameType.DATA:
            batch = columns.decode(
                frame.codec, bytes(Data.of(frame).columns), edge.schema, lo=frame.seq, hi=frame.seq + frame.count,
                frontier_us=NO_FRONTIER,
            )  # fmt: skip
            outputs += pipeline.push(edge.name, _from_device(batch, frame))
        if frame.frontier_us != NO_FRONTIER:
            outputs += pipeline.advance(edge.name, frame.frontier_us, frame.source.hex())
        _say(said, plan, outputs)
    return _standing(said, plan)


def _say(said: dict[tuple[str, str, int, int], ResultRow], plan: Plan, outputs: Sequence[tuple[str, Batch]]) -> None:
    for name, rows in outputs:
        for row in result_rows(sink_of(plan, name), rows):
            said.pop(row.identity, None)  # in the order of the last word
            said[row.identity] = row


def _standing(said: dict[tuple[str, str, int, int], ResultRow], plan: Plan) -> list[ResultRow]:
    joined = {name for name in {row.sink for row in said.values()} if sink_of(plan, name).sessions}
    others = [row for row in said.values() if row.sink not in joined]
    return [*others, *standing(row for row in said.values() if row.sink in joined)]


def _cuts(store: Path) -> list[tuple[int, int]]:
    """Where the job cut its epochs, from the manifest's entries: its fold forgets those that were collected."""
    manifest = Store(store)
    entries = (json.loads(manifest.entry(number) or b"{}") for number in manifest.entry_numbers())
    cuts = {entry["epoch"]: entry for entry in entries if entry.get("kind") == "cut"}
    return [(cuts[epoch]["starts"]["0"], cuts[epoch]["ends"]["0"]) for epoch in sorted(cuts)]


def _from_device(batch: Batch, frame: Frame) -> Batch:
    """The batch with the column that says whose it is; it does not travel, the frame says it."""
    device = constant(frame.source.hex(), "str", len(batch))
    return replace(batch, schema=with_device(batch.schema), columns={DEVICE: device, **batch.columns})
