"""Vertices, edges with elements, marks and answers on the way, crashes: production machines under any schedule.

A state is a tuple of numbers, so that every schedule can be tried: each vertex's instance is kept once by what it will do,
and what happens to it is computed once. Elements on the way are not stored: a reader can take one when its producer's head is
beyond what it has taken. Receipts are cumulative, so delivering one late is not delivering it yet.

Checkers look at every state. They are the promises of docs/recovery.md, by name:

* RelaxedConsistency: what a permanent snapshot can send again begins no later than its reader's permanent snapshot asks.
* TrimNeverPassesAReader: nothing was trimmed that a reader's permanent snapshot would ask for.
* OneSnapshotPerMark: an instance freezes once for an id.
* PermanentRestores: what the keeper holds is what the machine says a restart will have.
* PendingDrains: when nothing is left to happen, nothing is pending.
* Terminates: it comes to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from shared.recovery.checkpoints import Extend, Mark
from shared.recovery.strategies.row import Row
from tests.shared.recovery.positions.graphs import Graph
from tests.shared.recovery.positions.instance import Instance


class Broken(AssertionError):
    """A checker's promise does not hold."""

    def __init__(self, checker: str, detail: str) -> None:
        super().__init__(f"{checker}: {detail}")
        self.checker = checker


class State(NamedTuple):
    """All numbers: of instances by vertex, of queues of marks and of Extends by edge, of crashes that may still happen."""

    instances: tuple[int, ...]
    marks: tuple[int, ...]
    extends: tuple[int, ...]
    crashes: int


