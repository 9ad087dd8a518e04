"""A sink's results as a table of a data lake that follows them, whatever the table's format.

Every answer is one row, at its highest revision; an answer that was taken back is gone. The place up to which a table
has come is part of the same commit as the rows, so a process that is killed in between goes on exactly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from cloud_backend.dataframes import arrow, tables
from cloud_backend.results.rows import ResultRow, encode_key
from cloud_backend.results.store import Results
from shared.errors import UsageError

KEY, RETRACT, REVISION = "_key", "_retract", "_revision"
IDENTITY = (KEY, "_window_start", "_window_end", "_row")
STEP = 10_000  # answers in one commit at most
_KINDS = {  # by the word that both formats have for a type
    "boolean": "bool", "long": "int64", "double": "float64", "string": "str", "timestamp": arrow.TIME,
    "timestamptz": arrow.TIME,
}  # fmt: skip


class LakeTable(Protocol):
    """A table as one library writes it. Everything here raises UsageError where it cannot be read or written."""

    def place(self, sink: str) -> int:
        """How many changes of the results it holds already; 0 where there is no table."""
        ...

    def types(self) -> dict[str, str]:
        """The word for each column's type; none where there is no table."""
        ...

    def merge(self, rows: pa.Table, sink: str, change: int) -> None:
        """In one commit: of each identity the higher revision, without those that RETRACT says are taken back, and the
        place after it. The table is made where there is none, and gains columns that it does not have."""
        ...


class Kept(NamedTuple):
    """One commit: how many rows were said or said otherwise, how many were taken back, and the place after it."""

    said: int
    gone: int
    change: int


def keep_up(
    results: Results, sink: str, table: LakeTable, key_names: Sequence[str] = (), *, step: int = STEP
) -> Iterator[Kept]:
    """Bring a table level with a sink, one commit after the other. Ends when nothing is left."""
    after, last = table.place(sink), results.change()
    if after > last:  # going on there would leave out what is answered until they are as many again
        raise UsageError(
            f"the table holds {after} changes of results that have {last}: they were made anew, or brought back from a "
            "backup. Write to another table, or remove this one and let it be made anew",
            code="dataframe-results",
        )
    while True:
        change, found = results.changes(after, step)
        if change == after:
            return
        after = change
        rows = [row for row in found if row.sink == sink]
        if rows:
            table.merge(_as_table(rows, table.types(), key_names), sink, change)
            gone = sum(row.retract for row in rows)
            yield Kept(len(rows) - gone, gone, change)


def _as_table(rows: Sequence[ResultRow], there: Mapping[str, str], key_names: Sequence[str]) -> pa.Table:
    said = [row for row in rows if not row.retract]
    columns = {KEY: "str", **tables.sink_columns(said, key_names)}
    fitting = {name: _fitting(name, kind, there.get(name)) for name, kind in columns.items()}
    batch = tables.sink_batch(rows, {**fitting, RETRACT: "bool"}, key_names, _about)
    return pa.Table.from_batches([batch])


def _about(row: ResultRow) -> dict[str, object]:
    return {KEY: encode_key(row.key), RETRACT: row.retract}


def _fitting(name: str, kind: str, there: str | None) -> str:
    """The kind that the table keeps a column as. The libraries themselves would cut a fraction to a whole number."""
    kept = kind if there is None else _KINDS.get(there, there)
    if kept == kind or (kept, kind) == ("float64", "int64"):
        return kept
    raise UsageError(
        f"the table keeps column {name!r} as {there}, and the sink says {kind} now; write to another table, which is "
        "made anew with all that the sink says",
        code="dataframe-columns",
    )


@contextlib.contextmanager
def refusing(table: str, faults: tuple[type[Exception], ...]) -> Iterator[None]:
    """What a library raises becomes one line."""
    try:
        yield
    except faults as error:
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UsageError(
            f"the table {table!r} cannot be read or written: {why[:200]}; what it has stays as it is, and the next try "
            "goes on from there",
            code="dataframe-table",
        ) from None
