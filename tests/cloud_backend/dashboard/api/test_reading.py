"""What the API tells, to whom."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as parquet
import pytest

from tests.cloud_backend.dashboard.house import EDGE_HEX, LAT, LON, every_route


@pytest.fixture(scope="module")
def viewer(house):
    return house.browser("viewer")


@pytest.fixture(scope="module")
def operator(house):
    return house.browser("operator")


def test_the_devices_are_listed_with_their_account(operator, house):
    [bus, tram] = operator.get("/v1/api/devices").json()["devices"]
    assert (bus["name"], tram["name"]) == ("bus-12", "tram-07")
    assert (tram["delivered"], tram["ledgered"], tram["buffered"]) == (6, 2, 4)
    assert tram["state"] == "enrolled"
    assert tram["status"] == {"produced": 12, "incarnation": 1}


def test_one_device_has_edges_and_a_trail(operator, house):
    operator.get("/v1/api/streams")  # the history follows the log
    device = house.phones[0].hex()
    found = operator.get(f"/v1/api/devices/{device}").json()
    assert [(edge["name"], edge["high_water"], edge["ledgered"]) for edge in found["edges"]] == [("gps", 8, 2)]
    assert found["trail"][0][1:] == [LAT + 5 / 1e4, LON]
    assert operator.get(f"/v1/api/devices/{device}/trail").json()["trail"] == found["trail"]


def test_a_stream_says_how_far_it_is_and_what_it_lacks(operator):
    [gps] = operator.get("/v1/api/streams").json()["streams"]
    assert (gps["name"], gps["edge"], gps["devices"], gps["ledgered"]) == ("gps", EDGE_HEX, 2, 4)
    assert 0 <= gps["lag_s"] < 60
    found = operator.get(f"/v1/api/streams/{EDGE_HEX}?hours=2").json()
    assert len(found["hours"]) == 2
    assert sum(hour["elements"] for device in found["devices"] for hour in device["hours"]) == 12
    assert {entry["reason"] for entry in found["ledger"]} == {"evicted"}


def test_batches_are_shown_decoded_and_page_by_page(operator, house):
    first = operator.get(f"/v1/api/streams/{EDGE_HEX}/batches?limit=1").json()
    [batch] = first["batches"]
    assert batch["columns"] == ["time_us", "lat", "lon", "accuracy"]
    assert batch["values"][0][1:] == [LAT, LON, 5.0]
    second = operator.get(f"/v1/api/streams/{EDGE_HEX}/batches?limit=1&before={first['before']}").json()
    assert second["batches"][0]["device"] != batch["device"]
    device = house.phones[0].hex()
    only = operator.get(f"/v1/api/streams/{EDGE_HEX}/batches?device={device}").json()["batches"]
    assert [each["device"] for each in only] == [device]


def test_the_ledger_names_every_range(operator):
    ledger = operator.get("/v1/api/ledger").json()
    assert ledger["ledgered"] == 4
    assert [(entry["lo"], entry["hi"], entry["edge_name"]) for entry in ledger["ranges"]] == [(6, 8, "gps")] * 2
    assert ledger["quarantined"] == []


def test_results_are_listed_paged_and_exported(operator, house):
    assert operator.get("/v1/api/results").json()["sinks"] == [
        {"sink": "my_trips", "rows": 2, "query": None, "last_us": house.now_us}
    ]
    rows = operator.get("/v1/api/results/my_trips").json()["rows"]
    assert [row["values"]["lat"] for row in rows] == [LAT, LAT]
    table = list(csv.DictReader(io.StringIO(operator.get("/v1/api/results/my_trips/export").text)))
    assert {row["device"] for row in table} == {device.hex() for device in house.phones}
    assert float(table[0]["lat"]) == LAT
    answer = operator.get("/v1/api/results/my_trips/export?format=parquet")
    assert parquet.read_table(io.BytesIO(answer.content)).column("points").to_pylist() == [6, 6]
    geo = operator.get("/v1/api/results/my_trips/export?format=geojson").json()
    assert geo["features"][0]["geometry"] == {"type": "Point", "coordinates": [LON, LAT]}
    gpx = operator.get("/v1/api/results/my_trips/export?format=gpx")
    assert gpx.headers["content-disposition"] == 'attachment; filename="my_trips.gpx"'
    assert f'<trkpt lat="{LAT}" lon="{LON}">' in gpx.text


@pytest.mark.parametrize(
    "address",
    [
        "/v1/api/devices",
        "/v1/api/devices/{device}",
        "/v1/api/devices/{device}/trail",
        f"/v1/api/streams/{EDGE_HEX}/batches",
        "/v1/api/results/my_trips",
        "/v1/api/results/my_trips/export?format=csv",
        "/v1/api/results/my_trips/export?format=geojson",
        "/v1/api/results/my_trips/export?format=gpx",
        "/v1/overview",
    ],
)
def test_a_viewer_gets_no_place_finer_than_a_kilometre(viewer, operator, house, address):
    house.browser("operator").get("/v1/api/streams")
    address = address.format(device=house.phones[0].hex())
    exact, coarse = operator.get(address).text, viewer.get(address).text
    assert "47.376" in exact or "47.377" in exact
    assert "47.37" not in coarse.replace("47.38", "")
    assert "8.54" in coarse
    assert "8.5416" not in coarse


def test_a_viewers_parquet_is_coarse_too(viewer):
    answer = viewer.get("/v1/api/results/my_trips/export?format=parquet")
    table = parquet.read_table(io.BytesIO(answer.content))
    assert table.column("lat").to_pylist() == [47.38, 47.38]


def test_who_asks_is_told_who_they_are(viewer):
    assert viewer.get("/v1/api/me").json()["role"] == "viewer"


def test_the_audit_log_tells_who_signed_in_and_verifies(operator):
    lines = operator.get("/v1/api/audit").json()["lines"]
    assert ("operator", "signed-in-by-link") in {(line["person"], line["action"]) for line in lines}
    assert any(line["person"] == "gateway" and line["action"] == "enrolled" for line in lines)
    assert operator.get("/v1/api/audit/verify").json()["sound"]


def test_jobs_are_named_before_they_have_run(operator):
    assert [job["name"] for job in operator.get("/v1/api/jobs").json()["jobs"]] == ["main"]
    assert operator.get("/v1/api/jobs/main").status_code == 409
    assert operator.get("/v1/api/jobs/other").json()["code"] == "job-unknown"


def test_the_document_describes_every_route_of_the_api(operator, house):
    document = operator.get("/openapi.json").json()
    api = {route.path for route in every_route(house.app) if route.path.startswith("/v1/api")}
    assert len(api) > 30
    assert api <= set(document["paths"])
    assert all(
        operation.get("summary") and "401" in operation["responses"]
        for path, operations in document["paths"].items()
        if path.startswith("/v1/api")
        for operation in operations.values()
    )
    assert json.dumps(document)
