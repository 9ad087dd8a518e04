"""The tables of a lake, as tests write them and as somebody else reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from cloud_backend.dataframes.delta import DeltaLake
from cloud_backend.dataframes.iceberg import CATALOG, IcebergTable
from cloud_backend.dataframes.lake import LakeTable

LAKES = ("delta", "iceberg")


def lake_table(lake: str, directory: Path | str, sink: str) -> LakeTable:
    """As a process that has just begun opens it."""
    return DeltaLake(str(directory)) if lake == "delta" else IcebergTable(str(directory), sink)


def rows_of(lake: str, directory: Path | str, sink: str) -> list[dict[str, Any]]:
    """What the table says, read by its own library and by nothing of ours."""
    if lake == "delta":
        found = DeltaTable(str(directory)).to_pyarrow_table()
    else:
        catalog = SqlCatalog("resurge", uri=f"sqlite:///{directory}/{CATALOG}")
        found = catalog.load_table(f"resurge.{sink}").scan().to_arrow()
        catalog.close()
    return sorted(found.to_pylist(), key=lambda row: (row["_key"], row["_window_start"]))


def version_of(lake: str, directory: Path | str, sink: str) -> object:
    """Another one after every commit."""
    if lake == "delta":
        return DeltaTable(str(directory)).version()
    catalog = SqlCatalog("resurge", uri=f"sqlite:///{directory}/{CATALOG}")
    location = catalog.load_table(f"resurge.{sink}").metadata_location
    catalog.close()
    return location
