"""The gateway answers as its OpenAPI document says, for requests that a fuzzer makes from that document."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cloud_backend.gateway.operator_routes import operator_token
from tests.processes.gateway_process import GatewayProcess

pytestmark = pytest.mark.processes


@schemathesis.serializer("application/vnd.resurge.exchange")
def exchange_body(_context, value):
    """A body is bytes; what the fuzzer made of it is sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


CAN_BE_WRONG = {"/v1/enrol", "/v1/overview"}  # the others take no parameters, or any bytes
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def summary(statuses: Counter[tuple[str, int]]) -> str:
    by_status: Counter[int] = Counter()
    for (_, status), count in statuses.items():
        by_status[status] += count
    paths = {path for path, _ in statuses}
    return f"{sum(by_status.values())} generated requests to {len(paths)} paths: {dict(sorted(by_status.items()))}"


@pytest.mark.parametrize("examples", [15, pytest.param(40, marks=pytest.mark.soak)])
def test_no_generated_request_gets_an_undocumented_answer(tmp_path: Path, claim, examples: int):
    statuses = fuzz(tmp_path, examples=examples, api=False)
    claim(summary(statuses))
    assert {path for path, _ in statuses} >= {"/v1/enrol", "/v1/exchange", "/v1/account", "/metrics", "/healthz"}


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_no_generated_request_to_the_api_gets_an_undocumented_answer(tmp_path: Path, claim):
    statuses = fuzz(tmp_path, examples=20, api=True)
    claim(summary(statuses))
    assert len({path for path, _ in statuses}) > 30


def fuzz(tmp_path: Path, *, examples: int, api: bool) -> Counter[tuple[str, int]]:
    """Ask every operation, of the API or all others, what its description allows and, where it can be wrong, what not."""
    options = ["--rate", "1000000", "--failures", "1000000", "--results", str(tmp_path / "results.sqlite")]
    options += ["--jobs", str(tmp_path / "jobs")]
    statuses: Counter[tuple[str, int]] = Counter()
    with GatewayProcess(tmp_path / "home", *options) as gateway:
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{gateway.port}/openapi.json")
        token = operator_token(tmp_path / "home")
        found = [result.ok() for result in schema.get_all_operations()]
        operations = [each for each in found if each.path.startswith("/v1/api") == api]
        for operation, mode in itertools.product(operations, (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)):
            takes_something = operation.body or operation.query or operation.path_parameters
            if mode is GenerationMode.NEGATIVE and not (takes_something if api else operation.path in CAN_BE_WRONG):
                continue

            @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case):
                case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
                response = case.call_and_validate(checks=CHECKS)
                statuses[case.operation.path, response.status_code] += 1

            check()
    return statuses
