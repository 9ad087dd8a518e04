"""What the pipeline asks of every running operator.

Rows and progress come in through numbered ports. State is handed out whole (`dump`) or as what changed since the last
time it was handed out (`changes`), and put back by `load` and `apply`. An operator whose state is small and whole may
leave `changes` as it is: then a change set carries its full state, and only if it was touched.
"""

from __future__ import annotations

from shared.engine.rows import Frontiers, Progress, Rows, least
from shared.engine.snapshots import Value


class Operator:
    """An operator without state: every row by itself, time passes through."""

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
        self.inputs[port].advance(progress)
        common = least(self.inputs)
        if not self.frontier.advance(common):
            return [], None
        return self.passed(common), self.outward(common)

    def passed(self, progress: Progress) -> list[Rows]:
        """What goes out because time has come this far."""
        raise NotImplementedError

    def outward(self, progress: Progress) -> Progress:
        """What this means for whoever reads the output."""
        return progress

    def dump_frontiers(self) -> Value:
        return [[one.dump() for one in self.inputs], self.frontier.dump()]

    def load_frontiers(self, state: Value) -> None:
        inputs, frontier = state
        for one, dumped in zip(self.inputs, inputs, strict=True):
            one.load(dumped)
        self.frontier.load(frontier)

    def changes(self) -> Value:
        if not self.touched:
            return None
        self.touched = False
        return self.dump()

    def apply(self, changes: Value) -> None:
        if changes is not None:
            self.load(changes)
            self.touched = False


class ChangesByPart(Stateful):
    """Hands out as changes only the part that changed: ["all", state] the first time, then ["some", that part]."""

    def apply(self, changes: Value) -> None:
        kind, state = changes
        if kind == "all":
            self.load(state)
        else:
            self._load(state)

    def _load(self, state: Value) -> None:
        """Put a part beside what is there; `load` forgets what is there first."""
        raise NotImplementedError
