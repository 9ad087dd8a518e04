"""What a host is handed and hands out: exchanges with other nodes, and what its driver should know."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from shared.identity import DeviceId
from shared.recovery.marks import MarkId
from shared.sync.receiver import Arrival


class Ask(NamedTuple):
    """An exchange to send to a node. Its answer comes back as `Answer`, or `Unreachable`."""

    node: str
    body: bytes
    follows: bool = False  # on one that is not answered yet
    by: str = ""  # way of this node, or the gateway: the usual lane is broken


class Answer(NamedTuple):
    node: str
    body: bytes | memoryview
    urgent: bool = False  # it came by way of another node, or the gateway


class Unreachable(NamedTuple):
    node: str


class Heard(NamedTuple):
    """A node has spoken to this one."""

    device: DeviceId


class PeerLost(NamedTuple):
    node: str
    code: str


class PeerBack(NamedTuple):
    node: str


class InstanceFailed(NamedTuple):
    query: str
    vertex: str
    term: int
    why: str


class Connected(NamedTuple):
    """A vertex that began again here is restored, and all its inputs go on from there."""

    query: str
    vertex: str
    term: int


class Committed(NamedTuple):
    """A snapshot became permanent."""

    query: str
    vertex: str
    term: int
    id: MarkId
    bytes: int


class SinkTook(NamedTuple):
    query: str
    sink: str
    lo: int
    hi: int


class Datagram(NamedTuple):
    """Something that was broadcast, by whomever."""

    body: bytes | memoryview


HostMessage: TypeAlias = Arrival | Answer | Unreachable | Datagram
