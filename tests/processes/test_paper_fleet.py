"""NebulaStream-MSS as it was set up: a coordinator, seven hubs and a phone as processes, Query 1 and Query 2, and the
three topologies of Fig 4 by links that are really lost and gained. What the coordinator says is compared with the
figure, and what the sinks hold with a run without failures."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from resurge.lab._linked_nodes import Doors, Namespaces, network, nodes_of
from resurge.lab._paper_fleet import FILTER_1, FILTER_2, HOST, LINKS, SNAPSHOTS, PaperFleet
from resurge.up.process_fleet import COORDINATOR, PHONE
from tests.claims import Claim
from tests.patience import let_pass

pytestmark = pytest.mark.processes
LEFT, MIDDLE, RIGHT = SNAPSHOTS
AWAY_S = 3.0  # out of reach; rows are spooled meanwhile


def walk(links: Namespaces | Doors, folder: Path, claim: Claim, *, share: int, seconds: float) -> None:
    """Fig 4 from left to right, until all that was spooled has arrived."""
    spent_s = _spent_s()
    with links:
        fleet = PaperFleet(folder, links, share=share, seconds=seconds)
        fleet.begin()
        try:
            seen = [_arrive(fleet, LEFT, [("hub5", "hub2")], [(PHONE, FILTER_1), ("hub5", FILTER_2)])]
            _leave(fleet, LEFT)
            seen.append(_arrive(fleet, MIDDLE, [("hub6", "hub3")], [(PHONE, FILTER_1), ("hub6", FILTER_2)]))
            # The phone gets less to do: of what it has spooled meanwhile, the first filter is done already.
            fleet.kill(COORDINATOR)
            fleet.give_room(PHONE, 0)
            _leave(fleet, MIDDLE)
            fleet.start(COORDINATOR)
            seen.append(_arrive(fleet, RIGHT, [("hub2",)], [("hub2", FILTER_1), (HOST, FILTER_2)]))
            terms = fleet.terms()
        finally:
            fleet.stop()
    spent_s = _spent_s() - spent_s
    found = fleet.sunk()
    last_s = min(each.columns["time"][-1] - each.columns["time"][0] for each in found.values()) / 1e6
    ideal = fleet.without_failures(found)
    digests = ", ".join(f"{found[name].digest} = {ideal[name].digest}" for name in found)
    rates = " and ".join(f"{rate:,}" for rate in fleet.rates.values())
    claim(
        f"{links.kind}: 9 nodes, {rates} readings a second, 2 times out of reach for {AWAY_S:g} s, 3 topologies, 1 "
        f"coordinator killed, {sum(each.rows for each in found.values())} rows compared, digests {digests}; the nodes "
        f"took {spent_s:.0f} s of processor time for {last_s:.0f} s of readings, from their start"
    )
    assert seen == [SNAPSHOTS[0][0], SNAPSHOTS[1][0], SNAPSHOTS[2][0]]
    assert all(found[name].rows for name in found)
    assert not any(each.lost for each in found.values())
    assert {name: each.digest for name, each in found.items()} == {name: each.digest for name, each in ideal.items()}
    assert terms == {1}, "no vertex began again"


def _spent_s() -> float:
    """By processes that this one has started and seen end."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _arrive(
    fleet: PaperFleet, snapshot: tuple[str, ...], ways: list[tuple[str, ...]], applied: list[tuple[str, ...]]
) -> str:
    """Be at the first of these hubs, until the coordinator says what the figure does; then at the others as well."""
    fleet.network.gain(snapshot[0])
    fleet.until(lambda: fleet.way() == ways and fleet.applied() == applied, f"{ways}, {applied}")
    for hub in snapshot[1:]:
        fleet.network.gain(hub)
    came_us = time.time_ns() // 1000
    assert came_us < fleet.readings_end_us(), "the readings are over: they must last longer on this machine"
    fleet.until(lambda: fleet.newest_us() > came_us, f"what was spooled, over {snapshot}")
    assert (fleet.way(), fleet.way("q2")) == (ways, ways), "reaching more is no reason to go another way"
    return snapshot[0]


def _leave(fleet: PaperFleet, snapshot: tuple[str, ...]) -> None:
    for hub in snapshot:
        fleet.network.lose(hub)
    let_pass(AWAY_S)


@pytest.mark.soak  # longer than the suite has room for
@pytest.mark.covers("NB-17")
def test_fig_4_with_real_processes(tmp_path: Path, claim: Claim) -> None:
    links = network(nodes_of(LINKS), LINKS, tmp_path)
    walk(links, tmp_path, claim, share=100, seconds=300.0)


@pytest.mark.soak
def test_fig_4_over_forwarders_as_where_no_namespaces_can_be_made(tmp_path: Path, claim: Claim) -> None:
    walk(Doors(nodes_of(LINKS), tmp_path), tmp_path, claim, share=100, seconds=300.0)


@pytest.mark.soak
@pytest.mark.covers("NB-17")
@pytest.mark.parametrize(("share", "seconds"), [(10, 200.0), (1, 240.0)], ids=["a tenth", "all"])
def test_fig_4_at_the_papers_rates(share: int, seconds: float, tmp_path: Path, claim: Claim) -> None:
    """The recording lies in memory on the phone, a gigabyte at the full rates; it begins when that is loaded."""
    links = network(nodes_of(LINKS), LINKS, tmp_path)
    walk(links, tmp_path, claim, share=share, seconds=seconds)
