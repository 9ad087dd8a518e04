"""Figures 7 to 11 of the ECOC paper as transcripts, and figure 9's pseudocode beside the machine on random events.

The figures name stream times; here they are positions: "everything below". Keepers answer at once.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.recovery.checkpoints import Checkpoints, Extend, Freeze, Mark, MarkId, Permanent, Store
from shared.recovery.strategies import STRATEGIES


class Stage:
    """Operators by name, connected by edges, moved by hand; everything they do becomes a line."""

    def __init__(
        self, row: str, edges: dict[str, tuple[str, str]], *, back: str = "", every: int = 1_000, source: str = ""
    ) -> None:
        self.edges, self.lines = edges, list[str]()
        names = dict.fromkeys(name for pair in edges.values() for name in pair if name)
        self.taken = dict.fromkeys(edges, 0)
        self.heads = dict.fromkeys(edges, 0)
        self.marks: dict[str, list[Mark]] = {edge: [] for edge in edges}
        self.machines = {
            name: Checkpoints(
                STRATEGIES[row].row,
                [edge for edge, (_, reader) in edges.items() if reader == name],
                [edge for edge, (writer, reader) in edges.items() if writer == name and reader],
                frozenset(back.split()),
                every,
                name=name,
                random=Random(0),
                source=True if name == source else None,
            )
            for name in names
        }

    def take(self, edge: str, count: int, size: int = 0) -> None:
        self.taken[edge] += count
        self.machines[self.edges[edge][1]].elements(count, edge=edge, size=size)

    def freeze(self, name: str, freeze: Freeze, size: int = 100) -> None:
        machine = self.machines[name]
        inputs = {edge: self.taken[edge] for edge in machine.inputs}
        heads = {edge: self.heads[edge] for edge in machine.outputs}
        self.lines.append(f"{name} freezes {freeze.id.number}: in {_places(inputs)}, out {_places(heads)}")
        for edge, mark in machine.froze(freeze.id, inputs, heads, size):
            self.lines.append(f"  mark {mark.id.number} on {edge} at {mark.position}")
            self.marks[edge].append(mark)
        self.settle(name)

    def begin(self, name: str) -> None:
        """The local scheduler's event."""
        machine = self.machines[name]
        while (freeze := machine.elements(1)) is None:
            pass
        self.freeze(name, freeze)

    def mark(self, edge: str, size: int = 100) -> None:
        mark = self.marks[edge].pop(0)
        writer, reader = self.edges[edge]
        answer = self.machines[reader].mark(edge, mark)
        if isinstance(answer, Freeze):
            self.freeze(reader, answer, size)
        if isinstance(answer, Extend):
            self.lines.append(f"{reader} asks {writer} to extend {mark.id.number} on {edge}, wait for {answer.wait}")
            self.machines[writer].extended(edge, mark.id, answer.wait)
            self.settle(writer)

    def settle(self, name: str) -> None:
        machine = self.machines[name]
        for event in machine.events():
            if isinstance(event, Store):
                ranges = ", ".join(f"{edge} {lo}..{hi}" for edge, (lo, hi) in event.extension.items())
                self.lines.append(f"{name} stores {event.id.number}" + (f" with {ranges}" if ranges else ""))
                machine.stored(event.id)
                self.settle(name)
            elif isinstance(event, Permanent):
                for edge in machine.inputs:
                    self.receipt(edge, machine.through(edge))

    def receipt(self, edge: str, through: int) -> None:
        writer, reader = self.edges[edge]
        if writer:
            self.lines.append(f"{reader} tells {writer}: {edge} through {through}")
            self.machines[writer].receipt(edge, through, self.machines[reader].load if reader else 0)
            self.settle(writer)

    def said(self) -> str:
        return "\n".join(self.lines)


def _places(positions: dict[str, int]) -> str:
    return " ".join(f"{edge}={at}" for edge, at in positions.items()) or "-"


@pytest.mark.covers("EC-18")
def test_figure_7_uncoordinated() -> None:
    """A's snapshot holds alpha 1..3, B's beta 2..5; then alpha is trimmed to 2, where B's snapshot stands."""
    stage = Stage("uncoordinated", {"in": ("", "A"), "alpha": ("A", "B"), "beta": ("B", "C")}, every=1)
    stage.taken["in"], stage.heads["alpha"] = 6, 3
    stage.machines["A"].receipt("alpha", 1)
    stage.freeze("A", Freeze(_begun(stage.machines["A"])))
    stage.taken["alpha"], stage.heads["beta"] = 2, 5
    stage.machines["B"].receipt("beta", 2)
    stage.freeze("B", Freeze(_begun(stage.machines["B"])))
    assert stage.said() == (
        "A freezes 1: in in=6, out alpha=3\n"
        "A stores 1 with alpha 1..3\n"
        "B freezes 1: in alpha=2, out beta=5\n"
        "B stores 1 with beta 2..5\n"
        "B tells A: alpha through 2"
    )
    # The third case of the proof: B's snapshot is older on alpha than A's, whose stored range begins before it.
    assert stage.machines["A"].permanent.starts["alpha"] <= stage.machines["B"].permanent.inputs["alpha"]


def _begun(machine: Checkpoints) -> MarkId:
    while (freeze := machine.elements(1, edge=machine.inputs[0])) is None:
        pass
    return freeze.id


