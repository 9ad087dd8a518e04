"""What the pipeline asks of every running operator.

Rows and progress come in through numbered ports. State is handed out whole (`dump`) or as what changed since the last
time it was handed out (`changes`), and put back by `load` and `apply`. An operator whose state is small and whole may
leave `changes` as it is: then a change set carries its full state, and only if it was touched. What stays of a dumped
state for a choice of keys is its own knowledge too (`cut`).

A large state is handed out whole in pieces: change sets that also say a part of what has not changed (`say_again`).
Put into a fresh operator in their order, the sets from the first piece on give the state after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.engine.frontiers import Frontiers, least
from shared.engine.key_choice import KeyChoice
from shared.engine.keys import KeyIndex
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.plan.graph import Node
from shared.plan.stream_type import DEVICE, StreamType


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an operator in a fragment, from which its running form is made."""

    node: Node
    inputs: Sequence[StreamType]
    wanted: frozenset[str]  # the columns of its output that anybody reads


def key_of(source: StreamType) -> KeyIndex:
    return KeyIndex(source.key, tuple(source.schema.kind(name) for name in source.key))


class Operator:
    """An operator without state: every row by itself, time passes through."""

    key: KeyIndex | None = None  # of an operator with a state for each key
    late_dropped = 0  # rows that came too late to be taken

    def push(self, port: int, rows: Rows) -> list[Rows]:
        raise NotImplementedError

    def advance(self, port: int, progress: Progress) -> tuple[list[Rows], Progress | None]:
        return [], progress

    def dump(self) -> Value:
        return None

    def load(self, state: Value) -> None:
        pass

    def changes(self) -> Value:
        return None

    def apply(self, changes: Value) -> None:
        pass

    def say_again(self, part: int, parts: int) -> None:
        """Let the next change set also say one part of so many: the keys whose numbers leave this rest, and with the
        first part all that has no key."""

    def retain(self, choice: KeyChoice) -> None:
        """Take every key that is not chosen out of the state."""

    def distinct_keys(self, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
        """The different values of these columns among its keys; none where its keys do not carry them."""
        if self.key is None or not all(name in self.key.names for name in columns):
            return []
        places = [self.key.names.index(name) for name in columns]
        return list(dict.fromkeys(tuple(each[place] for place in places) for each in self.key.values))


class Stateful(Operator):
    """Keeps the frontiers of its inputs. Subclasses answer `passed` once they have moved, and set `touched`."""

    def __init__(self, ports: int) -> None:
        self.inputs = [Frontiers() for _ in range(ports)]
        self.frontier = Frontiers()  # what holds on all inputs
        self.touched = True

    def advance(self, port: int, progress: Progress) -> tuple[list[Rows], Progress | None]:
        if len(self.inputs) == 1:
            if not self.frontier.advance(progress):
                return [], None
            return self.passed(progress), self.outward(progress)
        floor_us = self.inputs[port].floor_us
        if self.inputs[port].advance(progress):
            self.touched = True  # also where nothing follows yet: whoever goes on needs to know it of this input
        # Where no floor rose only the devices named in the news may have moved, and there may be very many others.
        common = least(self.inputs, progress.devices if self.inputs[port].floor_us == floor_us else None)
        if not self.frontier.advance(common):
            return [], None
        return self.passed(common), self.outward(common)

    def passed_by(self, rows: Rows) -> list[Rows]:
        """What goes out at once because these rows, now held, came behind the frontier: it may never move again."""
        if not len(rows) or (int(rows.time.min()) >= self.frontier.floor_us and not self.frontier.devices):
            return []
        behind = rows.time < self.frontier.of_rows(rows.columns.get(DEVICE), len(rows))
        return self.passed(Progress(self.frontier.floor_us)) if behind.any() else []

    def passed(self, progress: Progress) -> list[Rows]:
        """What goes out because time has come this far."""
        raise NotImplementedError

    def outward(self, progress: Progress) -> Progress:
        """What this means for whoever reads the output."""
        return progress

    def dump_frontiers(self, *, since_mark: bool = False) -> Value:
        """All of them, or what moved since they were last dumped."""
        return [[one.dump(since_mark=since_mark) for one in self.inputs], self.frontier.dump(since_mark=since_mark)]

    def load_frontiers(self, state: Value) -> None:
        inputs, frontier = state
        for one, dumped in zip(self.inputs, inputs, strict=True):
            one.load(dumped)
        self.frontier.load(frontier)

    def say_frontiers_again(self, part: int, parts: int) -> None:
        for one in (*self.inputs, self.frontier):
            one.say_again(part, parts)

    def changes(self) -> Value:
        if not self.touched:
            return None
        self.touched = False
        return self.dump()

    def apply(self, changes: Value) -> None:
        if changes is not None:
            self.load(changes)
            self.touched = False

    def say_again(self, part: int, parts: int) -> None:
        self.touched |= part == 0

    def retain(self, choice: KeyChoice) -> None:
        if self.key is None or all(name in self.key.names for name in choice.columns):
            self.load(self.cut(self.dump(), choice))

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        """A dumped state without the keys that are not chosen."""
        raise NotImplementedError


class ChangesByPart(Stateful):
    """Hands out as changes only the part that changed: ["all", state] the first time, then ["some", that part]."""

    def apply(self, changes: Value) -> None:
        kind, state = changes
        if kind == "all":
            self.load(state)
        else:
            self._load(state)

    def say_again(self, part: int, parts: int) -> None:
        raise NotImplementedError

    def _load(self, state: Value) -> None:
        """Put a part beside what is there; `load` forgets what is there first."""
        raise NotImplementedError
