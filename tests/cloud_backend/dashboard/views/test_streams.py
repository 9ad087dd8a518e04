"""Whose word counts about a stream: its lag is that of who is there, its schema is the program's."""

from __future__ import annotations

import pytest

from cloud_backend.dashboard.views.streams import schemas, streams
from cloud_backend.log.format import Record
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.wire.frame import encode
from shared.wire.messages import Declare
from tests.cloud_backend.dashboard.house import GPS, House


@pytest.fixture
def sources(dashboard):
    return dashboard.app.state.sources


def declare(house: House, who: int, name: str, schema: Schema) -> None:
    device = house.phones[who]
    house.gateway.log.append([Record(house.now_us, encode(Declare(device, 1, edge_id(name), name, schema).frame()))])
    house.gateway.log.sync()


def test_one_device_that_declares_a_stream_anew_changes_nobody_s_query(dashboard, sources):
    before = dashboard.browser("viewer").post("/v1/api/queries/explain", json={"sql": "SELECT lat FROM gps"})
    declare(dashboard, 0, "gps", Schema.of({"lat": "str", "price": "int64"}))
    after = dashboard.browser("viewer").post("/v1/api/queries/explain", json={"sql": "SELECT lat FROM gps"})
    assert schemas(sources)["gps"].names == GPS.names
    assert after.status_code == 200
    assert after.json() == before.json()


def test_of_a_stream_that_is_not_the_program_s_most_devices_decide(dashboard, sources):
    dashboard.phones.append(dashboard.enrol("van-2"))
    for who, schema in enumerate(({"x": "float64"}, {"y": "str"}, {"x": "float64"})):
        declare(dashboard, who, "extra", Schema.of(schema))
    assert schemas(sources)["extra"].names == ("x",)


def test_an_odd_schema_breaks_no_other_stream(dashboard):
    declare(dashboard, 1, "odd name; --", Schema.of({"window_start": "int64", "x": "float64"}))
    answer = dashboard.browser("viewer").post("/v1/api/queries/explain", json={"sql": "SELECT lat FROM gps"})
    assert answer.status_code == 200, answer.text
    assert dashboard.browser("operator").get("/streams").status_code == 200


def test_a_device_out_of_contact_or_revoked_is_no_lag(dashboard, sources):
    [gps] = streams(sources)
    assert gps.lag_s is not None
    for device in dashboard.phones:
        dashboard.gateway.roster.revoke(device, dashboard.now_us)
    sources.look_again()
    [gps] = streams(sources)
    assert (gps.lag_s, gps.devices) == (None, 0)
    [listed] = dashboard.browser("viewer").get("/v1/api/streams").json()["streams"]
    assert listed["lag_s"] is None