class Action(NamedTuple):
    what: str
    vertex: int
    edge: int = -1
    argument: object = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What others can see of an instance; edges by number."""

    made: int
    taken: dict[int, int]
    heads: dict[int, int]
    trims: dict[int, int]
    asks: dict[int, int]  # by input: the permanent snapshot's position
    starts: dict[int, int]  # by output: where what the keeper holds begins
    through: dict[int, int]
    storing: bool
    pending: int


class World:
    def __init__(
        self, graph: Graph, row: Row, *, elements: int, every: int, crashes: int = 0, prompt: bool = False
    ) -> None:
        """Sources make so many elements each. Prompt keepers and answers cost no step of their own: fewer schedules."""
        self.graph, self.row, self.elements, self.prompt = graph, row, elements, prompt
        self._instances: list[Instance] = []
        self._seen: list[Seen] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next: dict[tuple[object, ...], tuple[int, tuple[tuple[int, Mark], ...], Extend | None]] = {}
        self._queues: list[tuple[Mark | Extend, ...]] = []
        self._queue_numbers: dict[tuple[Mark | Extend, ...], int] = {}
        self._ways: dict[tuple[int, ...], list[Action]] = {}
        self._number_of = {name: n for n, name in enumerate(graph.names)}
        first = tuple(self._intern(Instance(graph, v, row, every)) for v in range(graph.vertices))
        nothing = (self._queue(()),) * len(graph.edges)
        self.start = State(first, nothing, nothing, crashes)

    def _queue(self, messages: tuple[Mark | Extend, ...]) -> int:
        number = self._queue_numbers.setdefault(messages, len(self._queues))
        if number == len(self._queues):
            self._queues.append(messages)
        return number

    # One vertex.

    def _intern(self, instance: Instance) -> int:
        key = (instance.vertex, instance.key())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._instances)
            self._instances.append(instance)
            self._seen.append(self._look(instance))
        return number

    def _look(self, instance: Instance) -> Seen:
        if instance.froze_twice:
            raise Broken("OneSnapshotPerMark", f"vertex {instance.vertex} froze for {instance.froze_for}")
        machine, number = instance.machine, self._number_of
        if instance.kept.id is not None and instance.kept.permanent() != machine.permanent:
            raise Broken("PermanentRestores", f"{instance.kept} is not {machine.permanent}")
        return Seen(
            instance.made,
            {number[edge]: taken for edge, taken in instance.taken.items()},
            {number[edge]: head for edge, head in instance.heads().items()},
            {number[edge]: instance.trim(edge) for edge in machine.outputs},
            {number[edge]: position for edge, position in instance.kept.inputs.items()},
            {number[edge]: instance.kept.start(edge) for edge in machine.outputs},
            {number[edge]: machine.through(edge) for edge in machine.inputs},
            instance.storing is not None,
            len(machine.pending),
        )

    def _step(
        self, number: int, what: str, edge: int, argument: object
    ) -> tuple[int, tuple[tuple[int, Mark], ...], Extend | None]:
        """What happens to an instance: its next number, marks it sends, its answer to a mark. Computed once."""
        key = (number, what, edge, argument)
        known = self._next.get(key)
        if known is None:
            instance = self._instances[number].clone()
            name = self.graph.names[edge] if edge >= 0 else ""
            marks: list[tuple[str, Mark]] = []
            extend = None
            if what == "make":
                marks = instance.make()
            elif what == "take":
                marks = instance.take(name)
            elif what in {"mark", "mark, answer lost"}:
                mark, cheap = argument  # type: ignore[misc]
                marks, extend = instance.mark(name, mark, cheap=cheap)
            elif what == "receipt":
                instance.receipt(name, argument)  # type: ignore[arg-type]
            elif what == "extended":
                instance.extended(name, argument)  # type: ignore[arg-type]
            elif what == "stored":
                instance.stored()
            else:
                instance = instance.restarted(keeper_had_it=bool(argument))
            sent = tuple((self._number_of[edge_name], mark) for edge_name, mark in marks)
            known = self._next[key] = (self._intern(instance), sent, extend)
        return known

    # All of them.

    def actions(self, state: State) -> list[Action]:
        """Everything that can happen next, but crashes."""
        instances, marks, extends, _ = state
        found: list[Action] = []
        for v in range(self.graph.vertices):
            found += self._ways.get((v, instances[v])) or self._alone(v, instances[v])
        for n, (x, y) in enumerate(self.graph.edges):
            key = (n, instances[x], instances[y], marks[n], extends[n])
            ways = self._ways.get(key)
            found += self._on_edge(*key) if ways is None else ways
        return found

    def _alone(self, v: int, number: int) -> list[Action]:
        seen = self._seen[number]
        found = [Action("make", v)] if v in self.graph.sources and seen.made < self.elements else []
        found += [Action("stored", v)] if seen.storing else []
        self._ways[v, number] = found
        return found

    def _on_edge(self, n: int, writer_number: int, reader_number: int, marks: int, extends: int) -> list[Action]:
        (x, y), found = self.graph.edges[n], []
        writer, reader, queue = self._seen[writer_number], self._seen[reader_number], self._queues[marks]
        if queue and queue[0].position <= reader.taken[n]:  # type: ignore[union-attr]
            found.append(Action("mark", y, n, False))
            if self.row.extends:
                found.append(Action("mark", y, n, True))
        elif reader.taken[n] < writer.heads[n]:
            found.append(Action("take", y, n))
        if reader.through[n] > writer.trims[n]:
            found.append(Action("receipt", x, n))
        if self._queues[extends]:
            found.append(Action("extended", x, n))
        self._ways[n, writer_number, reader_number, marks, extends] = found
        return found

    def crashes(self, state: State) -> Iterator[Action]:
        if state.crashes:
            for v in range(self.graph.vertices):
                yield Action("crash", v, -1, False)
                if self._seen[state.instances[v]].storing:
                    yield Action("crash", v, -1, True)

    def after(self, state: State, action: Action) -> State:
        """The state after an action, checked."""
        graph, (what, v, n, argument) = self.graph, action
        marks, extends = list(state.marks), list(state.extends)
        if what in {"mark", "mark, answer lost"}:
            mark, *others = self._queues[marks[n]]
            argument = (mark, argument)
            if what == "mark":
                marks[n] = self._queue(tuple(others))
        elif what == "receipt":
            argument = self._seen[state.instances[graph.edges[n][1]]].through[n]
        elif what == "extended":
            argument, *others = self._queues[extends[n]]
            extends[n] = self._queue(tuple(others))
        number, sent, extend = self._step(state.instances[v], what, n, argument)
        if extend is not None and what == "mark":
            extends[n] = self._queue(tuple(sorted({*self._queues[extends[n]], extend}, key=repr)))
        for edge, mark in sent:
            marks[edge] = self._queue((*self._queues[marks[edge]], mark))
        instances = list(state.instances)
        instances[v] = number
        if what == "crash":
            for edge in graph.outs[v]:
                marks[edge] = extends[edge] = self._queue(())
            for edge in graph.ins[v]:
                writer = self._instances[instances[graph.edges[edge][0]]].machine
                marks[edge] = self._queue(tuple(writer.marks_to_send(graph.names[edge])))
        following = State(tuple(instances), tuple(marks), tuple(extends), state.crashes - (what == "crash"))
        if number != state.instances[v]:
            self._check(following, v)
        if self.prompt:
            if extend is not None and what == "mark":
                return self.after(following, Action("extended", graph.edges[n][0], n))
            if self._seen[number].storing:
                return self.after(following, Action("stored", v))
        return following

    def _check(self, state: State, changed: int) -> None:
        for n in (*self.graph.ins[changed], *self.graph.outs[changed]):
            x, y = self.graph.edges[n]
            writer, reader = self._seen[state.instances[x]], self._seen[state.instances[y]]
            if writer.trims[n] > reader.asks[n]:
                raise Broken("TrimNeverPassesAReader", f"edge {n}: trimmed {writer.trims[n]}, asks {reader.asks[n]}")
            if writer.starts[n] > reader.asks[n]:
                raise Broken("RelaxedConsistency", f"edge {n}: starts {writer.starts[n]}, asks {reader.asks[n]}")

    def check_end(self, state: State) -> None:
        """Nothing is left to happen."""
        waiting = {v: self._instances[number].machine.pending for v, number in enumerate(state.instances)}
        if any(waiting.values()):
            raise Broken("PendingDrains", f"{waiting}")

    def _enough(self, state: State) -> list[Action]:
        """Actions that stand for all of them: one alone where it makes no difference whether it comes first.

        Without a crash to come, that is an element made by a source that only makes (its readers' answers are about earlier
        ones), and an element taken from the only input (what is taken between two marks is decided by their places)."""
        actions = self.actions(state)
        if not state.crashes:
            for action in actions:
                alone = len(self.graph.ins[action.vertex]) == (0 if action.what == "make" else 1)
                if (
                    alone
                    and action.what in {"make", "take"}
                    and not self._instances[state.instances[action.vertex]].term
                ):
                    return [action]
        return actions

    # Schedules.

    def every_schedule(self, states_max: int) -> int:
        """Tries all of them; the number of states. Each state once, so a cycle of states would never end: there must be none
        from which no end is reached, which holds because every action but a crash uses something up."""
        seen = {self.start}
        waiting = [self.start]
        while waiting:
            state = waiting.pop()
            following = [self.after(state, action) for action in self._enough(state)]
            if not following:
                self.check_end(state)
            following += [self.after(state, action) for action in self.crashes(state)]
            for each in following:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
            if len(seen) > states_max:
                raise Broken("Terminates", f"more than {states_max} states")
        return len(seen)

    def random_schedule(self, random: Random, steps_max: int = 20_000) -> tuple[int, State]:
        """One of them; the steps it took, and its end."""
        state = self.start
        for step in range(steps_max):
            choices = list(self.actions(state))
            crashes = list(self.crashes(state)) if random.random() < 0.02 or not choices else []
            if not choices and not crashes:
                self.check_end(state)
                return step, state
            action = random.choice(crashes or choices)
            if action.what == "mark" and random.random() < 0.1:  # it will come again
                action = action._replace(what="mark, answer lost")
            state = self.after(state, action)
        raise Broken("Terminates", f"not within {steps_max} steps")
