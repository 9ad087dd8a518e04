"""What the program itself says, as a source: rows wait here until the node's next read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mobile_app.sensors.source import Samples, SoftwareSource
from shared.errors import UsageError
from shared.language.schema import Schema, dtype

WAITING_ROWS_MAX = 100_000  # a program that appends faster than the node reads must hear of it


class ProgramRows(SoftwareSource):
    """Rows get the event time at which they were appended, and never go back in time."""

    def __init__(self, name: str, schema: Schema) -> None:
        self._name = name
        self._schema = schema
        self._times: list[int] = []
        self._rows: list[dict[str, object]] = []

    def append(self, time_us: int, row: Mapping[str, object]) -> None:
        """Take one row; it is as durable as a sensor's reading, within the published loss window."""
        if set(row) != set(self._schema.names):
            raise UsageError(
                f"{self._name!r} has the columns {', '.join(self._schema.names)}, this row {', '.join(sorted(row))}",
                code="append-columns",
            )
        if len(self._rows) >= WAITING_ROWS_MAX:
            raise UsageError(
                f"{WAITING_ROWS_MAX} rows of {self._name!r} wait to be read; append more slowly", code="append-full"
            )
        try:
            for field in self._schema:
                np.asarray([row[field.name]]).astype(dtype(field.kind), casting="same_kind")
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"a row of {self._name!r} does not fit its schema: {error}", code="append-columns"
            ) from error
        self._times.append(max(time_us, self._times[-1] if self._times else time_us))
        self._rows.append(dict(row))

    def read(self, until_us: int) -> Samples:
        ready = int(np.searchsorted(np.asarray(self._times, np.int64), until_us))
        times, rows = self._times[:ready], self._rows[:ready]
        del self._times[:ready], self._rows[:ready]
        columns = {
            field.name: np.asarray([row[field.name] for row in rows], dtype=dtype(field.kind)) for field in self._schema
        }
        return Samples(np.asarray(times, np.int64), columns, until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        """Nobody can ask the program: it speaks by itself."""
        return Samples(time_us[:0], {field.name: np.empty(0, dtype(field.kind)) for field in self._schema}, 0)

    def sample_every(self, period_us: int) -> None:
        """Hints about sampling are for sensors; what the program says is taken whole."""
