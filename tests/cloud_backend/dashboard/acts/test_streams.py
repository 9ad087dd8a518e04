"""The log knows a stream by its name: what devices sync and what a fleet syncs never have the same one."""

from __future__ import annotations

import json

import pytest

import resurge as rs
from shared.plan.cuts import device_streams
from shared.plan.encoding import decode_plan, encode_plan
from shared.sync.exchange import StatusReceived
from shared.wire.status import DeviceStatus, HostOffer
from tests.cloud_backend.dashboard.house import House, program


def on_nodes(stream: str) -> str:
    near = rs.sensor("noise", every="1s", columns={"db": "float64"}).gather("noise")
    up = near.sliding(count=5).aggregate(db=rs.mean("db")).sync(stream)
    return encode_plan(rs.plan_of(up.subscribe("loud"))).decode()


QUERY = {"name": "noise", "sink": "hub", "sources": ["hub"], "keepers": 0, "strategy": "ecoc"}
REGION = {"name": "stop", "sink": "hub", "sources": ["hub"], "center": "1.35,103.8", "radius_m": 20.0}


@pytest.mark.parametrize(("path", "asked"), [("queries", QUERY), ("regions", REGION)])
def test_a_fleet_and_the_devices_do_not_sync_under_one_name(dashboard: House, path: str, asked: dict[str, object]):
    offer = HostOffer("hub", "0" * 40, ("tcp://127.0.0.1:7301",), 8)
    dashboard.gateway.fleet.notice(StatusReceived(dashboard.phones[0], 1, DeviceStatus(offer=offer)))
    operator = dashboard.browser("operator")
    (edge,) = program().edges
    refused = operator.post(f"/v1/api/fleets/{path}", json=asked | {"plan": on_nodes(edge.name)})
    assert (refused.status_code, refused.json()["code"]) == (422, "deployment-stream")
    assert repr(edge.name) in refused.text
    assert not dashboard.gateway.fleet.synced()
    assert device_streams(program()) == {edge.name}
    assert not device_streams(decode_plan(on_nodes(edge.name).encode())), (
        "the program of the query itself may be Spark's"
    )
    taken = operator.post(f"/v1/api/fleets/{path}", json=asked | {"plan": on_nodes("loudness")})
    assert taken.status_code == 200, taken.text
    assert dashboard.gateway.fleet.synced() == {"loudness": asked["name"]}
    written = json.loads(encode_plan(program()).replace(b'"gps"', b'"loudness"'))
    answer = operator.post("/v1/api/program", json={"plan": written, "dry_run": True})
    assert (answer.status_code, answer.json()["code"]) == (422, "program-stream")
