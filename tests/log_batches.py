"""What a log holds of one edge, decoded: batch by batch, or column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.batch import Batch
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.wire import codecs
from shared.wire.frame import Frame, FrameType
from shared.wire.messages import Data, Declare


def log_batches(records: Iterable[Frame], edge: str) -> Iterator[Batch]:
    """The batches of an edge, decoded, as the log's records give them."""
    schemas: dict[int, Schema] = {}
    for frame in records:
        if frame.edge != edge_id(edge):
            continue
        if frame.type is FrameType.DECLARE:
            schema = Declare.of(frame).schema
            schemas[schema.id] = schema
        elif frame.type is FrameType.DATA:
            data = Data.of(frame)
            yield codecs.decode_data(data, schemas[data.schema_id])


def log_columns(records: Iterable[Frame], edge: str) -> dict[str, list[object]]:
    """Every row of an edge, by column."""
    found: dict[str, list[object]] = {}
    for batch in log_batches(records, edge):
        for name, column in batch.columns.items():
            found.setdefault(name, []).extend(column.tolist())
    return found
