"""What a node is told to run: exact, bounded, and checked against its plans before anything of it is believed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

import resurge as rs
from resurge import col
from shared.errors import PeerError, UsageError
from shared.identity import device_id
from shared.moves import Move
from shared.plan.area import Area
from shared.plan.deployment import (
    DEPLOYMENT_BYTES_MAX,
    Cuts,
    Deployment,
    Feed,
    Hop,
    HostedQuery,
    Link,
    Peer,
    Placement,
    Region,
    Route,
    check_deployment,
    decode_deployment,
    encode_deployment,
    query_origin,
)
from tests.examples_drawn import examples_drawn


def peer(number: int, **changed: Any) -> Peer:
    key = bytes([number]) * 32
    made = Peer(device_id(key).hex(), f"node {number}", key, "a" * 40, (f"tcp://127.0.0.1:{9000 + number}",))
    return replace(made, **changed)


@rs.operator("deployment_half", takes={"v": "float64"}, gives={"v": "float64"})
def half(columns):
    return {"v": columns["v"] / 2}


HALF = "deployment_half@1"
PHONE, HUB, BACKUP = peer(1), peer(2, operators=(HALF,), capacity=2), peer(3)


def hot(merge: str = "ordered") -> rs.Plan:
    near = rs.stream("x", {"v": "float64"}).gather("near").apply("deployment_half").where(col.v > 1.5)
    return rs.plan_of(near.key_by(merge=merge).tumbling("1m").aggregate(n=rs.count()).subscribe("hot"))


def deployment() -> Deployment:
    placed = (
        Placement("deployment_half", (HUB.node,), (), 4),
        Placement("hot", (HUB.node,), (BACKUP.node,), 4),
    )
    query = HostedQuery("hot", 2, hot(), "ecoc", 500, (PHONE.node,), BACKUP.node, placed)
    move = Move(1_700_000_000_000_000, "hot", "hot", 4, ("node 3",), ("node 2",), "node 3 is silent")
    return Deployment(HUB.node, 7, 3, (PHONE, HUB, BACKUP), (query,), (move,))


def region(area: Area | None = None, **changed: Any) -> Region:
    task = HostedQuery("stop", 1, hot(), "token", 0, (PHONE.node,), BACKUP.node, ())
    circle = Area(((47.37, 8.54),), 20.0)
    return Region(circle if area is None else area, 30.0, 2, replace(task, **changed), (HUB.node, BACKUP.node))


def test_a_region_with_its_cuts_and_feeds_round_trips() -> None:
    second = replace(region(feeds=(Feed("near", "stop", "hot"),)), members=())
    second = replace(second, task=replace(second.task, name="next", cuts=Cuts(3, 4, (HUB.node,))))
    made = replace(deployment(), regions=(region(), second))
    encoded = encode_deployment(made)
    again = decode_deployment(encoded)
    assert encode_deployment(again) == encoded
    assert [replace(each.task, plan=made.regions[0].task.plan) for each in again.regions] == [
        replace(each.task, plan=made.regions[0].task.plan) for each in made.regions
    ]
    assert [(each.area, each.dwell_s, each.threshold, each.members) for each in again.regions] == [
        (each.area, each.dwell_s, each.threshold, each.members) for each in made.regions
    ]


def test_a_deployment_round_trips_exactly() -> None:
    made = deployment()
    encoded = encode_deployment(made)
    again = decode_deployment(encoded)
    assert encode_deployment(again) == encoded
    assert replace(again, queries=()) == replace(made, queries=())
    assert replace(again.queries[0], plan=made.queries[0].plan) == made.queries[0]


def test_the_origin_of_a_query_is_its_own_and_no_devices() -> None:
    origins = {query_origin(name) for name in ("a", "b", "ñ")}
    assert len(origins) == 3
    assert {len(origin) for origin in origins} == {16}
    assert query_origin("a") != device_id(b"a")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: replace(d, peers=(*d.peers, replace(HUB, name="again"))), "deployment-peer"),
        (lambda d: replace(d, peers=(*d.peers, peer(4, node="0" * 32))), "deployment-peer"),
        (lambda d: replace(d, peers=(*d.peers, replace(peer(0), node=device_id(bytes(32)).hex()))), "deployment-peer"),
        (lambda d: replace(d, node=peer(9).node), "deployment-peer"),
        (lambda d: replace(d, queries=(*d.queries, d.queries[0])), "deployment-query"),
        (lambda d: query(d, sources=(peer(9).node,)), "deployment-host"),
        (lambda d: query(d, sources=(PHONE.node, PHONE.node)), "deployment-host"),
        (lambda d: query(d, routes=(Route("far", PHONE.node),)), "deployment-route"),
        (lambda d: query(d, routes=(Route("near", HUB.node),)), "deployment-route"),
        (lambda d: query(d, routes=(Route("near", PHONE.node), Route("near", PHONE.node))), "deployment-route"),
        (lambda d: query(d, routes=(Route("near", PHONE.node, 0, ()),)), "deployment-route"),
        (lambda d: query(d, routes=(Route("near", PHONE.node, 0, ((Hop(PHONE.node),),)),)), "deployment-route"),
        (lambda d: query(d, routes=(Route("near", PHONE.node, 0, ((Hop(peer(9).node),),)),)), "deployment-host"),
        (
            lambda d: query(d, routes=(Route("near", PHONE.node, 0, ((Hop(HUB.node),), (Hop(HUB.node),))),)),
            "deployment-host",
        ),
        (lambda d: placed(d, hosts=()), "deployment-host"),
        (lambda d: placed(d, hosts=(peer(9).node,)), "deployment-host"),
        (lambda d: placed(d, keepers=(peer(9).node,)), "deployment-host"),
        (lambda d: replace(d, peers=(PHONE, replace(HUB, capacity=1), BACKUP)), "deployment-capacity"),
        (lambda d: replace(d, peers=(PHONE, replace(HUB, operators=()), BACKUP)), "deployment-operator"),
        (lambda d: placed(d, hosts=(BACKUP.node,)), "deployment-operator"),
        (lambda d: placed(d, vertex="half"), "deployment-vertex"),
        (lambda d: query(d, placements=d.queries[0].placements[:1]), "deployment-vertex"),
        (lambda d: query(d, placements=(*d.queries[0].placements, d.queries[0].placements[0])), "deployment-vertex"),
        (lambda d: query(d, plan=hot("arrival")), "deployment-arrival"),
        (lambda d: query(d, feeds=(Feed("near", "hot", "hot"),)), "deployment-feed"),
        (lambda d: query(d, feeds=(Feed("far", "other", "hot"),)), "deployment-feed"),
        (lambda d: replace(d, regions=(region(area=Area(((0.0, 0.0), (0.0, 1.0)))),)), "deployment-region"),
        (lambda d: replace(d, regions=(region(), region())), "deployment-region"),
        (lambda d: replace(d, regions=(region(feeds=(Feed("near", "later", "hot"),)),)), "deployment-region"),
        (lambda d: replace(d, regions=(region(sink=peer(9).node),)), "deployment-host"),
        (lambda d: replace(d, links=(Link((PHONE.node, peer(9).node), "wifi", 2),)), "deployment-link"),
        (lambda d: replace(d, links=(Link((PHONE.node, PHONE.node), "wifi", 2),)), "deployment-link"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(change: Callable[[Deployment], Deployment], code: str) -> None:
    changed = change(deployment())
    with pytest.raises(UsageError) as caught:
        check_deployment(changed)
    assert caught.value.code == code
    with pytest.raises(UsageError) as caught:
        decode_deployment(encode_deployment(changed))
    assert caught.value.code == code


def test_a_merge_that_is_logged_is_taken() -> None:
    check_deployment(query(deployment(), plan=hot("logged")))


def query(made: Deployment, **changed: Any) -> Deployment:
    return replace(made, queries=(replace(made.queries[0], **changed), *made.queries[1:]))


def placed(made: Deployment, **changed: Any) -> Deployment:
    first, *others = made.queries[0].placements
    return query(made, placements=(replace(first, **changed), *others))


def damaged(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(encode_deployment(deployment()))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d.update(format=2), "deployment-format"),
        (lambda d: d.update(format=True), "deployment-format"),
        (lambda d: d.pop("format"), "deployment-json"),
        (lambda d: d.pop("lease"), "deployment-json"),
        (lambda d: d.update(extra=1), "deployment-json"),
        (lambda d: d.update(version=0), "deployment-json"),
        (lambda d: d.update(version=True), "deployment-json"),
        (lambda d: d.update(lease=2**32), "deployment-json"),
        (lambda d: d.update(node="HUB"), "deployment-json"),
        (lambda d: d.update(peers=[{}] * 1_001), "deployment-json"),
        (lambda d: d["peers"][0].update(public_key="00"), "deployment-json"),
        (lambda d: d["peers"][0].update(curve_key="'" * 40), "deployment-json"),
        (lambda d: d["peers"][0].update(addresses=["ipc:///tmp/x"]), "deployment-json"),
        (lambda d: d["peers"][0].update(addresses=["tcp://host:70000"]), "deployment-json"),
        (lambda d: d["peers"][0].update(name="a\nb"), "deployment-json"),
        (lambda d: d["peers"][0].update(name="\ud800"), "deployment-json"),
        (lambda d: d["peers"][0].update(capacity=-1), "deployment-json"),
        (lambda d: d["peers"][0].update(lane=""), "deployment-json"),
        (lambda d: d["peers"][0].update(position=[91.0, 0.0]), "deployment-json"),
        (lambda d: d["peers"][0].update(position=[1.0]), "deployment-json"),
        (lambda d: d["peers"][0].update(position=["1", 0.0]), "deployment-json"),
        (lambda d: d["queries"][0].update(submitted=False), "deployment-json"),
        (lambda d: d["queries"][0].update(place=7), "deployment-json"),
        (lambda d: d.update(links=[{"nodes": [PHONE.node], "lane": "wifi", "cost": 2}]), "deployment-json"),
        (lambda d: d.update(links=[{"nodes": [PHONE.node, HUB.node], "lane": "wifi", "cost": 0}]), "deployment-json"),
        (lambda d: d.update(links=[{}] * 10_001), "deployment-json"),
        (lambda d: d["queries"][0].update(plan="{}\ud800"), "deployment-json"),
        (lambda d: d["queries"][0].update(placements=[{"vertex": "v"}]), "deployment-json"),
        (lambda d: d["queries"][0].update(every=-1), "deployment-json"),
        (lambda d: d.update(moves=d["moves"] * 101), "deployment-json"),
        (lambda d: d["moves"][0].update(why=""), "deployment-json"),
        (lambda d: d["moves"][0].update(after=["a\x1b"]), "deployment-json"),
        (lambda d: d["moves"][0].update(at_us=-1), "deployment-json"),
        (lambda d: d["moves"][0].pop("term"), "deployment-json"),
    ],
)
def test_bytes_that_were_tampered_with_are_refused_by_name(
    change: Callable[[dict[str, Any]], object], code: str
) -> None:
    with pytest.raises(PeerError) as caught:
        decode_deployment(damaged(change))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"3", b'{"format":1}', b" " * (DEPLOYMENT_BYTES_MAX + 1)]
)
def test_bytes_that_are_no_deployment_are_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode_deployment(data)


@examples_drawn(60, 1_000, st.data())
def test_random_damage_never_raises_anything_but_our_errors(data: st.DataObject) -> None:
    encoded = bytearray(encode_deployment(deployment()))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError, UsageError):
        decode_deployment(bytes(encoded))
