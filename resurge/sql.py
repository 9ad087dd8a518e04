"""`resurge.sql`: the query language of programs is that of the cloud; see `cloud_backend.coordinator.sql`."""

from __future__ import annotations

from cloud_backend.coordinator.sql import sql

__all__ = ["sql"]
