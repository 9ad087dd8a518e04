"""Token snapshots: one cut through a region, under any schedule, with cycles. Every element is in it once (MS-14)."""

from __future__ import annotations

from random import Random

import pytest

from shared.recovery.checkpoints import Checkpoints, Covered, Freeze, Hold, Mark, MarkId, Permanent, Store
from shared.recovery.strategies import STRATEGIES
from tests.claims import Claim
from tests.shared.recovery.positions.graphs import NAMED, Graph, all_graphs

CUTS = 3


class Region:
    """Production machines; a coordinator that begins the next cut when everybody has stored the last."""

    def __init__(self, graph: Graph, random: Random, *, heed_holds: bool = True) -> None:
        self.graph, self.random, self.heed_holds = graph, random, heed_holds
        self.machines = [
            Checkpoints(
                STRATEGIES["token"].row,
                [graph.names[n] for n in graph.ins[v]],
                [graph.names[n] for n in graph.outs[v]],
                graph.back,
                1,
                name=str(v),
                random=random,
            )
            for v in range(graph.vertices)
        ]
        self.taken = [0] * len(graph.edges)
        self.made = [0] * graph.vertices
        self.marks: list[list[Mark]] = [[] for _ in graph.edges]
        self.held: set[int] = set()
        self.stored: dict[MarkId, dict[int, Store]] = {}
        self.cut = MarkId(0, "region")
        self.to_ask: set[int] = set()
        self.cuts_checked = 0

    def head(self, v: int) -> int:
        return self.made[v] + sum(self.taken[n] for n in self.graph.ins[v] if n not in self.graph.silent)

    def freeze(self, v: int, freeze: Freeze) -> None:
        self.held -= set(self.graph.ins[v])
        names = self.graph.names
        inputs = {names[n]: self.taken[n] for n in self.graph.ins[v]}
        heads = {names[n]: self.head(v) for n in self.graph.outs[v]}
        for edge, mark in self.machines[v].froze(freeze.id, inputs, heads, size=1):
            self.marks[names.index(edge)].append(mark)

    def settle(self, v: int) -> None:
        for event in self.machines[v].events():
            if isinstance(event, Store):
                self.stored.setdefault(event.id, {})[v] = event
                self.machines[v].stored(event.id)

    def actions(self) -> list[tuple[str, int]]:
        found = [("make", v) for v in self.graph.sources if self.made[v] < 6]
        found += [("ask", v) for v in self.to_ask]
        for n, (x, _) in enumerate(self.graph.edges):
            if n in self.held and self.heed_holds:
                continue
            if self.marks[n] and self.marks[n][0].position <= self.taken[n]:
                found.append(("mark", n))
            elif self.taken[n] < self.head(x):
                found.append(("take", n))
        if not self.to_ask and self.cut.number < CUTS and self.complete():
            found.append(("begin", 0))
        return found

    def complete(self) -> bool:
        return not self.cut.number or len(self.stored.get(self.cut, ())) == self.graph.vertices

    def step(self, what: str, where: int) -> None:
        if what == "begin":
            self.cut = MarkId(self.cut.number + 1, "region")
            self.to_ask = {v for v in self.graph.sources if not self.graph.ins[v]}
        elif what == "make":
            self.made[where] += 1
        elif what == "ask":
            self.to_ask.remove(where)
            freeze = self.machines[where].request(self.cut)
            if freeze is not None:
                self.freeze(where, freeze)
            self.settle(where)
        elif what == "take":
            self.taken[where] += 1
        else:
            y = self.graph.edges[where][1]
            answer = self.machines[y].mark(self.graph.names[where], self.marks[where].pop(0))
            if isinstance(answer, Hold):
                self.held.add(where)
            elif isinstance(answer, Freeze):
                self.freeze(y, answer)
            self.settle(y)
        if self.cut.number and self.complete():
            for machine in self.machines:
                machine.region_complete(self.cut)
            self.check_cut()

    def check_cut(self) -> None:
        """What was sent before the cut is either in the reader's state or recorded beside it, once."""
        permanent: list[Permanent] = [machine.permanent for machine in self.machines]
        assert {each.id for each in permanent} == {self.cut}
        for name, (x, y) in zip(self.graph.names, self.graph.edges, strict=True):
            taken, head = permanent[y].inputs[name], permanent[x].heads[name]
            lo, hi = permanent[y].recorded.get(name, (taken, taken))
            assert (lo, hi) == (taken, head), f"{name}: taken {taken}, recorded {lo}..{hi}, sent {head}"
            assert permanent[x].starts[name] == head, "without transfer state"
        self.cuts_checked += 1

    def run(self) -> int:
        while actions := self.actions():
            self.step(*self.random.choice(actions))
        assert self.cut.number == CUTS
        assert self.complete(), "a cut that nobody completes"
        return self.cuts_checked


