"""One vertex with the production machine in it, as positions: what it has taken, made, and what its keeper holds."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from random import Random

from shared.recovery.checkpoints import Checkpoints, Extend, Freeze, Mark, MarkId, Pending, Permanent, Store
from shared.recovery.strategies.row import Row
from tests.shared.recovery.positions.graphs import Graph


class Weighed(Checkpoints):
    """Whether extending is cheaper is said by the schedule, so that both answers are tried."""

    cheap = False

    @property
    def load(self) -> int:
        return 1 << 40 if self.cheap else 0


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot at the keeper: positions, and the ranges of outputs that were copied beside the state."""

    id: MarkId | None
    inputs: dict[str, int]
    heads: dict[str, int]
    made: int
    extension: dict[str, tuple[int, int]]

    def start(self, edge: str) -> int:
        return self.extension[edge][0] if edge in self.extension else self.heads[edge]

    def permanent(self) -> Permanent:
        return Permanent(self.id, self.inputs, self.heads, {edge: self.start(edge) for edge in self.heads})


class Instance:
    """Driver of one machine. Deterministic: the heads of its outputs follow from what it has taken and made."""

    def __init__(
        self, graph: Graph, vertex: int, row: Row, every: int, term: int = 0, kept: Kept | None = None
    ) -> None:
        self.graph, self.vertex, self.row, self.every, self.term = graph, vertex, row, every, term
        ins = [graph.names[n] for n in graph.ins[vertex]]
        outs = [graph.names[n] for n in graph.outs[vertex]]
        self.kept = kept or Kept(None, dict.fromkeys(ins, 0), dict.fromkeys(outs, 0), 0, {})
        self.is_source = vertex in graph.sources
        self.machine = Weighed(
            row, ins, outs, graph.back, every, name=str(vertex), random=Random(0), term=term,
            permanent=self.kept.permanent() if kept else None, source=self.is_source,
        )  # fmt: skip
        self.taken = dict(self.kept.inputs)
        self.made = self.kept.made
        self.frozen: dict[MarkId, Kept] = {}
        self.storing: Store | None = None
        self.froze_for: tuple[MarkId, ...] = ()  # in this term
        self.froze_twice = False

    def heads(self) -> dict[str, int]:
        silent = {self.graph.names[n] for n in self.graph.silent}
        count = self.made + sum(taken for edge, taken in self.taken.items() if edge not in silent)
        return dict.fromkeys(self.machine.outputs, count)

    def trim(self, edge: str) -> int:
        return self.machine._through[edge]

    def _freeze(self, freeze: Freeze | None) -> list[tuple[str, Mark]]:
        if freeze is None:
            return []
        self.froze_twice |= freeze.id in self.froze_for
        self.froze_for += (freeze.id,)
        self.frozen[freeze.id] = Kept(freeze.id, dict(self.taken), self.heads(), self.made, {})
        return self.machine.froze(freeze.id, dict(self.taken), self.heads(), size=1)

    def _after(self) -> None:
        for event in self.machine.events():
            if isinstance(event, Store):
                self.storing = event
        self.frozen = {id: kept for id, kept in self.frozen.items() if id in self.machine.pending}

    def make(self) -> list[tuple[str, Mark]]:
        self.made += 1
        marks = self._freeze(self.machine.elements(1))
        self._after()
        return marks

    def take(self, edge: str) -> list[tuple[str, Mark]]:
        self.taken[edge] += 1
        # A source counts what it makes, not the feedback it takes.
        marks = self._freeze(None if self.is_source else self.machine.elements(1, edge=edge, size=1))
        self._after()
        return marks

    def mark(self, edge: str, mark: Mark, *, cheap: bool) -> tuple[list[tuple[str, Mark]], Extend | None]:
        self.machine.cheap = cheap
        answer = self.machine.mark(edge, mark)
        marks = self._freeze(answer) if isinstance(answer, Freeze) else []
        self._after()
        return marks, answer if isinstance(answer, Extend) else None

    def receipt(self, edge: str, through: int) -> None:
        self.machine.receipt(edge, through)
        self._after()

    def extended(self, edge: str, extend: Extend) -> None:
        self.machine.extended(edge, extend.id, extend.wait)
        self._after()

    def stored(self) -> None:
        """The keeper has it, and has said so."""
        store = self.storing
        if store is not None:
            self.storing = None
            self.kept = self._at_keeper(store)
            self.machine.stored(store.id)
            self._after()

    def _at_keeper(self, store: Store) -> Kept:
        frozen = self.frozen[store.id]
        return Kept(frozen.id, frozen.inputs, frozen.heads, frozen.made, dict(store.extension))

    def restarted(self, *, keeper_had_it: bool) -> Instance:
        """After a crash. A snapshot on its way to the keeper may have arrived, or not."""
        kept = self._at_keeper(self.storing) if keeper_had_it and self.storing else self.kept
        return Instance(self.graph, self.vertex, self.row, self.every, self.term + 1, kept)

    def clone(self) -> Instance:
        other = copy(self)
        other.taken, other.frozen = dict(self.taken), dict(self.frozen)
        other.machine = copy(self.machine)
        for name, value in vars(other.machine).items():
            if isinstance(value, dict | set | list):
                setattr(other.machine, name, copy(value))
        pending = [_copied(each) for each in self.machine._pending]
        storing = self.machine._storing
        if storing is not None:
            other.machine._storing = pending[self.machine._pending.index(storing)]
        other.machine._pending = pending
        return other

    def key(self) -> tuple[object, ...]:
        """Equal for instances that will do the same for ever."""
        machine = [
            _plain(value) for name, value in sorted(vars(self.machine).items()) if name not in _CONSTANT_OR_WEIGHED
        ]
        mine = (self.taken, self.frozen, self.storing, self.froze_for, self.kept)
        return (self.term, self.made, self.froze_twice, *map(_plain, mine), *machine)


_CONSTANT_OR_WEIGHED = {
    "row", "inputs", "outputs", "back", "cheap", "_strategy", "_random", "_begins", "_every", "_initiator",
    "_received", "_own_load", "_load_of", "_taken",
}  # fmt: skip


def _copied(pending: Pending) -> Pending:
    other = copy(pending)
    other.waits, other.recording, other.recorded = dict(pending.waits), set(pending.recording), dict(pending.recorded)
    return other


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return tuple(sorted((str(key), _plain(each)) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, set):
        return tuple(sorted(map(str, value)))
    if is_dataclass(value):
        return tuple(_plain(getattr(value, each.name)) for each in fields(value) if each.name != "received")
    return value
