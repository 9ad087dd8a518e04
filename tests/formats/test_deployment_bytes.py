"""A deployment as the first release wrote it: nodes keep theirs on disk and read it after every start.

`deployment_v1.json` holds the deployment of one node and the bytes that its coordinator signed, as digests.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import resurge as rs
from resurge import col
from shared.errors import PeerError, UsageError
from shared.identity import device_id
from shared.moves import Move
from shared.plan.cuts import region_vertices
from shared.plan.deployment import (
    Deployment,
    Hop,
    HostedQuery,
    Link,
    Peer,
    Placement,
    Route,
    Spooling,
    decode_deployment,
    encode_deployment,
    query_origin,
)

FROZEN = Path(__file__).with_name("deployment_v1.json")
MOVE = Move(1_794_817_500_000_000, "room", "mean", 6, ("node 2",), ("node 3",), "node 2 is silent")
MOVES = (  # as the first version with a history wrote it; a deployment without one has no such key
    b'{"after":["node 3"],"at_us":1794817500000000,"before":["node 2"],"query":"room","term":6,"vertex":"mean",'
    b'"why":"node 2 is silent"}'
)


def peer(number: int, **more: object) -> Peer:
    key = bytes([number]) * 32
    address = f"tcp://192.0.2.{number}:7300"
    return Peer(
        device_id(key).hex(), f"node {number}", key, "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", (address,), **more
    )  # type: ignore[arg-type]


def deployment() -> Deployment:
    phone, hub, laptop = peer(1), peer(2, capacity=4, operators=("ecg_band@1", "qrs@1")), peer(3)
    near = rs.stream("x", {"v": "float64"}).gather("near", batch=30, within="2s", contract=rs.lossless(delay="5s"))
    mean = near.where(col.v > 1.5).key_by(merge="logged").tumbling("1m").aggregate(v=rs.mean("v"))
    plan = rs.plan_of(mean.subscribe("mean"), mean.sync("up"), version=3, name="room")
    placed = tuple(
        Placement(vertex.name, (hub.node,), (phone.node, laptop.node), 5) for vertex in region_vertices(plan)
    )
    query = HostedQuery("room", 2, plan, "ecoc", 500, (phone.node, laptop.node), laptop.node, placed)
    return Deployment(hub.node, 7, 3, (phone, hub, laptop), (query,))


def test_a_deployment_of_the_first_release_is_read_as_it_was_meant() -> None:
    frozen = FROZEN.read_bytes()
    made = deployment()
    found = decode_deployment(frozen)
    assert encode_deployment(found) == frozen
    assert (found.node, found.version, found.lease, found.peers) == (made.node, 7, 3, made.peers)
    (query,), (wanted,) = found.queries, made.queries
    assert (query.name, query.incarnation, query.row, query.every) == ("room", 2, "ecoc", 500)
    assert (query.sources, query.placements) == (wanted.sources, wanted.placements)
    assert [(node.operator, node.inputs) for node in query.plan.nodes] == [
        (node.operator, node.inputs) for node in wanted.plan.nodes
    ]


def test_the_moves_in_a_deployment() -> None:
    encoded = encode_deployment(replace(deployment(), moves=(MOVE,)))
    assert b'"moves":[' + MOVES + b"]" in encoded
    assert decode_deployment(encoded).moves == (MOVE,)
    assert "moves" not in json.loads(encode_deployment(deployment()))


def test_a_vertex_that_moves_or_was_handed_over() -> None:
    """Two keys of a placement that only such a one has."""
    made = deployment()
    (query,) = made.queries
    first, *others = query.placements
    laptop = made.peers[2].node
    for moving, text in (
        (replace(first, to=laptop), f'"term":5,"to":"{laptop}"'),
        (replace(first, handed=4711), '"handed":4711,"hosts"'),
    ):
        whole = replace(made, queries=(replace(query, placements=(moving, *others)),))
        encoded = encode_deployment(whole)
        assert text.encode() in encoded
        assert decode_deployment(encoded) == decode_deployment(encode_deployment(decode_deployment(encoded)))
        assert decode_deployment(encoded).queries[0].placements[0] == moving
    placed = json.loads(encode_deployment(made))["queries"][0]["placements"][0]
    assert placed.keys() == {"vertex", "hosts", "keepers", "term", "anew"}


def test_the_ways_of_a_deployment() -> None:
    (query,) = deployment().queries
    phone, hub, _ = deployment().peers
    routes = (Route("near", phone.node, 1, ((Hop(hub.node, 1),), ())),)
    wanted = replace(query, routes=routes, absent_s=300, forward="paths:2", retired=(query.plan,))
    encoded = encode_deployment(replace(deployment(), queries=(wanted,)))
    said = json.loads(encoded)["queries"][0]
    assert said["routes"] == [{"gather": "near", "source": phone.node, "upto": 1, "paths": [[[hub.node, 1]], []]}]
    assert (said["absent_s"], said["forward"], said["retired"]) == (300, "paths:2", [said["plan"]])
    (found,) = decode_deployment(encoded).queries
    assert (found.routes, found.absent_s, found.forward, found.paths) == (routes, 300, "paths:2", 2)
    assert encode_deployment(decode_deployment(encoded)) == encoded
    plain = json.loads(encode_deployment(deployment()))["queries"][0]
    assert not plain.keys() & {"routes", "absent_s", "forward", "retired"}


def test_the_alternates_of_a_way() -> None:
    (query,) = deployment().queries
    phone, hub, laptop = deployment().peers
    route = Route("near", phone.node, 0, ((Hop(hub.node, 1),),), ((), (Hop(laptop.node),)))
    encoded = encode_deployment(replace(deployment(), queries=(replace(query, routes=(route,)),)))
    (said,) = json.loads(encoded)["queries"][0]["routes"]
    assert (said["paths"], said["alternates"]) == ([[[hub.node, 1]]], [[], [[laptop.node, 0]]])
    (found,) = decode_deployment(encoded).queries
    assert found.routes == (route,)
    assert encode_deployment(decode_deployment(encoded)) == encoded


def test_the_detours_of_a_way() -> None:
    (query,) = deployment().queries
    phone, hub, laptop = deployment().peers
    route = Route("near", phone.node, 0, ((Hop(hub.node, 1),),), (), ((Hop(hub.node, 1), Hop(laptop.node)),))
    encoded = encode_deployment(replace(deployment(), queries=(replace(query, routes=(route,)),)))
    (said,) = json.loads(encoded)["queries"][0]["routes"]
    assert said["detours"] == [[[hub.node, 1], [laptop.node, 0]]]
    assert decode_deployment(encoded).queries[0].routes == (route,)
    for wrong in ((Hop(laptop.node),), (), (Hop(hub.node), Hop(phone.node))):  # each begins otherwise, or comes back
        again = encode_deployment(
            replace(deployment(), queries=(replace(query, routes=(replace(route, detours=(wrong,)),)),))
        )
        with pytest.raises(UsageError, match="detour"):
            decode_deployment(again)


def test_a_query_that_shares_what_devices_spool_for_another() -> None:
    (query,) = deployment().queries
    shared = Spooling("peaks", 4, True)
    encoded = encode_deployment(replace(deployment(), queries=(replace(query, shared=shared),)))
    assert b'"shared":["peaks",4,true]' in encoded
    (found,) = decode_deployment(encoded).queries
    assert (found.shared, found.spooling) == (shared, shared)
    assert "shared" not in json.loads(encode_deployment(deployment()))["queries"][0]
    with pytest.raises(PeerError, match="shared as a query"):
        decode_deployment(encoded.replace(b'["peaks",4,true]', b'["peaks",4]'))


def test_the_origin_of_a_query_never_changes() -> None:
    assert query_origin("room").hex() == "54ad1e60cc26ad9995e14f344f05c4b6"


def test_what_a_deployment_says_of_links_and_places_is_written_only_where_it_is_said() -> None:
    made = deployment()
    phone, hub, laptop = made.peers
    (query,) = made.queries
    hub = replace(hub, lane="wifi", position=(47.25, -8.5))
    encoded = encode_deployment(
        replace(
            made,
            peers=(phone, hub, laptop),
            queries=(replace(query, place="push-down", submitted=True),),
            links=(Link((phone.node, hub.node), "cellular", 10),),
        )
    )
    assert f'"links":[{{"cost":10,"lane":"cellular","nodes":["{phone.node}","{hub.node}"]}}]'.encode() in encoded
    assert b'"lane":"wifi"' in encoded
    assert b'"position":[47.25,-8.5]' in encoded
    assert b'"place":"push-down"' in encoded
    assert b'"submitted":true' in encoded
    found = decode_deployment(encoded)
    assert encode_deployment(found) == encoded
    assert (found.links[0].lane, found.peers[1].position, found.queries[0].submitted) == (
        "cellular",
        (47.25, -8.5),
        True,
    )
    plain = json.loads(encode_deployment(made))
    assert "links" not in plain
    assert plain["peers"][0].keys().isdisjoint({"lane", "position"})
    assert plain["queries"][0].keys().isdisjoint({"place", "submitted"})
