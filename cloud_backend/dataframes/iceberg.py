"""An Iceberg table that follows a sink, see `lake.py`. Its place is one of the table's properties.

pyiceberg has no merge by revision, so a step reads what the table says about the same keys and times, and writes that
anew with what the sink says. The catalog then replaces the table's metadata, with rows and place, by one comparison and
swap. A step that was prepared on what the table said before somebody else's is refused there: were it done again on
top of the other, as pyiceberg would by itself, an answer could be there twice.

Needs the package `pyiceberg`: pip install 'resurge[lake]'.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual, Reference
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.snapshot import ExpireSnapshots

from cloud_backend.dataframes.lake import IDENTITY, KEY, RETRACT, REVISION, refusing
from shared.errors import UsageError

FAULTS = (Exception,)  # a catalog is whatever is configured, and fails in the words of its own client
CATALOG = "catalog.sqlite"  # in the directory that is given where no catalog is
NAMESPACE = "resurge"
START = "_window_start"
ONCE = {"commit.retry.num-retries": "0"}  # see above
KEEP = "history.expire.min-snapshots-to-keep"
# Every commit costs pyiceberg time for every state and manifest that the table still lists, and leaves a metadata file.
MADE = {
    **ONCE, KEEP: "50",
    "commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "20",
}  # fmt: skip


class IcebergTable:
    """The table of a sink in a directory that has a catalog of its own; or with a catalog that pyiceberg is configured
    for the table that is named, NAMESPACE.TABLE."""

    def __init__(self, to: str, sink: str, catalog: str = "") -> None:
        self.name, self._configured = to, catalog
        self._identifier = tuple(to.split(".")) if catalog else (NAMESPACE, sink)
        if len(self._identifier) < 2 or not all(self._identifier):
            raise UsageError(f"{to!r} names no table of a catalog; write NAMESPACE.TABLE", code="dataframe-table")

    def place(self, sink: str) -> int:
        with refusing(self.name, FAULTS):
            table = self._table()
            return 0 if table is None else int(table.properties.get(_place(sink), 0))

    def types(self) -> dict[str, str]:
        with refusing(self.name, FAULTS):
            table = self._table()
            return {} if table is None else {each.name: str(each.field_type) for each in table.schema().fields}

    def merge(self, rows: pa.Table, sink: str, change: int) -> None:
        with refusing(self.name, FAULTS):
            table = self._made(rows.schema.remove(rows.schema.get_field_index(RETRACT)))
            near = _near(rows)
            there = table.scan(row_filter=near).to_arrow()
            stay, come = _decided(there, rows)
            with table.transaction() as step:
                with step.update_schema() as columns:
                    columns.union_by_name(come.schema)
                if len(stay) < len(there):  # some are replaced, or taken back
                    step.delete(near)
                    come = pa.concat_tables([come, stay], promote_options="default")
                step.append(come)  # also of no rows: it says what the table was when this was decided
                step.set_properties({_place(sink): str(change)})
                _forget(step)

    @cached_property
    def _catalog(self) -> Catalog:
        if self._configured:
            return load_catalog(self._configured)
        home = Path(self.name).absolute()
        home.mkdir(parents=True, exist_ok=True)
        return SqlCatalog(NAMESPACE, uri=f"sqlite:///{home / CATALOG}", warehouse=home.as_uri())

    def _table(self) -> Table | None:
        return self._catalog.load_table(self._identifier) if self._catalog.table_exists(self._identifier) else None

    def _made(self, schema: pa.Schema) -> Table:
        """The table as it is now, made where there is none; one that others made is written in the same way."""
        if (table := self._table()) is None:
            self._catalog.create_namespace_if_not_exists(self._identifier[:-1])
            table = self._catalog.create_table_if_not_exists(self._identifier, schema, properties=MADE)
        if not ONCE.items() <= table.properties.items():
            with table.transaction() as step:
                step.set_properties(ONCE)
        return table


def _forget(step: Transaction) -> None:
    """No longer list old states, where the table says how many are kept; their files stay, for who still reads them."""
    keep = int(step.table_metadata.properties.get(KEEP, 0))
    states = sorted(step.table_metadata.snapshots, key=lambda each: each.sequence_number or 0)
    named = {each.snapshot_id for each in step.table_metadata.refs.values()}
    old = [each.snapshot_id for each in states[:-keep] if each.snapshot_id not in named] if keep else []
    if old:
        ExpireSnapshots(step).by_ids(old).commit()


def _near(rows: pa.Table) -> BooleanExpression:
    """What finds every row that is about one of these, and few others. Times let files be left out unread."""
    times = pc.min_max(rows[START].cast(pa.int64())).as_py()
    start = Reference(START)
    keys = In(Reference(KEY), set(rows[KEY].to_pylist()))
    return And(keys, GreaterThanOrEqual(start, times["min"]), LessThanOrEqual(start, times["max"]))


def _decided(there: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Those of the table that stay as they are, and those that come."""
    found = dict(zip(_identities(there), there[REVISION].to_pylist(), strict=True))
    gone, come = set(), []
    said = zip(_identities(rows), rows[REVISION].to_pylist(), rows[RETRACT].to_pylist(), strict=True)
    for identity, revision, retract in said:
        before = found.get(identity)
        newer = before is None or revision > before or (retract and revision == before)
        if newer and before is not None:
            gone.add(identity)
        come.append(newer and not retract)
    stay = [identity not in gone for identity in _identities(there)]
    return there.filter(pa.array(stay, pa.bool_())), rows.filter(pa.array(come, pa.bool_())).drop_columns([RETRACT])


def _identities(rows: pa.Table) -> list[tuple[object, ...]]:
    def plain(column: pa.ChunkedArray) -> list[object]:
        return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]

    return list(zip(*(plain(rows[name]) for name in IDENTITY), strict=True))


def _place(sink: str) -> str:
    return f"resurge.place.{sink}"
