"""The plan: a directed graph of numbered operators, with the user's source line for each."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.errors import UsageError
from shared.language.expressions import Value
from shared.language.schema import Schema
from shared.plan.contracts import Contract
from shared.plan.operators import Appended, Feed, Feedback, Gather, Operator, Sensor, Subscribe, Sync, SyncBack
from shared.plan.stream_type import StreamType, without_device

GATHER_BYTES = 65_536  # at which a batch of a gather edge closes


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where in the user's program an operator was written. File is a name, never a whole path: plans travel."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f"  `{self.text}`" if self.text else "")


class ErrorAtLine(UsageError):
    """A usage error that says where in the user's program it is."""


def at_line(error: UsageError, line: SourceLine) -> UsageError:
    """The same error, saying where in the user's program it is, once."""
    return error if isinstance(error, ErrorAtLine) else ErrorAtLine(f"{error.message}, at {line}", code=error.code)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator in a plan. `inputs` are ids of the nodes it reads, port by port; `type` is what it puts out."""

    id: int
    operator: Operator
    inputs: tuple[int, ...]
    type: StreamType
    line: SourceLine

    @property
    def schema(self) -> Schema:
        return self.type.schema


@dataclass(frozen=True, slots=True)
class SyncEdge:
    """A numbered edge to the region or the cloud, as device, wire and gateway need to know it."""

    name: str
    schema: Schema  # on the wire: without `device`, unless rows of several devices have met
    batch_rows: int
    batch_bytes: int
    within_us: int
    codec: str
    evict: str
    priority: int
    deadline_us: int | None
    contract: Contract
    missing: tuple[tuple[str, Value], ...] = ()  # what stands in for columns that older forms of it lack


@dataclass(frozen=True, slots=True)
class Plan:
    """What a program means. Nodes are in topological order, ids ascending; feedback edges go by name, not by input.

    `version` grows with every change an operator deploys; a device takes a plan only if its version is higher.
    """

    nodes: tuple[Node, ...]
    version: int = 1
    name: str = "plan"
    _by_id: dict[int, Node] = field(init=False, repr=False, compare=False, default_factory=dict)

    _met: set[int] = field(init=False, repr=False, compare=False, default_factory=set)

    def __post_init__(self) -> None:
        self._by_id.update((node.id, node) for node in self.nodes)
        self._met.update(_behind_gathers(self.nodes))

    def node(self, number: int) -> Node:
        return self._by_id[number]

    def consumers(self, number: int) -> tuple[Node, ...]:
        """The nodes that read this one, in order."""
        return tuple(node for node in self.nodes if number in node.inputs)

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return tuple(node.operator for node in self.nodes if isinstance(node.operator, Sensor))

    @property
    def appended(self) -> tuple[Appended, ...]:
        return tuple(node.operator for node in self.nodes if isinstance(node.operator, Appended))

    def met(self, number: int) -> bool:
        """Whether rows of several devices may have met before this node's output: there is a gather on a way to it."""
        return number in self._met

    @property
    def edges(self) -> tuple[SyncEdge, ...]:
        return tuple(
            SyncEdge(
                name=node.operator.name,
                schema=self._sent_schema(node.inputs[0]),
                batch_rows=node.operator.batch_rows,
                batch_bytes=node.operator.batch_bytes,
                within_us=node.operator.within_us,
                codec=node.operator.codec,
                evict=node.operator.evict,
                priority=node.operator.priority,
                deadline_us=node.operator.deadline_us,
                contract=node.operator.contract,
                missing=node.operator.missing,
            )
            for node in self.nodes
            if isinstance(node.operator, Sync)
        )

    def _sent_schema(self, number: int) -> Schema:
        schema = self._by_id[number].schema
        return schema if self.met(number) else without_device(schema)

    @property
    def gathers(self) -> tuple[SyncEdge, ...]:
        """The edges from device to region. Nodes there keep up or make the device wait: nothing is given up."""
        return tuple(
            SyncEdge(
                name=node.operator.name,
                schema=without_device(node.schema),
                batch_rows=node.operator.batch_rows,
                batch_bytes=GATHER_BYTES,
                within_us=node.operator.within_us,
                codec="auto",
                evict="block",
                priority=0,
                deadline_us=None,
                contract=node.operator.contract,
            )
            for node in self.nodes
            if isinstance(node.operator, Gather)
        )

    @property
    def sinks(self) -> tuple[Node, ...]:
        """Every node whose rows leave the plan: sync_back and subscribe."""
        return tuple(node for node in self.nodes if isinstance(node.operator, SyncBack | Subscribe))

    def sink(self, name: str) -> Node:
        for node in self.sinks:
            if isinstance(node.operator, SyncBack | Subscribe) and node.operator.name == name:
                return node
        known = ", ".join(
            node.operator.output_name for node in self.sinks if isinstance(node.operator, SyncBack | Subscribe)
        )
        raise UsageError(f"the plan has no sink {name!r} (has: {known})", code="plan-sink")


def _behind_gathers(nodes: tuple[Node, ...]) -> set[int]:
    """The gathers and all that reads them, also by way of a feedback."""
    found = {node.id for node in nodes if isinstance(node.operator, Gather)}
    fed: set[str] = set()
    before = -1
    while found and len(found) > before:
        before = len(found)
        for node in nodes:
            if not found.isdisjoint(node.inputs) or (isinstance(node.operator, Feedback) and node.operator.name in fed):
                found.add(node.id)
                if isinstance(node.operator, Feed):
                    fed.add(node.operator.name)
    return found
