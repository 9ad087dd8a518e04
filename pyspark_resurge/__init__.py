"""Spark looks for data sources in packages of this name: with it installed, `spark.read.format("resurge")` works."""

from cloud_backend.dataframes.source import ResurgeSource as DefaultSource

__all__ = ["DefaultSource"]
