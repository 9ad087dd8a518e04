"""A Delta table that follows a sink, see `lake.py`. Its place is an application's transaction in the table's log.

Needs the package `deltalake`: pip install 'resurge[lake]'.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from cloud_backend.dataframes.lake import IDENTITY, RETRACT, REVISION, refusing

FAULTS = (DeltaError, OSError)


class DeltaLake:
    """The table in a directory."""

    def __init__(self, directory: str) -> None:
        self.name = directory

    def place(self, sink: str) -> int:
        with refusing(self.name, FAULTS):
            if not DeltaTable.is_deltatable(self.name):
                return 0
            return DeltaTable(self.name).transaction_version(_application(sink)) or 0

    def types(self) -> dict[str, str]:
        with refusing(self.name, FAULTS):
            if not DeltaTable.is_deltatable(self.name):
                return {}
            types = {field.name: field.type for field in DeltaTable(self.name).schema().fields}
        return {name: each.type if isinstance(each, PrimitiveType) else str(each) for name, each in types.items()}

    def merge(self, rows: pa.Table, sink: str, change: int) -> None:
        with refusing(self.name, FAULTS):
            self._merge(rows, sink, change)

    def _merge(self, rows: pa.Table, sink: str, change: int) -> None:
        schema = rows.schema.remove(rows.schema.get_field_index(RETRACT))
        if not DeltaTable.is_deltatable(self.name):
            DeltaTable.create(self.name, schema)
        here = " AND ".join(f"t.`{name}` = s.`{name}`" for name in IDENTITY)
        values = {f"`{name}`": f"s.`{name}`" for name in schema.names}
        (
            DeltaTable(self.name)
            .merge(
                rows,
                here,
                source_alias="s",
                target_alias="t",
                merge_schema=True,
                commit_properties=CommitProperties(app_transactions=[Transaction(_application(sink), change)]),
            )
            .when_matched_delete(f"s.`{RETRACT}` AND s.`{REVISION}` >= t.`{REVISION}`")
            .when_matched_update(values, f"NOT s.`{RETRACT}` AND s.`{REVISION}` > t.`{REVISION}`")
            .when_not_matched_insert(values, f"NOT s.`{RETRACT}`")
            .execute()
        )


def _application(sink: str) -> str:
    return f"resurge {sink}"
