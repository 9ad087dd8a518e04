"""A run of filters and at most one projection, fused: one mask, one gather, and only the columns that are needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.engine.evaluation import Answer, compiled
from shared.engine.operator import Operator
from shared.engine.rows import Rows, take
from shared.language.expressions import Column, Expression, columns_of
from shared.language.schema import Schema


class StatelessRun(Operator):
    """`columns` are computed from the rows that pass every predicate; numbers and covered range are kept."""

    def __init__(
        self, predicates: Sequence[Expression], columns: Sequence[tuple[str, Expression]], schema: Schema
    ) -> None:
        self.predicates = [compiled(predicate, schema) for predicate in predicates]
        # Columns that only change their name are gathered; the others are computed from gathered ones.
        self.renamed: list[tuple[str, str]] = []
        self.computed: list[tuple[str, Answer]] = []
        reads: dict[str, None] = {}
        for name, source in columns:
            if isinstance(source, Column) and source.name in schema:
                self.renamed.append((name, source.name))
            else:
                self.computed.append((name, compiled(source, schema)))
                reads.update((column, None) for column in columns_of(source) if column in schema)
        self.order = [name for name, _ in columns]
        self.gathered = list(reads)

    def push(self, port: int, rows: Rows) -> list[Rows]:
        columns, time, seq = rows.columns, rows.time, rows.seq
        total = len(time)
        index: np.ndarray | None = None
        if self.predicates and total:
            mask = self.predicates[0](columns, time)
            for predicate in self.predicates[1:]:
                mask = mask & predicate(columns, time)
            index = mask.nonzero()[0]
            if len(index) == total:
                index = None
        if index is None:
            out = {name: columns[source] for name, source in self.renamed}
            inner = columns
        elif not len(index):
            out = {name: columns[source][:0] for name, source in self.renamed}
            inner = {name: columns[name][:0] for name in self.gathered}
            time, seq = time[:0], seq[:0]
        else:
            out = {name: take(columns[source], index) for name, source in self.renamed}
            inner = {name: take(columns[name], index) for name in self.gathered}
            time = time.take(index)
            seq = index + rows.lo if rows.hi - rows.lo == total else seq.take(index)
        if self.computed:
            for name, answer in self.computed:
                out[name] = answer(inner, time)
            out = {name: out[name] for name in self.order}
        return [Rows(out, time, seq, rows.lo, rows.hi)]
