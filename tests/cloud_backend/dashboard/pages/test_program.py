"""The program's page: what runs, and a changed one tried dry before it is deployed."""

from __future__ import annotations

import json

from shared.plan.encoding import decode_plan, encode_plan
from tests.cloud_backend.dashboard.house import program


def test_a_changed_program_is_tried_dry_and_then_deployed(dashboard):
    operator = dashboard.browser("operator")
    shown = operator.get("/program").text
    assert "The program, version 1" in shown
    assert "2 devices" in shown
    text = encode_plan(program(window="7m")).decode()
    dry = operator.post("/program", data={"text": text, "dry_run": "yes"})
    assert dry.status_code == 200
    assert "version 2 in the place of 1" in dry.text
    assert "Vertex &#39;my_trips&#39; starts anew" in dry.text
    assert decode_plan(dashboard.settings.plan.read_bytes()).version == 1
    done = operator.post("/program", data={"text": text})
    assert done.status_code in (200, 303)
    assert decode_plan(dashboard.settings.plan.read_bytes()).version == 2
    dashboard.gateway.downlink.refresh()
    assert dashboard.gateway.downlink.plan_version == 2  # what phones are told with their next exchange
    assert operator.get("/v1/api/program").json()["version"] == 2


def test_what_is_no_plan_is_refused_in_words(dashboard):
    operator = dashboard.browser("operator")
    for text in ("", "[]", "{", json.dumps({"format": 1})):
        refused = operator.post("/program", data={"text": text, "dry_run": "yes"})
        assert refused.status_code == 422
        assert "plan" in refused.text


def test_a_viewer_sees_the_program_and_no_form(dashboard):
    shown = dashboard.browser("viewer").get("/program").text
    assert "The program, version 1" in shown
    assert "Deploy a changed program" not in shown
