"""A fragment: the part of a plan that runs in one place, with named inputs and outputs. What an engine runs."""

from __future__ import annotations

from dataclasses import dataclass

from shared.language.schema import Schema
from shared.plan.graph import Node
from shared.plan.stream_type import StreamType


@dataclass(frozen=True, slots=True)
class Input:
    """Rows enter under `name` and stand for the output of node `node`.

    `schema` is what is pushed. Where it lacks `device` but `type.schema` has it (a device's own sensors), the engine
    adds the constant column where something reads it.
    """

    name: str
    node: int
    schema: Schema
    type: StreamType


@dataclass(frozen=True, slots=True)
class Output:
    """Rows that node `node` puts out leave under `name`. `kind`: gather, sync, sync_back, subscribe, feed, request, or
    edge (to another vertex)."""

    name: str
    node: int
    kind: str
    schema: Schema  # as handed out: a device's sync or gather lacks `device`


@dataclass(frozen=True, slots=True)
class Fragment:
    """`nodes` are in topological order and read each other or the inputs' nodes, by id."""

    name: str
    side: str  # device | region | cloud
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]

    def input(self, name: str) -> Input:
        return next(entry for entry in self.inputs if entry.name == name)


@dataclass(frozen=True, slots=True)
class Vertex:
    """A piece of a side that is placed, recorded and recovered by itself. On the cloud: a fragment without re-keying
    inside, what Spark runs per epoch and hash range of `key`. In the region: what one node hosts."""

    fragment: Fragment
    key: tuple[str, ...]
    deterministic: bool
    merge: str  # ordered | logged | arrival
    idle_after_us: int | None = None

    @property
    def name(self) -> str:
        return self.fragment.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of sync or gather edges, of other vertices' output edges, or "feedback NAME"."""
        return tuple(entry.name for entry in self.fragment.inputs)

    @property
    def operators(self) -> tuple[Node, ...]:
        return self.fragment.nodes

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.fragment.outputs)
