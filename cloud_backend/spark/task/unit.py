"""A piece of a task's input: the least that is left out when an operator cannot bear it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.batch import Batch


@dataclass(frozen=True, slots=True)
class Unit:
    edge: str
    batch: Batch
    device: str | None = None  # whose batch it is; None: rows of another vertex, or of several devices
    incarnation: int | None = None
    ordinal: int = 0  # its place among the records of the epoch's slice of the log
    divisible: bool = False  # rows of another vertex: search for the single row
    parts: tuple[Unit, ...] = ()  # the devices' batches that were joined into this one
