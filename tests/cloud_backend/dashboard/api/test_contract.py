"""The API answers as its OpenAPI document says, over a gateway that has devices, results and a query to find."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.cloud_backend.dashboard.house import EDGE_HEX, House

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SQL = "SELECT device, count(*) AS n FROM gps GROUP BY TUMBLE(10 SECONDS), device"
BOUNDED = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.fixture
def served(tmp_path):
    """A house at an address of its own, with a query that runs."""
    house = House(Path(tmp_path) / "house")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(house.app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    house.browser("admin").post("/v1/api/queries", json={"name": "counts", "sql": SQL})
    yield house, f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    listener.close()
    house.close()


@pytest.mark.parametrize(
    "examples",
    [pytest.param(3, id="few"), pytest.param(60, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
)
def test_no_generated_request_gets_an_undocumented_answer(served, examples):
    house, address = served
    token = (house.settings.home / "operator.token").read_text().strip()
    known = {
        "device": [device.hex() for device in house.phones], "edge": [EDGE_HEX], "sink": ["my_trips"], "number": [1],
        "name": ["main", "counts", "admin"],
    }  # fmt: skip
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    statuses: Counter[tuple[str, int]] = Counter()
    for operation, mode in itertools.product(operations, (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)):
        takes_something = operation.body or operation.query or operation.path_parameters
        if not operation.path.startswith("/v1/api") or (mode is GenerationMode.NEGATIVE and not takes_something):
            continue

        @settings(max_examples=examples, **BOUNDED)
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def check(case, data):
            if case.meta.generation.mode is GenerationMode.POSITIVE:
                for name in case.path_parameters or {}:
                    if name in known and not data.draw(st.booleans()):  # half is about something that is there
                        case.path_parameters[name] = data.draw(st.sampled_from(known[name]))
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
            response = case.call_and_validate(checks=CHECKS)
            statuses[case.operation.path, response.status_code] += 1

        check()
    assert len({path for path, _ in statuses}) > 35
    found = {path for path, status in statuses if status == 200}
    assert {"/v1/api/devices/{device}", "/v1/api/results/{sink}", "/v1/api/streams/{edge}"} <= found
