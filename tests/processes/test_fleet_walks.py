"""A phone walks from hub to hub by links that are really lost and gained: network namespaces where they can be made, else
forwarders on loopback. The claim says which."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from resurge.lab._linked_nodes import Links, network, nodes_of
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import COORDINATOR, PHONE, Program, digest, ideal
from tests.processes.walking_fleets import WalkingFleet

pytestmark = [pytest.mark.processes, pytest.mark.soak]
ROWS, EVERY_US = 90_000, 5_000
AWAY_S = 5.0  # out of reach; rows are spooled meanwhile
RESUMED_S = 5.0  # until results come again where nothing is replaced; a busy machine runs five processes meanwhile
GONE = "its way is gone"
TWO_WAYS, ONE_AGAIN = "there is another way beside it", "what it brought back has arrived"
QUERY_1 = """\
import resurge as rs
from resurge import col

near = rs.sensor("count", every="5ms", columns={"v": "float64"}).gather("count", batch=40, within="200ms")
kept = near.where(col.v >= 0).select("device", v=col.v + 0.0, twice=col.v * 2).where(col.twice < 1e9)
kept.subscribe("out")
"""
SMALL: Links = (("hub1", "hub3"), ("hub2", "hub3"), ("hub3", COORDINATOR), (PHONE, "hub1"), (PHONE, "hub2"))


def compared(fleet: WalkingFleet, claim: Claim, what: str) -> None:
    found = fleet.results()
    same = ideal(fleet.program, fleet.path, ROWS, found)
    pairs = {name: (digest(rows), digest(same[name])) for name, rows in found.items()}
    rows = sum(map(len, found.values()))
    claim(
        f"{fleet.network.kind}: {what}, {rows} rows compared, digests {', '.join(f'{mine} = {theirs}' for mine, theirs in pairs.values())}"
    )
    assert rows
    assert all(mine == theirs for mine, theirs in pairs.values())


def walk(fleet: WalkingFleet, before: tuple[str, ...], after: tuple[str, ...]) -> float:
    """Out of reach for a while, and back elsewhere; returns after how many seconds results came again."""
    for hub in before:
        fleet.network.lose(hub)
    let_pass(AWAY_S)
    count = fleet.count()
    for hub in after:
        fleet.network.gain(hub)
    began = time.monotonic()
    wait_until(lambda: fleet.count() > count, f"results over {after}", patience_s=SPARK_PATIENCE_S)
    resumed_s = round(time.monotonic() - began, 1)
    fleet.wait_for(count + round((AWAY_S + 1) * 1e6 / EVERY_US), f"what was spooled, over {after}")
    return resumed_s


@pytest.mark.covers("NB-10", "NB-11")
def test_a_phone_walks_between_hubs_and_nothing_is_lost_or_twice(tmp_path: Path, claim: Claim) -> None:
    program = Program("walked", QUERY_1, {"count": "v"}, {"out": ("v", "twice")}, (), every_us=EVERY_US)
    with network(nodes_of(SMALL), SMALL, tmp_path) as links:
        links.gain("hub1")
        fleet = WalkingFleet(tmp_path, program, links, links=SMALL, hosts={"out": "hub3"}, rows=ROWS)
        fleet.start()
        resumed, ways = [], []
        try:
            fleet.wait_for(200, "first results over hub1")
            for before, after in (("hub1", "hub2"), ("hub2", "hub1"), ("hub1", "hub1")):
                said = fleet.said(GONE)
                resumed.append(walk(fleet, (before,), (after,)))
                ways.append(fleet.said(GONE) - said)
            terms = set(fleet.terms().values())
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    assert ways[2] == 0, "back where it was, nothing is replaced"
    assert resumed[2] < RESUMED_S
    assert min(ways[:2]) > 0
    assert terms == {1}, "no vertex began again"
    compared(fleet, claim, f"3 times out of reach, twice elsewhere, results again after {resumed} s")


def test_a_hub_that_passes_rows_on_is_killed_under_a_backlog_and_nothing_is_lost_or_twice(
    tmp_path: Path, claim: Claim
) -> None:
    program = Program("walked", QUERY_1, {"count": "v"}, {"out": ("v", "twice")}, (), every_us=EVERY_US)
    with network(nodes_of(SMALL), SMALL, tmp_path) as links:
        links.gain("hub1")
        fleet = WalkingFleet(tmp_path, program, links, links=SMALL, hosts={"out": "hub3"}, rows=ROWS)
        fleet.start()
        try:
            fleet.wait_for(200, "first results over hub1")
            links.lose("hub1")
            let_pass(AWAY_S)
            count, said = fleet.count(), fleet.said(GONE)
            links.gain("hub2")
            wait_until(lambda: fleet.said(GONE) > said, "a way over hub2", patience_s=SPARK_PATIENCE_S)
            fleet.kill("hub2")
            arrived = fleet.count() - count
            links.gain("hub1")
            fleet.wait_for(count + round((AWAY_S + 1) * 1e6 / EVERY_US), "what was spooled, over hub1 again")
            terms = set(fleet.terms().values())
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    assert arrived < AWAY_S * 1e6 / EVERY_US, "it was killed while there was a backlog"
    assert terms == {1}, "no vertex began again"
    compared(
        fleet, claim, f"1 hub killed when {arrived} of about {AWAY_S * 1e6 / EVERY_US:.0f} spooled rows had arrived"
    )


@pytest.mark.covers("NB-14", "NB-15")
def test_what_a_phone_brings_back_goes_over_two_ways_until_nothing_is_left(tmp_path: Path, claim: Claim) -> None:
    program = Program("walked", QUERY_1, {"count": "v"}, {"out": ("v", "twice")}, (), every_us=EVERY_US)
    with network(nodes_of(SMALL), SMALL, tmp_path) as links:
        links.gain("hub1")
        fleet = WalkingFleet(tmp_path, program, links, links=SMALL, hosts={"out": "hub3"}, rows=ROWS, forward="paths:2")
        fleet.start()
        try:
            fleet.wait_for(200, "first results over hub1")
            links.lose("hub1")
            let_pass(AWAY_S)
            count, before = fleet.count(), [fleet.said(text) for text in (TWO_WAYS, ONE_AGAIN)]
            links.gain("hub1")
            links.gain("hub2")
            wait_until(lambda: fleet.said(TWO_WAYS) > before[0], "two ways", patience_s=SPARK_PATIENCE_S)
            fleet.wait_for(count + round((AWAY_S + 1) * 1e6 / EVERY_US), "what was spooled")
            wait_until(lambda: fleet.said(ONE_AGAIN) > before[1], "one way is left", patience_s=SPARK_PATIENCE_S)
            fleet.wait_for(fleet.count() + 200, "results over that")
            terms = set(fleet.terms().values())
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    assert terms == {1}, "no vertex began again"
    compared(fleet, claim, "once out of reach, back over two ways at once, one of them left")
