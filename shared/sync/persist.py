"""What a sender asks its driver to make durable, before the same step's bodies are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shared.identity import EdgeId
from shared.language.schema import Schema
from shared.wire.messages import Result


@dataclass(frozen=True, slots=True)
class SyncSpool:
    """Sync the spool: `spool.sync()`."""


@dataclass(frozen=True, slots=True)
class StoreEdge:
    """Remember this declaration: entries of this edge may outlive the plan that made it. Hand it back at start."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class StoreResults:
    """Apply these results and remember `through`, in one durable write: both or neither."""

    through: int
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class StorePlan:
    version: int
    plan: bytes


@dataclass(frozen=True, slots=True)
class StoreContact:
    """The gateway's high water of this edge fits the spool: numbered entries may go from now on.

    A driver that can be stopped before its first contact keeps the heads its spool had at the first start since
    the last contact, and hands them in as `reaches`: that is how an old copy is recognised after a restart, too.
    """

    edge: EdgeId


Persist: TypeAlias = SyncSpool | StoreEdge | StoreResults | StorePlan | StoreContact
