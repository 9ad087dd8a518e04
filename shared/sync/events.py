"""What a sender tells the program. The disconnection is visible; what the program does about it is its own affair."""

from __future__ import annotations

from typing import NamedTuple

from shared.identity import EdgeId
from shared.wire.broadcast import Bitmap
from shared.wire.messages import DeploymentMessage, Extend, Hint, PlanWithheld, Result
from shared.wire.passed import PassMessage


class Disconnected(NamedTuple):
    at: float
    code: str


class Reconnected(NamedTuple):
    at: float
    outage_s: float


class ReceiptReceived(NamedTuple):
    edge: EdgeId
    through: int
    load: int = 0  # bytes of a snapshot of its reader, and of those behind it


class ResultArrived(NamedTuple):
    result: Result


class PlanArrived(NamedTuple):
    version: int
    plan: bytes


class DeploymentArrived(NamedTuple):
    """What to run in a fleet; without a deployment in it, the question what this node follows."""

    message: DeploymentMessage


class PlanWasWithheld(NamedTuple):
    withheld: PlanWithheld


class HintArrived(NamedTuple):
    hint: Hint


class Refused(NamedTuple):
    code: str
    text: str


class Extended(NamedTuple):
    extend: Extend


class BitmapArrived(NamedTuple):
    bitmap: Bitmap


class PassArrived(NamedTuple):
    """Another node has something for this one, and the gateway passed it on."""

    message: PassMessage


class ReaderRestored(NamedTuple):
    """The vertex that reads this edge runs under another term: it knows nothing of marks that were on their way."""

    edge: EdgeId
    term: int
