"""What the results should be: the program's cloud side, run by the numpy engine over what the log holds.

No Spark, no epochs, no ranges, no state files: one pipeline reads the log once from its start, in its order, and time
moves only by the frontiers that are in it. So a window the log has not closed gives no row, here as in the job, and
when the two digests agree, everything Spark did around the engine has changed nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cloud_backend.log.reader import Reader
from cloud_backend.results.rows import ResultRow, digest_of
from cloud_backend.spark.publish import result_rows
from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import constant
from shared.identity import edge_id
from shared.plan.graph import Plan, with_device
from shared.plan.operators import DEVICE
from shared.plan.placement import cloud_fragment
from shared.wire import columns
from shared.wire.frame import Frame, FrameType, decode_one
from shared.wire.messages import Data


def expected_digest(plan: Plan, log_directory: Path) -> str:
    """The digest of what the results should be; empty once the log's start was trimmed away: no part of a log can say
    what all of it meant."""
    return "" if Reader(log_directory).start else digest_of(expected_results(plan, log_directory))


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
        for sink, rows in outputs:
            said.update((row.identity, row) for row in result_rows(sink, plan.sink(sink).type.key, rows))
    return list(said.values())


def _from_device(batch: Batch, frame: Frame) -> Batch:
    """The batch with the column that says whose it is; it does not travel, the frame says it."""
    device = constant(frame.source.hex(), "str", len(batch))
    return replace(batch, schema=with_device(batch.schema), columns={DEVICE: device, **batch.columns})
