"""Nodes that are out of the fleet for good: what ends with them, and what goes on without them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from shared.hosting.leaving import without
from shared.identity import device_id
from shared.plan.area import Area
from shared.plan.cuts import region_vertices
from shared.plan.deployment import (
    Deployment,
    Feed,
    HostedQuery,
    Peer,
    Placement,
    Region,
    decode_deployment,
    encode_deployment,
)
from tests.simulation.peers.regions import plan_of

KEYS = {device_id(key).hex(): key for key in (Random(f"leaving {number}").randbytes(32) for number in range(5))}
CAMERA, SECOND, MEMBER, SINK, DESK = KEYS


def region(number: int, sources: tuple[str, ...], sink: str) -> Region:
    feeds = (Feed("before", f"place{number - 1}", "out"),) if number else ()
    task = HostedQuery(f"place{number}", 1, plan_of(number), "token", 0, sources, sink, (), feeds=feeds)
    return Region(Area(((0.0, 0.0),), 50.0), 1.0, 1, task, (MEMBER,))


def fleet(*, second: tuple[str, ...] = (SECOND,)) -> Deployment:
    """Two regions in a line, both of which run on one member."""
    peers = tuple(Peer(node, f"n{node[:4]}", key, "0" * 40, ()) for node, key in KEYS.items())
    regions = (region(0, (CAMERA,), SINK), region(1, second, DESK))
    queries = tuple(
        replace(
            each.task,
            placements=tuple(Placement(vertex.name, (MEMBER,), (), 1) for vertex in region_vertices(each.task.plan)),
        )
        for each in regions
    )
    return Deployment(CAMERA, 1, 1, peers, queries, regions=regions)


def left(before: Deployment, gone: str) -> tuple[list[str], list[str]]:
    """Regions and queries that go on; what they make up together is a fleet."""
    after = without(before, {gone})
    decode_deployment(encode_deployment(after))
    assert all(feed.query != "place0" or "place0" in {each.name for each in after.queries}
               for each in after.queries for feed in each.feeds)  # fmt: skip
    return [each.name for each in after.regions], [each.name for each in after.queries]


def test_a_region_ends_with_the_node_that_its_results_go_to_and_what_it_fed_goes_on_without_it() -> None:
    assert left(fleet(), SINK) == (["place1"], ["place1"])
    assert left(fleet(), DESK) == (["place0"], ["place0"])


def test_a_region_that_nobody_feeds_any_more_ends_and_what_only_it_fed() -> None:
    assert left(fleet(), CAMERA) == (["place1"], ["place1"])
    assert left(fleet(second=()), CAMERA) == ([], [])
    assert left(fleet(), SECOND) == (["place0", "place1"], ["place0", "place1"])


def test_a_region_that_only_another_one_feeds_goes_on_when_somebody_else_leaves() -> None:
    before = fleet(second=())
    idle = replace(before, queries=())
    for gone in (SECOND, MEMBER):
        assert left(before, gone) == (["place0", "place1"], ["place0", "place1"])
        assert left(idle, gone)[0] == ["place0", "place1"]
