"""Plans that mean the same and cost less.

Applied until nothing changes, in this order, each only where the answer cannot differ by a bit:

1. *Shared work*: two operators with the same definition and inputs become one (SO-18).
2. *Filters early*: a `where` moves before a `select` that only passes its columns on, into every branch of a union,
   before a key_by, and before keyed state when it reads key columns only (keys do not influence each other). It moves
   only past operators that nothing else reads, and never across `.sync()` or `.gather()`: the cut is the program's.
3. *Fusion*: neighbouring `where`s become one condition and neighbouring `select`s one projection, unless that would
   compute something twice. No expression raises, so evaluating conditions together is safe.
4. *Columns early*: a `select` drops what nobody reads; before rows travel to another key a `select` leaves only what is
   read there. Not before a sync or gather edge, whose columns must not depend on what its reader happens to read today.

`tests/properties/test_rewrites_keep_meaning.py` runs random programs with and without.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, replace

from shared.language.expressions import DEPTH_MAX, Binary, Column, Expression, columns_of, depth_of, substitute
from shared.plan import operators as op
from shared.plan.encoding import operator_identity
from shared.plan.graph import Node, Plan, SourceLine
from shared.plan.inference import output_type
from shared.plan.stream_type import StreamType


@dataclass(frozen=True, slots=True)
class Rewritten:
    plan: Plan
    notes: tuple[str, ...]  # what was changed and where, for explanations


@dataclass(frozen=True, slots=True)
class Sketched:
    """A node while the graph is being changed: its type is inferred again at the end."""

    operator: op.Operator
    inputs: tuple[int, ...]
    line: SourceLine


def rewrite(plan: Plan) -> Rewritten:
    """The same plan, cheaper; node numbers change. Rewriting what is rewritten changes nothing."""
    sketch = _Sketch(plan)
    changed = True
    while changed:
        changed = any([sketch.share(), sketch.filter_early(), sketch.fuse(), sketch.prune()])
    return Rewritten(sketch.plan(), tuple(dict.fromkeys(sketch.notes)))


class _Sketch:
    def __init__(self, plan: Plan) -> None:
        self.original = plan
        self.steps = {node.id: Sketched(node.operator, node.inputs, node.line) for node in plan.nodes}
        self.next_id = len(plan.nodes)
        self.notes: list[str] = []

    # --- The graph ----------------------------------------------------------------------------------------------------

    def add(self, step: Sketched) -> int:
        self.steps[self.next_id] = step
        self.next_id += 1
        return self.next_id - 1

    def readers(self) -> Counter[int]:
        return Counter(number for step in self.steps.values() for number in step.inputs)

    def redirect(self, old: int, new: int) -> None:
        """Whoever read `old` reads `new`."""
        for number, step in self.steps.items():
            if old in step.inputs:
                inputs = tuple(new if source == old else source for source in step.inputs)
                self.steps[number] = replace(step, inputs=inputs)

    def ordered(self) -> list[int]:
        """Ids with inputs first, otherwise in the order in which they were written."""
        order: dict[int, None] = {}

        def visit(number: int) -> None:
            if number not in order:
                for source in self.steps[number].inputs:
                    visit(source)
                order[number] = None

        for number in sorted(self.steps):
            visit(number)
        return list(order)

    def types(self) -> dict[int, StreamType]:
        types: dict[int, StreamType] = {}
        for number in self.ordered():
            step = self.steps[number]
            inputs = tuple(types[source] for source in step.inputs)
            types[number] = output_type(step.operator, inputs, functools.partial(self._above, step, types))
        return types

    def _above(self, step: Sketched, types: dict[int, StreamType]) -> tuple[op.Operator, tuple[StreamType, ...]]:
        source = self.steps[step.inputs[0]]
        return source.operator, tuple(types[number] for number in source.inputs)

    def plan(self) -> Plan:
        types = self.types()
        numbers = {old: new for new, old in enumerate(self.ordered())}
        nodes = tuple(
            Node(
                numbers[old],
                self.steps[old].operator,
                tuple(numbers[source] for source in self.steps[old].inputs),
                types[old],
                self.steps[old].line,
            )
            for old in numbers
        )
        return Plan(nodes, version=self.original.version, name=self.original.name)

    def note(self, text: str, line: SourceLine) -> None:
        self.notes.append(f"{text} ({line.file}:{line.line})")

    # --- 1. Shared work -----------------------------------------------------------------------------------------------

    def share(self) -> bool:
        seen: dict[tuple[str, tuple[int, ...]], int] = {}
        shared = False
        for number in self.ordered():
            step = self.steps[number]
            if isinstance(step.operator, op.Source | op.End) or not step.operator.deterministic:
                continue
            identity = (operator_identity(step.operator), step.inputs)
            first = seen.setdefault(identity, number)
            if first != number:
                self.note(f"{step.operator.kind} is computed once for both uses", step.line)
                self.redirect(number, first)
                del self.steps[number]
                shared = True
        return shared

    # --- 2. Filters early ---------------------------------------------------------------------------------------------

    def filter_early(self) -> bool:
        moved = False
        for number in self.ordered():
            step = self.steps.get(number)
            if step is not None and isinstance(step.operator, op.Where):
                moved |= self._move_filter(number, step, step.operator.predicate)
        return moved

    def _move_filter(self, number: int, step: Sketched, predicate: Expression) -> bool:
        below = step.inputs[0]
        source = self.steps[below]
        if self.readers()[below] != 1:
            return False
        earlier = source.operator.filter_before(predicate, self.types()[below].key)
        if earlier is None or self._reads_an_edge(source):
            return False
        for position, origin in enumerate(source.inputs[: source.operator.filtered_ports()]):
            filtered = self.add(Sketched(op.Where(earlier), (origin,), step.line))
            inputs = self.steps[below].inputs
            self.steps[below] = replace(
                self.steps[below], inputs=(*inputs[:position], filtered, *inputs[position + 1 :])
            )
        self.redirect(number, below)
        del self.steps[number]
        self.note(f"filter moved before {source.operator.kind}", step.line)
        return True

    def _reads_an_edge(self, step: Sketched) -> bool:
        """True for a key_by straight on a sync edge: an operator between them would cost a vertex of its own."""
        return isinstance(step.operator, op.KeyBy) and isinstance(self.steps[step.inputs[0]].operator, op.Sync)

    # --- 3. Fusion ----------------------------------------------------------------------------------------------------

    def fuse(self) -> bool:
        fused = False
        readers = self.readers()  # fusing two nodes changes nobody else's number of readers
        for number in self.ordered():
            step = self.steps.get(number)
            if step is None or len(step.inputs) != 1 or readers[step.inputs[0]] != 1:
                continue
            below = step.inputs[0]
            joined = _fused(self.steps[below].operator, step.operator)
            if joined is not None:
                self.steps[number] = Sketched(joined, self.steps[below].inputs, self.steps[below].line)
                del self.steps[below]
                self.note(f"neighbouring {joined.kind}s fused", step.line)
                fused = True
        return fused

    # --- 4. Columns early ---------------------------------------------------------------------------------------------

    def prune(self) -> bool:
        types = self.types()
        needed = self._needed(types)
        pruned = False
        for number in self.ordered():
            step = self.steps[number]
            wanted = needed[number]
            if isinstance(step.operator, op.Select):
                columns = step.operator.columns
                kept = tuple((name, entry) for name, entry in columns if name in wanted or name in types[number].key)
                if len(kept) < len(step.operator.columns):
                    self.steps[number] = replace(step, operator=op.Select(kept))
                    self.note("columns that nothing reads dropped", step.line)
                    pruned = True
            elif isinstance(step.operator, op.KeyBy):
                pruned |= self._narrow(number, step, wanted, types)
        return pruned

    def _narrow(self, number: int, step: Sketched, wanted: set[str], types: dict[int, StreamType]) -> bool:
        """Put a select before rows travel to another key; not where they come straight from an edge or a select."""
        below = step.inputs[0]
        source, key = types[below], types[number].key
        kept = [name for name in source.schema.names if name in wanted or name in source.key or name in key]
        passing = isinstance(self.steps[below].operator, (op.Source, op.Sync, op.Gather, op.SyncBack, op.Select))
        if passing or set(source.key) == set(key) or len(kept) == len(source.schema.names):
            return False
        narrow = op.Select(tuple((name, Column(name)) for name in kept))
        self.steps[number] = replace(step, inputs=(self.add(Sketched(narrow, (below,), step.line)),))
        self.note("only columns that are read travel to the next key", step.line)
        return True

    def _needed(self, types: dict[int, StreamType]) -> dict[int, set[str]]:
        """For each node, the columns of its output that somebody reads."""
        needed: dict[int, set[str]] = {number: set() for number in self.steps}
        for number in reversed(self.ordered()):
            step = self.steps[number]
            for port, source in enumerate(step.inputs):
                needed[source] |= step.operator.reads(needed[number], types[source], port)
        return needed


def _fused(first: op.Operator, second: op.Operator) -> op.Operator | None:
    if isinstance(first, op.Where) and isinstance(second, op.Where):
        both = Binary("and", first.predicate, second.predicate)
        return op.Where(both) if depth_of(both) <= DEPTH_MAX else None
    if isinstance(first, op.Select) and isinstance(second, op.Select):
        inner = dict(first.columns)
        uses = Counter(name for _, entry in second.columns for name in columns_of(entry))
        if all(isinstance(entry, Column) or uses[name] <= 1 for name, entry in inner.items()):
            fused = tuple((name, substitute(entry, inner)) for name, entry in second.columns)
            return op.Select(fused) if all(depth_of(entry) <= DEPTH_MAX for _, entry in fused) else None
    return None
