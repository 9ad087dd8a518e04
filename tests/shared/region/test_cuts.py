"""A coordinator's cuts through a region: begun at every source under the next number, complete when all have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from shared.plan.deployment import Cuts, HostedQuery, Placement
from shared.region.cuts import PERIOD_S, RUNNING, UNDER_WAY_S_MIN, RegionCuts
from shared.wire.messages import CutOrder
from shared.wire.status import NO_PLAN, CutStatus, DeviceStatus, InstanceStatus

PHONES, HUB, DESK = ("01", "02", "03"), "04", "05"
NODES = frozenset((*PHONES, HUB, DESK))
QUERY = HostedQuery(
    "q", 1, rs.plan_of(rs.sensor("noise", every="1s", columns={"v": "float64"}).gather("near").key_by().subscribe("out")),
    "token", 0, PHONES, DESK, (Placement("out", (HUB,), PHONES, 1),), cuts=Cuts(holders=(*PHONES, HUB)),
)  # fmt: skip


class Region:
    """What every node of the region has said; the coordinator's number is stored as soon as it is another."""

    def __init__(self) -> None:
        self.query, self.said = QUERY, {node: DeviceStatus() for node in NODES}
        self.hub(cut=0)

    def hub(self, *, cut: int, state: str = RUNNING) -> None:
        self.said[HUB] = DeviceStatus(instances=(InstanceStatus("q", "out", 1, state, cut=cut),))

    def sources(self, *, reached: int) -> None:
        for phone in PHONES:
            self.said[phone] = DeviceStatus(cuts=(CutStatus("q", reached, 0, reached),))

    def look(self, cuts: RegionCuts, now: float, alive: frozenset[str] = NODES, version: int = NO_PLAN) -> Cuts:
        self.query = replace(self.query, cuts=cuts.look(self.query, self.said.get, alive, now, version=version))
        return self.query.cuts


@pytest.mark.covers("SO-23")
def test_every_source_is_told_to_mark_under_the_next_number_once_the_period_is_over() -> None:
    region, cuts = Region(), RegionCuts()
    told = [CutStatus("q", 0, 0, 0)] * len(PHONES)
    assert region.look(cuts, 0.0).begun == 0
    assert region.look(cuts, PERIOD_S - 1).begun == 0
    assert [cuts.order(region.query, said) for said in told] == [None] * len(PHONES)
    assert region.look(cuts, PERIOD_S).begun == 1
    assert [cuts.order(region.query, said) for said in told] == [CutOrder("q", 1, 0)] * len(PHONES)
    assert cuts.order(region.query, CutStatus("q", 1, 0, 0)) is None, "who has sent its marks is not told again"


@pytest.mark.covers("MS-13")
def test_it_is_complete_when_every_vertex_has_its_part_and_every_source_was_read_up_to_its_mark() -> None:
    region, cuts = Region(), RegionCuts()
    region.look(cuts, 0.0)
    region.look(cuts, PERIOD_S)
    region.hub(cut=1)
    assert region.look(cuts, PERIOD_S + 1).complete == 0, "rows before the marks are still on their way"
    region.sources(reached=1)
    region.said[PHONES[0]] = DeviceStatus()
    assert region.look(cuts, PERIOD_S + 2).complete == 0, "of one source nothing is known"
    region.sources(reached=1)
    assert region.look(cuts, PERIOD_S + 3) == Cuts(1, 1, tuple(sorted((*PHONES, HUB))))
    assert cuts.order(region.query, CutStatus("q", 1, 0, 1)) == CutOrder("q", 1, 1)


@pytest.mark.covers("MS-13")
def test_regions_are_cut_independently_of_each_other() -> None:
    region, other, cuts = Region(), Region(), RegionCuts()
    other.query = replace(other.query, name="r")
    other.said[HUB] = DeviceStatus(instances=(InstanceStatus("r", "out", 1, RUNNING, cut=0),))
    for now in (0.0, PERIOD_S):
        region.look(cuts, now)
        other.look(cuts, now)
    region.hub(cut=1)
    region.sources(reached=1)
    assert region.look(cuts, PERIOD_S + 1).complete == 1
    assert other.look(cuts, PERIOD_S + 1) == replace(other.query.cuts, begun=1, complete=0), (
        "it waits for its own nodes"
    )


@pytest.mark.parametrize("what", ["a vertex failed", "a source is away"])
def test_none_begins_while_something_is_missing(what: str) -> None:
    region, cuts = Region(), RegionCuts()
    region.look(cuts, 0.0)
    if what == "a vertex failed":
        region.hub(cut=0, state="failed")
    assert region.look(cuts, PERIOD_S, NODES if what == "a vertex failed" else NODES - {PHONES[1]}).begun == 0


@pytest.mark.covers("MS-16")
@pytest.mark.parametrize("late", [HUB, PHONES[0]])
def test_none_begins_before_all_have_heard_of_a_new_member(late: str) -> None:
    """A node that has not would send its part, or its rows, to the members it knows, and call that stored: the newcomer
    holds the cut then and has nothing of it. Found by simulation: chain, token, halved, seed 3001."""
    region, cuts = Region(), RegionCuts()
    region.look(cuts, 0.0)
    region.said = {node: replace(said, deployment=(1, 6 if node == late else 7)) for node, said in region.said.items()}
    assert region.look(cuts, PERIOD_S, version=7).begun == 0
    region.said[late] = replace(region.said[late], deployment=(1, 7))
    assert region.look(cuts, PERIOD_S + 1, version=7).begun == 1


@pytest.mark.parametrize("how", ["it took too long", "the region went back", "the coordinator began again"])
def test_a_number_is_used_once(how: str) -> None:
    """Marks of the cut that was given up may still be under way: the next one has another number, so they are told apart."""
    region, cuts = Region(), RegionCuts(period_s=1.0)
    region.look(cuts, 0.0)
    assert region.look(cuts, 1.0).begun == 1
    now = 2.0
    if how == "it took too long":
        now += UNDER_WAY_S_MIN
        region.look(cuts, now)
    elif how == "the region went back":
        cuts.give_up("q", now)
    else:
        cuts = RegionCuts(period_s=1.0)
        region.look(cuts, now)
    region.hub(cut=1)
    region.sources(reached=1)
    after = region.look(cuts, now + 1.0)
    assert (after.begun, after.complete) == (2, 0)