GRAPHS = [each for n in (2, 3, 4) for each in all_graphs(n, cycles=True)]


@pytest.mark.covers("MS-14")
def test_every_cut_is_consistent_on_every_small_graph(claim: Claim) -> None:
    cuts = sum(Region(graph, Random(seed)).run() > 0 for graph in GRAPHS for seed in range(3))
    claim(f"token: {cuts} schedules on {len(GRAPHS)} graphs, {CUTS} cuts each, all exact")
    assert cuts == 3 * len(GRAPHS)


@pytest.mark.parametrize("name", ["SP2", "diamond", "two-source cycle"])
def test_a_driver_that_ignores_holds_is_noticed(name: str) -> None:
    def broken(seed: int) -> bool:
        try:
            Region(NAMED[name], Random(seed), heed_holds=False).run()
        except AssertionError:
            return True
        return False

    assert any(broken(seed) for seed in range(50))


FIGURE_5 = Graph(5, ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4)))  # A -> B, B -> C and D, C and D -> E


@pytest.mark.covers("MS-9", "MS-11")
def test_the_trace_of_figure_5() -> None:
    a_b, b_c, b_d, c_e, d_e = range(5)
    region = Region(FIGURE_5, Random(0))

    def frozen() -> str:
        return "".join(name for name, each in zip("ABCDE", region.machines, strict=True) if each.pending)

    for what, where in [("make", 0), ("take", a_b), ("take", b_c), ("take", b_d), ("take", c_e)]:
        region.step(what, where)
    region.step("begin", 0)
    region.step("ask", 0)  # instant 1: the source hears of it and sends T0
    assert (frozen(), [len(each) for each in region.marks]) == ("A", [1, 0, 0, 0, 0])
    region.step("mark", a_b)  # 2: B checkpoints, then sends T1 and T2
    assert (frozen(), [len(each) for each in region.marks]) == ("AB", [0, 1, 1, 0, 0])
    region.step("mark", b_c)  # 3: C as well; D is slower, its token waits behind tuples
    assert (frozen(), [len(each) for each in region.marks]) == ("ABC", [0, 0, 1, 1, 0])
    region.step("mark", c_e)  # 4: E has T3 only. It stops taking from C, and goes on with D's tuples
    region.step("make", 0)
    region.step("take", a_b)
    region.step("take", b_c)
    assert region.head(2) > region.taken[c_e], "C has made a tuple behind the token"
    assert ("take", c_e) not in region.actions()
    assert ("take", d_e) in region.actions()
    region.step("take", d_e)
    region.step("mark", b_d)
    assert frozen() == "ABCD"
    assert not region.complete()
    region.step("mark", d_e)  # 5: both tokens are there: E checkpoints, and the region's checkpoint is complete
    assert region.complete()
    assert region.cuts_checked == 1, "no tuple is in it twice, and none is missing"
    assert ("take", c_e) in region.actions(), "what waited goes on"


def test_of_two_cuts_the_later_one_counts_and_frees_what_waits_for_the_other() -> None:
    vertex = Checkpoints(STRATEGIES["token"].row, ("a", "b"), (), frozenset(), 1, name="v", random=Random(0))
    assert vertex.mark("a", Mark(MarkId(1, "region"), 3)) == Hold()
    assert vertex.mark("b", Mark(MarkId(2, "region"), 5)) == Hold()
    assert vertex.mark("b", Mark(MarkId(1, "region"), 5)) == Covered(), "the first was given up"
    assert vertex.mark("a", Mark(MarkId(2, "region"), 4)) == Freeze(MarkId(2, "region"))


def test_marks_from_before_a_region_went_back_are_void() -> None:
    vertex = Checkpoints(STRATEGIES["token"].row, ("a",), (), frozenset(), 1, name="v", random=Random(0), void=3)
    assert vertex.mark("a", Mark(MarkId(3, "region"), 3)) == Covered()
    assert vertex.mark("a", Mark(MarkId(4, "region"), 3)) == Freeze(MarkId(4, "region"))
