"""The second path of an edge: records reach their readers through Spark's shuffle instead of by slices of files.

With P ranges on both sides the direct path opens P x P slices. Where small reads are dear (object stores, large P) or
executors share no disk but the store, each record is read once by one task, cut by reader and handed on by
`repartitionById`, which puts a reader's number into exactly that partition (`repartition(n, column)` would hash it).
What a task computes is the same; only where it finds its rows differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cloud_backend.spark.session import SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = "task int, file string, piece binary"
OUTCOME = "task int, outcome string"


class ShufflingRunner(SparkRunner):
    """Runs tasks whose record inputs come by `repartitionById`."""

    def run(self, specs: Sequence[dict[str, Any]], *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        readers: dict[str, list[tuple[int, str]]] = {}
        for number, spec in enumerate(specs):
            for epoch in (spec, *spec.get("then", ())):
                for files in epoch["records"].values():
                    for file in files:
                        readers.setdefault(file, []).append((number, spec["range"]))
        if not readers:
            return super().run(specs, timeout_s=timeout_s)
        from pyspark.sql.functions import col

        jobs = list(readers.items())
        texts = [json.dumps(self._shipped(spec) | {"shuffled": True}) for spec in specs]
        count = len(jobs) + len(texts)
        numbers = self.session.range(0, count, 1, count)
        pieces = numbers.mapInArrow(_cutting(specs[0]["store"], jobs), PIECE)
        frame = pieces.repartitionById(len(texts), col("task")).mapInArrow(_running(texts), OUTCOME)
        outcomes = {row["task"]: json.loads(row["outcome"]) for row in self._within(frame.collect, timeout_s)}
        return [outcomes[number] for number in range(len(specs))]


def _cutting(location: str, jobs: Sequence[tuple[str, list[tuple[int, str]]]]) -> Any:
    """Read one record and cut it by reader. Numbers beyond the records give every task one empty piece, so that tasks
    without any input run as well."""

    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from cloud_backend.spark import records
        from cloud_backend.spark.slots import Range
        from cloud_backend.spark.store import Store
        from shared.errors import DamagedData

        store = Store(location)
        schema = pa.schema([("task", pa.int32()), ("file", pa.string()), ("piece", pa.binary())])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if number >= len(jobs):
                    rows = [(number - len(jobs), "", b"")]
                else:
                    name, wanted = jobs[number]
                    rows = []
                    for task, text in wanted:
                        try:
                            part, footer, _ = records.read_slice(store, name, Range.parse(text))
                        except DamagedData:
                            continue  # the reader finds it missing and says so
                        rows.append((task, name, records.encode(part, footer.progress)[0]))
                columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
                )

    return cut


def _running(texts: Sequence[str]) -> Any:
    """Gather a task's pieces, then run it. An id outside the range would wrap around silently: the task checks it."""

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        from cloud_backend.spark import task
        from shared.errors import BrokenInvariant

        pieces: dict[str, bytes] = {}
        numbers: set[int] = set()
        for batch in batches:
            for number, file, piece in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                numbers.add(number)
                if file:
                    pieces[file] = piece
        context = TaskContext.get()
        if not numbers:
            return
        if len(numbers) != 1 or (context and context.partitionId() not in numbers):
            raise BrokenInvariant(f"pieces of tasks {sorted(numbers)} met in one partition", code="spark-misplaced-row")
        (number,) = numbers
        attempt = context.attemptNumber() if context else 0
        outcome = task.run(json.loads(texts[number]) | {"attempt": attempt}, pieces=pieces)
        schema = pa.schema([("task", pa.int32()), ("outcome", pa.string())])
        yield pa.RecordBatch.from_pydict({"task": [number], "outcome": [json.dumps(outcome)]}, schema=schema)

    return mapped
