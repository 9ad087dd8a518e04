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

from cloud_backend.gateway.operations import operator_token
from tests.processes.gateway_process import GatewayProcess

pytestmark = pytest.mark.processes


@schemathesis.serializer("application/vnd.resurge.exchange")
def exchange_body(_context, value):
    """A body is bytes; what the fuzzer made of it is sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


CAN_BE_WRONG = {"/v1/enrol", "/v1/overview"}  # the others take no parameters, or any bytes
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_no_generated_request_gets_an_undocumented_answer(tmp_path: Path, capsys):
    options = ["--rate", "1000000", "--failures", "1000000", "--results", str(tmp_path / "results.sqlite")]
    with GatewayProcess(tmp_path / "home", *options) as gateway:
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{gateway.port}/openapi.json")
        token = operator_token(tmp_path / "home")
        statuses: Counter[tuple[str, int]] = Counter()
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation, mode in itertools.product(operations, (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)):
            if mode is GenerationMode.NEGATIVE and operation.path not in CAN_BE_WRONG:
                continue

            @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case):
                case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
                response = case.call_and_validate(checks=CHECKS)
                statuses[case.operation.path, response.status_code] += 1

            check()
    with capsys.disabled():
        print(f" [{sum(statuses.values())} generated requests: {dict(sorted(statuses.items()))}]", end="")
    assert {path for path, _ in statuses} >= {"/v1/enrol", "/v1/exchange", "/v1/account", "/metrics", "/healthz"}
