"""A sink's results as a Delta table that follows them.

Every answer is one row, at its highest revision; an answer that was taken back is gone. The place up to which a table
has come is part of the same transaction as the rows, so a process that is killed in between goes on exactly.

Needs the package `deltalake`: pip install 'resurge[lake]'.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from cloud_backend.dataframes import arrow, tables
from cloud_backend.results.rows import ResultRow, encode_key
from cloud_backend.results.store import Results
from shared.errors import UsageError

KEY, RETRACT = "_key", "_retract"
IDENTITY = (KEY, "_window_start", "_window_end", "_row")
STEP = 10_000  # answers in one transaction at most


class Kept(NamedTuple):
    """One transaction: how many rows were said or said otherwise, how many were taken back, and the place after it."""

    said: int
    gone: int
    change: int


def place(table: str, sink: str) -> int:
    """How many changes of the results a table holds already; 0 where there is no table."""
    with _table(table):
        if not DeltaTable.is_deltatable(table):
            return 0
        return DeltaTable(table).transaction_version(_application(sink)) or 0


def keep_up(
    results: Results, sink: str, table: str, key_names: Sequence[str] = (), *, step: int = STEP
) -> Iterator[Kept]:
    """Bring a table level with a sink, one transaction after the other. Ends when nothing is left."""
    after = place(table, sink)
    while True:
        change, found = results.changes(after, step)
        if change == after:
            return
        after = change
        rows = [row for row in found if row.sink == sink]
        if rows:
            with _table(table):
                _merge(rows, sink, table, key_names, change)
            gone = sum(row.retract for row in rows)
            yield Kept(len(rows) - gone, gone, change)


def _merge(rows: Sequence[ResultRow], sink: str, table: str, key_names: Sequence[str], change: int) -> None:
    said = [row for row in rows if not row.retract]
    columns = {KEY: "str", **tables.sink_columns(said, key_names)}
    batch = tables.sink_batch(rows, {**columns, RETRACT: "bool"}, key_names, _identity)
    if not DeltaTable.is_deltatable(table):
        DeltaTable.create(table, pa.schema([(name, arrow.TYPES[kind][0]) for name, kind in columns.items()]))
    here = " AND ".join(f"t.`{name}` = s.`{name}`" for name in IDENTITY)
    values = {f"`{name}`": f"s.`{name}`" for name in columns}
    (
        DeltaTable(table)
        .merge(
            pa.table(batch),
            here,
            source_alias="s",
            target_alias="t",
            merge_schema=True,
            commit_properties=CommitProperties(app_transactions=[Transaction(_application(sink), change)]),
        )
        .when_matched_delete(f"s.`{RETRACT}` AND s.`_revision` >= t.`_revision`")
        .when_matched_update(values, f"NOT s.`{RETRACT}` AND s.`_revision` > t.`_revision`")
        .when_not_matched_insert(values, f"NOT s.`{RETRACT}`")
        .execute()
    )


@contextlib.contextmanager
def _table(table: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UsageError(
            f"the table {table!r} cannot be read or written: {why[:200]}; what it has stays as it is, and the next try "
            "goes on from there",
            code="dataframe-table",
        ) from None


def _identity(row: ResultRow) -> dict[str, object]:
    return {KEY: encode_key(row.key), RETRACT: row.retract}


def _application(sink: str) -> str:
    return f"resurge {sink}"
