"""Who goes back and where to, for each kind of failure and row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.plan.deployment import Placement
from shared.recovery.executor import carry_out
from shared.recovery.failures import Failure, HostsFailed, OperatorFailed, StreamFailed, View
from shared.recovery.rollback import Move, Rule, VertexManifest, rollback
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home

# s1, s2 -> j -> a, and f beside them; b keeps what runs on p, c keeps j too.
PLACEMENTS = {
    "j": Placement("j", ("p",), ("b",), 3),
    "a": Placement("a", ("p",), ("c",), 5),
    "f": Placement("f", ("q",), ("p",), 1),
}
VIEW = View(
    PLACEMENTS,
    inputs={"j": (), "a": ("j",), "f": ()},
    alive=frozenset("pqbcd"),
    hosting={"p": 2, "q": 1, "b": 0, "c": 0, "d": 0},
)
ECOC = STRATEGIES["ecoc"]


def after(failure: Failure, view: View = VIEW, strategy: str = "ecoc") -> dict[str, Placement]:
    plan = STRATEGIES[strategy].recover(failure, view)
    return {placed.vertex: placed for placed in carry_out(plan, view.placements.values())}


@pytest.mark.covers("EC-14")
def test_a_failed_operator_starts_again_where_it_is_and_the_others_never_notice() -> None:
    plan = ECOC.recover(OperatorFailed("a"), VIEW)
    assert plan.rollback == {"a"}
    assert plan.replay.keys() == {"j"}
    assert after(OperatorFailed("a")) == {**PLACEMENTS, "a": replace(PLACEMENTS["a"], term=6)}


@pytest.mark.covers("EC-14")
def test_one_that_fails_again_moves_alone_to_its_keeper() -> None:
    assert after(OperatorFailed("a", restarts=1)) == {**PLACEMENTS, "a": Placement("a", ("c",), ("b",), 6)}


@pytest.mark.covers("EC-14", "EC-28")
def test_a_failed_host_s_operators_go_each_to_its_own_keeper_and_get_another() -> None:
    found = after(HostsFailed(frozenset("p")))
    assert found["j"] == Placement("j", ("b",), ("c",), 4)
    assert found["a"].hosts == ("c",)
    assert found["a"].keepers not in {(), ("c",), ("p",)}
    assert found["f"] == replace(PLACEMENTS["f"], keepers=found["f"].keepers), "only its keeper is another"
    assert "p" not in found["f"].keepers


def test_of_several_keepers_the_least_loaded_one_takes_over() -> None:
    placements = {name: Placement(name, ("p",), ("b", "c"), 0) for name in "uvwx"}
    view = View(placements, inputs={}, alive=frozenset("pbc"), hosting={"b": 1})
    hosts = [placed.hosts[0] for placed in after(HostsFailed(frozenset("p")), view, "dist-2").values()]
    assert hosts == ["c", "b", "c", "b"]
    full = replace(view, room={"c": 0})
    assert {placed.hosts for placed in after(HostsFailed(frozenset("p")), full, "dist-2").values()} == {("b",)}


def test_with_host_and_keeper_gone_it_starts_from_nothing_and_says_so() -> None:
    plan = ECOC.recover(HostsFailed(frozenset("pb")), VIEW)
    assert plan.forgotten == {"j"}, "a's keeper is there"
    assert plan.moves["j"].hosts
    assert not {"p", "b"} & {*plan.moves["j"].hosts, *plan.moves["j"].keepers}
    stateless = replace(VIEW, stateless=frozenset("j"))
    assert not ECOC.recover(HostsFailed(frozenset("pb")), stateless).forgotten
    known = replace(VIEW, having={"j": frozenset("d")})
    assert ECOC.recover(HostsFailed(frozenset("pb")), known).moves["j"].hosts == ("d",), "whoever has a copy will do"


@pytest.mark.covers("EC-17")
def test_without_snapshots_every_stateful_vertex_of_a_failed_host_is_forgotten() -> None:
    assert STRATEGIES["none"].recover(HostsFailed(frozenset("p")), VIEW).forgotten == {"j", "a"}


def test_snapshots_on_the_host_itself_wait_for_it() -> None:
    plan = STRATEGIES["local"].recover(HostsFailed(frozenset("p")), VIEW)
    assert not plan.moves.keys() & {"j", "a"}
    assert not plan.forgotten
    assert plan.fences == {"j": 4, "a": 6}


def test_a_vertex_that_only_the_absent_feed_waits_for_them() -> None:
    view = replace(VIEW, fed_by={"j": frozenset("p")})
    plan = ECOC.recover(HostsFailed(frozenset("p")), view)
    assert plan.rollback == {"a"}
    fed_elsewhere = replace(VIEW, fed_by={"j": frozenset("pq")})
    assert ECOC.recover(HostsFailed(frozenset("p")), fed_elsewhere).rollback == {"j", "a"}


@pytest.mark.covers("EC-14")
def test_a_broken_link_is_relayed_by_somebody_both_reach_or_the_reader_moves() -> None:
    placements = {"j": Placement("j", ("p",), ("b",), 3), "a": Placement("a", ("q",), ("c",), 5)}
    view = View(placements, {"a": ("j",)}, frozenset("pqc"), apart=frozenset({("p", "q")}))
    plan = ECOC.recover(StreamFailed("p", "q"), view)
    assert (plan.forwards, plan.rollback, plan.moves) == ({("p", "q"): "c"}, frozenset(), {})
    no_way = replace(view, apart=frozenset({("p", "q"), ("c", "q")}))
    plan = ECOC.recover(StreamFailed("p", "q"), no_way)
    assert plan.forwards == {}
    assert plan.moves["a"].hosts == ("c",)
    assert plan.fences == {"a": 6}
    nobody = replace(no_way, apart=no_way.apart | {("c", "p")})
    assert ECOC.recover(StreamFailed("p", "q"), nobody).rollback == frozenset()


def test_with_live_copies_a_failed_one_is_dropped_and_nothing_goes_back() -> None:
    view = replace(VIEW, placements={"j": Placement("j", ("p", "q"), (), 3)}, inputs={})
    plan = STRATEGIES["rep-2"].recover(HostsFailed(frozenset("p")), view)
    assert plan.rollback == frozenset()
    assert plan.moves == {"j": Move(("q",), ())}
    assert STRATEGIES["rep-2"].recover(HostsFailed(frozenset("pq")), view).forgotten == {"j"}


def test_a_token_region_goes_back_whole_or_is_bypassed_below_its_threshold() -> None:
    plan = STRATEGIES["token"].recover(HostsFailed(frozenset("p")), VIEW)
    assert plan.rollback == {"j", "a", "f"}
    assert plan.fences == {"j": 4, "a": 6, "f": 2}
    assert not plan.forgotten
    few = replace(VIEW, threshold=5)
    assert after(HostsFailed(frozenset("p")), few, "token") == {}


def test_with_a_region_s_keepers_any_number_may_go_and_only_what_failed_goes_back() -> None:
    everybody = {name: replace(placed, keepers=tuple("pqbcd")) for name, placed in PLACEMENTS.items()}
    plan = STRATEGIES["ecoc-region"].recover(HostsFailed(frozenset("pbcd")), replace(VIEW, placements=everybody))
    assert (plan.rollback, plan.forgotten) == ({"j", "a"}, frozenset())
    assert {plan.moves[name].hosts for name in "ja"} == {("q",)}


def test_rows_of_the_cloud_recover_by_their_manifests() -> None:
    manifests = {
        "a": VertexManifest((), 3, frozenset({0, 2})),
        "b": VertexManifest(("a",), 3, frozenset({0, 2})),
    }
    view = View({}, {}, frozenset(), manifests=manifests)
    stored = [strategy for strategy in STRATEGIES.values() if strategy.row.home is Home.STORE]
    plans = {strategy.row.keep.value: strategy.recover(OperatorFailed("a"), view) for strategy in stored}
    assert plans == {
        "records": rollback({"a"}, manifests),
        "sources": rollback({"a"}, manifests, rule=Rule.FULL),
    }


NODES = "pqbcd"


@st.composite
def worlds(draw: st.DrawFn) -> tuple[View, Failure]:
    names = [f"v{n}" for n in range(draw(st.integers(1, 5)))]
    nodes = st.sampled_from(NODES)
    placements = {}
    for name in names:
        host, *keepers = draw(st.permutations(NODES))
        placements[name] = Placement(name, (host,), tuple(keepers[: draw(st.integers(0, 3))]), draw(st.integers(0, 9)))
    inputs = {name: tuple(names[:place][-1:]) for place, name in enumerate(names)}
    view = View(placements, inputs, frozenset(NODES), {node: draw(st.integers(0, 4)) for node in NODES})
    failure = draw(
        st.one_of(
            st.builds(OperatorFailed, st.sampled_from(names), st.integers(0, 2)),
            st.builds(HostsFailed, st.frozensets(nodes, min_size=1, max_size=4)),
        )
    )
    return view, failure


@given(worlds(), st.sampled_from(sorted(name for name, each in STRATEGIES.items() if each.row.home is not Home.STORE)))
def test_a_plan_carried_out_twice_is_as_once_and_leaves_others_alone(world: tuple[View, Failure], name: str) -> None:
    view, failure = world
    plan = STRATEGIES[name].recover(failure, view)
    once = carry_out(plan, view.placements.values())
    assert carry_out(plan, once) == once
    lost = failure.nodes if isinstance(failure, HostsFailed) else frozenset()
    least = {Home.PEERS: STRATEGIES[name].row.copies, Home.REGION: len(NODES)}.get(STRATEGIES[name].row.home, 0)
    for placed in once:
        before = view.placements[placed.vertex]
        wanted = max(len(before.keepers), least)
        assert placed.term == before.term + (placed.vertex in plan.rollback)
        if placed.vertex not in plan.rollback and not lost & {*before.keepers} and len(before.keepers) == wanted:
            assert placed == before
        if STRATEGIES[name].row.of_region and {*before.hosts, *before.keepers} <= lost:
            assert placed.hosts == before.hosts, "it waits for one that has its part of the cut"
        elif placed.vertex in plan.moves:
            assert not lost & {*placed.hosts, *placed.keepers}
            assert not {*placed.hosts} & {*placed.keepers}
            assert len(placed.keepers) == min(wanted, len(view.alive - lost) - 1)
    assert plan.forgotten <= plan.rollback
