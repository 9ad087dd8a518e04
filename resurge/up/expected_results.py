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
from dataclasses import dataclass, replace
from pathlib import Path

from cloud_backend.log.declared_forms import DeclaredForms
from cloud_backend.log.partitions import ONLY, open_log
from cloud_backend.log.reader import Reader
from cloud_backend.results.rows import Identity, ResultRow, digest_of, last_sessions
from cloud_backend.spark.graph import sink_of
from cloud_backend.spark.manifest.entries import Cut
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.publishing.sink_rows import result_rows
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import log_input
from cloud_backend.spark.task.specification import Slice, slices_of
from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.identity import edge_id
from shared.language.registry import FRAME
from shared.plan.graph import Plan
from shared.plan.operators import DEVICE, Apply
from shared.plan.placement import cloud_fragment
from shared.plan.vertices import vertices
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data


@dataclass(frozen=True, slots=True)
class Expected:
    """The digest of what the results should be; or None, and why nothing can be expected."""

    digest: str | None
    unknown: str = ""


def expected_digest(plan: Plan, log_directory: Path, store: Path | None = None) -> Expected:
    log = open_log(log_directory)
    if any(log.starts().values()):
        return Expected(None, "the beginning of the log was trimmed")
    for node in plan.nodes:  # ranges and quarantine cut frames too, and nothing here knows where
        if isinstance(node.operator, Apply) and node.operator.type.form == FRAME and not node.operator.deterministic:
            name = node.operator.operator
            return Expected(None, f"frame operator {name!r} may say something else for other rows together")
    if not devices_meet(plan):
        return Expected(digest_of(expected_results(plan, log_directory)))
    cuts = [] if store is None else _cuts(store)
    whole = [log.starts(), *(cut.ends for cut in cuts)] == [*(cut.starts for cut in cuts), log.ends()]
    if not whole:
        return Expected(None, "the job has not cut all of the log into epochs, or has forgotten where it did")
    return Expected(digest_of(expected_by_epoch(plan, log_directory, cuts)))


def devices_meet(plan: Plan) -> bool:
    """Whether some vertex brings rows of several devices together."""
    return any(vertex.key != (DEVICE,) for vertex in vertices(plan))


def expected_by_epoch(plan: Plan, log_directory: Path, cuts: Sequence[Cut]) -> list[ResultRow]:
    """The rows every sink should hold after these epochs: all rows of one, then how far its devices have come."""
    pipeline = Pipeline(cloud_fragment(plan))
    wire = {edge.name: edge.schema for edge in plan.edges}
    missing = {edge.name: dict(edge.missing) for edge in plan.edges}
    results: dict[Identity, ResultRow] = {}
    for cut in cuts:
        outputs: list[tuple[str, Batch]] = []
        found, _ = log_input.read_edges(log_directory, slices_of(cut), wire, WHOLE, missing=missing)
        for name, arrivals in found.items():
            late = log_input.has_late_rows(arrivals.units)
            for each in arrivals.units:
                batch = each.batch if late else replace(each.batch, frontier_us=NO_FRONTIER)
                outputs += pipeline.push(name, batch)
        for name, arrivals in found.items():
            outputs += pipeline.advance_devices(name, arrivals.frontiers)
        _take(results, plan, outputs)
    return _that_count(results, plan)


def expected_results(plan: Plan, log_directory: Path) -> list[ResultRow]:
    """The rows every sink of the plan should hold; of several about one key and window the last counts."""
    pipeline = Pipeline(cloud_fragment(plan))
    edges = {edge_id(edge.name): edge for edge in plan.edges}
    results: dict[Identity, ResultRow] = {}
    reader = Reader(log_directory)
    forms = DeclaredForms(log_directory, open_log(log_directory), edges.keys())
    whole = Slice(ONLY, reader.start, reader.valid_end())
    for _, record in reader.read(reader.start, reader.valid_end()):
        frame, _ = decode_one(record.frame)
        edge = edges.get(frame.edge)
        if edge is not None and frame.type == FrameType.DECLARE:
            forms.note(record.frame)
        if edge is None or frame.type not in (FrameType.DATA, FrameType.FRONTIER):
            continue
        outputs: list[tuple[str, Batch]] = []
        if frame.type == FrameType.DATA:
            read = log_input.batch_of(Data.of(frame), edge.schema, dict(edge.missing), forms, whole)
            batch = replace(read, frontier_us=NO_FRONTIER)
            outputs += pipeline.push(edge.name, log_input.of_device(batch, frame.source.hex()))
        frontier_us = log_input.believed_frontier(frame.frontier_us, record.received_us)
        if frontier_us != NO_FRONTIER:
            outputs += pipeline.advance(edge.name, frontier_us, frame.source.hex())
        _take(results, plan, outputs)
    return _that_count(results, plan)


def _take(results: dict[Identity, ResultRow], plan: Plan, outputs: Sequence[tuple[str, Batch]]) -> None:
    for name, rows in outputs:
        # Each batch counts as an epoch of its own: of rows that are all kept none may take another's number.
        for row in result_rows(sink_of(plan, name), rows, len(results) + 1):
            results.pop(row.identity, None)  # in the order of the last word
            results[row.identity] = row


def _that_count(results: dict[Identity, ResultRow], plan: Plan) -> list[ResultRow]:
    joined = {name for name in {row.sink for row in results.values()} if sink_of(plan, name).sessions}
    others = [row for row in results.values() if row.sink not in joined]
    return [*others, *last_sessions(row for row in results.values() if row.sink in joined)]


def programs_run(store: Path) -> int:
    """How many programs the job has run one after the other, as far as its manifest is kept."""
    manifest = Store(store)
    if not manifest.exists():
        return 0
    entries = (json.loads(manifest.entry(number) or b"{}") for number in manifest.entry_numbers())
    return len({entry["plan"] for entry in entries if entry.get("kind") in ("plan", "rollback") and "plan" in entry})


def _cuts(store: Path) -> list[Cut]:
    """Where the job cut its epochs: what its manifest knows of as far back as a rollback goes, and the entries that are
    kept beyond that."""
    manifest = Store(store)
    entries = (json.loads(manifest.entry(number) or b"{}") for number in manifest.entry_numbers())
    cuts = {entry["epoch"]: Cut.from_json(entry) for entry in entries if entry.get("kind") == "cut"}
    cuts |= ManifestLog(manifest).state.cuts
    return [cuts[epoch] for epoch in sorted(cuts)]
