"""What a sender asks its driver to store, and what it tells the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shared.identity import EdgeId
from shared.stream.schema import Schema
from shared.wire.messages import Hint, Result


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
    """The gateway's mark of this edge fits the spool: numbered entries may go from now on.

    A driver that can be stopped before its first contact keeps the heads its spool had at the first start since
    the last contact, and hands them in as `reaches`: that is how an old copy is recognised after a restart, too.
    """

    edge: EdgeId


Persist: TypeAlias = SyncSpool | StoreEdge | StoreResults | StorePlan | StoreContact


# What the program may want to know. The disconnection is visible; what it does about it is its own affair.


@dataclass(frozen=True, slots=True)
class Disconnected:
    at: float
    code: str


@dataclass(frozen=True, slots=True)
class Reconnected:
    at: float
    outage_s: float


@dataclass(frozen=True, slots=True)
class ReceiptReceived:
    edge: EdgeId
    through: int


@dataclass(frozen=True, slots=True)
class ResultArrived:
    result: Result


@dataclass(frozen=True, slots=True)
class PlanArrived:
    version: int
    plan: bytes


@dataclass(frozen=True, slots=True)
class HintArrived:
    hint: Hint


@dataclass(frozen=True, slots=True)
class Refused:
    code: str
    text: str
