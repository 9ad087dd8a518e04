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


def test_a_group_is_made_gets_a_program_of_its_own_and_loses_it_again(dashboard):
    operator = dashboard.browser("operator")
    assert "Groups" not in operator.get("/program").text
    device = dashboard.gateway.roster.entries()[0]
    page = f"/devices/{device.device.hex()}"
    done = operator.post(f"{page}/group", data={"group": "pilots"})
    assert done.status_code in (200, 303)
    assert "pilots" in operator.get(page).text
    listed = operator.get("/devices?group=pilots").text
    assert device.name in listed
    assert dashboard.gateway.roster.entries()[1].device.hex() not in listed
    assert operator.get(f"/v1/api{page}").json()["group"] == "pilots"
    text = encode_plan(program(good=20.0)).decode()
    form = {"text": text, "group": "pilots"}
    dry = operator.post("/program", data={**form, "dry_run": "yes"})
    assert "Dry run for group pilots: version 2 in the place of 1" in dry.text
    assert "the 1 device of group &#39;pilots&#39;" in dry.text
    assert operator.post("/program", data=form).status_code in (200, 303)
    (group,) = operator.get("/v1/api/program").json()["groups"]
    assert group == {"name": "pilots", "devices": 1, "version": 2, "running": 0}
    assert decode_plan(dashboard.settings.plan.read_bytes()).version == 1  # Spark and all others go on with theirs
    assert "its own, version 2, on 0 so far" in operator.get("/program").text
    refused = operator.post("/program", data={**form, "text": encode_plan(program(window="7m")).decode()})
    assert refused.status_code == 422
    assert operator.post("/groups/pilots/withdraw", data={}).status_code in (200, 303)
    assert operator.get("/v1/api/program").json()["groups"][0]["version"] is None
    assert operator.post(f"{page}/group", data={"group": "No Group!"}).status_code == 422
