"""From columns to Arrow, as Spark wants them. Spark has no unsigned numbers: each becomes the next wider signed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from shared.language.schema import KINDS, Schema, dtype
from shared.language.widening import widens

Columns = Mapping[str, str]  # name -> kind of Arrow type, as `TYPES` has them

TIME = "timestamp"  # microseconds since 1970, UTC

TYPES: dict[str, tuple[pa.DataType, str]] = {  # by kind: Arrow's type, and Spark's word for it
    "bool": (pa.bool_(), "boolean"),
    "int8": (pa.int8(), "tinyint"),
    "int16": (pa.int16(), "smallint"),
    "int32": (pa.int32(), "int"),
    "int64": (pa.int64(), "bigint"),
    "uint8": (pa.int16(), "smallint"),
    "uint16": (pa.int32(), "int"),
    "uint32": (pa.int64(), "bigint"),
    "uint64": (pa.decimal128(20, 0), "decimal(20,0)"),
    "float32": (pa.float32(), "float"),
    "float64": (pa.float64(), "double"),
    "str": (pa.string(), "string"),
    TIME: (pa.timestamp("us", tz="UTC"), "timestamp"),
}


def spark_schema(columns: Columns) -> str:
    """The columns as Spark's DDL. A backtick in a name is written twice."""
    return ", ".join(f"`{name.replace('`', '``')}` {TYPES[kind][1]}" for name, kind in columns.items())


def array(kind: str, values: np.ndarray | Sequence[object]) -> pa.Array:
    """One column. Text comes from numpy's string type, which Arrow does not know."""
    arrow = TYPES[kind][0]
    if isinstance(values, np.ndarray) and kind == TIME:
        return pa.array(values.astype(np.int64)).cast(arrow)
    if isinstance(values, np.ndarray) and kind not in ("str", "uint64"):
        return pa.array(values.astype(dtype(kind), copy=False)).cast(arrow)
    return pa.array(values.tolist() if isinstance(values, np.ndarray) else values, type=arrow)


def column(wanted: str, schema: Schema, name: str, parts: Sequence[Mapping[str, np.ndarray]], rows: int) -> pa.Array:
    """A column of some parts of one schema under the kind that is wanted; nulls where they have none, or one of
    other values. Spark hands its own types back, so an unsigned column is wanted as the wider signed one."""
    kind = schema.kind(name) if name in schema else ""
    if kind in TYPES and TYPES[kind][0] == TYPES[wanted][0]:
        return array(kind, np.concatenate([part[name] for part in parts]))
    if kind in KINDS and wanted in KINDS and widens(kind, wanted):
        return array(wanted, np.concatenate([part[name] for part in parts]))
    return pa.nulls(rows, TYPES[wanted][0])


def batch(columns: Columns, values: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [values[name] for name in columns],
        schema=pa.schema([(name, TYPES[kind][0]) for name, kind in columns.items()]),
    )


def repeated(values: Sequence[object], counts: Sequence[int], kind: str) -> pa.Array:
    """Each value as often as its count says."""
    return array(kind, values).take(pa.array(np.repeat(np.arange(len(values)), counts)))
