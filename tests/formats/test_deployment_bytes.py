"""A deployment as the first release wrote it: nodes keep theirs on disk and read it after every start.

`deployment_v1.json` holds the deployment of one node and the bytes that its coordinator signed, as digests.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import resurge as rs
from resurge import col
from shared.identity import device_id
from shared.moves import Move
from shared.plan.cuts import region_vertices
from shared.plan.deployment import (
    Deployment,
    HostedQuery,
    Peer,
    Placement,
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


def test_the_origin_of_a_query_never_changes() -> None:
    assert query_origin("room").hex() == "54ad1e60cc26ad9995e14f344f05c4b6"