@pytest.mark.covers("EC-19", "EC-20", "EC-21")
def test_figures_8_and_9_ecoc_plans_downstream_and_commits_upstream() -> None:
    stage = Stage("ecoc", {"alpha": ("A", "B"), "beta": ("B", "C")})
    stage.heads["alpha"] = 7
    stage.begin("A")
    stage.take("alpha", 7)
    stage.heads["beta"] = 4
    stage.mark("alpha")
    stage.take("beta", 4)
    stage.mark("beta")
    assert stage.said() == (
        "A freezes 1: in -, out alpha=7\n"
        "  mark 1 on alpha at 7\n"
        "B freezes 1: in alpha=7, out beta=4\n"
        "  mark 1 on beta at 4\n"
        "C freezes 1: in beta=4, out -\n"
        "C stores 1\n"
        "C tells B: beta through 4\n"
        "B stores 1\n"
        "B tells A: alpha through 7\n"
        "A stores 1"
    )


@pytest.mark.covers("EC-25", "EC-26")
def test_figure_10_a_join_asks_to_extend_instead_of_a_second_snapshot() -> None:
    """S1's mark freezes J; S2's comes 3 elements later, and 3 elements cost less than what freezing J and K again would."""
    stage = Stage("extended-ecoc", {"a": ("S1", "J"), "b": ("S2", "J"), "c": ("J", "K")})
    stage.heads |= {"a": 5, "b": 8}
    stage.begin("S1")
    stage.take("a", 5, size=50)
    stage.take("b", 5, size=50)
    stage.heads["c"] = 10
    stage.mark("a")
    stage.begin("S2")
    stage.take("b", 3, size=30)
    stage.heads["c"] = 13
    stage.mark("b")
    stage.take("c", 10)
    stage.mark("c")
    assert stage.said() == (
        "S1 freezes 1: in -, out a=5\n"
        "  mark 1 on a at 5\n"
        "J freezes 1: in a=5 b=5, out c=10\n"
        "  mark 1 on c at 10\n"
        "S2 freezes 1: in -, out b=8\n"
        "  mark 1 on b at 8\n"
        "J asks S2 to extend 1 on b, wait for 5\n"
        "K freezes 1: in c=10, out -\n"
        "K stores 1\n"
        "K tells J: c through 10\n"
        "J stores 1\n"
        "J tells S1: a through 5\n"
        "S1 stores 1\n"
        "J tells S2: b through 5\n"
        "S2 stores 1 with b 5..8"
    )


@pytest.mark.covers("EC-27")
def test_figure_11_a_mark_that_comes_back_ends_in_an_extension() -> None:
    stage = Stage("extended-ecoc", {"alpha": ("A", "B"), "beta": ("B", "A")}, back="alpha beta", source="A")
    stage.heads["alpha"] = 6
    stage.begin("A")
    stage.take("alpha", 6)
    stage.heads["beta"] = 4
    stage.mark("alpha")
    stage.take("beta", 4)
    stage.mark("beta")
    assert stage.said() == (
        "A freezes 1: in beta=0, out alpha=6\n"
        "  mark 1 on alpha at 6\n"
        "B freezes 1: in alpha=6, out beta=4\n"
        "  mark 1 on beta at 4\n"
        "A asks B to extend 1 on beta, wait for 0\n"
        "B stores 1 with beta 0..4\n"
        "B tells A: alpha through 6\n"
        "A stores 1\n"
        "A tells B: beta through 0"
    )


class Pseudocode:
    """Figure 9, line by line, for one operator."""

    def __init__(self, inputs: list[str], outputs: list[str]) -> None:
        self.outputs = outputs
        self.pending: list[tuple[dict[str, int], dict[str, int]]] = []
        self.acknowledged = dict.fromkeys(outputs, 0)
        self.permanent = dict.fromkeys(inputs, 0)

    def check_request(self, inputs: dict[str, int], outputs: dict[str, int]) -> dict[str, int]:
        if self.outputs:
            self.pending.append((inputs, outputs))
            self.acknowledge()  # the paper would wait for the next Ack, though the last one said enough
            return outputs
        self.permanent = inputs
        return {}

    def ack(self, edge: str, position: int) -> None:
        self.acknowledged[edge] = max(position, self.acknowledged[edge])
        self.acknowledge()

    def acknowledge(self) -> None:
        for checkpoint in list(self.pending):
            inputs, outputs = checkpoint
            if all(outputs[each] <= self.acknowledged[each] for each in self.outputs):
                self.permanent = inputs
                self.pending.remove(checkpoint)


@pytest.mark.covers("EC-19", "EC-20", "EC-21")
@given(
    st.lists(st.tuples(st.sampled_from(["element", "mark", "ack"]), st.integers(0, 9)), max_size=40), st.integers(0, 2)
)
def test_the_machine_does_what_figure_9_says(events: list[tuple[str, int]], count: int) -> None:
    outputs = [f"o{n}" for n in range(count)]
    machine = Checkpoints(
        STRATEGIES["ecoc"].row, ["a", "b"], outputs, frozenset(), 1, name="v", random=Random(0), source=False
    )
    paper = Pseudocode(["a", "b"], outputs)
    taken = {"a": 0, "b": 0}
    head = 0
    for number, (what, value) in enumerate(events):
        edge = "ab"[value % 2]
        if what == "element":
            machine.elements(1, edge=edge)
            taken[edge] += 1
            head += 1
        elif what == "mark":
            answer = machine.mark(edge, Mark(MarkId(number + 1, "s"), taken[edge]))
            heads = dict.fromkeys(outputs, head)
            if isinstance(answer, Freeze):  # else a snapshot at this very place is there
                sent = machine.froze(answer.id, dict(taken), heads, size=1)
                assert {each: mark.position for each, mark in sent} == paper.check_request(dict(taken), heads)
        elif outputs:
            machine.receipt(outputs[value % count], min(value * 2, head))
            paper.ack(outputs[value % count], min(value * 2, head))
        for event in machine.events():
            if isinstance(event, Store):
                assert not event.extension, "without transfer state"
                machine.stored(event.id)
        assert machine.permanent.inputs == paper.permanent
        assert len(machine.pending) == len(paper.pending)
